"""Columns of several kinds: each has a say by what it holds."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering.feature_map import FeatureMap
from softcut.datasets import attributed_communities
from softcut.metrics import nmi
from softcut.metrics.features import presence
from softcut.tables.kinds import CATEGORY, NUMBER, WORD
from softcut.tables.scaling import scaled_rows

RNG = np.random.default_rng(0)
GRAPH = attributed_communities(300, 3, 8, 0, edge_signal=0.7, seed=1)
Y = GRAPH.y
SALARY = 40e3 + 8e3 * Y + 1e3 * RNG.standard_normal(300)
AGE = 30.0 + 9 * (Y == 1) + RNG.standard_normal(300)
CITY = np.eye(4)[RNG.integers(4, size=300)]
WORDS = (RNG.random((300, 60)) < np.where(np.arange(60) % 3 == Y[:, None], 0.3, 0.05)).astype(float)


def fit(*columns: np.ndarray) -> sc.GraphClustering:
    return sc.GraphClustering(3, random_state=0).fit(GRAPH.with_features(np.column_stack(columns)))


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e9])
def test_an_irrelevant_category_takes_nothing_from_numbers(unit):
    alone, beside = (nmi(Y, fit(*columns).labels_) for columns in ((SALARY, AGE), (SALARY * unit, AGE, CITY)))
    assert alone > 0.9
    assert beside > alone - 0.03


def test_noise_takes_nothing_from_words():
    assert (
        nmi(Y, fit(WORDS, 1e7 * RNG.standard_normal((300, 40))).labels_) > nmi(Y, fit(WORDS).labels_) - 0.05
    )


def test_a_wide_column_does_not_switch_others_off():
    good = np.column_stack([SALARY / 1e4, AGE, SALARY + AGE])
    assert nmi(Y, fit(good, 1e7 * RNG.standard_normal(300)).labels_) > 0.95


def test_outliers_do_not_hide_the_others():
    wild = np.column_stack([SALARY, AGE])
    wild[:6] *= 1e4
    assert nmi(Y[6:], fit(wild).labels_[6:]) > 0.9


def test_scaled_rows_of_each_kind():
    x = np.column_stack([SALARY, WORDS, CITY])
    kinds = [NUMBER, *[WORD] * 60, *[CATEGORY] * 4]
    graph = GRAPH.with_features(x)
    assert graph.kinds.tolist() == kinds
    made = FeatureMap.fit(graph.x, kinds=graph.kinds, adjacency=graph.adjacency)
    blocks = {kind: rows for at, rows in made._rows(graph.x) for kind in [int(made.kinds[at[0]])]}
    np.testing.assert_allclose(sp.linalg.norm(blocks[WORD], axis=1), np.ones(300), rtol=1e-5)
    others = blocks[NUMBER]
    np.testing.assert_allclose(others[:, 0], (SALARY - SALARY.mean()) / SALARY.std(), atol=1e-3)
    np.testing.assert_allclose(others[:, 1:].var(axis=0).sum(), 1, rtol=1e-4)  # a category is one column
    # Where distances are compared, words, a number and a category have a variance of 1 each.
    spread = scaled_rows(x, graph.kinds).var(axis=0)
    np.testing.assert_allclose([spread[:60].sum(), spread[60], spread[61:].sum()], np.ones(3), rtol=1e-3)
    # The number tells the communities, the city does not.
    say = made._say(graph.x, graph.adjacency)
    assert say[0] > 5 * say[-1] > 0
    assert say[1] > 5 * say[-1]
    np.testing.assert_allclose(say[-4:], say[-1])


def test_what_is_held_is_how_alike_neighbours_are():
    graph = sc.Graph.from_edges(
        [[0, 1, 2, 3], [1, 0, 3, 2]], x=[[1.0, 0, 1], [1, 1, 0], [-1, 0, 1], [-1, 1, 0]]
    )
    made = FeatureMap.fit(graph.x, kinds=np.array([NUMBER, CATEGORY, CATEGORY]), adjacency=graph.adjacency)
    # z'Az / z'Dz is 1 for the number and -1 for the category, less 2 / sqrt(edges) with two edges: nothing is held.
    np.testing.assert_array_equal(made._say(graph.x, graph.adjacency), np.ones(3))
    np.testing.assert_array_equal(made._say(graph.x, sp.csr_array((4, 4))), np.ones(3))  # nor without edges
    many = sc.Graph.batch([graph] * 50)
    made = FeatureMap.fit(many.x, kinds=made.kinds, adjacency=many.adjacency)
    np.testing.assert_allclose(made._say(many.x, many.adjacency)[0], np.sqrt(1 - 2 / 10), rtol=1e-6)


def test_large_graphs_are_projected_alike():
    x = np.column_stack([SALARY, AGE, WORDS, CITY]).astype(np.float32)
    graph = GRAPH.with_features(x)
    small, large = (
        FeatureMap.fit(graph.x, Recipe(large=limit), kinds=graph.kinds, adjacency=graph.adjacency)
        for limit in (300, 299)
    )
    a, b = small.transform(graph.x), large.project(graph.x, torch.device("cpu")).numpy()
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=2e-2 * np.abs(a @ a.T).max())


def test_the_judge_counts_words_values_and_bins():
    x = np.column_stack([AGE, WORDS[:, :12], CITY])
    kinds = GRAPH.with_features(x).kinds
    counted = presence(x, kinds).toarray()
    np.testing.assert_array_equal(counted[:, :16], np.column_stack([WORDS[:, :12], CITY]))
    np.testing.assert_array_equal(counted[:, 16:], presence(AGE[:, None]).toarray())


def test_models_keep_the_kinds(tmp_path):
    est = fit(SALARY, AGE, CITY)
    again = sc.GraphClustering.load(est.save(tmp_path / "model"))
    other = GRAPH.with_features(np.column_stack([SALARY, AGE, CITY])).subgraph(np.arange(100))
    np.testing.assert_array_equal(again.predict(other), est.predict(other))
