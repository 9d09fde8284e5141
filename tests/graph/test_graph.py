"""Graph: construction from every source, the rules for messy input, and one clear error for each mistake."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.errors import GraphError, ParameterError, SoftcutError
from softcut.graph import Graph


def check_invariants(g: Graph) -> None:
    """What every other module may assume of a graph."""
    a = g.adjacency
    assert isinstance(a, sp.csr_array)
    assert a.shape == (g.num_nodes, g.num_nodes)
    assert a.dtype in (np.float32, np.float64)
    # Flags can lie: recompute them on a fresh matrix of the same parts.
    assert sp.csr_array((a.data, a.indices, a.indptr), shape=a.shape).has_canonical_format
    assert np.all(a.data > 0)
    assert np.isfinite(a.data).all()
    assert np.isfinite(a.sum(axis=1)).all()
    assert abs(a - a.T).nnz == 0
    assert g.weighted == bool(np.any(a.data != 1))
    if g.x is not None:
        assert g.x.dtype == np.float32
        assert g.x.shape == (g.num_nodes, g.num_features)
    if g.y is not None:
        assert g.y.dtype == np.int64
        assert g.y.shape == (g.num_nodes,)
    if g.ptr is not None:
        assert g.ptr[0] == 0
        assert g.ptr[-1] == g.num_nodes
    assert len(repr(g).splitlines()) == 1


def quiet(build: Any, *args: Any, **kwargs: Any) -> Graph:
    """Build without a single warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return build(*args, **kwargs)


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
    """Sum duplicates of each direction, then take the larger direction."""
    a = np.zeros((n, n))
    for i, (u, v) in enumerate(edges):
        if u == v and self_loops == "drop":
            continue
        if weights is None:
            a[u, v] = 1
        else:
            a[u, v] += weights[i]
    return np.maximum(a, a.T)


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


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_random_graphs_agree_with_networkx(n: int, seed: int) -> None:
    graph = nx.gnp_random_graph(n, 0.3, seed=seed)
    g = quiet(Graph.from_networkx, graph)
    check_invariants(g)
    assert g.num_nodes == graph.number_of_nodes()
    assert g.num_edges == graph.number_of_edges()
    assert g.average_degree == pytest.approx(sum(d for _, d in graph.degree()) / n)
    assert nx.utils.graphs_equal(nx.Graph(g.to_networkx().edges), nx.Graph(graph.edges))


def test_shapes_of_edge_index() -> None:
    torch = pytest.importorskip("torch")
    pairs = [(0, 1), (1, 2), (2, 3)]
    expected = Graph.from_edges([[0, 1, 2], [1, 2, 3]]).adjacency.toarray()
    columns = np.array(pairs).T
    for edges in (
        pairs,
        np.array(pairs),
        columns,
        columns.astype(np.uint8),
        columns.astype(np.float64),
        (columns[0], columns[1]),
        torch.tensor(columns),
        (torch.tensor(columns[0]), torch.tensor(columns[1])),
        nx.Graph(pairs).edges,
        iter(pairs),
    ):
        np.testing.assert_array_equal(quiet(Graph.from_edges, edges).adjacency.toarray(), expected)
    # Two by two is read as [2, E].
    assert Graph.from_edges([[0, 1], [2, 3]]).adjacency[0, 2] == 1


def test_one_direction_and_both_directions_are_the_same_and_silent() -> None:
    once = quiet(Graph.from_edges, [[0, 1], [1, 2]], edge_weight=[2.0, 3.0])
    both = quiet(Graph.from_edges, [[0, 1, 1, 2], [1, 0, 2, 1]], edge_weight=[2.0, 2.0, 3.0, 3.0])
    np.testing.assert_array_equal(once.adjacency.toarray(), both.adjacency.toarray())
    assert once.num_edges == both.num_edges == 2


