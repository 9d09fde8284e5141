r"""One step of MinCut pooling on a CPU, its gradient written by hand.

From S and X of a batch of small graphs to S'X, the pooled adjacency and both losses. Autograd would record some forty
operations on tables of a few kilobytes, which cost more than the arithmetic. With Y = A S, the tables P = S'X, Q = S'AS
and G = S'S, their cotangents, and g that of Tr(S'DS),

    dS = X dP' + Y (dQ + dQ') + S (dG + dG') + 2 g D S,    dX = S dP,    dA_ij = (S dQ S')_ij + g |s_i|^2.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from softcut.ops._torch import is_wrapped
from softcut.ops.batching import Segments
from softcut.ops.coarsen import pooled_adjacency, pooled_products
from softcut.ops.csr import CSR
from softcut.ops.cut import transformed
from softcut.ops.dense import Dense
from softcut.ops.objectives import ClusterTables, get_objective
from softcut.ops.operator import Operator

# Numbers that a product takes at once.
_REGISTER = 8


class MinCutStep(NamedTuple):
    """S'X [B, K, F], the normalised adjacency [B, K, K], and the losses L_c and L_o [B]."""

    x: Tensor
    adj: Tensor
    cut: Tensor
    ortho: Tensor


def mincut_step(op: Operator, s: Tensor, x: Tensor, keep_diagonal: bool = False) -> MinCutStep:
    """Pool the graphs of an operator, which is A~, with S.

    >>> import torch
    >>> from softcut.ops import Dense
    >>> step = mincut_step(Dense(torch.ones(1, 2, 2) - torch.eye(2)), torch.eye(2).unsqueeze(0), torch.ones(1, 2, 3))
    >>> step.x.shape, step.adj.tolist(), step.cut.tolist(), step.ortho.tolist()
    (torch.Size([1, 2, 3]), [[[0.0, 1.0], [1.0, 0.0]]], [0.0], [0.0])
    """
    if not takes_hand_written(op, s, x):
        return _by_formulas(op, s, x, keep_diagonal)
    return MinCutStep(*_Step.apply(op, s, x, op.data if isinstance(op, Dense) else None, keep_diagonal))


def takes_hand_written(op: Operator, s: Tensor, x: Tensor) -> bool:
    """Whether the gradient below holds: graphs on a CPU, symmetric, constant if they are sparse."""
    if torch.compiler.is_compiling() or s.device.type != "cpu" or not op.symmetric:
        return False
    if any(map(is_wrapped, (s, x))) or s.dtype != x.dtype or s.dim() != op.layout.rows + 1:
        return False
    if isinstance(op, Dense):
        return op.data.dtype == s.dtype and not is_wrapped(op.data)
    return isinstance(op, CSR) and not op.requires_grad and not op.layout.single


def _by_formulas(op: Operator, s: Tensor, x: Tensor, keep_diagonal: bool) -> MinCutStep:
    products = pooled_products(op, s, x)  # the only product with A
    losses = get_objective("mincut").losses(ClusterTables(op, s, products))
    pooled = pooled_adjacency(products.quadratic, symmetric=op.symmetric, keep_diagonal=keep_diagonal)
    return MinCutStep(products.x, pooled.data, *losses)


class Kept(NamedTuple):
    """What the backward pass reads of a step."""

    s: Tensor
    rows: Tensor  # X, Y and S side by side, in chunks for a ragged batch
    squares: Tensor  # |s_i|^2
    degree: Tensor
    inverse: Tensor  # 1 / Tr(S'DS), 0 where that is 0
    cut: Tensor
    adj: Tensor
    outer: Tensor  # what A_pool was multiplied with: d_i^-1/2 d_j^-1/2, d its degrees
    moving: Tensor  # 1 / d, 0 where d is held at a floor
    length: Tensor  # |S'S|
    unit: Tensor  # S'S / |S'S|
    ortho: Tensor


@cache
def _target(k: int, dtype: torch.dtype) -> Tensor:
    return torch.eye(k, dtype=dtype) / math.sqrt(k)


@cache
def _off_diagonal(k: int, dtype: torch.dtype) -> Tensor:
    return 1 - torch.eye(k, dtype=dtype)


def step_forward(op: Operator, s: Tensor, x: Tensor, keep_diagonal: bool) -> tuple[MinCutStep, Kept]:
    """The step, and what :func:`step_backward` needs; outside autograd."""
    layout, k, f = op.layout, s.shape[-1], x.shape[-1]
    if isinstance(op, Dense):
        # S'A, which is (A S)' here, takes half the time: its rows are longer.
        y, degree = torch.bmm(s.mT, op.data).mT, op.data.sum(-1)
    else:
        y, degree = op.matmul(s), op.degree_like(s)
    if isinstance(layout, Segments):
        rows = layout.cut([x, y, s], layout.chunk_size(k))
        tables = layout.add_up(torch.bmm(rows[..., f + k :].mT, rows), rows.shape[1])
    else:
        rows = torch.cat([x, y, s], -1)
        tables = torch.bmm(s.mT, rows)
    pooled, quadratic, gram = tables.split_with_sizes([f, k, k], -1)
    squares = (s * s).sum(-1)
    volume = layout.total(degree * squares)
    inverse = volume.reciprocal().masked_fill_(volume <= 0, 0.0)  # a graph without edges: L_c = 0
    cut = quadratic.diagonal(dim1=-2, dim2=-1).sum(-1).mul_(inverse).neg_()

    hollow = quadratic if keep_diagonal else quadratic * _off_diagonal(k, s.dtype)
    strength = hollow.sum(-1)
    # The same floors as in pooled_adjacency and inverse_sqrt: d^-3/2 would overflow.
    floor = strength.amax(-1, keepdim=True).clamp_(min=1.0).mul_(torch.finfo(s.dtype).eps ** 2)
    at_floor = strength < floor
    scale = torch.maximum(strength, floor).rsqrt_().masked_fill_(strength <= 0, 0.0)
    outer = scale.unsqueeze(-1) * scale.unsqueeze(-2)
    adj = hollow * outer

    gram = gram.contiguous()  # norms of a part of a table take three times as long
    length = torch.linalg.vector_norm(gram, dim=(-2, -1))
    none = length <= 0  # a graph without nodes: L_o = 0
    unit = gram / length.masked_fill_(none, 1.0).view(-1, 1, 1)
    ortho = torch.linalg.vector_norm(unit - _target(k, s.dtype), dim=(-2, -1)).masked_fill_(none, 0.0)
    moving = scale.square_().masked_fill_(at_floor, 0.0)
    kept = Kept(s, rows, squares, degree, inverse, cut, adj, outer, moving, length, unit, ortho)
    return MinCutStep(pooled.contiguous(), adj, cut, ortho), kept


