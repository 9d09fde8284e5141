"""Poolers that keep some of the nodes: the selection they share and choosing the best k per graph."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.activations import Activation, get_activation
from softcut.nn.layers import graph_input
from softcut.nn.number_checks import check_number, check_size
from softcut.nn.pool.base import Pool
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.selection import Selection, edges_of
from softcut.ops import Dense, Layout, Operator, Segments
from softcut.ops.batching import Padded, counts_to_ptr
from softcut.ops.numerics import zero_padding
from softcut.ops.triplets import CONNECTIONS, segments_of, submatrix

__all__ = ["KeepSelection", "ScorePool", "above", "connect_kept", "graph_softmax", "top_k"]

_TIE = 1e-7  # scores this close to the best of their graph count as the best


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
        return Segments(self.index.numel(), self.ptr).batch

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


def _how_many_each(counts: Tensor, ratio: float, k: int | None) -> Tensor:
    """The same for every graph of a batch."""
    if k is not None:
        return counts.clamp(max=k)
    return torch.ceil(counts.double() * ratio - 1e-9).to(counts.dtype)


def top_k(score: Tensor, op: Operator, ratio: float, k: int | None) -> KeepSelection:
    """The highest-scoring nodes of every graph, best first; no loop over the graphs.

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
            allowed = _how_many_each(layout.mask.sum(-1), ratio, k)
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
    allowed = _how_many_each(layout.ptr[1:] - layout.ptr[:-1], ratio, k)
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


def graph_softmax(score: Tensor, op: Operator) -> Tensor:
    """The softmax of one score per node over the nodes of every graph; 0 in the padding."""
    layout = op.layout
    if isinstance(layout, Padded):
        if layout.mask is not None:
            score = score.masked_fill(~layout.mask.bool(), torch.finfo(score.dtype).min)
        return zero_padding(torch.softmax(score, -1), layout.mask)
    segments = segments_of(op)
    if segments.single:
        return torch.softmax(score, -1)
    high = _largest(score, segments)
    grown = torch.exp(score - segments.spread(high))
    return grown / segments.spread(segments.total(grown))


def _largest(score: Tensor, layout: Segments) -> Tensor:
    """The largest score of every graph, as a constant."""
    low = score.new_full((layout.num_graphs,), -math.inf)
    return low.scatter_reduce(0, layout.batch, score.detach(), "amax")


def above(score: Tensor, op: Operator, min_score: float) -> KeepSelection:
    """The nodes that score more than `min_score`, or the best of a graph where none does; in their own order.

    For a padded batch shapes stay static: all rows are kept, the best first, and a mask says which count.
    """
    layout = op.layout
    constant = score.detach()
    if isinstance(layout, Padded):
        if layout.mask is not None:
            constant = constant.masked_fill(~layout.mask.bool(), -math.inf)
        ranked = torch.sort(constant, dim=-1, descending=True, stable=True)
        limit = (ranked.values[..., :1] - _TIE).clamp(max=min_score)
        return KeepSelection(ranked.indices, layout, mask=ranked.values > limit, num_rows=op.num_rows)
    segments = segments_of(op)
    if segments.single:
        highest = constant.max() if constant.numel() else constant.new_zeros(())
        index = (constant > (highest - _TIE).clamp(max=min_score)).nonzero().squeeze(-1)
        ptr = None if segments.ptr is None else segments.ptr.new_tensor([0, index.numel()])
        return KeepSelection(index, segments, ptr=ptr)
    limit = (_largest(constant, segments) - _TIE).clamp(max=min_score)
    index = (constant > segments.spread(limit)).nonzero().squeeze(-1)
    counts = torch.bincount(segments.batch[index], minlength=segments.num_graphs)
    return KeepSelection(index, segments, ptr=counts_to_ptr(counts))


class ScorePool(Pool):
    """A pooler that keeps the nodes with the highest score, gated by it.

    Called as ``pool(x, adj, edge_weight=None, batch=None, mask=None, selection=None, attn=None)``: `attn` are
    features that are scored in place of x.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None,
        k: int | None,
        connect: str,
        min_score: float | None,
        multiplier: float,
        nonlinearity: Activation,
    ) -> None:
        super().__init__()
        if k is not None:
            k = check_size(k, "k")
        if min_score is not None:
            min_score = check_number(min_score, "min_score")
            if k is not None:
                raise ParameterError("k must be None where min_score decides which nodes stay.")
        elif k is None and not _is_share(ratio):
            raise ParameterError(
                f"ratio must be above 0 and at most 1, got {ratio!r}; use k for a fixed number, or min_score."
            )
        if connect not in CONNECTIONS:
            raise ParameterError(f"connect must be one of {', '.join(CONNECTIONS)}, got {connect!r}.")
        self.in_channels, self.k, self.connect = check_size(in_channels, "in_channels"), k, connect
        self.ratio = float(ratio) if ratio is not None and _is_share(ratio) else 1.0
        self.min_score, self.multiplier = min_score, check_number(multiplier, "multiplier")
        self.nonlinearity = get_activation(nonlinearity)

    @abstractmethod
    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        """One number per node, before the nonlinearity."""

    def score(self, x: Tensor, op: Operator) -> Tensor:
        """One number per node that ranks it and multiplies its features."""
        score = self.raw_score(x, op)
        if self.min_score is not None:
            return graph_softmax(score, op)
        return score if self.nonlinearity is None else self.nonlinearity(score)

    def select(self, x: Tensor, op: Operator) -> KeepSelection:
        score = self.score(x, op)
        if self.min_score is None:
            selection = top_k(score, op, self.ratio, self.k)
        else:
            selection = above(score, op, self.min_score)
        gate = score.gather(-1, selection.index)
        selection.gate = gate if self.multiplier == 1 else self.multiplier * gate
        return selection

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        selection: Selection | None = None,
        attn: Tensor | None = None,
    ) -> PoolOutput:
        if attn is None:
            return super().forward(x, adj, edge_weight, batch, mask, selection)
        if selection is not None:
            raise ParameterError("attn must be None where selection says which nodes stay.")
        if isinstance(attn, Tensor) and attn.dim() == 1:
            attn = attn.unsqueeze(-1)
        x, op = graph_input(x, adj, edge_weight, batch, mask)
        scored, _ = graph_input(attn, op, channels=self.in_channels, name="attn")
        chosen = self.select(scored, op)
        if not torch.compiler.is_compiling():
            chosen.edges = edges_of(op)
        return self.pool(x, op, chosen)

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
        size = size if self.min_score is None else f"min_score={self.min_score}"
        return f"{self.in_channels}, {size}, connect={self.connect!r}"


def _is_share(ratio: Any) -> bool:
    return isinstance(ratio, Real) and not isinstance(ratio, bool) and 0 < float(ratio) <= 1
