"""The report of one clustering: what was found in a user's own graph, as a page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from softcut.clustering.networks import Replica
from softcut.graph import Graph
from softcut.report.clustering_files import verdict_of
from softcut.report.html_page import Cell, Part, Section, Table, Text, number_table, render_page
from softcut.report.html_views import assignment_view, cluster_view, evidence_view, graph_view, loss_view
from softcut.report.plots import cluster_flow, leaving_shares

__all__ = ["cluster_rows", "clustering_page", "feature_profiles", "typical_nodes", "uncertain_nodes"]

_TYPICAL = 5  # nodes named for each cluster
_UNCERTAIN = 20
_FEATURES = 8  # named for each cluster
# What metrics.json holds, in the order of the page and in words.
_SCORES = {
    "verdict": "verdict",
    "structure": "structure (nats explained per nat that the clusters take; below 1 they cost more than they explain)",
    "clusters_used": "clusters used",
    "normalised_cut": "normalised cut (sum over clusters; lower is better)",
    "conductance": "conductance, mean (lower is better)",
    "conductance_max": "conductance of the worst cluster",
    "modularity": "modularity",
    "balance": "balance of sizes (1: all equal)",
    "evidence": "evidence (nats explained per nat of labels)",
    "agreement_of_replicas": "agreement of restarts (mean adjusted Rand index)",
}
_TRAINING = {
    "replicas": "networks",
    "replicas_collapsed": "networks that lost a cluster",
    "iterations": "iterations",
    "converged": "converged",
}

_COMPARED = {
    "score": "score",
    "structure": "structure",
    "agreement": "agreement of restarts",
    "description_length": "description length (nats; negative where clusters pay)",
}
_COLUMNS = (
    "Cut: share of the weight of a cluster's edges that leave it. Conductance: the cut over the volume of the smaller "
    "side. Certainty: mean probability of its nodes. Typical nodes: those with the largest probabilities."
)


def clustering_page(
    graph: Graph,
    soft: np.ndarray,
    metrics: Mapping[str, Any],
    *,
    history: Mapping[str, np.ndarray] | None = None,
    replicas: Sequence[Replica] = (),
    command: str = "",
) -> str:
    """The page that ``softcut cluster --report`` writes."""
    labels, name = soft.argmax(1), str(metrics["graph"])
    areas = "Areas are sizes; the width of a line is the weight of the edges it stands for."
    order = "Nodes from left to right, by cluster, the most certain first."
    parts: dict[str, list[Part]] = {
        "Summary": _summary(metrics),
        "The graph": [
            graph_view(graph, soft, name, "Each cluster has a colour and, in its middle, its number.")
        ],
        "Clusters": [
            Table(*cluster_rows(graph, soft), caption=_COLUMNS),
            cluster_view(graph, labels, areas),
        ],
        "Uncertain nodes": _uncertain(graph, soft),
        "Features": _features(graph, labels),
        "Soft assignments": [assignment_view(graph, soft, order)],
    }
    if history is not None and replicas:
        parts["Training"] = [
            loss_view(history, replicas, "Mean over the networks."),
            Text("Evidence of each distance: a mark is a network, a bar the mean."),
            evidence_view(replicas),
        ]
    parts["Where this comes from"] = _origin(metrics, command)
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
    sections = [Section(title, below) for title, below in parts.items()]
    return render_page(f"{name}: {len(np.unique(labels))} clusters", sections, sizes)


def _summary(metrics: Mapping[str, Any]) -> list[Part]:
    scores = _SCORES | (_TRAINING if metrics.get("replicas") else {})  # without networks nothing was trained
    rows = [[words, metrics[key]] for key, words in scores.items() if metrics.get(key) is not None]
    said = verdict_of(metrics)
    parts: list[Part] = [Text(f"**{said}**")] if said else []
    parts.append(number_table(["what", "value"], rows))
    if metrics.get("candidates"):
        parts.append(_candidates(metrics["candidates"], metrics["n_clusters"]))
    notes = [*metrics.get("reading", ()), *metrics.get("notes", ())]
    if notes:
        parts.append(Table(["Notes"], [[note] for note in notes], heads=0))
    return parts


def _candidates(compared: Mapping[Any, Mapping[str, float]], chosen: int) -> Part:
    """The numbers of clusters that were compared."""
    rows = [
        [str(k) if int(k) != chosen else f"{k} (chosen)", *(each[name] for name in _COMPARED)]
        for k, each in sorted(compared.items(), key=lambda item: int(item[0]))
    ]
    return number_table(
        ["clusters", *_COMPARED.values()],
        rows,
        "Numbers of clusters that were compared: the one with the highest score was taken.",
    )


def cluster_rows(graph: Graph, soft: np.ndarray) -> tuple[list[str], list[list[str | Cell]]]:
    """One row per used cluster: size, cut, conductance, certainty, typical nodes; and the titles."""
    labels = soft.argmax(1)
    groups, sizes, flow = cluster_flow(graph, labels)
    volume, share = flow.sum(axis=1), leaving_shares(flow)
    smaller = np.minimum(volume, volume.sum() - volume)
    conductance = np.divide(share * volume, smaller, out=np.zeros_like(share), where=smaller > 0)
    names = _names(graph)
    rows: list[list[str | Cell]] = []
    for i, group in enumerate(groups):
        typical = ", ".join(names[node] for node in typical_nodes(soft, int(group)))
        certainty = soft[labels == group, group].mean()
        rows.append(
            [
                str(group),
                Cell(f"{sizes[i]:,}"),
                Cell(f"{sizes[i] / len(labels):.0%}"),
                Cell(f"{share[i]:.0%}"),
                Cell(f"{min(conductance[i], 1):.0%}"),
                Cell(f"{certainty:.2f}"),
                Cell(typical, number=False),
            ]
        )
    return ["cluster", "nodes", "share", "cut", "conductance", "certainty", "typical nodes"], rows


def typical_nodes(soft: np.ndarray, cluster: int, most: int = _TYPICAL) -> np.ndarray:
    """The nodes of a cluster with the largest probabilities, in that order."""
    own = np.flatnonzero(soft.argmax(1) == cluster)
    return own[np.argsort(-soft[own, cluster], kind="stable")[:most]]


def uncertain_nodes(soft: np.ndarray, most: int = _UNCERTAIN) -> np.ndarray:
    """The nodes whose two largest probabilities are closest, the closest first."""
    if soft.shape[1] < 2:
        return np.zeros(0, dtype=int)
    two = np.sort(soft, axis=1)[:, -2:]
    return np.argsort(two[:, 1] - two[:, 0], kind="stable")[:most]


def _uncertain(graph: Graph, soft: np.ndarray) -> list[Part]:
    names, rows = _names(graph), []
    for node in uncertain_nodes(soft):
        first, second = np.argsort(-soft[node], kind="stable")[:2]
        chances = float(soft[node, first]), float(soft[node, second])
        rows.append([names[node], str(first), chances[0], str(second), chances[1]])
    if not rows:
        return [Text("There is one cluster, so no node could be in another.")]
    columns = ["node", "cluster", "probability", "next cluster", "its probability"]
    return [number_table(columns, rows, "The nodes whose first two clusters are closest, the closest first.")]


def feature_profiles(
    graph: Graph, labels: np.ndarray, most: int = _FEATURES
) -> dict[int, list[tuple[str, float, float, float]]]:
    """By cluster, the features that set it apart: (name, mean inside, mean of all nodes, difference in deviations)."""
    if graph.x is None or graph.num_features == 0:
        return {}
    n, x = graph.num_nodes, sp.csr_array(graph.x, dtype=float)
    groups, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    member = sp.csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(groups), n))
    inside = (member @ x).toarray() / sizes[:, None]
    overall, variance = mean_variance_axis(x, axis=0)
    constant = variance <= (1e-12 * np.maximum(np.abs(overall), 1)) ** 2
    apart = np.divide(inside - overall, np.sqrt(variance), out=np.zeros_like(inside), where=~constant)
    names = graph.feature_names or [str(j) for j in range(graph.num_features)]
    profiles = {}
    for i, group in enumerate(groups):
        chosen = [j for j in np.argsort(-np.abs(apart[i]), kind="stable")[:most] if apart[i, j] != 0]
        profiles[int(group)] = [
            (names[j], float(inside[i, j]), float(overall[j]), float(apart[i, j])) for j in chosen
        ]
    return profiles


def _features(graph: Graph, labels: np.ndarray) -> list[Part]:
    profiles = feature_profiles(graph, labels)
    if not profiles:
        return [Text("The graph has no features: its edges alone were used.")]
    means = ["mean in the cluster", "mean of all nodes", "difference in standard deviations"]
    rows = [
        [str(cluster), name, inside, overall, Cell(f"{apart:+.2f}")]
        for cluster, profile in profiles.items()
        for name, inside, overall, apart in profile
    ]
    caption = "The features in which a cluster differs most from all nodes together."
    return [number_table(["cluster", "feature", *means], rows, caption)]


def _origin(metrics: Mapping[str, Any], command: str) -> list[Part]:
    seconds = metrics.get("seconds", {})
    rows = [
        ["softcut", metrics.get("softcut", "")],
        ["command", command],
        ["date", f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"],
        *([f"seconds, {what}", f"{value:.1f}"] for what, value in seconds.items()),
    ]
    return [Table(["what", "value"], [row for row in rows if row[1]])]


def _names(graph: Graph) -> Sequence[str]:
    return graph.node_names or [str(i) for i in range(graph.num_nodes)]
