r"""The orthogonality term of the paper.

    L_o = || S'S / ||S'S||_F - I_K / sqrt(K) ||_F      in [0, sqrt(2 - 2/sqrt(K))]

0 when clusters are hard and of one size; the maximum at a single used cluster.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import signed
from softcut.ops.batching import Layout, Padded, Segments, batch_to_ptr, over_replicas
from softcut.ops.convert import assignment_input
from softcut.ops.numerics import full_precision, no_autocast, reduce_graphs, zero_padding
from softcut.ops.tensor_checks import check_assignments, check_tensor

__all__ = ["orthogonality", "orthogonality_loss", "self_gram"]


@signed
class _SelfGram(torch.autograd.Function):
    """S'S per graph; gradient S (G + G') in one product instead of two."""

    @staticmethod
    def forward(layout: Layout, s: Tensor) -> Tensor:
        return layout.gram(s, s)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.layout = inputs[0]
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        (s,) = ctx.saved_tensors
        return None, ctx.layout.matmul(s, g + g.mT)

    @staticmethod
    def vmap(info, in_dims, layout, s):  # type: ignore[no-untyped-def]
        return over_replicas(partial(_SelfGram.apply, layout), info, in_dims[1:], (s,), layout.rows)


def self_gram(layout: Layout, s: Tensor) -> Tensor:
    """S'S of every graph: [B, K, K]."""
    if torch.compiler.is_compiling():
        return layout.gram(s, s)
    return _SelfGram.apply(layout, s)


def orthogonality(gram: Tensor, sizes: Tensor | None = None) -> Tensor:
    """L_o from S'S, for a stack of K x K matrices.

    With `sizes` q, the target I/sqrt(K) becomes diag(q)/|q|: clusters are held to be hard and of these
    relative sizes, instead of hard and equal.

    >>> import torch
    >>> orthogonality(torch.eye(4)).item()
    0.0
    >>> orthogonality(torch.diag(torch.tensor([3.0, 4.0])), torch.tensor([3.0, 4.0])).item()
    0.0
    """
    k = gram.shape[-1]
    eye = torch.eye(k, dtype=gram.dtype, device=gram.device) / math.sqrt(k)
    if sizes is not None:
        eye = torch.diag_embed(sizes / torch.linalg.vector_norm(sizes, dim=-1, keepdim=True))
    size = torch.linalg.matrix_norm(gram, keepdim=True)
    empty = size <= 0  # a graph without nodes: L_o = 0, as L_c
    return torch.linalg.matrix_norm(torch.where(empty, eye, gram / torch.where(empty, 1.0, size)) - eye)


def orthogonality_loss(
    s: Tensor,
    adj: Any = None,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""The orthogonality loss L_o = ||S'S/||S'S||_F - I/sqrt(K)||_F, in [0, sqrt(2 - 2/sqrt(K))].

    >>> import torch
    >>> from softcut.ops import orthogonality_loss
    >>> orthogonality_loss(torch.eye(4)).item()
    0.0
    >>> round(orthogonality_loss(torch.eye(4)[[0, 0, 0, 0]]).item(), 6)   # one cluster used
    1.0

    Parameters
    ----------
    s : Tensor
        Soft assignments [N, K], or [B, N, K] for a dense batch ([N, R, K] with replicas needs `adj` or
        `batch` to be told from one).
    adj : Operator, Graph, edge_index or dense adjacency, optional
        Only says which rows belong to which graph, as `batch` does; the loss does not depend on the edges.
    edge_weight, batch, mask, reduction
        As for :func:`softcut.ops.mincut_loss`.
    """
    s = full_precision(check_assignments(s))
    with no_autocast(s):
        layout: Layout
        if adj is not None:
            s, op = assignment_input(s, adj, edge_weight, batch, mask)
            layout, mask = op.layout, op.mask
        elif edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; pass adj too.")
        elif batch is not None or s.dim() == 2:
            if mask is not None:
                raise GraphError("mask belongs to a dense batch [B, N, K]; pass batch with [N, K].")
            layout = Segments(s.shape[0], None if batch is None else batch_to_ptr(batch, s.shape[0]))
        else:
            if mask is not None and check_tensor(mask, "mask", "one value per node").shape != s.shape[:2]:
                raise GraphError(f"mask must have shape {list(s.shape[:2])}, got {list(mask.shape)}.")
            layout = Padded(s.shape[0], mask)
        s = zero_padding(s, mask)
        return reduce_graphs(orthogonality(self_gram(layout, s)), reduction)
