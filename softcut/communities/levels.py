"""A graph, the graph of its groups, and so on; labels that are moved, mended and divided on them.

Nodes are numbered by their place in an order that does not depend on their numbers (order.py), so that ties go to
the lower number, and everything is done in the order of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softcut.communities import evidence_merges as merges
from softcut.communities import evidence_moves as moves
from softcut.communities import many_clusters
from softcut.communities import whole_clusters as whole
from softcut.communities.moves import aggregate, connected_parts, numbered
from softcut.communities.order import shuffled


@dataclass(frozen=True)
class EdgeConstants:
    """The constants of :class:`softcut.communities.fixed_number.FixedNumber`."""

    groups: int = 8  # groups for each cluster: clusters made of several may have any shape
    few: int = 128  # groups at least: with fewer there would be hardly anything to merge
    many: int = 512  # groups aimed at in the end; up to twice as many are merged, in time with their square
    join_rounds: int = 4  # local moves at one level: more of them make fewer, coarser levels
    stuck: float = 0.97  # groups for each node of a level where next to nothing can be joined
    move_rounds: int = 30  # of moves of all nodes at once at one level; they mostly end before
    single_sweeps: int = 5  # of moves one after another at one level, likewise
    chances: int = 3  # other chances to move that the best clustering has at most
    worth: float = 1e-3  # share of I that one of them must add, or it was the last
    begun_rounds: int = 8  # of moves after which numbers of clusters are compared
    rise: float = 1e-5  # share of I that a round of moves must add, or the next one is of half of the nodes
    fails: int = 3  # rounds in a row that may add less: the halves are drawn at random
    prior: float = 1e-3  # share of the edges that any two clusters may have between them: no logarithm of 0
    least: float = (
        0.25  # smallest cluster that counts as one, as a share of the mean size; also of a component
    )
    sample: int = 20_000  # nodes that k-means sees
    every: int = 64  # clusters up to which a node may go to any, not only to those of its neighbours
    table: int = 1024  # clusters up to which a table of all pairs is kept

    def wanted(self, k: int) -> int:
        """Groups that `k` clusters are made of."""
        return max(self.few, 2 * k, min(self.groups * k, self.many))


DEFAULT = EdgeConstants()


class Level(NamedTuple):
    """A graph of nodes or groups: CSR entries between them, the weight inside each, degrees, and nodes in each."""

    indptr: np.ndarray
    indices: np.ndarray
    weight: np.ndarray
    own: np.ndarray
    degree: np.ndarray
    size: np.ndarray

    @property
    def nodes(self) -> int:
        return len(self.degree)

    @property
    def order(self) -> np.ndarray:
        return np.arange(self.nodes, dtype=np.int32)

    def above(self, labels: np.ndarray, count: int) -> Level:
        """The graph whose nodes are groups of these."""
        return Level(*aggregate(self.indptr, self.indices, self.weight, self.own, self.size, labels, count))

    def table(self, labels: np.ndarray, k: int) -> np.ndarray:
        """Weights between clusters, S'AS [K, K]."""
        return moves.pair_table(self.indptr, self.indices, self.weight, self.own, labels, k)


class Rules(NamedTuple):
    """What clusters may be."""

    connected: bool  # clusters keep their edges inside and are in one piece; otherwise any pattern counts
    smallest: int
    largest: int
    limited: bool  # whether sizes were asked for


def joined(
    base: Level, groups: int, rules: Rules, constants: EdgeConstants, within: np.ndarray | None, seed: int = 0
) -> tuple[list[Level], list[np.ndarray], np.ndarray]:
    """Levels from the nodes up, the group above of each node of a level, and the cluster of each group at the top.

    No group has more than its share of the edges; where that leaves too many, up to four times as much. Groups stay
    inside the clusters `within`, where there are any. Another `seed`, another order of nodes.
    """
    levels, above = [base], []
    total = float(base.degree.sum())
    room = total / groups
    most, limit = 4 * room, 2 * max(groups, constants.many)
    within = np.zeros(base.nodes, dtype=np.int32) if within is None else within
    order = base.order
    if seed:
        order = np.argsort(shuffled(order.astype(np.uint64), seed), kind="stable").astype(np.int32)
    while levels[-1].nodes > groups:
        level = levels[-1]
        labels = merges.join(
            level.indptr,
            level.indices,
            level.weight,
            level.degree,
            level.size,
            order if level is base else level.order,
            within,
            1 / total,
            room,
            rules.largest,
            constants.join_rounds,
        )
        labels, count = numbered(labels, level.order)
        if count > constants.stuck * level.nodes:
            if level.nodes <= limit or room >= most:
                break
            room *= 2
            continue
        held = np.zeros(count, dtype=np.int32)
        held[labels] = within
        within = held
        levels.append(level.above(labels, count))
        above.append(labels)
    return levels, above, within


