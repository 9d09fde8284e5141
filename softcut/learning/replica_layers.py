"""Layers with one set of weights per replica, for rows that stand replica after replica.

Each one takes the place of a layer of :mod:`softcut.nn`: an input [R * N, F] (or [R * B, K, F]) is seen as
[R, ..., F], and one batched product applies each replica's own matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softcut.nn.layers import Bias, GCNConv, SkipConv, UnitLinear, gcn_scale
from softcut.ops import Operator

__all__ = ["OneHotGCNConv", "OneHotSkipConv", "ReplicaBias", "ReplicaLinear", "ReplicaUnitLinear"]


def _stacked(parameters: Sequence[Tensor]) -> nn.Parameter:
    return nn.Parameter(torch.stack([p.detach() for p in parameters]))


class ReplicaLinear(nn.Module):
    """One ``nn.Linear`` per replica."""

    def __init__(self, layers: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.weight = _stacked([layer.weight for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.bias = _stacked(biases) if biases else None

    def matrix(self) -> Tensor:
        """The weights that are applied [R, out, in]."""
        return self.weight

    def forward(self, x: Tensor) -> Tensor:
        weight = self.matrix()
        rows = x.reshape(len(weight), -1, x.shape[-1])
        if self.bias is None:
            out = torch.bmm(rows, weight.mT)
        else:
            out = torch.baddbmm(self.bias.unsqueeze(1), rows, weight.mT)
        return out.view(*x.shape[:-1], -1)


class ReplicaUnitLinear(ReplicaLinear):
    """One :class:`~softcut.nn.layers.UnitLinear` per replica."""

    def __init__(self, layers: Sequence[UnitLinear]) -> None:
        nn.Module.__init__(self)
        self.weight, self.bias = _stacked([layer.weight for layer in layers]), None

    def matrix(self) -> Tensor:
        return UnitLinear.unit(self.weight)


class ReplicaBias(nn.Module):
    """One :class:`~softcut.nn.layers.Bias` per replica."""

    def __init__(self, layers: Sequence[Bias]) -> None:
        super().__init__()
        self.bias = _stacked([layer.bias for layer in layers])

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(len(self.bias), -1, x.shape[-1])
        return (rows + self.bias.unsqueeze(1)).view(x.shape)


def lookup(x: Tensor, weight: Tensor, one_hot: int) -> Tensor:
    """X W' per replica, where the first `one_hot` columns of x are numbers of features that are 1.

    The rest of x are values of the last features. Nothing of the width of the features is made per node.

    >>> import torch
    >>> x = torch.tensor([[2.0, 0.5], [0.0, 4.0]])                  # feature 2 is 1; feature 3 has a value
    >>> lookup(x, torch.arange(4.0).view(1, 1, 4), 1).flatten().tolist()
    [3.5, 12.0]
    """
    replicas, width, features = weight.shape
    per_replica = x.shape[0] // replicas
    index = x[:, :one_hot].long().view(replicas, per_replica, one_hot)
    index = index + torch.arange(replicas, device=x.device).view(-1, 1, 1) * features
    table = weight.mT.reshape(-1, width)
    out = nn.functional.embedding_bag(index.view(-1, one_hot), table, mode="sum")
    values = x.shape[1] - one_hot
    if values:
        rows = x[:, one_hot:].reshape(replicas, per_replica, values)
        out = torch.baddbmm(out.view(replicas, per_replica, width), rows, weight[:, :, -values:].mT)
    return out.view(-1, width)


class OneHotSkipConv(nn.Module):
    """The paper's layer on features that are stored as numbers: A~ (X T_m) + X T_s + b.

    Both matrices are looked up at once.
    """

    def __init__(self, layers: Sequence[SkipConv], one_hot: int) -> None:
        super().__init__()
        self.neighbours = ReplicaLinear([layer.neighbours for layer in layers])
        self.itself = ReplicaLinear([layer.itself for layer in layers])
        self.act, self.one_hot, self.out_channels = layers[0].act, one_hot, layers[0].out_channels

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        weight = torch.cat([self.neighbours.weight, self.itself.weight], dim=1)
        passed, own = lookup(x, weight, self.one_hot).split(self.out_channels, dim=1)
        out = op.normalise().product(passed) + own
        if self.itself.bias is not None:
            bias = self.itself.bias
            out = (out.view(len(bias), -1, out.shape[-1]) + bias.unsqueeze(1)).view(out.shape)
        return out if self.act is None else self.act(out)


class OneHotGCNConv(nn.Module):
    """A GCN layer on features that are stored as numbers."""

    def __init__(self, layers: Sequence[GCNConv], one_hot: int) -> None:
        super().__init__()
        self.lin = ReplicaLinear([layer.lin for layer in layers])
        biases = [layer.bias for layer in layers if layer.bias is not None]
        self.bias = ReplicaBias(biases) if biases else None
        self.act, self.one_hot = layers[0].act, one_hot

    def forward(self, x: Tensor, op: Operator) -> Tensor:
        scale = gcn_scale(op, x)
        h = scale * lookup(x, self.lin.weight, self.one_hot)
        h = scale * (op @ h + h)
        h = h if self.bias is None else self.bias(h)
        return h if self.act is None else self.act(h)
