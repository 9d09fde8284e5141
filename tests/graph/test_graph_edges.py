"""Graphs from edges and matrices: against a dense oracle, and the rules for messy input."""

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_checks import check_invariants, quiet
from helpers.refusals import refuses
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.errors import GraphError
from softcut.graph import Graph


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 8) -> tuple[int, list[tuple[int, int]], list[float] | None]:
    n = draw(st.integers(1, max_nodes))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    weights = None
    if draw(st.booleans()):
        weight = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])  # sums are exact
        weights = draw(st.lists(weight, min_size=len(edges), max_size=len(edges)))
    return n, edges, weights


def dense_oracle(
    n: int, edges: list[tuple[int, int]], weights: list[float] | None, self_loops: str
) -> np.ndarray:
    """Sum what is given of each direction, and the two directions unless they are equal everywhere."""
    a = np.zeros((n, n))
    for i, (u, v) in enumerate(edges):
        if u == v and self_loops == "drop":
            continue
        a[u, v] += 1 if weights is None else weights[i]
    return a if (a == a.T).all() else a + a.T - np.diag(a.diagonal())


# ---------------------------------------------------------------------- edges


@settings(max_examples=150, deadline=None)
@given(edge_lists(), st.sampled_from(["drop", "keep"]))
def test_from_edges_equals_dense_oracle(case: Any, self_loops: Any) -> None:
    n, edges, weights = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        g = Graph.from_edges(index, edge_weight=weights, num_nodes=n, self_loops=self_loops)
    check_invariants(g)
    expected = dense_oracle(n, edges, weights, self_loops)
    np.testing.assert_array_equal(g.adjacency.toarray(), expected)
    assert g.num_edges == np.count_nonzero(np.triu(expected))
    assert g.has_self_loops == bool(np.diag(expected).any())
    assert g.average_degree == pytest.approx(np.count_nonzero(expected) / n)


@settings(max_examples=60, deadline=None)
@given(edge_lists())
def test_all_routes_make_the_same_graph(case: Any) -> None:
    n, edges, weights = case
    oracle = dense_oracle(n, edges, weights, "keep")
    routes = [
        quiet(Graph.from_dense, oracle, self_loops="keep"),
        quiet(Graph.from_scipy, sp.coo_matrix(oracle), self_loops="keep"),
        quiet(Graph.from_scipy, sp.csc_array(oracle), self_loops="keep"),
        quiet(Graph.from_scipy, sp.lil_matrix(oracle), self_loops="keep"),
        quiet(Graph, sp.csr_array(oracle)),
        quiet(Graph.from_networkx, nx.from_numpy_array(oracle), self_loops="keep"),
    ]
    u, v = np.nonzero(oracle)
    routes.append(quiet(Graph.from_edges, [u, v], edge_weight=oracle[u, v], num_nodes=n, self_loops="keep"))
    for g in routes:
        check_invariants(g)
        np.testing.assert_array_equal(g.adjacency.toarray(), oracle)


def test_shapes_of_edge_index() -> None:
    pairs = [(0, 1), (1, 2), (2, 3)]
    expected = Graph.from_edges([[0, 1, 2], [1, 2, 3]]).adjacency.toarray()
    columns = np.array(pairs).T
    for edges in (
        pairs,
        np.array(pairs),
        columns,
        columns.tolist(),
        columns.astype(np.uint8),
        columns.astype(np.float64),
        (columns[0], columns[1]),
        torch.tensor(columns),
        (torch.tensor(columns[0]), torch.tensor(columns[1])),
        nx.Graph(pairs).edges,
        iter(pairs),
    ):
        np.testing.assert_array_equal(quiet(Graph.from_edges, edges).adjacency.toarray(), expected)
    # Tuples are edges, however few.
    triples = [(0, 1, 2), (1, 2, 3)]
    for edges in (
        triples,
        triples[:1],
        [*triples, (0, 3, 1)],
        list(nx.Graph(pairs).edges(data="weight", default=2)),
    ):
        refuses(
            GraphError,
            "edges of three values: pass pairs, and the third values as edge_weight",
            Graph.from_edges,
            edges,
        )
    # Two by two is read as [2, E].
    assert Graph.from_edges([[0, 1], [2, 3]]).adjacency[0, 2] == 1
    assert Graph.from_edges([[0, 1]]).num_edges == 1
    assert Graph.from_edges(columns, edge_weight=[[2.0], [3.0], [4.0]]).adjacency[2, 3] == 4


def test_directed_input_warns_once_at_the_caller() -> None:
    with pytest.warns(UserWarning, match="1 of 3 edges has no edge in the other direction") as record:
        Graph.from_edges([[0, 1, 1], [1, 0, 2]])
    assert len(record) == 1
    assert record[0].filename == __file__
    # A matrix with one triangle only is a directed graph; a list of edges is not.
    with pytest.warns(UserWarning, match="2 of 2 edges have no edge"):
        Graph.from_scipy(sp.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
    with pytest.warns(UserWarning, match="2 of 2 edges have no edge"):
        Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2)]))
    quiet(Graph.from_edges, [[0, 1], [1, 2]], edge_weight=[2.0, 3.0])


def test_huge_weights_stay_finite_or_fail() -> None:
    g = Graph.from_edges([[0, 0], [1, 1]], edge_weight=[1e300, 1e300])
    assert g.adjacency[0, 1] == 2e300
    with pytest.raises(GraphError, match=r"repeated edge \(0, 1\) sums to more than float64"):
        Graph.from_edges([[0, 0], [1, 1]], edge_weight=[1e308, 1e308])
    with pytest.raises(GraphError, match="weights at node 0 sum to more than float64"):
        Graph.from_edges([[0, 0, 3, 3], [1, 2, 1, 2]], edge_weight=[1e308] * 4)
    with pytest.raises(GraphError, match="float32"):
        Graph.from_edges([[0, 0], [1, 1]], edge_weight=np.array([3e38, 3e38], np.float32))


def test_dtypes() -> None:
    assert Graph.from_edges([[0], [1]]).adjacency.dtype == np.float64
    assert Graph.from_edges([[0], [1]], edge_weight=np.array([2], np.float32)).adjacency.dtype == np.float32
    assert Graph.from_edges([[0], [1]], edge_weight=[2]).adjacency.dtype == np.float64
    assert Graph.from_dense(np.array([[0, 1], [1, 0]], np.float16)).num_edges == 1
    assert Graph.from_dense(np.array([[0, 1], [1, 0]], bool)).num_edges == 1


def test_graphs_without_edges() -> None:
    for g in (
        Graph.from_edges([], num_nodes=3),
        Graph.from_edges(np.zeros((2, 0), int), x=np.ones((3, 1))),
        Graph.from_scipy(sp.csr_array((3, 3))),
        Graph.from_edges([[0], [1]], edge_weight=[0.0], num_nodes=3),
    ):
        check_invariants(g)
        assert (g.num_nodes, g.num_edges, g.average_degree) == (3, 0, 0.0)
