"""Pooling layers, one a file, behind one interface."""

from softcut.nn.pool.base import DensePool, DenseSelection, Pool, PoolOutput, Selection
from softcut.nn.pool.mincut import MinCutPool

__all__ = ["DensePool", "DenseSelection", "MinCutPool", "Pool", "PoolOutput", "Selection"]
