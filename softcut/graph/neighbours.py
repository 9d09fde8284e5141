"""The nearest-neighbour graph of features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError
from softcut.tables.kinds import kinds_of_columns
from softcut.tables.scaling import scaled_rows

N_NEIGHBORS = 15


def check_neighbors(n_neighbors: Any, n: int) -> int:
    """How many neighbours each of n rows has."""
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, (int, np.integer)) or n_neighbors < 1:
        raise GraphError(
            f"n_neighbors is {n_neighbors!r}: pass a whole number, 1 or more.", argument="n_neighbors"
        )
    if n < 2:
        raise GraphError("X has one row: a graph of neighbours needs two or more.")
    return min(int(n_neighbors), n - 1)


def neighbour_graph(x: Any, n_neighbors: int, kinds: np.ndarray | None = None) -> sp.csr_array:
    """An edge between two rows where one is among the nearest of the other, of weight 1, [N, N].

    >>> neighbour_graph(np.array([[0.0], [1.0], [5.0]]), 1).toarray().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    """
    from sklearn.neighbors import NearestNeighbors  # takes a while

    rows = scaled_rows(x, kinds_of_columns(x) if kinds is None else kinds)
    near = NearestNeighbors(n_neighbors=check_neighbors(n_neighbors, x.shape[0])).fit(rows)
    directed = sp.csr_array(near.kneighbors_graph(mode="connectivity"))
    graph = sp.csr_array(directed.maximum(directed.T))
    graph.sort_indices()
    return graph
