"""A linear model of the subtree patterns of graphs (Weisfeiler and Lehman), beside the networks of an ensemble.

A node's pattern of height 0 is its own label, and its pattern of height h + 1 stands for its pattern of height h and
the multiset of those of its neighbours. A graph is described by how often each pattern occurs and by its size. Patterns
are hashed into a fixed number of columns, so that graphs of later are described in the same way. What describes a graph
was chosen on validation graphs (``benchmarks/subtree_columns.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.graph.collection import GraphCollection

HEIGHT = 3  # of the highest patterns
HASHED = 1 << 16
COLUMNS = 2 * HASHED + 2  # roots of the counts, counts, and the two sizes
_MOST_LABELS = 1000  # distinct rows of features up to which a row is a label; above, the degree is
_SIZE = 0.3  # the weight of log sizes, beside counts that are scaled to length 1
_PENALTY = 0.1  # of the squared weights (scikit-learn's 1 / C)


def node_labels(graphs: GraphCollection, by_features: bool) -> NDArray[np.uint64]:
    """A number for every node: equal ones for equal rows of features, or for equal degrees."""
    if not by_features:
        return _mixed(np.minimum(graphs.degree, 64).astype(np.uint64))
    rows = np.concatenate([graphs.index, graphs.value], axis=1, dtype=np.float64) + 0.0  # no -0.0
    bits = np.ascontiguousarray(rows).view(np.uint64)
    return _sums(bits + _mixed(np.arange(1, bits.shape[1] + 1, dtype=np.uint64)))


def features_are_labels(graphs: GraphCollection) -> bool:
    """Whether the nodes of graphs have features of which few enough rows are distinct."""
    if not graphs.num_features:
        return False
    return len(np.unique(node_labels(graphs, by_features=True))) <= _MOST_LABELS


def describe_graphs(graphs: GraphCollection, by_features: bool) -> sp.csr_array:
    """Patterns up to HEIGHT and sizes of graphs: [G, COLUMNS].

    First the square roots of the counts of patterns, then the counts, each scaled to length 1; then the logarithms of
    the numbers of nodes and edges. Roots give rare patterns more weight, which is better on molecules; on large graphs,
    where most high patterns occur once, counts are better.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> ring = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> same, star = Graph.from_edges([[0, 1, 2, 3], [2, 3, 1, 0]]), Graph.from_edges([[0, 0, 0], [1, 2, 3]])
    >>> roots = describe_graphs(from_graphs([ring, same, star]), by_features=False)[:, :HASHED].toarray()
    >>> (roots @ roots.T).round(3).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    graph = np.repeat(np.arange(len(graphs)), graphs.sizes)
    offset = np.repeat(graphs.ptr[:-1], np.diff(graphs.entries_ptr))
    neighbours, labels, blocks = graphs.col + offset, node_labels(graphs, by_features), []
    for height in range(HEIGHT + 1):
        if height:
            passed = np.zeros(len(neighbours) + 1, np.uint64)
            np.cumsum(_mixed(labels)[neighbours], out=passed[1:])  # wraps around, as sums of a row do
            labels = _mixed(3 * labels + np.diff(passed[graphs.rowptr]))
        places = (labels % np.uint64(HASHED)).astype(np.int64)
        blocks.append(sp.csr_array((np.ones(len(places)), (graph, places)), shape=(len(graphs), HASHED)))
    counts = sp.csr_array(sum(blocks[1:], blocks[0]))
    sizes = _SIZE * np.log1p(np.column_stack([graphs.sizes, np.diff(graphs.entries_ptr)]))
    return sp.csr_array(sp.hstack([_unit(counts.sqrt()), _unit(counts), sizes]))


def _unit(rows: sp.csr_array) -> sp.csr_array:
    length = np.sqrt(rows.multiply(rows).sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(1 / np.maximum(length, 1)) @ rows)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random, the same for the same ones (the finaliser of SplitMix64)."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def _sums(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.asarray(_mixed(bits).sum(axis=1, dtype=np.uint64))


@dataclass(frozen=True)
class SubtreeClassifier:
    """Class probabilities by a softmax of the weighted columns of graphs; `weight` is [classes, COLUMNS]."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @classmethod
    def fit(cls, counts: sp.csr_array, y: NDArray[np.int64], classes: int) -> SubtreeClassifier:
        """Logistic regression on the columns of some graphs."""
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(y)) < 2:
            return cls(np.zeros((classes, COLUMNS), np.float32), np.zeros(classes, np.float32))
        # Columns that no graph has keep the weight 0: they are left out of the regression.
        used = np.unique(counts.indices)
        model = LogisticRegression(C=1 / _PENALTY, max_iter=300).fit(counts[:, used], y)
        weight, bias = np.zeros((classes, COLUMNS), np.float32), np.full(classes, -30, np.float32)
        if len(model.classes_) == 2:  # scikit-learn has one row then
            rows, first = np.concatenate([-model.coef_, model.coef_]) / 2, model.intercept_[0] / 2
            intercept = np.array([-first, first])
        else:
            rows, intercept = model.coef_, model.intercept_
        weight[np.ix_(model.classes_, used)] = rows
        bias[model.classes_] = intercept
        return cls(weight, bias)

    def predict(self, counts: sp.csr_array) -> NDArray[np.float64]:
        """Probabilities [G, classes]."""
        from scipy.special import softmax

        return np.asarray(softmax(counts @ self.weight.T.astype(np.float64) + self.bias, axis=1))


def best_share(
    networks: Sequence[NDArray[Any]], subtrees: Sequence[NDArray[Any]], y: Sequence[NDArray[np.int64]]
) -> float:
    """The share of subtree models in the mean of probabilities that has the lowest cross entropy on these graphs.

    Each list has the probabilities of one member on graphs it was not trained on; shares are tenths.
    """
    first, second = np.concatenate(networks), np.concatenate(subtrees)
    rows, classes = np.arange(len(first)), np.concatenate(y)
    shares = np.linspace(0, 1, 11)
    mixed = (1 - shares)[:, None] * first[rows, classes] + shares[:, None] * second[rows, classes]
    return float(shares[np.log(np.maximum(mixed, 1e-12)).mean(1).argmax()])
