"""The arguments of the estimators and the constants of a recipe: their bounds, and that each has an effect."""

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from helpers.refusals import refuses, sentence_of

import softcut as sc
from softcut.clustering import PAPER, Recipe
from softcut.clustering import arguments as module
from softcut.clustering.arguments import LIMITS, batch_size_from, candidates_from, recipe_from, seed_from
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=100, n_clusters=3, n_features=40, edge_signal=0.9, seed=0)


# ------------------------------------------------------------------------------------------------ numbers


def test_auto_is_a_range():
    assert candidates_from("auto", 100, Recipe()) == tuple(range(2, 51))
    assert candidates_from(None, 100, Recipe()) == candidates_from("auto", 100, Recipe())
    assert candidates_from("auto", 3, Recipe()) == (2, 3)
    assert candidates_from("auto", 1, Recipe()) == (1,)
    assert candidates_from("auto", 100, Recipe(auto=(4, 6))) == (4, 6)
    assert candidates_from(range(2, 21), 100, Recipe()) == tuple(range(2, 21))
    assert candidates_from([4, 2, 2], 100, Recipe()) == candidates_from((2, 4), 4, Recipe()) == (2, 4)
    assert candidates_from(np.int64(5), 5, Recipe()) == (5,)


def test_random_state_takes_what_scikit_learn_takes():
    assert seed_from(5) == seed_from(np.uint32(5)) == 5
    assert (seed_from(0), seed_from(2**32 - 1)) == (0, 2**32 - 1)
    assert seed_from(None) != seed_from(None)
    assert seed_from(np.random.default_rng(3)) == np.random.default_rng(3).integers(2**32)
    state = np.random.RandomState(3)
    assert seed_from(np.random.RandomState(3)) == state.randint(0, 2**32 - 1, dtype=np.int64)
    for make in (np.random.RandomState, np.random.default_rng):
        state = make(3)
        assert seed_from(state) != seed_from(state), "a generator moves on"
        assert max(seed_from(state) for _ in range(50)) > 2**31, "all seeds may come"
    for wrong in (2**32, 2**64, -1):
        said = f"random_state must be between 0 and 4294967295 (2**32 - 1, as in NumPy), got {wrong}."
        assert sentence_of(ParameterError, seed_from, wrong) == said
    for wrong in (True, 1.0, "zero"):
        refuses(ParameterError, "random_state must be a whole number, None, a numpy", seed_from, wrong)


def test_arguments_become_constants_up_to_the_limits(monkeypatch):
    assert recipe_from(Recipe(), None, None, None, None) == Recipe()
    given = {"objective": "dmon", "networks": 3, "iterations": 7, "learning_rate": 0.5}
    assert recipe_from(PAPER, "dmon", 3, 7, 0.5) == replace(PAPER, **given)
    assert LIMITS == {"n_clusters": 10_000, "n_init": 10_000, "max_iter": 10_000_000}
    assert recipe_from(Recipe(), None, 10_000, 10_000_000, 1e-9).networks == 10_000
    assert recipe_from(Recipe(), None, 1, 1, np.float32(0.5)).iterations == 1
    assert candidates_from(10_000, 20_000, Recipe()) == (10_000,)
    said = r"n_init is 10001, above the limit of 10,000; .*LIMITS\['n_init'\]"
    refuses(ParameterError, said, recipe_from, Recipe(), None, 10_001, None, None)
    monkeypatch.setitem(module.LIMITS, "n_init", 10_001)
    assert recipe_from(Recipe(), None, 10_001, None, None).networks == 10_001


