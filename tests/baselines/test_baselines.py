"""Baselines: one contract for all, oracles for what each computes, odd graphs."""

import sys
import warnings
from unittest.mock import Mock

import igraph
import leidenalg
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.refusals import refuses
from sklearn.cluster import KMeans, SpectralClustering

from softcut import datasets, metrics
from softcut.baselines import (
    BASELINES,
    diffpool,
    diffpool_replicas,
    dmon,
    dmon_replicas,
    kmeans_features,
    kmeans_propagated,
    leiden,
    propagate,
    scikit,
    spectral,
    trained,
)
from softcut.baselines.leiden import _merge, _search
from softcut.baselines.trained import diffpool_losses
from softcut.errors import DependencyError, GraphError, ParameterError
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.training import TrainSettings, replica_seeds


@pytest.fixture(params=sorted(BASELINES))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def easy() -> Graph:
    return datasets.attributed_communities(
        400, 4, 14, 120, edge_signal=0.9, feature_signal=0.8, degree_spread=0.3, seed=5
    )


def odd_graphs() -> dict[str, Graph]:
    rng = np.random.default_rng(0)
    x = rng.random((12, 3)).astype(np.float32)
    path = nx.to_scipy_sparse_array(nx.path_graph(12))
    two = sp.block_diag([nx.to_scipy_sparse_array(nx.complete_graph(5)), sp.csr_matrix((7, 7))])
    return {
        "path": Graph.from_scipy(path, x=x),
        "no edges": Graph.from_scipy(sp.csr_matrix((12, 12)), x=x),
        "isolated nodes": Graph.from_scipy(sp.csr_matrix(two), x=x),
        "constant features": Graph.from_scipy(path, x=np.ones((12, 2))),
        "zero features": Graph.from_scipy(path, x=sp.csr_matrix((12, 4))),
        "weighted": Graph.from_scipy(path * 0.01, x=x),
        "two nodes": Graph.from_edges([[0], [1]], x=np.eye(2)),
        "one node": Graph.from_scipy(sp.csr_matrix((1, 1)), x=np.ones((1, 1))),
    }


def cluster(name: str, graph: Graph, k: int, seed: int) -> np.ndarray:
    """A baseline, the trained ones with fewer and larger steps."""
    short = {"max_iter": 150, "learning_rate": 2e-2} if name in ("diffpool", "dmon") else {}
    return BASELINES[name](graph, k, random_state=seed, **short)


def test_finds_easy_communities_and_repeats_itself(name: str, easy: Graph) -> None:
    labels = cluster(name, easy, 4, 1)
    assert labels.shape == (400,)
    assert labels.dtype == np.int64
    assert set(labels.tolist()) == {0, 1, 2, 3}
    assert metrics.nmi(easy.y, labels) > (0.6 if name == "diffpool" else 0.8)
    assert np.array_equal(labels, cluster(name, easy, 4, 1))


