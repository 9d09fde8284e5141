"""A given number of clusters from the edges alone: nodes are joined into small groups, these are merged, nodes moved.

    levels     nodes -> groups -> groups of groups, by local moves that raise modularity, until a few hundred are left
    merges     the two groups whose union loses least of G_e, again and again; every K is a cut of this one sequence
    moves      each group, then each group of the level below, ... then each node, to where it raises G_e most
    mending    pieces of a cluster join the clusters around them; what vanished is made up for by a division

G_e is what clusters say about the other end of an edge (:mod:`softcut.metrics.judge`). Joining from below finds
clusters of any shape among any number of nodes, but needs neighbours that agree; where communities are faint, leading
eigenvectors see more. So there are starts of both kinds, and the one with most evidence comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from softcut.communities import evidence_merges as merges
from softcut.communities import whole_clusters as whole
from softcut.communities.depth import depth_first
from softcut.communities.levels import (
    DEFAULT,
    EdgeConstants,
    Level,
    Rules,
    evidence,
    inside_and_ends,
    joined,
    mended,
    moved,
    regrouped,
    settled,
    top_groups,
)
from softcut.communities.moves import connected_parts, numbered
from softcut.communities.network import Network
from softcut.communities.order import shuffled
from softcut.communities.spectral_starts import nearest, positions
from softcut.errors import ParameterError

__all__ = ["DEFAULT", "EdgeConstants", "FixedNumber", "Outcome"]

_PATTERNS = ("communities", "any")
_FIT_SWEEPS = 50  # in which full clusters pass nodes on to their neighbours


class Outcome(NamedTuple):
    """What the best clustering is like."""

    shared_components: int  # connected components, or pieces, that are not the only one of their cluster
    connected: bool  # whether every cluster is in one piece, such components apart
    sizes_met: bool  # whether all clusters have from `smallest` to `largest` nodes


class FixedNumber:
    """Clusterings [N, C] into K clusters from several starts; what all K of `ks` share is found once.

    `pattern="communities"`: clusters keep their edges inside, and each is connected, as far as K allows: a component
    with less than a quarter of the mean size shares a cluster. `pattern="any"`: also the two sides of a bipartite
    graph, or nodes that link alike. Clusters have from `smallest` to `largest` nodes; where both cannot be, none has
    more than `largest`. `quick` makes one clustering, from groups that were joined.

    The result follows the nodes however they are numbered, but for the rounding of eigenvectors. Nodes without edges
    get some cluster.

    >>> import scipy.sparse as sp
    >>> two = Network(sp.csr_array(sp.block_diag([[[0, 1, 1], [1, 0, 1], [1, 1, 0]]] * 2)))
    >>> labels = FixedNumber(two, [2]).settled(2)[:, 0]
    >>> bool(labels[0] == labels[2]), bool(labels[0] == labels[3])
    (True, False)
    """

    def __init__(
        self,
        network: Network,
        ks: Sequence[int],
        seed: int = 0,
        constants: EdgeConstants = DEFAULT,
        *,
        quick: bool = False,
        pattern: str = "communities",
        smallest: int = 1,
        largest: int | None = None,
    ) -> None:
        n = network.nodes
        _check(n, ks, pattern, smallest, largest)
        self._rules = Rules(
            pattern == "communities",
            smallest,
            n if largest is None else largest,
            smallest > 1 or largest is not None,
        )
        self._network, self._seed, self._constants, self._quick = network, seed, constants, quick
        self._ks = sorted(set(ks))
        self._order, self._base = _ordered(network, seed)
        self._searched: dict[int, _Search] = {}
        self._outcomes: dict[int, Outcome] = {}

    def settled(self, k: int) -> np.ndarray:
        """Labels [N, C] of two or three clusterings, the one with most evidence first; of one with `quick`."""
        if not self._searches(k):
            return self._plain(k)
        search, nodes = self._search(k)
        return self._placed(k, nodes, search.settled(k), final=True)

    def begun(self, k: int) -> np.ndarray:
        """The same after a few moves of single nodes only: enough to compare numbers of clusters."""
        if not self._searches(k):
            return self._plain(k)
        search, nodes = self._search(k)
        return self._placed(k, nodes, search.begun(k), final=False)

    def outcome(self, k: int) -> Outcome:
        """What the best of the settled clusterings is like."""
        if k not in self._outcomes:
            self.settled(k)
        return self._outcomes[k]

    @cached_property
    def _linked(self) -> np.ndarray:
        """Which nodes have an edge [N]."""
        return self._base.degree > 0

    @cached_property
    def _components(self) -> tuple[np.ndarray, np.ndarray]:
        """The connected component of each node, and their sizes; nodes without edges are in none."""
        base = self._base
        part, count = connected_parts(base.indptr, base.indices, np.zeros(base.nodes, np.int32), base.order)
        sizes = np.bincount(part[self._linked], minlength=count)
        return part, sizes

    @cached_property
    def _weight(self) -> np.ndarray:
        """The weight of the edges of each component, in both directions."""
        part, sizes = self._components
        return np.bincount(part, self._base.degree, minlength=len(sizes))

    def _rest(self, left: np.ndarray) -> np.ndarray:
        """The components of the nodes that are left, the largest first."""
        part, sizes = self._components
        parts = np.unique(part[left & self._linked])
        return parts[np.lexsort((parts, -self._weight[parts], -sizes[parts]))]

    def _searches(self, k: int) -> bool:
        """Whether there is anything to find."""
        return 1 < k < int(self._linked.sum())

    def _plain(self, k: int) -> np.ndarray:
        """Every node for itself, as far as there are clusters, or all together."""
        n, linked = self._base.nodes, self._linked
        labels = np.zeros(n, dtype=np.int64)
        if k > 1 and linked.any():
            labels[np.argsort(~linked, kind="stable")] = np.arange(n) % k
        return self._returned(k, [labels] if self._quick else [labels, labels], True)

    def _search(self, k: int) -> tuple[_Search, np.ndarray]:
        """The search among the nodes of the components that count for K, and these nodes, by place."""
        nodes = self._counted(k)
        count = len(nodes)
        if count not in self._searched:
            level = self._base if count == self._base.nodes else _induced(self._base, nodes)
            left = np.ones(self._base.nodes, dtype=bool)
            left[nodes] = False
            rest = self._weight[self._rest(left)] if left.any() else np.zeros(0)
            ks = [each for each in self._ks if self._searches(each) and len(self._counted(each)) == count]
            self._searched[count] = _Search(
                level, rest, sorted({*ks, k}), self._seed, self._rules, self._constants, self._quick
            )
        return self._searched[count], nodes

    def _counted(self, k: int) -> np.ndarray:
        """Nodes of components of at least `least` of the mean size, and of the largest ones up to half of all nodes."""
        if not self._rules.connected:
            return np.flatnonzero(self._linked)
        part, sizes = self._components
        total = int(sizes.sum())
        least = self._constants.least * total / k
        rising = np.sort(sizes)[::-1]
        half = rising[np.searchsorted(np.cumsum(rising), total / 2)]  # the size at which half is reached
        return np.flatnonzero(self._linked & (sizes[part] >= min(least, half)))

    def _placed(self, k: int, nodes: np.ndarray, found: list[np.ndarray], final: bool) -> np.ndarray:
        """Labels of all nodes: small components join the cluster where they cost least, nodes without edges any."""
        out = []
        for labels in found:
            every = np.full(self._base.nodes, -1, dtype=np.int32)
            every[nodes] = labels
            if len(nodes) < self._base.nodes:
                self._place_rest(every, k)
            if final and self._rules.limited:
                whole.fit_sizes(self._base, every, k, self._rules.smallest, self._rules.largest, _FIT_SWEEPS)
            out.append(every)
        return self._returned(k, out, final)

    def _place_rest(self, labels: np.ndarray, k: int) -> None:
        """Give whole small components, the largest first, and nodes without edges a cluster."""
        base, (part, sizes) = self._base, self._components
        open_ones = labels < 0
        nodes = np.bincount(labels[~open_ones], minlength=k)
        parts = self._rest(open_ones)
        if len(parts):
            settled_ones = np.where(open_ones, k, labels).astype(np.int32)
            inside, ends = inside_and_ends(base, settled_ones, k + 1)
            chosen = np.full(len(sizes), -1, dtype=np.int32)
            chosen[parts] = whole.place(
                inside[:k], ends[:k], nodes, self._weight[parts], sizes[parts], self._rules.largest
            )
            labels[open_ones] = chosen[part[open_ones]]
        lone = open_ones & ~self._linked
        if lone.any():
            if self._rules.limited:
                for i in np.flatnonzero(lone):
                    c = labels[i] = int(nodes.argmin())
                    nodes[c] += 1
            else:
                labels[lone] = int(nodes.argmax())

    def _returned(self, k: int, found: list[np.ndarray], final: bool) -> np.ndarray:
        """Labels [N, C] by the numbers of nodes."""
        if final:
            self._outcomes[k] = self._looked_at(found[0], k)
        out = np.empty((self._base.nodes, len(found)), dtype=np.int64)
        out[self._order] = np.stack(found, axis=1)
        return out

    def _looked_at(self, labels: np.ndarray, k: int) -> Outcome:
        base, linked = self._base, self._linked
        nodes = np.bincount(labels, minlength=k)
        fits = bool(nodes.max(initial=0) <= self._rules.largest and nodes.min() >= self._rules.smallest)
        parts, count = connected_parts(base.indptr, base.indices, labels.astype(np.int32), base.order)
        used = len(np.unique(labels[linked]))
        component, sizes = self._components
        pieces = np.bincount(parts[linked], minlength=count)
        part_of = np.zeros(count, dtype=np.int64)
        part_of[parts] = component
        entire = (pieces > 0) & (pieces == sizes[part_of])
        owner = np.zeros(count, dtype=np.int64)
        owner[parts] = labels
        # A cluster is in one piece if at most one of its pieces is not an entire component.
        broken = np.bincount(owner[(pieces > 0) & ~entire], minlength=k)
        return Outcome(int((pieces > 0).sum()) - used, bool(broken.max(initial=0) <= 1), fits)


class _Search:
    """Clusterings of a graph whose nodes are numbered by place."""

    def __init__(
        self,
        base: Level,
        rest: np.ndarray,
        ks: list[int],
        seed: int,
        rules: Rules,
        constants: EdgeConstants,
        quick: bool,
    ) -> None:
        self._rest = rest  # the weight of each component that joins the clusters later
        self._base, self._seed, self._rules, self._constants = base, seed, rules, constants
        self._quick = quick
        self._where: np.ndarray | None = None
        self._starts: list[tuple[np.ndarray, np.ndarray]] = []  # groups of nodes, and their merges
        dense = [k for k in ks if k <= constants.table]
        if dense:
            self._begin(max(dense))

    def settled(self, k: int) -> list[np.ndarray]:
        """Clusterings after their moves, by evidence; the best had other chances to move."""
        starts = self._cuts(k)
        if self._quick:
            return [self._settled(starts[0], k)]
        found = [self._settled(start, k) for start in starts]
        found.sort(key=lambda labels: self._rank(labels, k), reverse=True)
        return [self._again(found[0], k), *found[1:]]

    def _again(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Other chances to move, while they help: from the groups inside the clusters found, merged anew."""
        rank = self._rank(labels, k)
        for _ in range(self._constants.chances if k <= self._constants.table else 0):
            new = self._settled(regrouped(self._base, labels, k, self._rules, self._constants), k)
            before, found = rank, self._rank(new, k)
            if found <= before:
                break
            labels, rank = new, found
            if found[1] - before[1] < self._constants.worth * found[1]:
                break
        return labels

    def begun(self, k: int) -> list[np.ndarray]:
        """Clusterings after a few moves of single nodes."""
        rounds = self._constants.begun_rounds
        starts = self._cuts(k)[: 1 if self._quick else None]
        return [
            moved(self._base, each, k, self._rules, self._constants, self._seed, rounds=rounds)
            for each in starts
        ]

    def _begin(self, k: int) -> None:
        """What several K share: groups, their merges and positions."""
        base, constants, seed = self._base, self._constants, self._seed
        groups = min(constants.wanted(k), max(k, base.nodes // 2))
        starts = [self._joined(groups, 0)]
        if not self._quick:
            matrix = sp.csr_array((base.weight, base.indices, base.indptr), shape=(base.nodes, base.nodes))
            matrix = matrix + sp.diags_array(base.own) if base.own.any() else matrix
            self._where = positions(matrix, seed, any_pattern=not self._rules.connected)
            if self._where is None:  # in a complete graph, say
                starts.append(self._joined(groups, seed + 1))
            else:
                few = min(groups, constants.groups * k)
                starts.append(nearest(self._where, few, seed, min(constants.sample, 32 * few), 10))
        for start in starts:
            labels, count = numbered(start, base.order)
            level = base.above(labels, count)
            steps = merges.merge_steps(
                level.table(level.order, count),
                level.size,
                np.zeros(count, np.int32),
                self._rules.connected,
                self._rules.largest,
            )
            self._starts.append((labels, steps))

    def _joined(self, groups: int, seed: int) -> np.ndarray:
        levels, above, _ = joined(self._base, groups, self._rules, self._constants, None, seed)
        return top_groups(levels, above, groups, self._constants)

    def _cuts(self, k: int) -> list[np.ndarray]:
        """Two or three clusterings before nodes are moved: cuts of the merges, and nearest positions."""
        if k > self._constants.table:
            return [self._matched(k, seed) for seed in range(1 if self._quick else 2)]
        if not self._starts:
            self._begin(k)
        labels = [merges.cut(steps, k)[groups] for groups, steps in self._starts]
        if self._where is not None:
            labels.append(nearest(self._where, k, self._seed, self._constants.sample, 30))
        return labels

    def _matched(self, k: int, seed: int) -> np.ndarray:
        """`k` clusters of about the same size, where these are too many for a table: joined, then paired."""
        base = self._base
        rules = self._rules
        levels, above, _ = joined(base, 2 * k, rules, self._constants, None, seed)
        labels = levels[-1].order
        for group in reversed(above):
            labels = labels[group]
        return mended(base, labels, k, rules._replace(connected=False), self._constants)

    def _settled(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Labels after free moves, then mended, and moved as far as clusters stay in one piece."""
        base, rules, constants = self._base, self._rules, self._constants
        if rules.limited:
            labels = mended(base, labels, k, rules, constants)
            self._fit(labels, k)
        free, _ = numbered(settled(base, labels, k, rules, constants, self._seed), base.order)
        labels = mended(base, free, k, rules, constants)
        if rules.limited:
            self._fit(labels, k)
        if not rules.connected:
            return moved(base, labels, k, rules, constants, self._seed, together=False)
        if np.array_equal(labels, free):  # in one piece as they are
            return labels
        labels = settled(base, labels, k, rules, constants, self._seed, connected=True)
        return mended(base, labels, k, rules, constants)

    def _fit(self, labels: np.ndarray, k: int) -> None:
        whole.fit_sizes(self._base, labels, k, self._rules.smallest, self._rules.largest, _FIT_SWEEPS)

    def _rank(self, labels: np.ndarray, k: int) -> tuple[bool, float]:
        return evidence(self._base, labels, k, self._rest, self._rules, self._constants)


def _ordered(network: Network, seed: int) -> tuple[np.ndarray, Level]:
    """The nodes in an order that their numbers do not decide, and the graph whose nodes are numbered by their place."""
    order = np.argsort(network.rank(seed)).astype(np.int32)
    level = _reordered(network, order)
    colours = network.colours[order]
    same = np.flatnonzero(colours[1:] == colours[:-1])
    if len(same):  # nodes of one colour are next to each other in this order
        alike = np.zeros(network.nodes, dtype=bool)
        alike[same] = alike[same + 1] = True
        starts = np.argsort(alike, kind="stable").astype(np.int32)
        met = depth_first(level.indptr, level.indices, starts)
        places = shuffled(np.arange(network.nodes, dtype=np.uint64), seed)
        order = order[met][np.argsort(places, kind="stable")]
        level = _reordered(network, order)
    return order, level


def _reordered(network: Network, order: np.ndarray) -> Level:
    """The graph whose nodes are numbered by their place in the order."""
    n = network.nodes
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    matrix = sp.csr_array((network.weight, network.indices, network.indptr), shape=(n, n))[order]
    matrix = sp.csr_array((matrix.data, place[matrix.indices], matrix.indptr), shape=(n, n))
    matrix.sort_indices()
    return _level(matrix, network.own[order], network.degree[order])


def _induced(base: Level, nodes: np.ndarray) -> Level:
    """The graph of some nodes, whole components."""
    n = base.nodes
    matrix = sp.csr_array((base.weight, base.indices, base.indptr), shape=(n, n))[nodes]
    place = np.full(n, -1, dtype=np.int32)
    place[nodes] = np.arange(len(nodes), dtype=np.int32)
    matrix = sp.csr_array((matrix.data, place[matrix.indices], matrix.indptr), shape=(len(nodes), len(nodes)))
    return _level(matrix, base.own[nodes], base.degree[nodes])


def _level(matrix: sp.csr_array, own: np.ndarray, degree: np.ndarray) -> Level:
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return Level(indptr, indices, matrix.data, own, degree, np.ones(len(degree), dtype=np.int64))


def _check(n: int, ks: Sequence[int], pattern: str, smallest: int, largest: int | None) -> None:
    """Raise an error that names the first argument with a value it may not have."""
    if pattern not in _PATTERNS:
        raise ParameterError(f"pattern must be 'communities' or 'any', got {pattern!r}.", argument="pattern")
    if smallest < 1:
        raise ParameterError(f"smallest must be at least 1, got {smallest}.", argument="smallest")
    if largest is not None and largest < smallest:
        raise ParameterError(
            f"largest must be at least smallest, which is {smallest}, got {largest}.", argument="largest"
        )
    for k in ks:
        if smallest > 1 and k * smallest > n:
            raise ParameterError(
                f"smallest must be at most {n // k}: {k} clusters of {smallest} nodes are more than the {n} there are.",
                argument="smallest",
            )
        if largest is not None and k * largest < n:
            raise ParameterError(
                f"largest must be at least {-(-n // k)}: {k} clusters of {largest} nodes hold fewer than the {n} "
                "there are.",
                argument="largest",
            )
