"""What the columns of a feature matrix are: words, numbers, or values of a category.

Columns of one value say nothing about the others. A matrix of one kind is words where it is non-negative and at most
half full (counts of words, flags, TF-IDF), else numbers. It has two kinds where some columns are clearly measurements
(negative, or hardly ever 0) and differ from the others, which are flags, counts or much smaller: then the others are
the values of a category where they are 0 and 1 and each row has exactly one of them, words where they are many, and
numbers where they are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import Note
from softcut.tables.arrays import plural

WORD, NUMBER, CATEGORY = 0, 1, 2  # CATEGORY + c: a value of category c
_FULL = 0.95  # a column with more values that are not 0 is a measurement, unless all columns are alike
_OTHER_SCALE = 10.0  # a column this many times larger than others is of another kind
FEW = 10  # fewer columns of counts beside numbers are numbers, too
_LONGEST = 1000  # values of a category


def looks_like_words(x: Any) -> bool:
    """Whether features are counts of words or the like: non-negative and at most half of them not 0."""
    values = np.asarray(x.data) if sp.issparse(x) else np.asarray(x)[np.nonzero(x)]
    return bool(values.size == 0 or values.min() >= 0) and values.size <= 0.5 * x.shape[0] * x.shape[1]


def constant_columns(x: Any) -> np.ndarray:
    """Which columns of an array or sparse matrix have one value only, [F]."""
    low, high = x.min(axis=0), x.max(axis=0)
    low, high = (each.toarray().ravel() if sp.issparse(each) else each for each in (low, high))
    return low == high


def kinds_of_columns(x: Any) -> np.ndarray:
    """The kind of each column [F], by its values: `WORD`, `NUMBER`, or `CATEGORY` + c for the values of category c.

    >>> city = np.eye(3)[[0, 1, 2, 0, 1, 2]]
    >>> kinds_of_columns(np.column_stack([[41e3, 39e3, 52e3, 47e3, 61e3, 58e3], city])).tolist()
    [1, 2, 2, 2]
    """
    n, f = x.shape
    if n == 0 or f < 2:
        return np.full(f, WORD if looks_like_words(x) else NUMBER)
    constant = constant_columns(x)
    alike = np.full(f, WORD if looks_like_words(x[:, ~constant] if constant.any() else x) else NUMBER)
    columns = sp.csc_array(x)
    columns.eliminate_zeros()
    low, share = columns.min(axis=0).toarray().ravel(), np.diff(columns.indptr) / n
    measured = (low < 0) | (share > _FULL)
    if not measured.any() or measured.all():
        return alike
    size, fractions, binary = _of_columns(columns)
    measured &= ~constant
    others = ~measured & ~constant
    if not measured.any() or not others.any():
        return alike
    flags, whole = bool(binary[others].all()), not fractions[others].any()
    different = low < 0
    different |= ~binary if flags else fractions if whole else False
    different |= size > _OTHER_SCALE * np.median(size[others])
    measured &= different
    if not measured.any():
        return alike
    kinds = np.full(f, NUMBER)
    rest = np.flatnonzero(~measured & ~constant)
    groups = _one_hot_groups(x, rest[binary[rest]], np.cumsum(~constant))
    for c, group in enumerate(groups):
        kinds[group] = CATEGORY + c
    rest = rest[kinds[rest] == NUMBER]
    if len(rest) >= FEW and looks_like_words(x[:, rest]):
        kinds[rest] = WORD
    return kinds


def kinds_note(kinds: np.ndarray, names: Sequence[str] | None = None) -> Note:
    """What the columns of a matrix were taken for, in words.

    >>> kinds_note(np.array([1, 1, 2, 2, 2, 3, 3]))
    'features taken for 2 numbers, 2 categories (5 columns)'
    """
    said = [
        plural(int((kinds == kind).sum()), noun)
        for kind, noun in ((WORD, "word"), (NUMBER, "number"))
        if kind in kinds
    ]
    columns, categories = int((kinds >= CATEGORY).sum()), len(np.unique(kinds[kinds >= CATEGORY]))
    if columns:
        said.append(
            f"{'1 category' if categories == 1 else f'{categories} categories'} ({plural(columns, 'column')})"
        )
    words = {WORD: "words", NUMBER: "number"}
    titles = names or [f"feature {j}" for j in range(len(kinds))]
    of = {title: words.get(kind, "category") for title, kind in zip(titles, kinds.tolist(), strict=True)}
    return Note("columns", f"features taken for {', '.join(said)}", kinds=of)


def _of_columns(columns: sp.csc_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median size of values that are not 0; whether some values are fractions; whether
    there are two values, one of them 0."""
    n, f = columns.shape
    size, fractions, binary = np.zeros(f), np.zeros(f, bool), np.zeros(f, bool)
    for j in range(f):
        values = columns.data[columns.indptr[j] : columns.indptr[j + 1]]
        if not len(values):
            continue
        size[j] = np.median(np.abs(values))
        fractions[j] = bool((values != np.rint(values)).any())
        binary[j] = len(values) < n and values.min() == values.max()
    return size, fractions, binary


def _one_hot_groups(x: Any, columns: np.ndarray, place: np.ndarray) -> list[np.ndarray]:
    """Columns of 0 and 1 with neighbouring places of which every row has exactly one 1."""
    groups: list[np.ndarray] = []
    start, total = 0, np.zeros(x.shape[0])
    for end, j in enumerate(columns):
        column = x[:, [j]]
        total = total + np.asarray(column.toarray() if sp.issparse(column) else column).ravel()
        while start <= end and (total.max() > 1 or end - start >= _LONGEST):
            first = x[:, [columns[start]]]
            total = total - np.asarray(first.toarray() if sp.issparse(first) else first).ravel()
            start += 1
        if start < end and total.min() == 1 and place[columns[end]] - place[columns[start]] == end - start:
            groups.append(columns[start : end + 1])
            start, total = end + 1, np.zeros(x.shape[0])
    return groups
