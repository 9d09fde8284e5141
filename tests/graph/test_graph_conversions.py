"""Graphs of other libraries: networkx, PyTorch Geometric, torch, and whatever from_any takes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from graph_checks import check_invariants, quiet

from softcut.errors import GraphError
from softcut.graph import Graph


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