def step_backward(
    op: Operator, kept: Kept, grads: tuple[Tensor | None, ...], keep_diagonal: bool, needs: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Cotangents of S, X and the dense A, those that are needed, from the ones of a :class:`MinCutStep`."""
    s, rows, layout = kept.s, kept.rows, op.layout
    k = s.shape[-1]
    f = rows.shape[-1] - 2 * k
    to_pooled, to_adj, to_cut, to_ortho = grads
    # All cotangents in one table: those of P, Q and G, one above the other. A product with it is faster where its rows
    # fill registers, so columns of zeros are added.
    padded = s.new_zeros(layout.num_graphs, f + k + k, -(-k // _REGISTER) * _REGISTER)
    of_pooled, quadratic, gram = padded[..., :k].split_with_sizes([f, k, k], -2)
    if to_pooled is not None:
        of_pooled.copy_(to_pooled.mT)
    if to_adj is not None:
        through = to_adj * kept.adj
        strength = (through.sum(-1) + through.sum(-2)).mul_(kept.moving)
        torch.addcmul(strength.unsqueeze(-1).mul_(-0.5), to_adj, kept.outer, out=quadratic)
        if not keep_diagonal:
            quadratic.mul_(_off_diagonal(k, s.dtype))
    to_volume = None
    if to_cut is not None:
        to_inside = to_cut * kept.inverse
        quadratic.diagonal(dim1=-2, dim2=-1).sub_(to_inside.unsqueeze(-1))
        to_volume = to_inside.mul_(kept.cut).neg_()
    if to_ortho is not None:
        # With U = S'S / |S'S| and T = I / sqrt(K), |U - T| changes with S'S by (<U, T> U - T) / (|U - T| |S'S|).
        each = (to_ortho * (2 / math.sqrt(k))).div_(kept.ortho * kept.length)
        each = each.masked_fill_(kept.ortho == 0, 0.0).unsqueeze(-1)
        along = kept.unit.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True).mul_(each)
        torch.mul(kept.unit, along.unsqueeze(-1), out=gram)
        gram.diagonal(dim1=-2, dim2=-1).sub_(each)
    grad_s = grad_x = grad_data = None
    if needs[2]:
        grad_data = torch.bmm(s, torch.bmm(quadratic, s.mT))
        if to_volume is not None:
            grad_data += (to_volume.unsqueeze(-1) * kept.squares).unsqueeze(-1)
    if needs[0]:
        quadratic.copy_(quadratic + quadratic.mT)
        if isinstance(layout, Segments):
            grad_s = layout.join(torch.bmm(rows, layout.per_chunk(padded, rows.shape[1])))
        else:
            grad_s = torch.bmm(rows, padded)
        grad_s = grad_s[..., :k]
        if to_volume is not None:
            volume = (layout.spread(to_volume) * kept.degree).unsqueeze(-1)
            grad_s = torch.addcmul(grad_s, s, volume, value=2)
    if needs[1] and to_pooled is not None:
        if isinstance(layout, Segments):
            chunks = layout.per_chunk(to_pooled, rows.shape[1])
            grad_x = layout.join(torch.bmm(rows[..., f + k :], chunks))
        else:
            grad_x = torch.bmm(s, to_pooled)
    return grad_s, grad_x, grad_data


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, s, x, data, keep_diagonal):  # type: ignore[no-untyped-def]
        step, kept = step_forward(op, s, x, keep_diagonal)
        ctx.op, ctx.keep_diagonal = op, keep_diagonal
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, data, *kept)
        return tuple(step)

    @staticmethod
    def backward(ctx, *grads):  # type: ignore[no-untyped-def]
        x, data, *kept = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:4]
        if torch.is_grad_enabled() or any(g is not None and transformed(g) for g in grads):
            found = _by_autograd(ctx, (kept[0], x, data), grads)
        else:
            found = step_backward(ctx.op, Kept(*kept), grads, ctx.keep_diagonal, needs)
        return None, *found, None


def _by_autograd(ctx, inputs, grads):  # type: ignore[no-untyped-def]
    """The gradients in a form that can be differentiated again."""
    with torch.enable_grad():
        s, x, data = inputs
        op, needs = ctx.op, ctx.needs_input_grad[1:4]
        if data is not None:
            op = Dense(data, symmetric=True, normalised=op.normalised)
            op.layout = ctx.op.layout
        outputs = _by_formulas(op, s, x, ctx.keep_diagonal)
        pairs = [(value, g) for value, g in zip(outputs, grads, strict=True) if g is not None]
        wanted = [t for t, needed in zip(inputs, needs, strict=True) if needed]
        values, given = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(values, wanted, given, create_graph=True, allow_unused=True))
    return [next(found) if needed else None for needed in needs]
