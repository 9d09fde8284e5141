"""Clusters from the edges alone: nodes are joined into small groups, these are merged to K clusters, and nodes moved.

    levels     nodes -> groups -> groups of groups, by local moves that raise modularity, until a few hundred are left
    merges     the two groups whose union loses least of G_e, again and again; every K is a cut of this one sequence
    moves      each group, then each group of the level below, ... then each node, to where it raises G_e most

G_e is what clusters say about the other end of an edge (:mod:`softcut.metrics.judge`). Joining from below finds
clusters of any shape among any number of nodes, but needs neighbours that agree; where communities are faint, leading
eigenvectors see more. So there are starts of both kinds, and the one with most evidence comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.node_features import Nodes, positions
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.ops import CSR, Operator, entropy, mutual_information
from softcut.ops.information import edge_gain


def edge_clusters(
    op: CSR,
    ks: Sequence[int],
    random_state: int = 0,
    recipe: Recipe = DEFAULT,
    *,
    quick: bool = False,
    at: Callable[[int], None] | None = None,
) -> dict[int, Tensor]:
    """For each K of `ks`, two or three clusterings [N, C] into at most K clusters, the one with most evidence first.

    Levels, positions and merges are found once for all K. Weights are counted in whole numbers, so devices differ by
    no more than the rounding of logarithms and eigenvectors. Nodes without edges get some cluster. `quick` makes one
    clustering for each K, from groups that were joined: networks can begin with it. `at` is told each K in turn.
    """
    base, n = _Level.of(op), op.num_rows
    device = base.own.device
    one, each = torch.zeros(n, dtype=torch.long, device=device), torch.arange(n, device=device)
    joined = len(base.row) > 0
    clusters = {k: (each if joined and k >= n else one).unsqueeze(1).repeat(1, 2) for k in ks}
    searched = [k for k in clusters if joined and 1 < k < n]
    if not searched:
        return clusters
    groups = _groups(n, max(searched), recipe)
    starts = [_joined(base, groups, _random(random_state), recipe)]
    where = None if quick else positions(op, random_state=random_state)
    where = where if where is not None and where.any() else None  # none in a complete graph, say
    if where is not None:
        starts.append(_nearest(where, min(groups, recipe.edges.groups * max(searched)), random_state, recipe))
    elif not quick:
        starts.append(_joined(base, groups, _random(random_state + 1), recipe))
    merges = [merge_steps(base.table(start, int(start.max()) + 1).cpu().numpy()) for start in starts]
    for k in searched:
        if at is not None:
            at(k)
        random = _random(random_state)
        labels = [
            torch.from_numpy(cut(steps, k)).to(device)[start]
            for start, steps in zip(starts, merges, strict=True)
        ]
        if where is not None:
            labels.append(_nearest(where, k, random_state, recipe))
        if quick:
            clusters[k] = _settled(base, labels[0], k, random, recipe).unsqueeze(1)
        else:
            clusters[k] = _best_first(base, labels, k, random, recipe)
    return clusters


def _wanted(k: int, recipe: Recipe) -> int:
    """Groups that `k` clusters are made of."""
    return max(recipe.edges.few, 2 * k, min(recipe.edges.groups * k, recipe.edges.many))


def _groups(nodes: int, k: int, recipe: Recipe) -> int:
    """Groups that nodes are joined into before they are merged."""
    return min(_wanted(k, recipe), max(k, nodes // 2))


def numbers_of_merges(nodes: int, k: int, recipe: Recipe) -> int:
    """About how many numbers the merges hold at most: tables of all groups, of which there may be twice as many."""
    return 8 * (2 * _groups(nodes, k, recipe)) ** 2


def _best_first(
    base: _Level, labels: list[Tensor], k: int, random: torch.Generator, recipe: Recipe
) -> Tensor:
    """Clusterings [N, C] after their moves, by evidence; the best had a second chance to move."""

    def settled(start: Tensor) -> tuple[tuple[bool, float], Tensor]:
        moved = _settled(base, start, k, random, recipe)
        return _rank(base, moved, k, recipe), moved

    ranked = sorted(map(settled, labels), key=lambda pair: pair[0], reverse=True)
    again = settled(ranked[0][1])  # with groups inside the clusters that were found
    ranked[0] = max(ranked[0], again, key=lambda pair: pair[0])
    return torch.stack([clusters for _, clusters in ranked], dim=1)


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)  # on the CPU: the same numbers for every device


def _nearest(where: Tensor, k: int, random_state: int, recipe: Recipe) -> Tensor:
    """Labels [N] of a k-means of positions [N, F]."""
    rows = Nodes(len(where)).sample(where, recipe.start_sample)
    return assign(where, kmeans_restarts(rows, k, 1, max_iter=30, random_state=random_state)[1])[0]


@dataclass(frozen=True)
class _Level:
    """A graph of nodes or groups: entries between them, sorted by row, and the weight inside each, float64."""

    row: Tensor
    col: Tensor
    weight: Tensor
    own: Tensor
    degree: Tensor
    edges: float  # as many as the weights are worth, (sum w)^2 / sum w^2

    @classmethod
    def of(cls, op: CSR) -> _Level:
        """The nodes of A. Weights become whole numbers, whose sums are the same in any order."""
        row, col = op.pattern.rows, op.pattern.col.long()
        weight = torch.ones(len(row), dtype=torch.float64, device=row.device)
        edges = len(row) / 2
        if op.val is not None and len(row) and op.val.min() < op.val.max():
            weight = op.val.double() / op.val.double().max()
            edges = float(weight.sum() ** 2 / weight.square().sum() / 2)
            weight = (weight * (2.0**50 / weight.sum())).round()
        elif op.val is not None and not bool(op.val.any()):
            weight = torch.zeros_like(weight)
        own = torch.zeros(op.num_rows, dtype=torch.float64, device=row.device)
        return cls._apart(row, col, weight, own, edges)

    @classmethod
    def _apart(cls, row: Tensor, col: Tensor, weight: Tensor, own: Tensor, edges: float) -> _Level:
        loop = row == col
        own = own.index_add(0, row[loop], weight[loop])
        between = ~loop & (weight > 0)
        row, col, weight = row[between], col[between], weight[between]
        return cls(row, col, weight, own, own.index_add(0, row, weight), edges)

    @property
    def nodes(self) -> int:
        return len(self.own)

    def above(self, labels: Tensor, groups: int) -> _Level:
        """The graph whose nodes are groups of these."""
        row, col, weight = _summed(labels[self.row], labels[self.col], self.weight, groups)
        own = torch.bincount(labels, self.own, minlength=groups)
        return self._apart(row, col, weight, own, self.edges)

    def table(self, labels: Tensor, k: int) -> Tensor:
        """Weights between clusters, S'AS [K, K]."""
        between = torch.bincount(labels[self.row] * k + labels[self.col], self.weight, minlength=k * k)
        return between.view(k, k) + torch.bincount(labels, self.own, minlength=k).diag()


