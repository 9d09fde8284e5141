"""RandomPool: a random assignment matrix, the control that every learned pooler should beat."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.layers import check_size
from softcut.nn.pool.base import DensePool
from softcut.nn.pool.selection import DenseSelection
from softcut.ops import Operator, Segments
from softcut.ops.numerics import zero_padding

KINDS = ("normal", "uniform", "hard")
_BLOCK = 1024  # rows of the table drawn at a time, each block from its own seed


class RandomPool(DensePool):
    r"""Pooling with a random S that is never trained.

    A node's row of S depends on the seed and on its place in its graph alone: the same graph is
    pooled the same way in every epoch and in any batch.

    >>> import torch
    >>> from softcut.nn import RandomPool
    >>> out = RandomPool(k=2, seed=0)(torch.rand(4, 8), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    >>> out.x.shape, out.losses
    (torch.Size([1, 2, 8]), {})

    Parameters
    ----------
    k : int
        Clusters of every graph.
    kind : {"normal", "uniform", "hard"}
        Softmax of normal numbers, uniform numbers divided by their sum, or one cluster per node.
    seed : int
        Of the table of random numbers.
    """

    def __init__(self, k: int, kind: str = "normal", seed: int = 0) -> None:
        super().__init__()
        if kind not in KINDS:
            raise ParameterError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}.")
        self.k, self.kind, self.seed = check_size(k, "k"), kind, check_size(seed, "seed", least=0)
        self._table: Tensor
        self.register_buffer("_table", torch.zeros(0, self.k), persistent=False)
        self._rows(_BLOCK)  # enough for most graphs, so that a compiled call draws nothing

    def _rows(self, n: int) -> Tensor:
        """The first n rows of the table; it grows when a larger graph comes."""
        table = self._table
        if table.shape[0] < n:
            blocks = [table]
            for start in range(table.shape[0], n, _BLOCK):
                generator = torch.Generator().manual_seed(self.seed * 1_000_003 + start // _BLOCK)
                blocks.append(torch.randn(_BLOCK, self.k, generator=generator).to(table))
            self._table = table = torch.cat(blocks)
        return table[:n]

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        layout = op.layout
        if isinstance(layout, Segments) and layout.ptr is not None:
            place = torch.arange(layout.num_rows, device=x.device) - layout.ptr[:-1][layout.batch]
            largest = int((layout.ptr[1:] - layout.ptr[:-1]).max())
            return self._rows(largest)[place].to(x.dtype)
        rows = self._rows(op.num_rows).to(device=x.device, dtype=x.dtype)
        return rows if isinstance(layout, Segments) else rows.expand(op.num_graphs, *rows.shape)

    def select(self, x: Tensor, op: Operator) -> DenseSelection:
        if self.kind == "normal":
            return super().select(x, op)
        logits = self.logits(x, op)
        if self.kind == "uniform":
            s = 0.5 + 0.5 * torch.erf(logits / 2**0.5)  # normal numbers to uniform ones
            s = s / s.sum(-1, keepdim=True)
        else:
            s = torch.nn.functional.one_hot(logits.argmax(-1), self.k).to(x.dtype)
        return DenseSelection(zero_padding(s, op.mask), op.layout)

    def extra_repr(self) -> str:
        return f"k={self.k}, kind={self.kind!r}, seed={self.seed}"
