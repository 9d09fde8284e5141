"""Thin modules over :mod:`softcut.ops`.

Names are imported on first use, so that one layer does not load every pooler.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "MLP": "layers",
    "SkipConv": "layers",
    "GCNConv": "convs",
    "GraphConv": "convs",
    "GraphAutoencoder": "models",
    "GraphClassifier": "models",
    "GraphRegressor": "models",
    "NodeClusterer": "models",
    "ClusterSelection": "pool",
    "DMoNPool": "pool",
    "DensePool": "pool",
    "DenseSelection": "pool",
    "DiffPool": "pool",
    "GraclusPool": "pool",
    "JustBalancePool": "pool",
    "KeepSelection": "pool",
    "MinCutPool": "pool",
    "NDPPool": "pool",
    "NoPool": "pool",
    "Pool": "pool",
    "PoolOutput": "pool",
    "RandomPool": "pool",
    "SAGPool": "pool",
    "Selection": "pool",
    "TopKPool": "pool",
    "diff_pool": "pool",
    "get_pool": "pool",
    "mincut_pool": "pool",
    "PreCoarsen": "pool.precoarsen",  # needs torch_geometric, which is optional
}

if TYPE_CHECKING:
    from softcut.nn.convs import GCNConv, GraphConv
    from softcut.nn.layers import MLP, SkipConv
    from softcut.nn.models import GraphAutoencoder, GraphClassifier, GraphRegressor, NodeClusterer
    from softcut.nn.pool import (
        ClusterSelection,
        DensePool,
        DenseSelection,
        DiffPool,
        DMoNPool,
        GraclusPool,
        JustBalancePool,
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
        diff_pool,
        get_pool,
        mincut_pool,
    )
    from softcut.nn.pool.precoarsen import PreCoarsen

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
    "PreCoarsen",
    "RandomPool",
    "SAGPool",
    "Selection",
    "SkipConv",
    "TopKPool",
    "diff_pool",
    "get_pool",
    "mincut_pool",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(f"softcut.nn.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'softcut.nn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
