"""Compiled: moves of nodes, or of groups of nodes, among K clusters that raise what these say about the edges, G_e.

    I = sum_ab f(T_ab) - 2 sum_a f(t_a),   f(x) = x log x

with T the shares of the edges between clusters and t those of their ends; G_e is E times that, less a price that no
move changes. A level is a graph as arrays, as in moves.py; labels are numbers below K.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled
from softcut.communities.order import mixed

SEARCHED = 256  # nodes that are visited to see that a cluster stays in one piece without a node


@compiled
def term(x: float) -> float:
    """f(x) = x log x, 0 at 0."""
    return x * np.log(x) if x > 0.0 else 0.0


@compiled
def pair_table(indptr: Any, indices: Any, weight: Any, own: Any, labels: Any, k: int) -> Any:
    """Weights between clusters, S'AS [K, K]."""
    table = np.zeros((k, k))
    for i in range(len(labels)):
        a = labels[i]
        table[a, a] += own[i]
        for e in range(indptr[i], indptr[i + 1]):
            table[a, labels[indices[e]]] += weight[e]
    return table


@compiled
def information(table: Any) -> float:
    """Mutual information of the rows and columns of a symmetric table, in nats."""
    whole, joint, apart = 0.0, 0.0, 0.0
    for a in range(len(table)):
        end = 0.0
        for b in range(len(table)):
            end += table[a, b]
            joint += term(table[a, b])
        whole += end
        apart += term(end)
    return (joint - 2.0 * apart) / whole + np.log(whole) if whole > 0.0 else 0.0


@compiled
def row_sums(table: Any) -> Any:
    """The sums of the rows [K]."""
    out = np.zeros(len(table))
    for a in range(len(table)):
        for b in range(len(table)):
            out[a] += table[a, b]
    return out


@compiled
def logarithms(table: Any, prior: float) -> Any:
    """What an edge between two clusters says, log(T_ab / (t_a t_b)) [K, K], with `prior` / K^2 added to all T_ab."""
    k, whole = len(table), 1e-300
    ends, tells = row_sums(table), np.empty((len(table), len(table)))
    for a in range(k):
        whole += ends[a]
    for a in range(k):
        ends[a] = np.log(ends[a] / whole + prior / k)
    for a in range(k):
        for b in range(a + 1):
            tells[a, b] = tells[b, a] = np.log(table[a, b] / whole + prior / k**2) - ends[a] - ends[b]
    return tells


@compiled
def _best_of(
    touched: Any, seen: int, near: Any, tells: Any, inside: float, mine: int, score: Any, every: bool
) -> Any:
    """The cluster with the highest score for a node, and how much more it has than the node's own.

    An edge to another node stands twice in the table, what is inside a group moves with it.
    """
    k = len(tells)
    best, gain = mine, 0.0
    if every:
        for b in range(k):
            score[b] = inside * tells[b, b]
        for s in range(seen):
            c = touched[s]
            w = 2.0 * near[c]
            for b in range(k):
                score[b] += w * tells[c, b]
        now = score[mine]
        for b in range(k):
            if score[b] - now > gain:
                best, gain = b, score[b] - now
        return best, gain, now
    now = inside * tells[mine, mine]
    for s in range(seen):
        now += 2.0 * near[touched[s]] * tells[mine, touched[s]]
    for s in range(seen):
        b = touched[s]
        if b != mine:
            here = inside * tells[b, b]
            for u in range(seen):
                here += 2.0 * near[touched[u]] * tells[b, touched[u]]
            if here - now > gain or (here - now == gain and b < best):
                best, gain = b, here - now
    return best, gain, now


@compiled
def move_together(
    indptr: Any,
    indices: Any,
    weight: Any,
    own: Any,
    degree: Any,
    rank: Any,
    start: Any,
    k: int,
    every: bool,
    rounds: int,
    rise: float,
    fails: int,
    prior: float,
    seed: int,
) -> Any:
    """Labels [N] after rounds in which all nodes move at once, while I rises.

    Each goes where the table of the last round says most about its edges; once that no longer helps half of the nodes
    move, another half each time. `every`: to any cluster, not only to those of neighbours.
    """
    n = len(start)
    labels, proposed = start.copy(), start.copy()
    table = pair_table(indptr, indices, weight, own, labels, k)
    most = information(table)
    tells = logarithms(table, prior)
    near, touched, score = np.zeros(k), np.empty(k, np.int32), np.empty(k)
    other = labels.copy()  # where each node would go, from the table of the best labels so far
    failed, halves, known = 0, False, False
    for turn in range(rounds):
        if not known:
            for i in range(n):
                mine, seen = np.int64(labels[i]), 0
                for e in range(indptr[i], indptr[i + 1]):
                    c = labels[indices[e]]
                    if near[c] == 0.0:
                        touched[seen] = c
                        seen += 1
                    near[c] += weight[e]
                other[i] = mine
                if seen > 1 or (seen == 1 and touched[0] != mine):
                    best, gain, now = _best_of(touched, seen, near, tells, own[i], mine, score, every)
                    if gain > 1e-6 * abs(now):
                        other[i] = best
                for s in range(seen):
                    near[touched[s]] = 0.0
            known = True
        salt = mixed(np.uint64(seed * 1000 + turn) + np.uint64(0x51ED270B))
        for i in range(n):
            goes = not halves or mixed(np.uint64(rank[i]) ^ salt) & np.uint64(1) == np.uint64(1)
            proposed[i] = other[i] if goes else labels[i]
        table = pair_table(indptr, indices, weight, own, proposed, k)
        risen = information(table) - most
        if risen > 0.0:
            labels, proposed = proposed, labels
            most += risen
            tells = logarithms(table, prior)
            known = False
        if risen > rise * most:
            failed = 0
            continue
        failed, halves = failed + 1, True
        if failed == fails:
            break
    return labels


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
def exact_rise(
    table: Any, ends: Any, near: Any, touched: Any, seen: int, inside: float, d: float, a: int, b: int
) -> float:
    """By how much sum f(T_ab) - 2 sum f(t_a) changes when a node of degree `d` leaves cluster a for b.

    `near` are its weights to the clusters, itself left out, and `inside` the weight of its own diagonal.
    """
    change = 0.0
    for s in range(seen):
        c = touched[s]
        if c != a and c != b:
            w, x, y = near[c], table[a, c], table[b, c]
            change += term(x - w) - term(x) + term(y + w) - term(y)
    x, y, z = table[a, a], table[b, b], table[a, b]
    change = 2.0 * (change + term(z + near[a] - near[b]) - term(z))
    change += term(x - 2.0 * near[a] - inside) - term(x) + term(y + 2.0 * near[b] + inside) - term(y)
    return change - 2.0 * (term(ends[a] - d) - term(ends[a]) + term(ends[b] + d) - term(ends[b]))


