"""From what people have (edge_index, Graph, dense batch) to an operator, and from an operator to others.

The entries of a sparse operator as triplets give subgraphs, merged graphs and norms.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph
from softcut.ops.batching import Segments
from softcut.ops.csr import CSR
from softcut.ops.dense import Dense
from softcut.ops.numerics import check_finite, counts_to_ptr, full_precision, sum_type, zero_padding
from softcut.ops.operator import Operator, Sum
from softcut.ops.spmm import CSRPattern, unwrapped

CONNECTIONS = ("adjacency", "two_hop")


def _check_batch(op: Operator, batch: Tensor | None, mask: Tensor | None) -> Operator:
    """Raise where other arguments contradict what an operator knows about its graphs."""
    if mask is not None:
        if not isinstance(op, Dense):
            raise GraphError("mask belongs to a dense adjacency; a sparse operator has no padding.")
        if op.mask is None:
            return Dense(op.data, mask, symmetric=op.symmetric, normalised=op.normalised)
        if not torch.equal(mask.bool(), op.mask):
            raise GraphError("mask differs from the mask that adj has already; pass it once.")
    if batch is not None:
        if not isinstance(op.layout, Segments):
            raise GraphError("batch belongs to an edge_index; a dense adjacency numbers its graphs itself.")
        batch = unwrapped(batch, "batch")
        known = torch.zeros_like(batch) if op.ptr is None else op.layout.batch
        if not torch.equal(batch, known):
            raise GraphError(
                f"batch does not name the {op.num_graphs} graph(s) of adj, which is an operator already; "
                "pass batch where the operator is made."
            )
    return op


def as_operator(
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    num_nodes: int | None = None,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Operator:
    """Turn what people have into an operator.

    >>> import torch
    >>> as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    CSR(2 rows, 2 entries, 1 graph(s))
    >>> as_operator(torch.ones(4, 3, 3))
    Dense([4, 3, 3])

    Parameters
    ----------
    adj : Operator, Graph, Tensor
        An operator (returned as it is unless `dtype` asks for more precision), a
        :class:`softcut.Graph`, an integer `edge_index` [2, E], or a
        floating-point dense adjacency [B, N, N] or [N, N].
    edge_weight, num_nodes, batch
        Belong to `edge_index`.
    mask : Tensor, optional
        [B, N], belongs to a dense adjacency: False marks padding.
    dtype, device
        Where a :class:`softcut.Graph` should go. Weights of every other format are promoted to `dtype`.
    """
    if isinstance(adj, (Operator, Graph)) and edge_weight is not None:
        raise GraphError(
            "edge_weight belongs to an edge_index; an operator or a Graph holds its own weights."
        )
    if isinstance(adj, Operator):
        op = _check_batch(adj, batch, mask)
        return op if dtype is None else op.promoted(dtype)
    if isinstance(adj, Graph):
        return _check_batch(
            CSR.from_graph(adj, dtype=dtype or torch.get_default_dtype(), device=device), batch, mask
        )
    if not isinstance(adj, Tensor):
        raise GraphError(
            f"adj must be an operator, a Graph, an edge_index tensor [2, E] or a dense tensor [B, N, N], "
            f"got {type(adj).__name__}."
        )
    if adj.layout == torch.strided and adj.is_floating_point():
        if edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; a dense adjacency holds its own weights.")
        if batch is not None:
            raise GraphError("batch belongs to an edge_index; pass mask with a dense adjacency.")
        if adj.dim() == 2 and adj.shape[0] == 2 != adj.shape[1]:
            raise GraphError(
                f"edge_index must hold whole numbers, got {adj.dtype} of shape {list(adj.shape)}; "
                "call .long() on it (a dense adjacency has shape [N, N] or [B, N, N])."
            )
        op = Dense(_promoted(adj, dtype), mask)
        check_finite(op.data, "adj")  # the padding is zero by now, whatever stood there
        return op
    if adj.is_complex():
        raise GraphError(f"adj must hold real numbers, got {adj.dtype}.")
    if adj.dtype == torch.bool:
        raise GraphError(
            "adj must be an edge_index of whole numbers or floating-point and dense, got torch.bool."
        )
    if mask is not None:
        raise GraphError("mask belongs to a dense adjacency; pass batch with an edge_index.")
    if adj.layout != torch.strided:
        if edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; a sparse tensor holds its own weights.")
        if adj.dim() != 2 or adj.shape[0] != adj.shape[1]:
            raise GraphError(f"adj must have shape [N, N] if it is a sparse tensor, got {list(adj.shape)}.")
        coo = adj.to_sparse_coo().coalesce()
        check_finite(coo.values(), "adj")
        return CSR.from_edge_index(coo.indices(), _promoted(coo.values(), dtype), adj.shape[0], batch=batch)
    if isinstance(edge_weight, Tensor):
        edge_weight = _promoted(edge_weight, dtype)
    made = CSR.from_edge_index(adj, edge_weight, num_nodes, batch=batch)
    if edge_weight is not None:
        check_finite(edge_weight, "edge_weight")
    return made


def _promoted(values: Tensor, dtype: torch.dtype | None) -> Tensor:
    return values if dtype is None else values.to(torch.promote_types(values.dtype, dtype))


def assignment_input(
    s: Tensor,
    adj: Any,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    mask: Tensor | None,
    half: bool = False,
) -> tuple[Tensor, Operator]:
    """S in the precision of losses, padding zeroed, and the operator it belongs to; with `half`, S as it is."""
    s = s if half else full_precision(s)
    op = as_operator(
        adj, edge_weight, num_nodes=s.shape[0], batch=batch, mask=mask, dtype=sum_type(s), device=s.device
    )
    if isinstance(op, Dense) and s.dim() == 2:
        s = s.unsqueeze(0)
    op.check_rows(s, "s")
    return zero_padding(s, op.mask), op


def block_diagonal(operators: Sequence[CSR]) -> CSR:
    """Several sparse operators as one, which knows where each graph begins; all are normalised, or none.

    Batches stay batches, and a binary operator beside weighted ones gets ones.

    >>> import torch
    >>> edge = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> both = block_diagonal([edge, edge])
    >>> both, both.ptr.tolist()
    (CSR(4 rows, 4 entries, 2 graph(s)), [0, 2, 4])
    """
    if not operators:
        raise GraphError("operators must hold at least one operator.")
    if any(not isinstance(op, CSR) for op in operators):
        kinds = ", ".join(sorted({type(op).__name__ for op in operators}))
        raise GraphError(f"operators must all be CSR, got {kinds}.")
    if len({op.normalised for op in operators}) > 1:
        raise GraphError("operators must all be normalised, or none of them; call normalise() on each first.")
    rows = [op.num_rows for op in operators]
    n, device = sum(rows), operators[0].pattern.col.device
    starts = list(itertools.accumulate(rows, initial=0))[:-1]
    row = torch.cat([op.pattern.rows + start for op, start in zip(operators, starts, strict=True)])
    col = torch.cat([op.pattern.col.long() + start for op, start in zip(operators, starts, strict=True)])
    pattern, _ = CSRPattern.from_coo(row, col, (n, n))  # in order already: rows, then columns
    pointers = [
        torch.tensor([0, op.num_rows], device=device) if op.ptr is None else op.ptr for op in operators
    ]
    return CSR(
        pattern,
        _side_by_side([op.val for op in operators], [op.pattern.nnz for op in operators], device),
        scale=_side_by_side([op.scale for op in operators], rows, device),
        ptr=counts_to_ptr(torch.cat([ptr.diff() for ptr in pointers])),
        symmetric=all(op.symmetric for op in operators),
        normalised=operators[0].normalised,
    )


def _side_by_side(values: list[Tensor | None], counts: list[int], device: torch.device) -> Tensor | None:
    """Values one after another, with ones for None; None where all are."""
    dtype = next((v.dtype for v in values if v is not None), None)
    if dtype is None:
        return None
    ones = (torch.ones(count, dtype=dtype, device=device) for count in counts)
    return torch.cat([one if v is None else v for v, one in zip(values, ones, strict=True)])


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
    raise ParameterError(f"this pooler needs a sparse operator, not {type(op).__name__}.", argument="op")


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