def test_batch_sizes():
    assert [batch_size_from(value, "evidence") for value in (None, "auto", 16)] == [None, "auto", 16]
    assert batch_size_from(None, "ratio_trace") is None
    for value in ("auto", 100):
        with pytest.raises(ParameterError, match="'ratio_trace' cannot be trained in batches; use 'mincut'"):
            batch_size_from(value, "ratio_trace")
    for wrong in (15, 0, "all", "none", 20.0, True):
        said = "batch_size must be a whole number of at least 16, None or 'auto'"
        refuses(ParameterError, said, batch_size_from, wrong, "evidence")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"n_clusters": 0},
            "n_clusters must be a whole number of at least 1, a range, 'auto' or None, got 0",
        ),
        ({"n_clusters": 101}, "n_clusters is 101 but the graph has only 100 nodes; ask for fewer clusters"),
        ({"n_clusters": "many"}, "n_clusters must be a whole number, a range, 'auto' or None, got 'many'"),
        ({"n_clusters": "all"}, "n_clusters must be a whole number, a range, 'auto' or None, got 'all'"),
        ({"n_clusters": True}, "n_clusters must be a whole number"),
        ({"n_clusters": range(3, 3)}, "n_clusters is an empty range"),
        ({"n_clusters": [2, 400]}, "n_clusters is 400 but"),
        ({"n_clusters": [0, 2]}, "n_clusters must be a whole number of at least 1"),
        *(({"callbacks": bad}, "callbacks must be a list of functions") for bad in (5, [5], print, "x")),
        *(({"device": bad}, "device must be 'auto', 'cpu', 'cuda'") for bad in (None, 5)),
        *(({"device": bad}, f"device '{bad}' cannot be used here") for bad in ("meta", "hpu", "")),
        ({"n_init": 0}, "n_init must be a whole number of at least 1, got 0"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, got 0"),
        ({"max_iter": 10**8}, "max_iter is 100000000, above the limit of 10,000,000"),
        ({"learning_rate": 0}, "learning_rate must be a positive number, got 0"),
        ({"learning_rate": -1}, "learning_rate must be a positive number, got -1"),
        ({"learning_rate": float("inf")}, "learning_rate must be a positive number"),
        ({"learning_rate": True}, "learning_rate must be a positive number"),
        ({"learning_rate": "fast"}, "learning_rate must be a positive number"),
        ({"objective": "ncut"}, "objective must be one of 'mincut', .*'evidence', got 'ncut'"),
        ({"recipe": {"width": 1}}, "recipe must be a softcut.clustering.Recipe or None"),
        ({"device": "abacus"}, "device"),
        ({"batch_size": 50, "objective": "ratio_trace"}, "cannot be trained in batches"),
    ],
)
def test_bad_arguments_name_themselves(graph, options, sentence):
    with pytest.raises(ParameterError, match=sentence) as caught:
        sc.GraphClustering(**{"n_clusters": 3, **options}).fit(graph)
    assert isinstance(caught.value, ValueError)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------- recipe

OTHER = {
    **{"start": "random", "select": "best", "batch_parts": "metis", "objective": "mincut", "tolerance": None},
    **{"paper": True, "refine": False},
}


def test_the_digest_changes_with_every_constant():
    digests = {Recipe().digest}
    for name, value in vars(Recipe()).items():
        other = (*value, 99) if isinstance(value, tuple) else OTHER[name] if name in OTHER else value * 2
        digests.add(replace(Recipe(), **{name: other}).digest)
    assert len(digests) == len(fields(Recipe)) + 1 and {len(digest) for digest in digests} == {12}


def test_what_compares_numbers_of_clusters_does_not_change_the_digest_for_one_number():
    one, same = Recipe().digest_of(several=False), set()
    for name, value in vars(Recipe()).items():
        other = (*value, 99) if isinstance(value, tuple) else OTHER[name] if name in OTHER else value * 2
        same |= {name} if replace(Recipe(), **{name: other}).digest_of(several=False) == one else set()
    compared = {"auto", "few_numbers", "spacing", "looks", "quick_sample", "quick_rounds"}
    compared |= {"trial_networks", "supported", "levels", "level_networks"}
    assert same == compared and one != Recipe().digest


