"""Clustering methods to compare with, all called as ``method(graph, n_clusters, random_state) -> labels``.

>>> from softcut.baselines import BASELINES
>>> from softcut.datasets import attributed_communities
>>> graph = attributed_communities(200, 3, average_degree=8, n_features=40, seed=0)
>>> labels = BASELINES["kmeans_propagated"](graph, 3, random_state=0)
>>> labels.shape, len(set(labels.tolist()))
((200,), 3)

To add a baseline, write a function of this signature and name it in :data:`BASELINES`.
"""

from collections.abc import Callable
from typing import Any

from softcut.baselines.leiden import leiden
from softcut.baselines.scikit import kmeans_features, kmeans_propagated, propagate, spectral
from softcut.baselines.trained import diffpool, diffpool_replicas, dmon, dmon_replicas

BASELINES: dict[str, Callable[..., Any]] = {
    "sc": spectral,
    "kmeans": kmeans_features,
    "kmeans_propagated": kmeans_propagated,
    "leiden": leiden,
    "diffpool": diffpool,
    "dmon": dmon,
}
"""Every baseline under the name used in tables."""

__all__ = [
    "BASELINES",
    "diffpool",
    "diffpool_replicas",
    "dmon",
    "dmon_replicas",
    "kmeans_features",
    "kmeans_propagated",
    "leiden",
    "propagate",
    "spectral",
]
