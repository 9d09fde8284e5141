"""Which rows belong to which graph: sums, spreads and small products per graph.

Two layouts. :class:`Segments`: rows of all graphs one after another, `ptr` says where each begins
(nothing padded). :class:`Padded`: [B, N, ...] with the missing rows zero. Both know the four operations of
:class:`Layout`, and the losses are written in these four, so they do not know which layout they were given.

Arrays may carry one replica axis before the last: [rows, R, K]; results then are [B, R, ...].
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import known_size, records, signed
from softcut.ops.kernels import FEWEST, FEWEST_SMALL, takes
from softcut.ops.numerics import counts_to_ptr, segment_sums
from softcut.ops.spmm import constants, unwrapped

# Graphs are of one size where padding them to the largest adds at most a quarter.
_EVEN = 1.25
_LARGEST_CHUNK = 1024


def batch_to_ptr(batch: Tensor, n: int) -> Tensor:
    """The graph number of every node to the pointer [B + 1]."""
    batch = unwrapped(batch, "batch")
    if batch.is_floating_point() or batch.dtype == torch.bool:
        raise GraphError(f"batch must hold whole numbers, got {batch.dtype}.")
    if batch.shape != (n,):
        raise GraphError(
            f"batch must have one graph number for each of the {n} nodes, got {list(batch.shape)}."
        )
    with constants():
        if n and bool((batch[1:] < batch[:-1]).any()):
            raise GraphError("batch must be sorted: the nodes of one graph stand together.")
        if n and int(batch[0]) < 0:
            raise GraphError(f"batch must not be negative, got {int(batch[0])}.")
        return counts_to_ptr(torch.bincount(batch, minlength=1))


def over_replicas(
    function: Callable[..., Any],
    info: Any,
    in_dims: Sequence[int | None],
    tensors: Sequence[Tensor],
    rows: int = 1,
    positions: Sequence[int] = (1,),
    core: Sequence[int] = (1, 1),
) -> tuple[Any, Any]:
    """What a vmap rule returns for a function of tensors with a replica axis: the vmapped axis goes into that one.

    The replica axis of a tensor follows `rows` axes and is followed by `core` axes; results have it at `positions`.
    """
    had_replicas = tensors[0].dim() - (in_dims[0] is not None) == rows + 2
    folded = []
    for x, dim, last in zip(tensors, in_dims, core, strict=False):
        if dim is None:
            x = x.unsqueeze(rows).expand(*x.shape[:rows], info.batch_size, *x.shape[rows:])
        else:
            x = x.movedim(dim, rows)
        folded.append(x.reshape(*x.shape[:rows], -1, *x.shape[x.dim() - last :]))
    results = function(*folded)
    axes = (info.batch_size, -1) if had_replicas else (info.batch_size,)
    split = tuple(
        x.reshape(*x.shape[:at], *axes, *x.shape[at + 1 :])
        for x, at in zip(results if isinstance(results, tuple) else (results,), positions, strict=True)
    )
    return (split, tuple(positions)) if isinstance(results, tuple) else (split[0], positions[0])


def ragged_on_kernels(a: Tensor, b: Tensor) -> bool:
    """Whether products per graph of `a` [N, K] with `b` ([N, F], or a matrix [K, F] per graph) go to a GPU kernel."""
    return a.dim() == 2 and _fits_kernels(a, b, FEWEST)


def replicas_on_kernels(a: Tensor, b: Tensor) -> bool:
    """Whether products per replica of `a` [N, R, K] with `b` ([N, R, F], or a matrix each) go to a GPU kernel."""
    return a.dim() == 3 and _fits_kernels(a, b, FEWEST_SMALL)


def _fits_kernels(a: Tensor, b: Tensor, fewest: int) -> bool:
    if torch.compiler.is_compiling():  # sizes may not be known
        return False
    fits = a.dtype == b.dtype and a.dtype != torch.float64 and min(a.shape) > 0 and b.shape[-1] > 0
    return fits and takes(a, a.shape[:-1].numel() * b.shape[-1], fewest)


class Chunks(NamedTuple):
    """How rows are cut into pieces of one size."""

    owner: Tensor  # [n]: the graph of each chunk
    place: Tensor  # [num_rows]: where each row went
    bounds: Tensor | None  # [B + 1]: first chunk of each graph; None where every graph is one chunk


class Layout(ABC):
    """Base class; `rows` is the number of leading axes that number rows."""

    rows: int
    num_graphs: int

    @abstractmethod
    def total(self, v: Tensor) -> Tensor:
        """Sum of a value per row, per graph: [rows] to [B]."""

    @abstractmethod
    def peak(self, v: Tensor) -> Tensor:
        """Largest of values that are not negative, per graph: [rows, K] to [B, K]; 0 without rows."""

    @property
    @abstractmethod
    def occupied(self) -> Tensor | None:
        """Which graphs have nodes [B]; None: all of them."""

    def over_all(self, values: Tensor) -> Tensor:
        """What this process has summed over its rows, as the sum over the rows of all processes."""
        return values

    @abstractmethod
    def spread(self, g: Tensor) -> Tensor:
        """A value per graph to its rows: the adjoint of the sum, [B] to what broadcasts over [rows, K]."""

    @abstractmethod
    def gram(self, a: Tensor, b: Tensor) -> Tensor:
        """a' b per graph: [rows, K] and [rows, F] to [B, K, F]."""

    @abstractmethod
    def matmul(self, a: Tensor, m: Tensor) -> Tensor:
        """Each row times its graph's matrix: [rows, K] and [B, K, F] to [rows, F]."""


