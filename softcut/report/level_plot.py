"""A picture of nested clusters: a row of bars per level, as wide as the clusters are large."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from softcut.colours import PALETTE, colour_of
from softcut.communities.tree import Tree
from softcut.report.plots import figure, save_figure

_THIN = 0.012  # share of the width below which a bar has no outline: outlines would hide many of them
_TEXT = 0.018  # and below which it has no number


def plot_levels(path: str | Path, tree: Tree, levels: np.ndarray, chosen: int, title: str = "Levels") -> Path:
    """Write :func:`levels_figure`."""
    return save_figure(levels_figure(tree, levels, chosen, title), path)


def levels_figure(tree: Tree, levels: np.ndarray, chosen: int, title: str = "Levels") -> Any:
    """Levels from coarse (above) to fine; a cluster stands below the one that holds it, its width is its size.

    Colours are those of the clusters of the `chosen` level, which pictures of the graph have, too; `levels` [L, N] are
    the labels of `tree`, -1 for nodes that are in none.
    """
    from matplotlib.ticker import MaxNLocator

    placed = levels[0] >= 0
    order = _order(tree, levels[:, placed])
    shown = levels[:, placed][:, order]
    nodes = shown.shape[1]
    fig, ax = figure(figsize=(10, 1.5 + 0.62 * len(levels)))
    names = []
    for depth, labels in enumerate(shown):
        starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
        # Below a coarse cluster several of the chosen level stand side by side: each has its colour.
        colours = shown[chosen]
        parts = np.flatnonzero(np.append(True, (labels[1:] != labels[:-1]) | (colours[1:] != colours[:-1])))
        _bars(ax, depth, parts, nodes, [colour_of(c) for c in colours[parts]], depth == chosen)
        _outlines(ax, depth, starts, labels, nodes)
        count = len(starts)
        said = f"level {depth}: {count:,} {'cluster' if count == 1 else 'clusters'}"
        names.append(f"{said} (chosen)" if depth == chosen else said)
    ax.set_yticks(range(len(levels)), names)
    for label in ax.get_yticklabels()[chosen : chosen + 1]:
        label.set_fontweight("bold")
    ax.set(xlim=(0, nodes), ylim=(len(levels) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.xaxis.set_major_formatter(lambda value, _: f"{int(value):,}")
    repeat = len(np.unique(shown[chosen])) > len(PALETTE)
    said = f"colours: clusters of level {chosen}" + (f", repeated after {len(PALETTE)}" if repeat else "")
    ax.set_xlabel(f"nodes; a bar is a cluster and stands below the one that holds it\n{said}")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    fig.suptitle(f"{title}: nested clusters", parse_math=False)
    return fig


def _order(tree: Tree, levels: np.ndarray) -> np.ndarray:
    """Nodes so that every cluster of every level is a range: the largest first, inside the one that holds it."""
    size = {(row["level"], row["id"]): row["size"] for row in tree.rows()}
    keys: list[np.ndarray] = []
    for depth, labels in enumerate(levels):
        table = np.zeros(int(labels.max(initial=0)) + 1)
        for c in np.unique(labels):
            table[c] = -size[depth, int(c)]
        keys += [table[labels], labels]  # by size, then by number
    return np.lexsort(keys[::-1])


def _bars(ax: Any, depth: int, starts: np.ndarray, nodes: int, colours: list[str], strong: bool) -> None:
    widths = np.diff(np.append(starts, nodes))
    spans = list(zip(starts.tolist(), widths.tolist(), strict=True))
    ax.broken_barh(spans, (depth - 0.4, 0.8), facecolors=colours, linewidths=0, alpha=1.0 if strong else 0.6)


def _outlines(ax: Any, depth: int, starts: np.ndarray, labels: np.ndarray, nodes: int) -> None:
    from matplotlib import patheffects

    outline = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for start, width in zip(starts.tolist(), np.diff(np.append(starts, nodes)).tolist(), strict=True):
        if width < _THIN * nodes:
            continue
        for edge in (start, start + width):
            ax.plot([edge, edge], [depth - 0.4, depth + 0.4], color="white", lw=1.6, solid_capstyle="butt")
        if width >= _TEXT * nodes:
            style = {"ha": "center", "va": "center", "fontsize": 9, "weight": "bold", "path_effects": outline}
            ax.text(start + width / 2, depth, str(labels[start]), **style)
