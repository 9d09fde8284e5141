"""Compiled: nodes joined into groups of bounded size, and groups merged so that G_e loses as little as it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled
from softcut.communities.evidence_moves import term

# Unions that are made only where no other is left, the last kind last; a union changes I by less than 100 nats.
_APART, _OUTSIDE, _TOO_LARGE = 1e3, 1e5, 1e7


@compiled
def join(
    indptr: Any,
    indices: Any,
    weight: Any,
    degree: Any,
    size: Any,
    rank: Any,
    within: Any,
    scale: float,
    room: float,
    largest: int,
    passes: int,
) -> Any:
    """Groups [N] of nodes that share more edges than their degrees let expect, inside the clusters `within`.

    A node gains w(i, C) - scale d_i d_C in group C, as in moves.py. No group grows beyond degree `room` or `largest`
    nodes.
    """
    n = len(degree)
    labels, order = np.empty(n, np.int32), np.empty(n, np.int32)
    total, nodes = np.empty(n), np.empty(n, np.int64)
    for i in range(n):
        labels[i] = rank[i]
        order[rank[i]] = i
        total[rank[i]] = degree[i]
        nodes[rank[i]] = size[i]
    near, touched = np.zeros(n), np.empty(n, np.int32)
    for _ in range(passes):
        moved = 0
        for at in range(n):
            i = order[at]
            mine, d, seen = labels[i], degree[i], 0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                if within[j] == within[i]:
                    c = labels[j]
                    if near[c] == 0.0:
                        touched[seen] = c
                        seen += 1
                    near[c] += weight[e]
            stay = near[mine] - scale * d * (total[mine] - d)
            best, gain = mine, stay + 1e-9 * d
            for s in range(seen):
                c = touched[s]
                if c != mine and total[c] + d <= room and nodes[c] + size[i] <= largest:
                    here = near[c] - scale * d * total[c]
                    if here > gain or (here == gain and c < best):
                        best, gain = c, here
                near[c] = 0.0
            if best != mine:
                total[mine] -= d
                nodes[mine] -= size[i]
                total[best] += d
                nodes[best] += size[i]
                labels[i] = best
                moved += 1
        if moved <= n // 1000:
            break
    return labels


@compiled
def _pair(t: Any, f: Any, ends: Any, f_ends: Any, a: int, b: int) -> float:
    """What a union of a and b changes in its own four entries and in its two ends.

    Columns a and b are no common neighbours, they become the diagonal.
    """
    x, y, z = t[a, a], t[b, b], t[a, b]
    sides = term(y + z) - f[b, b] - f[a, b] + term(z + x) - f[a, b] - f[a, a]
    corner = term(x + y + 2.0 * z) - f[a, a] - f[b, b] - 2.0 * f[a, b]
    return corner - 2.0 * sides - 2.0 * (term(ends[a] + ends[b]) - f_ends[a] - f_ends[b])


@compiled
def _unwanted(
    t: Any, part: Any, nodes: Any, a: int, b: int, adjacent: bool, largest: int, whole: float
) -> float:
    """How much less a union is worth because it should not be made."""
    less = _APART if adjacent and t[a, b] == 0.0 else 0.0
    if part[a] != part[b]:
        less += _OUTSIDE
    if nodes[a] + nodes[b] > largest:  # the smallest of these first
        less += _TOO_LARGE * (1.0 + (nodes[a] + nodes[b]) / whole)
    return less


def merge_steps(
    table: np.ndarray, nodes: np.ndarray, part: np.ndarray, adjacent: bool, largest: int
) -> np.ndarray:
    """Pairs (a, b) [groups - 1, 2] for S'AS of the groups: at each step b joins a, whose union loses least of G_e.

    With T the shares of the edges between groups and t those of their ends, I(T) = sum f(T_ab) - 2 sum f(t_a), where
    f(x) = x log x. A union of a and b changes it by what rows a and b bring together, group by group, so only pairs
    with a common neighbour change when two others are merged. Groups of different `part`, of more than `largest` of
    their `nodes` together, and with `adjacent` without an edge between them, are merged when nothing else is left.
    """
    shares = table / max(float(table.sum()), 1e-300)
    whole = float(max(int(nodes.sum()), 1))
    return _merge_steps(shares, shares.sum(axis=0), nodes.copy(), part, adjacent, largest, whole)


@compiled
def _best_in(gain: Any, a: int, alive: Any, left: int) -> Any:
    """The group of `alive` whose union with a gains most, and what it gains.

    Of equal ones the first after a: if all took the first one, all would have to look anew once it is merged.
    """
    best, top, before, most = alive[0], -np.inf, alive[0], -np.inf
    for u in range(left):
        c = alive[u]
        if c > a:
            if gain[a, c] > top:
                best, top = c, gain[a, c]
        elif gain[a, c] > most:
            before, most = c, gain[a, c]
    if most > top:
        best, top = before, most
    return best, top


@compiled
def _merge_steps(t: Any, ends: Any, nodes: Any, part: Any, adjacent: bool, largest: int, whole: float) -> Any:
    """The steps; `t`, `ends` and `nodes` are used up."""
    n = len(t)
    steps = np.empty((max(n - 1, 0), 2), np.int64)
    f, f_ends, gain = np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
    for a in range(n):
        f_ends[a] = term(ends[a])
        for b in range(n):
            f[a, b] = term(t[a, b])
    near = np.empty(n, np.int64)
    apart = np.empty((n, n))  # what pairs of neighbours of the two lose, before their union
    for c in range(n):
        seen = 0
        for a in range(n):
            if t[c, a] > 0.0:
                near[seen] = a
                seen += 1
        for u in range(seen):
            a = near[u]
            for v in range(u):
                b = near[v]
                gain[a, b] += 2.0 * (term(t[c, a] + t[c, b]) - f[c, a] - f[c, b])
    best, top = np.zeros(n, np.int64), np.full(n, -np.inf)
    for a in range(n):
        gain[a, a] = -np.inf
        for b in range(a):
            here = gain[a, b] + _pair(t, f, ends, f_ends, a, b)
            gain[a, b] = gain[b, a] = here - _unwanted(t, part, nodes, a, b, adjacent, largest, whole)
    alive, left, row, stale = np.arange(n), n, np.empty(n), np.zeros(n, np.bool_)
    for a in range(n):
        best[a], top[a] = _best_in(gain, a, alive, left)
    for step in range(n - 1):
        one = alive[0]
        for u in range(left):
            if top[alive[u]] > top[one]:
                one = alive[u]
        a, b = min(one, best[one]), max(one, best[one])
        steps[step, 0], steps[step, 1] = a, b
        seen = 0
        for u in range(left):
            c = alive[u]
            if c != a and c != b and t[a, c] + t[b, c] > 0.0:
                near[seen] = c
                seen += 1
        for u in range(seen):
            c = near[u]
            for v in range(u):
                d = near[v]
                x = 0.0
                if t[a, c] > 0.0 and t[a, d] > 0.0:
                    x += term(t[a, c] + t[a, d]) - f[a, c] - f[a, d]
                if t[b, c] > 0.0 and t[b, d] > 0.0:
                    x += term(t[b, c] + t[b, d]) - f[b, c] - f[b, d]
                apart[u, v] = x
        at = 0  # b leaves the list
        for u in range(left):
            if alive[u] != b:
                alive[at] = alive[u]
                at += 1
        left -= 1
        t[a, a] += t[b, b] + 2.0 * t[a, b]
        for u in range(left):
            c = alive[u]
            if c != a:
                t[a, c] += t[b, c]
                t[c, a] = t[a, c]
            t[b, c] = t[c, b] = f[b, c] = f[c, b] = 0.0
            f[a, c] = f[c, a] = term(t[a, c])
        t[b, b] = f[b, b] = f_ends[b] = 0.0
        ends[a] += ends[b]
        ends[b] = 0.0
        f_ends[a] = term(ends[a])
        nodes[a] += nodes[b]
        for u in range(seen):
            c = near[u]
            for v in range(u):
                d = near[v]
                here = 2.0 * (term(t[a, c] + t[a, d]) - f[a, c] - f[a, d] - apart[u, v])
                gain[c, d] += here
                gain[d, c] = gain[c, d]
        for u in range(left):
            row[alive[u]] = 0.0
        for u in range(seen + 1):
            c = near[u] if u < seen else a
            x = t[a, c]
            if x > 0.0:
                for v in range(left):
                    d = alive[v]
                    if t[c, d] > 0.0:
                        row[d] += 2.0 * (term(t[c, d] + x) - f[c, d] - f[a, c])
        for u in range(left):
            c = alive[u]
            stale[c] = best[c] == a or best[c] == b
            if c != a:
                here = row[c] + _pair(t, f, ends, f_ends, a, c)
                gain[a, c] = gain[c, a] = here - _unwanted(t, part, nodes, a, c, adjacent, largest, whole)
            gain[b, c] = gain[c, b] = -np.inf
        stale[a] = True
        for u in range(seen):
            stale[near[u]] = True
        top[b] = -np.inf
        for u in range(left):
            c = alive[u]
            if stale[c]:
                best[c], top[c] = _best_in(gain, c, alive, left)
            elif gain[c, a] > top[c]:
                best[c], top[c] = a, gain[c, a]
    return steps


def cut(steps: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] is in, after the merges that leave `k`."""
    cluster = np.arange(len(steps) + 1)
    used = steps[: max(0, len(cluster) - k)]
    for a, b in used[::-1]:  # the last first: a group that others joined knows its cluster
        cluster[b] = cluster[a]
    return np.unique(cluster, return_inverse=True)[1].astype(np.int32)
