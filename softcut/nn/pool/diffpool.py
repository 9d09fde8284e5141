"""DiffPool (Ying et al., 2018): soft clusters from a graph network, trained with link prediction."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.convs import GCNConv
from softcut.nn.layers import MLP, SkipConv
from softcut.nn.pool.base import DensePool, check_clusters, nodes_per_graph
from softcut.ops import Dense, Operator, PooledProducts
from softcut.ops.cut import safe_sqrt
from softcut.ops.entries import frobenius_squared

__all__ = ["DiffPool"]

ASSIGNMENTS = ("gcn", "skip", "mlp")
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
    assignment : {"gcn", "skip", "mlp"}
        What makes the logits of S: a GCN layer (published), the paper's layer with a skip term, or a
        layer that does not look at the graph.
    act : str, callable or None
        Activation of Z.
    temperature : float
        Of the softmax.
    link_weight, entropy_weight : float
        Weights of the two losses.
    link_scale : {"undivided", "divided"}
        The link loss as its authors have it, or divided by N^2 of each graph as PyTorch Geometric has it.

    Notes
    -----
    A is used as it comes, not normalised, and the diagonal of A' stays, as published. The losses are
    means over the graphs of each graph's own loss: padding and the other graphs of the batch do not change them.
    """

    def __init__(
        self,
        in_channels: int,
        k: int,
        out_channels: int | None = None,
        assignment: str = "gcn",
        act: Activation = None,
        temperature: float = 1.0,
        link_weight: float = 1.0,
        entropy_weight: float = 1.0,
        link_scale: str = "undivided",
    ) -> None:
        super().__init__()
        check_clusters(k, temperature)
        if assignment not in ASSIGNMENTS:
            raise ParameterError(f"assignment must be one of {', '.join(ASSIGNMENTS)}, got {assignment!r}.")
        if link_scale not in LINK_SCALES:
            raise ParameterError(f"link_scale must be one of {', '.join(LINK_SCALES)}, got {link_scale!r}.")
        self.in_channels, self.k, self.assignment = in_channels, k, assignment
        self.out_channels = in_channels if out_channels is None else out_channels
        self.temperature, self.link_scale = float(temperature), link_scale
        self.link_weight, self.entropy_weight = float(link_weight), float(entropy_weight)
        self.scores: GCNConv | SkipConv | MLP
        if assignment == "gcn":
            self.scores = GCNConv(in_channels, k)
        elif assignment == "skip":
            self.scores = SkipConv(in_channels, k)
        else:
            self.scores = MLP(in_channels, None, k)
        self.embed = None if out_channels is None else GCNConv(in_channels, out_channels, act)

    def reset_parameters(self) -> None:
        self.scores.reset_parameters()
        if self.embed is not None:
            self.embed.reset_parameters()

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        return self.scores(x) if isinstance(self.scores, MLP) else self.scores(x, op)

    def features(self, x: Tensor, op: Operator) -> Tensor:
        return x if self.embed is None else self.embed(x, op)

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
        entropy = op.layout.total(-(s * torch.log(s + 1e-15)).sum(-1)) / count
        return {"link": self.link_weight * link, "entropy": self.entropy_weight * entropy}

    def extra_repr(self) -> str:
        return f"{self.in_channels}, k={self.k}, assignment={self.assignment!r}"
