"""SAGPool (Lee et al., 2019): Top-K whose score looks at the neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.convs import GCNConv, GraphConv
from softcut.nn.pool.node_selection import ScorePool
from softcut.ops import Operator

__all__ = ["SAGPool"]

SCORES = {"gcn": GCNConv, "graphconv": GraphConv}


class SAGPool(ScorePool):
    r"""Keep the nodes a graph convolution scores highest: y = tanh(GNN(A, X)).

    >>> import torch
    >>> from softcut.nn import SAGPool
    >>> pool = SAGPool(in_channels=8, k=3)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape
    torch.Size([3, 8])

    Parameters
    ----------
    in_channels, ratio, k, connect
        As for :class:`~softcut.nn.TopKPool`.
    gnn : {"gcn", "graphconv"}
        The layer that scores: GCN (published) or sums over neighbours (PyTorch Geometric's default).
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float = 0.5,
        k: int | None = None,
        connect: str = "adjacency",
        gnn: str = "gcn",
    ) -> None:
        super().__init__(in_channels, ratio, k, connect)
        if gnn not in SCORES:
            raise ParameterError(f"gnn must be one of {', '.join(SCORES)}, got {gnn!r}.")
        self.gnn: GCNConv | GraphConv = SCORES[gnn](in_channels, 1)  # type: ignore[assignment]

    def reset_parameters(self) -> None:
        self.gnn.reset_parameters()

    def score(self, x: Tensor, op: Operator) -> Tensor:
        return torch.tanh(self.gnn(x, op).squeeze(-1))
