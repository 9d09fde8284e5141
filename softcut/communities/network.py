"""A graph as the compiled functions read it."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import scipy.sparse as sp

_MOST_COLOURS = (
    1 << 24
)  # entries that colour refinement may read: all rounds on small graphs, a few on large ones
_DIGITS = 52  # of whole numbers in float64


class Network:
    """The adjacency matrix of an undirected graph with whole numbers as weights.

    >>> import scipy.sparse as sp
    >>> network = Network(sp.csr_array([[0, 1.0], [1.0, 0]]))
    >>> network.nodes, network.degree.tolist()
    (2, [1.0, 1.0])
    """

    def __init__(self, adjacency: sp.csr_array) -> None:
        matrix = sp.csr_array(adjacency)
        n = matrix.shape[0]
        weight, self.unit = _whole_numbers(matrix.data)
        self.own = np.zeros(n)
        diagonal = matrix.diagonal()
        if diagonal.any() or (weight <= 0).any():
            rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
            loops = rows == matrix.indices
            self.own[rows[loops]] = weight[loops]
            kept = ~loops & (weight > 0)
            matrix = sp.csr_array((weight[kept], (rows[kept], matrix.indices[kept])), shape=matrix.shape)
            weight = matrix.data
        self.indptr = matrix.indptr.astype(np.int64)
        self.indices = matrix.indices.astype(np.int32, copy=False)
        self.weight = weight
        self.size = np.ones(n, dtype=np.int64)
        sums = np.concatenate([[0.0], np.cumsum(weight)])  # exact: whole numbers below 2^53
        self.degree = self.own + sums[self.indptr[1:]] - sums[self.indptr[:-1]]

    @property
    def nodes(self) -> int:
        return len(self.degree)

    @property
    def edges(self) -> int:
        """Edges between different nodes."""
        return len(self.indices) // 2

    @property
    def level(self) -> tuple[np.ndarray, ...]:
        """indptr, indices, weight, own, degree, size."""
        return self.indptr, self.indices, self.weight, self.own, self.degree, self.size

    @cached_property
    def colours(self) -> np.ndarray:
        """A number for each node [N] that is the same whatever the nodes are numbered (colour refinement)."""
        from softcut.communities.order import recoloured

        colours = self.degree.astype(np.uint64) * np.uint64(2) + self.own.astype(np.uint64)
        rounds = max(3, _MOST_COLOURS // max(1, len(self.indices) + self.nodes))
        found = 0
        for _ in range(rounds):
            colours = recoloured(self.indptr, self.indices, self.weight, colours)
            before, found = found, len(np.unique(colours))
            if found <= before or found == self.nodes:
                break
        return colours

    def rank(self, seed: int) -> np.ndarray:
        """The place of each node in an order that the seed draws and that does not depend on numbers."""
        from softcut.communities.order import shuffled

        order = np.argsort(shuffled(self.colours, seed), kind="stable")
        rank = np.empty(self.nodes, dtype=np.int32)
        rank[order] = np.arange(self.nodes, dtype=np.int32)
        return rank


def _whole_numbers(data: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights as whole numbers in float64, and what one of them is worth."""
    if not len(data) or data.min() == data.max():
        return np.full(len(data), float(len(data) > 0 and data[0] > 0)), float(data[0]) if len(data) else 1.0
    largest = float(data.max())
    # As many digits as sums of all weights have room for.
    unit = 2.0 ** (_DIGITS - math.ceil(math.log2(len(data))))
    weight = np.rint(data.astype(np.float64) / largest * unit)
    return np.maximum(weight, data > 0), largest / unit
