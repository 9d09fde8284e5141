"""Levels made to nest: each cluster of one lies inside one of the next coarser level.

The level that was chosen stays as it is. A coarser level is made of whole clusters of the next finer one, each part of
the cluster that holds most of it. In a finer level, a cluster belongs to the coarser one that holds most of it, and a
node takes the likeliest of those that belong to its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softcut.clustering.fit_task import Level, Levels


def levels_around(fits: Sequence[Level], k: int) -> tuple[Levels, np.ndarray]:
    """Nested levels from fits with rising numbers of clusters, of which that with `k` was chosen, and for each level up
    to it the cluster that holds each of its clusters [L, K].
    """
    at = [each.k for each in fits].index(k)
    found = nested([each.labels for each in fits], [each.soft for each in fits], at)
    found[at] = fits[at].labels  # with the clusters that have no nodes
    counts = [len(np.unique(each)) for each in found]
    # A level that joins or divides nothing, or has one cluster, is none.
    kept = [i for i in range(len(found)) if i == at or (i < at and 1 < counts[i] < counts[i + 1])]
    for i in range(at + 1, len(found)):
        if counts[i] > counts[kept[-1]]:
            kept.append(i)
    levels = np.stack([found[i] for i in kept])
    chosen = kept.index(at)
    above = np.tile(np.arange(k), (chosen + 1, 1))
    for i in range(chosen):
        above[i] = 0
        above[i, levels[chosen]] = levels[i]
    return Levels(levels, chosen, tuple(float(fits[i].k) for i in kept)), above


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
