"""Data frames, lists, igraph graphs and 64-bit matrices: names and indices are honoured, ambiguity is refused."""

import subprocess
import sys
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from helpers.graph_checks import check_invariants, quiet
from helpers.refusals import refuses

from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph
from softcut.io import read_features, read_graph

PATH = np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]], float)  # ann - bob - cy


def dense(g: Graph) -> np.ndarray:
    return g.adjacency.toarray()


# ---------------------------------------------------------------------- edges


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_are_edge_lists(frame: Any) -> None:
    links = frame({"year": [2001, 2002], "to": ["bob", "cy"], "from": ["ann", "bob"], "weight": [2.0, 1.0]})
    for g in (Graph.from_any(links), Graph.from_frame(links), read_graph(links)):
        check_invariants(g)
        assert g.node_names == ["ann", "bob", "cy"]
        np.testing.assert_array_equal(dense(g), PATH)
        assert "ignored 'year'" in "; ".join(g.notes)
    assert Graph.from_frame(links, weight="year").adjacency[0, 1] == 2001
    integers = frame({"u": [0, 1], "v": [1, 2]})
    assert Graph.from_any(integers).node_names is None
    gaps = frame({"u": [10, 7], "v": [7, 99]})
    assert Graph.from_any(gaps).node_names == ["10", "7", "99"]
    zeros = frame({"u": ["01", "1"], "v": ["1", "2"]})
    assert Graph.from_any(zeros).node_names == ["01", "1", "2"]


def test_frames_that_are_no_edge_lists() -> None:
    columns = {"source": ["a", "b"], "target": ["b", "c"]}
    for frame, words in (
        ({key: [1, 1] for key in "abcd"}, r"columns 'a', 'b', 'c', 'd': name two .*source= and target="),
        ({**columns, "source": ["a", None]}, r"row 1, column 1 \('source'\): the source is missing"),
        (
            {**columns, "target": [1.5, 2.5]},
            r"row 0, column 2 \('target'\): the target is missing or not a node",
        ),
        ({**columns, "weight": ["heavy", 1]}, "weights in column 'weight' are not numbers"),
        ({**columns, "weight": [np.nan, 1]}, "edge_weight is not finite"),
        ({}, "no nodes"),
        ({"source": [], "target": []}, "has no values"),
    ):
        refuses(GraphError, words, Graph.from_any, pd.DataFrame(frame))
    with pytest.raises(ParameterError, match="source is 'x'"):
        Graph.from_frame(pd.DataFrame({"a": [1], "b": [2]}), source="x", target="b")


# ---------------------------------------------------------------------- matrices


def test_a_labelled_matrix_is_aligned_by_label() -> None:
    names = ["ann", "bob", "cy"]
    shuffled = pd.DataFrame(PATH, index=names, columns=names)[["cy", "ann", "bob"]]
    for g in (quiet(Graph.from_any, shuffled), quiet(Graph.from_dense, shuffled), read_graph(shuffled)):
        assert g.node_names == names
        np.testing.assert_array_equal(dense(g), PATH)
    assert "aligned" in "; ".join(Graph.from_any(shuffled).notes)
    plain = Graph.from_any(pd.DataFrame(PATH))
    assert plain.node_names is None
    np.testing.assert_array_equal(dense(plain), PATH)
    labelled = {"who": names, "cy": PATH[2], "ann": PATH[0], "bob": PATH[1]}
    for g in (Graph.from_any(pl.DataFrame(labelled)), Graph.from_any(pd.DataFrame(labelled))):
        assert g.node_names == names
        np.testing.assert_array_equal(dense(g), PATH)
    pair = pl.DataFrame({"who": names[:2], "ann": [0.0, 2.0], "bob": [2.0, 0.0]})
    assert Graph.from_any(pair).node_names == names[:2] and Graph.from_any(pair).adjacency[0, 1] == 2
    with pytest.raises(GraphError, match="same label 'ann'"):
        Graph.from_any(pd.DataFrame(PATH, index=["ann", "ann", "cy"], columns=["ann", "cy", "cy"]))
    with pytest.raises(GraphError, match="different labels"):
        Graph.from_dense(pd.DataFrame(PATH, index=names, columns=list("xyz")))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_three_edges_with_weights_are_no_matrix(frame: Any) -> None:
    links = frame({"source": [0, 1, 2], "target": [1, 2, 0], "weight": [0.5, 0.25, 2.0]})
    g = Graph.from_any(links)
    assert g.adjacency[2, 0] == 2.0
    assert g.num_edges == 3
    # Without titles that say so, a square of numbers may be either.
    numbers = {"a": [0, 1, 2], "b": [1, 2, 0], "c": [0.5, 0.25, 2.0]}
    half = frame({"source": [0, 1], "b": [1, 0]}), frame({"a": [0, 1], "target": [1, 0]})
    for square in half:
        refuses(GraphError, "matrix or edges", Graph.from_any, square)
    for square in (frame(numbers), frame({"a": [0, 1], "b": [1, 0]})):
        with pytest.raises(GraphError, match=r"matrix or edges: call Graph.from_dense .* Graph.from_frame"):
            Graph.from_any(square)
        assert Graph.from_frame(square, source="a", target="b").num_edges in (1, 3)
    for rows in ([[0, 1, 5], [1, 2, 6], [2, 3, 7]], [[0, 1], [2, 3]]):
        refuses(GraphError, "matrix or edges", Graph.from_any, pd.DataFrame(rows))
    assert Graph.from_any(pd.DataFrame({"x": ["y"], "y": ["z"]})).node_names == ["y", "z"]
    with pytest.warns(UserWarning, match="directed"):  # four columns are no edges
        assert Graph.from_any(pd.DataFrame(np.triu(np.ones((4, 4)), 1))).num_edges == 6


