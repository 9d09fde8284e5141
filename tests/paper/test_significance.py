"""The tests behind the bold numbers."""

import math

import numpy as np
import pytest
from scipy import stats

from softcut.paper.comparison import (
    differs_from_published,
    not_worse_than_the_best,
    worse_by_folds,
    worse_by_runs,
)


def test_without_overlap_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(70, 3, 10), rng.normal(71, 3, 10)
    expected = stats.ttest_rel(a, b, alternative="less")
    found = worse_by_folds(dict(enumerate(a)), dict(enumerate(b)), overlap=0.0)
    assert found == pytest.approx(expected.pvalue, rel=1e-12)
    # The correction divides t by sqrt(1 + n test / train).
    t = -expected.statistic / math.sqrt(1 + 10 / 9)
    assert worse_by_folds(dict(enumerate(a)), dict(enumerate(b))) == pytest.approx(
        stats.t.sf(t, 9), rel=1e-12
    )


def test_folds_are_compared_with_themselves() -> None:
    one, other = {0: 60.0, 1: 80.0, 2: 71.0}, {2: 72.0, 0: 61.0, 1: 81.5, 3: 10.0}
    assert worse_by_folds(one, other) < 0.05  # fold by fold always better, in whatever order
    assert worse_by_folds({0: 60.0, 1: 80.0}, {0: 60.0, 1: 80.0}) == 1.0
    assert worse_by_folds({0: 60.0, 1: 80.0}, {0: 61.0, 1: 81.0}) == 0.0
    assert math.isnan(worse_by_folds({0: 1.0, 1: 2.0}, {1: 3.0, 2: 4.0}))


def test_runs_are_compared_by_welchs_test_and_deterministic_ones_count_as_they_are() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(70, 3, 10), rng.normal(71, 2, 9)
    expected = stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue
    assert worse_by_runs(a, b) == pytest.approx(expected, rel=1e-12)
    noisy = [70.0, 72.0, 71.0]
    one_sample = stats.ttest_1samp(noisy, 71.4, alternative="greater").pvalue
    assert worse_by_runs([71.4] * 10, noisy) == pytest.approx(one_sample, rel=1e-9)
    assert worse_by_runs([71.351351] * 10, [71.351351] * 10) == 1.0


def test_the_best_and_those_not_worse() -> None:
    runs = {
        "close": {0: 78.0, 1: 80.0, 2: 81.0, 3: 79.0},
        "best": {0: 79.0, 1: 80.0, 2: 81.5, 3: 79.0},
        "far": {0: 60.0, 1: 61.0, 2: 59.0, 3: 60.5},
        "once": {0: 79.0},
    }
    for folds in (True, False):
        found = not_worse_than_the_best(runs, folds=folds)
        assert set(found) == {"best", "close"}
        assert found["best"] == 1.0
        assert 0.05 <= found["close"] < 1.0


def test_differences_are_tested_as_welch_does():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.5, 0.1, 30), rng.normal(0.55, 0.05, 10)
    p = differs_from_published(ours.mean(), ours.std(), 30, theirs.mean(), theirs.std(ddof=1), digits=9)
    assert p == pytest.approx(stats.ttest_ind(ours, theirs, equal_var=False).pvalue, rel=1e-9)
    overlapping = differs_from_published(
        ours.mean(), ours.std(), 30, theirs.mean(), theirs.std(ddof=1), digits=9, overlap=1 / 9
    )
    assert overlapping > p
    # A published deviation of .000 is a rounded one.
    assert differs_from_published(0.1832, 0.0, 10, 0.183, 0.0, digits=3) > 0.05
    assert differs_from_published(0.1900, 0.0, 10, 0.183, 0.0, digits=3) < 0.001
    assert math.isnan(differs_from_published(0.5, 0.1, 1, 0.4, 0.1, digits=3))
