"""Scores of predictions about whole graphs: classes with probabilities, and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Reliability", "accuracy_interval", "class_scores", "number_scores", "reliability"]

_BINS = 10


@dataclass(frozen=True)
class Reliability:
    """How often predictions of about the same probability are right, bin by bin; bins without graphs are left out."""

    low: np.ndarray  # the lower end of each bin
    count: np.ndarray  # graphs in it
    probability: np.ndarray  # the mean probability of their predicted classes
    accuracy: np.ndarray  # the share of them that is right

    @property
    def error(self) -> float:
        """The expected calibration error (Naeini et al., 2015): the mean distance of both, weighted by the counts."""
        return float(np.average(np.abs(self.probability - self.accuracy), weights=self.count))


def reliability(probability: np.ndarray, right: np.ndarray, bins: int = _BINS) -> Reliability:
    """Predictions in bins of equal width by the probability of the predicted class.

    >>> import numpy as np
    >>> from softcut.metrics.predictions import reliability
    >>> table = reliability(np.array([0.55, 0.95, 0.95]), np.array([True, True, False]))
    >>> table.count.tolist(), table.accuracy.tolist(), round(table.error, 2)
    ([1, 2], [1.0, 0.5], 0.45)
    """
    place = np.minimum((np.asarray(probability) * bins).astype(int), bins - 1)
    used, member, count = np.unique(place, return_inverse=True, return_counts=True)
    means = (np.bincount(member, weights=values) / count for values in (probability, right))
    return Reliability(used / bins, count, *means)


def accuracy_interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's interval of 95 % for a share of `count` independent graphs.

    >>> from softcut.metrics.predictions import accuracy_interval
    >>> [round(end, 3) for end in accuracy_interval(8, 10)]
    [0.49, 0.943]
    """
    z, p = 1.959964, hits / count
    middle = p + z * z / (2 * count)
    room = z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return max(0.0, (middle - room) / (1 + z * z / count)), min(1.0, (middle + room) / (1 + z * z / count))


def class_scores(truth: np.ndarray, chances: np.ndarray, majority: int | None) -> dict[str, Any]:
    """Accuracy with its interval and beside that of always saying `majority`, calibration, log loss and the confusion.

    `truth` are columns of `chances`, which may be all zero for classes that the model does not know; `majority` is the
    most frequent class of the training graphs, or None.

    >>> import numpy as np
    >>> from softcut.metrics.predictions import class_scores
    >>> scores = class_scores(np.array([0, 1, 1]), np.array([[0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), majority=0)
    >>> scores["confusion"], round(scores["accuracy"], 2), round(scores["baseline_accuracy"], 2)
    ([[1, 0], [1, 1]], 0.67, 0.33)
    """
    count, k = chances.shape
    predicted = chances.argmax(1)
    right = predicted == truth
    confusion = np.bincount(truth * k + predicted, minlength=k * k).reshape(k, k)
    present = confusion.sum(1) > 0
    recall = confusion.diagonal()[present] / confusion.sum(1)[present]
    own = np.maximum(chances[np.arange(count), truth], np.finfo(float).eps)
    return {
        "accuracy": float(right.mean()),
        "accuracy_interval": list(accuracy_interval(int(right.sum()), count)),
        "baseline_accuracy": None if majority is None else float((truth == majority).mean()),
        "balanced_accuracy": float(recall.mean()),
        "log_loss": float(-np.log(own).mean()),
        "calibration_error": reliability(chances.max(1), right).error,
        "confusion": confusion.tolist(),
    }


def number_scores(truth: np.ndarray, predicted: np.ndarray, mean: float | None) -> dict[str, Any]:
    """MAE, RMSE and R^2 of predicted numbers, and errors of always saying `mean`, that of the training graphs or None.

    >>> import numpy as np
    >>> from softcut.metrics.predictions import number_scores
    >>> number_scores(np.array([1.0, 3.0]), np.array([1.0, 2.0]), mean=2.0)["mae"]
    0.5
    """
    error = predicted - truth
    base = None if mean is None else mean - truth
    spread = float(((truth - truth.mean()) ** 2).sum())
    return {
        "mae": float(np.abs(error).mean()),
        "rmse": math.sqrt(float((error**2).mean())),
        "r2": 1 - float((error**2).sum()) / spread if spread > 0 else math.nan,
        "baseline_mae": None if base is None else float(np.abs(base).mean()),
        "baseline_rmse": None if base is None else math.sqrt(float((base**2).mean())),
    }
