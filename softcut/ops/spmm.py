r"""The sparse product Y = A S: pattern, backends, and the differentiable function.

A sparse product with a binary matrix is a sum of table rows, which is what an embedding bag computes;
PyTorch's kernel for it needs no edge values and no sparse tensor. On CPUs it measures about twice as fast as
the CSR product of PyTorch's sparse module (benchmarks/kernels.py), except in float64, where that one is many
times faster and is taken. On GPUs large products go to the kernels of :mod:`softcut.ops.kernels`, small ones to an
embedding bag with long rows cut into pieces; both add in a fixed order, which the vendor's product does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property, partial

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import is_wrapped, outside_transforms, records, signed, unwrapped_once
from softcut.ops.kernels import takes
from softcut.ops.kernels.plan import RowPlan, row_plan
from softcut.ops.numerics import check_tensor, counts_to_ptr, index_type

# What multiplies some rows of a matrix by a dense one.
Product = Callable[[Tensor], Tensor]
# A gradient with respect to edge values gathers at most this many numbers at a time.
_GATHERED_AT_ONCE = 1 << 24
# Entries of a row that one GPU thread sums.
PIECE = 64


@contextmanager
def constants() -> Iterator[None]:
    """Tensors made in here are kept for later calls, so they belong to no mode of this one.

    Made under ``torch.inference_mode`` they could not be used in training, and made inside a
    transform of ``torch.func`` they would die with it.
    """
    ordinary = not torch.is_inference_mode_enabled()
    with outside_transforms(), nullcontext() if ordinary else torch.inference_mode(False), torch.no_grad():
        yield


def unwrapped(t: Tensor, name: str) -> Tensor:
    """The tensor of indices itself, from inside the transforms of ``torch.func`` that it passed."""
    t = check_tensor(t, name, "whole numbers")
    while is_wrapped(t):
        inner = unwrapped_once(t)
        if inner is None:
            raise GraphError(
                f"{name} cannot differ between the replicas of a vmap; pass in_dims=None for it."
            )
        t = inner
    return t


class CSRPattern:
    """Where a sparse matrix has its entries, sorted by row and then by column.

    Indices are int32 while they fit: `rowptr` up to 2^31 - 1 entries, `col` up to as many columns. The transpose, row
    numbers, a vector of ones and the plan of a GPU product are made when first asked for and kept.

    >>> import torch
    >>> pattern, order = CSRPattern.from_coo(torch.tensor([1, 0, 1]), torch.tensor([0, 1, 2]), (2, 3))
    >>> pattern.rowptr.tolist(), pattern.col.tolist()
    ([0, 1, 3], [1, 0, 2])
    """

    # Whether it serves many products; a plan, which waits for the device, would not pay for a single one.
    lasting = True

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int]) -> None:
        self.rowptr, self.col, self.shape = rowptr, col, shape

    @classmethod
    def from_coo(cls, row: Tensor, col: Tensor, shape: tuple[int, int]) -> tuple[CSRPattern, Tensor]:
        """The pattern of (row, col) pairs, and the order in which the pairs now stand."""
        place = row.long() * shape[1] + col.long()
        if not place.is_cuda and bool((place[1:] >= place[:-1]).all()):  # as most loaders give them
            order = torch.arange(place.numel(), device=place.device)
        else:
            order = torch.argsort(place, stable=True)
            col = col[order]
        rowptr = counts_to_ptr(torch.bincount(row.long(), minlength=shape[0]))
        return cls(rowptr.to(index_type(row.numel())), col.to(index_type(shape[1])), shape), order

    @classmethod
    def from_scipy(cls, matrix: sp.csr_array) -> CSRPattern:
        """The pattern of a scipy matrix in CSR form with sorted indices."""
        rowptr = torch.tensor(matrix.indptr, dtype=index_type(matrix.nnz))
        return cls(rowptr, torch.tensor(matrix.indices, dtype=index_type(matrix.shape[1])), matrix.shape)

    @property
    def nnz(self) -> int:
        return self.col.numel()

    @cached_property
    def rows(self) -> Tensor:
        """Row number of every entry."""
        with constants():
            row = torch.arange(self.shape[0], device=self.col.device)
            return torch.repeat_interleave(row, self.counts, output_size=self.nnz)

    @property
    def counts(self) -> Tensor:
        """Entries of every row."""
        return (self.rowptr[1:] - self.rowptr[:-1]).long()

    @cached_property
    def transpose(self) -> tuple[CSRPattern, Tensor]:
        """The transposed pattern, and the order that takes entry values to it."""
        shape = (self.shape[1], self.shape[0])
        with constants():
            if self.col.is_cuda:
                return CSRPattern.from_coo(self.col.long(), self.rows, shape)
            # Counting instead of sorting, which takes ten times as long.
            numbers = np.arange(self.nnz)
            matrix = sp.csr_array((numbers, self.col.numpy(), self.rowptr.numpy()), shape=self.shape).tocsc()
            rowptr, col, order = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
            return CSRPattern(rowptr.to(index_type(self.nnz)), col.to(index_type(shape[1])), shape), order

    @cached_property
    def has_duplicates(self) -> bool:
        """Whether several entries share a place."""
        with constants():
            return bool(((self.rows[1:] == self.rows[:-1]) & (self.col[1:] == self.col[:-1])).any())

    @cached_property
    def symmetric(self) -> bool:
        """Whether (i, j) is an entry wherever (j, i) is one."""
        with constants():
            other = self.transpose[0]
            return torch.equal(self.rowptr, other.rowptr) and torch.equal(self.col, other.col)

    @cached_property
    def pieces(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Offsets that cut long rows into pieces, and how to sum the pieces; None where all rows are short.

        A GPU sums each piece in one thread: without the cut, the longest row would set the time.
        """
        with constants():
            return self.cut_rows() if self.shape[0] and int(self.counts.max()) > PIECE else None

    def cut_rows(self, total: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The `pieces` of rows of which some are long; `total`, their number, saves asking the device for it."""
        count = torch.clamp((self.counts + PIECE - 1) // PIECE, min=1)
        second = counts_to_ptr(count).to(self.rowptr.dtype)
        place = torch.arange(int(second[-1]) if total is None else total, device=count.device)
        rows = torch.arange(len(count), device=count.device)
        owner = torch.repeat_interleave(rows, count, output_size=len(place))
        start = self.rowptr[:-1][owner] + (place - second[:-1][owner]) * PIECE
        first = torch.cat([start.to(self.rowptr.dtype), self.rowptr[-1:]])
        return first, place.to(self.col.dtype), second

    @cached_property
    def plan(self) -> RowPlan:
        """How a GPU kernel shares out the rows."""
        with constants():
            return row_plan(self.rowptr)

    def to(self, device: torch.device | str) -> CSRPattern:
        return CSRPattern(self.rowptr.to(device), self.col.to(device), self.shape)


class RecordedPattern(CSRPattern):
    """Entries as they came, in any order, for ``torch.export``: no decision depends on where they are.

    A product gathers a row of S for each entry (E x K numbers) and adds them up: plain operations, which every
    backend of an exported program has.
    """

    def __init__(self, row: Tensor, col: Tensor, shape: tuple[int, int]) -> None:
        self.rows, self.col, self.shape = row.long(), col.long(), shape

    @property
    def counts(self) -> Tensor:
        return self.sums(torch.ones_like(self.rows))

    @property
    def has_duplicates(self) -> bool:
        return True  # not known

    @property
    def symmetric(self) -> bool:
        return False  # not known

    def sums(self, values: Tensor) -> Tensor:
        """Sums over the entries of every row."""
        return values.new_zeros(self.shape[0], *values.shape[1:]).index_add(0, self.rows, values)

    def product(self, val: Tensor | None, s: Tensor, scale: Tensor | None) -> Tensor:
        """What :func:`spmm` returns."""
        scale = None if scale is None else scale.to(s.dtype).unsqueeze(-1)
        each = (s if scale is None else scale * s).index_select(0, self.col)
        y = self.sums(each if val is None else val.to(s.dtype).unsqueeze(-1) * each)
        return y if scale is None else scale * y


def on_kernels(pattern: CSRPattern, s: Tensor) -> bool:
    """Whether the product of a pattern with `s` goes to the GPU kernels."""
    return pattern.nnz > 0 and s.shape[-1] > 0 and pattern.lasting and takes(s, pattern.nnz)


def sparse_product(pattern: CSRPattern, val: Tensor | None, s: Tensor, scale: Tensor | None = None) -> Tensor:
    """Y = diag(scale) A diag(scale) S for a two-dimensional S, outside autograd; without `scale`, Y = A S."""
    s = s.detach().contiguous()
    if on_kernels(pattern, s):
        from softcut.ops.kernels.product import row_product  # imports Triton, which takes a while

        return row_product(pattern.col, None if val is None else val.detach(), s, scale, pattern.plan)[0]
    if scale is None:
        return _torch_product(pattern, val, s)
    scale = scale.detach().to(s.dtype).unsqueeze(-1)
    y = _torch_product(pattern, val, scale * s)
    # Scaled where it stands, except inside torch.compile and torch.func, which do not allow it.
    return scale * y if torch.compiler.is_compiling() or is_wrapped(y) else y.mul_(scale)


def row_products(pattern: CSRPattern, val: Tensor | None, blocks: Sequence[slice]) -> list[Product]:
    """For each block of rows of A what multiplies these by a dense matrix, outside autograd."""
    products: list[Product] = []
    for block in blocks:
        begin, end = (int(pattern.rowptr[at]) for at in (block.start, block.stop))
        rowptr = (pattern.rowptr[block.start : block.stop + 1] - begin).to(index_type(end - begin))
        shape = (block.stop - block.start, pattern.shape[1])
        part = CSRPattern(rowptr, pattern.col[begin:end], shape)
        products.append(partial(sparse_product, part, None if val is None else val[begin:end]))
    return products


def _torch_product(pattern: CSRPattern, val: Tensor | None, s: Tensor) -> Tensor:
    if val is not None:
        val = val.detach().to(s.dtype)
    if not pattern.nnz or not s.numel():
        return s.new_zeros(pattern.shape[0], s.shape[1])
    plain = not torch.compiler.is_compiling() and not is_wrapped(s)
    if s.dtype == torch.float64 and s.device.type == "cpu" and plain:
        return _csr_product(pattern, val, s)
    if s.is_cuda and pattern.pieces is not None:
        first, order, second = pattern.pieces
        return _bag(_bag(s, pattern.col, first, val), order, second, None)
    return _bag(s, pattern.col, pattern.rowptr, val)


def _bag(s: Tensor, index: Tensor, offsets: Tensor, val: Tensor | None) -> Tensor:
    """Sums of (weighted) rows of `s`, in the order of `index`: the same result every time."""
    if index.dtype != offsets.dtype:  # more than 2^31 entries: PyTorch wants one type for both
        index, offsets = index.long(), offsets.long()
    return torch.embedding_bag(s, index, offsets, per_sample_weights=val, include_last_offset=True)[0]


def _csr_product(pattern: CSRPattern, val: Tensor | None, s: Tensor) -> Tensor:
    """The product of PyTorch's sparse module: for float64, where an embedding bag has no fast kernel."""
    if val is None:
        val = s.new_ones(pattern.nnz)  # made each time: a binary matrix keeps no values
    _silence()
    rowptr, col = pattern.rowptr, pattern.col
    if rowptr.dtype != col.dtype:
        rowptr, col = rowptr.long(), col.long()
    matrix = torch.sparse_csr_tensor(rowptr, col, val, pattern.shape, check_invariants=False)
    return matrix @ s


@cache
def _silence() -> None:
    """PyTorch says once that sparse CSR is in beta: the warning is triggered and ignored here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1).to_sparse_csr()


def _value_gradient(pattern: CSRPattern, grad: Tensor, s: Tensor) -> Tensor:
    """d/d val_e of <grad, A S> = <grad[row_e], s[col_e]>, in slices so that no E x K tensor exists."""
    step = max(1, _GATHERED_AT_ONCE // max(1, s.shape[1]))
    parts = [
        (grad[pattern.rows[i : i + step]] * s[pattern.col[i : i + step].long()]).sum(-1)
        for i in range(0, pattern.nnz, step)
    ]
    return torch.cat(parts) if parts else s.new_zeros(0)


@signed
class _SpMM(torch.autograd.Function):
    """Y = diag(scale) A diag(scale) S with gradients for S and for the values of A; `scale` is constant."""

    @staticmethod
    def forward(pattern: CSRPattern, val: Tensor | None, s: Tensor, scale: Tensor | None) -> Tensor:
        return sparse_product(pattern, val, s, scale)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        pattern, val, s, scale = inputs
        ctx.pattern, ctx.scale = pattern, scale
        ctx.save_for_backward(val, s if val is not None and val.requires_grad else None)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        val, s = ctx.saved_tensors
        grad_val = grad_s = None
        if ctx.needs_input_grad[2]:
            transposed, order = ctx.pattern.transpose
            grad_s = _SpMM.apply(transposed, None if val is None else val[order], grad, ctx.scale)
        if ctx.needs_input_grad[1]:
            if ctx.scale is not None:
                grad, s = (ctx.scale.to(t.dtype).unsqueeze(-1) * t for t in (grad, s))
            grad_val = _value_gradient(ctx.pattern, grad, s)
        return None, grad_val, grad_s, None

    @staticmethod
    def vmap(info, in_dims, pattern, val, s, scale):  # type: ignore[no-untyped-def]
        if in_dims[1] is not None:  # different edge values per replica: no shared product
            values = val.movedim(in_dims[1], 0)
            columns = [s] * info.batch_size if in_dims[2] is None else s.movedim(in_dims[2], 0)
            each = [_SpMM.apply(pattern, v, c, scale) for v, c in zip(values, columns, strict=True)]
            return torch.stack(each), 0
        # Replicas are columns: [N, R, K] -> one product with R*K columns.
        s = s.movedim(in_dims[2], 1)
        y = _SpMM.apply(pattern, val, s.reshape(s.shape[0], -1), scale)
        return y.view(y.shape[0], *s.shape[1:]), 1


def spmm(pattern: CSRPattern, val: Tensor | None, s: Tensor, scale: Tensor | None = None) -> Tensor:
    """Sparse times dense, Y = A S, differentiable in S [N, K] and in the values of A.

    A has one value `val` for each entry of `pattern`; None stands for a binary matrix and stores nothing. With `scale`
    [N], a constant, diag(scale) A diag(scale) is multiplied instead of A.

    >>> import torch
    >>> pattern, _ = CSRPattern.from_coo(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    >>> spmm(pattern, None, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if isinstance(pattern, RecordedPattern):
        return pattern.product(val, s, scale)
    return (_SpMM.apply if records(s) else sparse_product)(pattern, val, s, scale)
