"""Communities at one resolution, beside networkx, scipy, igraph and scikit-learn."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from softcut.communities.engine import (
    adjusted_rand,
    apart,
    coarser,
    communities,
    finer,
    joined,
    numbered_by_size,
    quality,
)
from softcut.communities.moves import optimise
from softcut.communities.network import Network
from softcut.communities.weights import heavy_tailed


@st.composite
def matrices(draw, loops=True):
    """Weighted graphs of 1 to 40 nodes, with isolated nodes, none or huge weights, and loops."""
    n, seed = draw(st.integers(1, 40)), draw(st.integers(0, 10**6))
    rng, density = np.random.default_rng(seed), draw(st.sampled_from([0.0, 0.03, 0.1, 0.3, 1.0]))
    upper = np.triu(rng.random((n, n)) < density, 0 if loops else 1).astype(float)
    kind = draw(st.sampled_from(["equal", "few", "any", "huge"]))
    if kind == "few":
        upper *= rng.integers(1, 5, (n, n))
    elif kind != "equal":
        upper *= np.exp(rng.normal(size=(n, n)) * (1 if kind == "any" else 20))
    return sp.csr_array(upper + upper.T)


def caveman(*sizes):
    """Cliques in a ring, one edge between neighbours."""
    graph = nx.disjoint_union_all([nx.complete_graph(size) for size in sizes])
    ends = np.cumsum([0, *sizes])[:-1]
    graph.add_edges_from(zip(ends, np.roll(ends, -1) + 1, strict=True))
    return graph


def of_networkx(graph, weight="weight"):
    return Network(sp.csr_array(nx.to_scipy_sparse_array(graph, weight=weight, dtype=float)))


def pieces(matrix, labels):
    """Connected pieces of all communities together."""
    entries = matrix.tocoo()
    kept = labels[entries.row] == labels[entries.col]
    inside = sp.coo_array((np.ones(kept.sum()), (entries.row[kept], entries.col[kept])), matrix.shape)
    return sp.csgraph.connected_components(inside, directed=False)[0]


# ------------------------------------------------------------------------------------------------ modularity


@settings(max_examples=60)
@given(matrices(), st.integers(1, 6), st.floats(0.1, 5))
def test_quality_is_the_modularity_of_networkx(matrix, k, resolution):
    network, n = Network(matrix), matrix.shape[0]
    labels = np.random.default_rng(n).integers(0, k, n)
    if not matrix.nnz:
        assert quality(network, np.unique(labels, return_inverse=True)[1], resolution) == 0
        return
    matrix = matrix.copy()
    matrix.setdiag(matrix.diagonal() / 2)  # networkx counts a loop twice
    graph = nx.from_scipy_sparse_array(matrix)
    parts = [set(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)]
    expected = nx.community.modularity(graph, parts, resolution=resolution)
    found = quality(network, np.unique(labels, return_inverse=True)[1], resolution)
    assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(matrices(), st.integers(1, 12), st.sampled_from([0.3, 1.0, 3.0]))
def test_optimising_never_lowers_modularity(matrix, k, resolution):
    network, n = Network(matrix), matrix.shape[0]
    rank = network.rank(0)
    parts = np.random.default_rng(k).integers(0, min(k, n), n).astype(np.int32)
    before = quality(network, parts, resolution)
    for rounds in (1, 2, 4):
        labels, count = optimise(*network.level, rank, parts, resolution, n, rounds)
        after = quality(network, labels, resolution)
        assert after >= before - 1e-12 and count == len(np.unique(labels)) == labels.max() + 1
        before = after


@pytest.mark.parametrize(
    "graph",
    [
        nx.karate_club_graph(),
        nx.les_miserables_graph(),
        nx.random_partition_graph([60] * 8, 0.2, 0.01, seed=1),
        nx.barabasi_albert_graph(400, 3, seed=0),
        nx.powerlaw_cluster_graph(500, 3, 0.5, seed=0),
    ],
    ids=["karate", "Les Miserables", "planted", "hubs", "triangles"],
)
@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_modularity_is_that_of_igraph(graph, resolution):
    igraph = pytest.importorskip("igraph")
    network, graph = of_networkx(graph), nx.convert_node_labels_to_integers(graph)
    weight = [w for _, _, w in graph.edges(data="weight", default=1)]
    other = igraph.Graph(n=len(graph), edges=list(graph.edges()))
    theirs = max(
        quality(network, np.array(found.membership), resolution)
        for found in (
            other.community_leiden("modularity", weights=weight, resolution=resolution, n_iterations=2)
            for _ in range(3)
        )
    )
    ours = [quality(network, communities(network, resolution, seed), resolution) for seed in range(3)]
    assert max(ours) > theirs - 0.01


# ------------------------------------------------------------------------------------- connected, of allowed size


@settings(max_examples=120)
@given(matrices(), st.sampled_from([0.2, 1.0, 4.0]), st.integers(1, 8), st.integers(1, 12))
def test_communities_are_connected_and_of_allowed_size(matrix, resolution, smallest, largest):
    network = Network(matrix)
    n = network.nodes
    largest = max(smallest, largest)
    usual = communities(network, resolution)
    limited = communities(network, resolution, smallest=smallest, largest=largest)
    for labels in (usual, limited):
        assert labels.shape == (n,) and pieces(matrix, labels) == len(np.unique(labels)) == labels.max() + 1
        sizes = np.bincount(labels)
        assert (np.diff(sizes) <= 0).all(), "the largest first"
    assert sizes.max() <= largest
    dense, (rows, cols) = matrix.toarray() > 0, matrix.nonzero()
    between = np.zeros((len(sizes), len(sizes)), bool)
    between[limited[rows], limited[cols]] = dense[rows, cols]
    np.fill_diagonal(between, False)
    for small in np.flatnonzero(sizes < smallest):
        assert (sizes[small] + sizes[between[small]] > largest).all(), "no neighbour has room"
    alone = np.asarray(dense.sum(axis=1)).ravel() - dense.diagonal() == 0
    assert np.bincount(usual)[usual[alone]].tolist() == [1] * alone.sum(), "nodes without edges are alone"


def test_small_ones_join_where_they_have_most_edges():
    graph = caveman(6, 6)
    graph.add_edges_from([(12, 13), (12, 0), (12, 6), (13, 7)])
    network = of_networkx(graph)
    labels = np.repeat([0, 1, 2], [6, 6, 2])
    assert joined(network, labels, 3, 14).tolist() in ([0] * 6 + [1] * 8, [1] * 6 + [0] * 8)
    assert len(np.unique(joined(network, labels, 3, 7))) == 3, "no room anywhere"
    assert np.array_equal(numbered_by_size(joined(network, labels, 2, 14)), labels)


def test_labels_are_numbered_by_size():
    assert numbered_by_size(np.array([5, 5, 9, 2, 2, 2, 9])).tolist() == [1, 1, 2, 0, 0, 0, 2]


# -------------------------------------------------------------------------------------------------- numbering


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_renumbered_graph_has_the_renumbered_labels(seed, weighted):
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(150, 700, seed=seed)
    matrix = sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))
    if weighted:
        upper = sp.triu(matrix, format="csr")
        upper.data = rng.integers(1, 9, upper.nnz).astype(float)
        matrix = sp.csr_array(upper + upper.T)
    network = Network(matrix)
    assert len(np.unique(network.colours)) == 150, "all colours are distinct"
    for _ in range(3):
        order = rng.permutation(150)
        other = Network(sp.csr_array(matrix[order][:, order]))
        np.testing.assert_array_equal(other.colours, network.colours[order])
        for options in ({}, {"smallest": 5, "largest": 20}):
            for resolution in (0.5, 1.0, 2.0):
                usual = communities(network, resolution, 4, **options)
                found = communities(other, resolution, 4, **options)
                assert adjusted_rand(usual[order], found) == 1.0
        np.testing.assert_array_equal(network.rank(3)[order], other.rank(3))


def test_nodes_that_look_alike_have_one_colour():
    network = of_networkx(nx.cycle_graph(8))
    assert len(np.unique(network.colours)) == 1
    assert len(np.unique(of_networkx(nx.path_graph(7)).colours)) == 4
    assert sorted(network.rank(0)) == list(range(8))
    assert not np.array_equal(
        of_networkx(nx.karate_club_graph()).rank(0), of_networkx(nx.karate_club_graph()).rank(1)
    )


# ------------------------------------------------------------------------------------------------- begun from


def test_optimal_labels_stay():
    truth = np.repeat(range(5), 6)
    network = of_networkx(caveman(6, 6, 6, 6, 6))
    assert communities(network, start=truth).tolist() == truth.tolist()
    for graph in (nx.karate_club_graph(), nx.les_miserables_graph()):
        network = of_networkx(graph)
        best = max((communities(network, seed=s) for s in range(20)), key=lambda each: quality(network, each))
        again = communities(network, seed=77, start=best)
        assert quality(network, again) >= quality(network, best)
        assert adjusted_rand(best, again) > 0.99


def test_a_start_may_be_anything():
    network = of_networkx(caveman(6, 6, 6))
    truth = np.repeat(range(3), 6)
    for start in (
        np.full(18, -1),
        np.zeros(18, int),
        np.arange(18) + 100,
        np.where(np.arange(18) % 4 > 0, truth, -1),
        np.repeat([0, 1, 0], 6),
    ):
        assert adjusted_rand(truth, communities(network, start=start)) == 1
    assert np.bincount(communities(network, start=np.zeros(18, int), largest=4)).max() <= 4


# ------------------------------------------------------------------------------------------------ levels


@settings(max_examples=40)
@given(matrices(), st.integers(0, 3))
def test_coarser_and_finer_ones_nest(matrix, seed):
    network = Network(matrix)
    labels = communities(network, 1.0, seed)
    above, below = coarser(network, labels, 0.4), finer(network, labels, 3.0, seed)
    assert len(np.unique(np.stack([above, labels]), axis=1).T) == labels.max() + 1
    assert len(np.unique(np.stack([labels, below]), axis=1).T) == below.max() + 1
    for each in (above, below):
        assert pieces(matrix, each) == each.max() + 1
    assert quality(network, above, 0.4) >= quality(network, labels, 0.4) - 1e-12
    part = apart(network, labels)
    np.testing.assert_array_equal(part.degree, network.degree)
    assert quality(part, labels) >= quality(network, labels) - 1e-12
    largest = max(1, np.bincount(labels).max())
    assert np.bincount(coarser(network, labels, 0.1, largest)).max() <= largest


@settings(max_examples=60)
@given(st.integers(2, 60), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_the_adjusted_rand_index_is_that_of_scikit_learn(n, k, other, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, k, n), rng.integers(0, other, n)
    assert adjusted_rand(a, b) == pytest.approx(adjusted_rand_score(a, b), abs=1e-12)
    assert adjusted_rand(a, a) == 1


# ------------------------------------------------------------------------------------------------ weights


def test_few_weights_that_hold_most_of_the_sum_are_heavy_tailed():
    assert not heavy_tailed(np.array([])) and not heavy_tailed(np.ones(9))
    assert not heavy_tailed(np.array([0.0, 2.0])), "deviation 1, mean 1"
    assert heavy_tailed(np.array([0.0, 0.0, 2.0]))
    rng = np.random.default_rng(0)
    assert not heavy_tailed(rng.uniform(0, 1, 1000)) and heavy_tailed(rng.pareto(1.5, 1000))


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 3.0, 1e200])
def test_the_unit_of_weights_does_not_matter(unit):
    matrix = nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float)
    usual = communities(Network(sp.csr_array(matrix)))
    np.testing.assert_array_equal(communities(Network(sp.csr_array(matrix * unit))), usual)
    network = Network(sp.csr_array(matrix * unit))
    np.testing.assert_allclose(network.weight * network.unit, sp.csr_array(matrix * unit).data, rtol=1e-9)
    assert (network.weight == np.rint(network.weight)).all() and network.weight.sum() < 2**53
