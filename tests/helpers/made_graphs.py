"""Small generated collections for the tests of this folder."""

from dataclasses import replace

import numpy as np

from softcut.graph import Graph, GraphCollection, from_graphs
from softcut.learning.structure_features import one_hot_columns, with_structure


def made_graphs(
    count: int = 40, seed: int = 0, weighted: bool = False, one_hot: bool = True, smallest: int = 1
) -> GraphCollection:
    """Random graphs of 1 to 24 nodes whose class is told by their density and by a noisy label of their nodes.

    Every node has two random numbers among its features, so that no two nodes are alike.
    """
    rng = np.random.default_rng(seed)
    parts, labels, y = [], [], []
    for i in range(count):
        n, c = int(rng.integers(smallest, 25)), i % 2
        dense = np.triu(rng.random((n, n)) < (0.15, 0.35)[c], 1).astype(float)
        if weighted:
            dense *= rng.integers(1, 6, (n, n))
        parts.append(Graph.from_dense(dense + dense.T, x=rng.standard_normal((n, 2))))
        labels.append(np.where(rng.random(n) < 0.3, rng.integers(4, size=n), 2 * c))
        y.append(c)
    graphs = from_graphs(parts, y=y, name="made")
    if not one_hot:
        return graphs
    index, width = one_hot_columns([np.concatenate(labels)], graphs.num_nodes)
    graphs = replace(graphs, index=index, num_features=width + 2)
    return with_structure(graphs)
