"""What a job of the local page does, in a process of its own: read the upload, cluster it, write the results.

Nothing from an upload is executed: files are parsed by the readers that the command line uses.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from softcut.clustering import GraphClustering
from softcut.errors import Detail, SoftcutError
from softcut.io import read_graph
from softcut.report.clustering_files import (
    clustered_part,
    clustering_metrics,
    levels_of,
    most_probable,
    write_clusters,
    write_cut_outs,
    write_labels,
    write_segments,
)
from softcut.report.communities_file import communities, level_summaries
from softcut.report.html_clustering import (
    MAPPED,
    assignment_view,
    cluster_view,
    clustering_page,
    evidence_view,
    graph_view,
)
from softcut.report.html_levels import shown_levels
from softcut.report.html_page import plain
from softcut.report.html_summary import summary_view
from softcut.serve.form import worded
from softcut.training import Progress

_PIXELS = 20_000_000


class _TooManyPixels(SoftcutError):
    """Not a ValueError, which would be taken for a file that cannot be read."""


def run_process(folder: Path, order: dict[str, Any], sender: Connection) -> None:
    """What the process of a job runs: :func:`work` in the job's folder, with its share of the processors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its jobs
    os.chdir(folder)
    torch.set_num_threads(order.pop("threads"))
    work(sender, **order)


def work(sender: Connection, picture: bool = False, **order: Any) -> None:
    """Do a job and tell how it goes: ("read", notes), ("comparing", K, first, last) and ("progress", ...) often.

    At the end comes ("done", summary) or ("failed", sentence, field of the form that it is about).

    Reads from and writes to the current folder, so that messages name files as people know them. `order` has the
    arguments of :func:`_cluster` or, for a picture, of :func:`_segment`.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said again by the notes of the fit
            done = _segment(**order) if picture else _cluster(sender, **order)
        sender.send(("done", done))
    except SoftcutError as error:
        sender.send(("failed", worded(error.sentence), error.argument or ""))
    except MemoryError:
        sender.send(("failed", "the memory is full; a smaller file needs less.", ""))
    except Exception:
        traceback.print_exc(file=sys.stderr)
        sender.send(("failed", "something went wrong here, not in the file; the terminal shows what.", ""))
    finally:
        sender.close()


class _Teller:
    """A callback of the estimator that tells how far it is; trainings are counted."""

    def __init__(self, sender: Connection) -> None:
        self._sender, self._training, self._last = sender, 0, 0

    def comparing(self, k: int, numbers: Sequence[int]) -> None:
        """A number of clusters is looked at, one of several."""
        self._sender.send(("comparing", k, min(numbers), max(numbers)))

    def __call__(self, progress: Progress) -> None:
        self._training += progress.iteration <= self._last
        self._last = progress.iteration
        losses = float(progress.cut.mean()), float(progress.ortho.mean())
        done = progress.iteration, progress.iterations
        self._sender.send(("progress", self._training, *done, *losses, progress.seconds_left))


def _cluster(
    sender: Connection,
    file: str,
    n_clusters: int | str | range | None,
    features: str | None = None,
    seed: int = 0,
    reading: dict[str, Any] | None = None,
    n_init: int | None = None,
    max_bytes: int = 2**28,
) -> dict[str, Any]:
    """Cluster a graph, or the nearest rows of features where they are the file.

    `reading` has options of `read_graph`, `max_bytes` are the most a compressed file unpacks to.
    """
    edges = None if file == features else file
    graph = read_graph(edges, features=features, max_bytes=max_bytes, **(reading or {}))
    sender.send(("read", [worded(note) for note in graph.notes]))
    est = GraphClustering(
        n_clusters, n_init=n_init, random_state=seed, device="cpu", callbacks=[_Teller(sender)]
    )
    est.fit(graph)
    metrics = clustering_metrics(file, graph, est)
    summary = est.summary()
    metrics["verdict_sentence"] = summary.said
    nested = levels_of(est)
    write_labels("labels.csv", graph, est.soft_, est.labels_, nested)
    write_clusters("clusters.csv", summary)
    fit: dict[str, Any] = {"clusters": est.labels_, "history": est.history_, "replicas": est.replicas_}
    fit |= {"summary": summary, "levels": shown_levels(graph, est, summary), "command": "softcut serve"}
    page = clustering_page(graph, est.soft_, metrics, **fit)
    Path("report.html").write_text(page, encoding="utf-8")
    part, soft = clustered_part(graph, est.soft_, est.labels_)
    placed = None if nested is None else nested[:, est.labels_ >= 0]
    views = [
        summary_view(summary),
        graph_view(part, soft, file, levels=placed),
        cluster_view(part, most_probable(soft)),
    ]
    if soft.shape[1] <= MAPPED:
        said = "Nodes from left to right, by cluster, the most certain first."
        views.append(assignment_view(part, soft, said))
    if est.replicas_:
        views.append(
            evidence_view(est.replicas_, "Evidence of each distance: a mark is a network, a bar the mean.")
        )
    shown = [{"view": view.view, "caption": view.caption, "data": view.data} for view in views]
    Path("views.json").write_text(json.dumps(shown, allow_nan=False), encoding="utf-8")
    files = ["labels.csv", "clusters.csv", "report.html"]
    if est.tree_ is not None:
        made = communities(file, graph, est, level_summaries(graph, est, summary))
        Path("communities.json").write_text(json.dumps(plain(made), allow_nan=False), encoding="utf-8")
        files.insert(2, "communities.json")
    return {
        "kind": "graph",
        "clusters": est.n_clusters_,
        "verdict": summary.said,
        "text": f"{summary.counted}, found in {est.fit_seconds_:.1f} seconds.",
        "notes": [
            worded(note) for note in est.notes_ if note not in graph.notes and not isinstance(note, Detail)
        ],
        "files": files,
    }


def _segment(file: str, n_clusters: int | str, seed: int = 0, **others: Any) -> dict[str, Any]:
    """Divide a picture; the options of graphs are not its own."""
    from PIL import Image

    from softcut.segment import segment_image

    with contextlib.suppress(OSError, ValueError, SyntaxError), Image.open(file) as opened:
        width, height = opened.size  # from the first bytes; what is wrong with the others is said below
        if width * height > _PIXELS:
            raise _TooManyPixels(
                f"{file} has {width} x {height} pixels, more than {_PIXELS:,}; make it smaller."
            )
    segments = segment_image(file, n_clusters, random_state=seed, device="cpu")
    write_segments(Path(), segments)
    write_cut_outs(Path("cut-outs.zip"), segments)
    height, width = segments.labels.shape
    return {
        "kind": "picture",
        "clusters": segments.n_segments,
        "text": f"{width} x {height} pixels in {segments.n_segments} segments.",
        "notes": [worded(note) for note in segments.notes],
        "files": ["overlay.png", "cut-outs.zip", "labels.png"],
    }
