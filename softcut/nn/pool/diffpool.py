"""DiffPool (Ying et al., 2018): soft clusters from a graph network, trained with link prediction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.convs import GCNConv
from softcut.nn.foreign_modules import (
    ModuleLike,
    call_on_graph,
    check_channels,
    how_to_call,
    make_module,
    reset,
)
from softcut.nn.layers import MLP, SkipConv, graph_input
from softcut.nn.number_checks import check_number, check_size
from softcut.nn.pool.base import DensePool, check_clusters, dense_output, given_selection, nodes_per_graph
from softcut.nn.pool.output import PoolOutput
from softcut.ops import Dense, Operator
from softcut.ops.numerics import safe_sqrt
from softcut.ops.products import PooledProducts
from softcut.ops.triplets import frobenius_squared

__all__ = ["DiffPool", "diff_pool"]

ASSIGNMENTS: dict[str, ModuleLike] = {
    "gcn": GCNConv,
    "skip": SkipConv,
    "mlp": lambda in_channels, k: MLP(in_channels, None, k),
}
LINK_SCALES = ("undivided", "divided")


class DiffPool(DensePool):
    r"""Pooling by link prediction: S = softmax(GNN(A, X)), X' = S' Z, A' = S' A S.

    .. math::
        L_{link} = \|A - S S^T\|_F, \qquad L_{ent} = \frac{1}{N} \sum_i H(s_i)

    The N x N matrix S S' is never made: ||A - SS'||_F^2 = ||A||_F^2 - 2 Tr(S'AS) + ||S'S||_F^2, and S'AS
    is needed anyway.

    >>> import torch
    >>> from softcut.nn import DiffPool
    >>> pool = DiffPool(in_channels=8, k=2)
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj, sorted(out.losses)
    (torch.Size([1, 2, 8]), Dense([1, 2, 2]), ['entropy', 'link'])

    Parameters
    ----------
    in_channels : int
        Size of the node features.
    k : int
        Clusters of every graph.
    out_channels : int, optional
        Z = GCN(A, X) with this many channels is pooled, as published. None: Z = X.
    assignment : {"gcn", "skip", "mlp"}, module, or class of modules
        What makes the logits of S: a GCN layer (published), the paper's layer with a skip term, a
        layer that does not look at the graph, any module with k outputs per node, or a class that is called with
        (in_channels, k). How a module is called: see `gnn` of :class:`~softcut.nn.SAGPool`.
    embed : module or class of modules, optional
        What makes Z in place of the GCN; a class is called with (in_channels, out_channels).
    act : str, callable or None
        Activation of Z, where it is made by the GCN.
    temperature : float
        Of the softmax.
    link_weight, entropy_weight : float
        Weights of the two losses.
    link_scale : {"undivided", "divided"}
        The link loss as its authors have it, or divided by N^2 of each graph as PyTorch Geometric has it.

    Notes
    -----
    A is used as it comes, not normalised, and the diagonal of A' stays, as published. Negative weights are fine in
    the losses and in A'; the GCN refuses them, another `assignment` need not. The losses are
    means over the graphs of each graph's own loss: padding and the other graphs of the batch do not change them.
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        out_channels: int | None = None,
        assignment: str | ModuleLike = "gcn",
        act: Activation = None,
        temperature: float = 1.0,
        link_weight: float = 1.0,
        entropy_weight: float = 1.0,
        link_scale: str = "undivided",
        embed: ModuleLike | None = None,
    ) -> None:
        super().__init__()
        check_clusters(k, temperature)
        in_channels, k = check_size(in_channels, "in_channels"), int(k)
        if (isinstance(assignment, str) and assignment not in ASSIGNMENTS) or not (
            isinstance(assignment, str) or callable(assignment)
        ):
            raise ParameterError(
                f"assignment must be one of {', '.join(ASSIGNMENTS)}, a module or its class, got {assignment!r}."
            )
        if embed is not None and not callable(embed):
            raise ParameterError(f"embed must be a module, its class or None, got {embed!r}.")
        _check_link_scale(link_scale)
        self.in_channels, self.k = in_channels, k
        self.assignment = assignment if isinstance(assignment, str) else None
        self.out_channels = None if out_channels is None else check_size(out_channels, "out_channels")
        self.temperature, self.link_scale = float(temperature), link_scale
        self.link_weight = check_number(link_weight, "link_weight")
        self.entropy_weight = check_number(entropy_weight, "entropy_weight")
        made = ASSIGNMENTS[assignment] if isinstance(assignment, str) else assignment
        self.scores = make_module(made, in_channels, k, "assignment")
        self.call_scores = how_to_call(self.scores)
        self.embeds_by_given = embed is not None
        self.embed: nn.Module | None = None
        if embed is not None:
            self.embed = make_module(embed, in_channels, self.out_channels or in_channels, "embed")
        elif self.out_channels is not None:
            self.embed = GCNConv(in_channels, self.out_channels, act)
        self.call_embed = "" if self.embed is None else how_to_call(self.embed)

    def reset_parameters(self) -> None:
        reset(self.scores)
        if self.embed is not None:
            reset(self.embed)

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        out = call_on_graph(self.scores, self.call_scores, x, op)
        return out if self.assignment is not None else check_channels(out, x, self.k, "assignment")

    def features(self, x: Tensor, op: Operator) -> Tensor:
        if self.embed is None:
            return x
        out = call_on_graph(self.embed, self.call_embed, x, op)
        return check_channels(out, x, self.out_channels, "embed") if self.embeds_by_given else out

    def operator(self, op: Operator) -> Operator:
        return op

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return Dense(quadratic, symmetric=op.symmetric)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        return _link_and_entropy(op, s, products, self.link_scale)

    def weights(self) -> dict[str, float]:
        return {"link": self.link_weight, "entropy": self.entropy_weight}

    def extra_repr(self) -> str:
        made_by = type(self.scores).__name__ if self.assignment is None else repr(self.assignment)
        return f"{self.in_channels}, k={self.k}, assignment={made_by}"


