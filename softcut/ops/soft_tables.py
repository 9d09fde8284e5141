r"""The tables of clusters of many networks on a CPU, from their logits, with the gradient written by hand.

Nodes are the last axis of the logits [R, K, N], along which the softmax and every dense product run fastest; only the
sparse products read S node by node. With Y = A S, the tables Q = S'AS, G = S'S, n = S'1, T = S'X and their cotangents,

    dS = Y (dQ + dQ') + S (dG + dG') + 1 dn' + X dT',

is added up in one array, where autograd would make one for each term and add across memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from softcut.ops.coarsen import PooledProducts
from softcut.ops.csr import CSR
from softcut.ops.information import Words
from softcut.ops.kernels import on_cpu
from softcut.ops.numerics import softmax_gradient
from softcut.ops.objectives import ClusterTables
from softcut.ops.operator import Operator


def takes_soft_tables(op: Operator, logits: Tensor) -> bool:
    """Whether :func:`soft_tables` holds: one symmetric, constant graph on a CPU."""
    one = isinstance(op, CSR) and op.num_graphs == 1 and op.symmetric and not op.requires_grad
    return one and on_cpu(logits)


def soft_tables(op: Operator, logits: Tensor, words: Words | None = None, **known: Any) -> ClusterTables:
    """The tables of S = softmax(logits) for every replica; `known` are further fields of them.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> tables = soft_tables(op, torch.tensor([[[50.0, 0.0], [0.0, 50.0]]]))
    >>> tables.edges.tolist(), tables.sizes.tolist()
    ([[[[0.0, 1.0], [1.0, 0.0]]]], [[[1.0, 1.0]]])
    """
    s, *tables = _SoftTables.apply(logits, op, words)
    edges, gram, sizes, table = (each.unsqueeze(0) for each in tables)
    known |= {} if words is None else {"words": table, "num_words": words.count}
    return ClusterTables(op, s.permute(2, 0, 1), PooledProducts(table, edges, gram), sizes, **known)


class _SoftTables(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, op: Operator, words: Words | None) -> tuple[Tensor, ...]:
        s = logits.softmax(1)
        r, k, n = s.shape
        columns = s.view(r * k, n)
        rows = columns.mT.contiguous()
        y = op.matmul(rows).mT.contiguous().view(r, k, n)
        table = s.new_zeros(r, k, 0) if words is None else words.table_of(columns, rows).view(r, k, -1)
        ctx.words = words
        ctx.save_for_backward(s, y)
        ctx.mark_non_differentiable(s)
        ctx.set_materialize_grads(False)  # for S it would be zeros of its size
        return s, torch.bmm(s, y.mT), torch.bmm(s, s.mT), s.sum(-1), table

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: None, *to_tables: Tensor | None) -> tuple[Tensor | None, ...]:
        s, y = ctx.saved_tensors
        to_edges, to_gram, to_sizes, to_words = to_tables  # None for a table that was not used
        to_s = torch.zeros_like(s) if to_sizes is None else to_sizes.unsqueeze(-1).expand_as(s).clone()
        for given, factor in ((to_edges, y), (to_gram, s)):
            if given is not None:
                to_s.baddbmm_(given + given.mT, factor)
        if to_words is not None and ctx.words is not None:
            ctx.words.add_gradient(to_words.flatten(0, 1), to_s.view(-1, s.shape[-1]))
        return softmax_gradient(to_s, s, 1), None, None