def test_directed_input_warns_once_with_the_count() -> None:
    with pytest.warns(UserWarning, match="1 of 3 edges has no edge in the other direction") as record:
        g = Graph.from_edges([[0, 1, 1], [1, 0, 2]])
    assert len(record) == 1
    assert record[0].filename == __file__
    np.testing.assert_array_equal(g.adjacency.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    with pytest.warns(UserWarning, match="another weight in the other direction") as record:
        g = Graph.from_edges([[0, 1], [1, 0]], edge_weight=[1.0, 5.0])
    assert len(record) == 1
    assert g.adjacency[0, 1] == 5.0
    # A matrix with one triangle only is a directed graph; a list of edges is not.
    with pytest.warns(UserWarning, match="2 of 2 edges have no edge"):
        Graph.from_scipy(sp.csr_array([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
    with pytest.warns(UserWarning, match="2 of 2 edges have no edge"):
        Graph.from_networkx(nx.DiGraph([(0, 1), (1, 2)]))
    with pytest.warns(UserWarning, match="1 of 1 edges has"):
        Graph.from_edges([[0], [1]], directed=True)
    quiet(Graph.from_edges, [[0, 1, 1], [1, 0, 2]], directed=False)


def test_rounding_is_not_direction() -> None:
    weights = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1]
    g = quiet(Graph.from_edges, [[0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]], edge_weight=weights)
    assert g.adjacency[0, 1] == g.adjacency[1, 0] == pytest.approx(0.6)


def test_duplicates() -> None:
    edges = [[0, 0, 1], [1, 1, 2]]
    assert not Graph.from_edges(edges).weighted
    assert Graph.from_edges(edges, edge_weight=[1.0, 1.0, 1.0]).adjacency[1, 0] == 2.0
    # Both directions of one edge are not a duplicate.
    assert Graph.from_edges([[0, 1], [1, 0]], edge_weight=[1.0, 1.0]).adjacency[0, 1] == 1.0


def test_self_loops() -> None:
    with pytest.warns(UserWarning, match="2 self-loops dropped"):
        g = Graph.from_edges([[0, 1, 2], [0, 1, 1]])
    assert not g.has_self_loops
    assert g.num_edges == 1
    g = quiet(Graph.from_edges, [[0, 1, 2], [0, 1, 1]], self_loops="keep")
    assert g.has_self_loops
    assert g.num_edges == 3
    assert "2 self-loops" in repr(g)
    with pytest.warns(UserWarning, match="1 self-loop dropped; pass self_loops='keep' to keep it"):
        Graph.from_scipy(sp.eye_array(1))
    with pytest.raises(ParameterError, match="'drop' or 'keep'"):
        Graph.from_edges([[0], [1]], self_loops="maybe")  # type: ignore[arg-type]


def test_huge_weights_stay_finite_or_fail() -> None:
    g = Graph.from_edges([[0, 0], [1, 1]], edge_weight=[1e300, 1e300])
    assert g.adjacency[0, 1] == 2e300
    with pytest.raises(GraphError, match=r"repeated edge \(0, 1\) sums to more than float64"):
        Graph.from_edges([[0, 0], [1, 1]], edge_weight=[1e308, 1e308])
    with pytest.raises(GraphError, match="weights at node 0 sum to more than float64"):
        Graph.from_edges([[0, 0], [1, 2]], edge_weight=[1e308, 1e308])
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


def test_input_is_not_modified() -> None:
    messy = sp.csr_array(
        (np.array([1.0, 2.0, 0.0, 3.0]), np.array([1, 1, 0, 0]), np.array([0, 3, 4])), shape=(2, 2)
    )
    before = (messy.data.copy(), messy.indices.copy(), messy.indptr.copy())
    x = sp.csr_array((np.array([1.0, 0.0], np.float32), np.array([1, 0]), np.array([0, 1, 2])), shape=(2, 2))
    g = quiet(Graph.from_scipy, messy, x=x)
    check_invariants(g)
    assert g.adjacency[0, 1] == 3.0
    for old, new in zip(before, (messy.data, messy.indices, messy.indptr), strict=True):
        np.testing.assert_array_equal(old, new)
    assert x.nnz == 2
    assert g.x is not None
    assert g.x.nnz == 1  # type: ignore[union-attr]


# ---------------------------------------------------------------------- errors


NAN = float("nan")
PAIR = [[0], [1]]
make = Graph.from_edges


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: make(PAIR, edge_weight=[-1.0]), r"edge_weight is negative at position 0 \(-1.0\)"),
        (lambda: make([[0, 1], [1, 2]], edge_weight=[1, NAN]), "edge_weight is not finite at position 1"),
        (lambda: make(PAIR, edge_weight=[np.inf]), "not finite at position 0"),
        (lambda: make(PAIR, edge_weight=[1, 2]), r"edge_weight has shape \(2,\) but there are 1 edges"),
        (lambda: make(PAIR, edge_weight=["a"]), "edge_weight has dtype"),
        (lambda: make(PAIR, edge_weight=[1j]), "edge_weight has dtype complex"),
        (lambda: make(PAIR, x=[[1.0], [NAN]]), r"x\[1, 0\] is nan, which is not finite"),
        (lambda: make(PAIR, x=[[1.0], [1e300]]), r"x\[1, 0\] is 1e\+300, which does not fit in float32"),
        (
            lambda: make(PAIR, x=sp.csr_array([[0.0, 1.0], [0.0, np.inf]])),
            r"x\[1, 1\] is inf, which is not finite",
        ),
        (lambda: make(PAIR, x=sp.csr_array([[1e300], [0.0]])), r"x\[0, 0\] is 1e\+300, which does not"),
        (lambda: make(PAIR, x=[[1.0]], num_nodes=2), "x has 1 rows but the graph has 2 nodes"),
        (lambda: make(PAIR, x=[1.0, 2.0]), r"x has shape \(2,\)"),
        (lambda: make(PAIR, x=[["a"], ["b"]]), "x has dtype"),
        (lambda: make(PAIR, x=3.0), "x is 3.0: pass one entry per node"),
        (lambda: make(PAIR, x=np.array(3.0), num_nodes=2), r"x has shape \(\)"),
        (lambda: make(PAIR, y=np.array(3)), "y is array"),
        (lambda: make(PAIR, node_names=3), "node_names is 3"),
        (lambda: make(PAIR, node_names=3, num_nodes=2), "node_names is 3"),
        (lambda: make(PAIR, x=[[1.0], [1.0, 2.0]]), "x has rows of different lengths"),
        (lambda: make(PAIR, x=np.zeros((2, 0))), "x has no columns"),
        (lambda: make([[0], [5]], x=[[1.0], [2.0]]), r"node index 5 \(row 1, edge 0\), out of range for 2"),
        (lambda: make([[0], [5]], num_nodes=3), r"out of range for 3 nodes \(num_nodes\)"),
        (lambda: make([[0], [-1]]), r"negative index -1 at position \(1, 0\)"),
        (lambda: make([[0], [1.5]]), r"1.5 at position \(1, 0\), which is not an integer"),
        (lambda: make([[0], [NAN]]), "not an integer"),
        (lambda: make([["a"], ["b"]]), "edge_index has dtype"),
        (lambda: make([[0, 1, 2]]), r"edge_index has shape \(1, 3\)"),
        (lambda: make([0, 1, 2]), r"edge_index has shape \(3,\)"),
        (lambda: make(7), "edge_index is a int"),
        (lambda: make([[0, 1], [1]]), "edge_index has rows of different lengths"),
        (lambda: make([[0], [10**15]]), "number the nodes 0 to N-1"),
        (lambda: make(np.array([[0], [2**64 - 1]], np.uint64)), "too large"),
        (lambda: make([]), "no edges and num_nodes is not given"),
        (lambda: make([], num_nodes=0), "no nodes"),
        (lambda: make(PAIR, num_nodes=-2), "num_nodes is -2"),
        (lambda: make(PAIR, num_nodes=2.5), "num_nodes is 2.5"),
        (lambda: make(PAIR, num_nodes=2**40), "not supported"),
        (lambda: make(PAIR, y=[1], num_nodes=2), r"y has shape \(1,\) but the graph has 2 nodes"),
        (lambda: make(PAIR, y=[0.5, 1.0]), "y has dtype float64"),
        (lambda: make(PAIR, y=["a", "b"]), "y has dtype"),
        (lambda: make(PAIR, node_names=["a", "a"]), "node_names has 'a' more than once"),
        (lambda: make(PAIR, node_names=["a"], num_nodes=2), "node_names has 1 names"),
        (lambda: make(PAIR, node_names="ab"), "single string"),
        (lambda: make(PAIR, ptr=[0, 1, 2]), "ptr cuts an edge: node 0"),
        (lambda: make(PAIR, ptr=[0, 1]), "must start at 0 and end at 2"),
        (lambda: make(PAIR, ptr=[0, 2, 2]), "ptr gives graph 1 no nodes"),
        (lambda: make(PAIR, ptr=[0.5]), "ptr must be"),
        (lambda: Graph.from_scipy(sp.csr_array((0, 0))), "no nodes"),
        (lambda: Graph.from_scipy(sp.csr_array((2, 3))), r"shape \(2, 3\)"),
        (lambda: Graph.from_scipy(np.eye(2)), "adjacency is a ndarray"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, -1], [-1, 0]])), r"adjacency.data is negative"),
        (lambda: Graph.from_scipy(sp.coo_array(([3.0, -1.0], ([0, 0], [1, 1])), shape=(2, 2))), "negative"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, 1j], [1j, 0]])), "dtype complex"),
        (lambda: Graph(sp.csr_array([[0, 1], [0, 0]])), "not symmetric"),
        (lambda: Graph.from_dense(np.ones((2, 3))), "not square"),
        (lambda: Graph.from_dense([["a"]]), "dtype"),
        (lambda: Graph.from_dense([[0, NAN], [NAN, 0]]), "not finite"),
        (lambda: Graph.from_networkx(nx.Graph()), "no nodes"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1, {"weight": "heavy"})])), "'heavy', not a number"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features="age"), "'age', which node 0 does not"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features="attributes"), "found no node attribute"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features=[]), "empty list"),
        (lambda: Graph.batch([]), "graphs is empty"),
        (lambda: Graph.batch([np.eye(2)]), r"graphs\[0\] is a ndarray"),  # type: ignore[list-item]
        (
            lambda: Graph.batch([make(PAIR), make(PAIR, x=[[1.0], [1.0]])]),
            r"graphs\[1\] has 1 features but graphs\[0\] has 0",
        ),
        (lambda: make(PAIR).subgraph([0, 0]), "lists node 0 more than once"),
        (lambda: make(PAIR).subgraph([2]), "index 2, out of range for 2 nodes"),
        (lambda: make(PAIR).subgraph([]), "non-empty"),
        (lambda: make(PAIR).subgraph([True]), "mask"),
        (lambda: make(PAIR).with_features([[1.0]]), "x has 1 rows"),
        (lambda: Graph.from_any("graph.csv"), "read_graph"),
        (lambda: Graph.from_any(3), "cannot make a graph of 'int'"),
        (lambda: Graph.from_any(np.ones((3, 4))), r"array of shape \(3, 4\)"),
    ],
)  # fmt: skip
def test_errors_are_one_clear_sentence(build: Any, sentence: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GraphError, match=sentence) as caught:
            build()
    assert "\n" not in str(caught.value)


