"""The files and the table that ``softcut cluster`` and ``softcut predict`` end with."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from softcut.cli.console import note, out, say_written
from softcut.errors import DependencyError, require
from softcut.graph import Graph
from softcut.report.label_files import write_labels
from softcut.report.verdicts import verdict_of

if TYPE_CHECKING:
    from softcut.clustering import GraphClustering

__all__ = ["RESULT_FILES", "closing_table", "write_report", "write_results"]

RESULT_FILES = (
    "labels.csv",
    "labels.parquet",
    "assignments.npy",
    "metrics.json",
    "clusters.png",
    "report.html",
)


def write_results(
    folder: Path,
    graph: Graph,
    soft: np.ndarray,
    metrics: dict[str, Any],
    *,
    plot: bool = True,
    spreadsheet_safe: bool = False,
) -> None:
    """Labels, soft assignments, metrics and a picture."""
    labels = soft.argmax(1)
    probability = soft[np.arange(len(soft)), labels]
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    write_labels(folder / "labels.csv", names, soft, spreadsheet_safe=spreadsheet_safe)
    np.save(folder / "assignments.npy", soft.astype(np.float32))
    try:
        arrow = require("pyarrow", "tables", "labels.parquet")
        parquet = require("pyarrow.parquet", "tables", "labels.parquet")
        columns = {"node": names, "cluster": labels, "probability": probability}
        columns |= {f"p{j}": soft[:, j] for j in range(soft.shape[1])}
        parquet.write_table(arrow.table(columns), folder / "labels.parquet")
    except DependencyError as error:
        note(f"no labels.parquet: {error}")
    text = json.dumps(_plain(metrics), indent=1, allow_nan=False) + "\n"
    (folder / "metrics.json").write_text(text, encoding="utf-8")
    if plot:
        from softcut.report.plots import plot_clustering

        plot_clustering(folder / "clusters.png", graph, labels, title=metrics["graph"])


def write_report(folder: Path, graph: Graph, estimator: GraphClustering, metrics: dict[str, Any]) -> None:
    """The page report.html: clusters, nodes, features and training, to look at and to search."""
    from softcut.provenance import command_line
    from softcut.report.html_clustering import clustering_page

    page = clustering_page(
        graph,
        estimator.soft_,
        metrics,
        history=estimator.history_,
        replicas=estimator.replicas_,
        command=command_line(),
    )
    (folder / "report.html").write_text(page, encoding="utf-8")


def _plain(value: Any) -> Any:
    """The same with null for numbers that JSON does not have: NaN and the infinities."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def closing_table(metrics: dict[str, Any], written: list[Path], seconds: float) -> None:
    """What was found, and where it is."""
    title = f"{metrics['graph']}: {metrics['nodes']:,} nodes, {metrics['edges']:,} edges"
    listing = Table(title=Text(title), show_header=False, min_width=len(title))
    listing.add_column("what")
    listing.add_column("value", justify="right")
    rows = []
    if "verdict" in metrics:
        rows += [
            ("verdict", metrics["verdict"]),
            ("structure (nats explained per nat)", f"{metrics['structure']:.4f}"),
        ]
    rows += [
        ("clusters used", f"{metrics['clusters_used']} of {metrics['n_clusters']}"),
        ("normalised cut", f"{metrics['normalised_cut']:.4f}"),
        ("modularity", f"{metrics['modularity']:.4f}"),
        ("balance", f"{metrics['balance']:.4f}"),
        ("evidence (nats per nat of labels)", f"{metrics['evidence']:.4f}"),
    ]
    if "agreement_of_replicas" in metrics:
        rows.append(("agreement of restarts (ARI)", f"{metrics['agreement_of_replicas']:.4f}"))
    if metrics.get("interrupted"):
        rows.append(("interrupted", f"after {metrics['iterations']} iterations"))
    rows.append(("seconds", f"{seconds:.1f}"))
    for row in rows:
        listing.add_row(*row)
    if verdict_of(metrics):
        out.print(verdict_of(metrics), markup=False, soft_wrap=True)
    out.print(listing)
    say_written(written)