class Padded(Layout):
    """Graphs padded to one size: arrays are [B, N, (R,) K]."""

    rows = 2

    def __init__(self, num_graphs: int, mask: Tensor | None = None) -> None:
        self.num_graphs, self.mask = num_graphs, mask

    @property
    def occupied(self) -> Tensor | None:
        return None if self.mask is None else self.mask.bool().any(1)

    def total(self, v: Tensor) -> Tensor:
        return v.sum(1)

    def peak(self, v: Tensor) -> Tensor:
        return v.amax(1)  # padded rows are 0

    def spread(self, g: Tensor) -> Tensor:
        return g.unsqueeze(1)

    def gram(self, a: Tensor, b: Tensor) -> Tensor:
        if a.dim() == 3:
            return a.mT @ b
        return a.permute(0, 2, 3, 1) @ b.permute(0, 2, 1, 3)

    def matmul(self, a: Tensor, m: Tensor) -> Tensor:
        if a.dim() == 3:
            return a @ m
        return (a.transpose(1, 2) @ m).transpose(1, 2)


class Segments(Layout):
    """Graphs one after another; `ptr` [B + 1] says where each begins. None: one graph.

    Products per graph are done in chunks: every graph's rows are cut into pieces of C rows, the last
    one padded, so all pieces of all graphs are one batched product. At most C - 1 rows per graph are
    padding, whatever the largest graph, and there is no loop over graphs.

    >>> import torch
    >>> layout = Segments(5, torch.tensor([0, 2, 5]))
    >>> layout.total(torch.ones(5)).tolist()
    [2.0, 3.0]
    >>> layout.gram(torch.ones(5, 1), torch.ones(5, 1)).flatten().tolist()
    [2.0, 3.0]
    """

    rows = 1

    def __init__(self, num_rows: int, ptr: Tensor | None = None) -> None:
        self.num_rows, self.ptr = num_rows, ptr
        self.num_graphs = 1 if ptr is None else ptr.numel() - 1
        self._chunks: dict[int, Chunks] = {}

    @property
    def single(self) -> bool:
        return self.num_graphs == 1

    @cached_property
    def batch(self) -> Tensor:
        """Graph number of every row."""
        if self.ptr is None:
            raise AttributeError("a single graph has no batch vector")
        with constants():
            graph = torch.arange(self.num_graphs, device=self.ptr.device)
            return torch.repeat_interleave(graph, self.ptr[1:] - self.ptr[:-1], output_size=self.num_rows)

    @property
    def occupied(self) -> Tensor | None:
        ptr = None if self.single else self.ptr
        return None if ptr is None else ptr[1:] > ptr[:-1]

    def to(self, device: torch.device | str) -> Segments:
        return Segments(self.num_rows, None if self.ptr is None else self.ptr.to(device))

    def chunks(self, size: int) -> Chunks:
        """The cut into chunks of `size` rows; made once and kept."""
        if size not in self._chunks:
            with constants():
                self._chunks[size] = self._cut_into(size)
        return self._chunks[size]

    def _cut_into(self, size: int) -> Chunks:
        assert self.ptr is not None
        device = self.ptr.device
        per_graph = (self.ptr[1:] - self.ptr[:-1] + size - 1) // size
        owner = torch.repeat_interleave(torch.arange(self.num_graphs, device=device), per_graph)
        bounds = counts_to_ptr(per_graph)
        offset = torch.arange(self.num_rows, device=device) - self.ptr[:-1][self.batch]
        place = bounds[:-1][self.batch] * size + offset
        one_each = bool((per_graph == 1).all())
        return Chunks(owner, place, None if one_each else bounds)

    def chunk_rows(self, size: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """What a kernel needs to find the rows of a chunk: graph of each chunk, `bounds` of :class:`Chunks`, `ptr`."""
        assert self.ptr is not None
        chunks = self.chunks(size)
        return chunks.owner, chunks.bounds, self.ptr

    @cached_property
    def _largest(self) -> int:
        """Rows of the largest graph."""
        assert self.ptr is not None
        return int((self.ptr[1:] - self.ptr[:-1]).max()) if self.num_graphs else 0

    def chunk_size(self, k: int) -> int:
        """Rows of a chunk for products with K columns.

        Graphs of about one size are one chunk each: there is nothing to add up afterwards. Otherwise as
        many rows as columns: the partial products then take no more memory than the input.
        """
        if self.num_graphs * self._largest <= _EVEN * self.num_rows and self._largest <= _LARGEST_CHUNK:
            return max(self._largest, 1)
        return min(256, max(16, 1 << (k - 1).bit_length()))

    def cut(self, pieces: Sequence[Tensor], size: int) -> Tensor:
        """Rows of the pieces, side by side, into chunks [n, size, ...], the padding zero."""
        chunks = self.chunks(size)
        rows = pieces[0] if len(pieces) == 1 else torch.cat(list(pieces), 1)
        out = rows.new_zeros(chunks.owner.numel() * size, *rows.shape[1:])
        return out.index_copy_(0, chunks.place, rows).view(-1, size, *rows.shape[1:])

    def join(self, chunked: Tensor) -> Tensor:
        """Chunks [n, size, ...] back to rows, the padding left out."""
        size = chunked.shape[1]
        return chunked.reshape(-1, *chunked.shape[2:]).index_select(0, self.chunks(size).place)

    def per_chunk(self, m: Tensor, size: int) -> Tensor:
        """A matrix per graph to its chunks: [B, ...] to [n, ...]."""
        chunks = self.chunks(size)
        return m if chunks.bounds is None else m.index_select(0, chunks.owner)

    def add_up(self, part: Tensor, size: int) -> Tensor:
        """Sums over the chunks of every graph: [n, ...] to [B, ...]."""
        bounds = self.chunks(size).bounds
        return part if bounds is None else segment_sums(part, bounds)

    def total(self, v: Tensor) -> Tensor:
        if self.single:
            return v.sum(0, keepdim=True)
        return _SegmentTotal.apply(self, v) if records(v) else segment_sums(v, self.ptr)

    def peak(self, v: Tensor) -> Tensor:
        return v.amax(0, keepdim=True) if self.single else _SegmentPeak.apply(self, v)

    def spread(self, g: Tensor) -> Tensor:
        return g if self.single else g.index_select(0, self.batch)

    def gram(self, a: Tensor, b: Tensor) -> Tensor:
        if not self.single or replicas_on_kernels(a, b):
            return _SegmentGram.apply(self, a, b)
        if a.dim() == 2:
            return (a.mT @ b).unsqueeze(0)
        return (a.permute(1, 2, 0) @ b.permute(1, 0, 2)).unsqueeze(0)

    def matmul(self, a: Tensor, m: Tensor) -> Tensor:
        if not self.single or replicas_on_kernels(a, m):
            return _SegmentMatmul.apply(self, a, m)
        if a.dim() == 2:
            return a @ m[0]
        return (a.transpose(0, 1) @ m[0]).transpose(0, 1)


class RecordedSegments(Segments):
    """As :class:`Segments`, for ``torch.export``: the number of graphs is one more than the last of `batch`.

    How many graphs there are is known when the exported program runs; so one graph is treated as several, and a
    product per graph adds up one small matrix per row.
    """

    single = False

    def __init__(self, batch: Tensor) -> None:
        self.num_rows, self.batch, self._chunks = batch.shape[0], batch.long(), {}
        self.num_graphs = known_size(batch[-1]) + 1

    @property
    def ptr(self) -> Tensor:  # type: ignore[override]
        return counts_to_ptr(self.total(torch.ones_like(self.batch)))

    def total(self, v: Tensor) -> Tensor:
        return v.new_zeros(self.num_graphs, *v.shape[1:]).index_add(0, self.batch, v)

    def gram(self, a: Tensor, b: Tensor) -> Tensor:
        return self.total(a.unsqueeze(-1) * b.unsqueeze(-2))

    def matmul(self, a: Tensor, m: Tensor) -> Tensor:
        return (a.unsqueeze(-2) @ self.spread(m)).squeeze(-2)


@signed
class _SegmentTotal(torch.autograd.Function):
    """Sums per graph in a fixed order."""

    @staticmethod
    def forward(layout: Segments, v: Tensor) -> Tensor:
        return segment_sums(v.detach(), layout.ptr)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.layout = inputs[0]

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return None, ctx.layout.spread(grad)

    @staticmethod
    def vmap(info, in_dims, layout, v):  # type: ignore[no-untyped-def]
        last = v.dim() - 1  # not -1, which torch 2.6 takes for another axis in a gradient
        return _SegmentTotal.apply(layout, v.movedim(in_dims[1], last)), last


@signed
class _SegmentPeak(torch.autograd.Function):
    """Maxima per graph; equal ones share the gradient."""

    @staticmethod
    def forward(layout: Segments, v: Tensor) -> Tensor:
        v = v.detach().contiguous()
        if v.is_cuda:
            return torch.segment_reduce(v, "max", offsets=layout.ptr, axis=0, initial=0)
        graph = layout.batch.view(-1, *[1] * (v.dim() - 1)).expand(v.shape)  # many times faster on a CPU
        return v.new_zeros(layout.num_graphs, *v.shape[1:]).scatter_reduce_(0, graph, v, "amax")

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.layout = inputs[0]
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        v, peak = ctx.saved_tensors
        largest = (v == ctx.layout.spread(peak)).to(grad.dtype)
        return None, largest * ctx.layout.spread(grad / ctx.layout.total(largest).clamp(min=1))


class _SegmentProduct(torch.autograd.Function):
    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.layout = inputs[0]
        ctx.save_for_backward(inputs[1], inputs[2])


@signed
class _SegmentGram(_SegmentProduct):
    @staticmethod
    def forward(layout: Segments, a: Tensor, b: Tensor) -> Tensor:
        if layout.single or ragged_on_kernels(a, b):
            from softcut.ops.kernels.product import CHUNK, gram  # imports Triton, which takes a while

            if layout.single:
                return gram(a.detach(), b.detach()).sum(0, keepdim=True).to(a.dtype)
            each = gram(a.detach().unsqueeze(1), b.detach().unsqueeze(1), *layout.chunk_rows(CHUNK))
            return layout.add_up(each.squeeze(1), CHUNK).to(a.dtype)
        size = layout.chunk_size(a.shape[-1])
        left = layout.cut([a], size)
        right = left if a is b else layout.cut([b], size)
        if a.dim() == 2:
            part = left.mT @ right
        else:
            part = left.permute(0, 2, 3, 1) @ right.permute(0, 2, 1, 3)
        return layout.add_up(part, size)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        a, b = ctx.saved_tensors
        grad_a = ctx.layout.matmul(b, grad.mT) if ctx.needs_input_grad[1] else None
        grad_b = ctx.layout.matmul(a, grad) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_b

    @staticmethod
    def vmap(info, in_dims, layout, a, b):  # type: ignore[no-untyped-def]
        return over_replicas(partial(_SegmentGram.apply, layout), info, in_dims[1:], (a, b))


@signed
class _SegmentMatmul(_SegmentProduct):
    @staticmethod
    def forward(layout: Segments, a: Tensor, m: Tensor) -> Tensor:
        if layout.single or ragged_on_kernels(a, m):
            from softcut.ops.kernels.product import CHUNK, matmul  # imports Triton, which takes a while

            if layout.single:
                return matmul(a.detach(), m.detach().contiguous())
            m = m.detach().contiguous().unsqueeze(1)
            return matmul(a.detach().unsqueeze(1), m, *layout.chunk_rows(CHUNK)).squeeze(1)
        size = layout.chunk_size(a.shape[-1])
        chunks, matrices = layout.cut([a], size), layout.per_chunk(m, size)
        if a.dim() == 2:
            out = chunks @ matrices
        else:
            out = (chunks.transpose(1, 2) @ matrices).transpose(1, 2)
        return layout.join(out)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        a, m = ctx.saved_tensors
        grad_a = ctx.layout.matmul(grad, m.mT) if ctx.needs_input_grad[1] else None
        grad_m = ctx.layout.gram(a, grad) if ctx.needs_input_grad[2] else None
        return None, grad_a, grad_m

    @staticmethod
    def vmap(info, in_dims, layout, a, m):  # type: ignore[no-untyped-def]
        return over_replicas(partial(_SegmentMatmul.apply, layout), info, in_dims[1:], (a, m), core=(1, 2))
