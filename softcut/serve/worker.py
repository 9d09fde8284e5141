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
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut import __version__
from softcut.clustering import GraphClustering
from softcut.errors import SoftcutError
from softcut.io import read_graph
from softcut.metrics import evaluate
from softcut.report.html_clustering import clustering_page
from softcut.report.html_views import assignment_view, cluster_view, evidence_view, graph_view
from softcut.report.label_files import write_labels
from softcut.report.verdicts import verdict_of
from softcut.serve.order import Order
from softcut.training import Progress

__all__ = ["run_process", "work"]

_PIXELS = 20_000_000


class _TooManyPixels(SoftcutError):
    """Not a ValueError, which would be taken for a file that cannot be read."""


def run_process(folder: Path, order: Order, sender: Connection) -> None:
    """What the process of a job runs: :func:`work` in the job's folder, with its share of the processors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends its jobs
    os.chdir(folder)
    torch.set_num_threads(order.threads)
    work(order, sender)


def work(order: Order, sender: Connection) -> None:
    """Do a job and tell how it goes: ("progress", ...) often, then ("done", summary) or ("failed", sentence).

    Reads from and writes to the current folder, so that messages name files as people know them.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said again by the notes of the fit
            done = _segment(order) if order.is_picture else _cluster(order, sender)
        sender.send(("done", done))
    except SoftcutError as error:
        sender.send(("failed", str(error)))
    except MemoryError:
        sender.send(("failed", "the memory is full; a smaller file needs less."))
    except Exception:
        traceback.print_exc(file=sys.stderr)
        sender.send(("failed", "something went wrong here, not in the file; the terminal shows what."))
    finally:
        sender.close()


def _cluster(order: Order, sender: Connection) -> dict[str, Any]:
    graph = read_graph(order.file, features=order.features, max_bytes=order.max_bytes)
    sender.send(("read", "; ".join(graph.notes)))
    phase, last = 0, 0

    def tell(progress: Progress) -> None:
        nonlocal phase, last
        phase, last = phase + (progress.iteration <= last), progress.iteration
        losses = float(progress.cut.mean()), float(progress.ortho.mean())
        sender.send(("progress", phase, progress.iteration, progress.iterations, *losses))

    est = GraphClustering(
        order.n_clusters, n_init=order.n_init, random_state=order.seed, device="cpu", callbacks=[tell]
    )
    est.fit(graph)
    scores = evaluate(graph, est.labels_, k=est.n_clusters_)
    metrics = {
        "graph": order.file,
        "softcut": __version__,
        "n_clusters": est.n_clusters_,
        "structure": est.structure_,
        "verdict": est.verdict_,
        **scores,
        "candidates": est.candidates_,
        "agreement_of_replicas": est.agreement_,
        "replicas": len(est.replicas_),
        "iterations": est.n_iter_,
        "reading": graph.notes,
        "notes": est.notes_,
        "seconds": {"fit": est.fit_seconds_},
    }
    write_labels("labels.csv", graph.node_names, est.soft_)
    page = clustering_page(
        graph, est.soft_, metrics, history=est.history_, replicas=est.replicas_, command="softcut serve"
    )
    Path("report.html").write_text(page, encoding="utf-8")
    views = [
        graph_view(graph, est.soft_, order.file),
        cluster_view(graph, est.labels_),
        assignment_view(graph, est.soft_, "Nodes from left to right, by cluster, the most certain first."),
    ]
    if est.replicas_:
        views.append(
            evidence_view(est.replicas_, "Evidence of each distance: a mark is a network, a bar the mean.")
        )
    shown = [{"view": view.view, "caption": view.caption, "data": view.data} for view in views]
    Path("views.json").write_text(json.dumps(shown, allow_nan=False), encoding="utf-8")
    return {
        "kind": "graph",
        "clusters": est.n_clusters_,
        "verdict": f"{verdict_of(metrics)} Structure {est.structure_:.2f}: nats explained for each nat that the "
        "clusters take.",
        "text": f"{graph.num_nodes:,} nodes in {scores['clusters_used']:.0f} clusters; normalised cut "
        f"{scores['normalised_cut']:.3f}, evidence {scores['evidence']:.3f}, {est.fit_seconds_:.1f} seconds.",
        "notes": est.notes_,
        "files": ["labels.csv", "report.html"],
    }


def _segment(order: Order) -> dict[str, Any]:
    from PIL import Image

    from softcut.segment import segment_image

    with contextlib.suppress(OSError, ValueError, SyntaxError), Image.open(order.file) as opened:
        width, height = opened.size  # from the first bytes; what is wrong with the others is said below
        if width * height > _PIXELS:
            raise _TooManyPixels(
                f"{order.file} has {width} x {height} pixels, more than {_PIXELS:,}; make it smaller."
            )
    segments = segment_image(order.file, order.n_clusters, random_state=order.seed, device="cpu")
    kind = np.uint8 if segments.n_segments <= 256 else np.uint16
    Image.fromarray(segments.overlay()).save("overlay.png")
    Image.fromarray(segments.labels.astype(kind)).save("labels.png")
    height, width = segments.labels.shape
    return {
        "kind": "picture",
        "clusters": segments.n_segments,
        "text": f"{width} x {height} pixels in {segments.n_segments} segments.",
        "notes": segments.notes,
        "files": ["labels.png", "overlay.png"],
    }
