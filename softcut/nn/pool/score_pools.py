"""Poolers that keep the nodes with the highest score: Top-K (Gao and Ji, 2019) and SAGPool (Lee et al., 2019)."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.foreign_modules import ModuleLike, call_on_graph, make_module
from softcut.nn.layers import (
    Activation,
    GCNConv,
    GraphConv,
    UnitLinear,
    accept_keys,
    check_number,
    check_size,
    get_activation,
    graph_input,
)
from softcut.nn.pool.base import Pool, PoolOutput
from softcut.nn.pool.node_selection import KeepSelection, above, connect_kept, graph_softmax, top_k
from softcut.nn.pool.selection import Selection
from softcut.ops import Operator
from softcut.ops.convert import CONNECTIONS

SCORES: dict[str, ModuleLike] = {"gcn": GCNConv, "graphconv": GraphConv}


class ScorePool(Pool):
    """A pooler that keeps the nodes with the highest score, gated by it."""

    def __init__(
        self,
        in_channels: int,
        ratio: float | None,
        k: int | None,
        connect: str,
        min_score: float | None,
        multiplier: float,
        nonlinearity: Activation,
    ) -> None:
        super().__init__()
        if k is not None:
            k = check_size(k, "k")
        if min_score is not None:
            min_score = check_number(min_score, "min_score")
            if k is not None:
                raise ParameterError("k must be None where min_score decides which nodes stay.")
        is_share = isinstance(ratio, Real) and not isinstance(ratio, bool) and 0 < float(ratio) <= 1
        if k is None and min_score is None and not is_share:
            raise ParameterError(
                f"ratio must be above 0 and at most 1, got {ratio!r}; use k for a fixed number, or min_score."
            )
        if connect not in CONNECTIONS:
            raise ParameterError(f"connect must be one of {', '.join(CONNECTIONS)}, got {connect!r}.")
        self.in_channels, self.k, self.connect = check_size(in_channels, "in_channels"), k, connect
        self.ratio = float(ratio) if ratio is not None and is_share else 1.0
        self.min_score, self.multiplier = min_score, check_number(multiplier, "multiplier")
        self.nonlinearity = get_activation(nonlinearity)

    @abstractmethod
    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        """One number per node, before the nonlinearity."""

    def score(self, x: Tensor, op: Operator) -> Tensor:
        """One number per node that ranks it and multiplies its features."""
        score = self.raw_score(x, op)
        if self.min_score is not None:
            return graph_softmax(score, op)
        return score if self.nonlinearity is None else self.nonlinearity(score)

    def select(self, x: Tensor, op: Operator) -> KeepSelection:
        score = self.score(x, op)
        if self.min_score is None:
            selection = top_k(score, op, self.ratio, self.k)
        else:
            selection = above(score, op, self.min_score)
        gate = score.gather(-1, selection.index)
        selection.gate = gate if self.multiplier == 1 else self.multiplier * gate
        return selection

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        selection: Selection | None = None,
        attn: Tensor | None = None,
    ) -> PoolOutput:
        if attn is None:
            return super().forward(x, adj, edge_weight, batch, mask, selection)
        if selection is not None:
            raise ParameterError("attn must be None where selection says which nodes stay.")
        if isinstance(attn, Tensor) and attn.dim() == 1:
            attn = attn.unsqueeze(-1)
        x, op = graph_input(x, adj, edge_weight, batch, mask)
        scored, _ = graph_input(attn, op, channels=self.in_channels, name="attn")
        return self.pool(x, op, self.selected(scored, op))

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, KeepSelection):
            raise ParameterError(f"selection must be a KeepSelection, got {type(selection).__name__}.")
        return PoolOutput(
            x=selection.reduce(x),
            adj=lambda: connect_kept(op, selection, self.connect),
            selection=selection,
            batch=selection.batch,
            mask=selection.mask,
        )

    def extra_repr(self) -> str:
        size = f"ratio={self.ratio}" if self.k is None else f"k={self.k}"
        size = size if self.min_score is None else f"min_score={self.min_score}"
        return f"{self.in_channels}, {size}, connect={self.connect!r}"


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
        by_share = min_score is None
        self.direction = UnitLinear(in_channels) if by_share else nn.Linear(in_channels, 1, bias=False)
        accept_keys(self, {"select.weight": "direction.weight"})

    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        return self.direction(x).squeeze(-1)


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
        self.gnn, self.call = make_module(gnn, in_channels, 1, "gnn", SCORES)
        # The factor of the score in parameters that come from PyTorch Geometric; only its sign counts before a tanh.
        self.scale: Tensor | None
        self.register_buffer("scale", None)
        self.register_load_state_dict_pre_hook(_take_scale)

    def raw_score(self, x: Tensor, op: Operator) -> Tensor:
        score = call_on_graph(self.gnn, self.call, x, op, 1, "gnn").squeeze(-1)
        return score if self.scale is None else self.scale * score


def _take_scale(pool: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Make the factor of the score from PyTorch Geometric's ``select.weight``, or drop it where there is none."""
    assert isinstance(pool, SAGPool)
    peer = state.pop(f"{prefix}select.weight", None)
    if peer is not None:
        state[f"{prefix}scale"] = (peer.sign() if pool.min_score is None else peer).reshape(())
    known = state.get(f"{prefix}scale")
    pool.scale = None if known is None else torch.ones_like(known)