def test_broken_sparse_matrices_do_not_reach_compiled_code() -> None:
    def broken() -> sp.csr_array:
        matrix = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
        matrix.indices[0] = 999_999_999
        return matrix

    with pytest.raises(GraphError, match="not a valid sparse matrix"):
        Graph.from_scipy(broken())
    with pytest.raises(GraphError, match="not a valid sparse matrix"):
        Graph.from_edges([[0], [1]], x=broken())


ANYTHING = st.one_of(st.integers(-3, 9), st.floats(), st.text(max_size=2), st.none())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(ANYTHING, max_size=4), max_size=4),
    st.one_of(st.none(), st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=1)), max_size=4)),
    st.one_of(st.none(), st.integers(-2, 12), st.floats(), st.text(max_size=1)),
)  # fmt: skip
def test_nothing_but_a_graph_or_a_softcut_error(edges: Any, weight: Any, num_nodes: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            g = Graph.from_edges(edges, edge_weight=weight, num_nodes=num_nodes)
        except SoftcutError:
            return
        check_invariants(g)


# ---------------------------------------------------------------------- other libraries


def test_networkx_names_weights_and_features() -> None:
    graph = nx.MultiGraph()
    graph.add_node("a", age=3, vector=[1.0, 2.0], word="x")
    graph.add_node("b", age=4, vector=[3.0, 4.0], word="y")
    graph.add_edge("a", "b", weight=2.0)
    graph.add_edge("b", "a", weight=3.0)
    graph.add_edge("a", "b")
    g = quiet(Graph.from_networkx, graph, features=["age", "vector"])
    assert g.node_names == ["a", "b"]
    assert g.adjacency[0, 1] == 6.0
    np.testing.assert_array_equal(g.x, [[3, 1, 2], [4, 3, 4]])
    np.testing.assert_array_equal(quiet(Graph.from_networkx, graph, features="attributes").x, [[3], [4]])
    assert not quiet(Graph.from_networkx, graph, weight=None).weighted
    # 1 and "1" are two nodes.
    assert Graph.from_networkx(nx.Graph([(1, "1")])).node_names == ["1", "'1'"]


def test_networkx_round_trip() -> None:
    g = Graph.from_edges([[0, 1, 2], [1, 2, 2]], edge_weight=[1.0, 2.0, 3.0], self_loops="keep", y=[0, 1, 1])
    back = quiet(Graph.from_networkx, g.to_networkx(), self_loops="keep")
    np.testing.assert_array_equal(back.adjacency.toarray(), g.adjacency.toarray())
    assert g.to_networkx().nodes[2]["y"] == 1
    named = Graph.from_edges([[0], [1]], node_names=["p", "q"])
    assert list(named.to_networkx().edges) == [("p", "q")]


def test_pyg() -> None:
    torch = pytest.importorskip("torch")
    data = pytest.importorskip("torch_geometric.data")
    one = data.Data(
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_attr=torch.tensor([[2.0], [2.0], [3.0], [3.0]]),
        x=torch.eye(3),
        y=torch.tensor([0, 1, 0]),
    )
    two = data.Data(
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.tensor([[1.0], [1.0]]),
        x=torch.ones(2, 3),
        y=torch.tensor([1, 1]),
    )
    g = quiet(Graph.from_pyg, one)
    check_invariants(g)
    assert g.adjacency.dtype == np.float32
    assert g.adjacency[1, 2] == 3.0
    assert g.y is not None
    batch = data.Batch.from_data_list([one, two])
    b = quiet(Graph.from_pyg, batch)
    assert b.ptr is not None
    np.testing.assert_array_equal(b.ptr, [0, 3, 5])
    del batch.ptr
    np.testing.assert_array_equal(quiet(Graph.from_pyg, batch).ptr, [0, 3, 5])
    back = b.to_pyg()
    assert back.num_graphs == 2
    again = quiet(Graph.from_pyg, back)
    np.testing.assert_array_equal(again.adjacency.toarray(), b.adjacency.toarray())
    np.testing.assert_array_equal(again.x, b.x)
    np.testing.assert_array_equal(again.y, b.y)
    # A label per graph is not a label per node; an edge feature matrix is not a weight.
    graph_level = data.Data(
        edge_index=torch.tensor([[0, 1], [1, 0]]),
        edge_attr=torch.ones(2, 4),
        y=torch.tensor([1]),
        num_nodes=2,
    )
    g = quiet(Graph.from_pyg, graph_level)
    assert g.y is None
    assert not g.weighted
    with pytest.raises(GraphError, match="no edge_index"):
        Graph.from_pyg(data.Data(x=torch.eye(2)))
    with pytest.raises(GraphError, match="non-decreasing"):
        Graph.from_pyg(
            data.Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, batch=torch.tensor([1, 0]))
        )


