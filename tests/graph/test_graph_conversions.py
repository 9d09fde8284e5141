"""Graphs of other libraries: networkx, PyTorch Geometric, torch, and whatever from_any takes."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_checks import check_invariants, quiet
from helpers.refusals import refuses
from torch_geometric.data import Batch, Data

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.graph.conversions import edges_of_pyg


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
    assert g.feature_names == ["age", "vector[0]", "vector[1]"]
    np.testing.assert_array_equal(quiet(Graph.from_networkx, graph, features="attributes").x, [[3], [4]])
    assert not quiet(Graph.from_networkx, graph, weight=None).weighted
    # 1 and "1" are two nodes.
    assert Graph.from_networkx(nx.Graph([(1, "1")])).node_names == ["1", "'1'"]


def test_batches_of_pytorch_geometric_and_back() -> None:
    one = Data(
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        edge_attr=torch.tensor([[2.0], [2.0], [3.0], [3.0]]),
        x=torch.eye(3),
        y=torch.tensor([0, 1, 0]),
    )
    pair = torch.tensor([[0, 1], [1, 0]])
    two = Data(edge_index=pair, edge_attr=torch.ones(2, 1), x=torch.ones(2, 3), y=torch.tensor([1, 1]))
    g = quiet(Graph.from_pyg, one)
    check_invariants(g)
    assert g.adjacency.dtype == np.float32
    assert g.adjacency[1, 2] == 3.0
    batch = Batch.from_data_list([one, two])
    b = quiet(Graph.from_pyg, batch)
    np.testing.assert_array_equal(b.ptr, [0, 3, 5])
    del batch.ptr
    np.testing.assert_array_equal(quiet(Graph.from_pyg, batch).ptr, [0, 3, 5])
    back = b.to_pyg()
    assert back.num_graphs == 2
    again = quiet(Graph.from_pyg, back)
    np.testing.assert_array_equal(again.adjacency.toarray(), b.adjacency.toarray())
    np.testing.assert_array_equal(again.x, b.x)
    np.testing.assert_array_equal(again.y, b.y)
    refuses(GraphError, "no edge_index", Graph.from_pyg, Data(x=torch.eye(2)))


def test_torch_features_and_sparse_tensors() -> None:
    sparse = torch.eye(2).to_sparse_csr()
    weight = torch.tensor([2.0], requires_grad=True)
    g = Graph.from_edges(torch.tensor([[0], [1]]), x=sparse, edge_weight=weight)
    assert sp.issparse(g.x)
    assert Graph.from_edges([[0], [1]], x=torch.ones(2, 3, dtype=torch.bfloat16)).num_features == 3
    assert Graph.from_any(torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()).num_edges == 1


def test_from_any() -> None:
    dense = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    x = np.arange(6.0).reshape(3, 2)
    g = Graph.from_dense(dense)
    edges = np.array([[0, 1], [1, 2]])
    # A 2 x 2 array is square, hence an adjacency matrix: more edges make the difference.
    sources = [
        g, dense, dense.tolist(), sp.coo_matrix(dense), sp.csr_array(dense), torch.tensor(dense),
        nx.from_numpy_array(dense), Data(edge_index=torch.tensor(edges), num_nodes=3),
        np.array([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
    ]  # fmt: skip
    for source in sources:
        for made in (Graph.from_any(source, x=x), Graph.from_any((source, x))):
            np.testing.assert_array_equal(made.adjacency.toarray(), dense)
            np.testing.assert_array_equal(made.x, x)
    assert Graph.from_any(g) is g
    assert Graph.from_any([g, g]).num_graphs == 2
    path = nx.path_graph(3)
    assert Graph.from_any((path, g, sp.csr_array(dense))).num_graphs == 3
    featured = Graph.from_any([(path, np.eye(3)), (sp.csr_array(dense), np.ones((3, 3)))])
    assert (featured.num_graphs, featured.num_features) == (2, 3)


def test_pytorch_geometric_data():
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([2.0, 2.0, 3.0, 3.0])
    for key, value in (("edge_weight", weight), ("edge_attr", weight), ("edge_attr", weight[:, None])):
        made = edges_of_pyg(Data(edge_index=index, num_nodes=4, **{key: value}))
        assert made["edge_weight"].tolist() == [2, 2, 3, 3]
        assert made["num_nodes"] == 4
    # Whole numbers are kinds of edges: as weights, kind 0 would drop its edges.
    kinds = Graph.from_pyg(Data(edge_index=index, num_nodes=3, edge_attr=torch.tensor([0, 0, 1, 1])))
    assert (kinds.num_edges, kinds.weighted) == (2, False)
    assert any("taken for kinds of edges) not used" in note for note in kinds.notes)
    wide = Data(edge_index=index, num_nodes=3, edge_attr=torch.ones(4, 2))
    assert edges_of_pyg(wide)["edge_weight"] is None
    both = Data(edge_index=index, num_nodes=3, edge_weight=weight, edge_attr=torch.ones(4))
    assert edges_of_pyg(both)["edge_weight"].tolist() == [2, 2, 3, 3]
    assert edges_of_pyg(Data(edge_index=index, x=torch.zeros(3, 0)))["x"] is None
    assert edges_of_pyg(Data(edge_index=index, x=torch.arange(3.0)))["x"].shape == (3, 1)
    for y, kept in ((torch.tensor([0, 1, 1]), True), (torch.tensor([[0], [1], [1]]), True), (torch.tensor([1]), False),
                    (torch.rand(3), False)):  # fmt: skip
        assert (edges_of_pyg(Data(edge_index=index, x=torch.rand(3, 1), y=y))["y"] is not None) == kept


@pytest.mark.parametrize(
    ("batch", "ptr"),
    [
        ([0, 0, 1], [0, 2, 3]),
        ([0, 0, 0], [0, 3]),
        *((wrong, None) for wrong in ([0, 1, 0], [1, 1, 1], [0, 0], [0, 0, 3], [-1, 0, 1])),
    ],
)
def test_batches_of_pytorch_geometric(batch, ptr):
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3, batch=torch.tensor(batch))
    if ptr is None:
        refuses(GraphError, r"data\.batch must", edges_of_pyg, data)
    else:
        assert edges_of_pyg(data)["ptr"].tolist() == ptr


def test_to_networkx_and_pytorch_geometric():
    named = {"y": [5, 6, 7], "node_names": ["a", "b", "c"], "name": "g"}
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 2]], edge_weight=[2.0, 3.0, 4.0], self_loops="keep", **named)
    made = graph.to_networkx()
    assert made.edges["a", "b"]["weight"] == 2
    assert made.nodes["c"]["y"] == 7
    back = quiet(Graph.from_networkx, made, self_loops="keep")
    np.testing.assert_array_equal(back.adjacency.toarray(), graph.adjacency.toarray())
    assert (back.node_names, back.name) == (["a", "b", "c"], "g")
    assert nx.utils.edges_equal(Graph.from_edges([[0], [1]]).to_networkx().edges, [(0, 1)])
    both = Graph.batch([graph, graph])
    assert sorted(both.to_networkx().nodes) == list(range(6)), "names that repeat are replaced by indices"
    data = graph.to_pyg()
    assert data.edge_weight.tolist() == [2, 2, 3, 3, 4]
    assert data.y.tolist() == [5, 6, 7]
    plain = Graph.from_edges([[0], [1]])
    assert "edge_weight" not in plain.to_pyg()
    mixed = Graph.batch([Graph.from_edges([[0], [1]], edge_weight=[2.0]), plain]).to_pyg()
    assert mixed.edge_weight.tolist() == [2, 2, 1, 1]
    assert mixed.ptr.tolist() == [0, 2, 4]
