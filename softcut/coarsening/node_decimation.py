"""Node decimation, NDP (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components, dijkstra
from threadpoolctl import threadpool_limits

from softcut.coarsening.kron import kron_reduction
from softcut.coarsening.levels import Level, local_index, node_hash
from softcut.errors import ParameterError

_DENSE = 300  # components up to this size: all eigenvectors, exactly


def _top_eigenvector(adjacency: sp.csr_array, degree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Eigenvector of the largest eigenvalue of I - D^-1/2 A D^-1/2; zeros where it was not found."""
    scale = sp.diags_array(1 / np.sqrt(degree))
    normalised, n = scale @ adjacency @ scale, len(degree)
    if n <= _DENSE:
        return np.linalg.eigh(-normalised.toarray())[1][:, -1]
    try:
        return spla.eigsh(-normalised, k=1, which="LA", v0=start, tol=1e-6, maxiter=20 * n)[1][:, 0]
    except spla.ArpackError:
        return np.zeros(n)


def _is_cut(adjacency: sp.csr_array, side: np.ndarray) -> np.ndarray:
    """Which of the edges run between the two sides."""
    return np.repeat(side, np.diff(adjacency.indptr)) != side[adjacency.indices]


def _split_component(adjacency: sp.csr_array, chance: np.ndarray) -> np.ndarray:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    # The eigenvector of a bipartite graph is known: signs by the parity of the distance, and |v_i| = sqrt(d_i).
    side = dijkstra(adjacency, unweighted=True, indices=0).astype(np.int64) % 2 == 0
    size = np.sqrt(degree)
    if not _is_cut(adjacency, side).all():
        vector = _top_eigenvector(adjacency, degree, chance.astype(np.float64) / 2**63 - 1)
        side, size = vector >= 0, np.abs(vector)
    if adjacency.data[_is_cut(adjacency, side)].sum() / adjacency.data.sum() >= 0.5:
        # An eigenvector has no sign of its own: the side of its largest entry stays.
        largest = int(np.flatnonzero(size >= size.max() * (1 - 1e-6))[0])
        return side if side[largest] else ~side
    side = np.zeros(len(side), bool)
    side[np.argsort(chance, kind="stable")[: (len(side) + 1) // 2]] = True
    return side


def max_cut_split(adjacency: sp.csr_array, ptr: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Which nodes stay: one side of the spectral maximum cut of every connected component.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> max_cut_split(path).tolist()
    [False, True, False, True]

    The sides are the signs of the eigenvector of the largest eigenvalue of the normalised Laplacian. Where the cut
    holds less than half of the edge weight, which a random split reaches on average, the split is random.

    Parameters
    ----------
    adjacency : csr_array
        Symmetric, non-negative, without self-loops.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.
    seed : int
        Of the random splits.
    """
    chance = node_hash(local_index(adjacency.shape[0], ptr), seed)
    label = connected_components(adjacency, directed=False)[1]
    keep = np.diff(adjacency.indptr) == 0  # a node without edges stays
    together = np.flatnonzero(~keep)
    together = together[np.argsort(label[together], kind="stable")]
    for nodes in np.split(together, np.flatnonzero(np.diff(label[together])) + 1):
        if len(nodes):
            keep[nodes] = _split_component(adjacency[nodes][:, nodes], chance[nodes])
    return keep


@dataclass(frozen=True)
class NodeDecimation:
    """Coarsening by node decimation: about half of the nodes stay.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> level = NodeDecimation()(path)
    >>> level.index.tolist(), level.adjacency.toarray().tolist()
    ([1, 3], [[0.0, 0.5], [0.5, 0.0]])

    Parameters
    ----------
    delta : float
        Edges lighter than `delta` times the heaviest edge are dropped after the reduction.
    seed : int
        Of the random splits.
    """

    delta: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise ParameterError(f"delta must be at least 0 and below 1, got {self.delta}.")

    @property
    def recipe(self) -> str:
        """Everything besides the graph that decides the coarsening."""
        return f"ndp2|seed={self.seed}|delta={self.delta!r}"  # 2: walks in large graphs

    def __call__(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> Level:
        """One level."""
        ptr = np.array([0, adjacency.shape[0]]) if ptr is None else ptr
        # Many small BLAS calls: threads would spend their time waiting for each other.
        with threadpool_limits(1, user_api="blas"):
            keep = max_cut_split(adjacency, ptr, self.seed)
            index = np.flatnonzero(keep)
            coarse = kron_reduction(adjacency, keep, self.delta, ptr)
        # To float32 and back: the next level then sees the same numbers whether it is computed at once
        # or from a float32 operator, and ties are broken in the same way.
        coarse.data = coarse.data.astype(np.float32).astype(np.float64)
        coarse.eliminate_zeros()
        return Level(index, coarse, np.searchsorted(index, ptr))
