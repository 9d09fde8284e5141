"""SAGPool (Lee et al., 2019): Top-K whose score looks at the neighbours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.convs import GCNConv, GraphConv
from softcut.nn.foreign_modules import (
    ModuleLike,
    call_on_graph,
    check_channels,
    how_to_call,
    make_module,
    reset,
)
from softcut.nn.pool.node_selection import ScorePool
from softcut.ops import Operator

__all__ = ["SAGPool"]

SCORES: dict[str, ModuleLike] = {"gcn": GCNConv, "graphconv": GraphConv}


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
    in_channels, ratio, k, connect, min_score, multiplier, nonlinearity
        As for :class:`~softcut.nn.TopKPool`; with `min_score` the softmax is that of GNN(A, X).
    gnn : {"gcn", "graphconv"}, module, or class of modules
        The layer that scores: GCN (published), sums over neighbours (PyTorch Geometric's default), any module with
        one output per node, or a class that is called with (in_channels, 1), such as ``GATConv``. It is called as
        softcut's layers are, ``gnn(x, adj)`` with an operator; one whose second argument is named
        ``edge_index`` gets that and, where it takes it, ``edge_weight``; one with a single argument gets x.

    Notes
    -----
    Called with `attn` as :class:`~softcut.nn.TopKPool` is: features that are scored in place of x. ``load_state_dict``
    takes the parameters of PyTorch Geometric's ``SAGPooling`` with the same `gnn`, whose score has a factor of its own.
    """

    def __init__(
        self,
        in_channels: int,
        ratio: float | None = 0.5,
        k: int | None = None,
        connect: str = "adjacency",
        gnn: str | ModuleLike = "gcn",
        min_score: float | None = None,
        multiplier: float = 1.0,
        nonlinearity: Activation = "tanh",
    ) -> None:
        super().__init__(in_channels, ratio, k, connect, min_score, multiplier, nonlinearity)
        if (isinstance(gnn, str) and gnn not in SCORES) or not (isinstance(gnn, str) or callable(gnn)):
            raise ParameterError(
                f"gnn must be one of {', '.join(SCORES)}, a module or its class, got {gnn!r}."
            )
        self.given = not isinstance(gnn, str)
        self.gnn = make_module(SCORES[gnn] if isinstance(gnn, str) else gnn, in_channels, 1, "gnn")
        self.call = how_to_call(self.gnn)
        # The factor of the score in parameters that come from PyTorch Geometric; only its sign counts before a tanh.
        self.scale: Tensor | None
        self.register_buffer("scale", None)
        self.register_load_state_dict_pre_hook(_take_scale)

    def reset_parameters(self) -> None:
        reset(self.gnn)

    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        score = call_on_graph(self.gnn, self.call, x, op)
        score = (check_channels(score, x, 1, "gnn") if self.given else score).squeeze(-1)
        return score if self.scale is None else self.scale * score


def _take_scale(pool: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Make the factor of the score from PyTorch Geometric's ``select.weight``, or drop it where there is none."""
    assert isinstance(pool, SAGPool)
    peer = state.pop(f"{prefix}select.weight", None)
    if peer is not None:
        state[f"{prefix}scale"] = (peer.sign() if pool.min_score is None else peer).reshape(())
    known = state.get(f"{prefix}scale")
    pool.scale = None if known is None else torch.ones_like(known)
