"""What the experiments share: which settings a run is known by."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from softcut.baselines import BASELINES
from softcut.clustering import GraphClustering
from softcut.errors import ParameterError
from softcut.graph import Graph

Tell = Callable[[str], None]
# Arguments that do not decide a result: they say on which data and device it is computed, and who is told.
_NOT_SETTINGS = {"n_clusters", "random_state", "device", "verbose", "callbacks", "callback", "x"}


def keyword_settings(function: Callable[..., Any], **changed: Any) -> dict[str, Any]:
    """All keyword-only arguments of a function with their defaults, those in `changed` replaced."""
    parameters = inspect.signature(function).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {name: value for name, value in {**known, **changed}.items() if name not in _NOT_SETTINGS}


def estimator_settings(estimator: GraphClustering) -> dict[str, Any]:
    """What decides the result of an estimator: the digest of its recipe, with its own arguments in place."""
    return {"estimator": type(estimator).__name__, "recipe": estimator._task_recipe().digest}


def baseline(method: str) -> Callable[..., np.ndarray]:
    """A baseline by its name in the tables: "kmeans" is that on propagated features."""
    return BASELINES[{"kmeans": "kmeans_propagated", "kmeans_raw": "kmeans"}.get(method, method)]


def classes_of(graph: Graph) -> np.ndarray:
    """The known classes of a data set."""
    assert graph.y is not None
    return graph.y


def check_names(given: Iterable[str], valid: Sequence[str], argument: str) -> None:
    """An error that names the argument where a name is not among the valid ones."""
    unknown = [name for name in given if name not in valid]
    if unknown:
        raise ParameterError(f"{argument} must be among {', '.join(valid)}, got {', '.join(unknown)}.")


def quiet(*said: Any) -> None:
    """Tell nobody what is being done."""
