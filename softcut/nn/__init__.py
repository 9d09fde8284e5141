"""Thin modules over :mod:`softcut.ops`."""

from softcut.nn.layers import MLP, SkipConv
from softcut.nn.pool import DensePool, DenseSelection, MinCutPool, Pool, PoolOutput, Selection

__all__ = ["MLP", "DensePool", "DenseSelection", "MinCutPool", "Pool", "PoolOutput", "Selection", "SkipConv"]
