"""The checks of a graph at their boundaries: the last value that is accepted, the first that is not, and its place."""

import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.reading import PATH
from helpers.refusals import refuses, sentence_of

from softcut.errors import GraphError, SoftcutError
from softcut.graph import Graph, checks
from softcut.graph.conversions import kind_of_graph
from softcut.io import read_features
from softcut.metrics import nmi


def test_two_tensors_are_sources_and_targets_wherever_they_come_from():
    source = torch.tensor([0.0, 1.0], requires_grad=True)
    for ends in ([source, torch.tensor([1, 2])], (source, torch.tensor([1, 2]))):
        assert [part.tolist() for part in checks.check_edge_index(ends)] == [[0, 1], [1, 2]]


def test_where_the_number_of_nodes_comes_from():
    source, target = np.array([0, 2]), np.array([4, 1])
    x, y, names = np.ones((7, 1)), [0] * 8, list("abcdefghi")
    assert checks.node_count(np.int32(6), x, y, names, source, target) == (6, "num_nodes")
    assert checks.node_count(2**31 - 2, x, y, names, source, target)[0] == 2**31 - 2
    assert checks.node_count(None, x, y, names, source, target) == (7, "the rows of x")
    assert checks.node_count(None, None, y, names, source, target) == (8, "the length of y")
    assert checks.node_count(None, None, None, names, source, target) == (9, "node_names")
    assert checks.node_count(None, None, None, None, source, target) == (5, "the largest index")
    with pytest.raises(GraphError, match="y is 3: pass one entry per node"):
        checks.node_count(None, None, 3, None, source, target)
    with pytest.raises(GraphError, match="no edges and num_nodes is not given"):
        checks.node_count(None, None, None, None, source[:0], target[:0])
    far = np.array([0]), np.array([10**8 - 1])
    assert checks.node_count(None, None, None, None, *far)[0] == 10**8
    with pytest.raises(GraphError, match="node index 100000000 in a graph of 1 edges"):
        checks.node_count(None, None, None, None, far[0], far[1] + 1)


@pytest.mark.parametrize(("edges", "most"), [(3 * 10**6, 3 * 10**8), (3 * 10**7, 2**31 - 2)])
def test_many_edges_allow_a_large_index(edges, most):
    """Up to a hundred nodes for each edge, as far as 32 bits go."""
    zeros, last = (np.broadcast_to(np.int64(end), edges) for end in (0, most - 1))
    assert checks.node_count(None, None, None, None, zeros, last)[0] == most
    with pytest.raises(GraphError, match=f"node index {most} in a graph of {edges} edges"):
        checks.node_count(None, None, None, None, zeros, np.broadcast_to(np.int64(most), edges))


def test_features():
    assert checks.check_features(None, 3) is None
    assert checks.check_features(sp.csr_array((2, 3)), 2).nnz == 0
    assert checks.check_features(sp.csr_array((np.zeros(1), [0], [0, 1]), shape=(1, 2)), 1).nnz == 0
    wide = sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    x = checks.check_features(wide, 2)
    assert x.indices.dtype == x.indptr.dtype == np.int32
    assert x.toarray().tolist() == [[0, 3], [0, 0]]
    assert x.nnz == 1, "duplicates are added, zeros are left out"
    assert wide.nnz == 3, "the caller's matrix is left alone"
    torch_sparse = torch.eye(2).to_sparse()
    assert checks.check_features(torch_sparse, 2).toarray().tolist() == [[1, 0], [0, 1]]
    large = np.finfo(np.float32).max
    assert checks.check_features(np.array([[float(large)]]), 1)[0, 0] == large


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "is not finite"), (np.inf, "is not finite"), (1e39, "does not fit in float32")],
)
def test_features_that_are_not_finite_are_named_by_their_place(kind, value, words):
    x = np.ones((3, 4))
    x[1, 2] = value
    x[2, 0] = np.inf
    said = sentence_of(GraphError, checks.check_features, kind(x), 3)
    assert f"x[1, 2] is {value}" in said and words in said


@pytest.mark.parametrize(
    "y", [[1, 0], [[1], [0]], [1.0, 0.0], [True, False], np.array([1, 0], dtype=np.uint8)]
)
def test_labels(y):
    labels = Graph.from_edges([[0], [1]], y=y).y
    assert labels.dtype == np.int64
    assert labels.tolist() == [1, 0]


def test_labels_that_64_bits_do_not_hold_do_not_collapse():
    for y in ([1e19, 2e19, 3], [2.0**53, 2.0**53 + 2, 3], np.array([2**64 - 1, 2**63, 3], np.uint64)):
        refuses(GraphError, "y has dtype .*pass integers", Graph.from_edges, [[0, 1], [1, 2]], y=y)
        assert nmi(y, [0, 1, 2]) == nmi([0, 1, 2], y) == pytest.approx(1.0)


def hidden(values, *masked):
    """A masked array, and a list with one in it."""
    made = np.ma.masked_array(values)
    for place in masked:
        made[place] = np.ma.masked
    return made, list(made)


