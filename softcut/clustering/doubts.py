"""Reasons to doubt the clusters of a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softcut.clustering.fit_task import FitTask, Fitted
from softcut.errors import Argument, Note

_LESS = "than it takes to describe them"


def doubts(fitted: Fitted, labels: np.ndarray, task: FitTask) -> Iterator[Note]:
    """Each doubt, with what can be done about it."""
    used, k = len(np.unique(labels[labels >= 0])), fitted.soft.shape[1]
    networks, by_edges = fitted.networks, fitted.deviations is not None
    if fitted.interrupted:
        if networks is not None:
            ended = networks.result.iterations
            said = f"interrupted after {ended} iterations; the result is what was learnt until then."
            yield Note("interrupted", said, iterations=ended)
        else:
            yield Note("interrupted", "interrupted; the result is what was found until then.")
    if not used:
        said = "no node has an edge or a feature: there is nothing to cluster by, and every label is -1."
        yield Note("nothing_to_cluster", said)
        return
    if used < k and task.start is None:
        more = ", or give features that tell nodes apart" if networks is not None else ""
        yield Note(
            "clusters_empty",
            f"only {used} of {k} clusters have nodes: ask for fewer clusters{more}.",
            used=used,
        )
    restarts = 0 if networks is None else len(networks.replicas)
    if fitted.verdict == "none" and not fitted.interrupted and (k > 1 or task.open):
        yield _no_clusters(k, task, by_edges)
    elif restarts > 1 and used == k > 1 and fitted.agreement < task.recipe.low_agreement:
        said = (
            f"restarts hardly agree ({fitted.agreement:.2f} on a scale to 1): another seed would give other "
            "clusters; try another number of clusters or other features."
        )
        yield Note("low_agreement", said, agreement=fitted.agreement)


def _no_clusters(k: int, task: FitTask, by_edges: bool) -> Note:
    if by_edges:
        found = "the edges have no more communities than random edges between nodes of the same degrees"
        if k == 1:
            said = f"No communities: {found}; all nodes are in one cluster. If you know that there are "
            return Note("no_clusters", said, "clusters, ask for their number or give features.")
        return Note("no_clusters", f"The graph may have no clusters: {found}. Do not rely on these.")
    if k == 1:
        said = f"No number of clusters explains more {_LESS}, and all nodes are in one; if you know that there are "
        return Note("no_clusters", said, "clusters, ask for their number or give features.")
    said = f"These clusters explain less {_LESS}: the graph may have no clusters. Do not rely on them; "
    if task.open:  # the number was left open already
        return Note("no_clusters", said, "features of the nodes may tell more.")
    return Note(
        "no_clusters", said, Argument("n_clusters", "auto"), " says whether another number is better."
    )
