"""Reasons to doubt the clusters of a fit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softcut.clustering.fitting import FitTask, Fitted
from softcut.clustering.model import labels_of
from softcut.errors import Argument, Note

_LESS = "than it takes to describe them"


def doubts(fitted: Fitted, task: FitTask) -> Iterator[Note]:
    """Each doubt, with what can be done about it."""
    labels, k = labels_of(fitted.soft, fitted.silent), fitted.soft.shape[1]
    used = len(np.unique(labels[labels >= 0]))
    networks = fitted.networks
    if networks is not None and networks.result.interrupted:
        ended = networks.result.iterations
        said = f"interrupted after {ended} iterations; the result is what was learnt until then."
        yield Note("interrupted", said, iterations=ended)
    if not used:
        said = "no node has an edge or a feature: there is nothing to cluster by, and every label is -1."
        yield Note("nothing_to_cluster", said)
        return
    if networks is not None and not networks.full:
        said = (
            f"only {used} of {k} clusters have nodes: ask for fewer "
            "clusters, or give features that tell nodes apart."
        )
        yield Note("clusters_empty", said, used=used)
    elif used < k:
        said = f"only {used} of {k} clusters have nodes; ask for fewer clusters."
        yield Note("clusters_empty", said, used=used)
    restarts = 0 if networks is None else len(networks.replicas)
    if task.recipe.verdict(float(fitted.evidence.structure)) == "none" and (k > 1 or len(task.numbers) > 1):
        yield _no_clusters(k, task)
    elif restarts > 1 and used == k > 1 and fitted.agreement < task.recipe.low_agreement:
        said = (
            f"restarts hardly agree ({fitted.agreement:.2f} on a scale to 1): another seed would give other "
            "clusters; try another number of clusters or other features."
        )
        yield Note("low_agreement", said, agreement=fitted.agreement)


def _no_clusters(k: int, task: FitTask) -> Note:
    if k == 1:
        said = f"No number of clusters explains more {_LESS}, and all nodes are in one; if you know that there are "
        return Note("no_clusters", said, "clusters, ask for their number or give features.")
    said = f"These clusters explain less {_LESS}: the graph may have no clusters. Do not rely on them; "
    if task.may_be_one:  # the number was left open already
        return Note("no_clusters", said, "features of the nodes may tell more.")
    return Note(
        "no_clusters", said, Argument("n_clusters", "auto"), " says whether another number is better."
    )
