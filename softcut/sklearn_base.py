"""The base classes of scikit-learn, without the wait: what they import and an estimator never uses is left for later.

``sklearn.base`` imports all of scipy.stats and pandas, most of the time it takes, for functions of other modules.
Stand-ins take the place of the two while it is imported, and are gone afterwards: whoever imports scipy.stats or pandas
then gets the real one, and a name that scikit-learn kept passes everything on to it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "ClusterMixin",
    "NotFittedError",
    "RegressorMixin",
    "TransformerMixin",
]


class _Later(ModuleType):
    """A module that is imported when something is first taken from it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _left_for_later(*names: str) -> Iterator[None]:
    waiting = {name: _Later(name) for name in names if name not in sys.modules and find_spec(name)}
    sys.modules.update(waiting)
    try:
        yield
    finally:
        for name, module in waiting.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


with _left_for_later("scipy.stats", "pandas"):
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        ClusterMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.exceptions import NotFittedError
