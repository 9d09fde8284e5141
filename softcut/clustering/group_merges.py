"""Groups of nodes merged one pair after another, so that the table of their edges loses as little as it can of G_e."""

from __future__ import annotations

import numpy as np


def merge_steps(table: np.ndarray) -> np.ndarray:
    """Pairs (a, b) [groups - 1, 2] for S'AS of the groups: at each step b joins a, whose union loses least of G_e.

    With T the shares of the edges between groups and t those of their ends, I(T) = sum f(T_ab) - 2 sum f(t_a), where
    f(x) = x log x. A union of a and b changes it by what rows a and b bring together, group by group, so only pairs
    with a common neighbour change when two others are merged.
    """
    t = np.array(table, dtype=np.float64) / max(float(np.sum(table)), 1e-300)
    n, ends = len(t), t.sum(0)
    # The gain of each union: common neighbours c bring f(T_ac + T_bc) - f(T_ac) - f(T_bc), twice.
    gain = np.zeros((n, n))
    for values in t:
        near = values.nonzero()[0]
        gain[np.ix_(near, near)] += 2 * _union(values[near, None], values[near])
    for a in range(n):
        gain[a] += _pair(t, ends, a)
    np.fill_diagonal(gain, -np.inf)
    best, steps = gain.argmax(1), np.empty((max(n - 1, 0), 2), dtype=np.int64)
    for step in range(n - 1):
        one = int(gain[np.arange(n), best].argmax())
        a, b = sorted((one, int(best[one])))
        steps[step] = a, b
        near = np.flatnonzero(t[a] + t[b])
        near = near[(near != a) & (near != b)]
        u, v = t[near, a], t[near, b]
        apart = _union(u[:, None], u) + _union(v[:, None], v)
        gain[np.ix_(near, near)] += 2 * (_union((u + v)[:, None], u + v) - apart)
        t[a], ends[a] = t[a] + t[b], ends[a] + ends[b]
        t[:, a] += t[:, b]
        t[b] = t[:, b] = ends[b] = 0
        beside = np.append(near, a)
        row = 2 * _union(t[:, beside], t[a, beside]).sum(1) + _pair(t, ends, a)
        row[a] = row[gain[:, a] == -np.inf] = -np.inf  # itself, and groups that are gone
        gain[a] = gain[:, a] = row
        gain[b] = gain[:, b] = -np.inf
        stale = np.union1d(beside, np.flatnonzero((best == a) | (best == b)))
        best[stale] = gain[stale].argmax(1)
        best = np.where(row > gain[np.arange(n), best], a, best)
    return steps


def cut(steps: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] is in, after the merges that leave `k`."""
    cluster = np.arange(len(steps) + 1)
    used = steps[: max(0, len(cluster) - k)]
    for a, b in used[::-1]:  # the last first: a group that others joined knows its cluster
        cluster[b] = cluster[a]
    return np.unique(cluster, return_inverse=True)[1]


def _pair(t: np.ndarray, ends: np.ndarray, a: int) -> np.ndarray:
    """What a union with group a changes in its own four entries and in its two ends, for each other group."""
    own = t.diagonal()
    # Columns a and b are no common neighbours, they become the diagonal.
    sides = _union(own, t[a]) + _union(t[a], own[a])
    corner = _f(own + own[a] + 2 * t[a]) - _f(own) - _f(own[a]) - 2 * _f(t[a])
    return corner - 2 * sides - 2 * _union(ends, ends[a])


def _union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _f(a + b) - _f(a) - _f(b)


def _f(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1e-300))
