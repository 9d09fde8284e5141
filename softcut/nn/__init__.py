"""Thin modules over :mod:`softcut.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softcut.nn.convs import GCNConv, GraphConv
from softcut.nn.layers import MLP, SkipConv
from softcut.nn.models import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
from softcut.nn.pool import (
    ClusterSelection,
    DensePool,
    DenseSelection,
    DiffPool,
    GraclusPool,
    KeepSelection,
    MinCutPool,
    NDPPool,
    NoPool,
    Pool,
    PoolOutput,
    RandomPool,
    SAGPool,
    Selection,
    TopKPool,
    get_pool,
)

if TYPE_CHECKING:
    from softcut.nn.pool.precoarsen import PreCoarsen

__all__ = [
    "MLP",
    "ClusterSelection",
    "DensePool",
    "DenseSelection",
    "DiffPool",
    "GCNConv",
    "GraclusPool",
    "GraphAutoencoder",
    "GraphClassifier",
    "GraphConv",
    "GraphRegressor",
    "KeepSelection",
    "MinCutPool",
    "NDPPool",
    "NoPool",
    "NodeClusterer",
    "Pool",
    "PoolOutput",
    "PreCoarsen",
    "RandomPool",
    "SAGPool",
    "Selection",
    "SkipConv",
    "TopKPool",
    "get_pool",
]


def __getattr__(name: str) -> Any:
    if name == "PreCoarsen":  # needs torch_geometric, which is optional
        from softcut.nn.pool.precoarsen import PreCoarsen

        return PreCoarsen
    raise AttributeError(f"module 'softcut.nn' has no attribute {name!r}")