def test_torch_features_and_sparse_tensors() -> None:
    torch = pytest.importorskip("torch")
    sparse = torch.eye(2).to_sparse_csr()
    g = Graph.from_edges(
        torch.tensor([[0], [1]]), x=sparse, edge_weight=torch.tensor([2.0], requires_grad=True)
    )
    assert sp.issparse(g.x)
    assert Graph.from_edges([[0], [1]], x=torch.ones(2, 3, dtype=torch.bfloat16)).num_features == 3
    assert Graph.from_any(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()).num_edges == 1


def test_from_any() -> None:
    data = pytest.importorskip("torch_geometric.data")
    torch = pytest.importorskip("torch")
    dense = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    x = np.arange(6.0).reshape(3, 2)
    g = Graph.from_dense(dense)
    edges = np.array([[0, 1], [1, 2]])
    # A 2 x 2 array is square, hence an adjacency matrix: three edges make the difference.
    sources = [
        g, dense, dense.tolist(), sp.coo_matrix(dense), sp.csr_array(dense), torch.tensor(dense),
        nx.from_numpy_array(dense), data.Data(edge_index=torch.tensor(edges), num_nodes=3),
        np.array([[0, 1, 0], [1, 2, 1]]), torch.tensor([[0, 1, 0], [1, 2, 1]]),
    ]  # fmt: skip
    for source in sources:
        for made in (
            Graph.from_any(source, x=x),
            Graph.from_any((source, x)) if source is not sources[2] else None,
        ):
            if made is not None:
                np.testing.assert_array_equal(made.adjacency.toarray(), dense)
                np.testing.assert_array_equal(made.x, x)
    assert Graph.from_any(g) is g
    assert Graph.from_any([g, g]).num_graphs == 2
    assert Graph.from_any([nx.path_graph(3), sp.csr_array(dense)]).num_graphs == 2


