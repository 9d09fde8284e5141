"""Random graphs with the degrees of a given one: what its communities are compared with."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from softcut.communities.compiled import compiled
from softcut.communities.network import Network
from softcut.communities.order import mixed

_PASSES = 3  # swaps tried from each edge: with more, modularity falls no further
_FAST = 2_000_000  # edges from which on fewer swaps are tried


def rewired(network: Network, seed: int, kinds: np.ndarray | None = None) -> Network:
    """A random graph in which every node has as many neighbours as in `network`.

    Two edges exchange their ends, again and again, wherever that gives no loop and no edge twice; weights are dealt
    out anew and loops stay. With `kinds` [N], a whole number for each node such as users and movies, edges exchange
    ends, and weights, only with those between the same two kinds. The graph has no more components with edges than
    `network` where that is possible: a tree is compared with trees. It does not depend on the numbers of nodes.

    >>> import scipy.sparse as sp
    >>> ring = Network(sp.csr_array(np.roll(np.eye(6), 1, 0) + np.roll(np.eye(6), -1, 0)))
    >>> rewired(ring, 1).degree.tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    result = copy(network)
    vars(result).pop("colours", None)  # those of the graph before
    if network.edges < 2:
        return result
    rank = network.rank(seed)
    first, second, weight = edges_by_rank(network.indptr, network.indices, network.weight, rank)
    order = np.empty(network.nodes, dtype=np.int32)
    order[rank] = np.arange(network.nodes, dtype=np.int32)
    if kinds is None:
        bounds, flips = np.array([0, len(first)]), np.array([True])
    else:
        first, second, weight, bounds, flips = _by_kinds(first, second, weight, np.asarray(kinds)[order])
    passes = _PASSES if len(first) <= _FAST else 2
    pieces = connected(first, second, network.nodes)[1]
    state = exchange(first, second, bounds, flips, network.nodes, np.uint64(seed), passes)
    if len(flips) == 1:
        state = reconnect(first, second, network.nodes, pieces, flips[0], np.uint64(state))
    if (weight != weight[0]).any():
        deal(weight, bounds, np.uint64(state))
    first, second = order[first], order[second]
    result.indices, result.weight = entries(network.indptr, first, second, weight)
    sums = np.concatenate([[0.0], np.cumsum(result.weight)])
    result.degree = network.own + sums[network.indptr[1:]] - sums[network.indptr[:-1]]
    return result


