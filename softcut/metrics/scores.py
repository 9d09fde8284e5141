"""Every score: agreement with known classes, quality of a partition of a graph, evidence.

Nodes with the label -1 beside clusters that are numbered from 0 have no cluster (in softcut, nodes with neither edges
nor features) and are left out of every score.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray

from softcut.errors import GraphError, ParameterError
from softcut.graph.checks import check_features
from softcut.metrics.judge import Evidence, Judge
from softcut.tables.arrays import are_whole, refuse_masked

if TYPE_CHECKING:
    from softcut.graph import Graph

GraphLike: TypeAlias = "Graph | sp.spmatrix | sp.sparray | NDArray[Any]"


def _as_labels(values: ArrayLike, name: str) -> NDArray[Any]:
    """A one-dimensional, non-empty label array, or an error that names the argument."""
    refuse_masked(values, name)
    try:
        array = np.asarray(values.detach() if isinstance(values, torch.Tensor) else values)
    except ValueError as error:
        raise ParameterError(f"{name} must be one label per node: {error}", argument=name) from error
    if array.ndim != 1:
        raise ParameterError(
            f"{name} must be one label per node, but it has shape {array.shape}.", argument=name
        )
    if array.size == 0:
        raise ParameterError(f"{name} is empty: there must be at least one node.", argument=name)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ParameterError(
                f"{name} holds NaN or infinite values; labels must be comparable.", argument=name
            )
        if are_whole(array).all():
            array = array.astype(np.int64)
    if array.dtype.kind in "Oc" or (array.dtype.kind in "US" and not hasattr(values, "dtype")):
        _check_kinds(values, name)
    return array


def _check_kinds(labels: Any, name: str) -> None:
    """Refuse labels that are missing, or of several kinds, so that they cannot be compared."""
    kinds: dict[type, Any] = {}
    for number, label in enumerate(labels):
        if _is_missing(label):
            raise ParameterError(
                f"{name} has no label for node {number} ({label}); leave that node out.", argument=name
            )
        kinds.setdefault(str if isinstance(label, str) else float if _is_real(label) else type(label), label)
    if len(kinds) > 1 or not (kinds.keys() <= {str, float, bytes}):
        shown = ", ".join(f"{label!r} ({type(label).__name__})" for label in list(kinds.values())[:2])
        raise ParameterError(
            f"{name} must hold numbers or text, not both or anything else; it has {shown}.", argument=name
        )


def _is_missing(label: Any) -> bool:
    """Whether a label is None, differs from itself (NaN), or does not say whether it does (pandas.NA)."""
    try:
        return label is None or not bool(label == label)
    except (TypeError, ValueError):
        return True


def _is_real(label: Any) -> bool:
    return isinstance(label, Real | np.bool_)


def _placed(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Nodes that have a cluster. Without a cluster 0, as in labels of -1 and 1, the label -1 is one like any other."""
    if labels.dtype.kind != "i":
        return np.ones(len(labels), dtype=bool)
    none = labels == -1
    return ~none if none.all() or (labels == 0).any() else np.ones_like(none)