# ---------------------------------------------------------------------- features


def test_features_are_joined_by_the_index() -> None:
    x = pd.DataFrame({"age": [28, 31, 45], "height": [1.6, 1.7, 1.8]}, index=["cy", "ann", "bob"])
    names = ["ann", "bob", "cy"]
    expected = np.array([[31, 1.7], [45, 1.8], [28, 1.6]], np.float32)
    edges = [[0, 1], [1, 2]]
    for g in (
        Graph.from_edges(edges, x=x, node_names=names),
        Graph.from_edges(edges, node_names=names).with_features(x),
        Graph.from_any(nx.path_graph(names), x=x),
        Graph.from_any((Graph.from_edges(edges, node_names=names), x)),
        Graph.from_dense(PATH, x=x, node_names=names),
        Graph.from_frame(pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cy"]}), x=x),
        Graph.from_any([("ann", "bob"), ("bob", "cy")], x=x),
        read_graph(pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cy"]}), features=x),
    ):
        np.testing.assert_array_equal(g.x, expected)
        assert g.feature_names == ["age", "height"]
        assert "joined by the index" in "; ".join(g.notes)
    np.testing.assert_array_equal(read_features(x, node_names=names), expected)
    with pytest.raises(GraphError, match="no row for node 'dan'"):
        Graph.from_edges(edges, node_names=["ann", "bob", "dan"]).with_features(x)
    with pytest.raises(GraphError, match=r"no id of the index is a node.* pass ids=False if row i belongs"):
        Graph.from_edges(edges, node_names=["a", "b", "c"]).with_features(x)


def test_features_are_joined_by_a_column() -> None:
    g = Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "cy"])
    x = pl.DataFrame({"age": [28, 31, 45], "who": ["cy", "ann", "bob"]})
    made = g.with_features(x)
    np.testing.assert_array_equal(made.x, [[31], [45], [28]])
    said = ["features joined by column 'who'", "columns: 'age' number, 'who' id"]
    assert (made.feature_names, made.notes) == (["age"], said)
    assert g.with_features(x, feature_names=["years"]).feature_names == ["years"]
    shared = pd.DataFrame({"v": [1, 2, 3, 4]}, index=list("baab"))  # names of two graphs tell nothing
    pair = Graph.from_edges([[0, 2], [1, 3]], x=shared, node_names=list("abab"), ptr=[0, 2, 4])
    assert pair.x.ravel().tolist() == [1, 2, 3, 4]
    more = pd.DataFrame({"age": [1, 2, 3, 4]}, index=["zoe", "cy", "ann", "bob"])
    made = g.with_features(more)
    np.testing.assert_array_equal(made.x, [[3], [4], [2]])
    assert "1 row of other nodes left out" in made.notes


