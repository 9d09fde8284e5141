"""Clusters from the edges alone: nodes are joined into small groups, these are merged to K clusters, and nodes moved.

    levels     nodes -> groups -> groups of groups, by local moves that raise modularity, until a few hundred are left
    merges     the two groups whose union loses least of G_e, again and again; every K is a cut of this one sequence
    moves      each group, then each group of the level below, ... then each node, to where it raises G_e most

G_e is what clusters say about the other end of an edge (:mod:`softcut.metrics.judge`). Joining from below finds
clusters of any shape among any number of nodes, but needs neighbours that agree; where communities are faint, leading
eigenvectors see more. So there are starts of both kinds, and the one with most evidence comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softcut.clustering.group_merges import cut, merge_steps
from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.node_features import Nodes, positions
from softcut.clustering.recipe import DEFAULT, Recipe
from softcut.ops import CSR, Operator, entropy, mutual_information
from softcut.ops.information import edge_gain

_FEW_ROUNDS = 8  # of moves, after which numbers of clusters are compared


class EdgeClusters:
    """Clusterings [N, C] into at most K clusters from several starts; what all K of `ks` share is found once.

    Weights are counted in whole numbers, so devices differ by no more than the rounding of logarithms and
    eigenvectors. Nodes without edges get some cluster. `quick` makes one clustering, from groups that were joined:
    networks can begin with it.
    """

    def __init__(
        self,
        op: CSR,
        ks: Sequence[int],
        random_state: int = 0,
        recipe: Recipe = DEFAULT,
        *,
        quick: bool = False,
    ) -> None:
        self._base, self._seed, self._recipe, self._quick = _Level.of(op), random_state, recipe, quick
        base, n = self._base, op.num_rows
        self._joined = len(base.row) > 0
        self._where: Tensor | None = None
        searched = [k for k in ks if self._searches(k)]
        if not searched:
            return
        groups = _groups(n, max(searched), recipe)
        self._starts = [_joined(base, groups, _random(random_state), recipe)]
        where = None if quick else positions(op, random_state=random_state)
        if where is not None and where.any():  # none in a complete graph, say
            self._where = where
            few = min(groups, recipe.edges.groups * max(searched))
            self._starts.append(_nearest(where, few, random_state, recipe))
        elif not quick:
            self._starts.append(_joined(base, groups, _random(random_state + 1), recipe))
        self._merges = [merge_steps(base.table(s, int(s.max()) + 1).cpu().numpy()) for s in self._starts]

    def settled(self, k: int) -> Tensor:
        """Two or three clusterings, the one with most evidence first."""
        labels, random = self._cuts(k), _random(self._seed)
        if not self._searches(k):
            return labels
        if self._quick:
            return _settled(self._base, labels[:, 0], k, random, self._recipe).unsqueeze(1)
        return _best_first(self._base, list(labels.unbind(1)), k, random, self._recipe)

    def begun(self, k: int) -> Tensor:
        """The same after a few moves of single nodes only: enough to compare numbers of clusters."""
        labels, random = self._cuts(k), _random(self._seed)
        if not self._searches(k):
            return labels
        moves = (_moved(self._base, each, k, random, self._recipe, _FEW_ROUNDS) for each in labels.unbind(1))
        return torch.stack(list(moves), dim=1)

    def _searches(self, k: int) -> bool:
        """Whether there is anything to find."""
        return self._joined and 1 < k < self._base.nodes

    def _cuts(self, k: int) -> Tensor:
        """Two or three clusterings before nodes are moved: cuts of the merges, and nearest positions."""
        n, device = self._base.nodes, self._base.own.device
        if not self._searches(k):
            one = torch.zeros(n, dtype=torch.long, device=device)
            each = torch.arange(n, device=device)
            return (each if self._joined and k >= n else one).unsqueeze(1).repeat(1, 2)
        labels = [
            torch.from_numpy(cut(steps, k)).to(device)[start]
            for start, steps in zip(self._starts, self._merges, strict=True)
        ]
        if self._where is not None:
            labels.append(_nearest(self._where, k, self._seed, self._recipe))
        return torch.stack(labels, dim=1)


class EdgeStarts:
    """One clustering [N] for each K, quickly found: networks can begin with it. What several K share is found once."""

    def __init__(self, op: CSR, random_state: int = 0, recipe: Recipe = DEFAULT) -> None:
        # On the CPU: steps of a few nodes each, for which a GPU takes longer.
        self._op, self._seed, self._recipe = op.to("cpu"), random_state, recipe
        self._known: dict[tuple[int, bool], EdgeClusters] = {}

    def __call__(self, k: int) -> Tensor:
        nodes = self._op.num_rows
        key = _groups(nodes, k, self._recipe), k < nodes
        if key not in self._known:
            self._known[key] = EdgeClusters(self._op, [k], self._seed, self._recipe, quick=True)
        return self._known[key].settled(k)[:, 0]


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


def _moved(
    level: _Level,
    labels: Tensor,
    k: int,
    random: torch.Generator,
    recipe: Recipe,
    rounds: int | None = None,
) -> Tensor:
    """Labels [N] after nodes moved to the cluster that says most about their edges, while G_e rises.

    A node adds log(T_ab / (t_a t_b)) for each edge to cluster b when it is in cluster a, with T the shares of the
    edges between clusters and t those of their ends. All nodes move at once, against the table of the last round; once
    that no longer helps, half of them, another half each time.
    """
    seen, failed, halves = _look(level, labels, k, recipe), 0, False
    most = float(mutual_information(seen.table))
    for _ in range(recipe.edges.move_rounds if rounds is None else rounds):
        nodes, other = _better(level, labels, seen, k, recipe)
        if halves:
            turn = (torch.rand(level.nodes, generator=random) < 0.5).to(nodes.device)[nodes]
            nodes, other = nodes[turn], other[turn]
        proposed = labels.index_put((nodes,), other)
        after = _look(level, proposed, k, recipe)
        gain = float(mutual_information(after.table))
        risen = gain - most
        if risen > 0:
            labels, seen, most = proposed, after, gain
        if risen > recipe.edges.rise * most:
            failed = 0
            continue
        failed, halves = failed + 1, True  # neighbours changed places: from now on half of the nodes move
        if failed == recipe.edges.fails:
            break
    return labels


class _Seen(NamedTuple):
    """S'AS [K, K], and A S [N, K] where that is small enough to be kept."""

    table: Tensor
    around: Tensor | None