@pytest.mark.parametrize("kind", sorted(odd_graphs()))
def test_odd_graphs(name: str, kind: str) -> None:
    graph = odd_graphs()[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        for k in {1, min(2, graph.num_nodes), min(4, graph.num_nodes), graph.num_nodes}:
            labels = cluster(name, graph, k, 0)
            assert labels.shape == (graph.num_nodes,)
            assert 0 <= labels.min() <= labels.max() < k


@pytest.mark.parametrize("k", [0, -1, 401, 2.5])
def test_bad_n_clusters(name: str, easy: Graph, k: int) -> None:
    refuses(ParameterError, "n_clusters", BASELINES[name], easy, k, random_state=0)


def propagation(graph: Graph) -> np.ndarray:
    """P = D^-1/2 (A + I) D^-1/2."""
    a = graph.adjacency.toarray() + np.eye(graph.num_nodes)
    scale = 1 / np.sqrt(a.sum(axis=1))
    return scale[:, None] * a * scale


def test_propagate_equals_the_dense_formula(easy: Graph) -> None:
    p, x = propagation(easy), easy.x.toarray().astype(float)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for hops in (0, 1, 3):
        z = np.linalg.matrix_power(p, hops) @ x
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        assert np.allclose(propagate(easy, hops), z, atol=1e-5)
    dense = Graph.from_scipy(easy.adjacency, x=easy.x.toarray())
    assert np.allclose(propagate(dense, 2), propagate(easy, 2), atol=1e-6)


def test_graphs_are_not_changed(easy: Graph) -> None:
    dense = Graph.from_scipy(easy.adjacency, x=easy.x.toarray())
    before = dense.x.copy(), easy.x.data.copy(), easy.adjacency.data.copy()
    for graph in (dense, easy):
        kmeans_propagated(graph, 3, hops=0)
        kmeans_features(graph, 3)
    assert all(map(np.array_equal, before, (dense.x, easy.x.data, easy.adjacency.data)))


def test_svd_for_large_sparse_features(easy: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    full = propagate(easy, 2)
    monkeypatch.setattr(scikit, "MAX_DENSE_ENTRIES", 1000)
    monkeypatch.setattr(scikit, "SVD_COMPONENTS", 100)
    reduced = propagate(easy, 2)
    assert reduced.shape == (400, 100)
    assert np.abs(full @ full.T - reduced @ reduced.T).mean() < 0.02  # the inner products are kept
    assert metrics.nmi(easy.y, kmeans_propagated(easy, 4)) > 0.8


def test_leiden_searches_the_number_of_communities() -> None:
    graph = Graph.from_scipy(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    assert metrics.modularity(graph, leiden(graph)) == pytest.approx(0.4198, abs=1e-3)  # the known optimum
    for k in (2, 3, 4, 6):
        assert metrics.clusters_used(leiden(graph, k)) == k


@pytest.mark.parametrize(
    ("k", "visited"),
    [
        (24, [1, 2, 8]),  # doubled strides while all resolutions give too few
        (17, [1, 2, 8, 4, 4 * 2**0.5]),  # then in the middle, by logarithms
        (1, [1, 0.5, 0.125, 0.25]),
    ],
)
def test_the_search_doubles_its_strides_and_then_bisects(k: int, visited: list[float]) -> None:
    """Three communities of 100 nodes for each unit of the resolution."""
    asked: list[float] = []

    def run(resolution: float) -> np.ndarray:
        asked.append(resolution)
        return np.append(np.repeat(np.arange(round(3 * resolution)), 100), 99)

    assert len(_search(run, 2400, k, 12)) == 100 * k + 1
    assert asked == pytest.approx(visited)


def test_small_communities_join_in_rounds_and_components_of_their_own_the_smallest() -> None:
    """Of 5, 4, 2, 1, 1, 1 nodes: the third hangs on the second, the fourth on the third, the last ones on nothing."""
    labels = np.repeat([3, 0, 5, 1, 2, 4], [5, 4, 2, 1, 1, 1])
    adjacency = np.zeros((14, 14))
    for i, j, weight in ((0, 9, 1.0), (5, 10, 2.0), (10, 11, 1.0)):
        adjacency[i, j] = adjacency[j, i] = weight
    merged = _merge(sp.csr_array(adjacency), labels, 2)
    assert merged.tolist() == [0] * 5 + [1] * 7 + [0] * 2
    assert _merge(sp.csr_array(adjacency), labels, 6) is labels


@pytest.mark.parametrize(("n", "k", "size"), [(1000, 2, 10), (1000, 50, 4)])
def test_communities_count_from_a_percent_of_the_nodes_or_a_fifth_of_the_average(n, k, size) -> None:
    """Of two runs the one is taken that has more sizeable communities; at equal distance, too."""
    for first, second in (([size - 1] * k, [size] * k), ([size] * (k - 1), [size] * (k + 1))):
        runs = iter([np.repeat(np.arange(len(sizes)), sizes) for sizes in (first, second)])
        assert np.bincount(_search(lambda _: next(runs), n, k, 2)).tolist() == second  # noqa: B023
    few = []
    _search(lambda r: few.append(r) or np.zeros(1, int), n, k, 0)
    assert few == [1.0]


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, bare = datasets.ring_graph(10), Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    for error, words, call in (
        (GraphError, "no node features", lambda: kmeans_features(bare, 2)),
        (GraphError, "no node features", lambda: kmeans_propagated(bare, 2)),
        (ParameterError, "hops", lambda: propagate(ring, hops=-1)),
        (ParameterError, "not both", lambda: leiden(ring, 2, resolution=1.0)),
        (ParameterError, "resolution", lambda: leiden(ring, resolution=-1.0)),
    ):
        refuses(error, words, call)
    monkeypatch.setitem(sys.modules, "leidenalg", None)
    refuses(DependencyError, r"softcut\[leiden\]", leiden, ring, 2)


def test_diffpool_losses_are_the_dense_formulas(easy):
    s = torch.from_numpy(np.random.default_rng(0).standard_normal((400, 2, 3))).softmax(-1)
    a = torch.from_numpy(easy.adjacency.toarray()).double()
    link, entropy = diffpool_losses(CSR.from_graph(easy, dtype=torch.float64), s, float((a**2).sum()))
    for r in range(2):
        torch.testing.assert_close(link[r], torch.linalg.norm(a - s[:, r] @ s[:, r].T))
        torch.testing.assert_close(entropy[r], -(s[:, r] * s[:, r].log()).sum(-1).mean())
    weighted = Graph.from_scipy(easy.adjacency * 3, x=easy.x)  # a step too small to change S
    s, _, result = diffpool_replicas(weighted, 3, [0, 1], max_iter=1, learning_rate=1e-9)
    for r, own in enumerate(s.double().unbind(1)):
        assert result.cut[0, r] == pytest.approx(float(torch.linalg.norm(3 * a - own @ own.T)), rel=1e-5)


def test_kmeans_is_that_of_sklearn(easy: Graph) -> None:
    dense = Graph.from_scipy(easy.adjacency, x=easy.x.toarray())
    x = dense.x / np.linalg.norm(dense.x, axis=1, keepdims=True)
    for labels, rows in (
        (kmeans_features(dense, 4, random_state=3, unit_norm=False), dense.x),
        (kmeans_features(dense, 4, random_state=3), x),
        (kmeans_features(easy, 4, random_state=3), x),  # many entries: dense from there on
        (kmeans_propagated(dense, 4, random_state=3), propagate(dense, 2)),
    ):
        assert np.array_equal(labels, KMeans(4, n_init=10, random_state=3).fit_predict(rows))


@pytest.mark.parametrize(("p", "solver"), [(0.05, "arpack"), (0.3, "lobpcg")])  # average degrees of 10 and 60
def test_spectral_is_that_of_sklearn(p: float, solver: str) -> None:
    graph = Graph.from_networkx(nx.planted_partition_graph(4, 50, 3 * p, p / 3, seed=0))
    model = SpectralClustering(4, affinity="precomputed", eigen_solver=solver, n_init=10, random_state=2)
    expected = model.fit_predict(graph.adjacency.astype(float))
    assert np.array_equal(spectral(graph, 4, random_state=2), expected)


def recorded(module, name: str, monkeypatch: pytest.MonkeyPatch, call) -> tuple:  # type: ignore[no-untyped-def, type-arg]
    """The arguments with which a baseline calls what does the work."""
    work = Mock(side_effect=InterruptedError)
    monkeypatch.setattr(module, name, work)
    with pytest.raises(InterruptedError):
        call()
    return (*work.call_args.args, work.call_args.kwargs)


@pytest.mark.parametrize(
    ("nodes", "degree", "k", "solver"),
    [
        (50_000, 20, 2, "arpack"),
        (50_001, 2, 2, "lobpcg"),
        (100, 22, 2, "lobpcg"),
        (16, 2, 3, "arpack"),
        (15, 2, 3, "lobpcg"),
    ],
)
def test_the_solver_depends_on_the_size(nodes, degree, k, solver, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    steps = np.repeat(np.arange(1, degree // 2 + 1), nodes)
    ring = np.tile(np.arange(nodes), degree // 2)
    graph = Graph.from_edges(np.stack([ring, (ring + steps) % nodes]))
    known = {"affinity": "precomputed", "eigen_solver": solver, "n_init": 10, "random_state": 0}
    assert recorded(scikit, "SpectralClustering", monkeypatch, lambda: spectral(graph, k)) == (k, known)


@pytest.mark.parametrize(("words", "sparse"), [(5, True), (6, False)])
def test_features_with_few_entries_stay_sparse(words, sparse, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    x = sp.csr_array(np.repeat(np.arange(100) < words, 3).reshape(100, 3).T.astype(float))
    graph = Graph.from_scipy(sp.csr_array((3, 3)), x=x)
    for method, stays in ((kmeans_features, sparse), (kmeans_propagated, False)):
        seen = recorded(scikit, "_kmeans", monkeypatch, lambda method=method: method(graph, 2))
        assert sp.issparse(seen[0]) == stays and seen[1:] == (2, 0, 10, {})
    module = sys.modules["softcut.baselines.leiden"]
    assert recorded(module, "_search", monkeypatch, lambda: leiden(graph, 2))[1:] == (3, 2, 12, {})


@pytest.mark.parametrize(
    ("method", "replicas", "layer", "settings"),
    [
        (diffpool, diffpool_replicas, (0, 1), TrainSettings(10_000, 5e-4, tolerance=None)),
        (dmon, dmon_replicas, (64, 2), TrainSettings(1000, 1e-3, tolerance=None, objective="dmon")),
    ],
)
def test_the_settings_of_what_is_trained(method, replicas, layer, settings, easy, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    seen = [
        recorded(trained, "train", monkeypatch, call)
        for call in (lambda: method(easy, 3), lambda: replicas(easy, 3, replica_seeds(0, 1)))
    ]
    for net, inputs, _, given, *_ in seen:
        assert (net.hidden, net.terms, net.k, net.replicas) == (*layer, 3, 1)
        assert inputs.terms == layer[1] and given == settings
    assert all(map(torch.equal, seen[0][0].parameters(), seen[1][0].parameters()))


def test_leiden_is_that_of_leidenalg() -> None:
    club = nx.karate_club_graph()  # weighted
    graph = Graph.from_scipy(nx.to_scipy_sparse_array(club))
    peer = igraph.Graph(n=34, edges=sorted(club.edges))
    weights = [club.edges[edge]["weight"] for edge in sorted(club.edges)]
    for resolution in (0.7, 1.0):
        options = {"weights": weights, "resolution_parameter": resolution, "seed": 5}
        parts = leidenalg.find_partition(peer, leidenalg.RBConfigurationVertexPartition, **options)
        assert np.array_equal(leiden(graph, random_state=5, resolution=resolution), parts.membership)


def test_diffpool_assigns_by_one_graph_convolution(easy: Graph) -> None:
    """S = softmax(P X W + b) with P = D^-1/2 (A + I) D^-1/2: log S is linear in P X, up to a number per row."""
    s = diffpool_replicas(easy, 3, [0], max_iter=20, learning_rate=0.1)[0][:, 0].double().numpy()
    x = easy.x.toarray()
    seen = np.c_[propagation(easy) @ (x / x.sum(1, keepdims=True)), np.ones(400)]
    logits = np.log(s) - np.log(s).mean(1, keepdims=True)
    rest = logits - seen @ np.linalg.lstsq(seen, logits)[0]
    assert np.abs(rest).max() < 1e-4 < logits.std()


@pytest.mark.parametrize("solver", ["arpack", "lobpcg", "auto"])
def test_spectral_separates_components(solver):
    sizes = (20, 25, 30)
    blocks = [nx.to_scipy_sparse_array(nx.complete_graph(size)) for size in sizes]
    graph = Graph.from_scipy(sp.csr_matrix(sp.block_diag(blocks)))
    assert metrics.ari(np.repeat([0, 1, 2], sizes), spectral(graph, 3, eigen_solver=solver)) == 1.0
    refuses(ParameterError, "eigen_solver", spectral, graph, 3, eigen_solver="amg")
    assert metrics.clusters_used(leiden(graph, 2, exact=False)) == 3  # not merged
    assert np.array_equal(leiden(graph, 30, exact=False, n_steps=1), leiden(graph))
