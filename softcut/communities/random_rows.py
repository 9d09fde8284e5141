"""Rows of features like given ones, but without clusters: what a graph of nearest rows is compared with.

Columns are drawn together (a Gaussian copula): two of them go together as before, by their ranks. Each has the
distribution with one mode that is nearest to its own, so that skew, heavy tails and flat tops stay and gaps do not.
Categories and words are dealt out anew, independently of all else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from softcut.communities.compiled import compiled
from softcut.communities.network import Network
from softcut.graph import Graph
from softcut.graph.neighbours import neighbour_graph
from softcut.tables.kinds import NUMBER, WORD

_KNOTS = 2000  # of a distribution; more rows are thinned out
_ATOM = 0.05  # of all rows: a value this frequent stays one
_DEGREE = 1.3  # neighbours per node of a graph of nearest rows, times those that each row chose


def neighbour_graph_without_clusters(graph: Graph, seed: int) -> Network:
    """The graph of nearest rows of :func:`rows_without_clusters`, made as `graph` was (``graph.neighbors``).

    >>> graph = Graph.from_features(np.random.default_rng(0).normal(size=(50, 2)), n_neighbors=5)
    >>> neighbour_graph_without_clusters(graph, 0).nodes
    50
    """
    if graph.neighbors is None or graph.x is None:
        raise ValueError("the graph was not made from its features")
    count = graph.neighbors
    if graph.average_degree < count:  # a part of a larger graph
        count = max(1, round(graph.average_degree / _DEGREE))
    rows = rows_without_clusters(graph.x, graph.kinds, seed)
    return Network(neighbour_graph(rows, min(count, graph.num_nodes - 1), graph.kinds))


def rows_without_clusters(x: Any, kinds: np.ndarray, seed: int) -> Any:
    """As many random rows as x [N, F] has, without clusters; sparse where x is. `kinds` [F]: softcut.tables.kinds.

    >>> x = np.append(np.arange(50.0), np.arange(500.0, 550))[:, None]
    >>> drawn = rows_without_clusters(x, np.array([NUMBER]), 0)
    >>> drawn.shape, bool(((drawn > 50) & (drawn < 500)).any())
    ((100, 1), True)
    """
    rng = np.random.default_rng(seed)
    rows = np.array(x.toarray() if sp.issparse(x) else x, dtype=np.float64)
    for kind in np.unique(kinds[kinds != NUMBER]):
        columns = np.flatnonzero(kinds == kind)
        for group in columns[:, None] if kind == WORD else [columns]:
            rows[:, group] = rows[np.ix_(rng.permutation(len(rows)), group)]
    numbers = np.flatnonzero(kinds == NUMBER)
    if len(numbers):
        drawn = ndtr(_normal_rows(rows[:, numbers], rng))
        for j, column in enumerate(numbers):
            if rows[:, column].min() < rows[:, column].max():
                rows[:, column] = unimodal_quantiles(rows[:, column], drawn[:, j])
    rows = rows.astype(x.dtype, copy=False)
    return sp.csr_array(rows) if sp.issparse(x) else rows


def _normal_rows(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussian rows whose columns correlate as the ranks of those of x do."""
    n, f = x.shape
    scores = ndtri((rankdata(x, axis=0) - 0.5) / n)
    scores -= scores.mean(axis=0)
    deviation = scores.std(axis=0)
    varied = deviation > 1e-9
    scores /= np.where(varied, deviation, 1.0)
    correlation = (scores.T @ scores if f <= n else scores @ scores.T) / n  # of the same sum of squares
    # Columns that have nothing to do with each other correlate, too, by chance: that much of it is taken out.
    used = int(varied.sum())
    found = float((correlation**2).sum()) - used
    kept = 1.0 - min(1.0, used * (used - 1) / n / found) if found > 0 else 1.0
    if f <= n:
        shrunk = kept * correlation
        np.fill_diagonal(shrunk, 1.0)
        values, axes = np.linalg.eigh(shrunk)
        return rng.standard_normal((n, f)) @ (axes * np.sqrt(np.maximum(values, 0.0))).T
    # Wide: random sums of the rows have the covariance, without its matrix.
    mixed = np.sqrt(kept / n) * (rng.standard_normal((n, n)) @ scores)
    return mixed + np.sqrt(1 - kept) * rng.standard_normal((n, f))


