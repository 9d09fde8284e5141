r"""What a dense pooler needs of S, from one product with A: S'X, S'AS and S'S of every graph.

For a batch of graphs of different sizes X, Y = A S and S stand side by side and are cut into chunks once;
one batched product with the chunks of S then gives all three. (Large batches on a GPU: three kernels that read the
rows where they are.) The backward pass needs the same chunks:

    dS = X G_x' + Y (G_q + G_q') + S (G_s + G_s'),      dX = S G_x

for cotangents G_x, G_q, G_s, again without a product with A (it is symmetric and constant here; otherwise
the plain autograd path is taken).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softcut.ops._torch import is_wrapped, signed
from softcut.ops.batching import Segments, ragged_on_kernels
from softcut.ops.cut import Recall, quadratic_form, self_gram, takes_fast_path, transformed
from softcut.ops.operator import Operator


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
        together = layout.gram(s, torch.cat([x, op.product(s), s], -1))
        return PooledProducts(*together.split([x.shape[-1], s.shape[-1], s.shape[-1]], -1))
    return PooledProducts(layout.gram(s, x), quadratic_form(op, s), self_gram(layout, s))
