"""Agreement with known classes, and quality of a partition of a graph."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn import metrics as _sk
from sklearn.metrics.cluster import contingency_matrix

from softcut.errors import ParameterError
from softcut.metrics.arguments import GraphLike, adjacency_and_codes, as_labels, codes
from softcut.metrics.judge import evidence

__all__ = [
    "GRAPH_SCORES",
    "LABEL_SCORES",
    "ari",
    "balance",
    "clusters_used",
    "completeness",
    "conductance",
    "evaluate",
    "homogeneity",
    "matched_accuracy",
    "modularity",
    "nmi",
    "normalised_cut",
]

LABEL_SCORES: tuple[str, ...] = (
    "nmi",
    "nmi_geometric",
    "homogeneity",
    "completeness",
    "ari",
    "accuracy",
)
"""Keys of :func:`evaluate` that are present when the classes are known."""

GRAPH_SCORES: tuple[str, ...] = (
    "normalised_cut",
    "modularity",
    "conductance",
    "conductance_max",
    "balance",
    "clusters_used",
    "evidence",
)
"""Keys of :func:`evaluate` that are always present."""


def _pair(y: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = as_labels(y, "y"), as_labels(labels, "labels")
    if len(first) != len(second):
        raise ParameterError(
            f"y has {len(first)} entries but labels has {len(second)}; they must be of the same nodes."
        )
    return codes(first), codes(second)


class _Parts(NamedTuple):
    """What every graph score is made of, one entry per used cluster."""

    volume: NDArray[np.float64]
    inside: NDArray[np.float64]  # weight of edges inside, both directions counted: 1_c' A 1_c

    @classmethod
    def of(cls, graph: GraphLike, labels: ArrayLike) -> _Parts:
        adjacency, numbers = adjacency_and_codes(graph, labels)
        rows = np.repeat(numbers, np.diff(adjacency.indptr))
        weight = adjacency.data
        same = rows == numbers[adjacency.indices]
        used = int(numbers.max()) + 1
        volume = np.bincount(rows, weights=weight, minlength=used).astype(np.float64)
        inside = np.bincount(rows[same], weights=weight[same], minlength=used).astype(np.float64)
        return cls(volume, inside)

    @property
    def cut(self) -> NDArray[np.float64]:
        return np.maximum(self.volume - self.inside, 0.0)

    def normalised_cut(self) -> float:
        return float(_ratio(self.cut, self.volume).sum())

    def modularity(self, resolution: float = 1.0) -> float:
        total = self.volume.sum()
        if total <= 0:
            return 0.0
        return float((self.inside / total - resolution * (self.volume / total) ** 2).sum())

    def conductances(self) -> NDArray[np.float64]:
        smaller_side = np.minimum(self.volume, self.volume.sum() - self.volume)
        return np.minimum(_ratio(self.cut, smaller_side), 1.0)


def _ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


# --------------------------------------------------------------------------------------- label scores


def nmi(y: ArrayLike, labels: ArrayLike, average: Literal["arithmetic", "geometric"] = "arithmetic") -> float:
    r"""Normalised mutual information, in [0, 1].

    :math:`I(y; c) / \mathrm{mean}(H(y), H(c))`. The arithmetic mean gives the V-measure, the usual
    meaning of "NMI" in the clustering literature; the geometric mean is never smaller.

    >>> from softcut.metrics import nmi
    >>> nmi([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    >>> round(nmi([0, 0, 1, 1], [0, 0, 1, 2]), 3), round(nmi([0, 0, 1, 1], [0, 0, 1, 2], "geometric"), 3)
    (0.8, 0.816)
    """
    if average not in ("arithmetic", "geometric"):
        raise ParameterError(f"average must be 'arithmetic' or 'geometric', not {average!r}.")
    score = _sk.normalized_mutual_info_score(*_pair(y, labels), average_method=average)
    return float(np.clip(score, 0.0, 1.0))


def homogeneity(y: ArrayLike, labels: ArrayLike) -> float:
    """How far every cluster holds one class only, in [0, 1]: ``I(y; c) / H(y)``.

    >>> from softcut.metrics import homogeneity
    >>> round(homogeneity([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    1.0
    """
    return float(np.clip(_sk.homogeneity_score(*_pair(y, labels)), 0.0, 1.0))


def completeness(y: ArrayLike, labels: ArrayLike) -> float:
    """How far every class lies in one cluster only, in [0, 1]: ``I(y; c) / H(c)``.

    A clustering with a single cluster is complete (1.0), so read it next to :func:`clusters_used`.

    >>> from softcut.metrics import completeness
    >>> round(completeness([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    return float(np.clip(_sk.completeness_score(*_pair(y, labels)), 0.0, 1.0))


def ari(y: ArrayLike, labels: ArrayLike) -> float:
    """Adjusted Rand index: 1 for equal partitions, about 0 for independent ones, at least -0.5.

    >>> from softcut.metrics import ari
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    return float(_sk.adjusted_rand_score(*_pair(y, labels)))


def matched_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Share of nodes that agree under the best one-to-one matching of clusters to classes.

    The matching is optimal (Hungarian algorithm). With more clusters than classes the surplus clusters
    stay unmatched and their nodes count as wrong.

    >>> from softcut.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    table = contingency_matrix(*_pair(y, labels))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


# --------------------------------------------------------------------------------------- graph scores


def normalised_cut(graph: GraphLike, labels: ArrayLike) -> float:
    r"""Normalised cut of a partition: :math:`\sum_c \mathrm{cut}(c) / \mathrm{vol}(c)`, the lower the better.

    The sum runs over the used clusters, so the value lies in [0, clusters used]; divide by
    :func:`clusters_used` for the mean per cluster. A cluster of isolated nodes adds 0.

    >>> import numpy as np
    >>> from softcut.metrics import normalised_cut
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> round(normalised_cut(path, [0, 0, 1, 1]), 4)
    0.6667
    """
    return _Parts.of(graph, labels).normalised_cut()


def modularity(graph: GraphLike, labels: ArrayLike, resolution: float = 1.0) -> float:
    r"""Newman's modularity, the higher the better, in [-0.5, 1] at resolution 1.

    :math:`\sum_c \left( \frac{1_c^\top A 1_c}{\mathrm{vol}} - \gamma \left(
    \frac{\mathrm{vol}(c)}{\mathrm{vol}} \right)^2 \right)` with ``vol`` the sum of all degrees; 0 for a
    graph without edges.

    >>> import numpy as np
    >>> from softcut.metrics import modularity
    >>> two_edges = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> modularity(two_edges, [0, 0, 1, 1])
    0.5
    """
    return _Parts.of(graph, labels).modularity(resolution)


def conductance(graph: GraphLike, labels: ArrayLike, reduce: Literal["mean", "max"] = "mean") -> float:
    r"""Conductance, in [0, 1]: the cut of a cluster over the volume of its smaller side.

    :math:`\mathrm{cut}(c) / \min(\mathrm{vol}(c), \mathrm{vol} - \mathrm{vol}(c))`, as the mean over
    the used clusters, or the worst one with ``reduce="max"``; the lower the better. One cluster that
    holds every edge has conductance 0, so read it next to :func:`clusters_used`.

    >>> import numpy as np
    >>> from softcut.metrics import conductance
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> conductance(path, [0, 1, 1, 1]), conductance(path, [0, 0, 1, 2], reduce="max")
    (1.0, 1.0)
    """
    if reduce not in ("mean", "max"):
        raise ParameterError(f"reduce must be 'mean' or 'max', not {reduce!r}.")
    values = _Parts.of(graph, labels).conductances()
    return float(values.mean() if reduce == "mean" else values.max())


def clusters_used(labels: ArrayLike) -> int:
    """The number of clusters that hold at least one node.

    >>> from softcut.metrics import clusters_used
    >>> clusters_used([0, 0, 4, 4])
    2
    """
    return len(np.unique(as_labels(labels, "labels")))


def balance(labels: ArrayLike, k: int | None = None) -> float:
    """Entropy of the cluster sizes over that of ``k`` equal clusters: 1 when equal, 0 for a single cluster.

    ``k`` is the number of clusters that were asked for (default, and lower limit: the number used).
    With ``k=1`` the balance is 1.

    >>> from softcut.metrics import balance
    >>> balance([0, 0, 1, 1]), balance([0, 0, 1, 1], k=4), balance([0, 0, 0, 0], k=4)
    (1.0, 0.5, 0.0)
    """
    if k is not None and k < 1:
        raise ParameterError(f"k must be at least 1, not {k}.")
    _, sizes = np.unique(as_labels(labels, "labels"), return_counts=True)
    k = max(k or 1, len(sizes))
    if k == 1:
        return 1.0
    share = sizes / sizes.sum()
    return float(np.clip((share * -np.log(share)).sum() / np.log(k), 0.0, 1.0)) + 0.0


# ------------------------------------------------------------------------------------------- together


def evaluate(
    graph: GraphLike, labels: ArrayLike, y: ArrayLike | None = None, k: int | None = None
) -> dict[str, float]:
    """All scores of one clustering, in a dictionary with a fixed order of keys.

    The keys are :data:`LABEL_SCORES` (only when ``y`` is given or ``graph.y`` is known), then
    :data:`GRAPH_SCORES`. Nodes with a negative integer in ``y`` count as unlabelled and are left out of
    the label scores. ``k`` is the number of clusters asked for and only changes ``balance``.

    >>> import numpy as np
    >>> from softcut.metrics import evaluate
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> scores = evaluate(path, [0, 0, 1, 1], y=[1, 1, 0, 0])
    >>> list(scores)[:3], scores["accuracy"], scores["clusters_used"]
    (['nmi', 'nmi_geometric', 'homogeneity'], 1.0, 2)
    """
    if y is None:
        y = getattr(graph, "y", None)
    parts = _Parts.of(graph, labels)
    scores: dict[str, float] = {}
    if y is not None:
        truth, given = as_labels(y, "y"), as_labels(labels, "labels")
        if truth.dtype.kind == "i" and len(truth) == len(given):
            known = truth >= 0
            truth, given = truth[known], given[known]
        if len(truth):
            scores["nmi"] = nmi(truth, given)
            scores["nmi_geometric"] = nmi(truth, given, "geometric")
            scores["homogeneity"] = homogeneity(truth, given)
            scores["completeness"] = completeness(truth, given)
            scores["ari"] = ari(truth, given)
            scores["accuracy"] = matched_accuracy(truth, given)
    conductances = parts.conductances()
    scores["normalised_cut"] = parts.normalised_cut()
    scores["modularity"] = parts.modularity()
    scores["conductance"] = float(conductances.mean())
    scores["conductance_max"] = float(conductances.max())
    scores["balance"] = balance(labels, k)
    scores["clusters_used"] = clusters_used(labels)
    scores["evidence"] = evidence(graph, labels)
    return scores
