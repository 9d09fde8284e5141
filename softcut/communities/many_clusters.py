"""Compiled: what is done among so many clusters that no table of all pairs is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled
from softcut.communities.evidence_moves import SEARCHED, holds


@compiled
def move_by_inside(
    indptr: Any,
    indices: Any,
    weight: Any,
    own: Any,
    degree: Any,
    size: Any,
    rank: Any,
    labels: Any,
    k: int,
    connected: bool,
    smallest: int,
    largest: int,
    sweeps: int,
) -> int:
    """As `move_singly` of evidence_moves.py where no table of pairs is kept: all pairs count as one.

    An edge inside cluster b says log(T_bb / t_b^2), one between clusters log(sum_a!=b T_ab / sum_a!=b t_a t_b).
    """
    n = len(labels)
    ends, inside = np.zeros(k), np.zeros(k)
    nodes, members = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(n):
        a = labels[i]
        ends[a] += degree[i]
        nodes[a] += size[i]
        members[a] += 1
        inside[a] += own[i]
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] == a:
                inside[a] += weight[e]
    whole = 1.0
    for a in range(k):
        whole += ends[a]
    near, touched = np.zeros(k), np.empty(k, np.int32)
    mark, stamp, stack = np.zeros(n, np.int64), 1, np.empty(SEARCHED, np.int32)
    order, tells, moved = np.empty(n, np.int32), np.empty(k), 0
    for i in range(n):
        order[rank[i]] = i
    for _ in range(sweeps):
        between, chance = 1.0, 1.0
        for b in range(k):
            between -= inside[b] / whole
            chance -= (ends[b] / whole) ** 2
        between, chance = max(between, 1.0 / whole), max(chance, 1e-9)
        base, before = np.log(between / chance), moved
        for b in range(k):
            tells[b] = np.log(max(inside[b], 0.5) / whole) - 2.0 * np.log(max(ends[b], 0.5) / whole) - base
        for at in range(n):
            i = order[at]
            a, d, seen = np.int64(labels[i]), degree[i], 0
            if members[a] == 1 or nodes[a] - size[i] < smallest:
                continue
            for e in range(indptr[i], indptr[i + 1]):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
            best, gain = a, (2.0 * near[a] + own[i]) * tells[a] + 1e-8 * d
            for s in range(seen):
                b = touched[s]
                here = (2.0 * near[b] + own[i]) * tells[b]
                if b != a and nodes[b] + size[i] <= largest and (here > gain or (here == gain and b < best)):
                    best, gain = b, here
            if best != a and connected:
                stamp += 2
                if not holds(indptr, indices, labels, i, mark, stamp, stack):
                    best = a
            if best != a:
                b = int(best)
                inside[a] -= 2.0 * near[a] + own[i]
                inside[b] += 2.0 * near[b] + own[i]
                ends[a] -= d
                ends[b] += d
                nodes[a] -= size[i]
                nodes[b] += size[i]
                members[a] -= 1
                members[b] += 1
                for c in (a, b):
                    end = np.log(max(ends[c], 0.5) / whole)
                    tells[c] = np.log(max(inside[c], 0.5) / whole) - 2.0 * end - base
                labels[i] = b
                moved += 1
            for s in range(seen):
                near[touched[s]] = 0.0
        if moved - before <= n // 1000:
            break
    return moved


@compiled
def match(
    indptr: Any, indices: Any, weight: Any, degree: Any, size: Any, order: Any, largest: int, fewer: int
) -> Any:
    """Groups [N] of one or two nodes, `fewer` of two or as many as there can be; nodes choose in the order given.

    Where no two neighbours may join, nodes join the next in the order.
    """
    n = len(degree)
    labels = np.arange(n).astype(np.int32)
    joined, made = np.zeros(n, np.bool_), 0
    for at in range(n):
        i = order[at]
        if joined[i] or made == fewer:
            continue
        best, gain = -1, -np.inf
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if not joined[j] and size[i] + size[j] <= largest:
                here = weight[e] / degree[j]
                if here > gain or (here == gain and j < best):
                    best, gain = j, here
        if best >= 0:
            joined[i] = joined[best] = True
            labels[max(i, best)] = min(i, best)
            made += 1
    if made == 0:
        for at in range(0, min(2 * fewer, n - 1), 2):
            i, j = order[at], order[at + 1]
            labels[max(i, j)] = min(i, j)
    return labels
