"""Fits with several numbers of clusters, nested: the clusters of a level lie inside those of the level before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softcut.clustering.fit_task import Level, Levels


def nested(found: Sequence[Level], k: int) -> tuple[Levels, np.ndarray]:
    """Levels around the one with `k` clusters, which stays as it is, and the cluster of each level up to it that holds
    each of its clusters [L, K].

    A coarser level joins the clusters that lie in the same one of its own fit for the most part. In a finer one each
    cluster of its own fit belongs to the one above that holds most of it, and the nodes of that one take the most
    probable of those that belong to it.
    """
    chosen = next(each for each in found if each.k == k)
    levels, marks = [chosen.labels], [float(k)]
    above = [np.arange(k)]
    for coarse in sorted((each for each in found if each.k < k), key=lambda each: -each.k):
        table = _table(levels[0], coarse.labels)
        group = _by_size(table.argmax(1), np.bincount(levels[0], minlength=len(table)))
        if 1 < group.max() + 1 < len(table):
            levels.insert(0, group[levels[0]])
            above.insert(0, group[above[0]])
            marks.insert(0, float(coarse.k))
    at = len(levels) - 1
    for fine in sorted((each for each in found if each.k > k), key=lambda each: each.k):
        table = _table(fine.labels, levels[-1])
        owner = table.argmax(1)
        allowed = owner == levels[-1][:, None]  # [N, K of the fine fit]
        best = np.where(allowed, fine.soft, -1.0).argmax(1)
        # A cluster that none belongs to stays whole.
        own = np.where(allowed.any(axis=1), best, fine.k + levels[-1])
        used, which, sizes = np.unique(own, return_inverse=True, return_counts=True)
        place = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
        if len(used) > levels[-1].max() + 1:
            levels.append(place[which.reshape(-1)])
            marks.append(float(fine.k))
    return Levels(np.stack(levels), at, tuple(marks)), np.stack(above)


def _table(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Nodes that are in cluster i of `a` and j of `b` [I, J]."""
    columns = int(b.max()) + 1
    pairs = np.bincount(a * columns + b, minlength=(int(a.max()) + 1) * columns)
    return pairs.reshape(-1, columns)


def _by_size(group: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Groups [K] of clusters, numbered by their nodes, the largest first."""
    used, which = np.unique(group, return_inverse=True)
    total = np.bincount(which.reshape(-1), sizes, minlength=len(used))
    return np.argsort(np.argsort(-total, kind="stable"), kind="stable")[which.reshape(-1)]
