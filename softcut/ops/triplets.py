"""The entries of a sparse operator as triplets, and what is made of them: subgraphs, merged graphs, norms."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.ops.batching import Segments
from softcut.ops.csr import CSR
from softcut.ops.dense import Dense
from softcut.ops.numerics import counts_to_ptr
from softcut.ops.operator import Operator
from softcut.ops.spmm import CSRPattern
from softcut.ops.sum import Sum

CONNECTIONS = ("adjacency", "two_hop")


class Entries(NamedTuple):
    """A sparse matrix as triplets; `val` is None for a binary one."""

    row: Tensor
    col: Tensor
    val: Tensor | None

    def values(self, dtype: torch.dtype) -> Tensor:
        return torch.ones_like(self.row, dtype=dtype) if self.val is None else self.val


def entries(op: Operator) -> Entries:
    """The entries of a sparse operator, its diagonal scaling included."""
    if isinstance(op, CSR):
        row, col, val = op.pattern.rows, op.pattern.col.long(), op.val
        if op.scale is not None:
            scale = op.scale[row] * op.scale[col]
            val = scale if val is None else val * scale
        return Entries(row, col, val)
    if isinstance(op, Sum):
        parts = [entries(p) for p in op.parts]
        row, col = torch.cat([p.row for p in parts]), torch.cat([p.col for p in parts])
        dtype = op.degree.dtype
        val = torch.cat([w * p.values(dtype) for w, p in zip(op.weights, parts, strict=True)])
        if op.scale is not None:
            val = val * op.scale[row] * op.scale[col]
        return Entries(row, col, val)
    raise ParameterError(f"this pooler needs a sparse operator, not {type(op).__name__}.")


def _merged(row: Tensor, col: Tensor, val: Tensor, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sum the values that share a place (differentiable in `val`)."""
    places, where = torch.unique(row * width + col, return_inverse=True)
    summed = val.new_zeros(places.numel()).index_add(0, where, val)
    return places // width, places % width, summed


def _make_csr(
    row: Tensor, col: Tensor, val: Tensor | None, n: int, ptr: Tensor | None, symmetric: bool
) -> CSR:
    pattern, order = CSRPattern.from_coo(row, col, (n, n))
    return CSR(pattern, None if val is None else val[order], ptr=ptr, symmetric=symmetric)


def _coo(row: Tensor, col: Tensor, val: Tensor, shape: tuple[int, int]) -> Tensor:
    return torch.sparse_coo_tensor(torch.stack([row, col]), val, shape, check_invariants=False)


def submatrix(op: Operator, index: Tensor, ptr: Tensor | None, connect: str = "adjacency") -> CSR:
    """A[index, index], or with ``connect="two_hop"`` (A A)[index, index], its diagonal included."""
    row, col, val = entries(op)
    place = torch.full((op.num_rows,), -1, dtype=torch.long, device=index.device)
    place[index] = torch.arange(index.numel(), device=index.device)
    if connect == "adjacency":
        keep = (place[row] >= 0) & (place[col] >= 0)
        row, col, val = place[row[keep]], place[col[keep]], None if val is None else val[keep]
        return _make_csr(row, col, val, index.numel(), ptr, op.symmetric)
    values = Entries(row, col, val).values(op.degree.dtype)
    left, right, n = place[row] >= 0, place[col] >= 0, op.num_rows
    out_of = _coo(place[row[left]], col[left], values[left], (index.numel(), n))
    into = _coo(row[right], place[col[right]], values[right], (n, index.numel()))
    product = torch.sparse.mm(out_of, into).coalesce()
    row, col = product.indices()
    return _make_csr(row, col, product.values(), index.numel(), ptr, op.symmetric)


def cluster_graph(op: Operator, cluster: Tensor, ptr: Tensor | None, num_clusters: int) -> CSR:
    """S' A S of a hard assignment, sparse, with the diagonal left out."""
    row, col, val = entries(op)
    first, second = cluster[row], cluster[col]
    between = first != second
    values = Entries(row, col, val).values(op.degree.dtype)[between]
    row, col, val = _merged(first[between], second[between], values, num_clusters)
    return _make_csr(row, col, val, num_clusters, ptr, op.symmetric)


def frobenius_squared(op: Operator) -> Tensor:
    """||A||_F^2 of every graph: [B]. Entries that share a place are summed first."""
    if isinstance(op, Dense):
        return op.data.square().sum((-2, -1))
    row, col, val = entries(op)
    values = Entries(row, col, val).values(op.degree.dtype)
    if row.numel() and (not isinstance(op, CSR) or op.pattern.has_duplicates):
        row, _, values = _merged(row, col, values, op.num_rows)
    per_row = values.new_zeros(op.num_rows).index_add(0, row, values.square())
    return op.layout.total(per_row)


def to_ragged(op: Dense) -> tuple[CSR, Tensor]:
    """A padded batch as a block-diagonal sparse operator, and the [B, N] mask of the rows it holds."""
    graphs, n, _ = op.data.shape
    device = op.data.device
    real = torch.ones(graphs, n, dtype=torch.bool, device=device) if op.mask is None else op.mask.bool()
    number = real.flatten().cumsum(0).view(graphs, n) - 1
    used = (op.data.detach() != 0) & real.unsqueeze(-1) & real.unsqueeze(-2)
    graph, row, col = used.nonzero(as_tuple=True)
    val, row, col = op.data[graph, row, col], number[graph, row], number[graph, col]
    ptr = counts_to_ptr(real.sum(1))
    csr = _make_csr(row, col, val, int(ptr[-1]), ptr, op.symmetric)
    csr.normalised = op.normalised
    return csr, real


def segments_of(op: Operator) -> Segments:
    """The layout of a sparse operator."""
    assert isinstance(op.layout, Segments)
    return op.layout
