"""Which graphs train, stop and test: stratified folds fixed by a seed, or the split a data set comes with."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection


class Split(NamedTuple):
    """Graph numbers for training, for stopping and for the test."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def folds(graphs: GraphCollection, count: int = 10, seed: int = 0, validation: float = 0.1) -> list[Split]:
    """Stratified folds; a share of every training part is set aside for early stopping.

    A data set that comes with its own split (Bench) has it in every fold: its folds are repeated runs.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> pair = Graph.from_edges([[0], [1]])
    >>> graphs = from_graphs([pair] * 40, y=[0, 1] * 20)
    >>> parts = folds(graphs, 4, validation=0.2)
    >>> [len(part) for part in parts[0]], sorted(sum((p.test.tolist() for p in parts), [])) == list(range(40))
    ([24, 6, 10], True)

    Parameters
    ----------
    graphs : GraphCollection
        With classes.
    count : int
        Number of folds.
    seed : int
        The same seed gives the same folds.
    validation : float
        Share of each training part that decides when to stop.
    """
    if graphs.split is not None:
        parts = [np.flatnonzero(graphs.split == part) for part in range(3)]
        return [Split(*parts) for _ in range(count)]
    y = graphs.y
    if y is None:
        raise ParameterError("graphs must have classes y to be split.")
    if not 2 <= count <= np.bincount(y).min(initial=len(y)):
        raise ParameterError(
            f"count must be at least 2 and at most the size of the smallest class, "
            f"{np.bincount(y).min(initial=len(y))}, not {count}."
        )
    fold = _stratified(y, count, np.random.default_rng(seed))
    splits = []
    for number in range(count):
        rest = np.flatnonzero(fold != number)
        # A share of 1/m for stopping: one of m parts that are stratified in the same way.
        parts_of_rest = _stratified(
            y[rest], max(2, round(1 / validation)), np.random.default_rng([seed, number])
        )
        splits.append(
            Split(rest[parts_of_rest > 0], rest[parts_of_rest == 0], np.flatnonzero(fold == number))
        )
    return splits


def hold_out(y: NDArray[np.int64], share: float, seed: int = 0) -> Split:
    """Graphs for training and a stratified share of them for stopping; no test graphs.

    >>> [len(part) for part in hold_out(np.repeat([0, 1], 20), 0.25)]
    [30, 10, 0]
    """
    part = _stratified(y, max(2, round(1 / share)), np.random.default_rng(seed))
    return Split(np.flatnonzero(part > 0), np.flatnonzero(part == 0), np.zeros(0, np.int64))


def _stratified(y: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A part number for every graph: each class is shuffled and dealt out, one class after another.

    Written out here so that the folds of published tables do not change with a library's version.
    """
    order = np.concatenate([rng.permutation(np.flatnonzero(y == c)) for c in range(int(y.max()) + 1)])
    part = np.empty(len(y), np.int64)
    part[order] = np.arange(len(y)) % count
    return part