def top_groups(
    levels: list[Level], above: list[np.ndarray], groups: int, constants: EdgeConstants
) -> np.ndarray:
    """The group of each node at the top; where these are too many for a table, the smallest share one."""
    top, limit = levels[-1], 2 * max(groups, constants.many)
    labels = top.order
    if top.nodes > limit:
        rank = np.empty(top.nodes, dtype=np.int64)
        rank[np.argsort(-top.degree, kind="stable")] = np.arange(top.nodes)
        labels = np.where(rank < limit, rank, limit // 2 + rank % (limit - limit // 2)).astype(np.int32)
    for group in reversed(above):
        labels = labels[group]
    return labels


def moved(
    level: Level,
    labels: np.ndarray,
    k: int,
    rules: Rules,
    constants: EdgeConstants,
    seed: int,
    *,
    rounds: int | None = None,
    together: bool = True,
    connected: bool = False,
) -> np.ndarray:
    """Labels after moves at one level: of all nodes at once, then one after another."""
    every = k <= constants.every or not rules.connected
    if k > constants.table:
        labels = labels.copy()
        many_clusters.move_by_inside(
            *level, level.order, labels, k, connected, rules.smallest, rules.largest, constants.single_sweeps
        )
        return labels
    if together and not rules.limited:
        labels = moves.move_together(
            level.indptr,
            level.indices,
            level.weight,
            level.own,
            level.degree,
            level.order,
            labels,
            k,
            every,
            constants.move_rounds if rounds is None else rounds,
            constants.rise,
            constants.fails,
            constants.prior,
            seed,
        )
    else:
        labels = labels.copy()
    if rounds is None:
        moves.move_singly(
            *level,
            level.order,
            labels,
            k,
            not rules.connected,
            connected,
            rules.smallest,
            rules.largest,
            constants.single_sweeps,
            constants.prior,
        )
    return labels


def settled(
    base: Level,
    labels: np.ndarray,
    k: int,
    rules: Rules,
    constants: EdgeConstants,
    seed: int,
    *,
    connected: bool = False,
) -> np.ndarray:
    """Labels [N] after moves at every level, from the top; groups are joined inside the clusters given.

    Groups move all at once and then one after another, nodes only one after another: that says as much, sooner. With
    `connected` clusters that are in one piece stay so.
    """
    levels, above, labels = joined(base, constants.wanted(k), rules, constants, labels)
    for at in range(len(levels) - 1, -1, -1):
        if at < len(above):
            labels = labels[above[at]]
        labels = moved(
            levels[at],
            labels,
            k,
            rules,
            constants,
            seed,
            together=not connected and (at > 0 or len(levels) == 1),
            connected=connected,
        )
    return labels


def regrouped(base: Level, labels: np.ndarray, k: int, rules: Rules, constants: EdgeConstants) -> np.ndarray:
    """`k` other clusters of the groups inside those given, half as many as a start has: some divided, others merged."""
    groups = min(
        max(constants.few // 2, constants.groups // 2 * k), constants.wanted(k), max(k, base.nodes // 2)
    )
    levels, above, _ = joined(base, groups, rules, constants, labels)
    if levels[-1].nodes > 4 * constants.table or levels[-1].nodes < k:
        return labels
    group = top_groups(levels, above, groups, constants)
    return merged(base, group, k, rules)


def merged(
    base: Level, group: np.ndarray, k: int, rules: Rules, part: np.ndarray | None = None
) -> np.ndarray:
    """`k` clusters of groups: a cut of their merges, inside the parts [N] of which there are fewer."""
    count = int(group.max()) + 1
    level = base.above(group, count)
    of_group = np.zeros(count, dtype=np.int32)
    if part is not None:
        of_group[group] = part
    table = level.table(level.order, count)
    return merges.cut(merges.merge_steps(table, level.size, of_group, rules.connected, rules.largest), k)[
        group
    ]


def mended(base: Level, labels: np.ndarray, k: int, rules: Rules, constants: EdgeConstants) -> np.ndarray:
    """Exactly `k` clusters; with connected ones, pieces other than the largest are given to neighbours."""
    labels, count = numbered(labels, base.order)
    if rules.connected:
        parts, pieces = connected_parts(base.indptr, base.indices, labels, base.order)
        if pieces > count:
            level = base.above(parts, pieces)
            owner = np.zeros(pieces, dtype=np.int32)
            owner[parts] = labels
            main = whole.largest_pieces(level.size, level.degree, owner, count)
            ends = np.bincount(owner, level.degree, minlength=count)
            left = whole.give_pieces(
                level.indptr,
                level.indices,
                level.weight,
                level.degree,
                level.size,
                owner,
                main,
                ends,
                np.argsort(-level.degree, kind="stable"),
                count,
                rules.largest,
            )
            if left and not rules.limited:  # components without the largest piece of any cluster
                component, _ = connected_parts(
                    level.indptr, level.indices, np.zeros(pieces, np.int32), level.order
                )
                owner = np.where(main, owner, count + component).astype(np.int32)
            labels, count = numbered(owner[parts], base.order)
    if count > k:
        labels = fewer(base, labels, count, k, rules, constants)
    elif count < k:
        labels = divided(base, labels, count, k, rules, constants)
    return labels


def fewer(
    base: Level, labels: np.ndarray, count: int, k: int, rules: Rules, constants: EdgeConstants
) -> np.ndarray:
    """`k` of `count` clusters, merged."""
    if count <= 4 * constants.table:
        return merged(base, labels, k, rules)
    while count > k:
        level = base.above(labels, count)
        pairs = many_clusters.match(
            level.indptr,
            level.indices,
            level.weight,
            level.degree,
            level.size,
            np.argsort(level.degree, kind="stable"),
            rules.largest,
            count - k,
        )
        labels, count = numbered(pairs[labels], base.order)
    return labels


def divided(
    base: Level, labels: np.ndarray, count: int, k: int, rules: Rules, constants: EdgeConstants
) -> np.ndarray:
    """`k` clusters made of `count`, divided where that says most: a cut of the merges inside them."""
    groups = min(constants.wanted(k), max(k, base.nodes // 2))
    if k <= constants.table:
        levels, above, _ = joined(base, groups, rules, constants, labels)
        group = levels[-1].order
        for each in reversed(above):
            group = group[each]
        group, found = connected_parts(base.indptr, base.indices, group, base.order)
        # More groups where next to nothing can be joined, as in a star: all pairs have a neighbour in common, and their
        # merges take time with the cube.
        if k <= found <= 2 * max(groups, constants.many):
            return merged(base, group, k, rules, labels)
    labels = labels.copy()
    whole.peel(base.indptr, base.indices, base.order, labels, k, count)
    return labels


def evidence(
    base: Level, labels: np.ndarray, k: int, rest: np.ndarray, rules: Rules, constants: EdgeConstants
) -> tuple[bool, float]:
    """Whether clusters have their size and keep edges inside, and what they say about the edges, I, in nats.

    For one K that orders clusterings as G_e does. It counts every pattern, also that of a bipartite graph, whose two
    sides are no communities; `rest` are the edges of components that join clusters later. Of very many clusters only
    the edges inside are counted.
    """
    sizes = np.bincount(labels, minlength=k)
    inside, ends = inside_and_ends(base, labels, k)
    whole.place(inside, ends, np.zeros(k, np.int64), rest, np.zeros(len(rest), np.int64), 0)
    total = max(float(ends.sum()), 1e-300)
    fits = bool(sizes.min() >= constants.least * base.nodes / k)
    if rules.connected:
        fits = fits and float(inside.sum()) / total > float(np.square(ends / total).sum())
    if k <= constants.table:
        table = base.table(labels, k)
        np.fill_diagonal(table, inside)
        return fits, float(moves.information(table))
    kept = inside > 0
    told = inside[kept] * np.log(inside[kept] / total / (ends[kept] / total) ** 2)
    return fits, float(told.sum()) / total


def inside_and_ends(base: Level, labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The weight inside each cluster, in both directions, and its degree."""
    inside = whole.weight_inside(base.indptr, base.indices, base.weight, base.own, labels, k)
    return inside, np.bincount(labels, base.degree, minlength=k)
