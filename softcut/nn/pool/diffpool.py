"""DiffPool (Ying et al., 2018): soft clusters from a graph network, trained with link prediction."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.foreign_modules import ModuleLike, call_on_graph, make_module
from softcut.nn.layers import MLP, GCNConv, SkipConv, check_number, check_size, graph_input
from softcut.nn.pool.base import DensePool, PoolOutput, check_clusters, nodes_per_graph
from softcut.ops import Dense, Operator
from softcut.ops.activations import Activation
from softcut.ops.coarsen import PooledProducts
from softcut.ops.convert import frobenius_squared
from softcut.ops.numerics import safe_sqrt

ASSIGNMENTS: dict[str, ModuleLike] = {
    "gcn": GCNConv,
    "skip": SkipConv,
    "mlp": lambda in_channels, k: MLP(in_channels, None, k),
}
LINK_SCALES = ("undivided", "divided")


class LinkPool(DensePool):
    """Pooling that is trained by link prediction, wherever S comes from."""

    def __init__(self, link_scale: str) -> None:
        super().__init__()
        if link_scale not in LINK_SCALES:
            raise ParameterError(
                f"link_scale must be one of {', '.join(LINK_SCALES)}, got {link_scale!r}.",
                argument="link_scale",
            )
        self.link_scale = link_scale

    def operator(self, op: Operator) -> Operator:
        return op

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        return Dense(quadratic, symmetric=op.symmetric)

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        trace = products.quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)  # Tr(S' A S)
        gram = products.gram.square().sum((-2, -1))  # ||S'S||_F^2
        link = safe_sqrt(frobenius_squared(op).to(s.dtype) - 2 * trace + gram)
        count = nodes_per_graph(op, s)
        if self.link_scale == "divided":
            link = link / count.square()
        return {"link": link, "entropy": op.layout.total(-(s * torch.log(s + 1e-15)).sum(-1)) / count}


class DiffPool(LinkPool):
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
    in_channels, k, temperature
        As for :class:`~softcut.nn.MinCutPool`.
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
        super().__init__(link_scale)
        self.k, self.temperature = check_clusters(k, temperature)
        self.in_channels = check_size(in_channels, "in_channels")
        self.out_channels = None if out_channels is None else check_size(out_channels, "out_channels")
        self.assignment = assignment if isinstance(assignment, str) else None
        self.link_weight = check_number(link_weight, "link_weight")
        self.entropy_weight = check_number(entropy_weight, "entropy_weight")
        self.scores, self.call_scores = make_module(
            assignment, self.in_channels, self.k, "assignment", ASSIGNMENTS
        )
        self.embed: nn.Module | None = None
        if embed is None and self.out_channels is not None:
            embed = GCNConv(self.in_channels, self.out_channels, act)
        if embed is not None:
            width = self.out_channels or self.in_channels
            self.embed, self.call_embed = make_module(embed, self.in_channels, width, "embed")

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        return call_on_graph(self.scores, self.call_scores, x, op, self.k, "assignment")

    def features(self, x: Tensor, op: Operator) -> Tensor:
        if self.embed is None:
            return x
        return call_on_graph(self.embed, self.call_embed, x, op, self.out_channels, "embed")

    def weights(self, x: Tensor, op: Operator) -> dict[str, float]:
        return {"link": self.link_weight, "entropy": self.entropy_weight}

    def extra_repr(self) -> str:
        made_by = type(self.scores).__name__ if self.assignment is None else repr(self.assignment)
        return f"{self.in_channels}, k={self.k}, assignment={made_by}"


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

    `s` is that of :func:`~softcut.nn.mincut_pool`, the other arguments are those of :class:`~softcut.nn.DiffPool`.
    """
    return LinkPool(link_scale).pool_by(s, *graph_input(x, adj, edge_weight, batch, mask))