@pytest.mark.parametrize(
    ("argument", "build"),
    [
        ("adjacency", lambda m: Graph.from_dense(m)),
        ("graph", lambda m: Graph.from_any(m)),
        ("x", lambda m: Graph.from_dense(PATH, x=m)),
        ("[xX]", lambda m: Graph.from_features(m, 1)),
        ("x", lambda m: Graph.from_any((PATH, m))),
        ("features: x", lambda m: read_features(m)),
    ],
)
def test_what_a_mask_hides_is_no_value(argument, build):
    for matrix in hidden(PATH, (0, 1), (1, 0)):
        refuses(SoftcutError, f"^{argument} is a masked array with .* masked value", build, matrix)
    build(np.ma.masked_array(PATH))  # nothing is hidden


def test_masks_of_other_arguments():
    made = Graph.from_edges([[0, 2], [1, 3]], num_nodes=4)
    for argument, values in {
        "edge_weight": [1.0, 2.0],
        "y": [1, 2, 3, 4],
        "ptr": [0, 2, 4],
        "node_names": ["a", "b", "c", "d"],
    }.items():
        for value in hidden(values, 1):
            said = f"{argument} is a masked array with 1 masked value: fill them in"
            refuses(GraphError, said, Graph.from_edges, [[0, 2], [1, 3]], num_nodes=4, **{argument: value})
    for value in hidden([0, 2], 1):
        refuses(GraphError, "nodes is a masked array", made.subgraph, value)
        refuses(GraphError, "labels is a masked array", nmi, [0, 1], value)
    for value in hidden([[0, 2], [1, 3]], (0, 1)):
        refuses(GraphError, "edge_index is a masked array", Graph.from_edges, value)


def test_batches_may_share_names():
    ptr = np.array([0, 2, 3], np.int32)
    batch = Graph.from_edges([[0], [1]], num_nodes=3, node_names=["a", "b", "a"], ptr=ptr)
    assert batch.node_names == ["a", "b", "a"]
    assert batch.ptr.dtype == np.int64
    assert batch.ptr.tolist() == [0, 2, 3]
    assert Graph.from_edges([[0], [1]], ptr=[0, 2]).num_graphs == 1


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (np.eye(3), "dense"),
        (np.eye(2), "dense"),
        (np.array([[0, 1], [1, 0]]), "dense"),
        (np.array([[0, 1, 2], [1, 2, 0]]), "edges"),
        (np.array([[0, 1], [1, 2], [2, 0]]), "edges"),
        ([(0, 1), (1, 2)], "edges"),
        ([(0, 1), [1, 2], (2, 0)], "edges"),
        ([("a", "b"), ("b", 2)], "named pairs"),
        ([["a", "b"], ["b", "c"]], "named pairs"),
        ([[0, 1, 1], [1, 0, 0], [1, 0, 0]], "dense"),
        (torch.eye(3), "dense"),
        (torch.eye(3).to_sparse(), "scipy"),
        (sp.csr_array(np.eye(2)), "scipy"),
        (nx.path_graph(2), "networkx"),
        ((np.eye(3), np.ones((3, 2))), "graph and features"),
        (([[0, 1], [1, 0]], [[1.0], [2.0]]), "graph and features"),
        ([np.eye(3), np.eye(2)], "graphs"),
        ((np.eye(3),), "graphs"),
        ([[0, 1]], "edges"),
        ([(np.eye(3), np.ones((3, 2))), (np.eye(2), np.ones((2, 2)))], "graphs"),
        ((nx.path_graph(2), nx.path_graph(3)), "graphs"),
    ],
)
def test_what_is_taken_for_what(given, kind):
    assert kind_of_graph(given) == kind


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([[0, 1], [2, 3]]), "2 x 2 array of integers"),
        ([[0, 1], [2, 3]], "nested list of shape (2, 2)"),
        (([0, 1], [2, 3]), "nested list of shape (2, 2)"),
        ([], "an empty list"),
        ("graph.csv", "a path"),
        (b"graph.csv", "a path"),
        (np.ones((2, 3)), "an array of shape (2, 3)"),
        (np.ones((3, 4), dtype=int), "an array of shape (3, 4)"),
        (np.ones((2, 2, 2)), "an array of shape (2, 2, 2)"),
        (object(), "cannot make a graph of 'object'"),
    ],
)
def test_what_is_no_graph(given, words):
    assert words in sentence_of(GraphError, kind_of_graph, given)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_columns_that_float32_cannot_hold(kind):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 3))
    with pytest.raises(
        GraphError, match=r"no value above .*e-60 in column 1, too small for float32: multiply"
    ):
        checks.check_features(kind(x * [1, 1e-60, 1]), 20)
    with pytest.warns(
        UserWarning, match=r"column 2 of x differs by .* around 1e\+07.*subtract its mean first"
    ):
        checks.check_features(kind(x + 1e7 * (np.arange(3) == 2)), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks.check_features(kind(x * [1e-30, 1e30, 1] + [0, 0, 1e3]), 20)
        checks.check_features(kind(0.1 + 0 * x + 1e-17), 20)  # constant, but for rounding
        checks.check_features(kind((x + 1e7).astype(np.float32)), 20)  # as it came
        checks.check_features(kind(np.where(x > 0, 1e-60, x)), 20)  # small beside others
