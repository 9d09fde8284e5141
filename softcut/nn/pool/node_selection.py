"""Keeping some of the nodes: the selection, the best k of every graph, the graph on what is kept; NoPool keeps all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool, PoolOutput
from softcut.nn.pool.selection import Selection
from softcut.ops import Dense, Layout, Operator, Segments
from softcut.ops.batching import Padded, counts_to_ptr
from softcut.ops.convert import segments_of, submatrix
from softcut.ops.numerics import zero_padding

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
    def batch(self) -> Tensor | None:
        """Graph number of every kept row; None for a single graph and for padded batches."""
        return None if self.ptr is None else Segments(self.index.numel(), self.ptr).batch

    @property
    def s(self) -> Tensor:
        """S as a sparse [N, N'] matrix, or a dense [B, N, K] one for a padded batch."""
        assert self.num_rows is not None
        gate = self.gate if self.gate is not None else torch.ones_like(self.index, dtype=torch.float)
        if isinstance(self.layout, Padded):
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


def _how_many(n: int, ratio: float, k: int | None) -> int:
    return min(k, n) if k is not None else math.ceil(ratio * n - 1e-9)


def _how_many_each(counts: Tensor, ratio: float, k: int | None) -> Tensor:
    """The same for every graph of a batch."""
    if k is not None:
        return counts.clamp(max=k)
    return torch.ceil(counts.double() * ratio - 1e-9).to(counts.dtype)


def _ranked(score: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores as constants, the best first and padding last, and where they stood."""
    score = score.detach() if mask is None else score.detach().masked_fill(~mask.bool(), -math.inf)
    return torch.sort(score, dim=-1, descending=True, stable=True)


def top_k(score: Tensor, op: Operator, ratio: float, k: int | None) -> KeepSelection:
    """The highest-scoring nodes of every graph, best first; no loop over the graphs.

    Shapes are static for padded batches and for a single graph (known from N and `ratio` or `k` alone).
    """
    layout = op.layout
    mask = layout.mask if isinstance(layout, Padded) else None
    order, size = _ranked(score, mask)[1], _how_many(op.num_rows, ratio, k)
    if isinstance(layout, Padded):
        if mask is not None:
            allowed = _how_many_each(mask.sum(-1), ratio, k)
            mask = torch.arange(size, device=score.device) < allowed.unsqueeze(-1)
        return KeepSelection(order[..., :size], layout, mask=mask, num_rows=op.num_rows)
    layout = segments_of(op)
    if layout.single:
        ptr = None if layout.ptr is None else layout.ptr.new_tensor([0, size])
        return KeepSelection(order[..., :size], layout, ptr=ptr)
    assert layout.ptr is not None
    order = order[torch.sort(layout.batch[order], stable=True).indices]  # by graph, then by score
    allowed = _how_many_each(layout.ptr[1:] - layout.ptr[:-1], ratio, k)
    rank = torch.arange(layout.num_rows, device=score.device) - layout.ptr[:-1][layout.batch]
    return KeepSelection(order[rank < allowed[layout.batch]], layout, ptr=counts_to_ptr(allowed))


def above(score: Tensor, op: Operator, min_score: float) -> KeepSelection:
    """The nodes that score more than `min_score`, or the best of a graph where none does; in their own order.

    For a padded batch shapes stay static: all rows are kept, the best first, and a mask says which count.
    """
    layout = op.layout
    if isinstance(layout, Padded):
        ranked, order = _ranked(score, layout.mask)
        limit = (ranked[..., :1] - _TIE).clamp(max=min_score)
        return KeepSelection(order, layout, mask=ranked > limit, num_rows=op.num_rows)
    segments = segments_of(op)
    limit = (_largest(score, segments) - _TIE).clamp(max=min_score)
    index = (score.detach() > segments.spread(limit)).nonzero().squeeze(-1)
    if segments.ptr is None:
        return KeepSelection(index, segments)
    counts = torch.bincount(segments.batch[index], minlength=segments.num_graphs)
    return KeepSelection(index, segments, ptr=counts_to_ptr(counts))


def _largest(score: Tensor, layout: Segments) -> Tensor:
    """The largest score of every graph, as a constant."""
    low = score.new_full((layout.num_graphs,), -math.inf)
    graph = torch.zeros_like(score, dtype=torch.long) if layout.ptr is None else layout.batch
    return low.scatter_reduce(0, graph, score.detach(), "amax")


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
    grown = torch.exp(score - segments.spread(_largest(score, segments)))
    return grown / segments.spread(segments.total(grown))


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
