"""Poolers by name."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool
from softcut.nn.pool.diffpool import DiffPool
from softcut.nn.pool.dmon import DMoNPool
from softcut.nn.pool.graclus import GraclusPool
from softcut.nn.pool.just_balance import JustBalancePool
from softcut.nn.pool.mincut import MinCutPool
from softcut.nn.pool.ndp import NDPPool
from softcut.nn.pool.nopool import NoPool
from softcut.nn.pool.random import RandomPool
from softcut.nn.pool.sagpool import SAGPool
from softcut.nn.pool.topk import TopKPool

__all__ = ["POOLS", "get_pool", "pool_options"]

POOLS: dict[str, type[Pool]] = {
    "mincut": MinCutPool,
    "diffpool": DiffPool,
    "topk": TopKPool,
    "sagpool": SAGPool,
    "graclus": GraclusPool,
    "ndp": NDPPool,
    "nopool": NoPool,
    "random": RandomPool,
    "dmon": DMoNPool,
    "justbalance": JustBalancePool,
}


def _pool_class(name: str) -> type[Pool]:
    if name not in POOLS:
        near = difflib.get_close_matches(str(name).lower(), POOLS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(f"unknown pooler {name!r}: choose one of {', '.join(POOLS)}.{hint}")
    return POOLS[name]


def _parameters(cls: type[Pool]) -> dict[str, inspect.Parameter]:
    if cls.__init__ is Pool.__init__:  # takes nothing of its own
        return {}
    return {k: p for k, p in inspect.signature(cls.__init__).parameters.items() if k != "self"}


def pool_options(name: str) -> list[str]:
    """The keywords a pooler takes.

    >>> pool_options("topk")
    ['in_channels', 'ratio', 'k', 'connect', 'min_score', 'multiplier', 'nonlinearity']
    """
    return list(_parameters(_pool_class(name)))


def get_pool(name: str, in_channels: int | None = None, **options: Any) -> Pool:
    """A pooling layer by name.

    >>> from softcut.nn import get_pool
    >>> get_pool("mincut", in_channels=8, k=4)
    MinCutPool(...)
    >>> get_pool("graclus", in_channels=8, levels=2)
    GraclusPool(reduction='max', levels=2, seed=0)

    Parameters
    ----------
    name : str
        ``"mincut"``, ``"diffpool"``, ``"topk"``, ``"sagpool"``, ``"graclus"``, ``"ndp"``, ``"nopool"``,
        ``"random"``, ``"dmon"`` or ``"justbalance"``.
    in_channels : int, optional
        Size of the node features; those that learn nothing ignore it.
    **options
        What the layer takes besides; an unknown keyword is an error that lists the valid ones.
    """
    cls = _pool_class(name)
    valid = pool_options(name)
    unknown = [key for key in options if key not in valid]
    if unknown:
        takes = ", ".join(v for v in valid if v != "in_channels") or "none"
        raise ParameterError(
            f"{name!r} does not take {', '.join(map(repr, unknown))}; its options are: {takes}."
        )
    if "in_channels" in valid:
        if in_channels is None:
            raise ParameterError(f"in_channels must be given for {name!r}.")
        options["in_channels"] = in_channels
    absent = [k for k, p in _parameters(cls).items() if p.default is p.empty and k not in options]
    if absent:
        raise ParameterError(f"{name!r} needs {', '.join(absent)}.")
    return cls(**options)
