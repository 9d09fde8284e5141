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
from softcut.report.html_page import Part, Section, Text, render_page
from softcut.report.html_views import assignment_view, cluster_view, evidence_view, graph_view, loss_view
from softcut.report.plots import cluster_flow
from softcut.report.tables import Cell, Table, number_table

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
            cluster_table(graph, soft),
            cluster_view(graph, labels, areas),
        ],
        "Uncertain nodes": [uncertain_table(graph, soft)],
        "Features": [feature_table(graph, labels)],
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
    """The verdict, scores, the numbers of clusters that were compared, notes."""
    verdict = verdict_of(metrics)
    parts: list[Part] = [Text(f"**{verdict}**")] if verdict else []
    scores = _SCORES | (_TRAINING if metrics.get("replicas") else {})  # without networks nothing was trained
    rows = [[words, metrics[key]] for key, words in scores.items() if metrics.get(key) is not None]
    parts.append(number_table(["what", "value"], rows))
    compared = metrics.get("candidates")
    if compared:
        rows = [
            [
                f"{k} (chosen)" if int(k) == metrics["n_clusters"] else str(k),
                *(compared[k][c] for c in _COMPARED),
            ]
            for k in sorted(compared, key=int)
        ]
        caption = "Numbers of clusters that were compared: the one with the highest score was taken."
        parts.append(number_table(["clusters", *_COMPARED.values()], rows, caption))
    notes = [*metrics.get("reading", ()), *metrics.get("notes", ())]
    if notes:
        parts.append(Table(["Notes"], [[note] for note in notes], heads=0))
    return parts


def cluster_table(graph: Graph, soft: np.ndarray) -> Table:
    """One row per used cluster: size, cut, conductance, certainty, typical nodes."""
    labels = soft.argmax(1)
    groups, sizes, flow, share = cluster_flow(graph, labels)
    volume = flow.sum(axis=1)
    smaller = np.minimum(volume, volume.sum() - volume)
    conductance = np.divide(share * volume, smaller, out=np.zeros_like(share), where=smaller > 0)
    names = _names(graph)
    rows: list[list[str | Cell]] = []
    for i, group in enumerate(groups):
        members = np.flatnonzero(labels == group)
        certainty = soft[members, group]
        typical = members[np.argsort(-certainty, kind="stable")[:_TYPICAL]]
        numbers = [
            f"{sizes[i]:,}",
            f"{sizes[i] / len(labels):.0%}",
            f"{share[i]:.0%}",
            f"{min(conductance[i], 1):.0%}",
            f"{certainty.mean():.2f}",
        ]
        named = Cell(", ".join(names[node] for node in typical), number=False)
        rows.append([str(group), *map(Cell, numbers), named])
    columns = ["cluster", "nodes", "share", "cut", "conductance", "certainty", "typical nodes"]
    caption = (
        "Cut: share of the weight of a cluster's edges that leave it. Conductance: the cut over the volume of the "
        "smaller side. Certainty: mean probability of its nodes. Typical nodes: those with the largest probabilities."
    )
    return Table(columns, rows, caption)


def uncertain_table(graph: Graph, soft: np.ndarray) -> Part:
    """The nodes whose two largest probabilities are closest, the closest first."""
    if soft.shape[1] < 2:
        return Text("There is one cluster, so no node could be in another.")
    names, clusters = _names(graph), np.argsort(-soft, axis=1, kind="stable")[:, :2]
    chances = np.take_along_axis(soft, clusters, axis=1)
    rows = []
    for node in np.argsort(chances[:, 0] - chances[:, 1], kind="stable")[:_UNCERTAIN]:
        (first, second), (larger, smaller) = clusters[node], chances[node].tolist()
        rows.append([names[node], str(first), larger, str(second), smaller])
    columns = ["node", "cluster", "probability", "next cluster", "its probability"]
    return number_table(columns, rows, "The nodes whose first two clusters are closest, the closest first.")


def feature_table(graph: Graph, labels: np.ndarray) -> Part:
    """By cluster, the features that set it apart from all nodes together."""
    if graph.x is None or graph.num_features == 0:
        return Text("The graph has no features: its edges alone were used.")
    n, x = graph.num_nodes, sp.csr_array(graph.x, dtype=float)
    groups, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    member = sp.csr_array((np.ones(n), (codes, np.arange(n))), shape=(len(groups), n))
    inside = (member @ x).toarray() / sizes[:, None]
    overall, variance = mean_variance_axis(x, axis=0)
    constant = variance <= (1e-12 * np.maximum(np.abs(overall), 1)) ** 2
    apart = np.divide(inside - overall, np.sqrt(variance), out=np.zeros_like(inside), where=~constant)
    names = graph.feature_names or [str(j) for j in range(graph.num_features)]
    rows = [
        [str(group), names[j], float(inside[i, j]), float(overall[j]), Cell(f"{apart[i, j]:+.2f}")]
        for i, group in enumerate(groups)
        for j in np.argsort(-np.abs(apart[i]), kind="stable")[:_FEATURES]
        if apart[i, j] != 0
    ]
    means = ["mean in the cluster", "mean of all nodes", "difference in standard deviations"]
    caption = "The features in which a cluster differs most from all nodes together."
    return number_table(["cluster", "feature", *means], rows, caption)


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
