"""Several graph models as one: every layer with weights gets one set of them per replica."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.learning.masked_pool import MaskedScorePool
from softcut.learning.replica_layers import (
    OneHotGCNConv,
    OneHotSkipConv,
    ReplicaBias,
    ReplicaLinear,
    ReplicaUnitLinear,
)
from softcut.nn import DiffPool
from softcut.nn.layers import Bias, GCNConv, SkipConv, UnitLinear
from softcut.nn.models import GraphClassifier
from softcut.nn.pool.score_pools import ScorePool

__all__ = ["replica_net", "replica_state"]

_REPLICAS: dict[type[nn.Module], Any] = {
    nn.Linear: ReplicaLinear,
    UnitLinear: ReplicaUnitLinear,
    Bias: ReplicaBias,
}


def replica_net(
    models: Sequence[GraphClassifier], one_hot: int = 0, columns: int | None = None
) -> GraphClassifier:
    """A model that computes R models at once, for batches of R replicas side by side.

    With `one_hot`, so many of the input's `columns` are feature numbers of one-hot blocks (see
    :class:`~softcut.graph.GraphCollection`), and the first layers look their weights up.
    """
    if not models:
        raise ParameterError("models must hold at least one model.")
    net = copy.deepcopy(models[0])
    if one_hot:
        _read_numbers(net, models, one_hot, columns)
    _swap(net, models)
    for level, pool in enumerate(net.pools):
        if isinstance(pool, ScorePool):
            net.pools[level] = MaskedScorePool(pool)
    return net


def _read_numbers(
    net: GraphClassifier, models: Sequence[GraphClassifier], one_hot: int, columns: int | None
) -> None:
    """Let the layers that see the input read feature numbers."""
    if not net.embeds:
        net.convs[0] = OneHotSkipConv([_first_conv(model) for model in models], one_hot)
        return
    pool = net.pools[0]
    if not isinstance(pool, DiffPool) or not isinstance(pool.scores, GCNConv) or pool.embed is None:
        raise ParameterError("assignment must be 'gcn' for replicas of DiffPool on one-hot features.")
    pool.in_channels = pool.in_channels if columns is None else columns
    firsts: list[Any] = [model.pools[0] for model in models]
    pool.scores = OneHotGCNConv([first.scores for first in firsts], one_hot)
    pool.embed = OneHotGCNConv([first.embed for first in firsts], one_hot)


def _first_conv(model: GraphClassifier) -> SkipConv:
    conv = model.convs[0]
    assert isinstance(conv, SkipConv)
    return conv


def _swap(net: nn.Module, models: Sequence[nn.Module]) -> None:
    """Replace every layer that holds weights, wherever it is."""
    for name, child in net.named_children():
        if isinstance(child, (OneHotSkipConv, OneHotGCNConv)):
            continue
        others = [getattr(model, name) for model in models]
        made = _REPLICAS.get(type(child))
        if made is not None:
            setattr(net, name, made(others))
        elif any(True for _ in child.parameters(recurse=False)):
            raise ParameterError(
                f"{type(child).__name__} holds weights of its own and has no form for replicas."
            )
        else:
            _swap(child, others)


def replica_state(net: GraphClassifier, replica: int) -> dict[str, Tensor]:
    """The parameters of one replica, by the names of a model of its own."""
    return {name.replace(".inner.", "."): value[replica].detach() for name, value in net.named_parameters()}
