"""Top-K pooling (Gao and Ji, 2019; Cangea et al., 2018)."""

from __future__ import annotations

from torch import Tensor, nn

from softcut.nn.activations import Activation
from softcut.nn.layers import UnitLinear, accept_keys
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
    ratio : float or None
        Share of the nodes kept in every graph, rounded up; None where `k` or `min_score` is given.
    k : int, optional
        Keep this many (or all, where there are fewer) instead.
    connect : {"adjacency", "two_hop"}
        Kept nodes are joined as they were, A[i, i] (PyTorch Geometric), or where they have a common
        neighbour, (A A)[i, i] with its diagonal (the experiments of the paper).
    min_score : float, optional
        Keep the nodes whose score, here the softmax of X p over the nodes of their graph, is above this,
        and at least the best one, instead of a share (as PyTorch Geometric's ``TopKPooling``).
    multiplier : float
        Factor of the kept features, next to their score.
    nonlinearity : str, callable or None
        In place of tanh; not used with `min_score`.

    Notes
    -----
    Called as ``pool(x, adj, edge_weight=None, batch=None, mask=None, selection=None, attn=None)``; with `attn`,
    features of the nodes [N, in_channels], these are scored in place of x, which may then have any width.
    Negative edge weights are kept as they are. ``load_state_dict`` takes the parameters of PyTorch Geometric's
    ``TopKPooling``.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None = 0.5,
        k: int | None = None,
        connect: str = "adjacency",
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: Activation = "tanh",
    ) -> None:
        super().__init__(in_channels, ratio, k, connect, min_score, multiplier, nonlinearity)
        # A softmax depends on the length of p, so that it is learned too.
        self.direction: UnitLinear | nn.Linear
        if min_score is None:
            self.direction = UnitLinear(in_channels)
        else:
            self.direction = nn.Linear(in_channels, 1, bias=False)
        accept_keys(self, {"select.weight": "direction.weight"})

    def reset_parameters(self) -> None:
        self.direction.reset_parameters()

    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        return self.direction(x).squeeze(-1)
