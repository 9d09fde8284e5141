"""Rows of features like given ones, but without clusters: what a graph of nearest rows is compared with.

Columns are drawn together (a Gaussian copula): two of them go together as before, by their ranks. Each has the
distribution with one mode that is nearest to its own, so that skew, heavy tails and flat tops stay and gaps do not; the
values of a category are as frequent as before. Words too many or too rare for that are drawn independently of all else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from softcut.communities.compiled import compiled
from softcut.communities.network import Network
from softcut.communities.random_graphs import exchange
from softcut.graph import Graph
from softcut.graph.neighbours import neighbour_graph
from softcut.tables.kinds import CATEGORY, WORD

_KNOTS = 2000  # of a distribution; more rows are thinned out
_ATOM = 0.05  # of all rows: a value this frequent stays one
_WORDS = 5  # in a row, at least, for those that are drawn with other columns
_MOST_TOGETHER = 20_000_000  # entries of x, zeros included, where there are words
_PASSES = 5  # exchanges tried for each word of a row
_ROUNDS = 4  # of means of rows and words
_SHIFTS = 30  # towards the frequencies of the values of a category
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
    >>> drawn = rows_without_clusters(x, np.array([1]), 0)
    >>> drawn.shape, bool(((drawn > 50) & (drawn < 500)).any())
    ((100, 1), True)
    """
    rng = np.random.default_rng(seed)
    words = np.flatnonzero(kinds == WORD)
    if _go_together(x, words):
        words = words[:0]
    if len(words) == x.shape[1]:
        drawn = _words(sp.csr_array(x), rng)
        return drawn if sp.issparse(x) else drawn.toarray()
    rows = np.array(x.toarray() if sp.issparse(x) else x)
    others = np.setdiff1d(np.arange(x.shape[1]), words)
    if len(words):
        rows[:, words] = _words(sp.csr_array(rows[:, words]), rng).toarray()
    rows[:, others] = _together(rows[:, others].astype(np.float64), kinds[others], rng)
    return sp.csr_array(rows) if sp.issparse(x) else rows


def _go_together(x: Any, words: np.ndarray) -> bool:
    """Whether there are rows enough to see which words go together, and words enough in a row."""
    n, f = x.shape
    if f > n or n * f > _MOST_TOGETHER:
        return False
    return sp.csr_array(x[:, words]).count_nonzero() >= _WORDS * n


# ---------------------------------------------------------------------- words


def _words(x: sp.csr_array, rng: np.random.Generator) -> sp.csr_array:
    """Words dealt out anew: rows have as many different ones as before, and words are in as many rows.

    Their counts are what a row and a word make likely, times what is left, dealt out at random.
    """
    n, f = x.shape
    columns = sp.csc_array(x)
    columns.eliminate_zeros()
    first = columns.indices.astype(np.int32)
    second = (n + np.repeat(np.arange(f), np.diff(columns.indptr))).astype(np.int32)
    before, word = first.copy(), second - n
    if len(first) > 1:
        ends = np.array([0, len(first)]), np.array([False])
        exchange(first, second, *ends, n + f, np.uint64(rng.integers(1 << 62)), _PASSES)
    counts = columns.data
    if len(counts) and (counts != counts[0]).any():
        size, of_row, of_word = np.log(counts.astype(np.float64)), np.zeros(n), np.zeros(f)
        for _ in range(_ROUNDS):
            of_word = _means(size - of_row[before], word, f)
            of_row = _means(size - of_word[word], before, n)
        rest = rng.permutation(size - of_row[before] - of_word[word])
        drawn = np.exp(of_row[first] + of_word[second - n] + rest)
        whole = (counts == np.rint(counts)).all()
        counts = (np.maximum(np.rint(drawn), 1) if whole else drawn).astype(counts.dtype)
    return sp.csr_array(sp.coo_array((counts, (first, second - n)), shape=x.shape))


