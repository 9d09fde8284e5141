"""Columns of features brought to one scale, robustly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.tables.kinds import CATEGORY, NUMBER, WORD, constant_columns

_OUTLIER = 6.0  # times the distance of the quartiles (1.35 standard deviations) from the median
LIMIT = 6.0  # standardised numbers are clipped here


def centre_and_scale(x: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and factor of columns: mean and standard deviation after outliers of numbers were drawn in.

    Outliers are judged by median and quartiles. A column is constant by its own magnitude; the values of a category
    share one variance.
    """
    x = x.astype(np.float64)
    constant = x.std(axis=0) <= 1e-6 * np.abs(x).max(axis=0)
    low, centre, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    reach = np.where((high > low) & (kinds == NUMBER), _OUTLIER * (high - low), np.inf)
    x = np.clip(x, centre - reach, centre + reach)
    centre, scale = x.mean(axis=0), x.std(axis=0)
    for kind in np.unique(kinds[kinds >= CATEGORY]):
        group = kinds == kind
        scale[group] = np.sqrt((scale[group] ** 2).sum())
    return centre, np.where(constant, 0.0, 1 / np.where(constant, 1.0, scale))


def scaled_rows(x: Any, kinds: np.ndarray) -> np.ndarray | sp.csr_array:
    """Rows to be compared by distance: numbers and categories standardised, words scaled to rows of length 1.

    Words beside other columns have the variance of one of them; words alone stay sparse.

    >>> scaled_rows(np.array([[0.0, 1e9], [1.0, 2e9], [2.0, 3e9]]), np.array([NUMBER, NUMBER])).round(2).tolist()
    [[-1.22, -1.22], [0.0, 0.0], [1.22, 1.22]]
    """
    words, others = np.flatnonzero(kinds == WORD), np.flatnonzero(kinds != WORD)
    parts: list[Any] = []
    if len(words):
        counted = sp.csr_array(x if not len(others) else x[:, words], dtype=np.float64)
        counted = sp.csr_array(counted @ sp.diags_array(1.0 - constant_columns(counted)))
        length = np.sqrt(np.asarray(counted.multiply(counted).sum(axis=1)).ravel())
        parts.append(sp.csr_array(sp.diags_array(1 / np.where(length > 0, length, 1)) @ counted))
        if not len(others):
            return parts[0]
        parts[0] = parts[0].toarray()
        deviation = np.sqrt(parts[0].var(axis=0).sum())
        parts[0] /= deviation if deviation > 0 else 1
    if len(others):
        dense = np.asarray(x[:, others].toarray() if sp.issparse(x) else x[:, others], dtype=np.float64)
        centre, factor = centre_and_scale(dense, kinds[others])
        parts.append(np.clip((dense - centre) * factor, -LIMIT, LIMIT))
    return np.concatenate(parts, axis=1)
