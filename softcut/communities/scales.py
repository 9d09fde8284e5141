"""Which scale: communities at many resolutions, beside those of random graphs.

Modularity Q rises to more than 0 on any graph, so it is compared with that of random graphs at the same resolution g:

    surplus(g) = Q(g) - mean Q_random(g)        score(g) = surplus(g) * agreement of seeds at g

The highest score is the chosen scale. Whether there are communities at all is asked of the highest surplus over a few
resolutions: how many standard deviations it lies above what single random graphs have over the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from softcut.communities.engine import (
    adjusted_rand,
    apart,
    coarser,
    communities,
    finer,
    joined,
    numbered_by_size,
    quality,
)
from softcut.communities.network import Network
from softcut.communities.tree import NEAR, Scales

RandomGraph = Callable[[int], Network]  # the random graph of a seed

RESOLUTIONS = tuple(np.round(np.geomspace(0.125, 8, 13), 4).tolist())  # steps of the square root of 2
ASKED = (0.5, 0.7071, 1.0, 1.4142, 2.8284)  # of these, for the verdict
_FEW, _SEVERAL, _MANY = 1_000, 5_000, 2_000_000  # edges from which on fewer runs are made
_FEWEST, _MOST = 3, 20  # random graphs of the verdict
_BESIDE = 2  # levels on either side of the chosen one
_LEAST_WORTH = (
    0.005  # of a further level: its score, as a share of the highest, times its distance from the others
)
_ALIKE = 0.95  # adjusted Rand index from which on two levels are one
_SPREAD = 0.002  # least standard deviation: few random graphs may be alike by chance


@dataclass
class Compared:
    """A graph beside random ones."""

    deviations: float  # standard deviations between the graph and random graphs
    surplus: float  # modularity above that of random graphs
    random_graphs: int  # that were made


@dataclass
class Search:
    """Communities of one network at many resolutions; every run is made once.

    `random_graph` makes what the network is compared with, `largest` bounds communities, `seed` draws everything.
    """

    network: Network
    random_graph: RandomGraph
    seed: int = 0
    largest: int | None = None
    of_rows: bool = (
        False  # whether edges join nearest rows: then the coarsest scale that is nearly the best is taken
    )
    interrupted: bool = False
    _runs: dict[tuple[float, int], tuple[np.ndarray, float]] = field(init=False, default_factory=dict)
    # Labels of a resolution in place of those of its runs.
    _best: dict[float, np.ndarray] = field(init=False, default_factory=dict)
    _random: dict[tuple[float, int], float] = field(init=False, default_factory=dict)
    _graphs: dict[int, Network] = field(init=False, default_factory=dict)

    def run(self, resolution: float, seed: int) -> tuple[np.ndarray, float]:
        """Labels and their modularity."""
        key = resolution, seed
        if key not in self._runs:
            labels = communities(self.network, resolution, self.seed + seed, largest=self.largest)
            self._runs[key] = labels, quality(self.network, labels, resolution)
        return self._runs[key]

    def random(self, resolution: float, which: int) -> float:
        """Modularity of a random graph."""
        key = resolution, which
        if key not in self._random:
            if which not in self._graphs:
                self._graphs = {which: self.random_graph(self.seed + which)}  # one at a time is kept
            made = self._graphs[which]
            labels = communities(made, resolution, self.seed + which, largest=self.largest)
            self._random[key] = quality(made, labels, resolution)
        return self._random[key]

    @property
    def _plan(self) -> tuple[tuple[float, ...], int, int, tuple[float, ...]]:
        """Resolutions, seeds, random graphs at all of them, and the resolutions of the verdict."""
        if self.network.edges <= _FEW:
            return RESOLUTIONS, 10, 20, ASKED
        if self.network.edges <= _SEVERAL:
            return RESOLUTIONS, 5, 5, ASKED
        if self.network.edges <= _MANY:
            return RESOLUTIONS, 3, 1, (1.0,)
        return RESOLUTIONS[::2], 2, 1, (1.0,)

    # ------------------------------------------------------------------------------------------- scales

    def scales(self, given: float | None = None) -> Scales:
        """All resolutions; an interrupt (Ctrl-C) ends the search with those that were found.

        A `given` resolution is looked at, too, and is the chosen one.
        """
        grid, seeds, graphs, _ = self._plan
        grid = grid if given is None else (*grid, given)
        order = sorted(set(grid), key=lambda g: (g != given, abs(np.log(g))))
        try:
            for g in order:
                self.run(g, 0)
            for which in range(graphs):
                for g in order:
                    self.random(g, which)
            for seed in range(1, seeds):
                for g in order:
                    self.run(g, seed)
        except KeyboardInterrupt:
            self.interrupted = True
            if not self._runs:
                raise
            if len(self._random) < len(order):  # nothing to compare with
                given = order[0]
        table = self._table()
        if given is None and self.of_rows:  # nearest rows look like communities at every fine scale
            given = float(table.resolution[int(np.argmax(table.score >= NEAR * table.score.max()))])
        return table if given is None else table.at(given)

    def nearest(self, scales: Scales, labels: np.ndarray) -> float:
        """The resolution whose communities agree most with labels [N]; nodes with -1 do not count."""
        known = labels >= 0
        own = np.unique(labels[known], return_inverse=True)[1].reshape(-1)
        alike = [adjusted_rand(own, self.best(float(g))[known]) for g in scales.resolution]
        return float(scales.resolution[int(np.argmax(alike))])

    def put(self, resolution: float, labels: np.ndarray) -> None:
        """Take these labels as the communities at a resolution."""
        self._best[resolution] = labels

    def _table(self) -> Scales:
        columns: list[tuple[float, ...]] = []
        for g in sorted({g for g, _ in self._runs}):
            runs = [run for (own, _), run in self._runs.items() if own == g]
            random = [q for (own, _), q in self._random.items() if own == g]
            best = max(range(len(runs)), key=lambda i: runs[i][1])
            others = [adjusted_rand(runs[best][0], each[0]) for i, each in enumerate(runs) if i != best]
            mean = float(np.mean([q for _, q in runs]))
            columns.append(
                (
                    g,
                    int(runs[best][0].max()) + 1,
                    mean,
                    float(np.mean(random)) if random else 0.0,
                    float(np.mean(others)) if others else 1.0,
                )
            )
        made = list(map(np.array, zip(*columns, strict=True)))
        return Scales(made[0], made[1].astype(np.int64), made[2], made[3], made[4])

    def best(self, resolution: float) -> np.ndarray:
        """The labels with the highest modularity at a resolution that was run."""
        if resolution in self._best:
            return self._best[resolution]
        runs = [run for (g, _), run in self._runs.items() if g == resolution]
        return max(runs, key=lambda run: run[1])[0]

    # ------------------------------------------------------------------------------------------- verdict

    def compared(self, enough: float) -> Compared:
        """How far the graph lies from random ones; no more random graphs than it takes to see `enough` deviations.

        The statistic is the highest surplus over a few resolutions, T = max_g (Q(g) - mean Q_random(g)); that of a
        random graph is taken over the mean of the other random graphs.
        """
        asked = self._plan[3]
        seeds = min(
            2, len(asked)
        )  # large graphs lie so far from random ones that one run at one resolution tells
        own = np.array([np.mean([self.run(g, s)[1] for s in range(seeds)]) for g in asked])
        rows: list[list[float]] = []
        deviations = surplus = 0.0
        for which in range(_MOST):
            rows.append([self.random(g, which) for g in asked])
            if len(rows) < _FEWEST:
                continue
            table = np.array(rows)
            surplus = float((own - table.mean(0)).max())
            others = (table.sum(0) - table) / (len(table) - 1)
            highest = (table - others).max(1)
            deviations = (surplus - float(highest.mean())) / max(float(highest.std(ddof=1)), _SPREAD)
            sure = deviations / (
                3 if len(rows) < _MOST // 2 else 1.5
            )  # few random graphs say little about their spread
            if sure >= enough:
                break
        return Compared(deviations, surplus, len(rows))

    # ------------------------------------------------------------------------------------------- levels

    def levels(self, scales: Scales, smallest: int = 1) -> tuple[np.ndarray, int, list[float]]:
        """Nested labels [L, N], coarse to fine, which of them is the chosen level, and the resolution of each.

        Beside the chosen scale at most two coarser and two finer ones: one after another that with the highest score
        times its distance (1 - adjusted Rand index) from those taken. Coarser levels join communities of the chosen
        one, finer levels divide them.
        """
        chosen = scales.chosen
        picked = [] if self.interrupted else self._picked(scales)
        base = communities_of_size(
            self.network, self.best(float(scales.resolution[chosen])), smallest, self.largest
        )
        found = [(float(scales.resolution[chosen]), base)]
        if self.interrupted:
            return base[None], 0, [found[0][0]]
        above = base
        for i in [i for i in reversed(picked) if i < chosen]:
            above = coarser(self.network, above, float(scales.resolution[i]), self.largest)
            if above.max() > 0 and adjusted_rand(above, found[0][1]) < _ALIKE:
                found.insert(0, (float(scales.resolution[i]), above))
        at, below = len(found) - 1, base
        for i in [i for i in picked if i > chosen]:
            inside = finer(self.network, below, float(scales.resolution[i]), self.seed)
            inside = communities_of_size(apart(self.network, below), inside, smallest, self.largest)
            if adjusted_rand(inside, below) < _ALIKE:
                below = inside
                found.append((float(scales.resolution[i]), below))
        return np.stack([labels for _, labels in found]), at, [g for g, _ in found]

    def _picked(self, scales: Scales) -> list[int]:
        """Rows of the scales that become levels: two at most on either side of the chosen one."""
        score, taken = scales.score, [scales.chosen]
        labels = [self.best(float(g)) for g in scales.resolution]
        nearest = np.array([adjusted_rand(labels[scales.chosen], each) for each in labels])
        room = {True: _BESIDE, False: _BESIDE}  # coarser, finer
        while True:
            open_ = np.array([room[i < scales.chosen] > 0 for i in range(len(labels))])
            worth = score * (1 - nearest) * open_
            worth[taken] = 0
            if worth.max() <= _LEAST_WORTH * score.max():
                return sorted(taken)
            i = int(worth.argmax())
            room[i < scales.chosen] -= 1
            taken.append(i)
            nearest = np.maximum(nearest, [adjusted_rand(labels[i], each) for each in labels])


def communities_of_size(
    network: Network, labels: np.ndarray, smallest: int, largest: int | None
) -> np.ndarray:
    """Labels without communities that are too small, as far as their neighbours have room."""
    if smallest <= 1:
        return labels
    return numbered_by_size(joined(network, labels, smallest, network.nodes if largest is None else largest))
