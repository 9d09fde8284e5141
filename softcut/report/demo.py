"""The demo: three embedded graphs, four methods, a table and pictures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softcut.baselines import BASELINES
from softcut.clustering.estimator import MinCutClustering
from softcut.datasets import attributed_communities, community_graph, grid_graph
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.report.plots import draw_partition, figure, node_positions, save_figure

__all__ = ["METHODS", "demo_graphs", "run_demo"]

Method = Callable[[Graph, int, int], np.ndarray]


def _one_run(graph: Graph, k: int, seed: int) -> np.ndarray:
    return MinCutClustering(k, n_init=1, select="best", random_state=seed).fit_predict(graph)


def _default(graph: Graph, k: int, seed: int) -> np.ndarray:
    return MinCutClustering(k, random_state=seed).fit_predict(graph)


METHODS: dict[str, Method] = {
    "spectral clustering": BASELINES["sc"],
    "k-means, propagated": BASELINES["kmeans_propagated"],
    "minCUT, one run": _one_run,
    "softcut (default)": _default,
}


def demo_graphs() -> list[tuple[Graph, int]]:
    """The two synthetic graphs of the paper, and a generated one with features and known communities.

    >>> [(graph.name, graph.num_nodes, k) for graph, k in demo_graphs()]
    [('communities', 150, 6), ('grid', 150, 5), ('attributed', 3000, 8)]
    """
    found = [
        ("communities", community_graph(), 6),
        ("grid", grid_graph(15, 10), 5),
        ("attributed", attributed_communities(3000, 8, edge_signal=0.5, feature_signal=0.25, seed=0), 8),
    ]
    graphs = []
    for name, graph, k in found:
        object.__setattr__(graph, "name", name)
        graphs.append((graph, k))
    return graphs


def run_demo(
    out: str | Path, seed: int = 0, tell: Callable[[str], None] | None = None
) -> list[dict[str, Any]]:
    """Cluster the demo graphs with every method; writes ``results.json`` and one picture a graph.

    Parameters
    ----------
    out : path
        Folder for the results.
    seed : int
        Random state of every method.
    tell : callable, optional
        Told what is being done.
    """
    out = Path(out)
    rows: list[dict[str, Any]] = []
    for graph, k in demo_graphs():
        positions, positions_are = node_positions(graph)
        fig, axes = figure(1, len(METHODS), figsize=(4 * len(METHODS), 4.4))
        for ax, (method, cluster) in zip(axes, METHODS.items(), strict=True):
            if tell is not None:
                tell(f"{graph.name}: {method}")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                labels = cluster(graph, k, seed)
            seconds = time.perf_counter() - start
            scores = evaluate(graph, labels, graph.y if graph.name != "grid" else None, k)
            rows.append({"graph": graph.name, "k": k, "method": method, "seconds": seconds, **scores})
            known = f", NMI {scores['nmi']:.2f}" if scores.get("nmi") is not None else ""
            draw_partition(
                ax, graph, labels, positions, f"{method}\ncut {scores['normalised_cut']:.2f}{known}"
            )
            ax.set_xlabel(positions_are)
        fig.suptitle(f"{graph.name}: {graph.num_nodes} nodes, {graph.num_edges} edges, {k} clusters")
        save_figure(fig, out / f"{graph.name}.png")
    atomic_json(out / "results.json", rows)
    return rows
