"""Draws docs/images/pooled_protein.png: a graph of PROTEINS and its pooled graphs, with two settings of MinCutPool.

    python docs/images/pooled_protein.py

Each network of table 2 is trained on the first fold for 40 epochs; the graph is one of its test graphs. Nodes have the
colour of their first cluster. A pooled node is as large as its column of S in sum, a line as dark as its weight beside
the heaviest; pooled nodes stand on a circle.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch

from softcut.colours import cluster_colours
from softcut.datasets import load_graphs
from softcut.graph.collection import folds
from softcut.learning.experiment import build_task, loop_settings
from softcut.nn import PoolOutput
from softcut.paper import table2
from softcut.paper.poolers import stated
from softcut.report.plots import figure, save_figure
from softcut.training import Loop

EPOCHS, NODES = 40, 40
SHOWN = {
    "weights 1, as in the paper": {},
    'ortho_weight="auto", standardise=True': {
        "ortho_weight": "auto",
        "standardise": True,
        "temperature": 0.3,
    },
}


def trained(options: dict[str, Any]) -> tuple[np.ndarray, tuple[PoolOutput, ...]]:
    """The adjacency of a test graph and what the trained network makes of it."""
    graphs = load_graphs("PROTEINS")
    split = folds(graphs)[0]
    settings = replace(table2.SETTINGS, epochs=EPOCHS, pool_args=stated("mincut", options))
    task = build_task(graphs, "mincut", [split], [0], settings)
    Loop(task, loop_settings([split], settings)).run()
    number = int(split.test[np.abs(graphs.sizes[split.test] - NODES).argmin()])
    with torch.no_grad():
        (batch,) = task.gather(task.plan(np.array([[[number]]])), full=True)
        out, _ = task.forward(batch)
    return graphs[[number]].adjacency().toarray(), out.pooled


def draw(
    axis: Any, places: np.ndarray, weight: np.ndarray, size: np.ndarray, colours: Any, title: str
) -> None:
    """Nodes and lines."""
    for i, j in zip(*np.nonzero(np.triu(weight, 1)), strict=True):
        share = float(weight[i, j] / weight.max())
        axis.plot(*places[[i, j]].T, color="black", alpha=0.8 * share, lw=0.8, zorder=1)
    axis.scatter(*places.T, s=size, c=colours, edgecolors="black", lw=0.4, zorder=2)
    axis.set_title(title, fontsize=9)
    axis.set_aspect("equal")
    axis.margins(0.1)
    axis.axis("off")


def main() -> None:
    torch.set_num_threads(1)
    fig, axes = figure(2, 3, figsize=(9.5, 6.6))
    for row, (name, options) in zip(axes, SHOWN.items(), strict=True):
        adjacency, pooled = trained(options)
        n = len(adjacency)
        assignments = [pooled[0].s[:n], pooled[1].s[0]]
        spring = nx.kamada_kawai_layout(nx.from_numpy_array(adjacency))
        first = assignments[0].argmax(1).numpy()
        colours = np.array(cluster_colours(assignments[0].shape[1]))
        title = f"{name}\n{n} nodes, {len(np.unique(first))} clusters used"
        draw(
            row[0], np.array([spring[i] for i in range(n)]), adjacency, np.full(n, 45), colours[first], title
        )
        for axis, s, out in zip(row[1:], assignments, pooled, strict=True):
            k = s.shape[1]
            angle = 2 * np.pi * np.arange(k) / k
            circle = np.column_stack([np.cos(angle), np.sin(angle)])
            weight = out.adj.to_dense()[0].numpy()
            size = (s.sum(0) / s.sum()).numpy()
            title = f"pooled to {k}: L_o {out.raw_losses['ortho'][0]:.2f}, L_c {out.raw_losses['cut'][0]:.2f}"
            draw(axis, circle, weight, 20 + 80 * k * size, np.array(cluster_colours(k)), title)
    fig.suptitle("A graph of PROTEINS, coloured by first cluster, and its pooled graphs", fontsize=11)
    save_figure(fig, Path(__file__).with_name("pooled_protein.png"))


if __name__ == "__main__":
    main()
