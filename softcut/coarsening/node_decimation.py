"""Node decimation, NDP (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron reduction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from softcut.coarsening.kron import kron_reduction
from softcut.coarsening.levels import Level
from softcut.coarsening.max_cut import max_cut_split
from softcut.errors import ParameterError

__all__ = ["NodeDecimation"]


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
        Of the random splits, used where the spectral cut is worse than a random one.
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