def _by_kinds(
    first: np.ndarray, second: np.ndarray, weight: np.ndarray, kinds: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Edges that begin at the smaller kind, sorted by both; where each pair of kinds begins; which are of one kind."""
    kinds = np.unique(kinds, return_inverse=True)[1].reshape(-1)
    turned = kinds[first] > kinds[second]
    first, second = np.where(turned, second, first), np.where(turned, first, second)
    pair = kinds[first] * (int(kinds.max()) + 1) + kinds[second]
    order = np.argsort(pair, kind="stable")
    starts = np.unique(pair[order], return_index=True)[1]
    first, second, weight = first[order], second[order], weight[order]
    flips = kinds[first[starts]] == kinds[second[starts]]
    return first, second, weight, np.append(starts, len(pair)).astype(np.int64), flips


@compiled
def edges_by_rank(indptr: Any, indices: Any, weight: Any, rank: Any) -> Any:
    """Ends of the edges, as ranks, the lower one first, sorted by both, and their weights."""
    n, m = len(rank), len(indices) // 2
    order, at = np.empty(n, np.int32), np.zeros(n + 1, np.int64)
    for i in range(n):
        order[rank[i]] = i
        for e in range(indptr[i], indptr[i + 1]):
            if rank[indices[e]] > rank[i]:
                at[rank[i] + 1] += 1
    for r in range(n):
        at[r + 1] += at[r]
    first, second, worth = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m)
    for r in range(n):  # upper ends in order of rank, so that each row is filled in order
        j = order[r]
        for e in range(indptr[j], indptr[j + 1]):
            s = rank[indices[e]]
            if s < r:
                first[at[s]] = s
                second[at[s]] = r
                worth[at[s]] = weight[e]
                at[s] += 1
    return first, second, worth


@compiled
def home(key: int, shift: Any) -> Any:
    """The place of a table where the search for a key begins."""
    return np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> shift)


@compiled
def found(table: Any, shift: Any, key: int) -> Any:
    """Where a key is in the table, or the empty place where it would be."""
    mask = len(table) - 1
    at = home(key, shift)
    while table[at] != key and table[at] >= 0:
        at = (at + 1) & mask
    return at


@compiled
def remove(table: Any, shift: Any, key: int) -> None:
    """Take a key out; later keys close the gap, so that searches that passed it still arrive."""
    mask = len(table) - 1
    gap = found(table, shift, key)
    at = (gap + 1) & mask
    while table[at] >= 0:
        if ((at - home(table[at], shift)) & mask) >= ((at - gap) & mask):
            table[gap] = table[at]
            gap = at
        at = (at + 1) & mask
    table[gap] = -1


@compiled
def exchange(first: Any, second: Any, bounds: Any, flips: Any, n: int, seed: Any, passes: int) -> Any:
    """Exchange ends of edges in place: each edge with a random one of its group, `passes` times over.

    Groups of edges lie between `bounds`; those that `flips` may be read in both directions. Returns the state of the
    random numbers.
    """
    m = len(first)
    shift = np.uint64(62)
    size = 4
    while size < 2 * m:  # at most half full
        size *= 2
        shift -= np.uint64(1)
    table = np.full(size, -1, np.int64)
    for e in range(m):
        key = np.int64(min(first[e], second[e])) * n + max(first[e], second[e])
        table[found(table, shift, key)] = key
    step = np.uint64(0x9E3779B97F4A7C15)
    state = mixed(seed + step)
    for _ in range(passes):
        for g in range(len(flips)):
            start, flip = bounds[g], flips[g]
            count = np.uint64(bounds[g + 1] - start)
            for e in range(start, bounds[g + 1]):
                state += step
                drawn = mixed(state)
                f = start + np.int64(((drawn >> np.uint64(32)) * count) >> np.uint64(32))
                a, b, c, d = np.int64(first[e]), np.int64(second[e]), np.int64(first[f]), np.int64(second[f])
                turned = flip and (drawn & np.uint64(1)) == np.uint64(1)
                if turned:
                    c, d = d, c
                if a in (c, d) or b in (c, d):
                    continue
                new, other = min(a, d) * n + max(a, d), min(c, b) * n + max(c, b)
                if table[found(table, shift, new)] >= 0 or table[found(table, shift, other)] >= 0:
                    continue
                remove(table, shift, min(a, b) * n + max(a, b))
                remove(table, shift, min(c, d) * n + max(c, d))
                table[found(table, shift, new)] = new
                table[found(table, shift, other)] = other
                second[e] = d
                if turned:
                    first[f] = b
                else:
                    second[f] = b
    return state


@compiled
def deal(weight: Any, bounds: Any, state: Any) -> None:
    """Put the weights of each group of edges into a random order, in place."""
    step = np.uint64(0x9E3779B97F4A7C15)
    for g in range(len(bounds) - 1):
        start = bounds[g]
        for e in range(bounds[g + 1] - 1, start, -1):
            state += step
            choices = np.uint64(e - start + 1)
            f = start + np.int64(((mixed(state) >> np.uint64(32)) * choices) >> np.uint64(32))
            weight[e], weight[f] = weight[f], weight[e]


@compiled
def entries(indptr: Any, first: Any, second: Any, weight: Any) -> Any:
    """Columns and weights of the adjacency matrix of the edges, each row sorted; `indptr` says how long rows are."""
    n, m = len(indptr) - 1, len(first)
    column, value = np.empty(2 * m, np.int32), np.empty(2 * m)
    at = indptr[:-1].copy()
    for e in range(m):
        for i, j in ((first[e], second[e]), (second[e], first[e])):
            column[at[i]] = j
            value[at[i]] = weight[e]
            at[i] += 1
    indices, worth = np.empty(2 * m, np.int32), np.empty(2 * m)
    at = indptr[:-1].copy()
    for i in range(n):  # the transpose, which is the same matrix, fills its rows in order
        for e in range(indptr[i], indptr[i + 1]):
            j = column[e]
            indices[at[j]] = i
            worth[at[j]] = value[e]
            at[j] += 1
    return indices, worth


@compiled
def connected(first: Any, second: Any, n: int) -> Any:
    """A node that stands for the component of each node, the number of components with edges, and the edges that
    close a circle."""
    above, closes = np.arange(n), np.zeros(len(first), np.bool_)
    joined, busy = 0, np.zeros(n, np.bool_)
    for e in range(len(first)):
        a, b = first[e], second[e]
        busy[a] = busy[b] = True
        while above[a] != a:
            above[a] = above[above[a]]
            a = above[a]
        while above[b] != b:
            above[b] = above[above[b]]
            b = above[b]
        if a == b:
            closes[e] = True
        else:
            above[max(a, b)] = min(a, b)
            joined += 1
    for i in range(n):
        above[i] = above[above[i]]  # the smallest of a component is its own, and parents come before children
    return above, busy.sum() - joined, closes


@compiled
def reconnect(first: Any, second: Any, n: int, pieces: int, flip: bool, state: Any) -> Any:
    """Exchange ends until no more than `pieces` components with edges are left, if edges close enough circles.

    An edge that closes a circle and any edge of another component become two edges between them.
    """
    root, count, closes = connected(first, second, n)
    if count <= pieces:
        return state
    m = len(first)
    spare, size = np.zeros(n, np.int64), np.zeros(n + 1, np.int64)
    for e in range(m):
        spare[root[first[e]]] += closes[e]
        size[root[first[e]] + 1] += 1
    for i in range(n):
        size[i + 1] += size[i]
    place, member = size[:-1].copy(), np.empty(m, np.int64)
    for e in range(m):
        r = root[first[e]]
        member[place[r]] = e
        place[r] += 1
    pool, filled = np.empty(m, np.int64), 0
    begun = False
    for r in np.argsort(-spare, kind="mergesort"):  # those with most edges to spare first
        own = size[r + 1] - size[r]
        if own == 0 or count <= pieces:
            continue
        if begun:
            if filled == 0:
                break
            state = state + np.uint64(0x9E3779B97F4A7C15)
            draw = mixed(state)
            at = np.int64(draw % np.uint64(filled))
            e, f = pool[at], member[size[r] + np.int64((draw >> np.uint64(32)) % np.uint64(own))]
            filled -= 1
            pool[at] = pool[filled]
            if flip and draw >> np.uint64(63):
                first[f], second[f] = second[f], first[f]
            second[e], second[f] = second[f], second[e]
            count -= 1
        begun = True
        for i in range(size[r], size[r + 1]):
            if closes[member[i]]:
                pool[filled] = member[i]
                filled += 1
    return state