def _codes(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels renumbered ``0..used-1``."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)


def _adjacency_and_codes(graph: GraphLike, labels: ArrayLike) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """The adjacency matrix of the nodes that have a cluster, and their labels renumbered."""
    adjacency, array = _as_adjacency(graph), _as_labels(labels, "labels")
    if len(array) != adjacency.shape[0]:
        raise ParameterError(
            f"labels has {len(array)} entries but the graph has {adjacency.shape[0]} nodes.",
            argument="labels",
        )
    placed = _placed(array)
    if not placed.all():
        adjacency, array = adjacency[placed][:, placed], array[placed]
    return adjacency, _codes(array)


def _as_adjacency(graph: GraphLike) -> sp.csr_matrix:
    """The adjacency matrix of a graph, a scipy matrix or a square array, checked unless it is a Graph."""
    adjacency: Any = getattr(graph, "adjacency", None)
    if sp.issparse(adjacency):
        return adjacency.tocsr()
    if not sp.issparse(graph) and not hasattr(graph, "__array__") and not isinstance(graph, list | tuple):
        raise GraphError(
            f"graph must be a Graph, a scipy matrix or a square array, got {type(graph).__name__}; pass "
            "softcut.Graph.from_networkx(graph) or another Graph.from_... instead."
        )
    try:
        matrix: Any = graph if sp.issparse(graph) else np.asarray(graph)
    except ValueError as error:
        raise GraphError(f"The adjacency matrix must be square: {error}") from error
    if matrix.dtype.kind not in "biuf":
        raise GraphError(f"The adjacency matrix must hold numbers, but it holds {matrix.dtype}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"The adjacency matrix must be square, but its shape is {matrix.shape}.")
    csr = sp.csr_matrix(matrix)
    if csr.nnz:
        if not np.isfinite(csr.data).all() or csr.data.min() < 0:
            raise GraphError("The adjacency matrix holds negative, NaN or infinite weights.")
        difference = abs(csr - csr.T)
        if difference.nnz and difference.max() > 1e-6 * csr.data.max():
            raise GraphError("The adjacency matrix is not symmetric; pass A + A.T or a Graph.")
    return csr


def _pair(y: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    first, second = _as_labels(y, "y"), _as_labels(labels, "labels")
    if len(first) != len(second):
        raise ParameterError(
            f"y has {len(first)} entries but labels has {len(second)}; they must be of the same nodes.",
            argument="y",
        )
    placed = _placed(second)
    if not placed.any():
        raise ParameterError(
            "labels is -1 for every node: there are no clusters to compare with y.", argument="labels"
        )
    return _codes(first[placed]), _codes(second[placed])


def _graph_scores(graph: GraphLike, labels: ArrayLike, resolution: float = 1.0) -> dict[str, float]:
    """What the volume of every used cluster and the weight of its edges inside, 1_c' A 1_c, say."""
    if not _is_real(resolution) or not np.isfinite(resolution):
        raise ParameterError(
            f"resolution must be a finite number, got {resolution!r}.", argument="resolution"
        )
    adjacency, numbers = _adjacency_and_codes(graph, labels)
    rows = np.repeat(numbers, np.diff(adjacency.indptr))
    same = np.where(rows == numbers[adjacency.indices], adjacency.data, 0)
    used = len(np.bincount(numbers))
    volume, inside = (np.bincount(rows, w, used).astype(np.float64) for w in (adjacency.data, same))
    total, cut = volume.sum(), volume - inside

    def cut_over(side: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.divide(cut, side, out=np.zeros_like(cut), where=side > 0)

    modularity = inside / total - resolution * (volume / total) ** 2 if total > 0 else np.zeros(used)
    conductances = np.minimum(cut_over(np.minimum(volume, total - volume)), 1.0)
    return {
        "normalised_cut": float(cut_over(volume).sum()),
        "modularity": float(modularity.sum()),
        "conductance": float(conductances.mean()) if used else 0.0,
        "conductance_max": float(conductances.max(initial=0.0)),
    }


def _at_most_one(value: float) -> float:
    """A share that rounding may have brought above 1."""
    return min(float(value), 1.0)


def nmi(y: ArrayLike, labels: ArrayLike, average: Literal["arithmetic", "geometric"] = "arithmetic") -> float:
    r"""Normalised mutual information, in [0, 1].

    :math:`I(y; c) / \mathrm{mean}(H(y), H(c))`. The arithmetic mean gives the V-measure.

    >>> from softcut.metrics import nmi
    >>> nmi([0, 0, 1, 1], [5, 5, 3, 3])
    1.0
    >>> round(nmi([0, 0, 1, 1], [0, 0, 1, 2]), 3), round(nmi([0, 0, 1, 1], [0, 0, 1, 2], "geometric"), 3)
    (0.8, 0.816)
    """
    if average not in ("arithmetic", "geometric"):
        raise ParameterError(
            f"average must be 'arithmetic' or 'geometric', not {average!r}.", argument="average"
        )
    from sklearn import metrics as sk  # takes a while

    value = sk.normalized_mutual_info_score(*_pair(y, labels), average_method=average)
    return _at_most_one(value)


def homogeneity(y: ArrayLike, labels: ArrayLike) -> float:
    """How far every cluster holds one class only, in [0, 1]: ``I(y; c) / H(y)``.

    >>> from softcut.metrics import homogeneity
    >>> round(homogeneity([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    1.0
    """
    from sklearn import metrics as sk  # takes a while

    return _at_most_one(sk.homogeneity_score(*_pair(y, labels)))


def completeness(y: ArrayLike, labels: ArrayLike) -> float:
    """How far every class lies in one cluster only, in [0, 1]: ``I(y; c) / H(c)``.

    A clustering with a single cluster is complete (1.0), so read it next to :func:`clusters_used`.

    >>> from softcut.metrics import completeness
    >>> round(completeness([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.667
    """
    from sklearn import metrics as sk  # takes a while

    return _at_most_one(sk.completeness_score(*_pair(y, labels)))


def ari(y: ArrayLike, labels: ArrayLike) -> float:
    """Adjusted Rand index: 1 for equal partitions, about 0 for independent ones, at least -0.5.

    >>> from softcut.metrics import ari
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    """
    from sklearn import metrics as sk  # takes a while

    return float(sk.adjusted_rand_score(*_pair(y, labels)))


def matched_accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Share of nodes that agree under the best one-to-one matching of clusters to classes.

    The matching is optimal (Hungarian algorithm). With more clusters than classes the surplus clusters
    stay unmatched and their nodes count as wrong.

    >>> from softcut.metrics import matched_accuracy
    >>> matched_accuracy([0, 0, 1, 1], [1, 1, 0, 2])
    0.75
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(*_pair(y, labels))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


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
    return _graph_scores(graph, labels)["normalised_cut"]


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
    return _graph_scores(graph, labels, resolution)["modularity"]


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
    names = {"mean": "conductance", "max": "conductance_max"}
    if reduce not in names:
        raise ParameterError(f"reduce must be 'mean' or 'max', not {reduce!r}.", argument="reduce")
    return _graph_scores(graph, labels)[names[reduce]]


def clusters_used(labels: ArrayLike) -> int:
    """The number of clusters that hold at least one node.

    >>> from softcut.metrics import clusters_used
    >>> clusters_used([0, 0, 4, 4])
    2
    """
    array = _as_labels(labels, "labels")
    return len(np.unique(array[_placed(array)]))


def balance(labels: ArrayLike, k: int | None = None) -> float:
    """Entropy of the cluster sizes over that of ``k`` equal clusters: 1 when equal, 0 for a single cluster.

    ``k`` is the number of clusters that were asked for (default, and lower limit: the number used).
    With ``k=1`` the balance is 1.

    >>> from softcut.metrics import balance
    >>> balance([0, 0, 1, 1]), balance([0, 0, 1, 1], k=4), balance([0, 0, 0, 0], k=4)
    (1.0, 0.5, 0.0)
    """
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
        raise ParameterError(f"k must be a whole number of at least 1, got {k!r}.", argument="k")
    array = _as_labels(labels, "labels")
    _, sizes = np.unique(array[_placed(array)], return_counts=True)
    k = max(k or 1, len(sizes))
    if len(sizes) == 0:
        return 0.0
    if k == 1:
        return 1.0
    share = sizes / sizes.sum()
    return _at_most_one((share * np.log(1 / share)).sum() / np.log(k))


def evidence_parts(graph: GraphLike, labels: ArrayLike, x: Any = None) -> Evidence:
    """G_e, G_x and H of one clustering; see :func:`evidence`.

    >>> import numpy as np
    >>> two_edges = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    >>> parts = evidence_parts(two_edges, [0, 0, 1, 1])
    >>> round(parts.edges, 2), parts.features, round(parts.entropy, 2)      # 2 log 2, less log C(3, 2)
    (-0.12, 0.0, 0.69)
    """
    adjacency, numbers = _adjacency_and_codes(graph, labels)
    placed = _placed(_as_labels(labels, "labels"))
    x = getattr(graph, "x", None) if x is None else check_features(x, len(placed))
    if x is not None:
        x = x if placed.all() else x[placed]
    if not placed.any():
        return Evidence(0.0, 0.0, 0.0, 0)
    parts = Judge(adjacency, x)(torch.from_numpy(numbers), int(numbers.max()) + 1)
    edges, features, entropy_, told = map(float, (parts.edges, parts.features, parts.entropy, parts.told))
    return Evidence(edges, features, entropy_, parts.nodes, told)


def evidence(graph: GraphLike, labels: ArrayLike, x: Any = None) -> float:
    """Nats that a clustering explains of edges and features (`x`, or the graph's own), per nat of its labels.

    Compares clusterings of one graph, of one size or of several: the higher, the better. No classes are used. Below 1
    the labels cost more than they explain; 0 for a single cluster. See :mod:`softcut.metrics.judge` for the definition.

    >>> from softcut.datasets import attributed_communities
    >>> from softcut.metrics import evidence
    >>> graph = attributed_communities(n_nodes=200, n_clusters=3, seed=0)
    >>> round(evidence(graph, graph.y), 2), evidence(graph, [0] * 200)
    (1.5, 0.0)
    """
    return float(evidence_parts(graph, labels, x).value)


_LABEL_SCORES: dict[str, Callable[[NDArray[Any], NDArray[Any]], float]] = {
    "nmi": nmi,
    "nmi_geometric": partial(nmi, average="geometric"),
    "homogeneity": homogeneity,
    "completeness": completeness,
    "ari": ari,
    "accuracy": matched_accuracy,
}
LABEL_SCORES = tuple(_LABEL_SCORES)
"""Keys of :func:`evaluate` that are present when the classes are known."""

GRAPH_SCORES = (
    "normalised_cut",
    "modularity",
    "conductance",
    "conductance_max",
    "balance",
    "clusters_used",
    "evidence",
)
"""Keys of :func:`evaluate` that are always present."""


def evaluate(
    graph: GraphLike, labels: ArrayLike, y: ArrayLike | None = None, k: int | None = None
) -> dict[str, float]:
    """All scores of one clustering, in a dictionary with a fixed order of keys.

    The keys are :data:`LABEL_SCORES` (only when ``y`` is given or ``graph.y`` is known), then
    :data:`GRAPH_SCORES`. Nodes with a negative integer in ``y`` count as unlabelled and are left out of
    the label scores; those with the label -1 have no cluster and are left out of all. ``k`` is the number of
    clusters asked for and only changes ``balance``.

    >>> import numpy as np
    >>> from softcut.metrics import evaluate
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> scores = evaluate(path, [0, 0, 1, 1], y=[1, 1, 0, 0])
    >>> list(scores)[:3], scores["accuracy"], scores["clusters_used"]
    (['nmi', 'nmi_geometric', 'homogeneity'], 1.0, 2)
    """
    if y is None:
        y = getattr(graph, "y", None)
    scores: dict[str, float] = {}
    if y is not None:
        truth, given = _as_labels(y, "y"), _as_labels(labels, "labels")
        if truth.dtype.kind == "i" and len(truth) == len(given):
            known = truth >= 0
            truth, given = truth[known], given[known]
        if len(truth) and _placed(given).any():
            scores = {name: score(truth, given) for name, score in _LABEL_SCORES.items()}
    return {
        **scores,
        **_graph_scores(graph, labels),
        "balance": balance(labels, k),
        "clusters_used": clusters_used(labels),
        "evidence": evidence(graph, labels),
    }
