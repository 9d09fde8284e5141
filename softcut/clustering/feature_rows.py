"""Rows of the features of a large graph on a device: products with them, and their leading directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.ops import CSRPattern
from softcut.ops.spmm import sparse_product

__all__ = ["FeatureRows", "leading_directions"]

_EXTRA = 10  # directions beside the wanted ones, as in scikit-learn's randomised SVD
_STEPS = 4  # products with X'X


class FeatureRows:
    """A constant matrix with rows (x - offset) * weight, of length 1 if `unit`. A sparse x [N, F] has no offset."""

    def __init__(
        self,
        x: Any,
        *,
        weight: np.ndarray | None = None,
        offset: np.ndarray | None = None,
        unit: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self.shape: tuple[int, int] = x.shape
        factor = None if weight is None else torch.from_numpy(weight).to(device)
        self.pattern: CSRPattern | None = None
        if not sp.issparse(x):
            self.values = torch.as_tensor(x).to(device=device, dtype=torch.float32)
            if offset is not None:
                self.values = self.values - torch.from_numpy(offset).to(device)
            self.values = self.values if factor is None else self.values * factor
            length = self.values.norm(dim=1, keepdim=True) if unit else None
        else:
            matrix = sp.csr_array(x)
            if not matrix.has_sorted_indices:
                matrix = matrix.sorted_indices()
            self.pattern = CSRPattern.from_scipy(matrix).to(device or torch.device("cpu"))
            self.values = torch.as_tensor(matrix.data).to(device=device, dtype=torch.float32)
            if factor is not None:
                self.values = self.values * factor[self.pattern.col]
            # Sums of squares of the rows: a product with a single column of ones.
            ones = self.values.new_ones(self.shape[1], 1)
            squares = sparse_product(self.pattern, self.values.square(), ones).squeeze(1) if unit else None
            length = None if squares is None else squares.sqrt()[self.pattern.rows]
        if length is not None:
            self.values = self.values / torch.where(length > 0, length, 1.0)

    @property
    def device(self) -> torch.device:
        return self.values.device

    def times(self, v: Tensor) -> Tensor:
        """X V, [N, d]."""
        return self.values @ v if self.pattern is None else sparse_product(self.pattern, self.values, v)

    def turned_times(self, y: Tensor) -> Tensor:
        """X' Y, [F, d]."""
        if self.pattern is None:
            return self.values.mT @ y
        turned, order = self.pattern.transpose
        return sparse_product(turned, self.values[order], y)


def leading_directions(rows: FeatureRows, d: int, random_state: int = 0) -> tuple[Tensor, Tensor]:
    """The d leading right singular vectors [F, d] of X and its singular values [d], float64.

    Subspace iteration with X'X: what is made orthogonal has F rows, not N.
    """
    f = rows.shape[1]
    generator = torch.Generator().manual_seed(random_state)
    block = torch.randn(f, min(f, d + _EXTRA), generator=generator, dtype=torch.float64)
    block = torch.linalg.qr(block)[0].to(rows.device)

    def product(v: Tensor) -> Tensor:
        return rows.turned_times(rows.times(v.float())).double()

    for _ in range(_STEPS):
        block = torch.linalg.qr(product(block))[0]
    small = block.mT @ product(block)
    values, turn = torch.linalg.eigh((small + small.mT) / 2)
    return (block @ turn).flip(1)[:, :d], values.flip(0)[:d].clamp(min=0).sqrt()
