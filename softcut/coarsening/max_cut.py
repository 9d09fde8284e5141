"""The spectral maximum cut, by which node decimation decides which nodes stay."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components, dijkstra

from softcut.coarsening.matrices import local_index, node_hash

__all__ = ["cut_share", "max_cut_split"]

_DENSE = 300  # components up to this size: all eigenvectors, exactly


def _two_colouring(adjacency: sp.csr_array) -> np.ndarray | None:
    """Sides of a connected bipartite graph, or None. They are the wanted eigenvector's signs exactly."""
    steps = dijkstra(adjacency, unweighted=True, indices=0)
    side = steps.astype(np.int64) % 2 == 0
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return side if bool((side[row] != side[adjacency.indices]).all()) else None


def _top_eigenvector(adjacency: sp.csr_array, start: np.ndarray) -> np.ndarray | None:
    """Eigenvector of the largest eigenvalue of I - D^-1/2 A D^-1/2; None where it was not found."""
    scale = 1 / np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    n = adjacency.shape[0]
    normalised = sp.diags_array(scale) @ adjacency @ sp.diags_array(scale)
    if n <= _DENSE:
        return np.linalg.eigh(-normalised.toarray())[1][:, -1]
    try:
        return spla.eigsh(-normalised, k=1, which="LA", v0=start, tol=1e-6, maxiter=20 * n)[1][:, 0]
    except spla.ArpackError:
        return None


def cut_share(adjacency: sp.csr_array, side: np.ndarray) -> float:
    """The share of the edge weight that runs between the two sides."""
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return float(adjacency.data[side[row] != side[adjacency.indices]].sum() / adjacency.data.sum())


def _split_component(adjacency: sp.csr_array, chance: np.ndarray) -> np.ndarray:
    n = adjacency.shape[0]
    if n == 1:
        return np.ones(1, bool)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    side = _two_colouring(adjacency)
    if side is not None:
        weight = np.sqrt(degree)  # |v_i| of the eigenvector
    else:
        start = chance.astype(np.float64) / 2**63 - 1
        vector = _top_eigenvector(adjacency, start)
        if vector is not None:
            side, weight = vector >= 0, np.abs(vector)
    if side is not None and cut_share(adjacency, side) >= 0.5:
        # An eigenvector has no sign of its own: the side of its largest entry stays.
        largest = int(np.flatnonzero(weight >= weight.max() * (1 - 1e-6))[0])
        return side if side[largest] else ~side
    side = np.zeros(n, bool)
    side[np.argsort(chance, kind="stable")[: (n + 1) // 2]] = True
    return side


def max_cut_split(adjacency: sp.csr_array, ptr: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Which nodes stay: one side of the spectral maximum cut of every connected component.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> max_cut_split(path).tolist()
    [False, True, False, True]

    The sides are the signs of the eigenvector of the largest eigenvalue of the normalised Laplacian,
    found by two-colouring where the component is bipartite. Where the cut holds less than half of the
    edge weight, which a random split reaches on average, the split is random.

    Parameters
    ----------
    adjacency : csr_array
        Symmetric, non-negative, without self-loops.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.
    seed : int
        Of the random splits.
    """
    n = adjacency.shape[0]
    ptr = np.array([0, n]) if ptr is None else ptr
    chance = node_hash(local_index(ptr), seed)
    count, label = connected_components(adjacency, directed=False)
    order = np.argsort(label, kind="stable")
    bounds = np.concatenate([[0], np.bincount(label, minlength=count).cumsum()])
    keep = np.zeros(n, bool)
    alone = np.diff(adjacency.indptr) == 0
    keep[alone] = True
    for c in np.unique(label[~alone]):
        nodes = order[bounds[c] : bounds[c + 1]]
        keep[nodes] = _split_component(adjacency[nodes][:, nodes], chance[nodes])
    return keep
