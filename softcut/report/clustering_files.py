"""What is written about a clustering beside its page: metrics, the verdict in a sentence, labels, segments."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut import __version__
from softcut.clustering import GraphClustering
from softcut.errors import ParameterError, require
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.metrics.summary import ROW, Summary

MOST_CHANCES = 100  # clusters up to which labels.parquet has a probability for each
MOST_ASSIGNMENTS = 1 << 26  # numbers of assignments.npy; a larger table is not written


def certainty(soft: Any) -> np.ndarray:
    """The largest probability of every row of a table, dense or sparse.

    >>> import scipy.sparse as sp
    >>> certainty(sp.csr_array([[0.75, 0.25], [0.0, 0.0]])).tolist()
    [0.75, 0.0]
    """
    highest = soft.max(axis=1)
    return np.asarray(highest.toarray() if sp.issparse(highest) else highest).ravel()


def most_probable(soft: Any) -> np.ndarray:
    """The cluster with the largest probability of every row of a table, dense or sparse."""
    return np.asarray(soft.argmax(axis=1)).ravel()


def level_columns(levels: np.ndarray | None) -> dict[str, np.ndarray]:
    """level_0, level_1, ...: the labels [L, N] of nested levels by title; nothing where there is one level."""
    if levels is None or len(levels) < 2:
        return {}
    return {f"level_{depth}": labels for depth, labels in enumerate(levels)}


def levels_of(estimator: GraphClustering) -> np.ndarray | None:
    """Labels [L, N] of the nested levels of a fit; None where there is no tree."""
    return None if estimator.tree_ is None or estimator.levels_ is None else estimator.levels_.labels


def clustered_part(graph: Graph, soft: Any, labels: np.ndarray) -> tuple[Graph, Any]:
    """The nodes that have a cluster, which is what pictures and pages show; all, where none has one."""
    placed = labels >= 0
    return (graph.subgraph(placed), soft[placed]) if placed.any() and not placed.all() else (graph, soft)


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


def label_facts(graph: Graph, labels: np.ndarray, n_clusters: int) -> dict[str, Any]:
    """How many nodes have no cluster and, where there are several kinds of nodes, how many of each are in each."""
    facts: dict[str, Any] = {"nodes_without_cluster": int(np.count_nonzero(labels < 0))}
    if graph.node_kinds is not None:
        placed, kinds = labels >= 0, np.asarray(graph.node_kinds, dtype=object)
        facts["clusters_by_kind"] = {
            kind: np.bincount(labels[placed & (kinds == kind)], minlength=n_clusters).tolist()
            for kind in dict.fromkeys(graph.node_kinds)
            if kind
        }
    return facts


def id_columns(graph: Graph) -> dict[str, list[str]]:
    """Where nodes are of several kinds, the kind of each and its id among those, to join one's own tables by."""
    if graph.node_kinds is None:
        return {}
    names = graph.node_names or [str(i) for i in range(graph.num_nodes)]
    ids = [name.removeprefix(f"{kind} ") for name, kind in zip(names, graph.node_kinds, strict=True)]
    return {"kind": graph.node_kinds, "id": ids}


def write_parquet(
    path: Path, graph: Graph, soft: Any, labels: np.ndarray, levels: np.ndarray | None = None
) -> None:
    """The table of :func:`write_labels`, with all probabilities of up to 100 clusters; empty where a node has none."""
    arrow = require("pyarrow", "tables", path.name)
    parquet = require("pyarrow.parquet", "tables", path.name)

    # Columns of buffers: `pyarrow.array` imports pandas, which takes longer than a small fit.
    def numbers(values: np.ndarray, given: np.ndarray | None = None) -> Any:
        bits = None if given is None else arrow.py_buffer(np.packbits(given, bitorder="little"))
        data = arrow.py_buffer(np.ascontiguousarray(values))
        return arrow.Array.from_buffers(arrow.from_numpy_dtype(values.dtype), len(values), [bits, data])

    def words(values: Sequence[str]) -> Any:
        written = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, written)])
        short = ends[-1] < 2**31
        kind = arrow.string() if short else arrow.large_string()
        buffers = [ends.astype(np.int32 if short else np.int64), b"".join(written)]
        return arrow.Array.from_buffers(kind, len(written), [None, *map(arrow.py_buffer, buffers)])

    placed = labels >= 0
    columns = {
        "node": words(graph.node_names or [str(i) for i in range(graph.num_nodes)]),
        "cluster": numbers(labels, placed),
        "probability": numbers(certainty(soft), placed),
        **{name: words(values) for name, values in id_columns(graph).items()},
        **{name: numbers(values, values >= 0) for name, values in level_columns(levels).items()},
        **({f"p{j}": numbers(soft[:, j]) for j in range(soft.shape[1])} if _has_all(soft) else {}),
    }
    parquet.write_table(arrow.table(columns), path)


