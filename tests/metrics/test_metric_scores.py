"""Scores against independent oracles: scikit-learn, networkx, dense formulas, brute force."""

import itertools
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from softcut import metrics
from softcut.errors import GraphError, ParameterError


@st.composite
def labelled_graphs(draw, max_nodes: int = 12, self_loops: bool = False):
    """A small weighted graph (isolated nodes and empty graphs included), its clusters and its classes."""
    n = draw(st.integers(1, max_nodes))
    seed = draw(st.integers(0, 2**32 - 1))
    density = draw(st.sampled_from([0.0, 0.15, 0.4, 0.9]))
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 0 if self_loops else 1) * rng.integers(1, 5, (n, n))
    adjacency = (upper + upper.T - np.diag(np.diag(upper))).astype(float)
    return adjacency, rng.integers(0, 4, n) * 3 - 2, rng.integers(0, 3, n)


def dense_scores(adjacency: np.ndarray, labels: np.ndarray, resolution: float) -> dict[str, float]:
    """The definitions, one cluster at a time."""
    degree, total = adjacency.sum(1), adjacency.sum()
    cuts, conductances, modularity = [], [], 0.0
    for c in np.unique(labels):
        inside = labels == c
        volume, cut = degree[inside].sum(), adjacency[inside][:, ~inside].sum()
        cuts.append(cut / volume if volume else 0.0)
        side = min(volume, total - volume)
        conductances.append(cut / side if side else 0.0)
        if total:
            modularity += adjacency[inside][:, inside].sum() / total - resolution * (volume / total) ** 2
    return {
        "normalised_cut": sum(cuts),
        "conductance": float(np.mean(conductances)),
        "conductance_max": max(conductances),
        "modularity": modularity,
    }


