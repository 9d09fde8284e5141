"""The regressor of table 3 on padded molecules: the same numbers as GraphRegressor, in few operations.

Every method reads constant products that are made once (A~X for the paper's layer, the GCN's product for DiffPool), all
shapes are fixed, and linear layers work on two axes: under ``torch.func.vmap`` each is then one batched product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.layers import SkipConv, UnitLinear
from softcut.nn.models import GraphRegressor
from softcut.nn.pool import DiffPool, MinCutPool, NoPool, TopKPool
from softcut.ops import orthogonality, pooled_adjacency
from softcut.ops.cut import safe_ratio, safe_sqrt
from softcut.ops.operator import inverse_sqrt

__all__ = ["POOLERS", "PaddedRegressor", "padded_inputs", "regressor", "squared_error"]

# Names of the table's columns to poolers.
POOLERS = {"topk": "topk", "diffpool": "diffpool", "mincut": "mincut", "flat": "nopool"}


def regressor(
    method: str,
    features: int,
    seed: int,
    hidden: int = 32,
    k: int = 4,
    pool_args: Mapping[str, Any] | None = None,
) -> PaddedRegressor:
    """MP - pool - MP - mean - linear with the weights that `seed` draws."""
    if method not in POOLERS:
        raise ParameterError(f"method must be one of {', '.join(POOLERS)}, got {method!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = GraphRegressor(features, pool=POOLERS[method], hidden=hidden, k=k, pool_args=pool_args)
    return PaddedRegressor(net)


def padded_inputs(method: str, x: Tensor, adjacency: Tensor, mask: Tensor) -> list[Tensor]:
    """What :class:`PaddedRegressor` reads: constant products, the adjacency the method pools, and the mask.

    `x`, `adjacency` and `mask` are [G, N, F], [G, N, N] and [G, N], with zeros in the padding.
    """
    mask = mask.to(x.dtype)
    if method == "diffpool":
        loops = adjacency + torch.diag_embed(mask)
        scale = inverse_sqrt(loops.sum(-1, keepdim=True))
        return [scale * (loops @ (scale * x)), adjacency, mask]
    normal = _normalised(adjacency)
    # Top-K removes nodes and normalises what is left.
    return [torch.cat([normal @ x, x], -1), adjacency if method == "topk" else normal, mask]


def squared_error(found: tuple[Tensor, Tensor], target: Tensor) -> dict[str, Tensor]:
    """Squared error and the poolers' losses of every molecule."""
    predicted, auxiliary = found
    return {"mse": (predicted - target).square(), "auxiliary": auxiliary}


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out = x.flatten(0, -2) @ weight.mT
    return (out if bias is None else out + bias).unflatten(0, x.shape[:-1])


def _normalised(adjacency: Tensor) -> Tensor:
    scale = inverse_sqrt(adjacency.sum(-1))
    return adjacency * scale.unsqueeze(-1) * scale.unsqueeze(-2)