@compiled
def move_singly(
    indptr: Any,
    indices: Any,
    weight: Any,
    own: Any,
    degree: Any,
    size: Any,
    rank: Any,
    labels: Any,
    k: int,
    every: bool,
    connected: bool,
    smallest: int,
    largest: int,
    sweeps: int,
    prior: float,
) -> int:
    """Nodes move one after another while I rises, by its exact change; `labels` change in place; how many moved.

    No cluster grows beyond `largest` nodes or shrinks below `smallest`, none vanishes, and with `connected` none that
    is in one piece falls apart.
    """
    n = len(labels)
    table = pair_table(indptr, indices, weight, own, labels, k)
    ends, nodes, members = row_sums(table), np.zeros(k, np.int64), np.zeros(k, np.int64)
    for i in range(n):
        nodes[labels[i]] += size[i]
        members[labels[i]] += 1
    whole = 1.0
    for c in range(k):
        whole += ends[c]
    floor = whole * prior / k**2
    logs, log_ends = np.empty((k, k)), np.empty(k)
    for c in range(k):
        log_ends[c] = np.log(ends[c] + floor * k)
        for e in range(k):
            logs[c, e] = np.log(table[c, e] + floor)
    queue, waiting = np.empty(n, np.int32), np.ones(n, np.bool_)
    near, touched = np.zeros(k), np.empty(k, np.int32)
    mark, stamp, stack = np.zeros(n, np.int64), 1, np.empty(SEARCHED, np.int32)
    moved = 0
    for _ in range(sweeps):
        for i in range(n):
            queue[rank[i]] = i
            waiting[i] = True
        first, count, before = 0, n, moved
        budget = 4 * n  # visits of one sweep
        while count > 0 and budget > 0:
            budget -= 1
            i = queue[first]
            first = first + 1 if first + 1 < n else 0
            count -= 1
            waiting[i] = False
            a: Any = np.int64(labels[i])
            d, seen = degree[i], 0
            if members[a] == 1 or nodes[a] - size[i] < smallest:
                continue
            for e in range(indptr[i], indptr[i + 1]):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
            best: Any = a
            gain = 1e-8 * d
            if seen > 1 or (seen == 1 and touched[0] != a):
                # The two clusters whose logarithms suit best are looked at exactly.
                one, two, high, second = -1, -1, -np.inf, -np.inf
                for s in range(k if every else seen):
                    b = s if every else touched[s]
                    if b == a or nodes[b] + size[i] > largest:
                        continue
                    here = own[i] * logs[b, b] - 2.0 * d * log_ends[b]
                    for u in range(seen):
                        c = touched[u]
                        here += 2.0 * near[c] * logs[b, c]
                    if here > high or (here == high and b < one):
                        two, second = one, high
                        one, high = b, here
                    elif here > second or (here == second and b < two):
                        two, second = b, here
                for x in (one, two):
                    if x >= 0:
                        change = exact_rise(table, ends, near, touched, seen, own[i], d, a, x)
                        if change > gain:
                            best, gain = x, change
            if best != a and connected:
                stamp += 2
                if not holds(indptr, indices, labels, i, mark, stamp, stack):
                    best = a
            if best != a:
                b = int(best)
                for s in range(seen):
                    c = touched[s]
                    if c != a and c != b:
                        table[a, c] -= near[c]
                        table[c, a] = table[a, c]
                        table[b, c] += near[c]
                        table[c, b] = table[b, c]
                table[a, a] -= 2.0 * near[a] + own[i]
                table[b, b] += 2.0 * near[b] + own[i]
                table[a, b] += near[a] - near[b]
                table[b, a] = table[a, b]
                ends[a] -= d
                ends[b] += d
                nodes[a] -= size[i]
                nodes[b] += size[i]
                members[a] -= 1
                members[b] += 1
                for s in range(seen + 2):
                    other: Any = np.int64(touched[s]) if s < seen else (a if s == seen else b)
                    logs[a, other] = logs[other, a] = np.log(table[a, other] + floor)
                    logs[b, other] = logs[other, b] = np.log(table[b, other] + floor)
                log_ends[a], log_ends[b] = np.log(ends[a] + floor * k), np.log(ends[b] + floor * k)
                labels[i] = b
                moved += 1
                for e in range(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    if not waiting[j] and labels[j] != b:
                        waiting[j] = True
                        at = first + count
                        queue[at if at < n else at - n] = j
                        count += 1
            for s in range(seen):
                near[touched[s]] = 0.0
        if moved - before <= n // 1000:
            break
    return moved