def _look(level: _Level, labels: Tensor, k: int, recipe: Recipe) -> _Seen:
    table = torch.bincount(labels, level.own, minlength=k).diag()
    for at, around in _around(level, labels, k, recipe):
        table.index_add_(0, labels[at], around)
    return _Seen(table, around if len(around) == level.nodes else None)


def _around(level: _Level, labels: Tensor, k: int, recipe: Recipe) -> Iterator[tuple[slice, Tensor]]:
    """Weights between nodes and clusters, A S, for some nodes at a time."""
    step = max(1, recipe.edges.table // k)
    for first in range(0, level.nodes, step):
        nodes = min(step, level.nodes - first)
        row, col, weight = level.row, level.col, level.weight
        if nodes < level.nodes:
            ends = torch.tensor([first, first + nodes], device=row.device)
            part = slice(*torch.searchsorted(row, ends).tolist())
            row, col, weight = row[part] - first, col[part], weight[part]
        counts = torch.bincount(torch.add(labels[col], row, alpha=k), weight, minlength=nodes * k)
        yield slice(first, first + nodes), counts.to(weight).view(nodes, k)  # whole numbers without entries


def _better(level: _Level, labels: Tensor, seen: _Seen, k: int, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """Nodes that another cluster suits better, and that cluster; only nodes with neighbours elsewhere are looked at."""
    joint = seen.table / seen.table.sum() + recipe.edges.prior / k**2
    ends = joint.sum(0)
    tells = (joint / torch.outer(ends, ends)).log()
    kept = None if seen.around is None else [(slice(0, level.nodes), seen.around)]
    movers = []
    for at, around in kept or _around(level, labels, k, recipe):
        mine = labels[at].unsqueeze(1)
        beside = around.gather(1, mine).squeeze(1) + level.own[at] < level.degree[at]
        nodes = beside.nonzero().squeeze(1)
        mine, own = mine[nodes], level.own[at][nodes]
        # An edge to another node stands twice in the table, what is inside a group moves with it.
        score = 2 * around[nodes] @ tells + torch.outer(own, tells.diagonal())
        now = score.gather(1, mine).squeeze(1)
        highest, other = score.max(1)
        better = highest > now + 1e-6 * now.abs()
        movers.append((nodes[better] + at.start, other[better]))
    return torch.cat([nodes for nodes, _ in movers]), torch.cat([other for _, other in movers])


def shares(op: Operator, labels: Tensor, k: int, recipe: Recipe = DEFAULT) -> Tensor:
    """Soft clusters [N, K] of labels [N]: a node's own cluster, and for two fifths those of its neighbours."""
    indicator = torch.zeros(len(labels), k, device=labels.device).scatter_(1, labels.unsqueeze(1), 1.0)
    near = op @ indicator
    total = near.sum(1, keepdim=True)
    near = torch.where(total > 0, near / torch.where(total > 0, total, 1.0), indicator)
    return recipe.edges.own * indicator + (1 - recipe.edges.own) * near
