"""E1: a graph of six communities and a regular grid, clustered by SC, DiffPool and MinCutPool.

A is binary, X the coordinates. Each network is trained from ten seeds at once; the picture shows the one
with the lowest loss, the scores are over all ten.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.baselines import diffpool_replicas, spectral
from softcut.datasets import community_graph, grid_graph
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import evaluate
from softcut.paper import commands
from softcut.paper.citation import paper_replicas
from softcut.paper.runs import Tell, quiet
from softcut.provenance import origin
from softcut.report.plots import draw_partition, figure, save_figure
from softcut.report.tables import Cell, Table, mean_and_deviation
from softcut.training import replica_seeds

_TITLES = {"sc": "Spectral clustering", "diffpool": "DiffPool", "mincut": "MinCutPool"}
_ITERATIONS = 5000
_SCORES = ("nmi", "accuracy", "normalised_cut", "modularity", "balance", "clusters_used")


def run(
    out: str | Path,
    runs: int = 10,
    device: torch.device | str = "cpu",
    tell: Tell = quiet,
    max_iter: int = _ITERATIONS,
) -> list[dict[str, Any]]:
    """Six panels and their scores: ``synthetic.png`` and ``synthetic.json``."""
    out = Path(out)
    files = file_name(max_iter)
    graphs = {"community": (community_graph(), 6), "grid": (grid_graph(15, 10), 5)}
    fig, axes = figure(2, 3, figsize=(12, 8))
    rows: list[dict[str, Any]] = []
    for line, (name, (graph, k)) in zip(axes, graphs.items(), strict=True):
        for ax, (method, title) in zip(line, _TITLES.items(), strict=True):
            tell(f"{name}: {title}")
            start = time.perf_counter()
            labels, best = _cluster(method, graph, k, runs, device, max_iter)
            seconds = time.perf_counter() - start
            truth = graph.y if name == "community" else None
            scores = [evaluate(graph.adjacency, each, truth, k) for each in labels]
            row: dict[str, Any] = {"dataset": name, "method": method, "n": len(labels)}
            row["seconds"] = round(seconds, 2)
            for key in _SCORES if truth is not None else _SCORES[2:]:  # the first two need classes
                values = np.array([s[key] for s in scores])
                row |= {key: round(float(values.mean()), 4), f"{key}_std": round(float(values.std()), 4)}
            rows.append(row)
            shown = f"cut {scores[best]['normalised_cut']:.2f}, balance {scores[best]['balance']:.3f}"
            positions = np.asarray(graph.x, dtype=float)
            draw_partition(ax, graph, labels[best], positions, f"{title}\n{shown}")
            ax.set_xlabel("coordinates")
    fig.suptitle("Clustering by connection: 6 communities, and a 15 x 10 grid in 5")
    save_figure(fig, out / f"{files}.png")
    told = origin(device)
    atomic_json(out / f"{files}.json", [{**row, **told} for row in rows])
    return rows


def file_name(max_iter: int) -> str:
    """The name of both files, without an ending: a trial with fewer iterations has its own."""
    return "synthetic" if max_iter == _ITERATIONS else f"synthetic_{max_iter}_iterations"


def _cluster(
    method: str, graph: Graph, k: int, runs: int, device: torch.device | str, max_iter: int
) -> tuple[list[np.ndarray], int]:
    """Labels of every seed, and the seed with the lowest loss."""
    seeds = replica_seeds(0, runs)
    if method == "sc":
        return [spectral(graph, k, random_state=seed) for seed in range(runs)], 0
    # Coordinates in the unit square; a step size that suits 150 nodes instead of the citation networks'.
    x = np.asarray(graph.x, dtype=np.float32)
    x = (x - x.min(0)) / (x.max(0) - x.min(0)).max()
    options: dict[str, Any] = {"x": x, "max_iter": max_iter, "learning_rate": 5e-3, "device": device}
    trained = paper_replicas if method == "mincut" else diffpool_replicas
    s, _, result = trained(graph, k, seeds, **options)
    return list(s.argmax(-1).mT.cpu().numpy()), int((result.cut[-1] + result.ortho[-1]).argmin())


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The scores of every graph and method, mean and standard deviation over the seeds."""
    lines: list[list[str | Cell]] = []
    for row in rows:
        numbers = (Cell(mean_and_deviation(row.get(key), row.get(f"{key}_std"))) for key in _SCORES)
        lines.append([row["dataset"], _TITLES[row["method"]], *numbers])
    caption = f"Synthetic graphs, mean and standard deviation over {max(row['n'] for row in rows)} seeds"
    return Table(["graph", "method", *(key.replace("_", " ") for key in _SCORES)], lines, caption, heads=2)


@commands.command("softcut.paper.synthetic", commands.runs(10), commands.MAX_ITER)
def main(given: Any, screen: commands.Screen) -> None:
    """E1: communities and a grid, clustered by three methods; a picture and scores."""
    max_iter = given.max_iter or _ITERATIONS
    with screen.working() as bar:
        rows = run(given.out, given.runs, given.device, bar.tell, max_iter)
    screen.show(table(rows), f"Picture: {Path(given.out) / file_name(max_iter)}.png")


if __name__ == "__main__":
    main()
