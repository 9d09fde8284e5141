"""The figure of the autoencoder experiment: original and reconstructions side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.graph import Graph
from softcut.report.plots import figure, save_figure

__all__ = ["draw_reconstructions", "percent"]


def percent(share: float) -> str:
    """Two digits that count, without an exponent above 10 %."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def draw_reconstructions(
    path: str | Path,
    graphs: Mapping[str, Graph],
    titles: Mapping[str, str],
    runs: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
) -> Path | None:
    """One row per graph, one column per pooler: of each, the run with the median MSE; None where nothing was run."""
    shown = [name for name in graphs if any(key.startswith(f"{name}/") for key in arrays)]
    methods = [method for method in titles if any(f"{name}/{method}" in arrays for name in shown)]
    if not shown:
        return None
    fig, axes = figure(
        len(shown), len(methods) + 1, figsize=(2.2 * (len(methods) + 1), 2.5 * len(shown)), squeeze=False
    )
    for line, name in zip(axes, shown, strict=True):
        graph = graphs[name]
        _draw(line[0], graph, np.asarray(graph.x), "original")
        for axis, method in zip(line[1:], methods, strict=True):
            own = [run for run in runs if (run["dataset"], run["method"]) == (name, method)]
            if not own or f"{name}/{method}" not in arrays:
                axis.set_axis_off()
                continue
            ranked = sorted(range(len(own)), key=lambda i: own[i]["mse"])
            middle = ranked[(len(ranked) - 1) // 2]
            share = percent(own[middle]["mse_over_variance"])
            title = f"{titles[method]}\nMSE {share} of variance"
            _draw(axis, graph, arrays[f"{name}/{method}"][middle], title)
    return save_figure(fig, path, dpi=150)


def _draw(axis: Any, graph: Graph, points: np.ndarray, title: str) -> None:
    """Nodes at `points`, coloured by where they belong, with the edges of the graph."""
    from matplotlib.collections import LineCollection

    original = np.asarray(graph.x)
    edges = graph.adjacency.tocoo()
    low, high = original.min() - 0.15, original.max() + 0.15
    axis.set(xticks=[], yticks=[], aspect="equal", xlim=(low, high), ylim=(low, high))
    axis.set_title(title, fontsize=8)
    lines = np.stack([points[edges.row], points[edges.col]], 1)
    axis.add_collection(LineCollection(list(lines), colors="0.75", linewidths=0.5, zorder=1))
    colour = (original - original.min(0)).sum(1)
    axis.scatter(points[:, 0], points[:, 1], s=5, c=colour, cmap="viridis", zorder=2)