def test_an_index_of_numbers() -> None:
    g = Graph.from_edges([[0, 1], [1, 2]])
    x = pd.DataFrame({"a": [0.0, 10.0, 20.0]})
    np.testing.assert_array_equal(g.with_features(x).x, [[0], [10], [20]])
    np.testing.assert_array_equal(g.with_features(x.iloc[[2, 0, 1]]).x, [[0], [10], [20]])
    # Rows that were filtered are not the nodes 0, 1, 2.
    refuses(GraphError, "no row for node '1'", g.with_features, pd.DataFrame({"a": range(9)}).iloc[[0, 4, 8]])
    other = g.with_features(pd.DataFrame({"a": [1, 2, 3]}, index=[70, 80, 90]))
    np.testing.assert_array_equal(other.x, [[1], [2], [3]])
    assert "no id of the index is a node: rows joined by position" in other.notes


def test_values_of_frames() -> None:
    g = Graph.from_edges([[0], [1]])
    x = pd.DataFrame({"ok": [True, False], "n": pd.array([1, 2], dtype="Int64"), "f": [0.5, 1.5]})
    np.testing.assert_array_equal(g.with_features(x).x, [[1, 1, 0.5], [0, 2, 1.5]])
    with pytest.raises(GraphError, match=r"row 1, column 1 \('n'\): the value is missing"):
        g.with_features(pd.DataFrame({"n": pd.array([1, None], dtype="Int64")}))
    with pytest.raises(GraphError, match=r"row 1, column 2 \('n'\): 'x' is not a number"):
        g.with_features(pd.DataFrame({"city": ["Rome", "Oslo"], "n": [1, "x"]}))
    assert g.with_features(pd.DataFrame(np.eye(2))).feature_names is None
    cities = pl.DataFrame({"n": [1, None], "city": ["Rome", "Oslo"]})
    hot = read_features(cities, categories=["city"], missing="zero")
    np.testing.assert_array_equal(hot, [[1, 0, 1], [0, 1, 0]])


def test_labels_in_a_series_are_joined_by_its_index() -> None:
    y = pd.Series([2, 0, 1], index=["cy", "ann", "bob"])
    g = Graph.from_edges([[0, 1], [1, 2]], node_names=["ann", "bob", "cy"], y=y)
    np.testing.assert_array_equal(g.y, [0, 1, 2])
    np.testing.assert_array_equal(Graph.from_edges([[0, 1], [1, 2]], y=pd.Series([5, 6, 7])).y, [5, 6, 7])
    for index in (["ann", "ann", "bob"], [7, 8, 9], [0, 1, 2]):
        y = pd.Series([5, 6, 7], index=index)
        assert Graph.from_edges([[0, 1], [1, 2]], y=y, node_names=["ann", "bob", "0"]).y.tolist() == [5, 6, 7]
    y = pd.Series([2, 0], index=["cy", "ann"])
    with pytest.raises(GraphError, match="y has no value for node 'dan'"):
        Graph.from_edges([[0], [1]], node_names=["ann", "dan"], y=y)


def test_feature_names() -> None:
    g = Graph.from_edges([[0], [1]], x=np.eye(2), feature_names=["a", "b"])
    assert g.feature_names == ["a", "b"]
    assert Graph.batch([g, g]).feature_names == ["a", "b"]
    assert Graph.batch([g, g.with_features(np.eye(2))]).feature_names == ["a", "b"]
    with pytest.raises(GraphError, match="'b', 'a' but graphs"):
        Graph.batch([g, g.with_features(np.eye(2), feature_names=["b", "a"])])
    wrong = {"1 names but x has 2 columns": ["a"], "'a' more than once": ["a", "a"]}
    wrong |= {"single string": "ab", "feature_names is 3": 3}
    for sentence, names in wrong.items():
        with pytest.raises(GraphError, match=sentence):
            g.with_features(np.eye(2), feature_names=names)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- lists


