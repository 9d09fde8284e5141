"""Groups of nodes merged one pair after another, so that the table of their edges loses as little as it can of G_e."""

from __future__ import annotations

from typing import Any

import numpy as np


def merge_steps(table: np.ndarray) -> np.ndarray:
    """Pairs (a, b) [groups - 1, 2] for S'AS of the groups: at each step b joins a, whose union loses least of G_e.

    With T the shares of the edges between groups and t those of their ends, I(T) = sum f(T_ab) - 2 sum f(t_a), where
    f(x) = x log x. A union of a and b changes it by what rows a and b bring together, group by group, so only pairs
    with a common neighbour change when two others are merged.
    """
    t = np.array(table, dtype=np.float64) / max(float(np.sum(table)), 1e-300)
    n, ends = len(t), t.sum(0)
    f, f_ends = _f(t), _f(ends)  # known for all that stays as it is
    # The gain of each union: common neighbours c bring f(T_ac + T_bc) - f(T_ac) - f(T_bc), twice.
    gain = np.zeros((n, n))
    for row, f_row in zip(t, f, strict=True):
        near = row.nonzero()[0]
        gain[near[:, None], near] += 2 * _together(row[near], f_row[near])
    gain += _pairs(t, f, ends, f_ends, np.arange(n))
    np.fill_diagonal(gain, -np.inf)
    best, steps = gain.argmax(1), np.empty((max(n - 1, 0), 2), dtype=np.int64)
    top = gain[np.arange(n), best]  # what the best union of each group gains
    for step in range(n - 1):
        one = int(top.argmax())
        a, b = sorted((one, int(best[one])))
        steps[step] = a, b
        near = (t[a] + t[b]).nonzero()[0]
        near = near[(near != a) & (near != b)]
        apart = _together(t[a, near], f[a, near]) + _together(t[b, near], f[b, near])
        t[a] += t[b]
        t[:, a] += t[:, b]
        ends[a] += ends[b]
        t[b] = t[:, b] = ends[b] = 0
        f[a] = f[:, a] = _f(t[a])
        f[b] = f[:, b] = f_ends[b] = 0
        f_ends[a] = _f(ends[a])
        gain[near[:, None], near] += 2 * (_together(t[a, near], f[a, near]) - apart)
        beside = np.append(near, a)
        common = _f(t[:, beside] + t[a, beside]) - f[:, beside] - f[a, beside]
        row = 2 * common.sum(1) + _pairs(t, f, ends, f_ends, a)
        row[a] = row[b] = row[gain[:, a] == -np.inf] = -np.inf  # itself, and groups that are gone
        gain[a] = gain[:, a] = row
        gain[b] = gain[:, b] = -np.inf
        stale = (best == a) | (best == b)
        stale[beside] = True
        rows = gain[stale]
        best[stale] = found = rows.argmax(1)
        top[stale] = rows[np.arange(len(rows)), found]
        top[b] = -np.inf
        better = row > top
        best[better], top[better] = a, row[better]
    return steps


def cut(steps: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] is in, after the merges that leave `k`."""
    cluster = np.arange(len(steps) + 1)
    used = steps[: max(0, len(cluster) - k)]
    for a, b in used[::-1]:  # the last first: a group that others joined knows its cluster
        cluster[b] = cluster[a]
    return np.unique(cluster, return_inverse=True)[1]


def _pairs(t: np.ndarray, f: np.ndarray, ends: np.ndarray, f_ends: np.ndarray, a: Any) -> np.ndarray:
    """What a union with group a changes in its own four entries and in its two ends, for each other group.

    `a` is a group, or several, of which each has a row in the result.
    """
    own, f_own = t.diagonal(), f.diagonal()
    mine, f_mine, end, f_end = (each[a][..., None] for each in (own, f_own, ends, f_ends))
    # Columns a and b are no common neighbours, they become the diagonal.
    sides = (_f(own + t[a]) - f_own - f[a]) + (_f(t[a] + mine) - f[a] - f_mine)
    corner = _f(own + mine + 2 * t[a]) - f_own - f_mine - 2 * f[a]
    return corner - 2 * sides - 2 * (_f(ends + end) - f_ends - f_end)


def _together(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """f(x_i + x_j) - f(x_i) - f(x_j) of all pairs, where f(x) is known."""
    return _f(x[:, None] + x) - f[:, None] - f


def _f(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1e-300))
