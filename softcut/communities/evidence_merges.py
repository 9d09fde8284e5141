"""Compiled: groups merged so that G_e loses as little as it can."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled
from softcut.communities.evidence_moves import term

# Unions that are made only where no other is left, the last kind last; a union changes I by less than 100 nats.
_APART, _TOO_LARGE = 1e3, 1e5


@compiled
def merge_steps(table: Any, size: Any, adjacent: bool, largest: int) -> Any:
    """Pairs (a, b) [groups - 1, 2] for S'AS of the groups: at each step b joins a, whose union loses least of G_e.

    With T the shares of the edges between groups and t those of their ends, I(T) = sum f(T_ab) - 2 sum f(t_a), where
    f(x) = x log x. A union of a and b changes it by what rows a and b bring together, group by group, so only pairs
    with a common neighbour change when two others are merged. Groups of more than `largest` nodes together, and with
    `adjacent` those without an edge between them, are merged when nothing else is left.
    """
    n, nodes, whole = len(table), size.copy(), float(size.sum())
    t = table / max(table.sum(), 1e-300)
    ends = np.zeros(n)
    steps = np.empty((max(n - 1, 0), 2), np.int64)
    f, f_ends, gain = np.zeros((n, n)), np.zeros(n), np.zeros((n, n))
    for a in range(n):
        ends[a] = t[a].sum()
        f_ends[a] = term(ends[a])
        for b in range(n):
            f[a, b] = term(t[a, b])
    for c in range(n):
        near = np.flatnonzero(t[c])
        for u in range(len(near)):
            for v in range(u):
                gain[near[u], near[v]] += 2.0 * _together(t[c], f[c], near[u], near[v])
    for a in range(n):
        gain[a, a] = -np.inf
        for b in range(a):
            gain[a, b] += _pair(t, f, ends, f_ends, a, b) - _unwanted(
                t, nodes, a, b, adjacent, largest, whole
            )
            gain[b, a] = gain[a, b]
    alive: Any = np.arange(n)
    best, top = np.zeros(n, np.int64), np.full(n, -np.inf)
    for a in range(n):
        best[a] = np.argmax(gain[a])
        top[a] = gain[a, best[a]]
    for step in range(n - 1):
        one: Any = np.argmax(top)
        a, b = min(one, best[one]), max(one, best[one])
        steps[step, 0], steps[step, 1] = a, b
        alive = alive[alive != b]
        t_a, t_b, f_a, f_b = t[a].copy(), t[b].copy(), f[a].copy(), f[b].copy()
        t[a, a] += t[b, b] + 2.0 * t[a, b]
        f[a, a] = term(t[a, a])
        for c in alive:
            if c != a:
                t[a, c] += t[b, c]
                t[c, a] = t[a, c]
                f[a, c] = f[c, a] = term(t[a, c])
        ends[a] += ends[b]
        f_ends[a] = term(ends[a])
        nodes[a] += nodes[b]
        t[b], t[:, b], gain[b], gain[:, b], top[b] = 0.0, 0.0, -np.inf, -np.inf, -np.inf
        beside: Any = np.flatnonzero(t[a])
        near = beside[beside != a]
        for u, c in enumerate(near):
            for d in near[:u]:
                here = _together(t[a], f[a], c, d) - _together(t_a, f_a, c, d) - _together(t_b, f_b, c, d)
                gain[c, d] += 2.0 * here
                gain[d, c] = gain[c, d]
        row = np.zeros(n)
        for c in beside:
            for d in alive:
                row[d] += 2.0 * _together(t[c], f[c], a, d)
        for c in alive:
            if c != a:
                here = row[c] + _pair(t, f, ends, f_ends, a, c)
                here -= _unwanted(t, nodes, a, c, adjacent, largest, whole)
                gain[a, c] = gain[c, a] = here
        for c in alive:
            if c == a or best[c] == a or best[c] == b or t[a, c] > 0.0:
                best[c] = np.argmax(gain[c])
                top[c] = gain[c, best[c]]
            elif gain[c, a] > top[c]:
                best[c], top[c] = a, gain[c, a]
    return steps


@compiled
def _together(t: Any, f: Any, a: int, b: int) -> float:
    """What one row of the table gains by the union of its columns a and b."""
    return term(t[a] + t[b]) - f[a] - f[b] if t[a] > 0.0 and t[b] > 0.0 else 0.0


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
def _unwanted(t: Any, nodes: Any, a: int, b: int, adjacent: bool, largest: int, whole: float) -> float:
    """How much less a union is worth because it should not be made."""
    less = _APART if adjacent and t[a, b] == 0.0 else 0.0
    if nodes[a] + nodes[b] > largest:  # the smallest of these first
        less += _TOO_LARGE * (1.0 + (nodes[a] + nodes[b]) / whole)
    return less


def cut(steps: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] is in, after the merges that leave `k`."""
    cluster = np.arange(len(steps) + 1)
    used = steps[: max(0, len(cluster) - k)]
    for a, b in used[::-1]:  # the last first: a group that others joined knows its cluster
        cluster[b] = cluster[a]
    return np.unique(cluster, return_inverse=True)[1].astype(np.int32)
