"""The regressor of table 3: GraphRegressor on padded molecules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.models import GraphRegressor

__all__ = ["POOLERS", "PaddedRegressor", "regressor", "squared_error"]

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


def squared_error(output: tuple[Tensor, Tensor], target: Tensor) -> dict[str, Tensor]:
    """Squared error and the poolers' losses of every molecule."""
    predicted, auxiliary = output
    return {"mse": (predicted - target).square(), "auxiliary": auxiliary}


class PaddedRegressor(nn.Module):
    """A :class:`~softcut.nn.GraphRegressor` for padded graphs.

    Called as ``net(x, adjacency, mask)`` with [B, N, F], [B, N, N] and [B, N]; returns a number and the sum of the
    poolers' losses for every graph, [B] each. All shapes are fixed, so that ``torch.func.vmap`` and CUDA graphs can be
    used.
    """

    def __init__(self, net: GraphRegressor) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        out = self.net(x, adjacency, mask=mask.bool())
        auxiliary = x.new_zeros(x.shape[0])
        for pooled in out.pooled:
            auxiliary = sum(pooled.graph_losses.values(), auxiliary)
        return out.y.squeeze(-1), auxiliary