def _summed(a: Tensor, b: Tensor, weight: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pairs (a, b) that occur, b below `n`, in order, and the sum of the weights of each."""
    pairs, order = torch.sort(a * n + b)
    pairs, which = torch.unique_consecutive(pairs, return_inverse=True)
    total = weight.new_zeros(len(pairs)).index_add(0, which, weight[order])
    return pairs // n, pairs % n, total


def _rank(base: _Level, labels: Tensor, k: int, recipe: Recipe) -> tuple[bool, float]:
    """Whether clusters have their size and keep edges inside, and the evidence: what edges tell per nat of labels.

    G_e counts every pattern, also that of a bipartite graph, whose two sides are no clusters.
    """
    sizes, table = torch.bincount(labels, minlength=k), base.table(labels, k)
    cost = base.nodes * float(entropy(sizes.double()))
    evidence = float(edge_gain(table, base.edges)) / cost if cost > 0 else 0.0
    ends = table.sum(0) / table.sum()
    inside = float(table.trace() / table.sum()) > float(ends.square().sum())
    return inside and bool(sizes.min() >= recipe.least * base.nodes / k), evidence


def _joined(base: _Level, groups: int, random: torch.Generator, recipe: Recipe) -> Tensor:
    """Group of each node [N], about as many as wanted, joined from below."""
    levels, above, _ = _levels(base, groups, random, recipe)
    top, limit = levels[-1], 2 * max(groups, recipe.edges.many)
    labels = torch.arange(top.nodes, device=base.own.device)
    if top.nodes > limit:  # too many for a table: the smallest, mostly without neighbours, share a place
        order = top.degree.argsort(descending=True, stable=True)
        rank = labels.scatter(0, order, labels)
        labels = torch.where(rank < limit, rank, limit // 2 + rank % (limit - limit // 2))
    for group in reversed(above):
        labels = labels[group]
    return labels


def _levels(
    base: _Level, groups: int, random: torch.Generator, recipe: Recipe, within: Tensor | None = None
) -> tuple[list[_Level], list[Tensor], Tensor | None]:
    """Levels from the nodes up, the group above of each node of a level, and the cluster of each group at the top.

    No group has more than its share of the edges; where that leaves too many, up to four times as much. Groups stay
    inside the clusters `within`, where there are any.
    """
    levels, above = [base], []
    room = float(base.degree.sum()) / groups
    most, limit = 4 * room, 2 * max(groups, recipe.edges.many)
    while levels[-1].nodes > groups:
        level = levels[-1]
        labels, count = _join(level, room, random, recipe, within)
        if count > recipe.edges.stuck * level.nodes:
            if level.nodes <= limit or room >= most:
                break
            room *= 2
            continue
        if within is not None:
            within = within.new_zeros(count).scatter(0, labels, within)
        levels.append(level.above(labels, count))
        above.append(labels)
    return levels, above, within


def _join(
    level: _Level, room: float, random: torch.Generator, recipe: Recipe, within: Tensor | None
) -> tuple[Tensor, int]:
    """Groups [N] of nodes that share more edges than their degrees let expect, and their number.

    Half of the nodes, another half each time, move to the group that raises modularity most: all at once they
    would change places.
    """
    n, degree = level.nodes, level.degree
    row, col, weight = level.row, level.col, level.weight
    if within is not None:
        inside = within[row] == within[col]
        row, col, weight = row[inside], col[inside], weight[inside]
    labels = torch.arange(n, device=row.device)
    share = degree / degree.sum()
    for _ in range(recipe.edges.join_rounds):
        size = torch.bincount(labels, degree, minlength=n)
        node, group, score = _summed(row, labels[col], weight, n)
        mine = group == labels[node]
        others = size[group] - torch.where(mine, degree[node], 0.0)
        score = score - share[node] * others
        # Of groups that suit alike each node takes another one.
        noise = torch.rand(len(score), generator=random, dtype=score.dtype).to(score.device)
        score = score + 1e-7 * degree[node] * noise
        stay = (-share * (size[labels] - degree)).index_put((node[mine],), score[mine])
        score = score.masked_fill(mine | (others + degree[node] > room), -torch.inf)
        best = torch.full_like(degree, -torch.inf).scatter_reduce(0, node, score, "amax")
        turn = (torch.rand(n, generator=random) < 0.5).to(row.device)
        goes = turn & (best > stay + 1e-6 * degree)
        chosen = (score == best[node]) & goes[node]
        mover, target = node[chosen], group[chosen]
        target, order = torch.sort(target, stable=True)
        mover = mover[order]
        fits = size[target] + _running(degree[mover], target) <= room
        labels = labels.index_put((mover[fits],), target[fits])
        if int(fits.sum()) < n // 1000:
            break
    numbers, labels = torch.unique(labels, return_inverse=True)
    return labels, len(numbers)


def _running(values: Tensor, owner: Tensor) -> Tensor:
    """Sums of the values so far, begun anew for each owner; owners are sorted."""
    so_far = values.cumsum(0)
    first = torch.searchsorted(owner, owner)
    return so_far - so_far[first] + values[first]


def _settled(base: _Level, labels: Tensor, k: int, random: torch.Generator, recipe: Recipe) -> Tensor:
    """Labels [N] after moves at every level, from the top; groups are joined inside the clusters given."""
    levels, above, top = _levels(base, _wanted(k, recipe), random, recipe, labels)
    assert top is not None
    labels = _moved(levels[-1], top, k, random, recipe)
    for level, group in zip(levels[-2::-1], above[::-1], strict=True):
        labels = _moved(level, labels[group], k, random, recipe)
    return labels


def _moved(level: _Level, labels: Tensor, k: int, random: torch.Generator, recipe: Recipe) -> Tensor:
    """Labels [N] after nodes moved to the cluster that says most about their edges, while G_e rises.

    A node adds log(T_ab / (t_a t_b)) for each edge to cluster b when it is in cluster a, with T the shares of the
    edges between clusters and t those of their ends. All nodes move at once, against the table of the last round; once
    that no longer helps, half of them, another half each time.
    """
    table, failed, halves = level.table(labels, k), 0, False
    most = float(mutual_information(table))
    for _ in range(recipe.edges.move_rounds):
        nodes, other = _better(level, labels, table, k, recipe)
        if halves:
            turn = (torch.rand(level.nodes, generator=random) < 0.5).to(nodes.device)[nodes]
            nodes, other = nodes[turn], other[turn]
        proposed = labels.index_put((nodes,), other)
        between = level.table(proposed, k)
        gain = float(mutual_information(between))
        risen = gain - most
        if risen > 0:
            labels, table, most = proposed, between, gain
        if risen > recipe.edges.rise * most:
            failed = 0
            continue
        failed, halves = failed + 1, True  # neighbours changed places: from now on half of the nodes move
        if failed == recipe.edges.fails:
            break
    return labels


def _better(level: _Level, labels: Tensor, table: Tensor, k: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Nodes that another cluster suits better, and that cluster; only nodes with neighbours elsewhere are looked at."""
    joint = table / table.sum() + recipe.edges.prior / k**2
    ends = joint.sum(0)
    tells = (joint / torch.outer(ends, ends)).log()
    border = torch.zeros(level.nodes, dtype=torch.bool, device=labels.device)
    border[level.row[labels[level.row] != labels[level.col]]] = True
    at, movers = border.nonzero().squeeze(1), []
    if not len(at):
        return at, at
    for nodes in at.split(max(1, recipe.edges.table // k)):
        place = torch.full_like(labels, -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        entry = place[level.row]
        theirs = entry >= 0
        to = entry[theirs] * k + labels[level.col[theirs]]
        counts = torch.bincount(to, level.weight[theirs], minlength=len(nodes) * k).view(-1, k)
        # An edge to another node stands twice in the table, what is inside a group moves with it.
        score = 2 * counts @ tells + torch.outer(level.own[nodes], tells.diagonal())
        own = score.gather(1, labels[nodes].unsqueeze(1)).squeeze(1)
        highest, other = score.max(1)
        better = highest > own + 1e-6 * own.abs()
        movers.append((nodes[better], other[better]))
    return torch.cat([nodes for nodes, _ in movers]), torch.cat([other for _, other in movers])


def shares(op: Operator, labels: Tensor, k: int, recipe: Recipe = DEFAULT) -> Tensor:
    """Soft clusters [N, K] of labels [N]: a node's own cluster, and for two fifths those of its neighbours."""
    indicator = torch.zeros(len(labels), k, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)
    near = op @ indicator
    total = near.sum(1, keepdim=True)
    near = torch.where(total > 0, near / torch.where(total > 0, total, 1.0), indicator)
    return recipe.edges.own * indicator + (1 - recipe.edges.own) * near


# ------------------------------------------------------------------------------------------------ merges


def merge_steps(table: np.ndarray) -> np.ndarray:
    """Pairs (a, b) [groups - 1, 2] for S'AS of the groups: at each step b joins a, whose union loses least of G_e.

    With T the shares of the edges between groups and t those of their ends, I(T) = sum f(T_ab) - 2 sum f(t_a), where
    f(x) = x log x. A union of a and b changes it by what rows a and b bring together, group by group, so only pairs
    with a common neighbour change when two others are merged.
    """
    t = np.array(table, dtype=np.float64) / max(float(np.sum(table)), 1e-300)
    n, ends = len(t), t.sum(0)
    # The gain of each union: common neighbours c bring f(T_ac + T_bc) - f(T_ac) - f(T_bc), twice.
    gain = np.zeros((n, n))
    for values in t:
        near = values.nonzero()[0]
        gain[np.ix_(near, near)] += 2 * _union(values[near, None], values[near])
    for a in range(n):
        gain[a] += _pair(t, ends, a)
    np.fill_diagonal(gain, -np.inf)
    best, steps = gain.argmax(1), np.empty((max(n - 1, 0), 2), dtype=np.int64)
    for step in range(n - 1):
        one = int(gain[np.arange(n), best].argmax())
        a, b = sorted((one, int(best[one])))
        steps[step] = a, b
        near = np.flatnonzero(t[a] + t[b])
        near = near[(near != a) & (near != b)]
        u, v = t[near, a], t[near, b]
        apart = _union(u[:, None], u) + _union(v[:, None], v)
        gain[np.ix_(near, near)] += 2 * (_union((u + v)[:, None], u + v) - apart)
        t[a], ends[a] = t[a] + t[b], ends[a] + ends[b]
        t[:, a] += t[:, b]
        t[b] = t[:, b] = ends[b] = 0
        beside = np.append(near, a)
        row = 2 * _union(t[:, beside], t[a, beside]).sum(1) + _pair(t, ends, a)
        row[a] = row[gain[:, a] == -np.inf] = -np.inf  # itself, and groups that are gone
        gain[a] = gain[:, a] = row
        gain[b] = gain[:, b] = -np.inf
        stale = np.union1d(beside, np.flatnonzero((best == a) | (best == b)))
        best[stale] = gain[stale].argmax(1)
        best = np.where(row > gain[np.arange(n), best], a, best)
    return steps


def cut(steps: np.ndarray, k: int) -> np.ndarray:
    """Which of `k` clusters each group [groups] is in, after the merges that leave `k`."""
    cluster = np.arange(len(steps) + 1)
    used = steps[: max(0, len(cluster) - k)]
    for a, b in used[::-1]:  # the last first: a group that others joined knows its cluster
        cluster[b] = cluster[a]
    return np.unique(cluster, return_inverse=True)[1]


def _pair(t: np.ndarray, ends: np.ndarray, a: int) -> np.ndarray:
    """What a union with group a changes in its own four entries and in its two ends, for each other group."""
    own = t.diagonal()
    # Columns a and b are no common neighbours, they become the diagonal.
    sides = _union(own, t[a]) + _union(t[a], own[a])
    corner = _f(own + own[a] + 2 * t[a]) - _f(own) - _f(own[a]) - 2 * _f(t[a])
    return corner - 2 * sides - 2 * _union(ends, ends[a])


def _union(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _f(a + b) - _f(a) - _f(b)


def _f(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1e-300))
