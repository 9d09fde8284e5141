"""Compiled: moves of nodes, or of groups of nodes, among K clusters that raise what these say about the edges, G_e.

    I = sum_ab f(T_ab) - 2 sum_a f(t_a),   f(x) = x log x

with T the shares of the edges between clusters and t those of their ends; G_e is E times that, less a price that no
move changes. A level is a graph as arrays, as in moves.py; labels are numbers below K.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from softcut.communities.compiled import compiled

_PRIOR = 1e-3  # share of the edges that clusters may have between them beforehand: no logarithm of 0
_FIT_SWEEPS = 50  # in which full clusters pass nodes on to their neighbours
_SEARCHED = 256  # nodes that are visited to see that a cluster stays in one piece without a node


@compiled
def term(x: float) -> float:
    """f(x) = x log x, 0 at 0."""
    return x * np.log(x) if x > 0.0 else 0.0


@compiled
def pair_table(level: Any, labels: Any, k: int) -> Any:
    """Weights between clusters, S'AS [K, K]."""
    indptr, indices, weight, own, _, _ = level
    table = np.zeros((k, k))
    for i in range(len(labels)):
        a = labels[i]
        table[a, a] += own[i]
        for e in range(indptr[i], indptr[i + 1]):
            table[a, labels[indices[e]]] += weight[e]
    return table


def information(table: np.ndarray) -> float:
    """Mutual information of the rows and columns of a symmetric table, in nats."""
    joint = table / max(float(table.sum()), 1e-300)
    ends = joint.sum(axis=0)
    return float(xlogy(joint, joint).sum() - 2 * xlogy(ends, ends).sum())


@compiled
def holds(indptr: Any, indices: Any, labels: Any, i: int, mark: Any, stamp: int, stack: Any) -> bool:
    """Whether the neighbours of a node in its own cluster reach each other there without it, in a short search."""
    mine, left, first = labels[i], 0, -1
    for e in range(indptr[i], indptr[i + 1]):
        j = indices[e]
        if labels[j] == mine:
            mark[j] = stamp  # wanted
            left += 1
            first = j
    if left < 2:
        return True
    mark[i] = stamp + 1  # visited
    mark[first] = stamp + 1
    stack[0], head, tail = first, 0, 1
    left -= 1
    while head < tail:
        j = stack[head]
        head += 1
        for e in range(indptr[j], indptr[j + 1]):
            x = indices[e]
            if labels[x] == mine and mark[x] != stamp + 1:
                if mark[x] == stamp:
                    left -= 1
                    if left == 0:
                        return True
                if tail == len(stack):
                    return False
                mark[x] = stamp + 1
                stack[tail] = x
                tail += 1
    return False


@compiled
def exact_rise(table: Any, ends: Any, near: Any, touched: Any, own: float, d: float, a: int, b: int) -> Any:
    """By how much sum f(T_ab) - 2 sum f(t_a) changes when a node of degree `d` leaves cluster a for b.

    `near` are its weights to the clusters `touched`, itself left out, and `own` the weight of its diagonal.
    """
    change = 0.0
    for c in touched:
        if c != a and c != b:
            w, x, y = near[c], table[a, c], table[b, c]
            change += term(x - w) - term(x) + term(y + w) - term(y)
    x, y, z = table[a, a], table[b, b], table[a, b]
    change = 2.0 * (change + term(z + near[a] - near[b]) - term(z))
    change += term(x - 2.0 * near[a] - own) - term(x) + term(y + 2.0 * near[b] + own) - term(y)
    return change - 2.0 * (term(ends[a] - d) - term(ends[a]) + term(ends[b] + d) - term(ends[b]))


