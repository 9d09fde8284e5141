r"""Coarsening a graph with an assignment matrix, and going back.

A_pool = S' A~ S, its diagonal set to zero, normalised symmetrically once
X_pool = S' X
X_rec  = S X_pool,   A_rec = S A_pool S'
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops.convert import assignment_input
from softcut.ops.cut import quadratic_form
from softcut.ops.dense import Dense
from softcut.ops.numerics import inverse_sqrt, no_autocast
from softcut.ops.operator import Operator
from softcut.ops.tensor_checks import check_assignments, check_tensor


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
    scale = inverse_sqrt(torch.where(degree > 0, degree.clamp(min=floor), 0.0))
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
    """X_rec = S X_pool: pooled features back to the nodes they came from.

    >>> import torch
    >>> from softcut.ops import lift
    >>> lift(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([[[2.0], [4.0]]]))
    tensor([[2.],
            [3.]])

    Parameters
    ----------
    s : Tensor
        [N, K] with `op` telling which graph each row belongs to (None: one graph), or [B, N, K].
    x_pool : Tensor
        [B, K, F]; [K, F] is accepted for one graph.
    op : Operator, optional
        The graphs that were pooled; needed for a batch of graphs of different sizes.
    """
    check_assignments(s)
    check_tensor(x_pool, "x_pool", "pooled features")
    if op is not None:
        op.check_rows(s, "s")
    graphs = op.num_graphs if op is not None else s.shape[0] if s.dim() == 3 else 1
    rows = s.dim() - 1 if op is None else op.layout.rows
    expected = (graphs, *s.shape[rows:])  # replicas, if there are any, and clusters
    if x_pool.dim() == 2 and graphs == 1 and len(expected) == 2:
        x_pool = x_pool.unsqueeze(0)
    if x_pool.dim() != len(expected) + 1 or x_pool.shape[:-1] != expected:
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
