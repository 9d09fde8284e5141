"""The published formulas of peers that could not be installed, in plain torch.

They keep what decides the cost: messages gathered and added edge by edge, a dense adjacency matrix and a dense
degree matrix, one row of S for each end of each edge. Every number measured with them is labelled "restated".
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn


def gather_and_add(x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
    """Row i of the result: the weighted sum of x over the neighbours of i."""
    return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]] * weight.unsqueeze(-1))


class GraphConv(nn.Module):
    """W (sum of w_ij x_j) + V x_i + b, as PyTorch Geometric's layer of that name."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin_rel = nn.Linear(in_channels, out_channels)
        self.lin_root = nn.Linear(in_channels, out_channels, bias=False)

    def forward(self, x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
        return self.lin_rel(gather_and_add(x, edges, weight)) + self.lin_root(x)


def orthogonality(s: Tensor) -> Tensor:
    """|| S'S / |S'S| - I / sqrt(K) || over the last two axes."""
    gram = s.mT @ s
    k = s.shape[-1]
    size = gram.norm(dim=(-2, -1), keepdim=True)
    return (gram / size - torch.eye(k) / k**0.5).norm(dim=(-2, -1))


def dense_mincut_pool(
    x: Tensor, adj: Tensor, logits: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """S'X, the normalised S'AS, L_c and L_o of a padded batch, with D as a matrix."""
    if adj.dim() == 2:
        x, adj, logits = x.unsqueeze(0), adj.unsqueeze(0), logits.unsqueeze(0)
    s = logits.softmax(-1)
    if mask is not None:
        x, s = x * mask.unsqueeze(-1), s * mask.unsqueeze(-1)
    pooled = s.mT @ adj @ s
    degree = torch.diag_embed(adj.sum(-1))
    trace = (s.mT @ degree @ s).diagonal(dim1=1, dim2=2).sum(-1)
    cut = -(pooled.diagonal(dim1=1, dim2=2).sum(-1) / trace).mean()
    pooled = pooled * (1 - torch.eye(s.shape[-1]))
    root = pooled.sum(-1, keepdim=True).sqrt() + 1e-15
    return s.mT @ x, pooled / root / root.mT, cut, orthogonality(s).mean()


def sparse_mincut_loss(edges: Tensor, s: Tensor, weight: Tensor) -> Tensor:
    """-sum_e w_e <s_i, s_j> / sum_i d_i |s_i|^2, one row of S for each end of each edge."""
    degree = torch.zeros(s.shape[0]).index_add(0, edges[0], weight)
    shared = (weight * (s[edges[0]] * s[edges[1]]).sum(-1)).sum()
    return -shared / (degree * s.square().sum(-1)).sum()


class UnbatchedMinCut(nn.Module):
    """A linear layer, softmax, the sparse cut loss, L_o, and the pooled graph."""

    def __init__(self, in_channels: int, k: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, k)

    def forward(self, x: Tensor, edges: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        s = self.linear(x).softmax(-1)
        loss = sparse_mincut_loss(edges, s, weight) + orthogonality(s)
        pooled = s.mT @ gather_and_add(s, edges, weight)
        return s, s.mT @ x + 0 * pooled.sum(), loss


class Clusterer(nn.Module):
    """PyAGC's two clusterers: GCN layers with SELU and dropout, centres, and the loss named `kind`."""

    def __init__(self, in_channels: int, k: int, kind: str, setting: dict[str, Any]) -> None:
        super().__init__()
        hidden, layers = setting["hidden_channels"], setting["num_layers"]
        sizes = [in_channels] + [hidden] * layers
        self.kind, self.setting = kind, setting
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        norm = setting["norm"] == "batch_norm"
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) if norm else nn.Identity() for _ in sizes[2:])
        self.centres = nn.Parameter(nn.init.xavier_uniform_(torch.empty(k, hidden)))

    def soft(self, x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
        """`weight` is that of D^-1/2 (A + I) D^-1/2; `edges` hold the self-loops."""
        for i, layer in enumerate(self.layers):
            x = gather_and_add(layer(x), edges, weight)
            if i + 1 < len(self.layers):
                x = nn.functional.selu(self.norms[i](x))
                x = nn.functional.dropout(x, self.setting["dropout"], self.training)
        return (x @ self.centres.T).softmax(-1)

    def loss(self, s: Tensor, adjacency: Tensor, degree: Tensor) -> Tensor:
        inside = (s * torch.sparse.mm(adjacency, s)).sum()
        if self.kind == "mincut":
            gram = s.T @ s
            ortho = 2 * (1 - gram.trace() / (gram.norm() * s.shape[1] ** 0.5))
            return -inside / (degree.unsqueeze(-1) * s.square()).sum() + ortho
        both = degree.sum()
        expected = (s.T @ degree).square().sum() / both
        return (expected - inside) / both + s.sum(0).norm() * s.shape[1] ** 0.5 / s.shape[0] - 1