def _has_all(soft: Any) -> bool:
    """Whether every probability of a table [N, K] is written."""
    return not sp.issparse(soft) and soft.shape[1] <= MOST_CHANCES


def clustering_metrics(
    name: str, graph: Graph, estimator: GraphClustering, **seconds: float
) -> dict[str, Any]:
    """What metrics.json and the page say about a fitted estimator; `seconds` are those of other steps."""
    return {
        **graph_facts(name, graph, estimator.n_clusters_),
        "structure": estimator.structure_,
        "verdict": estimator.verdict_,
        "deviations": estimator.deviations_,
        "surplus": estimator.surplus_,
        **level_facts(estimator),
        **evaluate(graph, estimator.labels_, k=estimator.n_clusters_),
        **label_facts(graph, estimator.labels_, estimator.n_clusters_),
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


def level_facts(estimator: GraphClustering) -> dict[str, Any]:
    """The scales that were compared, the nested levels, and which of both was chosen; nothing without them."""
    facts: dict[str, Any] = {}
    levels, scales = estimator.levels_, estimator.scales_
    if estimator.tree_ is not None and levels is not None:
        facts["level"] = levels.chosen
        facts["levels"] = [
            {"level": depth, "clusters": len(np.unique(labels[labels >= 0]))}
            | ({} if scales is None else {"resolution": mark or None})
            for depth, (labels, mark) in enumerate(zip(levels.labels, levels.marks, strict=True))
        ]
    if scales is not None:
        score = scales.score.tolist()
        facts["scales"] = [{**row, "score": score[i]} for i, row in enumerate(scales.rows())]
    return facts


def write_labels(
    path: str | Path,
    graph: Graph,
    soft: Any,
    labels: np.ndarray,
    levels: np.ndarray | None = None,
    *,
    spreadsheet_safe: bool = False,
) -> None:
    """Write ``node,cluster,probability``, one line per node; nodes without names are called by their numbers.

    Where there are several kinds of nodes, ``kind,id`` follow; where there are several nested `levels` [L, N],
    ``level_0,level_1,...`` come last, the coarsest first.

    A node without a cluster (label -1) has neither number nor probability. `spreadsheet_safe` puts ``'`` before names
    that spreadsheets might take for a formula.
    """
    texts = {"node": graph.node_names or [str(i) for i in range(len(labels))], **id_columns(graph)}
    if spreadsheet_safe:
        texts = {title: [_safe(text) for text in column] for title, column in texts.items()}
    names, *others = texts.values()
    nested = level_columns(levels)
    more: list[Iterable[Any]] = [
        *others,
        *(["" if c < 0 else c for c in column.tolist()] for column in nested.values()),
    ]
    chances = (f"{p:.6f}" for p in certainty(soft))
    rows = zip(names, labels.tolist(), chances, *more, strict=True)
    told = ((name, c, p, *rest) if c >= 0 else (name, "", "", *rest) for name, c, p, *rest in rows)
    _write_rows(path, ["node", "cluster", "probability", *list(texts)[1:], *nested], told)


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
        raise ParameterError(
            f"--segments must be at most {2**16:,}, to fit into labels.png.", argument="segments"
        )
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
