"""One clear sentence for each mistake, and nothing but a graph or a SoftcutError for any input."""

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.graph_checks import check_invariants
from helpers.refusals import refuses
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.errors import GraphError, SoftcutError
from softcut.graph import Graph

NAN = float("nan")
PAIR = [[0], [1]]
make = Graph.from_edges


def labelled(value: Any) -> nx.Graph:
    graph = nx.Graph([(0, 1)])
    nx.set_node_attributes(graph, value, "a")
    return graph


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: make(PAIR, edge_weight=[-1.0]), r"edge_weight is negative at position 0 \(-1.0\)"),
        (lambda: make([[0, 1, 2], [1, 2, 3]], edge_weight=[1, NAN, -1]), "edge_weight is not finite at position 1"),
        (lambda: make(PAIR, edge_weight=[]), r"edge_weight has shape \(0,\) but there are 1 edges"),
        (lambda: make([], num_nodes=2, edge_weight=[1.0]), r"edge_weight has shape \(1,\) but there are 0"),
        (lambda: make([[0, 1], [1, 2]], edge_weight=[[1, 2], [3, 4]]), r"edge_weight has shape \(2, 2\)"),
        (lambda: make([[0, 1], [1, 2]], edge_weight=np.zeros((2, 0))), r"edge_weight has shape \(2, 0\)"),
        (lambda: make(PAIR, edge_weight=["a"]), "edge_weight has dtype"),
        *((lambda n=n: make(PAIR, x=[[1.0]] * n, num_nodes=2), f"x has {n} rows but the graph has 2") for n in (1, 3)),
        (lambda: make(PAIR, x=[1.0, 2.0]), r"x has shape \(2,\)"),
        (lambda: make(PAIR, x=np.ones((2, 1, 1))), r"x has shape \(2, 1, 1\)"),
        (lambda: make(PAIR, feature_names=["a"]), "feature_names has 1 names but x has 0 columns"),
        (lambda: make(PAIR, x=[["a"], ["b"]]), "x has dtype"),
        (lambda: make(PAIR, y=np.array(3)), "y is array"),
        (lambda: make(PAIR, node_names=3, num_nodes=2), "node_names is 3"),
        (lambda: make(PAIR, x=[[1.0], [1.0, 2.0]]), "x has rows of different lengths"),
        (lambda: make(PAIR, x=np.zeros((2, 0))), "x has no columns"),
        (lambda: make([[0, 1], [-1, -2]]), r"negative index -1 at position \(1, 0\)"),
        (lambda: make([[0], [1.5]]), r"1.5 at position \(1, 0\), which is not an integer"),
        (lambda: make([[0.0, 2.0**53], [1.0, 2.5], [1.0, 0.0]]), r"at position \(0, 1\)"),
        (lambda: make([[0, 7, 9], [1, 2, 3]], num_nodes=4), r"node index 7 \(row 0, edge 1\), out of range"),
        (lambda: make([[0, 3, 1], [1, 2, 4]], num_nodes=4), r"4 \(row 1, edge 2\), out of range for 4 nodes"),
        *((lambda n=n: make(np.zeros((n, 2, 2), int)), rf"has shape \({n}, 2, 2\)") for n in (0, 1)),
        (lambda: make([[True], [False]]), "edge_index has dtype bool"),
        (lambda: make(PAIR, edge_weight=[-np.inf]), r"not finite at position 0 \(-inf\)"),
        (lambda: make([[0, 1], [1, 2]], edge_weight=[[1.0, 2.0]]), r"edge_weight has shape \(1, 2\)"),
        (lambda: make([["a"], ["b"]]), "edge_index has dtype"),
        (lambda: make([[0, 1, 2]]), r"edge_index has shape \(1, 3\)"),
        (lambda: make(7), "edge_index is a int"),
        (lambda: make([[0, 1], [1]]), "edge_index has rows of different lengths"),
        (lambda: make([[0], [10**15]]), "number the nodes 0 to N-1"),
        (lambda: make(np.array([[0], [2**64 - 1]], np.uint64)), f"node index {2**64 - 1} in a graph of 1 edges"),
        (lambda: make([], num_nodes=0), "the graph has no nodes"),
        *((lambda n=n: make(PAIR, num_nodes=n), f"num_nodes is {n}") for n in (-1, 2.5)),
        *((lambda y=y: make(PAIR, y=y, num_nodes=2), rf"y has shape \({shape}\) but the graph has 2 nodes")
          for y, shape in (([1], "1,"), ([1, 2, 3], "3,"), (np.array(3), ""))),
        *((lambda y=y: make(PAIR, y=y), f"y has dtype {np.array(y).dtype}") for y in (["a", "b"], [0.5, 1.0])),
        (lambda: make(PAIR, y=[[0, 1], [1, 0]]), r"y has shape \(2, 2\)"),
        (lambda: make(PAIR, num_nodes=2**31 - 1), "not supported"),
        (lambda: make(PAIR, node_names=["a", "a"]), "node_names has 'a' more than once"),
        *((lambda n=n: make(PAIR, node_names=[*n], num_nodes=2), f"has {len(n)} names") for n in ("a", "abc")),
        (lambda: make(PAIR, node_names="ab"), "single string"),
        (lambda: make(PAIR, num_nodes=4, node_names=list("abcc"), ptr=[0, 2, 4]), "has 'c' more than once"),
        (lambda: make(PAIR, ptr=[0, 1, 2]), "ptr cuts an edge: node 0"),
        (lambda: make(PAIR, ptr=[0, 1]), "must start at 0 and end at 2"),
        *((lambda p=p: make(PAIR, ptr=p), f"runs from {p[0]} to {p[1]}") for p in ([0, 3], [-1, 2], [1, 2])),
        *((lambda n=n: make(PAIR, ptr=[0, 2, n, 2]), "ptr gives graph 1 no nodes") for n in (2, 1)),
        *((lambda p=p: make(PAIR, ptr=p), "ptr must be") for p in ([0], [0.0, 2.0], [[0, 2]])),
        (lambda: make([[0, 2], [1, 3]], ptr=[0, 3, 4]), "node 2 has a neighbour in another graph"),
        (lambda: Graph.from_scipy(sp.csr_array((0, 0))), "adjacency has no nodes"),
        (lambda: Graph.from_scipy(sp.csr_array((2, 3))), r"shape \(2, 3\)"),
        (lambda: Graph.from_scipy(sp.coo_array(np.ones(3))), r"shape \(3,\)"),
        (lambda: Graph.from_scipy(np.eye(2)), "adjacency is a ndarray"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, -1], [-1, 0]])), r"adjacency.data is negative"),
        (lambda: Graph.from_scipy(sp.coo_array(([3.0, -1.0], ([0, 0], [1, 1])), shape=(2, 2))), "negative"),
        (lambda: Graph.from_scipy(sp.csr_array([[0, 1j], [1j, 0]])), "dtype complex"),
        *((lambda rows=rows: Graph(sp.csr_array(rows)), "not symmetric")
          for rows in ([[0, 1], [0, 0]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], [[0, 1], [2, 0]])),
        (lambda: Graph.from_dense(np.ones((2, 3))), "not square"),
        (lambda: Graph.from_dense([["a"]]), "dtype"),
        (lambda: Graph.from_dense([[0, NAN], [NAN, 0]]), "not finite"),
        (lambda: Graph.from_networkx(nx.Graph()), "add nodes to the networkx graph"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1, {"weight": "heavy"})])), "'heavy', not a number"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features="age"), "'age', which node 0 does not"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features="attributes"), "found no node attribute"),
        (lambda: Graph.from_networkx(nx.Graph([(0, 1)]), features=[]), "empty list"),
        (lambda: Graph.from_networkx(labelled("word"), features="a"), "'a', which is not a number at every"),
        (lambda: Graph.from_networkx(labelled([[1]]), features="a"), "'a', which is not a number at every"),
        (lambda: Graph.batch([]), "graphs is empty"),
        (lambda: Graph.batch([np.eye(2)]), r"graphs\[0\] is a ndarray"),  # type: ignore[list-item]
        (
            lambda: Graph.batch([make(PAIR), make(PAIR, x=[[1.0], [1.0]])]),
            r"graphs\[1\] has 1 features but graphs\[0\] has 0",
        ),
        (lambda: Graph.batch([make(PAIR, x=np.eye(2)), make(PAIR)]), r"graphs\[1\] has 0 features but"),
        *((lambda nodes=nodes: make(PAIR).subgraph(nodes), f"index {wrong}, out of range for 2 nodes")
          for nodes, wrong in (([2], 2), ([-1, 0], -1), ([0, 5, -2], 5))),
        (lambda: make([[0, 1], [1, 2]]).subgraph([2, 1, 0, 1, 2]), "node 1 more than once"),
        *((lambda nodes=nodes: make(PAIR).subgraph(nodes), "non-empty") for nodes in ([], [0.0], [[0]], 0)),
        *((lambda n=n: make(PAIR).subgraph([True] * n), "mask") for n in (1, 3)),
        (lambda: make(PAIR).with_features([[1.0]]), "x has 1 rows"),
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

    refuses(GraphError, "not a valid sparse matrix", Graph.from_scipy, broken())
    refuses(GraphError, "not a valid sparse matrix", Graph.from_edges, [[0], [1]], x=broken())


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
