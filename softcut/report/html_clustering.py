"""The report of one clustering: a page with its tables and interactive views."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from softcut.clustering.networks import Replica
from softcut.graph import Graph
from softcut.report.clustering_files import clustered_part, verdict_of
from softcut.report.html_page import Part, Section, Text, View, plain, render_page
from softcut.report.plots import FEW_NODES, cluster_colours, cluster_flow, frame, node_positions, shortened
from softcut.report.tables import Cell, Table, number_table

_TYPICAL = 5  # nodes named for each cluster
_UNCERTAIN = 20
_FEATURES = 8  # named for each cluster
_NODES = 3000  # shown in the view; of larger graphs a sample
_EDGES = 15_000
_PLACED = 100_000  # nodes of a graph whose nodes get positions
_COLUMNS = 400  # of the heat map
_POINTS = 200  # of a curve
_NAME = 60  # characters of a node's name
# What metrics.json holds, in the order of the page and in words.
_SCORES = {
    "verdict": "verdict",
    "structure": "structure (nats explained per nat that the clusters take; below 1 they cost more than they explain)",
    "clusters_used": "clusters used",
    "nodes_without_cluster": "nodes with neither edges nor features: in no cluster, not shown below",
    "normalised_cut": "normalised cut (sum over clusters; lower is better)",
    "conductance": "conductance, mean (lower is better)",
    "conductance_max": "conductance of the worst cluster",
    "modularity": "modularity",
    "balance": "balance of sizes (1: all equal)",
    "evidence": "evidence (nats explained per nat of labels)",
    "agreement_of_replicas": "agreement of restarts (mean adjusted Rand index)",
}
_UNSAID = {"nodes_without_cluster": 0}  # values that are not worth a line
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
    clusters: np.ndarray | None = None,
    history: Mapping[str, np.ndarray] | None = None,
    replicas: Sequence[Replica] = (),
    command: str = "",
) -> str:
    """The page that ``softcut cluster --report`` writes; `clusters` are the labels, -1 for nodes not to be shown."""
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
    if clusters is not None:
        graph, soft = clustered_part(graph, soft, clusters)
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
    sections = [Section(title, below) for title, below in parts.items()]
    return render_page(f"{name}: {len(np.unique(labels))} clusters", sections, sizes)


def _summary(metrics: Mapping[str, Any]) -> list[Part]:
    """The verdict, scores, the numbers of clusters that were compared, notes."""
    verdict = verdict_of(metrics)
    parts: list[Part] = [Text(f"**{verdict}**")] if verdict else []
    scores = _SCORES | (_TRAINING if metrics.get("replicas") else {})  # without networks nothing was trained
    rows = [
        [words, metrics[key]]
        for key, words in scores.items()
        if metrics.get(key) not in (None, _UNSAID.get(key))
    ]
    parts.append(number_table(["what", "value"], rows))
    by_kind = metrics.get("clusters_by_kind")
    if by_kind:
        titles = ["kind of node", *map(str, range(metrics["n_clusters"]))]
        rows = [[kind, *map(str, sizes)] for kind, sizes in by_kind.items()]
        parts.append(Table(titles, rows, "Nodes of each kind in each cluster."))
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


# ----------------------------------------------------------------------------- data of the interactive views


def shown_nodes(labels: np.ndarray, most: int = _NODES) -> np.ndarray:
    """The nodes that a view shows: all, or a sample with the same share of each cluster (at least one node)."""
    n = len(labels)
    if n <= most:
        return np.arange(n)
    order = np.argsort(labels, kind="stable")
    every = order[(np.arange(most) * n) // most]
    first = np.unique(labels, return_index=True)[1]
    return np.unique(np.concatenate([every, first]))


def graph_view(graph: Graph, soft: np.ndarray, title: str = "The graph", caption: str = "") -> View:
    """Nodes coloured by cluster: zoom, hover, filter. Of more than 3,000 nodes a sample is shown."""
    soft = np.asarray(soft, dtype=np.float64)  # float32 would show its last digits
    labels = soft.argmax(1)
    nodes = shown_nodes(labels)
    part = sp.coo_array(sp.triu(sp.csr_array(graph.adjacency)[nodes][:, nodes], k=1))
    kept = np.arange(part.nnz)
    if part.nnz > _EDGES:
        kept = np.sort(np.random.default_rng(0).choice(part.nnz, _EDGES, replace=False))
        caption = f"{_EDGES:,} of {part.nnz:,} edges between them are drawn. {caption}"
    whole = len(nodes) == graph.num_nodes
    if not whole:
        caption = f"{len(nodes):,} of {graph.num_nodes:,} nodes are shown. {caption}"
    chances = -np.sort(-soft[nodes], axis=1)
    second: Any = [None] * len(nodes)
    second_chance = second
    if soft.shape[1] > 1:
        second, second_chance = np.argsort(-soft[nodes], axis=1)[:, 1], np.round(chances[:, 1], 3)
    x = y = None
    what = ""
    # Positions of a very large graph take longer than its clustering.
    if graph.num_nodes <= _PLACED or graph.num_features == 2:
        positions, what = node_positions(graph)
        x, y = np.round(_even(positions[nodes]), 4)
    groups, sizes = np.unique(labels, return_counts=True)
    colours = cluster_colours(int(groups.max()) + 1)
    own = labels[nodes]
    names = graph.node_names
    data = {
        "label": f"{title}: {graph.num_nodes} nodes in {len(groups)} clusters",
        "hint": "Hover or tap: a node. Drag: move. Click, then wheel: zoom. Keys: arrows, + and -, 0 for the whole.",
        "names": None if names is None else [shortened(names[i], _NAME) for i in nodes],
        "index": None if whole else nodes,
        "labels": own,
        "probability": np.round(chances[:, 0], 3),
        "second": second,
        "second_probability": second_chance,
        "x": x,
        "y": y,
        "positions": what,
        # Beyond a few hundred nodes positions say little about edges: clusters side by side say more.
        "start_with_discs": graph.num_nodes > FEW_NODES and not what.startswith("coordinates"),
        "edges": np.stack([part.row[kept], part.col[kept]], axis=1).ravel(),
        # In a mixed order, so that no cluster covers the others only because its number is high.
        "order": np.random.default_rng(0).permutation(len(nodes)),
        "clusters": [
            {"number": int(g), "size": int(n), "colour": colours[g], "members": np.flatnonzero(own == g)}
            for g, n in zip(groups, sizes, strict=True)
        ],
    }
    return View("graph", plain(data), caption.strip())


def _even(positions: np.ndarray) -> np.ndarray:
    """Both coordinates (rows) between 0 and 1 in the same proportion; a few far nodes come to the border."""
    inside = np.clip(positions, *frame(positions))
    inside = inside - inside.min(axis=0)
    return (inside / max(float(inside.max()), 1e-12)).T


def cluster_view(graph: Graph, labels: np.ndarray, caption: str = "") -> View:
    """The graph of clusters: discs with the sizes as areas, lines with the weights of the cuts as widths."""
    groups, sizes, flow, leaving = cluster_flow(graph, labels)
    colours = cluster_colours(int(groups.max()) + 1)
    clusters = []
    for group, size, cut in zip(groups, sizes, leaving, strict=True):
        nodes = "node" if size == 1 else "nodes"
        text = f"Cluster {group}: {size:,} {nodes}, {cut:.0%} of its edges leave it"
        clusters.append({"number": int(group), "size": int(size), "colour": colours[group], "text": text})
    links = [{"a": a, "b": b, "weight": flow[a, b]} for a, b in np.argwhere(np.triu(flow, 1) > 0)]
    data = {
        "label": f"The graph of {len(groups)} clusters",
        "hint": "Hover a disc, or reach it with the Tab key: its size and its cuts.",
        "clusters": clusters,
        "links": links,
    }
    return View("groups", plain(data), caption)


def assignment_view(graph: Graph, soft: np.ndarray, caption: str = "") -> View:
    """S as a heat map: a row per cluster, a column per node (or per few alike), sorted by cluster and certainty."""
    n, k = soft.shape
    labels = soft.argmax(1)
    order = np.lexsort((-soft.max(axis=1), labels))
    count = min(n, _COLUMNS)
    columns = np.split(order, np.arange(1, count) * n // count)  # of one and of two nodes evenly mixed
    values = np.stack([soft[members].mean(axis=0) for members in columns])
    named = graph.node_names
    names = []
    for members in columns:
        one = shortened(named[members[0]], _NAME) if named is not None else f"node {members[0]}"
        names.append(one if len(members) == 1 else f"{one} and {len(members) - 1} after it")
    data = {
        "label": f"Soft assignments of {n} nodes to {k} clusters",
        "k": k,
        "columns": len(columns),
        "values": np.rint(100 * values).astype(int).ravel(),
        "names": names,
        "clusters": [str(c) for c in range(k)],
    }
    said = f"Each column is the mean of about {n / len(columns):.0f} nodes. " if len(columns) < n else ""
    return View("heat", plain(data), (said + caption).strip())


def loss_view(history: Mapping[str, np.ndarray], replicas: Sequence[Replica], caption: str = "") -> View:
    """Both terms of the objective at every iteration, mean over the networks of each objective."""
    panels = []
    for objective, name, colour in _families(replicas):
        members = [r for r, replica in enumerate(replicas) if replica.objective == objective]
        first = {"mincut": "L_c (cut)", "evidence": "minus the evidence"}.get(objective, objective)
        for term, title in (("cut", first), ("ortho", f"second term of {name} (L_o)")):
            values = np.asarray(history[term], dtype=float)[:, members].mean(axis=1)
            if not values.any():
                continue  # an objective without a second term
            at = np.unique(np.linspace(0, len(values) - 1, min(_POINTS, len(values))).astype(int))
            series = {"name": name, "colour": colour, "x": at + 1, "y": [_digits(v) for v in values[at]]}
            panels.append({"title": title, "x": "iteration", "series": [series]})
    return View("curves", plain({"panels": panels}), caption)


def evidence_view(replicas: Sequence[Replica], caption: str = "") -> View:
    """What each network explains, by how often the features it reads were propagated."""
    distances = sorted({replica.hops for replica in replicas})
    series = []
    for objective, name, colour in _families(replicas):
        own = [replica for replica in replicas if replica.objective == objective]
        values = [[_digits(r.evidence) for r in own if r.hops == distance] for distance in distances]
        series.append({"name": name, "colour": colour, "values": values})
    data = {
        "title": "evidence (nats per nat of labels)",
        "x": "times the features were propagated",
        "groups": [str(distance) for distance in distances],
        "series": series,
    }
    return View("dots", plain(data), caption)


def _families(replicas: Sequence[Replica]) -> list[tuple[str, str, str]]:
    """The objectives of the networks, in words, each with a colour."""
    words = {"mincut": "minCUT networks", "evidence": "evidence networks"}
    kinds = list(dict.fromkeys(replica.objective for replica in replicas))
    return [
        (k, words.get(k, k), colour) for k, colour in zip(kinds, cluster_colours(len(kinds)), strict=True)
    ]


def _digits(value: float) -> float:
    return float(f"{value:.5g}")
