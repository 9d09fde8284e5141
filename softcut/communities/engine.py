"""Communities of a network at one resolution, of allowed sizes, and the levels above and below them."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from softcut.communities.compiled import compiled, interruptible
from softcut.communities.moves import aggregate, connected_parts, modularity, numbered, optimise
from softcut.communities.network import Network

_ROUNDS = 2  # of moves, refinement and aggregation: a third one adds next to nothing


def communities(
    network: Network,
    resolution: float = 1.0,
    seed: int = 0,
    *,
    smallest: int = 1,
    largest: int | None = None,
    start: np.ndarray | None = None,
) -> np.ndarray:
    """Labels [N] from 0 on of connected communities that raise modularity at a resolution (Traag et al., 2019).

    >>> import scipy.sparse as sp
    >>> triangles = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2, format="lil")
    >>> triangles[2, 3] = triangles[3, 2] = 1
    >>> communities(Network(sp.csr_array(triangles))).tolist()
    [0, 0, 0, 1, 1, 1]

    Parameters
    ----------
    network : Network
    resolution : float
        Higher values give more and smaller communities.
    seed : int
        Draws the order of the nodes.
    smallest, largest : int
        Sizes in nodes. Smaller communities join the neighbour with most edges to them that has room; those that have
        none stay.
    start : array [N], optional
        Labels to begin from; -1 for a node that is on its own at first.
    """
    rank = network.rank(seed)
    begin = rank.copy() if start is None else _begin(network, rank, np.asarray(start), largest)
    most = network.nodes if largest is None else largest
    with interruptible():
        labels, _ = optimise(*network.level, rank, begin, resolution, most, _ROUNDS)
    if smallest > 1:
        labels = joined(network, labels, smallest, most)
    return numbered_by_size(labels)


def _begin(network: Network, rank: np.ndarray, start: np.ndarray, largest: int | None) -> np.ndarray:
    """Connected labels below N to begin from; those that are too large are dissolved."""
    alone = start < 0
    labels = np.where(alone, start.max(initial=-1) + 1 + np.arange(len(start)), start)
    parts, _ = connected_parts(network.indptr, network.indices, labels.astype(np.int64), rank)
    if largest is not None:
        full = np.bincount(parts)[parts] > largest
        parts = np.where(full, parts.max() + 1 + rank, parts)
    return np.unique(parts, return_inverse=True)[1].reshape(-1).astype(np.int32)


def quality(network: Network, labels: np.ndarray, resolution: float = 1.0) -> float:
    """Modularity of labels [N] at a resolution."""
    return float(modularity(*network.level[:5], labels.astype(np.int32), resolution))


def numbered_by_size(labels: np.ndarray) -> np.ndarray:
    """The same labels, the largest first; of equal ones that of the first node."""
    found, first, which, count = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    place = np.empty(len(found), dtype=np.int64)
    place[np.lexsort((first, -count))] = np.arange(len(found))
    return place[which.reshape(-1)]


def joined(network: Network, labels: np.ndarray, smallest: int, most: int) -> np.ndarray:
    """Labels in which communities below `smallest` have joined the neighbour with most edges to them that has room.

    The smallest go first; what has no neighbour with room stays.
    """
    rank = network.rank(0)
    labels, count = numbered(labels.astype(np.int32), rank)
    while True:
        above = aggregate(*network.level[:4], network.size, labels, count)
        group, changed = join_small(above[0], above[1], above[2], above[5], smallest, most)
        if not changed:
            return labels
        labels, count = numbered(group[labels], rank)


@compiled
def join_small(indptr: Any, indices: Any, weight: Any, size: Any, smallest: int, most: int) -> Any:
    """Groups of groups [n] after one round of joining, and whether anything joined."""
    n = len(size)
    group, sizes = np.arange(n).astype(np.int32), size.copy()
    busy = np.zeros(n, np.bool_)  # joined in this round: its edges are counted anew before the next
    changed = False
    for c in np.argsort(size, kind="mergesort"):
        if size[c] >= smallest or busy[c]:
            continue
        best, most_edges = -1, 0.0
        for e in range(indptr[c], indptr[c + 1]):
            d = indices[e]
            if sizes[group[d]] + size[c] <= most and (
                weight[e] > most_edges or (weight[e] == most_edges and d < best)
            ):
                best, most_edges = d, weight[e]
        if best < 0 or group[best] == c:
            continue
        busy[c] = busy[best] = True
        group[c] = group[best]
        sizes[group[best]] += size[c]
        changed = True
    return group, changed


def coarser(
    network: Network, labels: np.ndarray, resolution: float, largest: int | None = None
) -> np.ndarray:
    """Communities of communities: labels [N], each of which holds whole ones of `labels`."""
    rank = network.rank(0)
    fine, count = numbered(labels.astype(np.int32), rank)
    indptr, indices, weight, own, degree, size = aggregate(*network.level[:4], network.size, fine, count)
    place = np.arange(count, dtype=np.int32)
    most = network.nodes if largest is None else largest
    level = (indptr, indices, weight, own, degree, size, place, place.copy())
    with interruptible():
        groups = optimise(*level, resolution, most, _ROUNDS)[0]
    return numbered_by_size(groups[fine])


def finer(network: Network, labels: np.ndarray, resolution: float, seed: int = 0) -> np.ndarray:
    """Communities inside communities: labels [N], each of which lies inside one of `labels`."""
    return communities(apart(network, labels), resolution, seed)


def apart(network: Network, labels: np.ndarray) -> Network:
    """The network without the edges between different labels; degrees stay what they are."""
    rows = np.repeat(np.arange(network.nodes), np.diff(network.indptr))
    inside = labels[rows] == labels[network.indices]
    part = copy(network)
    part.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[inside], minlength=network.nodes))])
    part.indices, part.weight = network.indices[inside], network.weight[inside]
    # What is left out counts as an edge to itself, which no move changes.
    outside = np.bincount(rows[~inside], network.weight[~inside], minlength=network.nodes)
    part.own = network.own + outside
    return part


@compiled
def adjusted_rand(a: Any, b: Any) -> float:
    """Adjusted Rand index of two labellings [N], from 0 on."""
    n = len(a)
    groups, others = 0, 0
    for i in range(n):
        groups, others = max(groups, a[i] + 1), max(others, b[i] + 1)
    start = np.zeros(groups + 1, np.int64)
    for i in range(n):
        start[a[i] + 1] += 1
    for c in range(groups):
        start[c + 1] += start[c]
    place, member = start[:-1].copy(), np.empty(n, np.int64)
    for i in range(n):
        member[place[a[i]]] = i
        place[a[i]] += 1
    count, total = np.zeros(others), np.zeros(others)
    both, first = 0.0, 0.0
    for c in range(groups):
        size = float(start[c + 1] - start[c])
        first += size * (size - 1)
        for m in range(start[c], start[c + 1]):
            count[b[member[m]]] += 1.0
        for m in range(start[c], start[c + 1]):
            d = b[member[m]]
            both += count[d] * (count[d] - 1)
            total[d] += count[d]
            count[d] = 0.0
    second = 0.0
    for d in range(others):
        second += total[d] * (total[d] - 1)
    pairs = float(n) * (n - 1)
    expected = first * second / pairs if pairs > 0 else 0.0
    highest = (first + second) / 2
    return (both - expected) / (highest - expected) if highest > expected else 1.0
