"""The report of one clustering: a page with its tables and interactive views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.clustering.networks import Replica
from softcut.colours import cluster_colours, colour_of
from softcut.graph import Graph
from softcut.metrics.summary import Chances, Summary, summarise
from softcut.report.clustering_files import clustered_part, most_probable
from softcut.report.html_levels import ShownLevels, level_parts
from softcut.report.html_page import Part, Section, Text, View, plain, render_page
from softcut.report.html_summary import (
    note_table,
    number_parts,
    origin_table,
    score_table,
    summary_parts,
    uncertain_table,
)
from softcut.report.plots import (
    FEW_NODES,
    cluster_flow,
    coordinate_columns,
    frame,
    node_positions,
)
from softcut.tables.arrays import plural
from softcut.tables.display_text import percent, shortened

_NODES = 3000  # shown in the view; of larger graphs a sample
_EDGES = 15_000
_PLACED = 100_000  # nodes of a graph whose nodes get positions
_COLUMNS = 400  # of the heat map
_POINTS = 200  # of a curve
_NAME = 60  # characters of a node's name
_DISCS = 100  # clusters of the view of clusters
MAPPED = 100  # clusters up to which soft assignments are shown


def clustering_page(
    graph: Graph,
    soft: Any,
    metrics: Mapping[str, Any],
    *,
    clusters: np.ndarray | None = None,
    summary: Summary | None = None,
    history: Mapping[str, np.ndarray] | None = None,
    replicas: Sequence[Replica] = (),
    command: str = "",
    position: Sequence[str | int] | None = None,
    levels: ShownLevels | None = None,
) -> str:
    """The page that ``softcut cluster --report`` and ``est.report`` write: what was found first, how it was found last.

    `clusters` are the labels, -1 for nodes that are counted and not shown; without them every node is in its most
    probable cluster. `summary` is that of these clusters, where it is known already, `levels` are those around them.
    """
    sizes = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_features:,} features"
    clusters = most_probable(soft) if clusters is None else clusters
    if summary is None:
        summary = summarise(graph, clusters, soft, verdict=metrics.get("verdict"))
    placed = clusters >= 0
    nested = None if levels is None else levels.labels[:, placed]
    graph, soft = clustered_part(graph, soft, clusters)
    labels, name = most_probable(soft), str(metrics["graph"])
    areas = "Areas are sizes; the width of a line is the weight of the edges it stands for."
    order = "Nodes from left to right, by cluster, the most certain first."
    drawn = "Each cluster has a colour and, in its middle, its number."
    parts: dict[str, Sequence[Part]] = {
        "Summary": [
            *summary_parts(summary, metrics),
            graph_view(graph, soft, name, drawn, position, nested),
        ],
        "Levels": [] if levels is None else level_parts(levels),
        "Between the clusters": [cluster_view(graph, labels, areas)],
        "The number of clusters": number_parts(metrics),
        "Doubtful nodes": [uncertain_table(graph, soft)],
        "Soft assignments": [assignment_view(graph, soft, order)] if soft.shape[1] <= MAPPED else [],
        "Scores": [score_table(metrics)],
    }
    if history is not None and replicas:
        parts["Training"] = [
            loss_view(history, replicas, "Mean over the networks."),
            Text("Evidence of each distance: a mark is a network, a bar the mean."),
            evidence_view(replicas),
        ]
    notes = note_table(metrics)
    parts["Notes"] = [] if notes is None else [notes]
    parts["Where this comes from"] = [origin_table(metrics, command)]
    sections = [Section(title, below) for title, below in parts.items() if below]
    return render_page(f"{name}: {plural(len(summary), 'cluster')}", sections, sizes)


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


def graph_view(
    graph: Graph,
    soft: Any,
    title: str = "The graph",
    caption: str = "",
    position: Sequence[str | int] | None = None,
    levels: np.ndarray | None = None,
) -> View:
    """Nodes coloured by cluster: zoom, hover, filter. Of more than 3,000 nodes a sample is shown.

    With several nested `levels` [L, N] one can switch to the clusters of another one.
    """
    labels = most_probable(soft)
    nodes = shown_nodes(labels)
    part = sp.coo_array(sp.triu(sp.csr_array(graph.adjacency)[nodes][:, nodes], k=1))
    kept = np.arange(part.nnz)
    if part.nnz > _EDGES:
        kept = np.sort(np.random.default_rng(0).choice(part.nnz, _EDGES, replace=False))
        caption = f"{_EDGES:,} of {part.nnz:,} edges between them are drawn. {caption}"
    whole = len(nodes) == graph.num_nodes
    if not whole:
        caption = f"{len(nodes):,} of {graph.num_nodes:,} nodes are shown. {caption}"
    chances = Chances.of(labels[nodes], soft[nodes])
    second: Any = [None] * len(nodes)
    second_chance = second
    if soft.shape[1] > 1:
        second, second_chance = chances.second, np.round(chances.chance, 3)
    x = y = None
    what = ""
    # Positions of a very large graph take longer than its clustering.
    if graph.num_nodes <= _PLACED or coordinate_columns(graph, position) is not None:
        positions, what = node_positions(graph, position)
        x, y = np.round(_even(positions[nodes]), 4)
    groups, own, names = np.unique(labels), labels[nodes], graph.node_names
    data = {
        "label": f"{title}: {graph.num_nodes} nodes in {len(groups)} clusters",
        "hint": "Hover or tap: a node. Drag: move. Click, then wheel: zoom. Keys: arrows, + and -, 0 for the whole.",
        "names": None if names is None else [shortened(names[i], _NAME) for i in nodes],
        "index": None if whole else nodes,
        "labels": own,
        "probability": np.round(chances.own, 3),
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
        "clusters": _chips(labels, own),
    }
    if levels is not None and len(levels) > 1:
        data["levels"] = [
            {
                "name": f"level {depth}: {plural(len(np.unique(each)), 'cluster')}",
                "labels": each[nodes],
                "clusters": _chips(each, each[nodes]),
                "shown": bool((each == labels).all()),
            }
            for depth, each in enumerate(levels)
        ]
    return View("graph", plain(data), caption.strip())


def _chips(labels: np.ndarray, own: np.ndarray) -> list[dict[str, Any]]:
    """The clusters of a graph, with their members among the nodes that are shown, whose labels are `own`."""
    groups, sizes = np.unique(labels, return_counts=True)
    order = np.argsort(own, kind="stable")
    members = np.split(order, np.searchsorted(own[order], groups)[1:])
    return [
        {"number": int(g), "size": int(n), "colour": colour_of(g), "members": nodes}
        for g, n, nodes in zip(groups, sizes, members, strict=True)
    ]


def _even(positions: np.ndarray) -> np.ndarray:
    """Both coordinates (rows) between 0 and 1 in the same proportion; a few far nodes come to the border."""
    inside = np.clip(positions, *frame(positions))
    inside = inside - inside.min(axis=0)
    return (inside / max(float(inside.max()), 1e-12)).T


def cluster_view(graph: Graph, labels: np.ndarray, caption: str = "") -> View:
    """The graph of clusters: discs with the sizes as areas, lines with the weights of the cuts as widths."""
    groups, sizes, flow, leaving = cluster_flow(graph, labels, _DISCS)
    count = len(np.unique(labels))
    if count > len(groups):
        caption = f"The {len(groups)} largest of {count:,} clusters are shown. {caption}"
    clusters = []
    for group, size, cut, colour in zip(groups, sizes, leaving, map(colour_of, groups), strict=True):
        nodes = "node" if size == 1 else "nodes"
        text = f"Cluster {group}: {size:,} {nodes}, {percent(cut)} of its edges leave it"
        clusters.append({"number": int(group), "size": int(size), "colour": colour, "text": text})
    links = [{"a": a, "b": b, "weight": flow[a, b]} for a, b in np.argwhere(np.triu(flow, 1) > 0)]
    data = {
        "label": f"The graph of {count} clusters",
        "hint": "Hover a disc, or reach it with the Tab key: its size and its cuts.",
        "clusters": clusters,
        "links": links,
    }
    return View("groups", plain(data), caption)


def assignment_view(graph: Graph, soft: Any, caption: str = "") -> View:
    """S as a heat map: a row per cluster, a column per node (or per few alike), sorted by cluster and certainty."""
    n, k = soft.shape
    soft = soft.toarray() if sp.issparse(soft) else soft
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
