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
from softcut.report.html_clustering import assignment_view, cluster_view, graph_view
from softcut.report.html_page import Part, Section, picture_of
from softcut.report.plots import (
    FEW_NODES,
    cluster_marks,
    draw_adjacency,
    draw_groups,
    draw_partition,
    figure,
    node_positions,
    save_figure,
)
from softcut.report.tables import Cell, Table

SCORES_MEAN = (
    "NMI: agreement with the known communities, from 0 to 1; the grid has none. cut: edges between clusters by the "
    "normalised cut, from 0 to the number of clusters, less is better. modularity: more is better."
)

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
# From a graph, the number of clusters and a seed to labels [N] or soft assignments [N, K].
METHODS: dict[str, Callable[[Graph, int, int], np.ndarray]] = {
    "spectral clustering": BASELINES["sc"],
    "k-means, propagated": BASELINES["kmeans_propagated"],
    "minCUT, one run": lambda g, k, seed: GraphClustering(k, random_state=seed, recipe=_ONE).fit_predict(g),
    "softcut (default)": lambda g, k, seed: GraphClustering(k, random_state=seed).fit_transform(g),
}


def demo_graphs() -> list[tuple[Graph, int]]:
    """The two synthetic graphs of the paper, and a generated one with features and known communities."""
    attributed = attributed_communities(3000, 8, edge_signal=0.5, feature_signal=0.25, seed=0)
    graphs = [(community_graph(), 6), (grid_graph(15, 10), 5), (attributed, 8)]
    for (graph, _), name in zip(graphs, ("communities", "grid", "attributed"), strict=True):
        object.__setattr__(graph, "name", name)
    return graphs


def run_demo(
    out: Path, seed: int = 0, tell: Callable[[str], None] = lambda text: None
) -> tuple[list[dict[str, Any]], list[Section]]:
    """Cluster the demo graphs with every method; writes ``results.json`` and one picture per graph.

    Returns the scores, and a section of a page for each graph.
    """
    rows: list[dict[str, Any]] = []
    sections = []
    for graph, k in demo_graphs():
        labels = {}
        for method, cluster in METHODS.items():
            tell(f"{graph.name}: {method}")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = cluster(graph, k, seed)
            seconds = time.perf_counter() - start
            labels[method] = made if made.ndim == 1 else made.argmax(1)
            scores = evaluate(graph, labels[method], graph.y if graph.name != "grid" else None, k)
            rows.append({"graph": graph.name, "k": k, "method": method, "seconds": seconds, **scores})
        own = rows[-len(METHODS) :]
        picture = out / f"{graph.name}.png"
        draw_methods(picture, graph, labels, own)
        asked = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {k} clusters asked for."
        parts: list[Part] = [
            demo_table(own, asked),
            graph_view(graph, made, str(graph.name), "The default clustering."),
            cluster_view(
                graph, labels[method], "Areas are sizes; widths are the weights of the edges between."
            ),
            assignment_view(graph, made, "Probability of every cluster (rows) for every node (columns)."),
            picture_of(picture, f"{graph.name} by every method", "Every method; equal colours match."),
        ]
        sections.append(Section(str(graph.name).capitalize(), parts))
    atomic_json(out / "results.json", rows)
    return rows, sections


def demo_table(rows: list[dict[str, Any]], caption: str = "softcut demo") -> Table:
    """The scores of all methods."""
    shown = {"nmi": "NMI", "normalised_cut": "cut", "modularity": "modularity"}
    lines = [
        [
            row["graph"],
            row["method"],
            *(Cell("-" if row.get(key) is None else f"{row[key]:.3f}") for key in shown),
            Cell(f"{row['clusters_used']} of {row['k']}"),
            Cell(f"{row['seconds']:.1f}"),
        ]
        for row in rows
    ]
    columns = ["graph", "method", *shown.values(), "clusters used", "seconds"]
    return Table(columns, lines, caption, heads=2, notes=[SCORES_MEAN])


def draw_methods(
    path: Path, graph: Graph, by_method: dict[str, np.ndarray], rows: list[dict[str, Any]]
) -> None:
    """One column per method; clusters that match have the same colour in all of them."""
    positions, positions_are = node_positions(graph)
    # Where edges cannot be drawn, the cuts between clusters and the sorted matrix show them.
    height = 1 if graph.num_nodes <= FEW_NODES else 3
    size = (4 * len(by_method), 4.2 * height + 1.4)
    fig, axes = figure(height, len(by_method), figsize=size, squeeze=False)
    reference = by_method["softcut (default)"]
    for column, (method, labels), row in zip(axes.T, by_method.items(), rows, strict=True):
        known = f", NMI {row['nmi']:.2f}" if row.get("nmi") is not None else ""
        shown = numbered_like(labels, reference)
        title = f"{method}\ncut {row['normalised_cut']:.2f}{known}"
        draw_partition(column[0], graph, shown, positions, title)
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
    unmatched = np.flatnonzero(new < 0)
    spare = np.setdiff1d(np.arange(len(unmatched) + len(others) + int(others.max())), new)
    new[unmatched] = spare[: len(unmatched)]
    return new[codes]
