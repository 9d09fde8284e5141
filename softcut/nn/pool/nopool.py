"""NoPool: everything stays; the flat baseline behind the same interface."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool
from softcut.nn.pool.node_selection import KeepSelection
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.selection import Selection
from softcut.ops import Operator

__all__ = ["NoPool"]


class NoPool(Pool):
    """Return the graph as it is.

    >>> import torch
    >>> from softcut.nn import NoPool
    >>> x = torch.rand(4, 8)
    >>> out = NoPool()(x, torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> bool((out.x == x).all()), out.adj
    (True, CSR(4 rows, 6 entries, 1 graph(s)))
    """

    def select(self, x: Tensor, op: Operator) -> KeepSelection:
        index = torch.arange(op.num_rows, device=x.device)
        index = index if op.layout.rows == 1 else index.expand(op.num_graphs, -1)
        return KeepSelection(index, op.layout, ptr=op.ptr, num_rows=op.num_rows)

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, KeepSelection) or selection.index.shape[-1] != op.num_rows:
            raise ParameterError(f"selection must be that of a NoPool, got {type(selection).__name__}.")
        return PoolOutput(x=x, adj=op, selection=selection, batch=selection.batch, mask=op.mask)