@pytest.mark.parametrize(
    ("name", "wanted", "values"),
    [
        ("start", "'clusters' or 'random'", ["cold"]),
        ("objective", "'mincut' or ", [None]),
        ("refine", "True or False", [1]),
        ("networks", "a whole number of at least 1", [0]),
        ("large", "a whole number of at least 1", [2.0]),
        ("hidden", "a whole number of at least 0", [-1]),
        ("distances", "a tuple of rising whole numbers of at least 0", [(), (1, 1), [1, 2], (-1, 1)]),
        ("auto", "a tuple of rising whole numbers of at least 1", [(0, 1)]),
        ("width", "a positive number", [0.0, float("nan")]),
        ("fusion", "a number of at least 0", [None, True, -0.1]),
        ("restart", "a number from 0 to 1", [1.1]),
        ("edge_starts", "a number from 0 to 1", [-0.1]),
    ],
)
def test_values_that_mean_nothing_are_refused(name, wanted, values):
    for wrong in values:
        said = sentence_of(ParameterError, Recipe, **{name: wrong})
        assert said.startswith(f"{name} of a Recipe must be {wanted}") and said.endswith(f", got {wrong!r}.")


def test_the_least_values_are_accepted():
    least = Recipe(networks=1, steps=0, hidden=0, start_iterations=0, distances=(0,), auto=(1,), restart=1)
    assert replace(least, edge_starts=1.0, fusion=0, tolerance=None, width=1e-9).edge_starts == 1


def test_the_digest_of_the_papers_recipe_is_the_one_that_was_recorded():
    assert PAPER.digest_of(several=False) == "96cf10c7562a"
    edges = {"engine": 9, "some_deviations": 9.0, "clear_deviations": 9.0, "some_surplus": 0.9}
    other = replace(PAPER, **edges, clear_surplus=0.9)
    assert other.digest_of(several=False) == "96cf10c7562a", "it reads none of the constants of edges alone"
    assert other.digest != PAPER.digest


def test_recorded_results_are_those_of_these_constants():
    runs = json.loads((Path(__file__).parents[2] / "results/quality_runs.json").read_text())
    digests = {run["method"]: run["settings"].get("recipe") for run in runs}
    one, paper = (recipe.digest_of(several=False) for recipe in (Recipe(), PAPER))
    assert (one, paper) == (digests["default"], digests["the paper's model"])


@pytest.fixture(scope="module")
def usual(graph):
    return sc.GraphClustering(3, n_init=6, max_iter=30).fit(graph)


CHANGES = {
    **{"components": 5, "distances": (0, 2), "many_columns": 100, "longest_row": 0.5, "hidden": 3},
    **{"objective": "mincut", "iterations": 3, "learning_rate": 1e-4, "tolerance": 10.0, "temperature": 0.3},
    **{"start": "random", "start_iterations": 1, "edge_starts": 1.0, "start_restarts": 1, "start_rounds": 1},
    **{"least": 0.9, "hold": 5.0, "select": "best", "width": 0.02, "fusion": 0.0, "consensus_columns": 2},
    **{"refine": False, "ridge": 1.0, "restart": 0.9, "steps": 1, "large": 60},
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore:.*explain less")
def test_every_constant_changes_the_result(graph, usual, name):
    """A constant that never reaches the computation leaves the soft assignments as they are."""
    recipe = Recipe(**{"networks": 6, "iterations": 30, name: CHANGES[name]})
    recipe = replace(recipe, patience=2) if name == "tolerance" else recipe
    other = sc.GraphClustering(3, recipe=recipe).fit(graph)
    assert np.abs(usual.soft_ - other.soft_).max() > 1e-6


def test_arguments_come_before_the_recipe(graph, usual):
    same = sc.GraphClustering(3, n_init=6, max_iter=30, recipe=Recipe(networks=2, iterations=3)).fit(graph)
    np.testing.assert_array_equal(same.soft_, usual.soft_)


def test_the_papers_recipe_is_section_5_of_the_paper():
    assert PAPER.paper and PAPER.objective == "mincut"
    assert (PAPER.networks, PAPER.iterations, PAPER.learning_rate) == (10, 10_000, 5e-4)
    assert (PAPER.hidden, PAPER.ortho_weight, PAPER.temperature) == (16, 1.0, 1.0)
    assert (PAPER.distances, PAPER.start, PAPER.select) == ((0,), "random", "best")
    assert (PAPER.refine, PAPER.fusion, PAPER.tolerance) == (False, 0.0, None)
