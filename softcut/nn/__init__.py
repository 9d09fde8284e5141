"""Layers, pooling layers and whole models: thin modules over :mod:`softcut.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softcut.nn.layers import MLP, GCNConv, GraphConv, SkipConv
from softcut.nn.models import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer, ReadoutNet
from softcut.nn.pool import get_pool
from softcut.nn.pool.base import DensePool, Pool, PoolOutput
from softcut.nn.pool.diffpool import DiffPool, diff_pool
from softcut.nn.pool.mincut import DMoNPool, JustBalancePool, MinCutPool, RandomPool, mincut_pool
from softcut.nn.pool.score_pools import NoPool, SAGPool, TopKPool
from softcut.nn.pool.selection import DenseSelection, KeepSelection, Selection
from softcut.nn.pool.topological import ClusterSelection, GraclusPool, NDPPool

if TYPE_CHECKING:
    from softcut.nn.pool.precoarsen import PreCoarsen as PreCoarsen

# PreCoarsen is imported on first use and not by `*`: it needs PyTorch Geometric.
__all__ = [
    "MLP",
    "ClusterSelection",
    "DMoNPool",
    "DensePool",
    "DenseSelection",
    "DiffPool",
    "GCNConv",
    "GraclusPool",
    "GraphAutoencoder",
    "GraphClassifier",
    "GraphConv",
    "GraphRegressor",
    "JustBalancePool",
    "KeepSelection",
    "MinCutPool",
    "NDPPool",
    "NoPool",
    "NodeClusterer",
    "Pool",
    "PoolOutput",
    "RandomPool",
    "ReadoutNet",
    "SAGPool",
    "Selection",
    "SkipConv",
    "TopKPool",
    "diff_pool",
    "get_pool",
    "mincut_pool",
]


def __getattr__(name: str) -> Any:
    if name == "PreCoarsen":
        from softcut.nn.pool.precoarsen import PreCoarsen

        return PreCoarsen
    raise AttributeError(f"module 'softcut.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "PreCoarsen"])
