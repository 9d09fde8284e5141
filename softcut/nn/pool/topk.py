"""Top-K pooling (Gao and Ji, 2019; Cangea et al., 2018)."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.nn.layers import UnitLinear
from softcut.nn.pool.node_selection import ScorePool
from softcut.ops import Operator

__all__ = ["TopKPool"]


class TopKPool(ScorePool):
    r"""Keep the nodes that project furthest along a learned direction.

    .. math::
        y = \tanh(X p / \|p\|), \quad i = top_k(y), \quad X' = (X \odot y)_i, \quad A' = A_{ii}

    >>> import torch
    >>> from softcut.nn import TopKPool
    >>> pool = TopKPool(in_channels=8, ratio=0.5)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj.num_rows, pool.lift(out.x, out.selection).shape
    (torch.Size([2, 8]), 2, torch.Size([4, 8]))

    Parameters
    ----------
    in_channels : int
        Size of the node features.
    ratio : float
        Share of the nodes kept in every graph, rounded up.
    k : int, optional
        Keep this many (or all, where there are fewer) instead.
    connect : {"adjacency", "two_hop"}
        Kept nodes are joined as they were, A[i, i] (PyTorch Geometric), or where they have a common
        neighbour, (A A)[i, i] with its diagonal (the experiments of the paper).
    """

    def __init__(
        self, in_channels: int, ratio: float = 0.5, k: int | None = None, connect: str = "adjacency"
    ) -> None:
        super().__init__(in_channels, ratio, k, connect)
        self.direction = UnitLinear(in_channels)

    def reset_parameters(self) -> None:
        self.direction.reset_parameters()

    def score(self, x: Tensor, op: Operator) -> Tensor:
        return torch.tanh(self.direction(x).squeeze(-1))
