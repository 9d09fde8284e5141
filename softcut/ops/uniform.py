r"""The uniform assignment, at which both losses of MinCut pooling have no gradient, and what leaves it.

At S = 1/K (every node belongs to all clusters alike) L_c is -1, its smallest value. For a small change E of S (rows
that sum to 0) and A the normalised adjacency with degrees D, to second order

.. math::
    L_c + 1 = K \frac{Tr(E^T (D - A) E)}{\sum_i d_i}, \qquad
    L_o - u = -\frac{K}{N} \frac{||E - \bar E||^2}{u \sqrt K}, \qquad u = \sqrt{2 - 2 / \sqrt K}

with u the L_o of the uniform assignment and the mean of E over the nodes. The uniform assignment is therefore left
only along directions with

.. math::
    q = \frac{Tr(E^T (D - A) E) / \sum_i d_i}{||E - \bar E||^2 / N} < \frac{w_o}{w_c u \sqrt K}

that is, smooth ones: q is small where neighbours have similar values, and about 1 where they are not related. E can
only be what the features of the nodes allow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softcut.ops.numerics import zero_padding
from softcut.ops.operator import Operator


def uniform_ortho(k: int) -> float:
    """L_o where every node belongs to all K clusters alike."""
    return math.sqrt(2 - 2 / math.sqrt(k))


def largest_quotient(k: int, cut_weight: float = 1.0, ortho_weight: float = 1.0) -> float:
    """The uniform assignment to K clusters is left along directions whose q is below this number."""
    return ortho_weight / (cut_weight * uniform_ortho(k) * math.sqrt(k))


def centred(op: Operator, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features [rows, F] less their mean within each graph, and the variance and mean there [B, F]."""
    layout = op.layout
    ones = x.new_ones(x.shape[: layout.rows]) if op.mask is None else op.mask.to(x.dtype)
    size = layout.total(ones).clamp(min=1).unsqueeze(-1)
    mean = layout.total(zero_padding(x, op.mask)) / size
    moved = zero_padding(x - layout.spread(mean), op.mask)
    return moved, layout.total(moved.square()) / size, mean


def standardise(op: Operator, x: Tensor) -> Tensor:
    """Every feature with mean 0 and variance 1 within each graph; one that is the same everywhere becomes 0.

    >>> import torch
    >>> from softcut.ops import Dense
    >>> standardise(Dense(torch.ones(1, 2, 2)), torch.tensor([[[1.0, 5.0], [3.0, 5.0]]])).round(decimals=3).tolist()
    [[[-1.0, 0.0], [1.0, 0.0]]]
    """
    moved, variance, mean = centred(op, x)
    # Differences of the size of rounding errors are none: they would become as large as the others.
    floor = 1e-6 * mean.square() + 1e-10
    return moved * op.layout.spread((variance + floor).rsqrt())


def quotients(op: Operator, x: Tensor) -> Tensor:
    """q of every graph [B]: squared differences between neighbours over the variance, means over the features.

    Every feature counts alike, whatever its variance. 0 for a graph without edges; never above 1, where neighbours
    are not related. No gradient passes.

    >>> import torch
    >>> from softcut.ops import Dense
    >>> path = Dense(torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]]))
    >>> quotients(path, torch.tensor([[[1.0], [2.0], [3.0]]])).tolist()
    [0.75]
    """
    with torch.no_grad():
        layout, h = op.layout, standardise(op, x)
        degree = op.degree_like(h).detach()
        rough = degree.unsqueeze(-1) * h - op.matmul(h).detach()
        energy = layout.total((h * rough).sum(-1)) / layout.total(degree).clamp(min=1e-12)
        spread = centred(op, h)[1].sum(-1)
        return (energy / spread.clamp(min=1e-12)).clamp(max=1.0)


def leaving_weight(op: Operator, x: Tensor, k: int, cut_weight: float) -> Tensor:
    """The weight of L_o for every graph [B] with which its uniform assignment is left along its features' mean q.

    At least that of L_c, as in the paper.
    """
    return abs(cut_weight) * (quotients(op, x) / largest_quotient(k)).clamp(min=1.0)
