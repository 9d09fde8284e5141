"""Compiled: local moves that raise modularity, refinement inside communities and aggregation (Traag et al., 2019).

A level is a graph as arrays: `indptr` and `indices` of the entries of A without the diagonal, their `weight`, the
weight `own` of the diagonal (what is inside a group, both directions), `degree` (row sums of both) and the `size` of a
group in nodes. Weights are whole numbers in float64: sums are the same in any order. `rank` is the place of each node
in an order that does not depend on its number (order.py); ties go to the lower rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled


@compiled
def move(
    indptr: Any,
    indices: Any,
    weight: Any,
    degree: Any,
    size: Any,
    rank: Any,
    labels: Any,
    scale: float,
    most: int,
) -> int:
    """Move nodes, one after another, to the community that raises modularity most; returns how many moved.

    `labels` changes in place. `scale` is resolution / 2m: a node gains w(i, C) - scale d_i d_C in community C. No
    community grows beyond `most` nodes.
    """
    n = len(degree)
    total, nodes = np.zeros(n), np.zeros(n, np.int64)
    for i in range(n):
        total[labels[i]] += degree[i]
        nodes[labels[i]] += size[i]
    empty = np.empty(n, np.int32)
    empties = 0
    for c in range(n - 1, -1, -1):
        if nodes[c] == 0:
            empty[empties] = c
            empties += 1
    # Nodes are visited by rank; those whose neighbours moved are visited again once all others were, by rank, too: the
    # order in which neighbours are listed must not matter.
    order, waiting = np.empty(n, np.int32), np.ones(n, np.bool_)
    for i in range(n):
        order[rank[i]] = i
    current, following = np.arange(n).astype(np.int32), np.empty(n, np.int32)
    count, ahead, moved = n, 0, 0
    near, touched = np.zeros(n), np.empty(n, np.int32)
    while count > 0:
        for at in range(count):
            i = order[current[at]]
            waiting[i] = False
            mine, d = labels[i], degree[i]
            begin, end = indptr[i], indptr[i + 1]
            seen = 0
            for e in range(begin, end):
                c = labels[indices[e]]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
            best, stay = mine, near[mine] - scale * d * (total[mine] - d)
            gain = stay
            for t in range(seen):
                c = touched[t]
                if c != mine:
                    score = near[c] - scale * d * total[c]
                    better = score > gain or (score == gain and score > stay and c < best)
                    if better and nodes[c] + size[i] <= most:
                        best, gain = c, score
                near[c] = 0.0
            if gain < 0.0 and nodes[mine] > size[i]:  # alone is better
                best, gain = empty[empties - 1], 0.0
            if best == mine or gain <= stay + 1e-12 * d:
                continue
            if nodes[best] == 0:
                empties -= 1
            total[mine] -= d
            nodes[mine] -= size[i]
            if nodes[mine] == 0:
                empty[empties] = mine
                empties += 1
            total[best] += d
            nodes[best] += size[i]
            labels[i] = best
            moved += 1
            for e in range(begin, end):
                j = indices[e]
                if not waiting[j] and labels[j] != best:
                    waiting[j] = True
                    following[ahead] = rank[j]
                    ahead += 1
        current, following = following, current
        count, ahead = ahead, 0
        current[:count] = np.sort(current[:count])
    return moved


@compiled
def refine(indptr: Any, indices: Any, weight: Any, degree: Any, rank: Any, labels: Any, scale: float) -> Any:
    """Smaller communities inside `labels`: nodes join one after another, only where both sides are well connected."""
    n = len(degree)
    inside = np.zeros(n)  # degree of each community
    for i in range(n):
        inside[labels[i]] += degree[i]
    fine = np.empty(n, np.int32)
    order = np.empty(n, np.int32)
    for i in range(n):
        order[rank[i]] = i
        fine[i] = rank[i]
    total = np.empty(n)  # degree of each part, and its weight to the rest of its community
    rest = np.zeros(n)
    alone = np.ones(n, np.bool_)
    for i in range(n):
        total[rank[i]] = degree[i]
        w = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] == labels[i]:
                w += weight[e]
        rest[rank[i]] = w
    near, touched = np.zeros(n), np.empty(n, np.int32)
    for at in range(n):
        i = order[at]
        mine, d = labels[i], degree[i]
        here = fine[i]
        if not alone[here] or rest[here] < scale * d * (inside[mine] - d) or rest[here] == 0.0:
            continue
        seen = 0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if labels[j] == mine:
                c = fine[j]
                if near[c] == 0.0:
                    touched[seen] = c
                    seen += 1
                near[c] += weight[e]
        best, gain = here, 0.0
        for t in range(seen):
            c = touched[t]
            if c != here and rest[c] >= scale * total[c] * (inside[mine] - total[c]):
                score = near[c] - scale * d * total[c]
                if score > gain or (score == gain and score > 0.0 and c < best):
                    best, gain = c, score
        to = near[best]
        for t in range(seen):
            near[touched[t]] = 0.0
        if best == here:
            continue
        alone[best] = False
        total[best] += d
        total[here] = 0.0
        rest[best] += rest[here] - 2.0 * to
        fine[i] = best
    return fine


@compiled
def numbered(labels: Any, rank: Any) -> Any:
    """Labels from 0 on, in the order in which nodes by rank meet them, and their number."""
    n, largest = len(labels), 0
    order = np.empty(n, np.int32)
    for i in range(n):
        order[rank[i]] = i
        largest = max(largest, labels[i])
    new = np.full(largest + 1, -1, np.int32)
    out = np.empty(n, np.int32)
    count = 0
    for at in range(n):
        i = order[at]
        if new[labels[i]] < 0:
            new[labels[i]] = count
            count += 1
        out[i] = new[labels[i]]
    return out, count


@compiled
def aggregate(indptr: Any, indices: Any, weight: Any, own: Any, size: Any, labels: Any, count: int) -> Any:
    """The level whose nodes are the groups `labels`, from 0 to count - 1."""
    n = len(labels)
    start = np.zeros(count + 1, np.int64)
    for i in range(n):
        start[labels[i] + 1] += 1
    for c in range(count):
        start[c + 1] += start[c]
    member, place = np.empty(n, np.int32), start[:-1].copy()
    for i in range(n):
        member[place[labels[i]]] = i
        place[labels[i]] += 1
    above = np.zeros(count + 1, np.int64)
    column, value = (
        np.empty(len(indices), np.int32),
        np.empty(len(indices)),
    )  # pages that are not written cost nothing
    inner, nodes, degree = np.zeros(count), np.zeros(count, np.int64), np.zeros(count)
    near, touched = np.zeros(count), np.empty(count, np.int32)
    filled = 0
    for c in range(count):
        seen = 0
        for m in range(start[c], start[c + 1]):
            i = member[m]
            inner[c] += own[i]
            nodes[c] += size[i]
            for e in range(indptr[i], indptr[i + 1]):
                d = labels[indices[e]]
                if d == c:
                    inner[c] += weight[e]
                else:
                    if near[d] == 0.0:
                        touched[seen] = d
                        seen += 1
                    near[d] += weight[e]
        total = inner[c]
        for t in range(seen):
            d = touched[t]
            column[filled] = d
            value[filled] = near[d]
            total += near[d]
            near[d] = 0.0
            filled += 1
        degree[c] = total
        above[c + 1] = filled
    return above, column[:filled].copy(), value[:filled].copy(), inner, degree, nodes


@compiled
def connected_parts(indptr: Any, indices: Any, labels: Any, rank: Any) -> Any:
    """Labels in which every connected piece of a label is one of its own, and their number."""
    n = len(labels)
    out, order, stack = np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(n):
        order[rank[i]] = i
    count = 0
    for at in range(n):
        i = order[at]
        if out[i] >= 0:
            continue
        out[i], stack[0], depth = count, i, 1
        while depth > 0:
            depth -= 1
            j = stack[depth]
            for e in range(indptr[j], indptr[j + 1]):
                k = indices[e]
                if out[k] < 0 and labels[k] == labels[i]:
                    out[k] = count
                    stack[depth] = k
                    depth += 1
        count += 1
    return out, count


@compiled
def optimise(
    indptr: Any,
    indices: Any,
    weight: Any,
    own: Any,
    degree: Any,
    size: Any,
    rank: Any,
    labels: Any,
    resolution: float,
    most: int,
    rounds: int,
) -> Any:
    """Communities [N] from 0 on, connected, from the start `labels` [N] (values below N), and their number.

    One round moves nodes, refines the communities, and goes on with the graph of the refined ones until nothing moves.
    """
    whole = 0.0
    for i in range(len(degree)):
        whole += degree[i]
    scale = resolution / whole if whole > 0.0 else 0.0
    labels = labels.copy()
    for _ in range(rounds):
        moved = move(indptr, indices, weight, degree, size, rank, labels, scale, most)
        lp, li, lw, lo, ld, ls, lr = indptr, indices, weight, own, degree, size, rank
        here, top = (
            labels,
            np.arange(len(labels)).astype(np.int32),
        )  # top: the group of each node at this level
        while True:
            fine, count = numbered(refine(lp, li, lw, ld, lr, here, scale), lr)
            if count == len(here):
                break
            # Groups begin in the community that their members moved to.
            above = np.empty(count, np.int32)
            for i in range(len(here)):
                above[fine[i]] = here[i]
            lp, li, lw, lo, ld, ls = aggregate(lp, li, lw, lo, ls, fine, count)
            for i in range(len(top)):
                top[i] = fine[top[i]]
            lr = np.arange(count).astype(np.int32)
            here, _ = numbered(above, lr)
            moved += move(lp, li, lw, ld, ls, lr, here, scale, most)
        for i in range(len(labels)):
            labels[i] = here[top[i]]
        if moved == 0:
            break
    return connected_parts(indptr, indices, labels, rank)


@compiled
def modularity(
    indptr: Any, indices: Any, weight: Any, own: Any, degree: Any, labels: Any, resolution: float
) -> float:
    """sum_C (w_C - resolution d_C^2 / 2m) / 2m, with w_C the weight inside."""
    n = len(labels)
    inside, whole, total = 0.0, 0.0, np.zeros(n)
    for i in range(n):
        inside += own[i]
        total[labels[i]] += degree[i]
        whole += degree[i]
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] == labels[i]:
                inside += weight[e]
    if whole == 0.0:
        return 0.0
    square = 0.0
    for c in range(n):
        square += (total[c] / whole) ** 2
    return inside / whole - resolution * square