@settings(deadline=None, max_examples=60)
@given(labelled_graphs(self_loops=True), st.sampled_from([0.5, 2.0]))
def test_graph_scores_equal_the_dense_formulas(case, resolution) -> None:
    adjacency, labels, _ = case
    got, wanted = metrics.evaluate(adjacency, labels), dense_scores(adjacency, labels, 1.0)
    assert {key: got[key] for key in wanted} == pytest.approx(wanted, abs=1e-9)
    other = dense_scores(adjacency, labels, resolution)["modularity"]
    assert metrics.modularity(adjacency, labels, resolution) == pytest.approx(other, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(labelled_graphs())
def test_label_scores_equal_sklearn(case) -> None:
    _, labels, y = case
    assert metrics.nmi(y, labels) == pytest.approx(sk.v_measure_score(y, labels), abs=1e-9)
    geometric = sk.normalized_mutual_info_score(y, labels, average_method="geometric")
    assert metrics.nmi(y, labels, "geometric") == pytest.approx(geometric, abs=1e-9)
    assert metrics.homogeneity(y, labels) == pytest.approx(sk.homogeneity_score(y, labels), abs=1e-9)
    assert metrics.completeness(y, labels) == pytest.approx(sk.completeness_score(y, labels), abs=1e-9)
    assert metrics.ari(y, labels) == pytest.approx(sk.adjusted_rand_score(y, labels), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(labelled_graphs())
def test_matched_accuracy_equals_brute_force(case) -> None:
    _, labels, y = case
    clusters, classes = np.unique(labels), np.unique(y)
    slots = [*classes, *[-1] * len(clusters)]  # -1: unmatched
    best = max(
        sum(np.sum(y[labels == c] == t) for c, t in zip(clusters, choice, strict=True))
        for choice in set(itertools.permutations(slots, len(clusters)))
    )
    assert metrics.matched_accuracy(y, labels) == pytest.approx(best / len(y))


@settings(deadline=None, max_examples=40)
@given(labelled_graphs(self_loops=True))
def test_intervals_and_renaming(case) -> None:
    adjacency, labels, y = case
    got = metrics.evaluate(adjacency, labels, y, k=5)
    assert tuple(got) == metrics.LABEL_SCORES + metrics.GRAPH_SCORES
    assert all(np.isfinite(value) for value in got.values())
    for key in ("nmi", "nmi_geometric", "homogeneity", "completeness", "accuracy", "balance", "conductance"):
        assert 0.0 <= got[key] <= 1.0, key
    assert 0.0 <= got["normalised_cut"] <= got["clusters_used"] + 1e-12
    renamed = np.array([f"cluster {-value}" for value in labels])
    assert metrics.evaluate(adjacency, renamed, y, k=5) == pytest.approx(got)


def test_adjacency_kinds_agree() -> None:
    graph = nx.karate_club_graph()
    dense = nx.to_numpy_array(graph)
    y = np.array([graph.nodes[i]["club"] == "Officer" for i in graph], dtype=int)
    labels = np.arange(34) % 3
    expected = metrics.evaluate(dense, labels, y)
    with_y = SimpleNamespace(adjacency=sp.csr_matrix(dense), y=y)
    stored = sp.csr_matrix(dense + 1)  # zeros, too
    stored.data -= 1
    kinds = sp.csr_matrix(dense), sp.coo_matrix(dense), sp.csc_array(dense), dense.astype(np.int8), stored
    for other in kinds:
        assert metrics.evaluate(other, labels, y) == pytest.approx(expected)
    assert metrics.evaluate(with_y, labels) == pytest.approx(expected)
    assert tuple(metrics.evaluate(dense, labels)) == metrics.GRAPH_SCORES


def test_known_degenerate_cases() -> None:
    empty = sp.csr_matrix((5, 5))
    got = metrics.evaluate(empty, [0, 0, 1, 1, 2], y=[0, 0, 1, 1, 1])
    scores = ("normalised_cut", "modularity", "conductance", "conductance_max")
    assert [got[key] for key in scores] == [0.0] * 4
    one = metrics.evaluate(sp.csr_matrix((1, 1)), [7], y=[0])
    assert one["nmi"] == one["accuracy"] == one["balance"] == 1.0
    karate = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    collapsed = metrics.evaluate(karate, np.zeros(34), k=4)
    assert collapsed["balance"] == collapsed["normalised_cut"] == collapsed["conductance"] == 0.0
    assert collapsed["clusters_used"] == 1


def test_rounding_brings_no_score_above_one() -> None:
    one, other = [2, 2, 2, 2, 0, 2, 2], [0, 0, 1, 0, 2, 1, 1]
    assert metrics.homogeneity(one, other) == metrics.completeness(other, one) == 1.0
    assert max(metrics.balance(range(k)) for k in range(1, 60)) == 1.0
    both = np.array([[0, 0, 0.5, 0.1], [0, 0, 0.3, 0.9], [0.5, 0.3, 0, 0], [0.1, 0.9, 0, 0]])
    assert metrics.conductance(both, [0, 0, 1, 1], "max") == 1.0


def test_unlabelled_nodes_are_left_out() -> None:
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    y, labels = np.array([0, 0, 1, 1, -1, -1]), np.array([0, 0, 1, 1, 0, 1])
    assert metrics.evaluate(ring, labels, y)["accuracy"] == 1.0
    assert metrics.evaluate(ring, labels, y.astype(float))["accuracy"] == 1.0
    assert metrics.evaluate(ring, labels, list("aabbab"))["accuracy"] == 1.0
    with pytest.raises(ParameterError, match="y has 5 entries but labels has 6"):
        metrics.evaluate(ring, labels, y[:5])
    assert metrics.ari([0.25, 0.5], [0, 1]) == 1.0, "labels need not be whole numbers"
    assert tuple(metrics.evaluate(ring, labels, np.full(6, -1))) == metrics.GRAPH_SCORES


def nearly_symmetric(difference):
    return np.array([[1.0, 1.0], [1.0 - difference, 0.0]])


def test_weights_may_differ_by_a_millionth_of_the_largest() -> None:
    for scale in (1e-3, 100):
        assert metrics.modularity(scale * nearly_symmetric(5e-7), [0, 1]) == pytest.approx(-2 / 9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: metrics.nmi([0, 1], [0, 1, 2]), ParameterError, "2 entries"),
        (lambda: metrics.nmi([], []), ParameterError, "empty"),
        (lambda: metrics.nmi([0, 1], [0, 1], "mean"), ParameterError, "geometric"),
        (lambda: metrics.nmi([0, 1], [0, np.nan]), ParameterError, "NaN"),
        (lambda: metrics.ari([[0, 1]], [[0, 1]]), ParameterError, "shape"),
        (lambda: metrics.modularity(np.ones((2, 3)), [0, 1]), GraphError, "square"),
        (lambda: metrics.modularity(np.ones((3, 3)), [0, 1]), ParameterError, "3 nodes"),
        (lambda: metrics.modularity(-np.ones((2, 2)), [0, 1]), GraphError, "negative"),
        (lambda: metrics.modularity(np.triu(np.ones((2, 2))), [0, 1]), GraphError, "symmetric"),
        (lambda: metrics.conductance(np.ones((2, 2)), [0, 1], reduce="min"), ParameterError, "reduce"),
        (lambda: metrics.modularity(100 * nearly_symmetric(2e-6), [0, 1]), GraphError, "symmetric"),
        (lambda: metrics.balance([0, 1], k=0), ParameterError, "at least 1"),
    ],
)
def test_bad_arguments_are_named(call, error, words) -> None:
    with pytest.raises(error, match=words):
        call()


def test_nodes_without_a_cluster_are_left_out():
    """The label -1 beside a cluster 0; labels of -1 and 1 are two clusters."""
    pairs = np.kron(np.eye(2), [[0, 1], [1, 0]])
    larger = np.zeros((6, 6))
    larger[:4, :4] = pairs
    labels = np.array([0, 0, 1, 1, -1, -1])
    assert metrics.evaluate(larger, labels, y=[1, 1, 0, 0, 0, 1], k=3) == metrics.evaluate(
        pairs, labels[:4], y=[1, 1, 0, 0], k=3
    )
    x = np.arange(12.0).reshape(6, 2)
    assert metrics.evidence(larger, labels, x) == metrics.evidence(pairs, labels[:4], x[:4])
    assert metrics.clusters_used(labels) == 2
    assert metrics.clusters_used([-1, 1, 1, -1]) == 2
    assert metrics.nmi([0, 1, 1, 0], [-1, 1, 1, -1]) == 1
    nothing = metrics.evaluate(pairs, [-1] * 4, y=[0, 0, 1, 1])
    assert not any(nothing.values())
    assert metrics.evidence_parts(pairs, [-1] * 4) == metrics.Evidence(0.0, 0.0, 0.0, 0)
    with pytest.raises(ParameterError, match="labels is -1 for every node"):
        metrics.nmi([0, 1], [-1, -1])