# ---------------------------------------------------------------------- parts and wholes


def random_graph(seed: int, sparse: bool = False, features: int = 2) -> Graph:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    dense = np.triu(rng.random((n, n)) < 0.5, 1) * rng.random((n, n))
    x = rng.random((n, features))
    return Graph.from_dense(
        dense + dense.T,
        x=sp.csr_array(x) if sparse else x,
        y=rng.integers(0, 3, n),
        node_names=list("abcdefg"[:n]),
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.booleans())
def test_batch_and_split_are_inverse(seeds: list[int], sparse: bool) -> None:
    graphs = [random_graph(seed, sparse) for seed in seeds]
    batch = Graph.batch(graphs)
    check_invariants(batch)
    np.testing.assert_array_equal(
        batch.adjacency.toarray(), sp.block_diag([g.adjacency for g in graphs]).toarray()
    )
    assert batch.num_graphs == len(graphs)
    parts = batch.split()
    for part, g in zip(parts, graphs, strict=True):
        check_invariants(part)
        np.testing.assert_array_equal(part.adjacency.toarray(), g.adjacency.toarray())
        assert sp.issparse(part.x) == sparse
        np.testing.assert_array_equal(
            part.x.toarray() if sparse else part.x, g.x.toarray() if sparse else g.x  # type: ignore[union-attr]
        )  # fmt: skip
        np.testing.assert_array_equal(part.y, g.y)
        assert part.node_names == g.node_names
    # A batch of batches is flat.
    nested = Graph.batch([batch, graphs[0]])
    assert nested.num_graphs == len(graphs) + 1
    check_invariants(nested)
    assert f"{nested.num_graphs} graphs" in repr(nested)


