"""The words and tables of the report of a clustering: its summary, the numbers compared, scores, notes, origin."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from softcut.colours import cluster_colours, colour_of
from softcut.graph import Graph
from softcut.metrics.summary import Chances, Summary
from softcut.report.clustering_files import most_probable
from softcut.report.html_page import Part, Text, View, plain
from softcut.report.tables import Cell, Table, number_table
from softcut.tables.display_text import percent, shortened

_UNCERTAIN = 20
_LISTED = 100  # clusters of a table
_BY_KIND = 20  # clusters of the table of kinds
_NAME = 60  # characters of a node's name
# What metrics.json holds, in the order of the page and in words.
_SCORES = {
    "structure": "structure (nats explained per nat that the clusters take; below 1 they cost more than they explain)",
    "surplus": "surplus: modularity above that of random graphs like this one",
    "deviations": "the same in standard deviations of the random graphs, which decide the verdict",
    "clusters_used": "clusters used",
    "nodes_without_cluster": "nodes with neither edges nor features: in no cluster, not shown",
    "normalised_cut": "normalised cut (sum over clusters; lower is better)",
    "conductance": "conductance, mean (lower is better)",
    "conductance_max": "conductance of the worst cluster",
    "modularity": "modularity",
    "balance": "balance of sizes (1: all equal)",
    "evidence": "evidence (nats explained per nat of labels)",
    "agreement_of_replicas": "agreement of restarts (mean adjusted Rand index)",
}
# Where the edges alone decide, the verdict is not taken from it.
_STRUCTURE = "structure (nats of the edges explained per nat that the clusters take)"
_UNSAID = {"nodes_without_cluster": 0}  # values that are not worth a line
_TRAINING = {
    "replicas": "networks",
    "replicas_collapsed": "networks that lost a cluster",
    "iterations": "iterations",
}
_COMPARED = {
    "score": "score",
    "structure": "structure",
    "agreement": "agreement of restarts",
    "description_length": "description length (nats; negative where clusters pay)",
}
_CURVES = ("score", "structure", "agreement")


_COLUMNS_MEAN = {
    "edges inside": "share of the weight of a cluster's edges that stays in it",
    "differs by": "the features that tell its nodes from the others, the strongest first: shares of nodes, or medians, "
    "and those elsewhere in brackets",
    "typical": "its most certain nodes",
    "doubtful": "those to which another cluster is close",
    "bridges": "where its other edges go",
}


def summary_parts(summary: Summary, metrics: Mapping[str, Any]) -> list[Part]:
    """The verdict, the table of clusters, what its columns mean, and kinds of nodes where there are several."""
    table, kinds = summary_table(summary), kind_table(metrics)
    said = [
        f"*{title.capitalize()}*: {means}."
        for title, means in _COLUMNS_MEAN.items()
        if title in table.columns
    ]
    more = [] if kinds is None else [kinds]
    return [Text(f"**{summary.heading}**"), table, Text(" ".join(said)), *more]


def kind_table(metrics: Mapping[str, Any]) -> Table | None:
    """Nodes of each kind in each cluster; None where there is one kind."""
    by_kind = metrics.get("clusters_by_kind")
    if not by_kind:
        return None
    rows = [[kind, *(Cell(f"{size:,}") for size in sizes[:_BY_KIND])] for kind, sizes in by_kind.items()]
    count = metrics["n_clusters"]
    titles = ["kind of node", *map(str, range(min(count, _BY_KIND)))]
    more = f", the first {_BY_KIND} of {count:,}" if count > _BY_KIND else ""
    return Table(titles, rows, f"Nodes of each kind in each cluster{more}.")


def summary_table(summary: Summary) -> Table:
    """One row per used cluster, in its colour: size, cohesion, what sets it apart, members, bridges.

    What nothing is said about in any row, such as features where there are none, has no column.
    """
    parts = [part for part in _COLUMNS_MEAN if any(one.pieces.get(part) for one in summary.clusters)]
    rows: list[list[str | Cell]] = []
    for cluster in summary.clusters[:_LISTED]:
        size = Cell(f"{cluster.size:,}", below=percent(cluster.share))
        inside = Cell("no edges", number=False)
        if not math.isnan(cluster.cohesion):
            doubt = "" if cluster.is_community else ": no community"
            inside = Cell(percent(cluster.cohesion), below=f"{percent(cluster.by_chance)} by chance{doubt}")
        texts = (Cell("\n".join(cluster.pieces[part]) or "-", number=False) for part in parts)
        rows.append([_cluster_cell(cluster.cluster), size, inside, *texts])
    caption = f"The {_LISTED} largest of {len(summary):,} clusters." if len(summary) > _LISTED else ""
    return Table(["cluster", "nodes", "edges inside", *parts], rows, caption, stacked=True)


def summary_view(summary: Summary) -> View:
    """The same table for a page that gets its data later."""
    table = summary_table(summary)
    shown = ("text", "below", "classes", "swatch")
    rows = [[{name: getattr(cell, name) for name in shown} for cell in row] for row in table.rows]
    return View("clusters", plain({"label": "Every cluster", "columns": table.columns, "rows": rows}))


def _cluster_cell(number: int) -> Cell:
    """The number of a cluster behind its colour."""
    return Cell(str(number), number=False, swatch=colour_of(number))


def uncertain_table(graph: Graph, soft: Any) -> Part:
    """The nodes whose two largest probabilities are closest, the closest first."""
    if soft.shape[1] < 2:
        return Text("There is one cluster, so no node could be in another.")
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    first = most_probable(soft)
    chances = Chances.of(first, soft)
    rows: list[list[str | Cell]] = []
    for node in np.argsort(chances.own - chances.chance, kind="stable")[:_UNCERTAIN].tolist():
        pairs = ((first[node], chances.own[node]), (chances.second[node], chances.chance[node]))
        cells = (cell for c, chance in pairs for cell in (_cluster_cell(c), Cell(f"{chance:.2f}")))
        rows.append([shortened(names[node], _NAME), *cells])
    columns = ["node", "cluster", "probability", "next cluster", "its probability"]
    return Table(columns, rows, "The nodes whose first two clusters are closest, the closest first.")


def number_parts(metrics: Mapping[str, Any]) -> list[Part]:
    """The numbers of clusters that were compared, as curves and as a table; nothing where there was one."""
    compared = metrics.get("candidates") or {}
    if len(compared) < 2:
        return []
    numbers = sorted(compared, key=int)
    # Nothing is known about a number of clusters that too few networks kept.
    shown = {k: compared[k] if any(compared[k].values()) else dict.fromkeys(_COMPARED) for k in numbers}
    chosen = int(metrics["n_clusters"])
    panels = [
        {
            "title": _COMPARED[name],
            "x": "number of clusters",
            "whole": True,
            "mark": chosen if str(chosen) in compared else None,
            "series": [
                {
                    "name": _COMPARED[name],
                    "colour": colour,
                    "points": True,
                    "x": [int(k) for k in numbers],
                    "y": [shown[k][name] and float(f"{shown[k][name]:.5g}") for k in numbers],
                }
            ],
        }
        for name, colour in zip(_CURVES, cluster_colours(len(_CURVES)), strict=True)
    ]
    rows = [
        [f"{k} (chosen)" if int(k) == chosen else str(k), *(shown[k][c] for c in _COMPARED)] for k in numbers
    ]
    caption = "Numbers of clusters that were compared: the one with the highest score was taken."
    view = View(
        "curves", plain({"panels": panels, "legend": False}), f"The line stands at {chosen} clusters."
    )
    return [view, number_table(["clusters", *_COMPARED.values()], rows, caption)]


def score_table(metrics: Mapping[str, Any]) -> Table:
    """Every score, in words."""
    by_edges = {"structure": _STRUCTURE} if metrics.get("deviations") is not None else {}
    scores = (
        _SCORES | by_edges | (_TRAINING if metrics.get("replicas") else {})
    )  # without networks nothing was trained
    rows = [
        [words, metrics[key]]
        for key, words in scores.items()
        if metrics.get(key) not in (None, _UNSAID.get(key))
    ]
    return number_table(["what", "value"], rows)


def note_table(metrics: Mapping[str, Any]) -> Table | None:
    """What was understood and decided; None where nothing was said."""
    notes = dict.fromkeys(map(str, [*metrics.get("reading", ()), *metrics.get("notes", ())]))  # each once
    return Table(["note"], [[Cell(note, number=False)] for note in notes], heads=0) if notes else None


def origin_table(metrics: Mapping[str, Any], command: str) -> Table:
    """Version, command, date and seconds."""
    seconds = metrics.get("seconds", {})
    told: dict[str, str | Cell] = {
        "softcut": metrics.get("softcut", ""),
        "command": command and Cell(command, number=False, kind="long"),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        **{f"seconds, {what}": f"{value:.1f}" for what, value in seconds.items()},
    }
    return Table(["what", "value"], [[what, value] for what, value in told.items() if value])
