"""What a fit says against its own result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softcut.clustering.fitting import Fitted, Task
from softcut.errors import Note


def doubts(estimator: Any, fitted: Fitted, task: Task) -> Iterator[Note]:
    """What speaks against taking the result of a fit for an answer."""
    labels = estimator.labels_
    used, k = len(np.unique(labels[labels >= 0])), estimator.n_clusters_
    less = "than it takes to describe them: the graph may have no clusters"
    if estimator.interrupted_:
        said = f"interrupted after {estimator.n_iter_} iterations; the result is what was learnt until then."
        yield Note("interrupted", said, iterations=estimator.n_iter_)
    if not used:
        said = "no node has an edge or a feature: there is nothing to cluster by, and every label is -1."
        yield Note("nothing_to_cluster", said)
        return
    if fitted.networks is not None and not fitted.networks.full:
        said = (
            f"no clustering into {k} was found: every network left clusters empty, and {used} "
            f"{'is' if used == 1 else 'are'} used; ask for fewer clusters, or give features that tell nodes apart."
        )
        yield Note("clusters_empty", said, used=used)
    elif used < k:
        said = f"only {used} of {k} clusters are used; ask for fewer clusters."
        yield Note("clusters_empty", said, used=used)
    if estimator.verdict_ == "none" and (k > 1 or len(task.numbers) > 1):
        said = f"No number of clusters explains more {less}, and all nodes are in one."
        yield Note("no_clusters", said if k == 1 else f"These clusters explain less {less}.")
    elif len(estimator.replicas_) > 1 and used == k > 1 and estimator.agreement_ < task.recipe.low_agreement:
        said = (
            f"restarts hardly agree (mean adjusted Rand index {estimator.agreement_:.2f}): the data do not decide "
            "this clustering; try another number of clusters or other features."
        )
        yield Note("low_agreement", said, agreement=estimator.agreement_)
