"""Clusters from the edges alone, through the estimator: what was planted, brute force, and what must not matter."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.graph_strategies import plain_information

import softcut as sc
from softcut.clustering.by_edges import shares
from softcut.datasets import attributed_communities
from softcut.metrics import nmi

pytestmark = pytest.mark.filterwarnings(
    "ignore:The graph may have no", "ignore:.*fewer clusters", "ignore:.*communities"
)


def of_networkx(graph):
    return sc.Graph.from_scipy(sp.csr_array(nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float32)))


def clusters(graph, k, **options):
    """Labels [N] of K clusters."""
    graph = of_networkx(graph) if isinstance(graph, nx.Graph) else graph
    return sc.GraphClustering(k, **options).fit(graph).labels_


@pytest.mark.parametrize("hubs", [0.0, 1.0])
@pytest.mark.parametrize("k", [2, 5, 12])
def test_planted_communities_are_found(k, hubs):
    graph = attributed_communities(150 * k, k, 12, 0, edge_signal=0.85, degree_spread=hubs, seed=k)
    used = np.diff(graph.adjacency.indptr) > 0
    for number in (2, k, k + 3):
        labels = clusters(graph, number)
        assert (labels[used] >= 0).all() and (labels[~used] == -1).all()
        assert len(np.unique(labels[used])) == number
        assert number != k or nmi(graph.y[used], labels[used]) > 0.8


RING = np.stack([np.arange(60), (np.arange(60) + 1) % 60])
HEAVY = np.where(np.equal.outer(np.arange(20) % 2, np.arange(20) % 2), 1.0, 0.2) - np.eye(20)
FAINT = nx.stochastic_block_model([300] * 3, (np.eye(3) * 0.0155 + 0.0083).tolist(), seed=0)
COMPONENTS = nx.disjoint_union_all([nx.gnp_random_graph(60, 0.2, seed=s) for s in range(5)])


@pytest.mark.parametrize(
    ("graph", "truth", "least"),
    [
        (FAINT, np.repeat(range(3), 300), 0.3),  # near the threshold, where only eigenvectors find something
        (sc.Graph.from_edges(np.concatenate([RING, RING + 60, [[0], [60]]], 1)), np.repeat([0, 1], 60), 0.9),
        (sc.Graph.from_dense(HEAVY.astype(np.float32)), np.arange(20) % 2, 1 - 1e-6),  # heavy edges decide
        (COMPONENTS, np.repeat(range(5), 60), 1 - 1e-6),
        (nx.disjoint_union_all([nx.complete_graph(5)] * 200), np.repeat(range(200), 5), 0.95),
        (nx.barbell_graph(4, 0), np.repeat([0, 1], 4), 1 - 1e-6),
        (nx.disjoint_union(nx.complete_graph(4), nx.cycle_graph(5)), np.repeat([0, 1], [4, 5]), 1 - 1e-6),
    ],
)
@pytest.mark.parametrize("pattern", ["communities", "any"])
def test_clusters_of_any_kind_are_found(graph, truth, least, pattern):
    assert nmi(truth, clusters(graph, int(truth.max()) + 1, pattern=pattern)) > least


def test_two_sides_are_found_where_any_pattern_counts():
    sides = np.repeat([0, 1], [30, 40])
    graph = nx.bipartite.random_graph(30, 40, 0.3, seed=0)
    assert nmi(sides, clusters(graph, 2, pattern="any")) > 1 - 1e-6
    assert nmi(sides, clusters(graph, 2)) < 0.2


def test_the_order_of_nodes_isolated_nodes_and_the_unit_of_weights_change_nothing():
    graph = attributed_communities(400, 4, 14, 0, edge_signal=0.9, degree_spread=0.3, seed=2)

    def best(adjacency, k=4):
        return clusters(sc.Graph.from_scipy(sp.csr_array(adjacency)), k)

    for k in (4, None):
        usual, order = best(graph.adjacency, k), np.random.default_rng(0).permutation(400)
        assert len(np.unique(usual)) > 3
        assert np.array_equal(best(graph.adjacency, k), usual), "the same every time"
        assert np.array_equal(usual[order], best(graph.adjacency[order][:, order], k))
        assert np.array_equal(best(graph.adjacency * np.float32(0.5), k), usual), "equal weights are none"
        larger = graph.adjacency.copy()
        larger.resize(420, 420)
        assert np.array_equal(best(larger, k), [*usual, *[-1] * 20])
        weights = sp.triu(graph.adjacency, format="csr").astype(np.float32)
        weights.data = np.random.default_rng(0).uniform(0.1, 1, weights.nnz).astype(np.float32)
        weights = sp.csr_array(weights + weights.T)
        for factor in (0.25, 4.0):
            assert np.array_equal(best(weights, k), best(weights * np.float32(factor), k))


def test_no_edges_one_cluster_and_a_cluster_for_each_node():
    for n, k in itertools.product((1, 5), (1, 2, None)):
        if (k or 1) <= n:
            empty = sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=n)
            with pytest.warns(UserWarning, match="no node has an edge"):
                assert sc.GraphClustering(k).fit(empty).labels_.tolist() == [-1] * n
    path = nx.path_graph(6)
    assert not clusters(path, 1).any()
    assert sorted(clusters(path, 6)) == [0, 1, 2, 3, 4, 5]
    assert clusters(path, 2).tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("k", [2, 7, 30])
@pytest.mark.parametrize(
    "graph",
    [
        nx.complete_graph(300),
        nx.star_graph(400),
        nx.from_edgelist([(2 * i, 2 * i + 1) for i in range(300)]),
    ],
    ids=["complete", "star", "pairs"],
)
def test_graphs_with_nothing_to_tell(graph, k):
    labels = clusters(graph, k)
    assert labels.min() == 0 and 1 < len(np.unique(labels)) <= k


def partitions(graph, k):
    """All ways to divide a graph into k connected clusters, none very small."""
    n = len(graph)
    for labels in itertools.product(range(k), repeat=n - 1):
        found = np.array([0, *labels])
        sizes = np.bincount(found, minlength=k)
        pieces = (graph.subgraph(np.flatnonzero(found == c)) for c in range(k))
        if sizes.min() >= n / k / 4 and all(map(nx.is_connected, pieces)):
            yield found


@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (nx.barbell_graph(4, 0), 2),
        (nx.ring_of_cliques(3, 3), 3),
        (nx.connected_caveman_graph(2, 5), 2),
        (nx.disjoint_union(nx.complete_graph(4), nx.cycle_graph(5)), 2),
    ],
    ids=["barbell", "three cliques", "two caves", "two components"],
)
def test_what_is_found_tells_most_about_the_edges_of_tiny_graphs(graph, k):
    found, adjacency = clusters(graph, k), of_networkx(graph).adjacency

    def told(labels):
        one_hot = np.eye(k)[labels]
        return plain_information(one_hot.T @ (adjacency @ one_hot))

    assert told(found) == pytest.approx(max(map(told, partitions(graph, k))), abs=1e-9)


def test_soft_clusters_of_labels():
    """Rows sum to one, and the label is the largest entry even where all neighbours are elsewhere."""
    star = sc.Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=5)
    labels = np.array([0, 1, 1, 1, 2])
    soft = shares(star.adjacency, labels, 3).toarray()
    np.testing.assert_allclose(soft.sum(1), 1)
    assert soft.argmax(1).tolist() == labels.tolist()
    assert soft[0].tolist() == pytest.approx([0.6, 0.4, 0])
    assert soft[4].tolist() == [0, 0, 1]  # no neighbours
    assert shares(star.adjacency, labels, 4).shape == (5, 4), "a cluster that is not used"
    faint = sp.csr_array(np.array([[0, 1e-35, 0], [1e-35, 0, 1], [0, 1, 0]], dtype=np.float32))
    np.testing.assert_allclose(shares(faint, np.array([0, 0, 1]), 2).sum(axis=1), 1)
