"""Which results differ: Student's test over folds corrected for their overlap, Welch's over repeated runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from scipy import stats

__all__ = [
    "FOLD_OVERLAP",
    "differs_from_published",
    "not_worse_than_the_best",
    "worse_by_folds",
    "worse_by_runs",
]

# Test graphs per training graph of ten folds (validation graphs decide when to stop, so they count as training).
FOLD_OVERLAP = 1 / 9


def worse_by_folds(
    one: Mapping[int, float], other: Mapping[int, float], overlap: float = FOLD_OVERLAP
) -> float:
    """p-value that `one` is worse than `other`, over the folds that both have (Nadeau and Bengio, 2003).

    Training parts of folds overlap, so differences between folds are not independent. The variance of their mean is
    taken as (1/n + test/train) times the variance of a difference, in place of 1/n; `overlap` is test/train.

    >>> one, other = {0: 70.0, 1: 72.0, 2: 71.0}, {0: 75.0, 1: 76.0, 2: 77.0}
    >>> round(worse_by_folds(one, other), 4)
    0.0087
    >>> worse_by_folds({0: 70.0}, {0: 75.0})
    nan
    """
    folds = sorted(set(one) & set(other))
    if len(folds) < 2:
        return math.nan
    gain = np.array([other[fold] - one[fold] for fold in folds])
    mean, variance = float(gain.mean()), float(gain.var(ddof=1))
    if variance == 0:
        return 0.0 if mean > 0 else 1.0
    t = mean / math.sqrt((1 / len(folds) + overlap) * variance)
    return float(stats.t.sf(t, len(folds) - 1))


def worse_by_runs(one: Iterable[float], other: Iterable[float]) -> float:
    """p-value that the mean of `one` is below that of `other`, for independent runs (Welch's test)."""
    a, b = np.array(list(one)), np.array(list(other))
    if len(a) < 2 or len(b) < 2:
        return math.nan
    if np.ptp(a) == 0 and np.ptp(b) == 0:  # deterministic methods: their results are what they are
        return 0.0 if a.mean() < b.mean() else 1.0
    described = (a.mean(), a.std(ddof=1), len(a), b.mean(), b.std(ddof=1), len(b))
    return float(stats.ttest_ind_from_stats(*described, equal_var=False, alternative="less").pvalue)


def not_worse_than_the_best(
    runs: Mapping[str, Mapping[int, float]], *, folds: bool, level: float = 0.05
) -> dict[str, float]:
    """The best method, and those that are not significantly worse: p-values by name, 1 for the best."""
    if not runs:
        return {}
    best = max(runs, key=lambda method: float(np.mean(list(runs[method].values()))))
    found = {best: 1.0}
    for method, values in runs.items():
        if method == best:
            continue
        p = (
            worse_by_folds(values, runs[best])
            if folds
            else worse_by_runs(values.values(), runs[best].values())
        )
        if p >= level:
            found[method] = p
    return found


def differs_from_published(
    mean: float,
    std: float,
    n: int,
    published: float,
    published_std: float | None,
    *,
    digits: int,
    overlap: float = 0.0,
    published_n: int = 10,
) -> float:
    """Two-sided p-value that a measured mean and a published one differ (Welch's test); NaN without a deviation.

    Measured deviations have n in their denominator. A published one of 0 is taken as half of its last digit. Over
    folds, `overlap` is the number of test graphs per training graph, and the variance that of :func:`worse_by_folds`.
    """
    if published_std is None or n < 2:
        return math.nan
    least = 0.5 * 10.0**-digits
    ours = max(std * math.sqrt(n / (n - 1)), least) ** 2 * (1 / n + overlap)
    theirs = max(published_std, least) ** 2 * (1 / published_n + overlap)
    freedom = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (published_n - 1))
    return float(2 * stats.t.sf(abs(mean - published) / math.sqrt(ours + theirs), freedom))
