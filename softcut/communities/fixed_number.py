"""A given number of clusters from the edges alone: nodes are joined into small groups, these are merged, nodes moved.

    groups      nodes that share more edges than their degrees let expect, by local moves, until a few hundred are left
    merges      the two groups whose union loses least of G_e, again and again; every K is a cut of this one sequence
    moves       groups inside the clusters, then nodes, one after another to where they raise G_e most

G_e is what clusters say about the other end of an edge (:mod:`softcut.metrics.judge`). Joining needs neighbours that
agree; where communities are faint, leading eigenvectors see more. So there are starts of both kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from softcut.communities import evidence_merges as merges
from softcut.communities import evidence_moves as moves
from softcut.communities.engine import apart
from softcut.communities.groups import at_most, counted_communities, grouped, pieces, places, whole
from softcut.communities.moves import aggregate
from softcut.communities.network import Network
from softcut.communities.spectral_starts import nearest, positions
from softcut.errors import ParameterError

_GROUPS = 8  # groups for each cluster: clusters made of several may have any shape
_FEW, _MANY = 128, 512  # groups at least, and aimed at in the end
_LEAST = 0.25  # smallest component, and cluster, that counts as one, as a share of the mean size
_SAMPLE = 20_000  # nodes that k-means sees
_SWEEPS = 5  # of moves: they mostly end before
_CHANCES = 3  # other chances to move
TABLE = 1024  # clusters up to which a table of all pairs is kept


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

    The order of nodes does not follow their numbers, but where nodes look alike. Those without edges get some cluster.

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
        *,
        quick: bool = False,
        pattern: str = "communities",
        smallest: int = 1,
        largest: int | None = None,
    ) -> None:
        n = network.nodes
        _check(n, ks, pattern, smallest, largest)
        self._connected = pattern == "communities"
        self._sizes = smallest, n if largest is None else largest
        self._limited = smallest > 1 or largest is not None
        self._ks, self._seed, self._quick = ks, seed, quick
        self._order = np.argsort(network.rank(seed)).astype(np.int32)
        self._base = _taken(network, self._order)
        self._linked = self._base.degree > 0
        self._component = pieces(self._base, np.zeros(n, np.int32))
        self._searched: dict[int, _Search] = {}
        self._outcomes: dict[int, Outcome] = {}

    def settled(self, k: int) -> np.ndarray:
        """Labels [N, C] of two or three clusterings, the one with most evidence first; of one with `quick`."""
        labels = self._found(k, final=True)
        self._outcomes[k] = self._looked_at(labels[0], k)
        return self._returned(labels)

    def begun(self, k: int) -> np.ndarray:
        """The same after one sweep over the nodes only: enough to compare numbers of clusters."""
        return self._returned(self._found(k, final=False))

    def outcome(self, k: int) -> Outcome:
        """What the best of the settled clusterings is like."""
        if k not in self._outcomes:
            self.settled(k)
        return self._outcomes[k]

    def _returned(self, found: list[np.ndarray]) -> np.ndarray:
        """Labels [N, C] by the numbers of nodes."""
        out = np.empty((self._base.nodes, len(found)), dtype=np.int64)
        out[self._order] = np.stack(found, axis=1)
        return out

    def _found(self, k: int, final: bool) -> list[np.ndarray]:
        """Clusterings of all nodes, by place."""
        base = self._base
        if not 1 < k < int(self._linked.sum()):  # all together, or every node for itself
            labels = np.zeros(base.nodes, dtype=np.int64)
            if k > 1:
                labels[np.argsort(~self._linked, kind="stable")] = np.arange(base.nodes) % k
            return [labels] * (1 if self._quick else 2)
        nodes = self._counted(k)
        search = self._searched.get(len(nodes))
        if search is None or search.most < k <= TABLE:
            part = base if len(nodes) == base.nodes else _taken(base, nodes)
            ks = [each for each in self._ks if len(self._counted(each)) == len(nodes)]
            bounds = self._sizes if self._limited else None
            search = _Search(part, [k, *ks], self._seed, self._connected, bounds, self._quick)
            self._searched[len(nodes)] = search
        out = []
        for labels in search.settled(k) if final else search.begun(k):
            every = np.full(base.nodes, -1, dtype=np.int32)
            every[nodes] = labels
            if len(nodes) < base.nodes:
                self._place_rest(every, k)
            if final and self._limited:
                moves.fit_sizes(base.level, every, k, *self._sizes)
            out.append(every)
        return out

    def _counted(self, k: int) -> np.ndarray:
        """Nodes of at most 2K components, of at least `_LEAST` of the mean size or the largest up to half of all."""
        if not self._connected:
            return np.flatnonzero(self._linked)
        sizes = np.bincount(self._component[self._linked], minlength=self._base.nodes)
        total, falling = int(sizes.sum()), np.sort(sizes)[::-1]
        half = falling[np.searchsorted(np.cumsum(falling), total / 2)]  # the size at which half is reached
        sizes[np.argsort(-sizes, kind="stable")[2 * k :]] = 0
        return np.flatnonzero(
            self._linked & (sizes[self._component] >= max(min(_LEAST * total / k, half), 1))
        )

    def _place_rest(self, labels: np.ndarray, k: int) -> None:
        """Give whole small components, the largest first, the cluster with fewest edges, and the other nodes any."""
        base, left = self._base, labels < 0
        sizes = np.bincount(labels[~left], minlength=k)
        rest = left & self._linked
        if rest.any():
            ends = np.bincount(labels[~left], base.degree[~left], minlength=k)
            parts, part, count = np.unique(self._component[rest], return_inverse=True, return_counts=True)
            weight = np.bincount(part, base.degree[rest])
            chosen = np.empty(len(parts), dtype=np.int32)
            for p in np.lexsort((parts, -weight, -count)):
                c = chosen[p] = np.where(sizes + count[p] <= self._sizes[1], ends, np.inf).argmin()
                ends[c] += weight[p]
                sizes[c] += count[p]
            labels[rest] = chosen[part]
        for i in np.flatnonzero(left & ~rest):
            c = labels[i] = sizes.argmin() if self._limited else sizes.argmax()
            sizes[c] += 1

    def _looked_at(self, labels: np.ndarray, k: int) -> Outcome:
        base, linked = self._base, self._linked
        sizes = np.bincount(labels, minlength=k)
        fits = self._sizes[0] <= sizes.min() and sizes.max() <= self._sizes[1]
        piece = pieces(base, labels.astype(np.int32))
        _, first, nodes = np.unique(piece[linked], return_index=True, return_counts=True)
        owner, component = labels[linked][first], self._component[linked]
        # A cluster is in one piece if at most one of its pieces is not an entire component.
        broken = owner[nodes < np.bincount(component)[component[first]]]
        shared = len(first) - len(np.unique(owner))
        return Outcome(shared, len(np.unique(broken)) == len(broken), bool(fits))


class _Search:
    """Clusterings of a graph whose nodes are numbered by place."""

    def __init__(
        self,
        base: Network,
        ks: list[int],
        seed: int,
        connected: bool,
        sizes: tuple[int, int] | None,
        quick: bool,
    ) -> None:
        self._base, self._seed, self._connected, self._quick = base, seed, connected, quick
        self._limited, self._sizes = sizes is not None, sizes or (1, base.nodes)
        self.most = max((k for k in ks if k <= TABLE), default=0)  # clusters that the starts are enough for
        if not self.most:
            return
        self._wanted = max(_FEW, 2 * self.most, min(_GROUPS * self.most, _MANY))
        self._starts = [self._merges(grouped(base, self._wanted)[-1])]
        self._where = None if quick else positions(_matrix(base), seed, not connected)
        if self._where is not None:
            few = min(_GROUPS * self.most, self._wanted, base.nodes)
            group = nearest(self._where, few, 32 * few, 10)
            if len(np.unique(group)) < self.most:  # few positions
                group = grouped(base, self._wanted, seed + 1)[-1]
            self._starts.append(self._merges(group))

    def settled(self, k: int) -> list[np.ndarray]:
        """Clusterings after their moves, by evidence; the best had other chances to move."""
        found = [self._moved(labels, k) for labels in self._cuts(k)]
        if self._quick or k > TABLE:
            return found
        found.sort(key=lambda labels: self._rank(labels, k), reverse=True)
        return [self._again(found[0], k), *found[1:]]

    def begun(self, k: int) -> list[np.ndarray]:
        """Clusterings after one sweep over the nodes."""
        found = self._cuts(k)
        for labels in found if k <= TABLE else []:
            self._move(self._base.level, labels, k, 1, self._connected)
        return found

    def _merges(self, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Groups, in one piece each where clusters are, and their merges."""
        base = self._base
        group = at_most(group, base.degree, max(2 * self._wanted, TABLE))
        if self._connected:
            group = whole(base, group)
        count = int(group.max()) + 1
        level = aggregate(*base.level[:4], base.size, group, count)
        table = moves.pair_table(level, places(count), count)
        return group, merges.merge_steps(table, level[5], self._connected, self._sizes[1])

    def _cuts(self, k: int) -> list[np.ndarray]:
        """Clusterings before nodes are moved: cuts of the merges, and nearest positions."""
        if k > TABLE:
            seeds = range(1 if self._quick else 2)
            return [counted_communities(self._base, k, self._seed + each, self._sizes[1]) for each in seeds]
        starts = self._starts
        if self._where is not None:
            group = nearest(self._where, k, _SAMPLE, 30)
            if len(np.unique(group)) == k:
                starts = [*starts, self._merges(group)]
        return [merges.cut(steps, k)[group] for group, steps in starts]

    def _moved(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Labels after free moves, then in one piece each and moved as far as they stay so."""
        base = self._base
        if self._limited:
            moves.fit_sizes(base.level, labels, k, *self._sizes)
        if k > TABLE:
            return labels
        free = self._levels(labels, k, False)
        if not self._connected:
            return free
        mended = whole(base, free)
        if mended.max() + 1 != k:
            mended = labels
        elif np.array_equal(mended, free):
            return free
        return self._levels(mended, k, True)

    def _levels(self, labels: np.ndarray, k: int, connected: bool) -> np.ndarray:
        """Labels after moves of groups inside the clusters, from the largest, and of nodes."""
        base = self._base
        for group in reversed(grouped(apart(base, labels), self._wanted)):
            if connected:
                group = pieces(base, group)
            count = int(group.max()) + 1
            above = np.empty(count, np.int32)
            above[group] = labels
            level = aggregate(*base.level[:4], base.size, group, count)
            self._move(level, above, k, _SWEEPS, connected)
            labels = above[group]
        labels = labels.astype(np.int32)
        self._move(base.level, labels, k, _SWEEPS, connected)
        return labels

    def _move(
        self, level: tuple[np.ndarray, ...], labels: np.ndarray, k: int, sweeps: int, connected: bool
    ) -> None:
        moves.move_by_evidence(level, labels, k, not self._connected, connected, *self._sizes, sweeps)

    def _again(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Other chances to move, while they help: from the groups inside the clusters found, merged anew."""
        rank = self._rank(labels, k)
        few = max(_FEW // 2, min(_GROUPS // 2 * k, self._wanted))
        for _ in range(_CHANCES):
            group, steps = self._merges(grouped(apart(self._base, labels), few)[-1])
            new = self._moved(merges.cut(steps, k)[group], k)
            found = self._rank(new, k)
            if found <= rank:
                break
            labels, rank = new, found
        return labels

    def _rank(self, labels: np.ndarray, k: int) -> tuple[bool, float]:
        """Whether clusters have their size and keep edges inside, and what they say about the edges, I, in nats.

        For one K that orders clusterings as G_e does.
        """
        base = self._base
        table = moves.pair_table(base.level, labels, k)
        share = table.sum(axis=0) / table.sum()
        fits = np.bincount(labels, minlength=k).min() >= _LEAST * base.nodes / k
        if self._connected:
            fits &= np.trace(table) / table.sum() > np.square(share).sum()
        return bool(fits), moves.information(table)


def _taken(network: Network, nodes: np.ndarray) -> Network:
    """The graph of some nodes, whole components, in the order given."""
    matrix = _matrix(network)[nodes][:, nodes]
    matrix.sort_indices()
    return Network(matrix)


def _matrix(network: Network) -> sp.csr_array:
    """The adjacency matrix, diagonal included."""
    shape = (network.nodes, network.nodes)
    matrix = sp.csr_array((network.weight, network.indices, network.indptr), shape=shape)
    return sp.csr_array(matrix + sp.diags_array(network.own)) if network.own.any() else matrix


def _check(n: int, ks: Sequence[int], pattern: str, smallest: int, largest: int | None) -> None:
    """Raise an error that names the first argument with a value it may not have."""
    if pattern not in ("communities", "any"):
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
