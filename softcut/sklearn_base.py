"""The base classes of scikit-learn, without the wait: what they import and an estimator never uses is left for later.

``sklearn.base`` imports all of scipy.special, scipy.stats, pandas and narwhals, most of the time it takes, for
functions of other modules.
"""

from __future__ import annotations

from softcut.imports import left_for_later

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "ClusterMixin",
    "NotFittedError",
    "RegressorMixin",
    "TransformerMixin",
]


with left_for_later(
    "scipy.special", "scipy.stats", "pandas", "narwhals", "narwhals.stable", "narwhals.stable.v2"
):
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        ClusterMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.exceptions import NotFittedError
