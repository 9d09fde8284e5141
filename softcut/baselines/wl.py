"""Weisfeiler-Lehman subtree kernel with a support vector machine (Shervashidze et al., 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC

from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection, folds

# C is chosen by cross-validation inside every training part.
WL_SETTINGS: dict[str, Any] = {
    "iterations": 5,
    "C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0],
    "inner_folds": 3,
    "labels": "node labels, else degrees",
}


def wl_features(graphs: GraphCollection, iterations: int = 5) -> sp.csr_array:
    """How often every subtree pattern of height 0 to `iterations` occurs in every graph: [G, patterns].

    Nodes are labelled by the one-hot block after the degree, or by the degree where there is no other. A node's new
    label stands for its own label and the multiset of its neighbours': equal multisets have equal sums of random 64-bit
    numbers, one per label, and different ones the same sum with a probability below 1e-6 even for millions of nodes.
    """
    if iterations < 0:
        raise ParameterError(f"iterations must not be negative, not {iterations}.", argument="iterations")
    if graphs.index.shape[1] == 0:
        raise ParameterError(
            "graphs must have a one-hot block as labels: use with_structure for degrees.", argument="graphs"
        )
    labels = np.unique(graphs.index[:, min(1, graphs.index.shape[1] - 1)], return_inverse=True)[1]
    graph = np.repeat(np.arange(len(graphs)), graphs.sizes)
    adjacency = graphs.adjacency()
    rng = np.random.default_rng(0)
    blocks = []
    for height in range(iterations + 1):
        if height:
            labels = _relabel(labels, adjacency, rng)
        ones = np.ones(len(labels))
        blocks.append(sp.csr_array((ones, (graph, labels)), shape=(len(graphs), int(labels.max()) + 1)))
    return sp.csr_array(sp.hstack(blocks))


def _relabel(
    labels: NDArray[np.int64], adjacency: sp.csr_array, rng: np.random.Generator
) -> NDArray[np.int64]:
    table = rng.integers(2**64, size=int(labels.max()) + 1, dtype=np.uint64)
    passed = np.zeros(adjacency.nnz + 1, np.uint64)
    np.cumsum(table[labels[adjacency.indices]], out=passed[1:])  # wraps around, as sums do
    around = np.diff(passed[adjacency.indptr])
    order = np.lexsort((around, labels))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(labels[order]) != 0) | (np.diff(around[order]) != 0)
    out = np.empty(len(order), np.int64)
    out[order] = np.cumsum(new) - 1
    return out


def wl_kernel(graphs: GraphCollection, iterations: int = 5) -> NDArray[np.float64]:
    """The normalised kernel: cosines between the counts of subtree patterns [G, G]."""
    counts = wl_features(graphs, iterations)
    length = np.sqrt(counts.multiply(counts).sum(axis=1)).ravel()
    scaled = sp.csr_array(sp.diags_array(1 / np.maximum(length, 1)) @ counts)
    return np.asarray((scaled @ scaled.T).toarray())


def wl_folds(graphs: GraphCollection, numbers: Sequence[int], seed: int = 0) -> list[tuple[int, float]]:
    """Test accuracy of some folds: (fold, accuracy). Validation graphs are trained on as well."""
    y = graphs.y
    if y is None:
        raise ParameterError("graphs must have classes y.", argument="graphs")
    kernel = wl_kernel(graphs, WL_SETTINGS["iterations"])
    parts = folds(graphs, 10, seed)
    scores = []
    for number in numbers:
        split = parts[number]
        train = np.concatenate([split.train, split.validation])
        inner = StratifiedKFold(WL_SETTINGS["inner_folds"], shuffle=True, random_state=number)
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": WL_SETTINGS["C"]}, cv=inner)
        search.fit(kernel[np.ix_(train, train)], y[train])
        hits = search.predict(kernel[np.ix_(split.test, train)]) == y[split.test]
        scores.append((int(number), float(hits.mean())))
    return scores