def unimodal_quantiles(values: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Quantiles at `share` of the distribution with one mode that is nearest to that of some values.

    Whole numbers, or multiples of another step, stay such; so does a value that many rows have, apart from the rest.

    >>> unimodal_quantiles(np.array([0.0, 1, 1, 9, 9, 10]), np.array([0.0, 0.5, 1.0])).tolist()
    [0.0, 4.5, 10.0]
    """
    distinct, times = np.unique(values, return_counts=True)
    step = _step(distinct, len(values))
    if step > 0:  # each value stands for the cell between itself and the next
        places = np.rint((distinct - distinct[0]) / step)
        edges = np.union1d(places, places + 1)
        height = np.append(0, np.cumsum(times))[np.searchsorted(places, edges)]
        knots, heights = unimodal(edges, height / len(values))
        cells = np.floor(np.interp(share, heights, knots))
        return distinct[0] + step * np.minimum(cells, places[-1])
    common = int(times.argmax())
    atom = times[common] / len(values)
    if atom <= _ATOM:
        return _quantiles(np.sort(values), share)
    rest = np.sort(values[values != distinct[common]])
    below = float((rest < distinct[common]).mean()) * (1 - atom)
    inside = (share >= below) & (share < below + atom)
    other = np.where(share < below, share, share - atom) / (1 - atom)
    drawn = _quantiles(rest, np.clip(other, 0.0, 1.0))
    return np.where(inside, distinct[common], drawn)


def _quantiles(ordered: np.ndarray, share: np.ndarray) -> np.ndarray:
    if len(ordered) > _KNOTS:
        ordered = np.quantile(ordered, np.linspace(0, 1, _KNOTS))
    knots, first = np.unique(ordered, return_index=True)
    if len(knots) < 3:
        return np.interp(share, np.linspace(0, 1, len(knots)), knots)
    last = np.append(first[1:], len(ordered)) - 1
    height = (first + last) / 2
    knots, heights = unimodal(knots, (height - height[0]) / (height[-1] - height[0]))
    return np.interp(share, heights, knots)


def _step(distinct: np.ndarray, rows: int) -> float:
    """The step that all values are multiples of, from the lowest on; 0 where there is none worth its name."""
    if len(distinct) < 2:
        return 0.0
    step = float(np.diff(distinct).min())
    reach = float(distinct[-1] - distinct[0])
    if step <= 0 or reach / step > rows:
        return 0.0
    step = reach / round(reach / step)
    places = (distinct - distinct[0]) / step
    return step if np.abs(places - np.round(places)).max() < 0.05 else 0.0


def unimodal(knots: np.ndarray, heights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unimodal distribution nearest to one that rises from 0 to 1 along a line: heights at the same knots.

    Left of the mode it is the greatest convex minorant, right of it the least concave majorant. The mode is where
    the largest distance is smallest; the distance on the left grows with the mode, that on the right falls.

    >>> unimodal(np.arange(5.0), np.array([0, 0.4, 0.5, 0.6, 1]))[1].round(3).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    return knots, np.concatenate([[0.0], np.cumsum(rises_then_falls(np.diff(knots), np.diff(heights)))])


@compiled
def rises_then_falls(width: Any, rise: Any) -> Any:
    """How much the fitted line rises over each of some widths: slopes increase up to the mode, then decrease."""
    n = len(width)
    out = np.empty(n)
    low, high = 0, n
    while low < high:
        mode = (low + high) // 2
        if monotone(width, rise, 0, mode, 1.0, out) < monotone(width, rise, mode, n, -1.0, out):
            low = mode + 1
        else:
            high = mode
    before = max(low - 1, 0)
    here = max(monotone(width, rise, 0, low, 1.0, out), monotone(width, rise, low, n, -1.0, out))
    there = max(monotone(width, rise, 0, before, 1.0, out), monotone(width, rise, before, n, -1.0, out))
    if here <= there:
        monotone(width, rise, 0, low, 1.0, out)
        monotone(width, rise, low, n, -1.0, out)
    return out


@compiled
def monotone(width: Any, rise: Any, start: int, end: int, sign: float, out: Any) -> float:
    """Fill `out` from start to end with rises of slopes that only increase (sign 1) or only decrease (-1).

    Neighbours that do not are pooled. Returns the largest distance between the two lines.
    """
    wide, high, until = np.empty(end - start), np.empty(end - start), np.empty(end - start, np.int64)
    pools = 0
    for i in range(start, end):
        w, h = width[i], rise[i]
        while pools > 0 and sign * high[pools - 1] * w >= sign * h * wide[pools - 1]:
            pools -= 1
            w += wide[pools]
            h += high[pools]
        wide[pools], high[pools], until[pools] = w, h, i + 1
        pools += 1
    far, apart, i = 0.0, 0.0, start
    for p in range(pools):
        slope = high[p] / wide[p]
        while i < until[p]:
            out[i] = slope * width[i]
            apart += out[i] - rise[i]
            far = max(far, abs(apart))
            i += 1
    return far
