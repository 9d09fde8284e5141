"""Poolers that keep nodes: those of the highest score (Top-K, Gao and Ji, 2019; SAGPool, Lee et al., 2019), or all."""

from __future__ import annotations

import math
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
from softcut.nn.pool.selection import KeepSelection, Selection
from softcut.ops import Dense, Operator, Segments
from softcut.ops.batching import Padded, counts_to_ptr
from softcut.ops.convert import CONNECTIONS, segments_of, submatrix
from softcut.ops.numerics import zero_padding

_TIE = 1e-7  # scores this close to the best of their graph count as the best
SCORES: dict[str, ModuleLike] = {"gcn": GCNConv, "graphconv": GraphConv}


def _how_many(n: int, ratio: float, k: int | None) -> int:
    return min(k, n) if k is not None else math.ceil(ratio * n - 1e-9)


def _how_many_each(counts: Tensor, ratio: float, k: int | None) -> Tensor:
    """The same for every graph of a batch."""
    if k is not None:
        return counts.clamp(max=k)
    return torch.ceil(counts.double() * ratio - 1e-9).to(counts.dtype)


def _ranked(score: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores as constants, the best first and padding last, and where they stood."""
    score = score.detach() if mask is None else score.detach().masked_fill(~mask.bool(), -math.inf)
    return torch.sort(score, dim=-1, descending=True, stable=True)


def top_k(score: Tensor, op: Operator, ratio: float, k: int | None) -> KeepSelection:
    """The highest-scoring nodes of every graph, best first; no loop over the graphs.

    Shapes are static for padded batches and for a single graph (known from N and `ratio` or `k` alone).
    """
    layout = op.layout
    mask = layout.mask if isinstance(layout, Padded) else None
    order, size = _ranked(score, mask)[1], _how_many(op.num_rows, ratio, k)
    if isinstance(layout, Padded):
        if mask is not None:
            allowed = _how_many_each(mask.sum(-1), ratio, k)
            mask = torch.arange(size, device=score.device) < allowed.unsqueeze(-1)
        return KeepSelection(order[..., :size], layout, mask=mask, num_rows=op.num_rows)
    layout = segments_of(op)
    if layout.single:
        ptr = None if layout.ptr is None else layout.ptr.new_tensor([0, size])
        return KeepSelection(order[..., :size], layout, ptr=ptr)
    assert layout.ptr is not None
    order = order[torch.sort(layout.batch[order], stable=True).indices]  # by graph, then by score
    allowed = _how_many_each(layout.ptr[1:] - layout.ptr[:-1], ratio, k)
    rank = torch.arange(layout.num_rows, device=score.device) - layout.ptr[:-1][layout.batch]
    return KeepSelection(order[rank < allowed[layout.batch]], layout, ptr=counts_to_ptr(allowed))


def above(score: Tensor, op: Operator, min_score: float) -> KeepSelection:
    """The nodes that score more than `min_score`, or the best of a graph where none does; in their own order.

    For a padded batch shapes stay static: all rows are kept, the best first, and a mask says which count.
    """
    layout = op.layout
    if isinstance(layout, Padded):
        ranked, order = _ranked(score, layout.mask)
        limit = (ranked[..., :1] - _TIE).clamp(max=min_score)
        return KeepSelection(order, layout, mask=ranked > limit, num_rows=op.num_rows)
    segments = segments_of(op)
    limit = (_largest(score, segments) - _TIE).clamp(max=min_score)
    index = (score.detach() > segments.spread(limit)).nonzero().squeeze(-1)
    if segments.ptr is None:
        return KeepSelection(index, segments)
    counts = torch.bincount(segments.batch[index], minlength=segments.num_graphs)
    return KeepSelection(index, segments, ptr=counts_to_ptr(counts))


def _largest(score: Tensor, layout: Segments) -> Tensor:
    """The largest score of every graph, as a constant."""
    low = score.new_full((layout.num_graphs,), -math.inf)
    graph = torch.zeros_like(score, dtype=torch.long) if layout.ptr is None else layout.batch
    return low.scatter_reduce(0, graph, score.detach(), "amax")


def graph_softmax(score: Tensor, op: Operator) -> Tensor:
    """The softmax of one score per node over the nodes of every graph; 0 in the padding."""
    layout = op.layout
    if isinstance(layout, Padded):
        if layout.mask is not None:
            score = score.masked_fill(~layout.mask.bool(), torch.finfo(score.dtype).min)
        return zero_padding(torch.softmax(score, -1), layout.mask)
    segments = segments_of(op)
    if segments.single:
        return torch.softmax(score, -1)
    grown = torch.exp(score - segments.spread(_largest(score, segments)))
    return grown / segments.spread(segments.total(grown))


def connect_kept(op: Operator, selection: KeepSelection, connect: str = "adjacency") -> Operator:
    """The graph on the kept nodes: a precomputed one, A[i, i], or (A A)[i, i]."""
    if selection.adj is not None:
        return selection.adj
    if not isinstance(op, Dense):
        return submatrix(op, selection.index, selection.ptr, connect)
    graph = torch.arange(op.num_graphs, device=selection.index.device)[:, None, None]
    row, col = selection.index.unsqueeze(-1), selection.index.unsqueeze(-2)
    if connect == "adjacency":
        data = op.data[graph, row, col]
    else:
        data = op.data[graph[..., 0], selection.index] @ op.data.mT[graph[..., 0], selection.index].mT
    if selection.mask is not None:
        data = data * selection.mask.unsqueeze(-1) * selection.mask.unsqueeze(-2)
    return Dense(data, selection.mask, symmetric=op.symmetric)


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
                raise ParameterError("k must be None where min_score decides which nodes stay.", argument="k")
        is_share = isinstance(ratio, Real) and not isinstance(ratio, bool) and 0 < float(ratio) <= 1
        if k is None and min_score is None and not is_share:
            raise ParameterError(
                f"ratio must be above 0 and at most 1, got {ratio!r}; use k for a fixed number, or min_score.",
                argument="ratio",
            )
        if connect not in CONNECTIONS:
            raise ParameterError(
                f"connect must be one of {', '.join(CONNECTIONS)}, got {connect!r}.", argument="connect"
            )
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
        *,
        dense: bool = False,
    ) -> PoolOutput:
        if attn is None:
            return super().forward(x, adj, edge_weight, batch, mask, selection, dense=dense)
        if selection is not None:
            raise ParameterError("attn must be None where selection says which nodes stay.", argument="attn")
        if isinstance(attn, Tensor) and attn.dim() == 1:
            attn = attn.unsqueeze(-1)
        x, op = graph_input(x, adj, edge_weight, batch, mask)
        scored, _ = graph_input(attn, op, channels=self.in_channels, name="attn")
        out = self.pool(x, op, self.selected(scored, op))
        out.dense = dense
        return out

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, KeepSelection):
            raise ParameterError(
                f"selection must be a KeepSelection, got {type(selection).__name__}.", argument="selection"
            )
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


class NoPool(Pool):
    """Return the graph as it is.

    >>> import torch
    >>> from softcut.nn import NoPool
    >>> x = torch.rand(4, 8)
    >>> out = NoPool()(x, torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> bool((out.x == x).all()), out.adj
    (True, CSR(4 rows, 6 entries, 1 graph(s)))
    """

    def select(self, x: Tensor, op: Operator) -> KeepSelection:
        index = torch.arange(op.num_rows, device=x.device)
        index = index if op.layout.rows == 1 else index.expand(op.num_graphs, -1)
        return KeepSelection(index, op.layout, ptr=op.ptr, num_rows=op.num_rows)

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, KeepSelection) or selection.index.shape[-1] != op.num_rows:
            raise ParameterError(
                f"selection must be that of a NoPool, got {type(selection).__name__}.", argument="selection"
            )
        return PoolOutput(x=x, adj=op, selection=selection, batch=selection.batch, mask=op.mask)
