"""Graclus (Dhillon et al., 2007): merge pairs of nodes that a normalised cut would keep together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as remember
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.coarsening.levels import Level, clean, graph_index, local_index, node_hash
from softcut.errors import require


@remember
def _kernel() -> Callable[..., Any]:
    numba = require("numba", None, "Graclus pooling")
    import heapq

    @numba.njit(cache=True, nogil=True)
    def match(indptr, indices, data, degree, rank):  # type: ignore[no-untyped-def]
        # Karp and Sipser's rule: a node with one free neighbour left comes first (no perfect
        # matching could do otherwise), else the next node by rank. It takes the free neighbour with the
        # largest w_ij (1/d_i + 1/d_j); equal ones go by rank.
        n = len(indptr) - 1
        mate = np.full(n, -1, np.int64)
        free = np.diff(indptr)
        by_rank = np.argsort(rank)
        forced = [rank[i] for i in range(n) if free[i] == 1]
        heapq.heapify(forced)
        at = 0
        while True:
            i = -1
            while len(forced) > 0:
                candidate = by_rank[heapq.heappop(forced)]
                if mate[candidate] < 0 and free[candidate] == 1:
                    i = candidate
                    break
            if i < 0:
                while at < n and mate[by_rank[at]] >= 0:
                    at += 1
                if at == n:
                    break
                i = by_rank[at]
            best, weight = -1, -1.0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if mate[j] < 0 and j != i:
                    w = data[e] * (1.0 / degree[i] + 1.0 / degree[j])
                    if w > weight * (1 + 1e-12) or (w >= weight * (1 - 1e-12) and rank[j] < rank[best]):
                        best, weight = j, w
            mate[i] = i if best < 0 else best
            if best >= 0:
                mate[best] = i
            for end in (i, best):
                if end < 0:
                    continue
                for e in range(indptr[end], indptr[end + 1]):
                    j = indices[e]
                    if mate[j] < 0:
                        free[j] -= 1
                        if free[j] == 1:
                            heapq.heappush(forced, rank[j])
        return mate

    return match


def graclus_matching(adjacency: sp.csr_array, ptr: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """The cluster of every node: pairs, and single nodes where no neighbour was free.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> graclus_matching(path).tolist()
    [0, 0, 1, 1]

    `adjacency` is symmetric, non-negative and without self-loops; `ptr` says where the graphs of a block-diagonal batch
    begin, each of which is matched as it would be alone; `seed` decides between nodes of one degree.

    Nodes are visited by increasing degree, those with a single free neighbour first: nearly every node
    finds a partner, where visiting in random order leaves one in seven of a ring alone. O(E + N log N).
    """
    n = adjacency.shape[0]
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    rank = np.empty(n, np.int64)
    # Degrees are compared to ten digits: sums in another order must not decide.
    rounded = np.round(degree, 10)
    rank[np.lexsort((node_hash(local_index(n, ptr), seed), rounded))] = np.arange(n)
    mate = _kernel()(
        adjacency.indptr.astype(np.int64),
        adjacency.indices.astype(np.int64),
        adjacency.data.astype(np.float64),
        np.maximum(degree, np.finfo(float).tiny),
        rank,
    )
    leader = np.minimum(mate, np.arange(n))
    return np.unique(leader, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Graclus:
    """Coarsening by Graclus: the number of nodes about halves; `seed` decides between nodes of one degree.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> level = Graclus()(path)
    >>> level.index.tolist(), level.adjacency.toarray().tolist()
    ([0, 0, 1, 1], [[0.0, 1.0], [1.0, 0.0]])
    """

    seed: int = 0

    @property
    def recipe(self) -> str:
        """Everything besides the graph that decides the coarsening."""
        return f"graclus|seed={self.seed}"

    def __call__(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> Level:
        """One level: edges between clusters add up, those inside are dropped."""
        ptr = np.array([0, adjacency.shape[0]]) if ptr is None else ptr
        cluster = graclus_matching(adjacency, ptr, self.seed)
        n, k = len(cluster), int(cluster.max(initial=-1)) + 1
        s = sp.csr_array((np.ones(n), cluster, np.arange(n + 1)), shape=(n, k))
        owner = np.zeros(k, np.int64)
        owner[cluster] = graph_index(n, ptr)
        counts = np.bincount(owner, minlength=len(ptr) - 1)
        coarse = clean(sp.csr_array(s.T @ adjacency @ s), symmetric=True)
        return Level(cluster, coarse, np.concatenate([[0], counts.cumsum()]))
