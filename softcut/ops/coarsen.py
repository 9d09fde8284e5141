r"""Coarsening a graph with an assignment matrix, and going back.

A_pool = S' A~ S, its diagonal set to zero, normalised symmetrically once
X_pool = S' X
X_rec  = S X_pool,   A_rec = S A_pool S'

A dense pooler needs S'X, S'AS and S'S of every graph (:func:`pooled_products`). For a batch of graphs of different
sizes X, Y = A S and S stand side by side and are cut into chunks once; one batched product with the chunks of S then
gives all three. (Large batches on a GPU: three kernels that read the rows where they are.) The backward pass needs the
same chunks,

    dS = X G_x' + Y (G_q + G_q') + S (G_s + G_s'),      dX = S G_x

for cotangents G_x, G_q, G_s, and no product with A (it is symmetric and constant here; otherwise the plain autograd
path is taken).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import is_wrapped, signed
from softcut.ops.batching import Segments, ragged_on_kernels
from softcut.ops.convert import assignment_input
from softcut.ops.cut import Recall, quadratic_form, self_gram, takes_fast_path, transformed
from softcut.ops.dense import Dense
from softcut.ops.numerics import above_zero, check_assignments, check_tensor, inverse_sqrt, no_autocast
from softcut.ops.operator import Operator


class Coarse(NamedTuple):
    """A coarsened graph: features [B, K, F] and a :class:`~softcut.ops.Dense` operator."""

    x: Tensor
    adj: Dense


def pooled_adjacency(quadratic: Tensor, *, symmetric: bool, keep_diagonal: bool = False) -> Dense:
    """From S' A~ S [B, K, K] to the operator of the next layer: zero diagonal (unless kept), normalised.

    >>> import torch
    >>> pooled_adjacency(torch.ones(1, 2, 2), symmetric=True).to_dense().tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """
    k, hollow = quadratic.shape[-1], quadratic
    if not keep_diagonal:
        hollow = quadratic * (1 - torch.eye(k, dtype=quadratic.dtype, device=quadratic.device))
    # A cluster nobody chose keeps a zero row. One with next to nothing is clamped: d^-3/2, the gradient
    # of the scale, would overflow.
    degree = hollow.sum(-1)
    floor = torch.finfo(degree.dtype).eps ** 2
    scale = inverse_sqrt(torch.where(above_zero(degree), degree.clamp(min=floor), 0.0))
    data = hollow * scale.unsqueeze(-1) * scale.unsqueeze(-2)
    return Dense(data, symmetric=symmetric, normalised=True)


def reduce(s: Tensor, x: Tensor, op: Operator) -> Tensor:
    """X_pool = S' X of every graph: [B, K, F].

    >>> import torch
    >>> from softcut.ops import Dense
    >>> reduce(torch.ones(1, 2, 1), torch.ones(1, 2, 3), Dense(torch.zeros(1, 2, 2))).tolist()
    [[[2.0, 2.0, 2.0]]]
    """
    op.check_rows(x, "x")
    op.check_rows(s, "s")
    return op.layout.gram(s, x.to(s.dtype))


def coarsen(
    s: Tensor,
    x: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
) -> Coarse:
    """Pool a graph, or a batch of graphs, with the assignment matrix S.

    >>> import torch
    >>> from softcut.ops import coarsen
    >>> path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> pooled = coarsen(s, torch.ones(4, 3), path)
    >>> pooled.x.shape, pooled.adj
    (torch.Size([1, 2, 3]), Dense([1, 2, 2]))

    Parameters
    ----------
    s, x : Tensor
        Assignments [N, K] and features [N, F]; with a leading B for a dense batch.
    adj, edge_weight, batch, mask
        As for :func:`softcut.ops.mincut_loss`.
    """
    with no_autocast(check_assignments(s)):
        s, op = assignment_input(s, adj, edge_weight, batch, mask)
        check_tensor(x, "x", "node features")
        if isinstance(op, Dense) and x.dim() == 2:
            x = x.unsqueeze(0)
        op = op.normalise()
        quadratic = quadratic_form(op, s)
        return Coarse(reduce(s, x, op), pooled_adjacency(quadratic, symmetric=op.symmetric))


def lift(s: Tensor, x_pool: Tensor, op: Operator | None = None) -> Tensor:
    """X_rec = S X_pool: pooled features [B, K, F] back to the nodes they came from ([K, F] for one graph).

    S is [N, K] with `op`, the graphs that were pooled, telling which graph each row belongs to (None: one graph), or
    [B, N, K].

    >>> import torch
    >>> from softcut.ops import lift
    >>> lift(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[[2.0], [4.0]]]))
    tensor([[2.],
            [3.]])
    """
    check_assignments(s)
    check_tensor(x_pool, "x_pool", "pooled features")
    if op is not None:
        op.check_rows(s, "s")
    graphs = op.num_graphs if op is not None else s.shape[0] if s.dim() == 3 else 1
    rows = s.dim() - 1 if op is None else op.layout.rows
    expected = (graphs, *s.shape[rows:])  # replicas, if there are any, and clusters
    if x_pool.dim() == 2 and graphs == 1:
        x_pool = x_pool.unsqueeze(0)
    if x_pool.shape[:-1] != expected:
        raise GraphError(
            f"x_pool must have the shape {list(expected)} of the pooled graphs and then features, got "
            f"{list(x_pool.shape)}; pass op for a batch of graphs."
        )
    x_pool = x_pool.to(s.dtype)
    if op is not None:
        return op.layout.matmul(s, x_pool)
    return s @ (x_pool if s.dim() == 3 else x_pool[0])


def lift_adjacency(s: Tensor, a_pool: Tensor) -> Tensor:
    """A_rec = S A_pool S', dense: for small graphs and pictures.

    >>> import torch
    >>> lift_adjacency(torch.eye(2), torch.ones(2, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    check_assignments(s)
    check_tensor(a_pool, "a_pool", "pooled adjacencies")
    k = s.shape[-1]
    if a_pool.shape[-2:] != (k, k) or (s.dim() == 3 and a_pool.shape[:-2] not in ((), s.shape[:1])):
        raise GraphError(
            f"a_pool must have one row and one column for each of the {k} clusters of s, got shape "
            f"{list(a_pool.shape)}."
        )
    return s @ a_pool.to(s.dtype) @ s.mT


class PooledProducts(NamedTuple):
    """S'X [B, K, F], S'AS [B, K, K] and S'S [B, K, K]."""

    x: Tensor
    quadratic: Tensor
    gram: Tensor


@signed
class _RaggedProducts(torch.autograd.Function):
    @staticmethod
    def forward(op: Operator, s: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        layout, k, f = op.layout, s.shape[-1], x.shape[-1]
        assert isinstance(layout, Segments)
        size = layout.chunk_size(k)
        chunks = layout.cut([x, op @ s, s], size)
        total = layout.add_up(chunks[..., f + k :].mT @ chunks, size)
        return *(part.contiguous() for part in total.split([f, k, k], -1)), chunks

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.op = inputs[0]
        ctx.mark_non_differentiable(output[3])
        ctx.set_materialize_grads(False)  # for the chunks it would be zeros of their size
        ctx.save_for_backward(inputs[1], inputs[2], output[3])

    @staticmethod
    def backward(ctx, g_x, g_q, g_s, _):  # type: ignore[no-untyped-def]
        s, x, chunks = ctx.saved_tensors
        layout, k, f = ctx.op.layout, s.shape[-1], x.shape[-1]
        given = ((g_x, f), (g_q, k), (g_s, k))
        g_x, g_q, g_s = (s.new_zeros(layout.num_graphs, k, w) if g is None else g for g, w in given)
        g_q, g_s = g_q + g_q.mT, g_s + g_s.mT
        if torch.is_grad_enabled() or any(map(transformed, (g_x, g_q, g_s))):
            y = Recall.apply(ctx.op, s, layout.join(chunks[..., f : f + k]))
            grad_s = layout.matmul(x, g_x.mT) + layout.matmul(y, g_q) + layout.matmul(s, g_s)
            return None, grad_s, layout.matmul(s, g_x)
        size = chunks.shape[1]
        grad_s = grad_x = None
        if ctx.needs_input_grad[1]:
            together = torch.cat([g_x.mT, g_q, g_s], -2)
            grad_s = layout.join(chunks @ layout.per_chunk(together, size))
        if ctx.needs_input_grad[2]:
            grad_x = layout.join(chunks[..., f + k :] @ layout.per_chunk(g_x, size))
        return None, grad_s, grad_x


def pooled_products(op: Operator, s: Tensor, x: Tensor) -> PooledProducts:
    """S'X, S'AS and S'S of every graph, with one product with A."""
    layout = op.layout
    ragged = isinstance(layout, Segments) and not layout.single and s.dim() == x.dim() == 2
    if ragged and not ragged_on_kernels(s, x) and not is_wrapped(s) and not is_wrapped(x):
        if takes_fast_path(op):
            return PooledProducts(*_RaggedProducts.apply(op, s, x)[:3])
        together = layout.gram(s, torch.cat([x, op.product(s), s], 1))
        return PooledProducts(*together.split([x.shape[-1], s.shape[-1], s.shape[-1]], -1))
    return PooledProducts(layout.gram(s, x), quadratic_form(op, s), self_gram(layout, s))
