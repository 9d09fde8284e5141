"""Which numbers of clusters are compared, which is chosen, and the other levels."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import Recipe, fitting
from softcut.clustering.fitting import fit
from softcut.clustering.numbers import beside, best_of, choose, levels_of, spaced
from softcut.datasets import attributed_communities

GRAPH = attributed_communities(n_nodes=240, n_clusters=6, n_features=60, edge_signal=0.8, seed=0)


def said_for(score, structure=2.0):
    return {"score": score, "structure": structure, "agreement": 1.0, "description_length": 0.0}


def task(numbers, is_open=False, notes=None, **options):
    notes = [] if notes is None else notes
    recipe = options.pop("recipe", Recipe())
    numbers = tuple(numbers)
    return fitting.FitTask(numbers, is_open, recipe, 0, None, torch.device("cpu"), notes.append, **options)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        (range(2, 51), [2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50]),
        (range(2, 14), list(range(2, 14))),
        (range(2, 15), [2, 3, 4, 5, 6, 8, 10, 14]),
        (range(100, 121), [100, 120]),
        (range(1, 20), [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19]),
        ([2, 500], [2, 500]),
        (range(40, 201, 10), [40, 50, 60, 80, 100, 120, 150, 200]),
    ],
)
def test_of_many_numbers_those_that_rise_by_a_fifth_come_first(numbers, expected):
    assert spaced(numbers, Recipe()) == expected


def test_numbers_halfway_to_the_known_ones_around_the_best_come_next():
    numbers = range(2, 51)
    assert beside(22, [18, 22, 27], numbers) == [20, 24]
    assert beside(20, [18, 20, 22, 27], numbers) == [19, 21]
    assert beside(20, [18, 19, 20, 21, 22], numbers) == []
    assert beside(2, [2, 3, 4], numbers) == [] and beside(2, [2, 5], numbers) == [3]
    assert beside(50, [40, 50], numbers) == [45]
    assert beside(30, [10, 30, 40], range(10, 50, 10)) == [20], "only numbers that were asked for"


@pytest.mark.parametrize("best", [2, 7, 13, 21, 37, 50])
def test_the_highest_of_one_hill_is_found_without_comparing_all(best):
    compared = []

    def begun(k):
        return said_for(1 / (1 + abs(np.log(k / best))))

    found = choose(task(range(2, 51), comparing=compared.append), begun, begun)
    assert found.k == best and sorted(compared) == list(found.candidates)
    assert len(compared) == len(set(compared)) <= 24


def test_of_numbers_whose_clusters_pay_the_best():
    candidates = {2: said_for(0.3, 1.1), 3: said_for(0.4, 1.0), 9: said_for(0.9, 0.99)}
    assert best_of(candidates) == 3
    assert best_of({k: {**each, "structure": 0.5} for k, each in candidates.items()}) == 9
    assert best_of({4: said_for(0.5), 3: said_for(0.5)}) == 3, "of equals the smallest"


def test_levels_are_the_best_of_every_octave_around_the_chosen_number():
    scores = {
        2: 0.3,
        3: 0.4,
        4: 0.5,
        5: 0.6,
        7: 0.55,
        8: 0.9,
        15: 1.0,
        16: 0.9,
        31: 0.95,
        32: 0.7,
        50: 0.2,
        64: 0.1,
    }
    candidates = {k: said_for(score) for k, score in scores.items()}
    # Around 15 are 11 to 21, around twice as many 22 to 42, four times 43 to 84, a half 6 to 10, a quarter 3 to 5.
    assert levels_of(candidates, 15, Recipe()) == (2, 5, 8, 15, 31)
    assert levels_of(candidates, 15, Recipe(levels=9)) == (2, 5, 8, 15, 31, 50)
    assert levels_of(candidates, 64, Recipe()) == (5, 8, 15, 31, 64), (
        "the one that was chosen is always there"
    )
    assert levels_of(candidates, 15, Recipe(levels=2)) == (15, 31)
    assert levels_of(candidates, 15, Recipe(levels=1)) == (15,)
    candidates[8]["structure"] = candidates[2]["structure"] = 0.9
    assert levels_of(candidates, 15, Recipe()) == (5, 7, 15, 31, 50), "none that costs more than it explains"
    assert levels_of({1: said_for(0.0), 2: said_for(0.5), 3: said_for(0.6)}, 3, Recipe()) == (2, 3)


def test_one_only_where_nothing_pays():
    def begun(k):
        return said_for(float(k), 0.9 + 0.2 * (k == 22))

    assert choose(task(range(2, 51), True), begun, lambda k: begun(k)).k == 22
    nothing = choose(task(range(2, 51), True), lambda k: said_for(1.0, 0.9), lambda k: said_for(1.0, 0.95))
    assert (nothing.k, nothing.levels) == (1, (1,))
    assert choose(task(range(2, 51)), lambda k: said_for(1 / k, 0.9), lambda k: said_for(1.0, 0.9)).k == 2


def test_a_number_that_is_given_is_not_judged():
    assert choose(task([7]), None, None) == (7, {}, (7,))


def test_there_is_a_fit_for_every_level():
    parts = (np.pad(GRAPH.adjacency.toarray(), (0, 1)), np.pad(GRAPH.x.toarray(), ((0, 1), (0, 0))))
    silent = sc.Graph(*map(sp.csr_array, parts))
    fitted = fit(silent, task(range(2, 25), is_open=True))
    k, levels = fitted.soft.shape[1], fitted.levels
    assert list(levels.marks) == sorted(set(levels.marks)) and levels.marks[levels.chosen] == k
    assert 2 <= len(levels.marks) <= 5 and levels.labels.shape == (len(levels.marks), 241)
    np.testing.assert_array_equal(levels.labels[levels.chosen][:-1], fitted.soft[:-1].argmax(1))
    assert (levels.labels[:, -1] == -1).all()
    for coarse, fine in itertools.pairwise(levels.labels):
        assert len(np.unique(fine)) > len(np.unique(coarse))
        assert len(np.unique([coarse, fine], axis=1).T) == len(np.unique(fine)), "each lies inside one"
    alone = fit(silent, task(range(2, 25)))
    assert alone.levels.marks == (float(k),) and np.array_equal(alone.soft, fitted.soft)
    assert fit(silent, task([6])).levels.marks == (6.0,)
