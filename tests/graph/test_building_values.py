"""Adjacency matrices, data frames and graphs of other libraries: exact values, notes and warnings."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from softcut.errors import GraphError
from softcut.graph import Graph, adjacency
from softcut.graph.conversions import edges_of_networkx, edges_of_pyg
from softcut.tables.frames import (
    aligned_series,
    edges_of_frame,
    features_of_frame,
    labelled_adjacency,
    table_of_frame,
)


def caught(build, *arguments, **options):
    """What is built, and the warnings on the way."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = build(*arguments, **options)
    return made, [str(w.message) for w in said]


# ------------------------------------------------------------------------------------------------ adjacency


def of_edges(source, target, weight=None, n=4, self_loops="drop", directed=None):
    notes: list[str] = []
    weight = None if weight is None else np.array(weight, dtype=float)
    made, said = caught(
        adjacency.adjacency_of_edges,
        np.array(source),
        np.array(target),
        weight,
        n,
        self_loops,
        directed,
        notes,
    )
    return made.toarray().tolist(), notes, said


def test_edges_are_merged_and_symmetrised():
    made, notes, said = of_edges([0, 1], [1, 2], n=3)
    assert made == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert notes == said == []
    made, notes, _ = of_edges([0, 0], [1, 1], [2, 3], n=2)
    assert made == [[0, 5], [5, 0]]
    assert notes == ["1 repeated edge merged, their weights summed"]
    made, notes, _ = of_edges([0, 0, 0], [1, 1, 1], n=2)
    assert made == [[0, 1], [1, 0]]
    assert notes == ["2 repeated edges merged"]


def test_loops_and_zeros():
    made, notes, said = of_edges([0, 1, 1], [1, 1, 1], [1, 7, 7], n=2)
    assert made == [[0, 1], [1, 0]]
    assert notes == ["2 self-loops dropped"]
    assert said == ["2 self-loops dropped; pass self_loops='keep' to keep them."]
    assert of_edges([1], [1], n=2)[2] == ["1 self-loop dropped; pass self_loops='keep' to keep it."]
    assert of_edges([0, 1], [1, 1], [1, 7], n=2, self_loops="keep")[0] == [[0, 1], [1, 7]]
    made, notes, _ = of_edges([0, 1, 0], [1, 2, 2], [1, 0, 0], n=3)
    assert made == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert notes == ["2 edges of weight 0 dropped"]


@pytest.mark.parametrize(
    ("directed", "ends", "note"),
    [
        (None, ([0, 1, 1], [1, 0, 2]), "directed (1 of 3 edges without a reverse), symmetrised"),
        (False, ([0, 1, 1], [1, 0, 2]), None),
        (True, ([0, 1, 1], [1, 0, 2]), "directed (1 of 3 edges without a reverse), symmetrised"),
        (None, ([0, 1], [1, 2]), None),
        (True, ([0, 1], [1, 2]), "directed (2 of 2 edges without a reverse), symmetrised"),
    ],
)
def test_directed_edges(directed, ends, note):
    made, notes, said = of_edges(*ends, n=3, directed=directed)
    assert made == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert notes == ([] if note is None else [note])
    assert len(said) == len(notes)
    if said:
        assert ("1 of 3 edges has no edge" in said[0]) == ("1 of 3" in note)


def test_directed_weights():
    made, notes, said = of_edges([0, 1, 1, 2], [1, 0, 2, 1], [1, 3, 5, 5], n=3)
    assert made == [[0, 3, 0], [3, 0, 5], [0, 5, 0]]
    assert notes == ["1 edge directed, the larger weight taken"]
    assert "1 edge out of 2 has another weight" in said[0]
    assert of_edges([0, 1], [1, 0], [1, 3], n=2, directed=False)[1:] == ([], [])
    close = of_edges([0, 1], [1, 0], [1, 1 + 1e-13], n=2)
    assert close[1:] == ([], []), "the last bits are not worth a word"
    assert of_edges([0, 1], [1, 0], [1, 1 + 1e-11], n=2)[1] != []
    single = sp.csr_array(np.array([[0, 1], [1 + 1e-6, 0]], dtype=np.float32))
    assert caught(adjacency.symmetrised, single, None, "a", [])[1] == []
    notes = []
    single = sp.csr_array(np.array([[0, 1], [1 + 1e-4, 0]], dtype=np.float32))
    assert len(caught(adjacency.symmetrised, single, None, "a", notes)[1]) == len(notes) == 1
    both = of_edges([0, 1, 0, 2], [1, 0, 2, 0], [1, 3, 5, 6], n=3)
    assert both[1] == ["2 edges directed, the larger weight taken"]
    assert "2 edges out of 2 have another weight" in both[2][0]


