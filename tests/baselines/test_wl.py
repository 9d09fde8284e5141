"""The Weisfeiler-Lehman kernel, against plain Python dictionaries."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from helpers.refusals import refuses
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.svm import SVC

from softcut.baselines.wl import WL_SETTINGS, wl_features, wl_folds, wl_kernel
from softcut.errors import ParameterError
from softcut.graph import Graph, GraphCollection, from_graphs
from softcut.graph.collection import folds
from softcut.learning import with_structure


def random_graphs(count: int = 12, seed: int = 0) -> GraphCollection:
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(count):
        n = int(rng.integers(1, 15))
        dense = np.triu(rng.random((n, n)) < 0.3, 1).astype(float)
        parts.append(Graph.from_dense(dense + dense.T))
    return with_structure(from_graphs(parts, y=rng.integers(2, size=count).tolist()))


def plain_counts(graphs: GraphCollection, iterations: int) -> list[Counter]:
    """Labels as nested tuples: what the definition says, word for word."""
    counted = []
    for i in range(len(graphs)):
        part = graphs[[i]]
        adjacency = part.adjacency().tolil().rows
        labels: list[object] = part.index[:, 0].tolist()
        counts = Counter((0, repr(label)) for label in labels)
        for height in range(1, iterations + 1):
            labels = [
                (labels[v], tuple(sorted(map(repr, (labels[u] for u in adjacency[v])))))
                for v in range(len(labels))
            ]
            counts.update((height, repr(label)) for label in labels)
        counted.append(counts)
    return counted


def test_kernel_is_the_one_of_the_definition() -> None:
    graphs = random_graphs()
    counts = plain_counts(graphs, 3)
    dot = np.array([[sum(a[p] * b[p] for p in a) for b in counts] for a in counts], float)
    patterns = wl_features(graphs, 3)
    assert np.array_equal((patterns @ patterns.T).toarray(), dot)
    length = np.sqrt(np.diag(dot))
    assert np.allclose(wl_kernel(graphs, 3), dot / np.outer(length, length))


def test_labels_are_node_labels_where_there_are_any() -> None:
    graphs = random_graphs()
    same = np.full((graphs.num_nodes, 1), graphs.num_features, np.int32)
    labelled = dataclasses.replace(
        graphs, index=np.hstack([graphs.index, same]), num_features=graphs.num_features + 1
    )
    assert wl_features(labelled, 0).shape[1] == 1  # one label for all nodes
    assert wl_features(graphs, 0).shape[1] == len(np.unique(graphs.index[:, 0]))


def test_what_it_needs() -> None:
    plain = from_graphs([Graph.from_edges([[0], [1]])] * 2)
    refuses(ParameterError, "one-hot block", wl_features, plain)
    refuses(ParameterError, "iterations", wl_features, with_structure(plain), -1)
    refuses(ParameterError, "classes", wl_folds, with_structure(plain), [0])


def test_folds_are_scored_by_a_machine_on_train_and_validation_graphs() -> None:
    assert WL_SETTINGS["C"] == [10.0**power for power in range(-3, 4)]
    graphs = random_graphs(40)
    kernel, y = wl_kernel(graphs, 5), graphs.y
    for number, split in enumerate(folds(graphs, 10, 1)[:2]):
        train = np.concatenate([split.train, split.validation])
        scores = {}
        for c in WL_SETTINGS["C"]:
            inner = StratifiedKFold(3, shuffle=True, random_state=number)
            machine = SVC(C=c, kernel="precomputed")
            scores[c] = cross_val_score(machine, kernel[np.ix_(train, train)], y[train], cv=inner).mean()
        machine = SVC(C=max(scores, key=scores.get), kernel="precomputed")
        machine.fit(kernel[np.ix_(train, train)], y[train])
        accuracy = machine.score(kernel[np.ix_(split.test, train)], y[split.test])
        assert wl_folds(graphs, [number], seed=1) == [(number, pytest.approx(accuracy))]
