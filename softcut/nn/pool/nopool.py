"""NoPool: everything stays; the flat baseline behind the same interface."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.selection import Selection
from softcut.ops import Layout, Operator, Segments

__all__ = ["IdentitySelection", "NoPool"]


class IdentitySelection(Selection):
    """Every node is its own cluster."""

    def __init__(
        self,
        num_rows: int,
        dtype: torch.dtype,
        device: torch.device | None = None,
        layout: Layout | None = None,
    ) -> None:
        self.num_rows, self.dtype, self.device = num_rows, dtype, device
        self.layout = Segments(num_rows) if layout is None else layout

    @property
    def s(self) -> Tensor:
        place = torch.arange(self.num_rows, device=self.device)
        ones = torch.ones(self.num_rows, dtype=self.dtype, device=self.device)
        return torch.sparse_coo_tensor(
            torch.stack([place, place]), ones, (self.num_rows, self.num_rows), check_invariants=False
        )

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return (self.num_rows,) if self.layout.rows == 1 else (self.layout.num_graphs, self.num_rows)

    def check(self, op: Operator) -> None:
        super().check(op)
        if self.num_rows != op.num_rows:
            raise ParameterError(
                f"selection was made for graphs of {self.num_rows} rows, but adj has {op.num_rows}."
            )

    def reduce(self, x: Tensor) -> Tensor:
        return x

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        self.check_pooled(x_pool)
        return x_pool


class NoPool(Pool):
    """Return the graph as it is.

    >>> import torch
    >>> from softcut.nn import NoPool
    >>> x = torch.rand(4, 8)
    >>> out = NoPool()(x, torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> bool((out.x == x).all()), out.adj
    (True, CSR(4 rows, 6 entries, 1 graph(s)))
    """

    def select(self, x: Tensor, op: Operator) -> IdentitySelection:
        return IdentitySelection(op.num_rows, x.dtype, x.device, op.layout)

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, IdentitySelection):
            raise ParameterError(f"selection must be that of a NoPool, got {type(selection).__name__}.")
        layout = op.layout
        batch = layout.batch if isinstance(layout, Segments) and layout.ptr is not None else None
        return PoolOutput(x=x, adj=op, selection=selection, batch=batch, mask=op.mask)
