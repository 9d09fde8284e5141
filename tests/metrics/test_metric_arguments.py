"""What scores refuse, in one sentence that names the argument."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from helpers.refusals import refuses

from softcut import metrics
from softcut.errors import GraphError, ParameterError, SoftcutError
from softcut.metrics import balance, clusters_used, evaluate, evidence, modularity, nmi

PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
LABELS = [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([None, 1], r"y has no label for node 0 \(None\)"),
        (["a", None], r"y has no label for node 1 \(None\)"),
        ([1.5, np.nan], "y holds NaN"),
        (np.array(["a", np.float64("nan")], dtype=object), "y has no label for node 1"),
        (pd.Series(["a", None]), "y has no label for node 1"),
        (pd.Series(["a", pd.NA], dtype="string"), r"y has no label for node 1 \(<NA>\)"),
        (np.array([0, pd.NaT], dtype=object), r"y has no label for node 1 \(NaT\)"),
        (["a", 1], r"y must hold numbers or text, not both or anything else; it has 'a' \(str\), 1 \(int\)"),
        (np.array(["a", 1, b"c"], dtype=object), r"it has 'a' \(str\), 1 \(int\)\.$"),
        ([1 + 2j, 1], "y must hold numbers or text"),
        (np.array([{}, {}]), "y must hold numbers or text"),
        ([[1], [2, 3]], "y must be one label per node"),
        ({0: 1, 1: 2}, "y must be one label per node"),
        (5, "y must be one label per node"),
        (np.ma.array([0, 1], mask=[True, False]), "y is a masked array with 1 masked value"),
    ],
    ids=str,
)
def test_labels_that_cannot_be_compared(y, said):
    for score in (nmi, metrics.ari, metrics.homogeneity, metrics.completeness, metrics.matched_accuracy):
        refuses(SoftcutError, said, score, y, [0, 1])
    refuses(SoftcutError, said.replace("y ", "labels ", 1), nmi, [0, 1], y)
    refuses(SoftcutError, said.replace("y ", "labels ", 1), clusters_used, y)
    refuses(SoftcutError, said, evaluate, np.array([[0, 1], [1, 0]]), [0, 1], y)


def test_labels_of_every_kind_that_can():
    for y in (
        ["a", "b"],
        np.array(["a", "b"], dtype=object),
        pd.Series(["a", "b"], index=[7, 7]),
        pd.Series(["a", "b"], dtype="category"),
        np.array([0, 1.5], dtype=object),
        torch.tensor([0.0, 1.0], requires_grad=True),
        np.ma.array([0, 1]),
        [True, False],
        [b"a", b"b"],
        [1e19, 2e19],
    ):
        assert nmi(y, [0, 1]) == 1.0
    assert clusters_used([1e19, 2e19, 1e19]) == 2  # as whole numbers they would be one


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (nx.path_graph(4), r"graph must be a Graph, .* got Graph; pass softcut.Graph.from_networkx\(graph\)"),
        (nx.DiGraph([(0, 1)]), "got DiGraph"),
        ("abc", "got str"),
        (None, "got NoneType"),
        (7, "got int"),
        ([[0, "a"], ["a", 0]], "must hold numbers, but it holds <U"),
        (PATH + 0j, "must hold numbers, but it holds complex128"),
        (sp.csr_array(PATH + 0j), "must hold numbers, but it holds complex128"),
        ([[0, 1], [1]], "must be square"),
        (PATH[:, :2], "must be square"),
    ],
    ids=str,
)
def test_graphs(graph, said):
    for score in (modularity, metrics.conductance, metrics.normalised_cut, evidence, evaluate):
        refuses(GraphError, said, score, graph, LABELS)


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([[1, 2]] * 3, "x has 3 rows but the graph has 4 nodes"),
        ([1, 2, 3, 4], "x has shape"),
        ("abc", "x has shape"),
        (np.full((4, 2), np.nan), r"x\[0, 0\] is nan"),
        ([["a", "b"]] * 4, "x has dtype <U1"),
    ],
    ids=str,
)
def test_features_of_the_evidence(x, said):
    refuses(GraphError, said, evidence, PATH, LABELS, x)


def test_features_may_be_a_list_and_other_arguments_are_numbers():
    x = [[1, 0], [1, 0], [0, 1], [0, 1]]
    assert (
        evidence(PATH, LABELS, x)
        == evidence(PATH, LABELS, np.array(x))
        == evidence(PATH, LABELS, sp.csr_array(x))
    )
    for k in ("a", 2.5, True, 0):
        refuses(ParameterError, "k must be a whole number of at least 1", balance, LABELS, k)
    for resolution in ("a", np.nan, None):
        refuses(ParameterError, "resolution must be a finite number", modularity, PATH, LABELS, resolution)
