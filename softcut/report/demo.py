"""The demo: three generated graphs, four methods, a table and pictures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix

from softcut.baselines import BASELINES
from softcut.clustering import GraphClustering, Recipe
from softcut.datasets import attributed_communities, community_graph, grid_graph
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.report.html_page import Section, number_table, picture_of
from softcut.report.html_views import assignment_view, cluster_view, graph_view
from softcut.report.plots import (
    cluster_marks,
    draw_adjacency,
    draw_groups,
    draw_partition,
    figure,
    save_figure,
)
from softcut.report.positions import FEW_NODES, node_positions

__all__ = ["METHODS", "demo_graphs", "draw_methods", "numbered_like", "run_demo"]

# From a graph, K and a seed to labels [N] or soft assignments [N, K].
Method = Callable[[Graph, int, int], np.ndarray]


# A single network that minimises the cut, from a k-means of the features two hops away; nothing is merged or refined.
# The paper's own model, of which one short run often ends in a single cluster, is MinCutClustering.
_ONE = Recipe(
    objective="mincut",
    networks=1,
    distances=(2,),
    iterations=200,
    learning_rate=0.01,
    edge_starts=0.0,
    select="best",
    refine=False,
)


def _one_run(graph: Graph, k: int, seed: int) -> np.ndarray:
    return GraphClustering(k, random_state=seed, recipe=_ONE).fit_predict(graph)


def _default(graph: Graph, k: int, seed: int) -> np.ndarray:
    return GraphClustering(k, random_state=seed).fit_transform(graph)


METHODS: dict[str, Method] = {
    "spectral clustering": BASELINES["sc"],
    "k-means, propagated": BASELINES["kmeans_propagated"],
    "minCUT, one run": _one_run,
    "softcut (default)": _default,
}


def demo_graphs() -> list[tuple[Graph, int]]:
    """The two synthetic graphs of the paper, and a generated one with features and known communities."""
    made = [
        ("communities", community_graph(), 6),
        ("grid", grid_graph(15, 10), 5),
        ("attributed", attributed_communities(3000, 8, edge_signal=0.5, feature_signal=0.25, seed=0), 8),
    ]
    graphs = []
    for name, graph, k in made:
        object.__setattr__(graph, "name", name)
        graphs.append((graph, k))
    return graphs


def run_demo(
    out: str | Path,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
    sections: list[Section] | None = None,
) -> list[dict[str, Any]]:
    """Cluster the demo graphs with every method; writes ``results.json`` and one picture per graph."""
    out = Path(out)
    rows: list[dict[str, Any]] = []
    for graph, k in demo_graphs():
        labels = {}
        for method, cluster in METHODS.items():
            if tell is not None:
                tell(f"{graph.name}: {method}")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = cluster(graph, k, seed)
            seconds = time.perf_counter() - start
            labels[method] = made if made.ndim == 1 else made.argmax(1)
            scores = evaluate(graph, labels[method], graph.y if graph.name != "grid" else None, k)
            rows.append({"graph": graph.name, "k": k, "method": method, "seconds": seconds, **scores})
        picture = out / f"{graph.name}.png"
        draw_methods(picture, graph, labels, rows[-len(METHODS) :])
        if sections is not None:
            sections.append(_section(graph, made, rows[-len(METHODS) :], picture))
    atomic_json(out / "results.json", rows)
    return rows


def _section(graph: Graph, soft: np.ndarray, rows: list[dict[str, Any]], picture: Path) -> Section:
    """The scores of all methods, the picture, and the default's clusters to look at."""
    scores = ("nmi", "completeness", "normalised_cut", "modularity", "clusters_used", "seconds")
    table = number_table(
        ["method", *(name.replace("_", " ") for name in scores)],
        [[row["method"], *(row.get(name) for name in scores)] for row in rows],
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {rows[0]['k']} clusters asked for.",
    )
    title = f"Demo: {graph.name}"
    labels = soft.argmax(1)
    return Section(
        title,
        [
            table,
            graph_view(graph, soft, title, "The default clustering."),
            cluster_view(graph, labels),
            assignment_view(graph, soft),
            picture_of(picture, f"{graph.name} by every method"),
        ],
    )


def draw_methods(
    path: Path, graph: Graph, by_method: dict[str, np.ndarray], rows: list[dict[str, Any]]
) -> None:
    """One column per method; clusters that match have the same colour in all of them."""
    positions, positions_are = node_positions(graph)
    # Where edges cannot be drawn, the cuts between clusters and the sorted matrix show them.
    height = 1 if graph.num_nodes <= FEW_NODES else 3
    fig, axes = figure(
        height, len(by_method), figsize=(4 * len(by_method), 4.2 * height + 1.4), squeeze=False
    )
    reference = by_method["softcut (default)"]
    for column, (method, labels), row in zip(axes.T, by_method.items(), rows, strict=True):
        known = f", NMI {row['nmi']:.2f}" if row.get("nmi") is not None else ""
        shown = numbered_like(labels, reference)
        draw_partition(
            column[0], graph, shown, positions, f"{method}\ncut {row['normalised_cut']:.2f}{known}"
        )
        column[0].set_xlabel(positions_are, fontsize=8)
        if height > 1:
            draw_groups(column[1], graph, shown, "Cuts between clusters")
            draw_adjacency(column[2], graph, shown, "Matrix, sorted by cluster")
        marks = cluster_marks(graph, shown)
        column[-1].legend(
            handles=marks, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8, frameon=False
        )
    fig.suptitle(
        f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {rows[0]['k']} clusters"
    )
    save_figure(fig, path)


def numbered_like(labels: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Labels renumbered so that as many nodes as possible have the number they have in `reference`."""
    clusters, codes = np.unique(labels, return_inverse=True)
    others = np.unique(reference)
    rows, columns = linear_sum_assignment(contingency_matrix(codes, reference), maximize=True)
    new = np.full(len(clusters), -1)
    new[rows] = others[columns]
    spare = (i for i in range(2 * len(clusters) + int(others.max()) + 1) if i not in set(new.tolist()))
    for i in np.flatnonzero(new < 0):
        new[i] = next(spare)
    return new[codes]
