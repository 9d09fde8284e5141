"""What operators with a sparse pattern share: values, a diagonal on both sides, and how these enter a product."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from softcut.ops.operator import Operator, learned
from softcut.ops.spmm import CSRPattern, spmm

__all__ = ["SparseOperator"]


class SparseOperator(Operator):
    """A pattern, its values (None: all 1) and a diagonal that is applied on both sides (None: not any)."""

    pattern: CSRPattern
    val: Tensor | None
    scale: Tensor | None

    def _in(self, dtype: torch.dtype, name: str) -> Tensor | None:
        """The values or the scale in the precision of a product; the original keeps its own."""
        t: Tensor | None = getattr(self, name)
        return t if t is None or t.dtype == dtype else self._kept(f"{name} {dtype}", lambda: t.to(dtype))

    def _unscaled(self, inner: Tensor) -> Tensor:
        """The product without the diagonal."""
        return spmm(self.pattern, self._in(inner.dtype, "val"), inner)

    @abstractmethod
    def _own_degree(self) -> Tensor:
        """Row sums, computed."""

    @property
    def _exact_degree(self) -> Tensor:
        """Row sums in the best precision there is."""
        return self._kept("exact degree", self._own_degree)

    def factors(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        scale = self._in(s.dtype, "scale")
        if scale is None:
            return super().factors(s)
        inner = scale.unsqueeze(-1) * s.flatten(1)
        return inner.view(s.shape), self._unscaled(inner).view(s.shape), scale

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        return self._in(dtype, "scale")

    @property
    def requires_grad(self) -> bool:
        return learned(self.val) or learned(self.scale)

    @property
    def num_rows(self) -> int:
        return self.pattern.shape[0]
