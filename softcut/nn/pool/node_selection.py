"""Poolers that keep some of the nodes: the selection they share and choosing the best k per graph."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool, PoolOutput, Selection, check_clusters
from softcut.ops import Dense, Layout, Operator, Padded, Segments
from softcut.ops.batching import counts_to_ptr
from softcut.ops.entries import CONNECTIONS, segments_of, submatrix

__all__ = ["KeepSelection", "ScorePool", "top_k"]


@dataclass
class KeepSelection(Selection):
    """Kept nodes, by row number, with an optional gate each.

    Ragged: `index` [N'] numbers rows of the whole batch and `ptr` says which kept rows belong to which
    graph. Padded: `index` [B, K] numbers rows of each graph and `mask` [B, K] says which are real.
    `lift` puts kept nodes back and zeros elsewhere; with `pinv` the gates are divided out.

    >>> import torch
    >>> from softcut.ops import Segments
    >>> selection = KeepSelection(torch.tensor([2, 0]), Segments(3))
    >>> selection.lift(selection.reduce(torch.tensor([[1.0], [2.0], [3.0]]))).flatten().tolist()
    [1.0, 0.0, 3.0]
    """

    index: Tensor
    layout: Layout
    gate: Tensor | None = None
    ptr: Tensor | None = None
    mask: Tensor | None = None
    num_rows: int | None = None
    adj: Operator | None = None

    def __post_init__(self) -> None:
        if self.num_rows is None:
            if not isinstance(self.layout, Segments):
                raise ParameterError("num_rows must be given for a padded selection.")
            self.num_rows = self.layout.num_rows

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return tuple(self.index.shape)

    def check(self, op: Operator) -> None:
        super().check(op)
        if self.num_rows != op.num_rows:
            raise ParameterError(
                f"selection was made for graphs of {self.num_rows} rows, but adj has {op.num_rows}."
            )

    @property
    def padded(self) -> bool:
        return isinstance(self.layout, Padded)

    @property
    def batch(self) -> Tensor | None:
        """Graph number of every kept row; None for a single graph and for padded batches."""
        if self.ptr is None:
            return None
        counts = self.ptr[1:] - self.ptr[:-1]
        return torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts)

    @property
    def s(self) -> Tensor:
        """S as a sparse [N, N'] matrix, or a dense [B, N, K] one for a padded batch."""
        assert self.num_rows is not None
        gate = self.gate if self.gate is not None else torch.ones_like(self.index, dtype=torch.float)
        if self.padded:
            gate = gate if self.mask is None else gate * self.mask
            zeros = gate.new_zeros(self.index.shape[0], self.num_rows, self.index.shape[1])
            return zeros.scatter(1, self.index.unsqueeze(1), gate.unsqueeze(1))
        column = torch.arange(self.index.numel(), device=self.index.device)
        shape = (self.num_rows, self.index.numel())
        return torch.sparse_coo_tensor(torch.stack([self.index, column]), gate, shape, check_invariants=False)

    def _where(self, width: int) -> Tensor:
        return self.index.unsqueeze(-1).expand(*self.index.shape, width)

    def reduce(self, x: Tensor) -> Tensor:
        kept = x.gather(self.index.dim() - 1, self._where(x.shape[-1]))
        if self.gate is not None:
            kept = kept * self.gate.unsqueeze(-1).to(x.dtype)
        return kept if self.mask is None else kept * self.mask.unsqueeze(-1)

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        self.check_pooled(x_pool)
        if self.mask is not None:
            x_pool = x_pool * self.mask.unsqueeze(-1)
        if pinv and self.gate is not None:
            gate = self.gate.to(x_pool.dtype).unsqueeze(-1)
            open_ = gate != 0
            x_pool = torch.where(open_, x_pool / torch.where(open_, gate, 1.0), 0.0)
        assert self.num_rows is not None
        rows = self.index.dim() - 1
        zeros = x_pool.new_zeros(*x_pool.shape[:rows], self.num_rows, x_pool.shape[-1])
        # Padding repeats no real row (it ranks after them), so places never collide.
        return zeros.scatter(rows, self._where(x_pool.shape[-1]), x_pool)


def _how_many(n: int, ratio: float, k: int | None) -> int:
    return min(k, n) if k is not None else math.ceil(ratio * n - 1e-9)


def top_k(score: Tensor, op: Operator, ratio: float, k: int | None) -> KeepSelection:
    """The highest-scoring nodes of every graph, best first; no loop over the graphs.

    >>> import torch
    >>> from softcut.ops import as_operator
    >>> op = as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=4, batch=torch.tensor([0, 0, 0, 1]))
    >>> top_k(torch.tensor([0.1, 0.9, 0.5, 0.2]), op, 0.5, None).index.tolist()
    [1, 2, 3]

    Shapes are static for padded batches and for a single graph (known from N and `ratio` or `k` alone).
    """
    layout = op.layout
    if isinstance(layout, Padded):
        size = _how_many(op.num_rows, ratio, k)
        ranked = score
        if layout.mask is not None:
            ranked = score.masked_fill(~layout.mask.bool(), -math.inf)
        index = torch.sort(ranked.detach(), dim=-1, descending=True, stable=True).indices[..., :size]
        mask = None
        if layout.mask is not None:
            counts = layout.mask.sum(-1)
            allowed = counts.clamp(max=k) if k is not None else torch.ceil(counts.double() * ratio - 1e-9)
            mask = torch.arange(size, device=score.device) < allowed.unsqueeze(-1)
        return KeepSelection(index, layout, mask=mask, num_rows=op.num_rows)
    layout = segments_of(op)
    if layout.ptr is None or layout.single:
        size = _how_many(layout.num_rows, ratio, k)
        index = torch.sort(score.detach(), descending=True, stable=True).indices[..., :size]
        ptr = None if layout.ptr is None else layout.ptr.new_tensor([0, size])
        return KeepSelection(index, layout, ptr=ptr)
    order = torch.sort(score.detach(), descending=True, stable=True).indices
    order = order[torch.sort(layout.batch[order], stable=True).indices]  # by graph, then by score
    counts = layout.ptr[1:] - layout.ptr[:-1]
    allowed = (
        counts.clamp(max=k) if k is not None else torch.ceil(counts.double() * ratio - 1e-9).to(counts.dtype)
    )
    rank = torch.arange(layout.num_rows, device=score.device) - layout.ptr[:-1][layout.batch]
    return KeepSelection(order[rank < allowed[layout.batch]], layout, ptr=counts_to_ptr(allowed))


def connect_kept(op: Operator, selection: KeepSelection, connect: str = "adjacency") -> Operator:
    """The graph on the kept nodes: a precomputed one, A[i, i], or (A A)[i, i]."""
    if selection.adj is not None:
        return selection.adj
    if not isinstance(op, Dense):
        return submatrix(op, selection.index, selection.ptr, connect)
    graph = torch.arange(op.num_graphs, device=selection.index.device)[:, None, None]
    row, col = selection.index.unsqueeze(-1), selection.index.unsqueeze(-2)
    if connect == "adjacency":
        data = op.data[graph, row, col]
    else:
        data = op.data[graph[..., 0], selection.index] @ op.data.mT[graph[..., 0], selection.index].mT
    if selection.mask is not None:
        data = data * selection.mask.unsqueeze(-1) * selection.mask.unsqueeze(-2)
    return Dense(data, selection.mask, symmetric=op.symmetric)


class ScorePool(Pool):
    """A pooler that keeps the nodes with the highest score, gated by it."""

    def __init__(self, in_channels: int, ratio: float, k: int | None, connect: str) -> None:
        super().__init__()
        if k is None and not 0 < ratio <= 1:
            raise ParameterError(
                f"ratio must be above 0 and at most 1, got {ratio}; use k for a fixed number."
            )
        if k is not None:
            check_clusters(k)
        if connect not in CONNECTIONS:
            raise ParameterError(f"connect must be one of {', '.join(CONNECTIONS)}, got {connect!r}.")
        self.in_channels, self.ratio, self.k, self.connect = in_channels, float(ratio), k, connect

    @abstractmethod
    def score(self, x: Tensor, op: Operator) -> Tensor:
        """One number per node, in (-1, 1)."""

    def select(self, x: Tensor, op: Operator) -> KeepSelection:
        score = self.score(x, op)
        selection = top_k(score, op, self.ratio, self.k)
        selection.gate = score.gather(-1, selection.index)
        return selection

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, KeepSelection):
            raise ParameterError(f"selection must be a KeepSelection, got {type(selection).__name__}.")
        return PoolOutput(
            x=selection.reduce(x),
            adj=lambda: connect_kept(op, selection, self.connect),
            selection=selection,
            batch=selection.batch,
            mask=selection.mask,
        )

    def extra_repr(self) -> str:
        size = f"ratio={self.ratio}" if self.k is None else f"k={self.k}"
        return f"{self.in_channels}, {size}, connect={self.connect!r}"
