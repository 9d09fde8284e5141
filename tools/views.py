"""Two clusterings to look at in the report: a generated graph of communities, and Cora.

``python -m tools.views --out results`` writes ``views.json``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from softcut.clustering import GraphClustering
from softcut.datasets import community_graph, load
from softcut.files import atomic_write
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.paper import commands
from softcut.paper.report_sections import VIEWS
from softcut.paper.runs import check_names
from softcut.provenance import origin
from softcut.report.html_clustering import assignment_view, cluster_view, evidence_view, graph_view, loss_view

GRAPHS: dict[str, tuple[str, Callable[[], Graph], int]] = {
    "communities": ("Communities, a generated graph", community_graph, 6),
    "cora": ("Cora, papers that cite each other", lambda: load("cora"), 7),
}
_SCORES = ("clusters_used", "nmi", "normalised_cut", "conductance", "modularity", "balance", "evidence")


def run(
    out: str | Path,
    names: Sequence[str] = tuple(GRAPHS),
    n_init: int | None = None,
    device: Any = "cpu",
) -> Path:
    """Cluster the graphs with the default settings and keep what the views show."""
    check_names(names, tuple(GRAPHS), "names")
    rows = []
    for name in names:
        title, make, k = GRAPHS[name]
        graph = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est = GraphClustering(k, n_init=n_init, random_state=0, device=str(device)).fit(graph)
        views = [
            graph_view(graph, est.soft_, title, "Each cluster has a colour and, in its middle, its number."),
            cluster_view(
                graph,
                est.labels_,
                "The graph of clusters: areas are sizes, widths are the weights of the cuts.",
            ),
            assignment_view(
                graph, est.soft_, "S: nodes from left to right, by cluster, the most certain first."
            ),
            loss_view(est.history_, est.replicas_, "Losses, mean over the networks."),
            evidence_view(est.replicas_, "Evidence of each distance: a mark is a network, a bar the mean."),
        ]
        scores = evaluate(graph, est.labels_)
        rows.append(
            {
                "dataset": name,
                "title": title,
                "nodes": graph.num_nodes,
                "edges": graph.num_edges,
                "scores": {key: scores[key] for key in _SCORES},
                "seconds": round(est.fit_seconds_, 1),
                **origin(device),
                "views": [{"view": v.view, "caption": v.caption, "data": v.data} for v in views],
            }
        )
    text = json.dumps(rows, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return atomic_write(Path(out) / VIEWS, (text + "\n").encode())


@commands.command("tools.views", commands.choices("--dataset", tuple(GRAPHS)))
def main(given: Any, screen: commands.Screen) -> None:
    """Clusterings to look at in the report."""
    screen.show(str(run(given.out, given.dataset or tuple(GRAPHS), device=given.device)))


if __name__ == "__main__":
    main()
