"""Scores of predictions, beside scikit-learn's and plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from softcut.metrics.predictions import accuracy_interval, class_scores, number_scores, reliability


@given(st.integers(0, 999), st.integers(2, 5), st.integers(1, 60))
def test_class_scores_are_those_of_scikit_learn(seed, k, count):
    rng = np.random.default_rng(seed)
    truth, chances = rng.integers(k, size=count), rng.dirichlet(np.ones(k), count)
    scores, predicted = class_scores(truth, chances, majority=1), chances.argmax(1)
    assert scores["accuracy"] == pytest.approx(sk.accuracy_score(truth, predicted))
    np.testing.assert_array_equal(scores["confusion"], sk.confusion_matrix(truth, predicted, labels=range(k)))
    recall = [(predicted[truth == c] == c).mean() for c in np.unique(truth)]
    assert scores["balanced_accuracy"] == pytest.approx(np.mean(recall))
    assert scores["log_loss"] == pytest.approx(sk.log_loss(truth, chances, labels=range(k)))
    assert scores["baseline_accuracy"] == pytest.approx(np.mean(truth == 1))
    low, high = scores["accuracy_interval"]
    assert 0 <= low <= scores["accuracy"] <= high <= 1
    ece = 0.0
    for b in range(10):
        inside = [i for i in range(count) if min(int(10 * chances[i].max()), 9) == b]
        if inside:
            said = np.mean([chances[i].max() for i in inside])
            ece += len(inside) / count * abs(said - np.mean([predicted[i] == truth[i] for i in inside]))
    assert scores["calibration_error"] == pytest.approx(ece)


def test_a_class_that_the_model_does_not_know_costs_the_most_that_a_float_tells():
    scores = class_scores(np.array([0, 2]), np.array([[1.0, 0, 0], [0, 1, 0]]), majority=None)
    assert scores["log_loss"] == pytest.approx(52 * np.log(2) / 2)
    assert scores["baseline_accuracy"] is None
    assert (scores["accuracy"], scores["balanced_accuracy"], scores["calibration_error"]) == (0.5, 0.5, 0.5)


def test_a_certain_prediction_belongs_to_the_last_bin_and_a_calibrated_model_has_no_error():
    table = reliability(np.array([1.0, 0.9, 0.5, 0.5]), np.array([True, True, True, False]))
    assert (table.low.tolist(), table.count.tolist()) == ([0.5, 0.9], [2, 2])
    assert table.error == pytest.approx(0.5 * 0.05)


def test_an_interval_covers_the_true_share_in_95_percent_of_the_draws():
    hits = np.random.default_rng(0).binomial(50, 0.8, size=4000)
    ends = np.array([accuracy_interval(int(each), 50) for each in hits])
    assert accuracy_interval(0, 9)[0] == 0.0 and accuracy_interval(9, 9)[1] == 1.0
    for hits_, count in ((1, 3), (17, 40)):  # the ends solve (share - p)^2 = z^2 p (1 - p) / n
        for end in accuracy_interval(hits_, count):
            assert (hits_ / count - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / count)
    assert 0.93 < np.mean((ends[:, 0] <= 0.8) & (ends[:, 1] >= 0.8)) < 0.98


def test_number_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted = rng.standard_normal((2, 30))
    scores = number_scores(truth, predicted, mean=0.25)
    constant = np.full(30, 0.25)
    assert scores["mae"] == pytest.approx(sk.mean_absolute_error(truth, predicted))
    assert scores["rmse"] == pytest.approx(sk.root_mean_squared_error(truth, predicted))
    assert scores["r2"] == pytest.approx(sk.r2_score(truth, predicted))
    assert scores["baseline_mae"] == pytest.approx(sk.mean_absolute_error(truth, constant))
    assert scores["baseline_rmse"] == pytest.approx(sk.root_mean_squared_error(truth, constant))
    unknown = number_scores(truth, predicted, mean=None)
    assert unknown["baseline_mae"] is unknown["baseline_rmse"] is None and unknown["mae"] == scores["mae"]
    assert np.isnan(number_scores(np.ones(3), np.ones(3), 1.0)["r2"])  # nothing to explain
