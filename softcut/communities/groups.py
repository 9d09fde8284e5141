"""Small groups of nodes, which clusters are made of: joined by local moves, in one piece each, as many as asked for."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from softcut.communities.moves import aggregate, connected_parts, move, numbered, optimise
from softcut.communities.network import Network

_UNIT = 2**40
_STUCK = 0.97  # groups for each node of a level where next to nothing can be joined


def places(n: int) -> np.ndarray:
    """Numbers from 0 on [N]."""
    return np.arange(n, dtype=np.int32)


def pieces(network: Network, labels: np.ndarray) -> np.ndarray:
    """Labels in which every connected piece of a label is one of its own."""
    return connected_parts(network.indptr, network.indices, labels, places(network.nodes))[0]


def grouped(network: Network, wanted: int, seed: int = 0) -> list[np.ndarray]:
    """Groups [N] of groups, from the smallest; the last are about as many as wanted, half as many at least.

    No group has more than its share of the edges and nodes.
    """
    level, n = network.level, network.nodes
    whole = float(level[4].sum())
    share = np.rint((level[4] / whole + 1 / n) * _UNIT).astype(np.int64)
    rank = np.random.default_rng(seed).permutation(n).astype(np.int32) if seed else places(n)
    found: list[np.ndarray] = []
    labels = places(n)
    while len(share) > wanted:
        here = rank.copy()
        move(*level[:3], level[4], share, rank, here, 1 / whole, 2 * _UNIT // wanted)
        here, count = numbered(here, rank)
        if count > _STUCK * len(share):
            break
        *level, share = aggregate(*level[:4], share, here, count)
        level.append(share)
        labels = here[labels]
        rank = places(count)
        found.append(labels)
    return found or [labels]


def at_most(labels: np.ndarray, degree: np.ndarray, limit: int) -> np.ndarray:
    """Labels of which there are not more than the limit: the smallest share one."""
    place = np.argsort(np.argsort(-np.bincount(labels, degree), kind="stable"))
    half = limit // 2
    return np.where(place < limit, place, half + place % half).astype(np.int32)[labels]


def whole(network: Network, labels: np.ndarray) -> np.ndarray:
    """Labels that are in one piece each: all pieces but the largest go to the neighbour that has most of their edges.

    Components that hold no largest piece are labels of their own.
    """
    piece = pieces(network, labels)
    count = int(piece.max()) + 1
    if count == len(np.unique(labels)):
        return labels
    owner = np.empty(count, np.int64)
    owner[piece] = labels
    indptr, indices, weight, _, degree, size = aggregate(*network.level[:4], network.size, piece, count)
    first = np.lexsort((-degree, -size, owner))
    main = np.zeros(count, bool)
    main[first[np.unique(owner[first], return_index=True)[1]]] = True
    ends = np.bincount(owner[main], degree[main])
    edges = sp.csr_array((weight, indices, indptr), shape=(count, count))
    while not main.all():
        held = np.flatnonzero(main)
        member = sp.csr_array((1 / ends[owner[held]], (held, owner[held])), shape=(count, len(ends)))
        near = (edges[~main] @ member).tocoo()
        if not near.nnz:
            break
        rows = np.flatnonzero(~main)[near.row]
        at = np.lexsort((near.col, -near.data, rows))
        at = at[np.unique(rows[at], return_index=True)[1]]
        owner[rows[at]], main[rows[at]] = near.col[at], True
    if not main.all():
        component, _ = connected_parts(indptr, indices, np.zeros(count, np.int32), places(count))
        owner = np.where(main, owner, len(ends) + component)
    return np.unique(owner, return_inverse=True)[1].reshape(-1).astype(np.int32)[piece]


def counted_communities(network: Network, k: int, seed: int, largest: int) -> np.ndarray:
    """`k` connected communities: at a resolution that gives more, of which neighbours are joined."""
    n = network.nodes
    rank = np.random.default_rng(seed).permutation(n).astype(np.int32)
    for resolution in k / 4 * 2.0 ** np.arange(20):
        labels, count = optimise(*network.level, rank, rank.copy(), float(resolution), largest, 1)
        if count >= k:
            break
    else:
        labels, count = places(n), n
    while count > k:
        labels, count = _paired(network, labels, count - k, largest)
    return labels


def _paired(network: Network, labels: np.ndarray, fewer: int, largest: int) -> tuple[np.ndarray, int]:
    """Labels after at most `fewer` unions of two, those that lose least modularity first; each is in one at most."""
    count = int(labels.max()) + 1
    indptr, indices, weight, _, degree, size = aggregate(*network.level[:4], network.size, labels, count)
    one = np.repeat(places(count), np.diff(indptr))
    kept = (one < indices) & (size[one] + size[indices] <= largest)
    one, two = one[kept], indices[kept]
    gain = weight[kept] - degree[one] * degree[two] / degree.sum()
    order = np.argsort(-gain, kind="stable")
    if not len(order):  # nothing left with an edge between: the smallest
        by_size = np.argsort(size, kind="stable")
        one, two = by_size[:-1:2], by_size[1::2]
        order = np.arange(len(two))
    group, free = places(count), np.ones(count, bool)
    for a, b in zip(one[order].tolist(), two[order].tolist(), strict=True):
        if fewer and free[a] and free[b]:
            group[b], free[a], free[b] = a, False, False
            fewer -= 1
    return numbered(group[labels], places(network.nodes))
