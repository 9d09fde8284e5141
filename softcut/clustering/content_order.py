"""Orders of nodes that follow from what they are: random numbers meet the same nodes however these are numbered."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.ops import CSR, CSRPattern

_ROUNDS = 4  # steps from a node that its number in the order tells about


def order_of_points(x: Tensor) -> Tensor:
    """An order of the rows that follows from their values; directions may change their sign."""
    weight = torch.rand(x.shape[1], generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    return (x.abs().double() @ weight.to(x.device)).argsort(stable=True)


def order_of_nodes(op: CSR) -> Tensor:
    """An order of the nodes [N] that follows from the graph: by a number that sums up what is near a node.

    Random numbers then meet the same nodes however these are numbered. Nodes with the same surroundings keep the order
    they came in.
    """
    rows, col, counts = op.pattern.rows, op.pattern.col.long(), op.pattern.counts
    weight = torch.ones_like(col)
    if op.val is not None and len(col) and op.val.min() < op.val.max():
        weight = (op.val.double() * (2**30 / op.val.double().max())).round().long()
    loops = torch.zeros_like(counts).index_add_(0, rows, weight * (rows == col))
    ends, number = counts.cumsum(0), _mixed(counts + 3 * loops)
    for _ in range(_ROUNDS):  # whole numbers, that run over: their sums are the same in any order
        so_far = torch.nn.functional.pad((_mixed(number)[col] * weight).cumsum(0), (1, 0))
        number = _mixed(3 * number + so_far[ends] - so_far[ends - counts])
    return number.argsort(stable=True)


def _mixed(number: Tensor) -> Tensor:
    """Whole numbers that are as good as random, the same for the same number."""
    for factor in (-4658895280553007687, -7723592293110705685):
        number = (number ^ (number >> 31)) * factor
    return number ^ (number >> 31)


def reordered(op: CSR, order: Tensor) -> CSR:
    """The operator with its nodes in another order."""
    place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    pattern, entries = CSRPattern.from_coo(
        place[op.pattern.rows], place[op.pattern.col.long()], op.pattern.shape
    )
    return CSR(pattern, None if op.val is None else op.val[entries], layout=op.layout, symmetric=op.symmetric)
