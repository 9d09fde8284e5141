"""The nodes of a graph, wherever their rows are: samples of them, and sums over all of them."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Nodes", "sample_rows"]


def sample_rows(n: int, most: int) -> Tensor:
    """Different row numbers below `n`, rising: `most` of them at random, or all where there are not more."""
    if n <= most:
        return torch.arange(n)
    return torch.randperm(n, generator=torch.Generator().manual_seed(0))[:most].sort().values


class Nodes:
    """All nodes of a graph, on this machine.

    The steps of a fit need three things that take all nodes together. :mod:`softcut.clustering.distributed` has the
    same three for nodes that are spread over processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.here = count  # the most that one process has

    def sample(self, rows: Tensor, most: int) -> Tensor:
        """Rows of at most so many nodes [m, ...], drawn from all: the same ones every time."""
        return rows if self.count <= most else rows[sample_rows(self.count, most).to(rows.device)]

    def total(self, values: Tensor) -> Tensor:
        """The sum over all nodes, of what was summed over the nodes that are here."""
        return values

    def agreed(self, values: Tensor) -> Tensor:
        """Numbers that every process must have to the bit."""
        return values
