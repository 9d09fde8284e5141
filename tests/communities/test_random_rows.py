"""Rows without clusters keep scales, shapes and what goes together, and close the gaps."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs, make_moons

from softcut.communities.moves import modularity, optimise
from softcut.communities.network import Network
from softcut.communities.random_rows import (
    neighbour_graph_without_clusters,
    rows_without_clusters,
    unimodal,
    unimodal_quantiles,
)
from softcut.graph import Graph
from softcut.tables.kinds import CATEGORY, NUMBER, WORD

EVEN = (np.arange(2000) + 0.5) / 2000


def numbers(f):
    return np.full(f, NUMBER)


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential", "lognormal", "standard_t"])
def test_a_column_with_one_mode_keeps_its_quantiles(name):
    rng = np.random.default_rng(0)
    values = getattr(rng, name)(**({"df": 3} if name == "standard_t" else {}), size=1500)
    drawn = unimodal_quantiles(values, EVEN)
    deciles = np.linspace(0.05, 0.95, 19)
    assert np.abs(np.quantile(values, deciles) - np.quantile(drawn, deciles)).max() < 0.1 * values.std()
    assert drawn[0] >= values.min() and drawn[-1] <= values.max()
    assert (np.diff(drawn) >= 0).all()


def test_gaps_close():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=500), rng.normal(10, 1, size=500)])
    drawn = unimodal_quantiles(values, EVEN)
    assert ((drawn > 3) & (drawn < 7)).mean() > 0.2


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=25), st.integers(1, 5))
def test_a_fitted_distribution_rises_then_falls_in_slope_and_is_as_near_as_can_be(rises, width):
    if sum(rises) == 0:
        rises = [1, *rises]
    heights = np.concatenate([[0], np.cumsum(rises)]) / sum(rises)
    knots = width * np.arange(len(heights), dtype=float)
    at, fitted = unimodal(knots, heights)
    slopes = np.diff(fitted) / np.diff(at)
    assert fitted[0] == 0 and fitted[-1] == pytest.approx(1)
    top = int(slopes.argmax())
    assert (np.diff(slopes[: top + 1]) >= -1e-9).all() and (np.diff(slopes[top:]) <= 1e-9).all()

    def distance(mode):  # the hulls by brute force: at each knot the lowest and the highest chord
        far = 0.0
        for i in range(len(knots)):
            low, high = (0, mode) if i <= mode else (mode, len(knots) - 1)
            chords = [
                heights[a] + (heights[b] - heights[a]) * (i - a) / max(b - a, 1)
                for a in range(low, i + 1)
                for b in range(i, high + 1)
            ]
            hull = min(chords) if i <= mode else max(chords)
            far = max(far, abs(hull - heights[i]))
        return far

    assert np.abs(fitted - heights).max() == pytest.approx(min(map(distance, range(len(knots)))), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 1000), st.sampled_from([1, 2, 100]))
def test_any_numbers_give_rows_in_their_range(n, f, seed, levels):
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, levels, (n, f)) * 1.5).astype(np.float32)
    drawn = rows_without_clusters(x, numbers(f), seed)
    assert drawn.shape == x.shape and drawn.dtype == np.float32 and np.isfinite(drawn).all()
    assert (drawn >= x.min(axis=0) - 1e-4).all() and (drawn <= x.max(axis=0) + 1e-4).all()
    assert np.array_equal(drawn, rows_without_clusters(x, numbers(f), seed))


def test_columns_go_together_as_before():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(3000, 4))
    drawn = rows_without_clusters(np.exp(x), numbers(4), 0)
    before = np.corrcoef(np.argsort(np.argsort(x, axis=0), axis=0).T)
    after = np.corrcoef(np.argsort(np.argsort(drawn, axis=0), axis=0).T)
    assert np.abs(before - after).max() < 0.06
    wide = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 600))  # more columns than rows
    after = np.corrcoef(rows_without_clusters(wide, numbers(600), 0).T)
    assert np.abs(np.corrcoef(wide.T) - after).mean() < 0.06


def test_whole_numbers_and_frequent_values_stay():
    rng = np.random.default_rng(0)
    counts = rng.poisson(3, 1000) * 0.5
    drawn = unimodal_quantiles(counts, EVEN)
    assert np.array_equal(drawn * 2, np.round(drawn * 2))
    assert np.abs(np.bincount((drawn * 2).astype(int), minlength=15)[:15] / 2000 - np.bincount(
        (counts * 2).astype(int), minlength=15)[:15] / 1000).max() < 0.02  # fmt: skip
    flags = (rng.random(500) < 0.3).astype(float)
    drawn = unimodal_quantiles(flags, EVEN)
    assert set(drawn) == {0.0, 1.0} and drawn.mean() == pytest.approx(flags.mean(), abs=0.001)
    for at in (0.0, 2.0):  # rain: many days have none; the same in the middle of a column
        rain = np.where(rng.random(1000) < 0.4, at, rng.exponential(2, 1000))
        drawn = unimodal_quantiles(rain, EVEN)
        assert (drawn == at).mean() == pytest.approx((rain == at).mean(), abs=0.002)
        assert np.abs(np.quantile(drawn, [0.2, 0.5, 0.9]) - np.quantile(rain, [0.2, 0.5, 0.9])).max() < 0.3


def test_columns_that_have_nothing_to_do_with_each_other_do_not_seem_to():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 40))
    drawn = np.concatenate([rows_without_clusters(x, numbers(40), seed) for seed in range(30)])
    other = np.corrcoef(drawn.T)
    assert np.sqrt((other[~np.eye(40, dtype=bool)] ** 2).mean()) < 0.06  # not 0.13, as in 60 rows


# -------------------------------------------------------------------- graphs of such rows


def best(network, resolution):
    rank = network.rank(0)
    labels, _ = optimise(*network.level, rank, rank.copy(), resolution, network.nodes, 2)
    arrays = network.indptr, network.indices, network.weight, network.own, network.degree
    return modularity(*arrays, labels, resolution)


def surplus(graph, resolution=0.5):
    others = [best(neighbour_graph_without_clusters(graph, seed), resolution) for seed in range(8)]
    above = best(Network(graph.adjacency), resolution) - np.mean(others)
    return above / np.std(others), above


def test_clusters_are_told_from_noise():
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=(300, 3)), rng.random((300, 2)), rng.exponential(size=(300, 3))):
        deviations, above = surplus(Graph.from_features(x))
        assert deviations < 4 and above < 0.03
    blobs = make_blobs(300, n_features=4, centers=4, random_state=0)[0]
    for x in (blobs, make_moons(300, noise=0.05, random_state=0)[0], load_iris().data):
        deviations, above = surplus(Graph.from_features(x))
        assert deviations > 4 and above > 0.03


def test_the_graph_is_made_as_the_given_one_was():
    rng = np.random.default_rng(0)
    graph = Graph.from_features(rng.normal(size=(300, 3)), n_neighbors=7)
    other = neighbour_graph_without_clusters(graph, 0)
    assert np.diff(other.indptr).min() == 7
    assert other.edges == pytest.approx(graph.num_edges, rel=0.05)
    part = graph.subgraph(np.arange(150))  # half of the neighbours of a node are left
    assert neighbour_graph_without_clusters(part, 0).edges == pytest.approx(part.num_edges, rel=0.2)
    with pytest.raises(ValueError, match="not made from its features"):
        neighbour_graph_without_clusters(Graph.from_edges([[0], [1]]), 0)


def test_categories_and_words_are_dealt_out_anew():
    rng = np.random.default_rng(0)
    group = np.eye(3)[rng.integers(0, 3, 400)]
    x = np.hstack([group, (rng.random((400, 2)) < [0.1, 0.6]).astype(float), rng.normal(size=(400, 1))])
    x[:, 5] += 5 * group[:, 0]
    kinds = np.array([CATEGORY] * 3 + [WORD] * 2 + [NUMBER])
    for each in (x, sp.csr_array(x)):
        drawn = rows_without_clusters(each, kinds, 1)
        assert sp.issparse(drawn) == sp.issparse(each)
        rows = drawn.toarray() if sp.issparse(drawn) else drawn
        np.testing.assert_array_equal(rows[:, :5].sum(0), x[:, :5].sum(0))
        np.testing.assert_array_equal(rows[:, :3].sum(1), 1)
        assert abs(np.corrcoef(rows[:, 0], rows[:, 5])[0, 1]) < 0.15 < np.corrcoef(x[:, 0], x[:, 5])[0, 1]