@compiled
def move_by_evidence(
    level: Any, labels: Any, k: int, every: bool, connected: bool, smallest: int, largest: int, sweeps: int
) -> None:
    """Nodes move one after another while I rises, by its exact change; `labels` change in place.

    `every`: to any cluster, not only to those of neighbours. No cluster grows beyond `largest` nodes or shrinks below
    `smallest`, none vanishes, and with `connected` none that is in one piece falls apart.
    """
    indptr, indices, weight, own, degree, size = level
    n = len(labels)
    table = pair_table(level, labels, k)
    ends, nodes, members = np.zeros(k), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(n):
        ends[labels[i]] += degree[i]
        nodes[labels[i]] += size[i]
        members[labels[i]] += 1
    floor = _PRIOR * ends.sum() / k**2
    logs, log_ends = np.log(table + floor), np.log(ends + floor * k)
    near, list_, waiting = np.zeros(k), np.empty(k + 2, np.int32), np.ones(n, np.bool_)
    mark, stamp, stack = np.zeros(n, np.int64), 1, np.empty(_SEARCHED, np.int32)
    for _ in range(sweeps):
        moved = 0
        for i in range(n):
            a, d, seen = np.int64(labels[i]), degree[i], 0
            if not waiting[i] or members[a] == 1 or nodes[a] - size[i] < smallest:
                continue
            waiting[i] = False
            for e in range(indptr[i], indptr[i + 1]):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    list_[seen] = c
                    seen += 1
                near[c] += weight[e]
            touched = list_[:seen]
            # The cluster whose logarithms suit best is looked at exactly.
            best: Any = a
            high = -np.inf
            if seen > 1 or (seen == 1 and touched[0] != a):
                for s in range(k if every else seen):
                    b = s if every else np.int64(touched[s])
                    if b != a and nodes[b] + size[i] <= largest:
                        here = own[i] * logs[b, b] - 2.0 * d * log_ends[b]
                        for c in touched:
                            here += 2.0 * near[c] * logs[b, c]
                        if here > high or (here == high and b < best):
                            best, high = b, here
            if best != a and exact_rise(table, ends, near, touched, own[i], d, a, best) <= 1e-8 * d:
                best = a
            if best != a and connected:
                stamp += 2
                best = best if holds(indptr, indices, labels, i, mark, stamp, stack) else a
            if best != a:
                b = best
                for c in touched:
                    if c != a and c != b:
                        table[a, c] -= near[c]
                        table[c, a] = table[a, c]
                        table[b, c] += near[c]
                        table[c, b] = table[b, c]
                table[a, a] -= 2.0 * near[a] + own[i]
                table[b, b] += 2.0 * near[b] + own[i]
                table[a, b] += near[a] - near[b]
                table[b, a] = table[a, b]
                list_[seen], list_[seen + 1] = a, b
                for c, sign in ((a, -1), (b, 1)):
                    ends[c] += sign * d
                    log_ends[c] = np.log(ends[c] + floor * k)
                    nodes[c] += sign * size[i]
                    members[c] += sign
                    for other in list_[: seen + 2]:
                        logs[c, other] = logs[other, c] = np.log(table[c, other] + floor)
                labels[i] = b
                moved += 1
                for e in range(indptr[i], indptr[i + 1]):
                    if labels[indices[e]] != b:
                        waiting[indices[e]] = True
            for c in touched:
                near[c] = 0.0
        if moved <= n // 1000:
            break


@compiled
def fit_sizes(level: Any, labels: Any, k: int, smallest: int, largest: int) -> None:
    """Nodes leave clusters of more than `largest` nodes and enter those below `smallest`; `labels` change in place.

    At first only those with no fewer edges there, then with half as many, and so on; a full cluster passes nodes on
    to smaller ones. At last nodes go to any cluster with room.
    """
    indptr, indices, weight, _, _, _ = level
    n = len(labels)
    sizes = np.zeros(k, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
    near, touched = np.zeros(k), np.empty(k, np.int32)
    share = 1.0
    for sweep in range(_FIT_SWEEPS + 2):
        if sizes.max() <= largest and sizes.min() >= smallest:
            break
        last, moved = sweep >= _FIT_SWEEPS, 0
        for i in range(n):
            a, seen = labels[i], 0
            if sizes[a] <= smallest:
                continue
            for e in range(indptr[i], indptr[i + 1]):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
            best, most = -1, -1.0
            for s in range(k if last else seen):
                b = s if last else touched[s]
                if (
                    b != a
                    and (sizes[a] > largest or sizes[b] < smallest)
                    and sizes[b] + 1 < sizes[a]
                    and (not last or sizes[b] < largest)
                    and (last or near[b] >= share * near[a])
                    and (near[b] > most or (near[b] == most and b < best))
                ):
                    best, most = b, near[b]
            for s in range(seen):
                near[touched[s]] = 0.0
            if best >= 0:
                labels[i] = best
                sizes[a] -= 1
                sizes[best] += 1
                moved += 1
        if moved == 0:
            share = share / 2.0 if share > 0.1 else 0.0
