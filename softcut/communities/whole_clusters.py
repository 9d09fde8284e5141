"""Compiled: pieces of clusters given to neighbouring clusters, and sizes of clusters kept within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.compiled import compiled


@compiled
def weight_inside(indptr: Any, indices: Any, weight: Any, own: Any, labels: Any, k: int) -> Any:
    """The weight inside each cluster, in both directions [K]."""
    inside = np.zeros(k)
    for i in range(len(labels)):
        inside[labels[i]] += own[i]
        for e in range(indptr[i], indptr[i + 1]):
            if labels[indices[e]] == labels[i]:
                inside[labels[i]] += weight[e]
    return inside


@compiled
def place(inside: Any, ends: Any, nodes: Any, weight: Any, size: Any, largest: int) -> Any:
    """The cluster of each whole component, one after another; `inside`, `ends` and `nodes` grow with them.

    I changes by weight times log(inside_c / ends_c^2) + a constant: the highest is taken, among clusters with room.
    """
    out = np.empty(len(weight), np.int32)
    for p in range(len(weight)):
        best, most, roomy = 0, -1.0, False
        for c in range(len(ends)):
            room = nodes[c] + size[p] <= largest
            here = inside[c] / max(ends[c], 1.0) ** 2
            if (room and not roomy) or (room == roomy and here > most):
                best, most, roomy = c, here, room
        out[p] = best
        inside[best] += weight[p]
        ends[best] += weight[p]
        nodes[best] += size[p]
    return out


@compiled
def largest_pieces(piece_size: Any, piece_degree: Any, owner: Any, k: int) -> Any:
    """Whether each piece is the largest of its cluster; of equal ones the first."""
    chosen = np.full(k, -1, np.int64)
    for p in range(len(owner)):
        c = chosen[owner[p]]
        if (
            c < 0
            or piece_size[p] > piece_size[c]
            or (piece_size[p] == piece_size[c] and piece_degree[p] > piece_degree[c])
        ):
            chosen[owner[p]] = p
    main = np.zeros(len(owner), np.bool_)
    for c in range(k):
        if chosen[c] >= 0:
            main[chosen[c]] = True
    return main


@compiled
def give_pieces(
    indptr: Any,
    indices: Any,
    weight: Any,
    degree: Any,
    size: Any,
    owner: Any,
    main: Any,
    ends: Any,
    order: Any,
    k: int,
    largest: int,
) -> int:
    """Pieces that are not the largest of their cluster join a neighbouring cluster in `owner`; how many found none.

    A piece goes where it has most edges for the degree of the cluster, one after another in the order given.
    `main` marks those that have their place; where no neighbour has room a piece waits for another round.
    """
    n = len(owner)
    nodes = np.zeros(k, np.int64)
    for p in range(n):
        if main[p]:
            nodes[owner[p]] += size[p]
    near, touched = np.zeros(k), np.empty(k, np.int32)
    changed, left = True, 0
    while changed:
        changed, left = False, 0
        for at in range(n):
            p = order[at]
            if main[p]:
                continue
            seen = 0
            for e in range(indptr[p], indptr[p + 1]):
                q = indices[e]
                if main[q]:
                    c = owner[q]
                    if near[c] == 0.0:
                        touched[seen] = c
                        seen += 1
                    near[c] += weight[e]
            best, most = -1, 0.0
            for s in range(seen):
                c = touched[s]
                here = near[c] / ends[c]
                if nodes[c] + size[p] <= largest and (here > most or (here == most and c < best)):
                    best, most = c, here
                near[c] = 0.0
            if best >= 0:
                owner[p], main[p] = best, True
                nodes[best] += size[p]
                changed = True
            else:
                left += 1
    return left


@compiled
def _wishes(
    indptr: Any,
    indices: Any,
    weight: Any,
    labels: Any,
    nodes: Any,
    ends: Any,
    smallest: int,
    largest: int,
    last: bool,
) -> Any:
    """For each node the cluster that it may enter so that sizes fit better, -1 for none, and how it would suit."""
    n, k = len(labels), len(nodes)
    near, touched = np.zeros(k), np.empty(k, np.int32)
    score, target = np.empty(n), np.empty(n, np.int32)
    for i in range(n):
        a, seen = labels[i], 0
        score[i], target[i] = -np.inf, -1
        if nodes[a] <= smallest:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            c = labels[indices[e]]
            if near[c] == 0.0:
                touched[seen] = c
                seen += 1
            near[c] += weight[e]
        stay = near[a] / max(ends[a], 1.0)
        for s in range(k if last else seen):
            b = s if last else touched[s]
            wanted = nodes[a] > largest or nodes[b] < smallest
            if b == a or not wanted or nodes[b] + 1 >= nodes[a] or (last and nodes[b] >= largest):
                continue
            here = near[b] / max(ends[b], 1.0) - stay
            if here > score[i] or (here == score[i] and b < target[i]):
                score[i], target[i] = here, b
        for s in range(seen):
            near[touched[s]] = 0.0
    return score, target


@compiled
def _granted(
    degree: Any,
    labels: Any,
    nodes: Any,
    ends: Any,
    order: Any,
    target: Any,
    smallest: int,
    largest: int,
    last: bool,
) -> None:
    """Move nodes to their target in the order given, while sizes fit better by it."""
    for s in range(len(order)):
        i = order[s]
        a, b = labels[i], target[i]
        if b < 0:
            break
        wanted = nodes[a] > largest or (nodes[b] < smallest and nodes[a] > smallest)
        if wanted and nodes[b] + 1 < nodes[a] and not (last and nodes[b] >= largest):
            labels[i] = b
            nodes[a] -= 1
            nodes[b] += 1
            ends[a] -= degree[i]
            ends[b] += degree[i]


def fit_sizes(level: Any, labels: np.ndarray, k: int, smallest: int, largest: int, sweeps: int) -> bool:
    """Nodes leave clusters of more than `largest` nodes and enter those below `smallest`; whether all fit.

    Those with most edges in the other cluster, for its degree, go first; a full cluster passes nodes on to smaller
    ones. At last nodes go to any cluster with room. `labels` change in place.
    """
    indptr, indices, weight, _, degree, _ = level
    for sweep in range(sweeps + 1):
        nodes = np.bincount(labels, minlength=k)
        if nodes.max() <= largest and nodes.min() >= smallest:
            return True
        ends, last = np.bincount(labels, degree, minlength=k), sweep == sweeps
        score, target = _wishes(indptr, indices, weight, labels, nodes, ends, smallest, largest, last)
        order = np.argsort(-score, kind="stable")
        _granted(degree, labels, nodes, ends, order, target, smallest, largest, last)
    nodes = np.bincount(labels, minlength=k)
    return bool(nodes.max() <= largest and nodes.min() >= smallest)


@compiled
def peel(indptr: Any, indices: Any, rank: Any, labels: Any, k: int, used: int) -> None:
    """Clusters `used` to `k` - 1 get a node each: the last of the largest cluster that a search from its first meets.

    What is left of a connected cluster without that node is connected.
    """
    n = len(labels)
    order, queue = np.empty(n, np.int32), np.empty(n, np.int32)
    nodes = np.zeros(k, np.int64)
    for i in range(n):
        order[rank[i]] = i
        nodes[labels[i]] += 1
    met = np.zeros(n, np.bool_)
    while used < k:
        a = 0
        for c in range(k):
            if nodes[c] > nodes[a]:
                a = c
        if nodes[a] < 2:
            return
        met[:] = False
        tail = 0
        for at in range(n):
            i = order[at]
            if labels[i] == a and not met[i]:
                head = tail
                queue[tail], met[i] = i, True
                tail += 1
                while head < tail:
                    j = queue[head]
                    head += 1
                    for e in range(indptr[j], indptr[j + 1]):
                        x = indices[e]
                        if labels[x] == a and not met[x]:
                            queue[tail], met[x] = x, True
                            tail += 1
        # The largest loses nodes, last first, while it is that.
        while used < k and tail > 1:
            tail -= 1
            labels[queue[tail]] = used
            nodes[a] -= 1
            nodes[used] = 1
            used += 1
            largest = True
            for c in range(k):
                largest = largest and nodes[c] <= nodes[a]
            if not largest:
                break
