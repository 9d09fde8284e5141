"""Compiled: an order of nodes that their numbers do not decide."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled


@compiled
def mixed(x: Any) -> Any:
    """A number of 64 bits that looks random (splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@compiled
def recoloured(indptr: Any, indices: Any, weight: Any, colours: Any) -> Any:
    """The next colour of each node, from its own and those of its neighbours; sums wrap around, in any order."""
    n = len(colours)
    out = np.empty(n, np.uint64)
    for i in range(n):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            total += mixed(colours[indices[e]] + np.uint64(weight[e]) * np.uint64(0x9E3779B97F4A7C15))
        out[i] = mixed(colours[i] * np.uint64(3) + mixed(total + np.uint64(1)))
    return out


@compiled
def shuffled(colours: Any, seed: int) -> Any:
    """Other colours for another seed; equal ones stay equal."""
    salt = mixed(np.uint64(seed) + np.uint64(0x632BE59BD9B4E019))
    out = np.empty(len(colours), np.uint64)
    for i in range(len(colours)):
        out[i] = mixed(colours[i] ^ salt)
    return out
