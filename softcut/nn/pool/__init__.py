"""Pooling layers behind one interface, and how they are made by name; softcut.nn exports them."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from softcut.errors import ParameterError
from softcut.nn.pool.base import Pool
from softcut.nn.pool.diffpool import DiffPool
from softcut.nn.pool.mincut import DMoNPool, JustBalancePool, MinCutPool, RandomPool
from softcut.nn.pool.score_pools import NoPool, SAGPool, TopKPool
from softcut.nn.pool.topological import GraclusPool, NDPPool

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


def pool_options(name: str) -> dict[str, inspect.Parameter]:
    """The keywords a pooler takes."""
    if name not in POOLS:
        near = difflib.get_close_matches(str(name).lower(), POOLS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ParameterError(
            f"unknown pooler {name!r}: choose one of {', '.join(POOLS)}.{hint}", argument="name"
        )
    if POOLS[name].__init__ is Pool.__init__:  # takes nothing of its own
        return {}
    return dict(inspect.signature(POOLS[name]).parameters)


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
    valid = pool_options(name)
    unknown = [key for key in options if key not in valid]
    if unknown:
        takes = ", ".join(v for v in valid if v != "in_channels") or "none"
        raise ParameterError(
            f"{name!r} does not take {', '.join(map(repr, unknown))}; its options are: {takes}.",
            argument=unknown[0],
        )
    if "in_channels" in valid:
        if in_channels is None:
            raise ParameterError(f"in_channels must be given for {name!r}.", argument="in_channels")
        options["in_channels"] = in_channels
    absent = [k for k, p in valid.items() if p.default is p.empty and k not in options]
    if absent:
        raise ParameterError(f"{name!r} needs {', '.join(absent)}.", argument=absent[0])
    return POOLS[name](**options)
