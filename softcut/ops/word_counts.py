"""Words: a constant matrix of counts X [N, F], and its table S'X with soft clusters."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops.information import multinomial_complexity
from softcut.ops.spmm import CSRPattern, spmm

# A multiplication in a sparse product costs about this many of a dense one (measured); an addition, where the
# matrix holds ones, this many.
SPARSE_COST = {"cpu": 4.0, "cuda": 64.0}
BINARY_COST = {"cpu": 2.0, "cuda": 64.0}


class Words:
    r"""Which words each node has: a constant non-negative matrix X [N, F], sparse or dense.

    The product S'X is sparse or dense, whichever takes fewer operations.

    >>> import numpy as np, torch
    >>> words = Words(np.array([[2, 0], [1, 1]]))
    >>> words.table(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).tolist()
    [[1.5, 0.5], [0.5, 0.5]]
    >>> words.count
    3.0

    Parameters
    ----------
    x : array or scipy sparse matrix
        [N, F] features that are not negative.
    presence : bool
        True: whether a word occurs, 0 or 1. False: the numbers as they are (counts, tf-idf).
    dtype, device
        Of the numbers of a dense matrix, and where to compute.

    Attributes
    ----------
    count : float
        How many words there are. For numbers other than 0 and 1 their effective number, (sum x)^2 / sum x^2.
    counts : Tensor
        [F], float64: how many of these are each word.
    """

    def __init__(
        self,
        x: Any,
        *,
        presence: bool = True,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        x = x if sp.issparse(x) else np.asarray(x)
        if x.ndim != 2:
            raise GraphError(f"x must be a matrix with a row per node, got shape {list(x.shape)}.")
        matrix = sp.csr_array(x)
        if not matrix.has_canonical_format or not matrix.data.all():
            matrix = matrix.astype(np.float64, copy=True)
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise GraphError("x must hold counts of words, which are finite and not negative.")
        binary = presence or bool((matrix.data == 1).all())
        values = np.ones(matrix.nnz) if binary else matrix.data.astype(np.float64)
        squares = float(np.square(values).sum())
        self.count = float(values.sum()) ** 2 / squares if squares else 0.0
        each = np.bincount(matrix.indices, values, minlength=matrix.shape[1])
        # How often each word occurs, in the same unit.
        self.counts = torch.from_numpy(each * (self.count / max(float(values.sum()), 1e-300))).to(device)
        matrix = sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)
        self.shape: tuple[int, int] = matrix.shape
        cost = (BINARY_COST if binary else SPARSE_COST).get(torch.device(device).type, 4.0)
        self._dense: Tensor | None = None
        if cost * matrix.nnz > self.shape[0] * self.shape[1]:
            # Filled on the device: the entries are few beside the zeros.
            pattern = CSRPattern.from_scipy(matrix).to(device)
            self._dense = torch.zeros(self.shape, dtype=dtype, device=device)
            values = torch.from_numpy(matrix.data).to(device=device, dtype=dtype)
            self._dense[pattern.rows, pattern.col.long()] = values
            return
        turned = matrix.T.tocsr()  # X' [F, N]: S'X is the transpose of X'S
        turned.sort_indices()
        self._turned = CSRPattern.from_scipy(turned).to(device)
        self._values = None if binary else torch.from_numpy(turned.data).to(device=device)

    def table(self, s: Tensor) -> Tensor:
        """S'X: [K, F] for S [N, K], [R, K, F] for S [N, R, K]."""
        if s.shape[0] != self.shape[0]:
            raise GraphError(f"s must have a row for each of the {self.shape[0]} nodes, got {list(s.shape)}.")
        if self._dense is not None:
            flat = s.permute(*range(1, s.dim()), 0).reshape(-1, s.shape[0])
            return (flat @ self._dense.to(s.dtype)).view(*s.shape[1:], -1)
        values = None if self._values is None else self._values.to(s.dtype)
        table = spmm(self._turned, values, s.reshape(s.shape[0], -1))
        return table.view(-1, *s.shape[1:]).movedim(0, -1)

    def price(self, k: int) -> Tensor:
        """What a table of these words in K clusters costs to describe, in nats: the same for every S."""
        return multinomial_complexity(k, self.counts).sum()

    def to(self, device: torch.device | str) -> Words:
        """The same words on another device; sparse stays sparse."""
        moved = copy.copy(self)
        moved.counts = self.counts.to(device)
        if self._dense is not None:
            moved._dense = self._dense.to(device)
            return moved
        moved._turned = self._turned.to(device)
        moved._values = None if self._values is None else self._values.to(device)
        return moved

    def __repr__(self) -> str:
        return f"Words({self.shape[0]} nodes, {self.shape[1]} words)"