def test_batch_drops_what_not_all_have() -> None:
    a = Graph.from_edges([[0], [1]], y=[0, 1], node_names=["a", "b"])
    b = Graph.from_edges([[0], [1]])
    joined = Graph.batch([a, b])
    assert joined.y is None
    assert joined.node_names is None
    assert b.split() == [b]
    mixed = Graph.batch([b.with_features(np.eye(2)), b.with_features(sp.eye_array(2))])
    assert isinstance(mixed.x, np.ndarray)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_subgraph_equals_dense_indexing(seed: int, random: Any) -> None:
    g = random_graph(seed)
    nodes = random.sample(range(g.num_nodes), random.randint(1, g.num_nodes))
    part = g.subgraph(nodes)
    check_invariants(part)
    np.testing.assert_array_equal(part.adjacency.toarray(), g.adjacency.toarray()[np.ix_(nodes, nodes)])
    assert g.x is not None
    assert g.node_names is not None
    np.testing.assert_array_equal(part.x, g.x[nodes])
    assert part.node_names == [g.node_names[i] for i in nodes]
    mask = np.zeros(g.num_nodes, bool)
    mask[nodes] = True
    np.testing.assert_array_equal(
        g.subgraph(mask).adjacency.toarray(), g.subgraph(sorted(nodes)).adjacency.toarray()
    )


def test_graph_is_frozen_copyable_and_picklable() -> None:
    g = random_graph(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        g.x = None  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(g))
    check_invariants(again)
    np.testing.assert_array_equal(again.adjacency.toarray(), g.adjacency.toarray())
    renamed = dataclasses.replace(g, name="new")
    assert renamed.name == "new"
    assert repr(renamed).startswith("Graph('new': ")
    assert g.with_features(None).num_features == 0


def test_a_million_edges_take_a_moment() -> None:
    rng = np.random.default_rng(0)
    edges = np.sort(rng.integers(0, 100_000, (2, 1_000_000)), axis=0)
    g = Graph.from_edges(edges, self_loops="keep")
    assert g.num_edges == np.unique(edges[0] * 100_000 + edges[1]).size
