"""From what people have (edge_index, Graph, dense batch) to an operator."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops.batching import Segments
from softcut.ops.csr import CSR
from softcut.ops.dense import Dense
from softcut.ops.numerics import counts_to_ptr, full_precision, sum_type, zero_padding
from softcut.ops.operator import Operator
from softcut.ops.spmm import CSRPattern, unwrapped
from softcut.ops.tensor_checks import check_finite


def _check_batch(op: Operator, batch: Tensor | None, mask: Tensor | None) -> Operator:
    """An operator knows its graphs; what is said beside it must not contradict it."""
    if mask is not None:
        if not isinstance(op, Dense):
            raise GraphError("mask belongs to a dense adjacency; a sparse operator has no padding.")
        if op.mask is None:
            return Dense(op.data, mask, symmetric=op.symmetric, normalised=op.normalised)
        if mask.shape != op.mask.shape or not torch.equal(mask.bool(), op.mask):
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
    """Several sparse operators as one, which knows where each graph begins.

    >>> import torch
    >>> edge = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> both = block_diagonal([edge, edge])
    >>> both, both.ptr.tolist()
    (CSR(4 rows, 4 entries, 2 graph(s)), [0, 2, 4])

    Parameters
    ----------
    operators : sequence of CSR
        Of single graphs or of batches, which stay batches; all normalised, or none. Entries stay what they
        are: a binary operator beside weighted ones gets ones.
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
