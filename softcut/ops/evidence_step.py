r"""The evidence of many networks on a CPU, from their logits, with the gradient written by hand.

Nodes are the last axis of the logits [R, K, N], along which the softmax and every dense product run fastest; only the
sparse products read S node by node. With Y = A S, the tables Q = S'AS, G = S'S, n = S'1, T = S'X and their cotangents,

    dS = Y (dQ + dQ') + S (dG + dG') + 1 dn' + X dT',

is added up in one array. The losses read tables of a few kilobytes: autograd would record some sixty operations on
them, which cost more than the arithmetic. With U = G / |G|, t = q / |q| for the sizes q that L_o holds on to, and
E = (G_e + G_x) / (N H^1/2) for the evidence, they change by

    d I(Q) = (log(p_ij / (p_i p_j)) - I) / sum(Q),    d L_o = (<U, diag t> U - diag t) / (L_o |G|),
    dE / dn_k = E (log(n_k / N) + H) / (2 N H).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from softcut.ops.csr import CSR
from softcut.ops.information import Words, finite_log, information_parts
from softcut.ops.kernels import on_cpu
from softcut.ops.numerics import above_zero, softmax_gradient
from softcut.ops.objectives import LEAST_ENTROPY
from softcut.ops.operator import Operator


def takes_evidence_step(op: Operator, logits: Tensor) -> bool:
    """Whether :func:`evidence_step` holds: one symmetric, constant graph on a CPU."""
    one = isinstance(op, CSR) and op.num_graphs == 1 and op.symmetric and not op.requires_grad
    return one and on_cpu(logits)


def evidence_step(
    op: Operator,
    logits: Tensor,
    *,
    num_edges: Tensor | float,
    edges_price: Tensor,
    words: Words | None = None,
    words_price: Tensor | None = None,
    sizes: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Minus the evidence of S = softmax(logits), and L_o beside `sizes` [R, K] (0 without them), [R] each.

    The arguments are those of :func:`softcut.training.mincut.replica_losses`.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> from softcut.ops.information import edge_price
    >>> ring = torch.arange(8)
    >>> edge_index = torch.cat([torch.stack([ring, ring ^ 1]), torch.stack([ring, ring ^ 2])], 1)   # two squares
    >>> op = CSR.from_edge_index(edge_index, num_nodes=8)
    >>> logits = 50 * torch.eye(2)[[0, 0, 0, 0, 1, 1, 1, 1]].T.unsqueeze(0)
    >>> cut, _ = evidence_step(op, logits, num_edges=8.0, edges_price=edge_price(2, 8.0))
    >>> round(cut.item(), 3)
    -0.455
    """
    prices = [None if price is None else price.to(logits.dtype) for price in (edges_price, words_price)]
    target = None if sizes is None else sizes / torch.linalg.vector_norm(sizes, dim=-1, keepdim=True)
    count = num_edges.to(logits.dtype) if isinstance(num_edges, Tensor) else num_edges
    return _EvidenceStep.apply(logits, op, count, words, prices, target)


class _EvidenceStep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, op, num_edges, words, prices, target):  # type: ignore[no-untyped-def]
        s = logits.softmax(1)
        r, k, n = s.shape
        columns = s.view(r * k, n)
        rows = columns.mT.contiguous()
        y = op.matmul(rows).mT.contiguous().view(r, k, n)
        counted = [(torch.bmm(s, y.mT), num_edges, prices[0])]
        if words is not None:
            counted.append((words.table_of(columns, rows).view(r, k, -1), words.count, prices[1]))
        gain, slopes = s.new_zeros(r), []
        for table, count, price in counted:
            each, ratio, share = information_parts(table)
            # A table of zeros has a share of 0, and costs nothing.
            gain += torch.where(above_zero(share).view(-1), count * each - price, 0.0)
            slopes.append((ratio.sub_(each.view(-1, 1, 1)), share * count))
        shares = s.sum(-1) / n
        logs = finite_log(shares)
        entropy = -(shares * logs).sum(-1)
        held = entropy.clamp(min=LEAST_ENTROPY)
        cut = gain / (-n * held.sqrt())
        ortho = s.new_zeros(r)
        if target is not None:
            unit = torch.bmm(s, s.mT)
            length = torch.linalg.vector_norm(unit, dim=(1, 2))
            unit /= length.view(-1, 1, 1)
            diagonal = unit.diagonal(dim1=1, dim2=2)
            along = (diagonal * target).sum(-1)
            away = unit.clone()
            away.diagonal(dim1=1, dim2=2).sub_(target)
            ortho = torch.linalg.vector_norm(away, dim=(1, 2))
            # What L_o changes by with S'S, twice: once for each side.
            unit *= along.view(-1, 1, 1)
            diagonal.sub_(target)
            unit *= (2 / (ortho * length)).masked_fill_(ortho == 0, 0.0).view(-1, 1, 1)
            ctx.to_gram = unit
        ctx.words, ctx.slopes = words, slopes
        # Of sizes, where the entropy is not held at its least.
        changing = (cut / (2 * n * held)).masked_fill_(entropy < LEAST_ENTROPY, 0.0)
        ctx.to_sizes = (logs + entropy.unsqueeze(-1)) * changing.unsqueeze(-1)
        ctx.per_gain = -1 / (n * held.sqrt())
        ctx.save_for_backward(s, y)
        return cut, ortho

    @staticmethod
    @once_differentiable
    def backward(ctx, to_cut, to_ortho):  # type: ignore[no-untyped-def]
        s, y = ctx.saved_tensors
        to_s = (ctx.to_sizes * to_cut.unsqueeze(-1)).unsqueeze(-1).expand_as(s).clone()
        each = (ctx.per_gain * to_cut).view(-1, 1, 1)
        to_edges, *to_words = (slope * (share * each) for slope, share in ctx.slopes)
        to_s.baddbmm_(to_edges + to_edges.mT, y)
        if hasattr(ctx, "to_gram"):
            to_s.baddbmm_(ctx.to_gram * to_ortho.view(-1, 1, 1), s)
        for table in to_words:
            ctx.words.add_gradient(table.flatten(0, 1), to_s.view(-1, s.shape[-1]))
        return softmax_gradient(to_s, s, 1), None, None, None, None, None