def test_loops_do_not_count_as_edges_with_a_reverse():
    kept = sp.csr_array(np.array([[3.0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    made, said = caught(adjacency.symmetrised, kept, None, "a", [])
    assert said == []
    assert made.toarray().tolist() == [[3, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_the_type_of_indices_and_values():
    matrix = sp.csr_array(np.array([[0, 2], [2, 0]], dtype=np.int8))
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    made = adjacency.canonical_csr(matrix, "a")
    assert made.indices.dtype == made.indptr.dtype == np.int32
    assert made.dtype == np.float64
    assert adjacency.canonical_csr(matrix.astype(np.float32), "a").dtype == np.float32
    for dtype in (bool, float):
        assert (
            Graph.from_edges([[0], [1]], edge_weight=np.array([1], dtype=dtype)).adjacency.indices.dtype
            == np.int32
        )


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(2), "is a ndarray"),
        (sp.csr_array((2, 3)), r"has shape \(2, 3\)"),
        (sp.csr_array((0, 0)), "has no nodes"),
        (sp.csr_array(np.array([[0, 1j], [1j, 0]])), "has dtype complex128"),
        (sp.coo_array(([1.0, -3.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2)), "is negative at position 1"),
        (
            sp.csr_array((np.array([1e308, 1e308]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2)),
            r"the repeated edge \(0, 1\) sums to more",
        ),
        (
            sp.csr_array(
                (np.array([1.0, 2.0, 1e308, 1e308]), np.array([1, 0, 1, 1]), np.array([0, 1, 2, 4])),
                shape=(3, 3),
            ),
            r"the repeated edge \(2, 1\) sums to more",
        ),
        (
            sp.coo_array(([1.0, 1e308, 1e308], ([0, 2, 2], [1, 1, 1])), shape=(3, 3)),
            r"the repeated edge \(2, 1\) sums to more",
        ),
    ],
)
def test_matrices_that_are_refused(matrix, words):
    with pytest.raises(GraphError, match=words):
        adjacency.canonical_csr(matrix, "a")


def test_a_matrix_with_repeats_and_zeros():
    matrix = sp.csr_array(
        (np.array([1.0, 2, 0, 4]), np.array([1, 1, 0, 0]), np.array([0, 3, 4])), shape=(2, 2)
    )
    assert adjacency.canonical_csr(matrix, "a").toarray().tolist() == [[0, 3], [4, 0]]
    assert matrix.nnz == 4, "the caller's matrix is left alone"


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64, np.float32, bool])
def test_repeats_are_summed_in_a_type_that_holds_the_sum(dtype):
    """In uint8, 200 + 100 is 44; booleans are there or not."""
    value = {np.uint8: 200, np.int8: 100, np.int64: 2**62}.get(dtype, 1)
    matrix = sp.coo_array((np.array([value] * 4, dtype=dtype), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    wanted = 1 if dtype is bool else 2 * float(value)
    found = adjacency.canonical_csr(matrix, "a")
    assert found.toarray().tolist() == [[0, wanted], [wanted, 0]]
    assert found.dtype == (np.float32 if dtype is np.float32 else np.float64)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo"])
def test_repeats_of_a_boolean_matrix_are_one_entry(kind):
    """Row 0 says (0, 1) twice, row 1 says (1, 0) with True and False; no weights come from nowhere."""
    said, indices, indptr = np.array([True, True, True, False]), [1, 1, 0, 0], [0, 2, 4]
    if kind == "coo":
        matrix = sp.coo_array((said, ([0, 0, 1, 1], indices)), shape=(2, 2))
    elif kind == "bsr":
        matrix = sp.bsr_array((said.reshape(4, 1, 1), indices, indptr), shape=(2, 2))
    else:
        matrix = {"csr": sp.csr_array, "csc": sp.csc_array}[kind]((said, indices, indptr), shape=(2, 2))
    found = adjacency.canonical_csr(matrix, "a")
    assert found.toarray().tolist() == [[0, 1], [1, 0]]
    graph = Graph.from_scipy(matrix, x=matrix)
    assert graph.num_edges == 1 and not graph.weighted
    assert graph.x.toarray().tolist() == [[0, 1], [1, 0]]
    assert matrix.dtype == bool and matrix.nnz == 4, "the caller's matrix is left alone"


def test_the_diagonal_is_taken_out():
    matrix = sp.csr_array(np.array([[1.0, 2, 0], [2, 5, 3], [0, 3, 0]]))
    notes: list[str] = []
    made, said = caught(adjacency.without_self_loops, matrix, "drop", notes)
    assert made.toarray().tolist() == [[0, 2, 0], [2, 0, 3], [0, 3, 0]]
    assert notes == ["2 self-loops dropped"]
    assert len(said) == 1
    assert adjacency.without_self_loops(matrix, "keep", notes) is matrix
    assert adjacency.without_self_loops(made, "drop", []) is made


def test_blocks():
    blocks = [
        sp.csr_array(np.array([[0.0, 1], [1, 0]])),
        sp.csr_array((1, 1)),
        sp.csr_array(np.array([[0.0, 2], [2, 0]])),
    ]
    whole = adjacency.block_diagonal(blocks)
    np.testing.assert_array_equal(whole.toarray(), sp.block_diag(blocks).toarray())
    assert whole.indices.dtype == np.int32
    for block, (start, end) in zip(blocks, ((0, 2), (2, 3), (3, 5)), strict=True):
        np.testing.assert_array_equal(adjacency.diagonal_block(whole, start, end).toarray(), block.toarray())


def test_patterns():
    a = sp.csr_array(np.array([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    assert adjacency.same_pattern(a, 3 * a)
    for other in (
        [[0, 1, 1], [1, 0, 0], [0, 0, 0]],
        [[0, 0, 1], [1, 0, 0], [0, 0, 0]],
        [[0, 1, 0], [0, 0, 0], [1, 0, 0]],
    ):
        assert not adjacency.same_pattern(a, sp.csr_array(np.array(other, dtype=float)))


# -------------------------------------------------------------------------------------------------- frames


def test_frames_with_labels():
    frame = pd.DataFrame([[5, 0, 1], [0, 6, 2], [3, 4, 7]], index=["a", "b", "c"], columns=["c", "a", "b"])
    matrix, names = labelled_adjacency(frame, "g")
    assert names == ["a", "b", "c"]
    assert matrix.tolist() == [[0, 1, 5], [6, 2, 0], [4, 7, 3]]
    first = frame.reset_index(names="who")
    matrix, names = labelled_adjacency(first, "g")
    assert names == ["a", "b", "c"]
    assert matrix.tolist() == [[0, 1, 5], [6, 2, 0], [4, 7, 3]]
    assert labelled_adjacency(frame.rename(index={"a": "z"}), "g") is None
    assert labelled_adjacency(frame.iloc[:, :2], "g") is None
    twice = pd.DataFrame(np.ones((3, 3)), index=["a", "b", "b"], columns=["a", "b", "b"])
    with pytest.raises(GraphError, match="rows of the same label 'b'"):
        labelled_adjacency(twice, "g")


@pytest.mark.parametrize("size", [2, 3, 4])
def test_square_frames_without_labels(size):
    symmetric = np.ones((size, size))
    matrix, names = labelled_adjacency(pd.DataFrame(symmetric), "g")
    assert names is None
    np.testing.assert_array_equal(matrix, symmetric)
    other = np.arange(size * size).reshape(size, size)
    if size < 4:
        with pytest.raises(GraphError, match="may be a matrix or edges"):
            labelled_adjacency(pd.DataFrame(other), "g")
    else:
        assert labelled_adjacency(pd.DataFrame(other), "g")[0].tolist() == other.tolist()


def test_columns_and_index_of_a_frame():
    table = table_of_frame(pd.DataFrame({"a": [1, 2]}), "x")
    assert table.index is None
    assert table.titled
    assert table_of_frame(pd.DataFrame({"a": [1, 2]}, index=[1, 2]), "x").index == ["1", "2"]
    assert table_of_frame(pd.DataFrame({"a": [1, 2]}, index=[0.0, 1.0]), "x").index == ["0", "1"]
    assert not table_of_frame(pd.DataFrame([[1, 2]]), "x").titled
    assert table_of_frame(pd.DataFrame([[1, 2]], columns=[1, 2]), "x").titled
    for empty in (pd.DataFrame({"a": []}), pd.DataFrame(index=[0, 1])):
        with pytest.raises(GraphError, match="it has no values"):
            table_of_frame(empty, "x")


def test_edges_of_a_frame():
    frame = pd.DataFrame({"who": ["a", "b"], "whom": ["b", "c"], "w": [2.0, 3.0]})
    edges, columns = edges_of_frame(frame, "g")
    assert (columns.source, columns.target, columns.weight) == (0, 1, 2)
    assert edges.names == ["a", "b", "c"]
    assert edges.weight.tolist() == [2, 3]
    with pytest.raises(GraphError, match=r"row 1, column 1 \('who'\): the source is missing"):
        edges_of_frame(frame.assign(who=["a", None]), "g")
    with pytest.raises(GraphError, match=r"row 0, column 2 \('whom'\): the target is missing"):
        edges_of_frame(frame.assign(whom=[1.5, 2.5]), "g")
    with pytest.raises(GraphError, match="the weights in column 'w' are not numbers"):
        edges_of_frame(frame.assign(w=["x", "y"]), "g")
    square = pd.DataFrame({"a": [0, 1, 2], "b": [1, 2, 0], "c": [1, 1, 1]})
    with pytest.raises(GraphError, match="may be a matrix or edges"):
        edges_of_frame(square, "g")
    assert edges_of_frame(square, "g", source="a", target="b")[0].ends.tolist() == [[0, 1], [1, 2], [2, 0]]
    titled = square.set_axis(["source", "target", "c"], axis=1)
    assert edges_of_frame(titled, "g")[0].ends.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert edges_of_frame(square.iloc[:2], "g")[0].ends.tolist() == [[0, 1], [1, 2]]


def test_labels_in_the_order_of_the_nodes():
    series = pd.Series([2, 1, 3], index=["b", "a", "c"])
    assert aligned_series(series, ["a", "b"]).tolist() == [1, 2]
    assert aligned_series(series, None) is series
    assert aligned_series(series, ["x", "y"]) is series
    assert aligned_series([1, 2], ["a", "b"]) == [1, 2]
    counted = pd.Series([2, 1])
    assert aligned_series(counted, ["1", "0"]) is counted
    twice = pd.Series([2, 1], index=["a", "a"])
    assert aligned_series(twice, ["a"]) is twice
    with pytest.raises(GraphError, match="y has no value for node 'z'"):
        aligned_series(series, ["a", "z"])


def test_features_in_the_order_of_the_nodes():
    frame = pd.DataFrame({"age": [45, 31, 20]}, index=["bob", "ann", "cy"])
    x, names, notes = features_of_frame(frame, 2, ["ann", "bob"])
    assert x.tolist() == [[31], [45]]
    assert names == ["age"]
    assert notes == ["features joined by the index", "1 row of other nodes left out"]
    assert features_of_frame(frame.iloc[:2], 2, ["ann", "bob"])[2] == ["features joined by the index"]
    plain = pd.DataFrame({"age": [45, 31]})
    assert features_of_frame(plain, 2, None)[0].tolist() == [[45], [31]]
    from_one = pd.DataFrame({"age": [45, 31]}, index=[2, 1])
    assert features_of_frame(from_one, 2, None)[0].tolist() in ([[31], [45]], [[45], [31]])
    shared = features_of_frame(plain, 2, ["a", "a"])
    assert shared[0].tolist() == [[45], [31]], "names that repeat cannot be joined by"


# ----------------------------------------------------------------------------------------- other libraries


def test_pytorch_geometric_data():
    index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([2.0, 2.0, 3.0, 3.0])
    for given in (
        {"edge_weight": weight},
        {"edge_attr": weight},
        {"edge_attr": weight[:, None]},
        {"edge_weight": weight[:, None]},
    ):
        made = edges_of_pyg(Data(edge_index=index, num_nodes=4, **given))
        assert made["edge_weight"].tolist() == [2, 2, 3, 3]
        assert made["num_nodes"] == 4
    assert (
        edges_of_pyg(Data(edge_index=index, num_nodes=3, edge_attr=torch.ones(4, 2)))["edge_weight"] is None
    )
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
        ([0, 1, 0], None),
        ([1, 1, 1], None),
        ([0, 0], None),
        ([0, 0, 3], None),
    ],
)
def test_batches_of_pytorch_geometric(batch, ptr):
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3, batch=torch.tensor(batch))
    if ptr is None:
        with pytest.raises(GraphError, match=r"data\.batch must"):
            edges_of_pyg(data)
    else:
        assert edges_of_pyg(data)["ptr"].tolist() == ptr


def test_networkx_graphs():
    graph = nx.Graph()
    graph.add_node("b", age=3, at=[1.0, 2.0], word="x")
    graph.add_node("a", age=4.5, at=[3.0, 4.0], word="y")
    graph.add_edge("b", "a", weight=2.5)
    made = edges_of_networkx(graph, "weight", "attributes")
    assert made["node_names"] == ["b", "a"]
    assert made["feature_names"] == ["age"]
    assert made["x"].tolist() == [[3], [4.5]]
    assert made["edge_weight"].tolist() == [2.5]
    assert edges_of_networkx(graph, None)["edge_weight"] is None
    assert edges_of_networkx(graph, "length")["edge_weight"] is None
    several = edges_of_networkx(graph, "weight", ["at", "age"])
    assert several["feature_names"] == ["at[0]", "at[1]", "age"]
    assert several["x"].tolist() == [[1, 2, 3], [3, 4, 4.5]]
    graph.add_edge("b", "c")
    assert sorted(edges_of_networkx(graph, "weight")["edge_weight"].tolist()) == [1, 2.5], (
        "an edge without it weighs 1"
    )
    for features, words in (("word", "not a number"), ("size", "does not have"), ([], "an empty list")):
        with pytest.raises(GraphError, match=words):
            edges_of_networkx(nx.Graph(graph.subgraph(["a", "b"])), "weight", features)
    graph.add_edge("b", "c", weight="heavy")
    with pytest.raises(GraphError, match="an edge whose 'weight' is 'heavy'"):
        edges_of_networkx(graph, "weight")
    assert edges_of_networkx(nx.path_graph(3), "weight")["node_names"] is None
    assert edges_of_networkx(nx.path_graph([2, 1, 0]), "weight")["node_names"] == ["2", "1", "0"]
    assert edges_of_networkx(nx.Graph([(1, "1")]), "weight")["node_names"] == ["1", "'1'"]


def test_to_networkx_and_pytorch_geometric():
    graph = Graph.from_edges(
        [[0, 1], [1, 2]], edge_weight=[2.0, 3.0], y=[5, 6, 7], node_names=["a", "b", "c"], name="g"
    )
    made = graph.to_networkx()
    assert made.edges["a", "b"]["weight"] == 2
    assert made.nodes["c"]["y"] == 7
    assert made.name == "g"
    assert nx.utils.edges_equal(Graph.from_edges([[0], [1]]).to_networkx().edges, [(0, 1)])
    both = Graph.batch([graph, graph])
    assert sorted(both.to_networkx().nodes) == list(range(6)), "names that repeat are replaced by indices"
    data = graph.to_pyg()
    assert data.edge_weight.tolist() == [2, 2, 3, 3]
    assert data.y.tolist() == [5, 6, 7]
    plain = Graph.from_edges([[0], [1]])
    assert "edge_weight" not in plain.to_pyg()
    mixed = Graph.batch([graph.with_features(None)._replace(y=None), plain]).to_pyg()
    assert mixed.edge_weight.tolist() == [2, 2, 3, 3, 1, 1]
    assert mixed.ptr.tolist() == [0, 3, 5]