def _means(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    return np.bincount(group, values, groups) / np.maximum(np.bincount(group, minlength=groups), 1)


# ---------------------------------------------------------------------- columns that go together


def _together(x: np.ndarray, kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows drawn from the Gaussian copula of x: a normal variable for each number, word and value of a category."""
    groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds[kinds >= CATEGORY])]
    drawn = _normal_rows(x, kinds, rng)
    out = x.copy()
    for j in np.flatnonzero(kinds < CATEGORY):
        if x[:, j].min() < x[:, j].max():
            out[:, j] = unimodal_quantiles(x[:, j], ndtr(drawn[:, j]))
    for group in groups:
        values = x[:, group]
        none = ~values.any(axis=1)
        latent = np.column_stack([drawn[:, group], rng.standard_normal(len(x))])  # the last one: no value
        chosen = _categories(latent, np.append((values != 0).sum(axis=0), none.sum()) / len(x))
        out[:, group] = (chosen[:, None] == np.arange(len(group))) * values.max(axis=0)
    return out


def _categories(latent: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The largest of some variables [N, V] in each row, shifted so that each is as often as `share` says."""
    with np.errstate(divide="ignore"):
        shift = np.where(share > 0, ndtri(np.clip(share, 1e-9, 1 - 1e-9)), -np.inf)
    for _ in range(_SHIFTS):
        now = np.bincount((latent + shift).argmax(axis=1), minlength=len(share)) / len(latent)
        shift = shift + 0.4 * np.log((share + 0.5 / len(latent)) / (now + 0.5 / len(latent)))
    return (latent + shift).argmax(axis=1)


def _normal_rows(x: np.ndarray, kinds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussian rows whose columns correlate as the ranks of those of x do."""
    n, f = x.shape
    scores = ndtri((rankdata(x, axis=0) - 0.5) / n)
    scores -= scores.mean(axis=0)
    deviation = scores.std(axis=0)
    varied = deviation > 1e-9
    scores /= np.where(varied, deviation, 1.0)
    if f <= n:
        correlation = scores.T @ scores / n
    else:
        correlation = scores @ scores.T / n  # of the same sum of squares
    # Columns that have nothing to do with each other correlate, too, by chance: that much of it is taken out.
    used = int(varied.sum())
    found = float((correlation**2).sum()) - used
    kept = 1.0 - min(1.0, used * (used - 1) / n / found) if found > 0 else 1.0
    if f <= n:
        # A variable and its few values, all that is seen of it, correlate less than two variables do.
        lost = np.maximum(np.abs(deviation_of_ties(x)), 0.2)
        between = (kinds[:, None] != kinds) | (kinds < CATEGORY)
        raised = kept * correlation / np.where(between, lost[:, None] * lost, 1.0)
        np.fill_diagonal(raised, 1.0)
        values, axes = np.linalg.eigh(np.clip(raised, -1.0, 1.0))
        root = axes * np.sqrt(np.maximum(values, 0.0))
        root /= np.sqrt((root**2).sum(axis=1, keepdims=True))
        return rng.standard_normal((n, f)) @ root.T
    # Wide: random sums of the rows have the covariance, without its matrix.
    mixed = np.sqrt(kept / n) * (rng.standard_normal((n, n)) @ scores)
    return mixed + np.sqrt(1 - kept) * rng.standard_normal((n, f))


def deviation_of_ties(x: np.ndarray) -> np.ndarray:
    """How well the ranks of each column [F] go with a normal variable whose order they tell as far as they do.

    >>> deviation_of_ties(np.array([[0.0, 1], [0, 2], [1, 3], [1, 4]])).round(2).tolist()
    [0.8, 0.93]
    """
    n = len(x)
    low, high = rankdata(x, "min", axis=0) - 1, rankdata(x, "max", axis=0)
    inner = (
        (_density(low / n) - _density(high / n)) * n / (high - low)
    )  # mean of the variable in each class of ties
    return inner.std(axis=0)


def _density(share: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.exp(-(ndtri(share) ** 2) / 2) / np.sqrt(2 * np.pi)


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
