r"""The evidence of many networks, and the L_o beside it, from their tables: both losses with what they change by.

The tables are Q = S'AS, G = S'S, n = S'1 and T = S'X, of a few kilobytes each: autograd would record some sixty
operations on them, which cost more than the arithmetic. With U = G / |G|, t = q / |q| for the sizes q that L_o holds on
to, and E = (G_e + G_x) / (N H^1/2) for the evidence, they change by

    d I(Q) = (log(p_ij / (p_i p_j)) - I) / sum(Q),    d L_o = (<U, diag t> U - diag t) / (L_o |G|),
    dE / dn_k = E (log(n_k / N) + H) / (2 N H).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from softcut.ops.information import finite_log, information_parts
from softcut.ops.numerics import above_zero
from softcut.ops.objectives import LEAST_ENTROPY


class Counted(NamedTuple):
    """A table of soft counts, how many things it counts, and what it costs to describe."""

    table: Tensor  # [R, K, K] of edges, [R, K, F] of words
    number: Tensor | float
    price: Tensor


class Slopes(NamedTuple):
    """Minus the evidence and L_o, [R] each, and what they change by with each table."""

    cut: Tensor
    ortho: Tensor
    cut_by_sizes: Tensor  # [R, K]
    cut_by_counts: list[Tensor]  # as the tables that were counted
    ortho_by_gram: Tensor | None  # [R, K, K]; None without sizes to hold on to


def evidence_slopes(
    nodes: int,
    sizes: Tensor,
    counted: list[Counted],
    gram: Tensor | None = None,
    target: Tensor | None = None,
) -> Slopes:
    """Both losses of clusters of soft sizes n = S'1 [R, K], from what was counted: edges, and words if there are any.

    L_o compares G = S'S [R, K, K], which is written over, with `target` [R, K], sizes of length 1; without it L_o is 0.

    >>> import torch
    >>> from softcut.ops.information import edge_price
    >>> edges = Counted(8 * torch.eye(2).unsqueeze(0), 8.0, edge_price(2, 8.0))   # two clusters of four edges each
    >>> slopes = evidence_slopes(8, torch.tensor([[4.0, 4.0]]), [edges])
    >>> round(slopes.cut.item(), 3), slopes.ortho.item()
    (-0.455, 0.0)
    """
    gain, information = sizes.new_zeros(len(sizes)), []
    for table, number, price in counted:
        each, ratio, share = information_parts(table)
        # A table of zeros has a share of 0, and costs nothing.
        gain += torch.where(above_zero(share).view(-1), number * each - price.to(sizes.dtype), 0.0)
        information.append((ratio.sub_(each.view(-1, 1, 1)), share * number))
    shares = sizes / nodes
    logs = finite_log(shares)
    entropy = -(shares * logs).sum(-1)
    held = entropy.clamp(min=LEAST_ENTROPY)
    per_gain = -1 / (nodes * held.sqrt())
    cut = gain * per_gain
    # Of sizes, where the entropy is not held at its least.
    changing = (cut / (2 * nodes * held)).masked_fill_(entropy < LEAST_ENTROPY, 0.0)
    by_sizes = (logs + entropy.unsqueeze(-1)) * changing.unsqueeze(-1)
    by_counts = [slope * (share * per_gain.view(-1, 1, 1)) for slope, share in information]
    if gram is None or target is None:
        return Slopes(cut, torch.zeros_like(cut), by_sizes, by_counts, None)
    length = torch.linalg.vector_norm(gram, dim=(1, 2))
    unit = gram.div_(length.view(-1, 1, 1))
    diagonal = unit.diagonal(dim1=1, dim2=2)
    along = (diagonal * target).sum(-1)
    away = unit.clone()
    away.diagonal(dim1=1, dim2=2).sub_(target)
    ortho = torch.linalg.vector_norm(away, dim=(1, 2))
    unit *= along.view(-1, 1, 1)
    diagonal.sub_(target)
    unit *= (1 / (ortho * length)).masked_fill_(ortho == 0, 0.0).view(-1, 1, 1)
    return Slopes(cut, ortho, by_sizes, by_counts, unit)