def test_pairs_and_nested_lists() -> None:
    triangle = dense(Graph.from_edges([[0, 1, 2], [1, 2, 0]]))
    pairs = [(0, 1), (1, 2), (2, 0)]
    for source in (pairs, [*map(list, pairs)], np.array(pairs), np.array(pairs).T, triangle.tolist()):
        np.testing.assert_array_equal(dense(quiet(Graph.from_any, source)), triangle)
    made = Graph.from_any((triangle.tolist(), np.eye(3)))
    assert made.num_features == 3
    named = Graph.from_any([("ann", "bob"), ("bob", "cy")])
    assert named.node_names == ["ann", "bob", "cy"]
    for end in ("", " ", None):
        refuses(GraphError, "edge 1 has an end without a name", Graph.from_any, [("a", "b"), ("b", end)])
        frame = pd.DataFrame({"source": ["a", "b"], "target": ["b", end]})
        refuses(GraphError, "row 1.*the target is missing", Graph.from_frame, frame)
    # Two pairs are edges, also where they are only two; G.edges of networkx is such a list.
    for two in ([(0, 1), (2, 3)], nx.Graph([(0, 1), (2, 3)]).edges):
        assert np.argwhere(dense(Graph.from_edges(two))).tolist() == [[0, 1], [1, 0], [2, 3], [3, 2]]


def test_rows_of_source_target_and_weight_are_no_matrix() -> None:
    rows = [(0, 1, 2.0), (1, 2, 1.0), (2, 0, 1.0)]
    refuses(GraphError, r"shape \(3, 3\).*from_dense.*from_edges", Graph.from_any, rows)
    for others in (rows[:2] * 2, [("a", "b", 1.0), ("b", "c", 2.0), ("c", "a", 2.0)]):
        with pytest.raises(GraphError, match=r"rows of three values: pass the pairs to Graph.from_edges"):
            Graph.from_any(others)
    for two in (rows[:2], [[0, 1, 2], [1, 2, 0]], ((0, 1, 2), (1, 2, 3)), [("a", "b", 1), ("b", "c", 2)]):
        refuses(
            GraphError, r"may be three edges or two with weights: call Graph.from_edges", Graph.from_any, two
        )


# ---------------------------------------------------------------------- igraph and 64-bit indices


def test_igraph() -> None:
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(n=3, edges=[(0, 1), (1, 2), (1, 0)])
    graph.vs["name"] = ["ann", "bob", "cy"]
    graph.vs["age"] = [31, 45, 28]
    graph.es["weight"] = [1.5, 1.0, 0.5]
    g = quiet(Graph.from_any, graph)
    assert g.node_names == ["ann", "bob", "cy"]
    np.testing.assert_array_equal(dense(g), PATH)
    featured = Graph.from_igraph(graph, weight=None, features=["age"])
    np.testing.assert_array_equal(featured.x, [[31], [45], [28]])
    assert featured.feature_names == ["age"]
    assert not featured.weighted
    # Two directions of an edge are one edge given twice without directions, and two edges with them.
    graph = igraph.Graph(n=3, edges=[(0, 1), (1, 0), (1, 2)], directed=True)
    graph.es["weight"] = [1.0, 3.0, 5.0]
    with pytest.warns(UserWarning, match="1 of 3 edges has no edge in the other direction"):
        directed = Graph.from_igraph(graph)
    assert dense(directed).tolist() == [[0, 4, 0], [4, 0, 5], [0, 5, 0]], "their sum"
    refuses(GraphError, "add vertices to the igraph graph", Graph.from_igraph, igraph.Graph())


def test_nothing_needs_pandas_polars_or_igraph() -> None:
    code = (
        "import sys; sys.modules.update(pandas=None, polars=None, igraph=None);"  # importing them fails
        "import numpy as np, softcut;"
        "print(softcut.Graph.from_any(np.ones((3, 3)) - np.eye(3), x=np.eye(3)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "Graph(3 nodes, 3 edges, 3 features)"


@pytest.mark.parametrize("source", [[[0, 1], [1, 0]], [[0, 1], [2, 3]], np.array([[0, 1], [2, 3]])])
def test_what_may_be_a_matrix_or_edges_is_refused(source: Any) -> None:
    refuses(GraphError, r"matrix or edges: call Graph.from_dense .* Graph.from_edges", Graph.from_any, source)


def test_matrices_with_64_bit_indices() -> None:
    from sklearn.cluster import KMeans

    wide = sp.csr_array(PATH)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    g = Graph.from_scipy(wide, x=wide)
    assert isinstance(g.x, sp.csr_array)
    assert g.x.indices.dtype == g.x.indptr.dtype == np.int32
    assert g.adjacency.indices.dtype == np.int32
    np.testing.assert_array_equal(g.x.toarray(), PATH)
    assert KMeans(2, n_init=1, random_state=0).fit(g.x).labels_.shape == (3,)
