"""Thin modules over :mod:`softcut.ops`."""

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
    "RandomPool",
    "SAGPool",
    "Selection",
    "SkipConv",
    "TopKPool",
    "get_pool",
]
