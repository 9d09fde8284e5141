"""What is written about a clustering beside its page: metrics, the verdict in a sentence, labels, segments."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut import __version__
from softcut.clustering import GraphClustering
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.metrics.summary import ROW, Summary, verdict_sentence


def graph_facts(name: str, graph: Graph, n_clusters: int) -> dict[str, Any]:
    """What every metrics.json begins with."""
    return {
        "graph": name,
        "softcut": __version__,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "reading": graph.notes,
        "n_clusters": n_clusters,
    }


def clustering_metrics(
    name: str, graph: Graph, estimator: GraphClustering, **seconds: float
) -> dict[str, Any]:
    """What metrics.json and the page say about a fitted estimator; `seconds` are those of other steps."""
    return {
        **graph_facts(name, graph, estimator.n_clusters_),
        "structure": estimator.structure_,
        "verdict": estimator.verdict_,
        **evaluate(graph, estimator.labels_, k=estimator.n_clusters_),
        "candidates": {str(number): described for number, described in estimator.candidates_.items()},
        "agreement_of_replicas": estimator.agreement_,
        "replicas": len(estimator.replicas_),
        "replicas_collapsed": sum(replica.collapsed for replica in estimator.replicas_),
        "iterations": estimator.n_iter_,
        "converged": estimator.converged_,
        "interrupted": estimator.interrupted_,
        "seconds": {**seconds, "fit": estimator.fit_seconds_},
        "notes": estimator.notes_,
    }


def verdict_of(metrics: Mapping[str, Any]) -> str:
    """What a clustering is worth, in a sentence; "" where metrics hold no verdict, as after a prediction."""
    return verdict_sentence(metrics.get("verdict"), int(metrics.get("n_clusters", 0)))


def write_labels(
    path: str | Path, names: Sequence[str] | None, soft: np.ndarray, *, spreadsheet_safe: bool = False
) -> None:
    """Write ``node,cluster,probability``, one line per node; `names` None: nodes are named by their numbers.

    `spreadsheet_safe` puts ``'`` before names that spreadsheets might take for a formula.
    """
    shown = [str(i) for i in range(len(soft))] if names is None else names
    if spreadsheet_safe:
        shown = [_safe(name) for name in shown]
    chances = (f"{p:.6f}" for p in soft.max(axis=1))
    rows = zip(shown, soft.argmax(axis=1).tolist(), chances, strict=True)
    _write_rows(path, ["node", "cluster", "probability"], rows)


def write_clusters(path: str | Path, summary: Summary, *, spreadsheet_safe: bool = False) -> None:
    """Write the summary of every cluster, one line each, with the columns of :meth:`Summary.to_frame`."""
    rows = ([cluster.row[name] for name in ROW] for cluster in summary.clusters)
    if spreadsheet_safe:
        rows = ([_safe(value) if isinstance(value, str) else value for value in row] for row in rows)
    _write_rows(path, ROW, rows)


def _safe(text: str) -> str:
    """The text, with ``'`` before it where spreadsheets might take it for a formula."""
    return "'" + text if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text


def _write_rows(path: str | Path, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(titles)
        writer.writerows(rows)


def write_segments(folder: Path, segmentation: Any) -> None:
    """``labels.png`` (the number of each pixel's segment) and ``overlay.png`` of a segmented image."""
    from PIL import Image

    if segmentation.n_segments > 2**16:
        raise ParameterError(f"--segments must be at most {2**16:,}, to fit into labels.png.")
    kind = np.uint8 if segmentation.n_segments <= 256 else np.uint16
    Image.fromarray(segmentation.labels.astype(kind)).save(folder / "labels.png")
    Image.fromarray(segmentation.overlay()).save(folder / "overlay.png")


def write_cut_outs(path: Path, segmentation: Any) -> None:
    """A zip archive of ``segment-0.png``, ``segment-1.png``, ...: each segment alone, the rest transparent."""
    from PIL import Image

    with zipfile.ZipFile(path, "w") as archive:  # PNG files are compressed already
        for number, pixels in enumerate(segmentation.cut_outs()):
            with io.BytesIO() as file:
                Image.fromarray(pixels).save(file, "png", compress_level=1)  # many pixels: time counts
                archive.writestr(f"segment-{number}.png", file.getvalue())
