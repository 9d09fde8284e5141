"""Pooling layers, one per file, behind one interface."""

from softcut.nn.pool.base import DensePool, Pool
from softcut.nn.pool.diffpool import DiffPool, diff_pool
from softcut.nn.pool.dmon import DMoNPool
from softcut.nn.pool.graclus import ClusterSelection, GraclusPool
from softcut.nn.pool.just_balance import JustBalancePool
from softcut.nn.pool.mincut import MinCutPool, mincut_pool
from softcut.nn.pool.ndp import NDPPool
from softcut.nn.pool.node_selection import KeepSelection
from softcut.nn.pool.nopool import NoPool
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.random import RandomPool
from softcut.nn.pool.registry import POOLS, get_pool, pool_options
from softcut.nn.pool.sagpool import SAGPool
from softcut.nn.pool.selection import DenseSelection, Selection
from softcut.nn.pool.topk import TopKPool

__all__ = [
    "POOLS",
    "ClusterSelection",
    "DMoNPool",
    "DensePool",
    "DenseSelection",
    "DiffPool",
    "GraclusPool",
    "JustBalancePool",
    "KeepSelection",
    "MinCutPool",
    "NDPPool",
    "NoPool",
    "Pool",
    "PoolOutput",
    "RandomPool",
    "SAGPool",
    "Selection",
    "TopKPool",
    "diff_pool",
    "get_pool",
    "mincut_pool",
    "pool_options",
]
