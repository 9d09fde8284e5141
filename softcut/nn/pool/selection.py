"""Which nodes go to which cluster: the base class of selections, soft assignments, and the graph they belong to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.ops import CSR, Dense, Layout, Operator, Segments, Sum
from softcut.ops.batching import Padded
from softcut.ops.cut import self_gram
from softcut.ops.numerics import can_be_read, zero_padding


class Selection(ABC):
    """Which nodes go to which cluster: `s`, the assignment matrix, the way there (`reduce`) and back (`lift`).

    `edges` are those of the graph it was made for, where that is known: it is refused for another one.
    """

    edges: tuple[Tensor, ...] | None = None

    if TYPE_CHECKING:  # an attribute in some kinds, a property in others

        @property
        def s(self) -> Tensor: ...

    @property
    def pooled_rows(self) -> tuple[int, ...] | None:
        """Shape of what `lift` takes, without its last axis; None: not known, not checked."""
        return None

    def check(self, op: Operator) -> None:
        """Refuse a graph that this selection was not made for."""
        layout: Layout | None = getattr(self, "layout", None)
        if layout is not None and not same_rows(layout, op.layout):
            raise ParameterError(
                "selection must come from the graphs that are pooled; it has other rows.",
                argument="selection",
            )
        if self.edges is not None and not same_edges(self.edges, edges_of(op)):
            raise ParameterError(
                "selection must come from the graphs that are pooled; it was made for other edges. Make a "
                "DenseSelection, or call softcut.nn.mincut_pool, to use one assignment matrix for several graphs.",
                argument="selection",
            )

    def check_pooled(self, x_pool: Tensor) -> None:
        """Refuse features that are not those of the clusters."""
        rows = self.pooled_rows
        if not isinstance(x_pool, Tensor):
            raise ParameterError(
                f"x_pool must be a tensor of pooled features, got {type(x_pool).__name__}.", argument="x_pool"
            )
        if rows is not None and x_pool.shape[:-1] != rows:
            shape = ", ".join(map(str, (*rows, "F")))
            raise ParameterError(
                f"x_pool must have the shape [{shape}] of the pooled features, got {list(x_pool.shape)}.",
                argument="x_pool",
            )

    @abstractmethod
    def reduce(self, x: Tensor) -> Tensor:
        """Node features to cluster features."""

    @abstractmethod
    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        """Cluster features back to nodes; with `pinv` through the pseudo-inverse of the way there."""


@dataclass
class DenseSelection(Selection):
    """A soft assignment matrix S: [N, K] for ragged batches, [B, N, K] for padded ones.

    >>> import torch
    >>> from softcut.ops import Segments
    >>> selection = DenseSelection(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), Segments(3))
    >>> pooled = selection.reduce(torch.tensor([[2.0], [4.0], [7.0]]))
    >>> selection.lift(pooled).flatten().tolist()
    [6.0, 6.0, 7.0]
    >>> [round(v, 4) for v in selection.lift(pooled, pinv=True).flatten().tolist()]
    [3.0, 3.0, 7.0]
    """

    s: Tensor
    layout: Layout

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return (self.layout.num_graphs, *self.s.shape[self.layout.rows :])

    def reduce(self, x: Tensor) -> Tensor:
        x = zero_padding(x, getattr(self.layout, "mask", None))
        return self.layout.gram(self.s, x.to(self.s.dtype)).to(x.dtype)  # S' X

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        self.check_pooled(x_pool)
        if not x_pool.is_floating_point():
            raise ParameterError(
                f"x_pool must hold floating-point numbers, got {x_pool.dtype}.", argument="x_pool"
            )
        coarse = x_pool.to(self.s.dtype)
        if pinv:
            coarse = torch.linalg.pinv(self_gram(self.layout, self.s), hermitian=True) @ coarse
        return self.layout.matmul(self.s, coarse).to(x_pool.dtype)  # S X_pool, or S (S'S)^+ X_pool


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
                raise ParameterError("num_rows must be given for a padded selection.", argument="num_rows")
            self.num_rows = self.layout.num_rows

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return tuple(self.index.shape)

    def check(self, op: Operator) -> None:
        super().check(op)
        if self.num_rows != op.num_rows:
            raise ParameterError(
                f"selection was made for graphs of {self.num_rows} rows, but adj has {op.num_rows}.",
                argument="selection",
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


def same_rows(a: Layout, b: Layout) -> bool:
    """Whether two layouts are of the same graphs, as far as sizes and masks tell."""
    if isinstance(a, Segments) and isinstance(b, Segments):
        if (a.num_rows, a.num_graphs) != (b.num_rows, b.num_graphs):
            return False
        if a.ptr is None or b.ptr is None or a.ptr is b.ptr:
            return True
        # On a GPU the sizes of the single graphs are not compared: that would wait for the device.
        return a.ptr.is_cuda or b.ptr.is_cuda or torch.equal(a.ptr, b.ptr)
    if isinstance(a, Padded) and isinstance(b, Padded):
        return a.num_graphs == b.num_graphs and _same_mask(a.mask, b.mask)
    return False


def _same_mask(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two masks leave out the same rows; None leaves out none."""
    given = [mask for mask in (a, b) if mask is not None]
    if a is b or any(mask.is_cuda or not can_be_read(mask) for mask in given):
        return True  # as above
    return torch.equal(given[0].bool(), given[1].bool()) if len(given) == 2 else bool(given[0].all())


def edges_of(op: Operator) -> tuple[Tensor, ...]:
    """What tells the edges of an operator from those of another; holds no operator, so that none is kept alive."""
    if isinstance(op, CSR):
        return op.pattern.rowptr, op.pattern.col
    if isinstance(op, Dense):
        return (op.data.detach(),)
    return tuple(t for part in op.parts for t in edges_of(part)) if isinstance(op, Sum) else ()


def same_edges(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    """Whether two results of :func:`edges_of` have entries in the same places; weights may differ."""
    return len(a) == len(b) and all(map(_same_places, a, b))


def _same_places(a: Tensor, b: Tensor) -> bool:
    if a is b:
        return True
    if a.shape != b.shape or a.device != b.device:
        return False
    if not can_be_read(a) or not can_be_read(b):
        return True
    return torch.equal(a, b) if a.dim() == 1 else torch.equal(a != 0, b != 0)  # indices, or a dense matrix
