"""What characterises clusters: the features that pay by the price list of the evidence, with values people can read.

A column of features counts what the clusters say about it, less its price (:mod:`softcut.metrics.judge`): a word or a
value of a category n_w D_w - log C(K, n_w) nats, with D_w the divergence of the clusters of nodes that have it from
those of all nodes; a number the Bayes factor of its normal scores. It is named where it more likely tells clusters
apart than not, given the share q of all columns that do; and it belongs to those clusters whose members differ by it
from all others, by the same rule for two clusters, inside and elsewhere, or for three, where a cluster lies between
others: below, inside and above, against two of which it is part of one.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.metrics.features import axes_table, column_gains, looked_at, normal_scores, told_by
from softcut.ops.information import multinomial_complexity
from softcut.tables.arrays import to_dense
from softcut.tables.display_text import percent, readable, shortened
from softcut.tables.kinds import CATEGORY, NUMBER

_MOST = 6  # traits of a cluster
_NAME = 60  # characters of a feature's name
_RANKED_AT_ONCE = 256  # columns of numbers


@dataclass(frozen=True)
class Trait:
    """A feature by which the members of a cluster differ from the other nodes.

    >>> str(Trait("dept Legal", "share", 0.65, 0.12, nats=9.0)), str(Trait("pay", "median", 62_534, 41_020, nats=7.0))
    ('dept Legal 65 % (12 % elsewhere)', 'pay 62,500 (41,000 elsewhere)')
    >>> str(Trait("age", "median", 40, 25, nats=7.0, above=55))
    'age 40 (25 or 55 elsewhere)'
    """

    feature: str
    measure: str  # "share" of the nodes that have it; "median", "mean" or (median) "date" of a number
    inside: float
    elsewhere: float
    nats: float  # what it says about who is in the cluster, less its price
    above: float | None = (
        None  # of the clusters above one in the middle; `elsewhere` is then that of those below
    )

    @property
    def values(self) -> tuple[str, str]:
        """Inside and elsewhere, in words."""
        others = [self.elsewhere, *([] if self.above is None else [self.above])]
        said: Callable[[float], str] = {"share": percent, "date": _date}.get(self.measure, str)
        if self.measure in ("median", "mean"):
            apart = min((self.inside - other for other in others), key=abs)
            said = partial(readable, apart=apart)
        return said(self.inside), " or ".join(map(said, others))

    def text(self, elsewhere: str = " elsewhere") -> str:
        """The feature with both values; what stands behind the second one may be left out."""
        inside, other = self.values
        mean = " on average" if self.measure == "mean" else ""
        return f"{self.feature} {inside}{mean} ({other}{elsewhere})"

    def __str__(self) -> str:
        return self.text()


def traits_of_clusters(
    x: Any,
    kinds: np.ndarray,
    names: Sequence[str] | None,
    labels: np.ndarray,
    k: int,
    dates: Collection[str] = (),
) -> list[list[Trait]]:
    """What characterises each of `k` clusters, the strongest first; nothing where no feature pays.

    `x` [N, F] are the features, `kinds` those of its columns (:mod:`softcut.tables.kinds`), `names` their names and
    `dates` the names of numbers that are days since 1970; `labels` [N] are below `k`, -1 for a node in no cluster.

    >>> hobby = np.eye(2)[[0] * 30 + [1] * 30]
    >>> traits = traits_of_clusters(hobby, np.zeros(2), ["chess", "tennis"], np.arange(60) // 30, 2)
    >>> [str(trait) for trait in traits[0]]
    ['chess 100 % (0 % elsewhere)', 'tennis 0 % (100 % elsewhere)']
    """
    known = labels >= 0
    x, labels = (x, labels) if known.all() else (x[np.flatnonzero(known)], labels[known])
    sizes = np.bincount(labels, minlength=k)
    if (sizes > 0).sum() < 2 or x.shape[1] == 0:
        return [[] for _ in range(k)]
    all_gains = np.empty(x.shape[1])
    for columns, table, gains_of in _tables(x, kinds, labels, k, np.arange(x.shape[1])):
        all_gains[columns] = gains_of(table)
    named = np.flatnonzero(_pay(torch.from_numpy(all_gains)).numpy())
    # The same for each cluster alone against all others: [K, F'] of the columns that pay.
    place, gains = {int(j): i for i, j in enumerate(named)}, np.zeros((k, len(named)))
    more = np.ones(gains.shape, dtype=bool)  # nodes have it inside, more than elsewhere; always so of numbers
    amid = np.zeros(gains.shape, dtype=bool)  # a number that lies between those of other clusters
    for columns, table, gains_of in _tables(x, kinds, labels, k, named):
        here = [place[int(j)] for j in columns]
        for cluster in np.flatnonzero(sizes):
            both = torch.stack([table[cluster], table.sum(0) - table[cluster]])
            gains[cluster, here] = gains_of(both)
            if kinds[columns[0]] != NUMBER:
                inside, elsewhere = both[:, :-1] / both[:, -1:]
                more[cluster, here] = inside > elsewhere
            else:
                between = _between(table, int(cluster), gains_of).numpy()
                amid[cluster, here] = between > gains[cluster, here]
                gains[cluster, here] = np.maximum(between, gains[cluster, here])
    pays = _pay(torch.from_numpy(gains).flatten()).view(gains.shape).numpy()
    pays &= more | (
        kinds[named] < CATEGORY
    )  # where a value of a category is rare another is not, and is named
    order = np.lexsort((-gains, ~more, ~pays))
    read = _Columns(x, kinds, names, labels, dates)
    return [
        [read.trait(named[i], c, gains[c, i], amid[c, i]) for i in order[c, : min(_MOST, int(pays[c].sum()))]]
        for c in range(k)
    ]


def _pay(gains: Tensor) -> Tensor:
    """Which columns more likely say something than not, by the share of all that do."""
    told, share = told_by(gains)
    likely = torch.log1p(-share) - share.log()
    return (gains > likely.clamp(min=0)) if told > 0 else torch.zeros_like(gains, dtype=torch.bool)


def _tables(
    x: Any, kinds: np.ndarray, labels: np.ndarray, k: int, columns: np.ndarray
) -> Iterator[tuple[np.ndarray, Tensor, Callable[[Tensor], Tensor]]]:
    """Some columns, sums of theirs by cluster with the sizes last [K, F' + 1], and what makes gains of such sums."""
    words = columns[kinds[columns] != NUMBER]
    if len(words):
        has = sp.csr_array(x[:, words])
        has = sp.csr_array((np.asarray(has.data != 0, dtype=float), has.indices, has.indptr), shape=has.shape)
        nodes = np.arange(len(labels))
        member = sp.csr_array((np.ones(len(labels)), (labels, nodes)), shape=(k, len(labels)))
        sizes = np.bincount(labels, minlength=k)[:, None]
        yield words, torch.from_numpy(np.hstack([(member @ has).toarray(), sizes])), _gains_of_words
    numbers = columns[kinds[columns] == NUMBER]
    rows = looked_at(len(labels))
    scale = len(labels) / len(rows)  # nodes that one stands for
    seen = torch.from_numpy(labels[rows])
    for start in range(0, len(numbers), _RANKED_AT_ONCE):
        some = numbers[start : start + _RANKED_AT_ONCE]
        values = np.asarray(to_dense(x[rows][:, some]), dtype=np.float64)
        scores, varied = np.zeros(values.shape), values.max(0) > values.min(0)
        scores[:, varied] = normal_scores(values[:, varied])
        yield some, axes_table(torch.from_numpy(scores), seen, k), lambda sums: column_gains(sums) * scale


def _between(table: Tensor, cluster: int, gains_of: Callable[[Tensor], Tensor]) -> Tensor:
    """What each number says about a cluster that has clusters below and above it, [F']; 0 where one of them lacks."""
    sums, sizes = table[:, :-1], table[:, -1:]
    means = sums / sizes  # NaN of an empty cluster, which is not lower
    lower = means < means[cluster]
    own = torch.stack([sums[cluster], sizes[cluster].expand_as(sums[cluster])], dim=1)  # [F', 2]
    low = torch.stack([(sums * lower).sum(0), (sizes * lower).sum(0)], dim=1)
    high = torch.stack([sums.sum(0), sizes.sum().expand_as(sums[0])], dim=1) - low - own
    apart, below, above = ([low, own, high], [low + own, high], [low, own + high])
    three, *two = (gains_of(torch.stack(parts, dim=1))[:, 0] for parts in (apart, below, above))
    return three - torch.maximum(*two)


def _gains_of_words(table: Tensor) -> Tensor:
    """n_w D_w - log C(K, n_w) of each word."""
    words, sizes = table[:, :-1], table[:, -1:]
    counts = words.sum(0)
    gains = (torch.xlogy(words, words) - torch.xlogy(words, sizes / sizes.sum())).sum(0)
    return gains - torch.xlogy(counts, counts) - multinomial_complexity(len(table), counts)


class _Columns:
    """The columns of a feature matrix, and how people read them."""

    def __init__(
        self,
        x: Any,
        kinds: np.ndarray,
        names: Sequence[str] | None,
        labels: np.ndarray,
        dates: Collection[str],
    ) -> None:
        self.x = sp.csc_array(x) if sp.issparse(x) else x
        self.kinds, self.names, self.labels, self.dates = kinds, names, labels, dates

    def trait(self, j: int, cluster: int, nats: float, amid: bool) -> Trait:
        """Column `j` inside and outside a cluster; with those below and those above apart where it lies `amid` them."""
        values = np.asarray(to_dense(self.x[:, [j]]), dtype=np.float64).ravel()
        inside = self.labels == cluster
        own, others = values[inside], values[~inside]
        name = f"feature {j}" if self.names is None else self.names[j]
        called = shortened(name, _NAME)
        if self.kinds[j] != NUMBER or bool(np.isin(values, (0.0, 1.0)).all()):
            if self.kinds[j] >= CATEGORY:  # "city=Oslo" is a value of a city
                called = called.replace("=", " ", 1)
            return Trait(called, "share", float((own != 0).mean()), float((others != 0).mean()), float(nats))
        middle = float(np.median(own)), float(np.median(others))
        measure = "date" if name in self.dates else "median"
        if amid:
            of = {c: np.median(values[self.labels == c]) for c in np.unique(self.labels).tolist()}
            sides = [[c for c in of if of[c] < middle[0]], [c for c in of if of[c] > middle[0]]]
            if all(sides):
                low, high = (float(np.median(values[np.isin(self.labels, side)])) for side in sides)
                return Trait(called, measure, middle[0], low, float(nats), high)
        if measure == "date":
            return Trait(called, measure, *middle, float(nats))
        if middle[0] == middle[1]:  # of numbers with few values, such as counts
            return Trait(called, "mean", float(own.mean()), float(others.mean()), float(nats))
        return Trait(called, "median", *middle, float(nats))


def _date(days: float) -> str:
    """Days since 1970 as a date."""
    try:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(days))).isoformat()
    except OverflowError:
        return readable(days)
