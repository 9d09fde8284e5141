"""What all coarsenings share: clean matrices, places of nodes in their graphs, a hash in place of random numbers."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

__all__ = ["clean", "graph_index", "local_index", "node_hash"]


def clean(matrix: sp.csr_array, symmetric: bool = False) -> sp.csr_array:
    """Symmetric (the mean of both directions), sorted, no self-loops, no stored zeros, float64.

    >>> import numpy as np, scipy.sparse as sp
    >>> clean(sp.csr_array(np.array([[5.0, 2.0], [0.0, 0.0]]))).toarray().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    if not symmetric:
        matrix = sp.csr_array((matrix + matrix.T) * 0.5)
    matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal(), format="csr"))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def local_index(ptr: np.ndarray) -> np.ndarray:
    """Place of every node in its own graph."""
    counts = np.diff(ptr)
    return np.arange(int(ptr[-1])) - np.repeat(ptr[:-1], counts)


def graph_index(adjacency: sp.csr_array, ptr: np.ndarray | None) -> np.ndarray:
    """The graph every node belongs to; `ptr` None: all to one."""
    if ptr is None:
        return np.zeros(adjacency.shape[0], np.int64)
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def node_hash(place: np.ndarray, seed: int) -> np.ndarray:
    """A well mixed number for every place (splitmix64): the only source of randomness, the same everywhere."""
    with np.errstate(over="ignore"):
        z = place.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) * np.uint64((seed + 1) % 2**32)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
