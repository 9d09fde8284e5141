"""Rows of features like given ones, but without clusters: what a graph of nearest rows is compared with.

Numbers are drawn together (a Gaussian copula): the ranks of two columns go together as before, and each column has
the distribution with one mode that is nearest to its own. So skew, heavy tails and flat tops stay, gaps do not.
Categories and words have no order that a cluster could be a gap in: their values are drawn independently of all else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import isotonic_regression
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from softcut.communities.network import Network
from softcut.communities.random_graphs import exchange
from softcut.graph import Graph
from softcut.graph.neighbours import neighbour_graph
from softcut.tables.kinds import CATEGORY, NUMBER, WORD

_KNOTS = 2000  # of a distribution; more rows are thinned out
_ATOM = 0.05  # of all rows: a value this frequent stays one
_DEGREE = 1.3  # neighbours per node of a graph of nearest rows, times those that each row chose


def neighbour_graph_without_clusters(graph: Graph, seed: int) -> Network:
    """The graph of nearest rows of :func:`rows_without_clusters`, made as `graph` was (``graph.neighbors``).

    >>> graph = Graph.from_features(np.random.default_rng(0).normal(size=(50, 2)), n_neighbors=5)
    >>> neighbour_graph_without_clusters(graph, 0).nodes
    50
    """
    parts = []
    for i, part in enumerate(graph.split()):
        neighbors = part.neighbors
        if neighbors is None or part.x is None:
            raise ValueError("the graph was not made from its features")
        if part.average_degree < neighbors:  # some of a larger graph
            neighbors = max(1, round(part.average_degree / _DEGREE))
        if part.num_nodes < 2:
            parts.append(part.adjacency)
            continue
        rows = rows_without_clusters(part.x, graph.kinds, seed + 7919 * i)
        parts.append(neighbour_graph(rows, min(neighbors, part.num_nodes - 1), graph.kinds))
    return Network(parts[0] if len(parts) == 1 else sp.csr_array(sp.block_diag(parts, format="csr")))


def rows_without_clusters(x: Any, kinds: np.ndarray, seed: int) -> Any:
    """As many random rows as x [N, F] has, without clusters; sparse where x is. `kinds` [F]: softcut.tables.kinds.

    >>> x = np.append(np.arange(50.0), np.arange(500.0, 550))[:, None]
    >>> drawn = rows_without_clusters(x, np.array([NUMBER]), 0)
    >>> drawn.shape, bool(((drawn > 50) & (drawn < 500)).any())
    ((100, 1), True)
    """
    rng = np.random.default_rng(seed)
    words, numbers = np.flatnonzero(kinds == WORD), np.flatnonzero(kinds == NUMBER)
    if len(words) == x.shape[1]:
        drawn = _words(sp.csr_array(x), rng)
        return drawn if sp.issparse(x) else drawn.toarray()
    rows = np.array(x.toarray() if sp.issparse(x) else x)
    for kind in np.unique(kinds[kinds >= CATEGORY]):
        columns = np.flatnonzero(kinds == kind)
        rows[:, columns] = rows[np.ix_(rng.permutation(len(rows)), columns)]
    if len(words):
        rows[:, words] = _words(sp.csr_array(rows[:, words]), rng).toarray()
    if len(numbers):
        rows[:, numbers] = _numbers(rows[:, numbers].astype(np.float64), rng)
    return sp.csr_array(rows) if sp.issparse(x) else rows


# ---------------------------------------------------------------------- words


def _words(x: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Words dealt out anew: rows have as many as before, and words are as frequent, with the same counts."""
    n, f = x.shape
    columns = sp.csc_array(x)
    columns.eliminate_zeros()
    first = columns.indices.astype(np.int32)
    second = (n + np.repeat(np.arange(f), np.diff(columns.indptr))).astype(np.int32)
    bounds, flips = np.array([0, len(first)]), np.array([False])
    if len(first) > 1:
        exchange(first, second, bounds, flips, n + f, np.uint64(rng.integers(1 << 62)), 5)
    # Ends were exchanged between words: the counts of a word go to the rows that have it now, in random order.
    order = np.lexsort((rng.random(len(first)), second))
    drawn = sp.csc_array((columns.data, first[order], columns.indptr), shape=x.shape)
    return sp.csr_array(drawn)


# ---------------------------------------------------------------------- numbers


def _numbers(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn from the Gaussian copula of x and the unimodal distributions nearest to its columns."""
    n, f = x.shape
    scores = ndtri((rankdata(x, axis=0) - 0.5) / n)
    scores -= scores.mean(axis=0)
    deviation = scores.std(axis=0)
    scores /= np.where(deviation > 1e-9, deviation, 1.0)
    if f <= n:
        values, axes = np.linalg.eigh(scores.T @ scores / n)
        drawn = (rng.standard_normal((n, f)) * np.sqrt(np.maximum(values, 0.0))) @ axes.T
    else:  # wide: the covariance of random sums of the rows is the same, without its matrix
        drawn = rng.standard_normal((n, n)) @ scores / np.sqrt(n)
    share = ndtr(drawn)
    out = np.empty_like(x)
    for j in range(f):
        out[:, j] = unimodal_quantiles(x[:, j], share[:, j]) if deviation[j] > 1e-9 else x[:, j]
    return out


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
    width, rise = np.diff(knots), np.diff(heights)

    def fitted(mode: int) -> tuple[np.ndarray, float, float]:
        parts, far = [], []
        for piece, increasing in ((slice(0, mode), True), (slice(mode, None), False)):
            if len(width[piece]) == 0:
                parts.append(np.zeros(0))
                far.append(0.0)
                continue
            slope = isotonic_regression(
                rise[piece] / width[piece], weights=width[piece], increasing=increasing
            ).x
            parts.append(slope * width[piece])
            far.append(float(np.abs(np.cumsum(parts[-1] - rise[piece])).max()))
        return np.concatenate([[0.0], np.cumsum(np.concatenate(parts))]), far[0], far[1]

    low, high = 0, len(width)
    while low < high:
        mode = (low + high) // 2
        _, left, right = fitted(mode)
        if left < right:
            low = mode + 1
        else:
            high = mode
    candidates = [fitted(mode) for mode in (max(low - 1, 0), low)]
    best = min(candidates, key=lambda each: max(each[1:]))
    return knots, best[0]