def _check_link_scale(link_scale: str) -> None:
    if link_scale not in LINK_SCALES:
        raise ParameterError(f"link_scale must be one of {', '.join(LINK_SCALES)}, got {link_scale!r}.")


def _link_and_entropy(
    op: Operator, s: Tensor, products: PooledProducts, link_scale: str
) -> dict[str, Tensor]:
    """The two losses of every graph."""
    trace = products.quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)  # Tr(S' A S)
    gram = products.gram.square().sum((-2, -1))  # ||S'S||_F^2
    link = safe_sqrt(frobenius_squared(op).to(s.dtype) - 2 * trace + gram)
    count = nodes_per_graph(op, s)
    if link_scale == "divided":
        link = link / count.square()
    return {"link": link, "entropy": op.layout.total(-(s * torch.log(s + 1e-15)).sum(-1)) / count}


def diff_pool(
    x: Tensor,
    adj: Any,
    s: Tensor,
    mask: Tensor | None = None,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    link_scale: str = "undivided",
) -> PoolOutput:
    r"""DiffPool with an assignment matrix of one's own: S'X, S'AS and the losses `link` and `entropy`.

    >>> import torch
    >>> from softcut.nn import diff_pool
    >>> s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> out = diff_pool(torch.rand(4, 3), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), s)
    >>> out.adj.to_dense().tolist(), out.losses["link"].item()
    ([[[2.0, 1.0], [1.0, 2.0]]], 2.4494898319244385)

    Parameters
    ----------
    x, adj, mask, edge_weight, batch
        As for the layer: [N, F] with an edge_index, or [B, N, F] with a dense adjacency and a mask.
    s : Tensor
        Assignments [N, K] or [B, N, K]: 0 or more, 1 in sum per node. Not the scores before the softmax, which
        PyTorch Geometric's ``dense_diff_pool`` takes: pass ``scores.softmax(-1)``.
    link_scale : {"undivided", "divided"}
        As for :class:`~softcut.nn.DiffPool`.
    """
    _check_link_scale(link_scale)
    x, op = graph_input(x, adj, edge_weight, batch, mask)

    def auxiliary(op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        return _link_and_entropy(op, s, products, link_scale)

    return dense_output(
        x, op, given_selection(s, op), auxiliary, lambda op, q: Dense(q, symmetric=op.symmetric)
    )
