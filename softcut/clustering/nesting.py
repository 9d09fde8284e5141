"""Levels made to nest: each cluster of one lies inside one of the next coarser level.

The level that was chosen stays as it is. A coarser level is made of whole clusters of the next finer one, each part of
the cluster that holds most of it. In a finer level, a cluster belongs to the coarser one that holds most of it, and a
node takes the likeliest of those that belong to its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def nested(labels: Sequence[np.ndarray], soft: Sequence[np.ndarray], chosen: int) -> list[np.ndarray]:
    """Labels [N] of each level that nest, from labels and soft clusters [N, K], the coarsest first.

    `chosen` is the place of the level that is kept. The largest cluster of a level is 0; a cluster that would be empty
    is left out, and one without any finer ones is whole in the finer level. -1 stays -1.

    >>> fine, coarse = np.array([0, 0, 1, 1, 1, 2]), np.array([0, 0, 0, 0, 1, 1])
    >>> nested([coarse, fine], [np.eye(2)[coarse], np.eye(3)[fine]], chosen=1)[0]
    array([0, 0, 0, 0, 0, 1])
    """
    known = labels[chosen] >= 0
    levels = [each[known] for each in labels]
    for i in range(chosen - 1, -1, -1):
        levels[i] = _most(levels[i + 1], levels[i])[levels[i + 1]]
    for i in range(chosen + 1, len(levels)):
        levels[i] = _inside(levels[i - 1], levels[i], soft[i][known])
    result = []
    for level in levels:
        result.append(np.full(len(known), -1))
        result[-1][known] = _by_size(level)
    return result


def _most(fine: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """For each finer cluster the coarser one that holds most of it."""
    shared = np.zeros((fine.max() + 1, coarse.max() + 1), dtype=np.int64)
    np.add.at(shared, (fine, coarse), 1)
    return shared.argmax(1)


def _inside(coarse: np.ndarray, fine: np.ndarray, soft: np.ndarray) -> np.ndarray:
    """Finer clusters, each inside a coarser one."""
    k = soft.shape[1]
    above = np.full(k, -1)
    above[: fine.max() + 1] = _most(fine, coarse)
    result = np.empty_like(fine)
    for cluster in range(coarse.max() + 1):
        rows, parts = np.flatnonzero(coarse == cluster), np.flatnonzero(above == cluster)
        result[rows] = parts[soft[np.ix_(rows, parts)].argmax(1)] if len(parts) else k + cluster
    return result


def _by_size(labels: np.ndarray) -> np.ndarray:
    """The same clusters, numbered from 0, the largest first."""
    _, found, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(-sizes, kind="stable"))[found]