class PaddedRegressor(nn.Module):
    """A :class:`~softcut.nn.GraphRegressor` with one pooler, on what :func:`padded_inputs` makes.

    Called as ``net(products, adjacency, mask)``; returns a number and the poolers' losses for every graph, [B] each.
    `net` has one of the poolers mincut, diffpool, topk, or nopool, and ReLU between its layers.
    """

    def __init__(self, net: GraphRegressor) -> None:
        super().__init__()
        if len(net.pools) != 1 or not isinstance(net.pools[0], (MinCutPool, DiffPool, TopKPool, NoPool)):
            raise ParameterError(f"net must have one pooler, one of {', '.join(POOLERS.values())}.")
        self.net = net

    def forward(self, products: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        pool = self.net.pools[0]
        if isinstance(pool, DiffPool):
            return self._diffpool(pool, products, adjacency, mask)
        first = self.net.convs[0]
        assert isinstance(first, SkipConv)
        kernel = torch.cat([first.neighbours.weight, first.itself.weight], 1)
        x = torch.relu(_linear(products, kernel, first.itself.bias))
        if isinstance(pool, MinCutPool):
            return self._mincut(pool, x, adjacency, mask)
        if isinstance(pool, TopKPool):
            return self._topk(pool, x, adjacency, mask)
        return self._predict(x * mask.unsqueeze(-1), adjacency, mask), torch.zeros_like(mask[:, 0])

    def _mincut(self, pool: MinCutPool, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        layers: Any = pool.mlp.layers
        hidden, last = layers
        scores = _linear(torch.relu(_linear(x, hidden.weight, hidden.bias)), last.weight, last.bias)
        s = torch.softmax(scores, -1) * mask.unsqueeze(-1)
        quadratic, gram, pooled = _pooled(s, adjacency, x)
        degree = adjacency.sum(-1)
        within = quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)
        cut = -safe_ratio(within, (degree.unsqueeze(-1) * s.square()).sum((-2, -1)))
        auxiliary = pool.cut_weight * cut + pool.ortho_weight * orthogonality(gram)
        coarse = pooled_adjacency(quadratic, symmetric=True, keep_diagonal=pool.keep_diagonal)
        return self._predict(pooled, coarse.data), auxiliary

    def _diffpool(
        self, pool: DiffPool, products: Tensor, adjacency: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        layers: Any = (pool.scores, pool.embed)
        kernel = torch.cat([layer.lin.weight for layer in layers])
        both = _linear(products, kernel, torch.cat([layer.bias.bias for layer in layers]))
        s = torch.softmax(both[..., : pool.k], -1) * mask.unsqueeze(-1)
        x = torch.relu(both[..., pool.k :])
        quadratic, gram, pooled = _pooled(s, adjacency, x)
        within = quadratic.diagonal(dim1=-2, dim2=-1).sum(-1)
        link = safe_sqrt(adjacency.square().sum((-2, -1)) - 2 * within + gram.square().sum((-2, -1)))
        count = mask.sum(-1).clamp(min=1)
        entropy = -(s * torch.log(s + 1e-15)).sum((-2, -1)) / count
        auxiliary = pool.link_weight * link + pool.entropy_weight * entropy
        return self._predict(pooled, _normalised(quadratic)), auxiliary

    def _topk(self, pool: TopKPool, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(pool.direction, UnitLinear)
        score = torch.tanh(_linear(x, UnitLinear.unit(pool.direction.weight), None).squeeze(-1))
        ranked = score.detach().masked_fill(mask == 0, -torch.inf)
        here, other = ranked.unsqueeze(-1), ranked.unsqueeze(-2)
        place = torch.arange(x.shape[-2], device=x.device)
        # How many stand before a node: those with a higher score, and of equal ones those before it in the molecule.
        before = ((other > here) | ((other == here) & (place < place.unsqueeze(-1)))).sum(-1)
        allowed = torch.ceil(mask.sum(-1, keepdim=True) * pool.ratio - 1e-6)
        kept = (before < allowed).to(x.dtype)
        if pool.connect == "two_hop":
            adjacency = adjacency @ adjacency
        left = _normalised(adjacency * kept.unsqueeze(-1) * kept.unsqueeze(-2))
        gate = (score * kept).unsqueeze(-1)
        return self._predict(x * gate, left, kept), torch.zeros_like(mask[:, 0])

    def _predict(self, x: Tensor, adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
        """The layers after the pooler, for a normalised adjacency."""
        conv = self.net.convs[-1]
        assert isinstance(conv, SkipConv)
        kernel = torch.cat([conv.neighbours.weight, conv.itself.weight], 1)
        x = torch.relu(_linear(torch.cat([adjacency @ x, x], -1), kernel, conv.itself.bias))
        if mask is None:  # every position is a node
            mean = x.sum(-2) / x.shape[-2]
        else:
            mean = (x * mask.unsqueeze(-1)).sum(-2) / mask.sum(-1, keepdim=True).clamp(min=1)
        return _linear(mean, self.net.head.weight, self.net.head.bias).squeeze(-1)


def _pooled(s: Tensor, adjacency: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """S'AS, S'S and S'X from one product with S'."""
    k = s.shape[-1]
    products = s.mT @ torch.cat([adjacency @ s, s, x], -1)
    return products[..., :k], products[..., k : 2 * k], products[..., 2 * k :]
