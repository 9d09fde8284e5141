"""The regressor of table 3: GraphRegressor on padded molecules, with a choice of readouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.models import GraphRegressor

__all__ = ["POOLERS", "READOUTS", "PaddedRegressor", "regressor", "squared_error"]

# Names of the table's columns to poolers.
POOLERS = {"topk": "topk", "diffpool": "diffpool", "mincut": "mincut", "flat": "nopool"}
# From node to graph: mean over the atoms; their sum divided by the padded size, the same for every molecule; their sum.
READOUTS = ("mean", "padded", "sum")


def regressor(
    method: str,
    features: int,
    seed: int,
    hidden: int = 32,
    k: int = 4,
    pool_args: Mapping[str, Any] | None = None,
    readout: str = "mean",
) -> PaddedRegressor:
    """MP - pool - MP - mean (or another readout) - linear with the weights that `seed` draws."""
    if method not in POOLERS:
        raise ParameterError(f"method must be one of {', '.join(POOLERS)}, got {method!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = GraphRegressor(features, pool=POOLERS[method], hidden=hidden, k=k, pool_args=pool_args)
    return PaddedRegressor(net, readout)


def squared_error(output: tuple[Tensor, Tensor], target: Tensor) -> dict[str, Tensor]:
    """Squared error and the poolers' losses of every molecule."""
    predicted, auxiliary = output
    return {"mse": (predicted - target).square(), "auxiliary": auxiliary}


class PaddedRegressor(nn.Module):
    """A :class:`~softcut.nn.GraphRegressor` with another readout, for padded graphs.

    Called as ``net(x, adjacency, mask)`` with [B, N, F], [B, N, N] and [B, N]; returns a number and the sum of the
    poolers' losses for every graph, [B] each. All shapes are fixed, so that ``torch.func.vmap`` and CUDA graphs can be
    used.

    Parameters
    ----------
    net : GraphRegressor
        The network.
    readout : str
        "mean" over the nodes that the pooler leaves, as in `net`; "padded": their sum divided by the number of
        positions, of nodes and padding together; "sum". After mincut and diffpool all positions are nodes, and the
        mean is the same as "padded".
    """

    def __init__(self, net: GraphRegressor, readout: str = "mean") -> None:
        super().__init__()
        if readout not in READOUTS:
            raise ParameterError(f"readout must be one of {', '.join(READOUTS)}, got {readout!r}.")
        self.net, self.readout = net, readout

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        mask = mask.bool()
        out = self.net(x, adjacency, mask=mask)
        predicted, auxiliary = out.y.squeeze(-1), x.new_zeros(x.shape[0])
        for pooled in out.pooled:
            auxiliary = sum(pooled.graph_losses.values(), auxiliary)
        if self.readout == "mean":
            return predicted, auxiliary
        # The head is linear: W (c mean) + b = c (W mean + b - b) + b.
        last = out.pooled[-1]
        positions = last.x.shape[-2] if last.mask is None else mask.shape[-1]
        count = positions if last.mask is None else last.mask.sum(-1).to(x.dtype)
        if self.readout == "padded":
            count = count / positions
        bias = self.net.head.bias
        return (predicted - bias) * count + bias, auxiliary
