"""The levels of nested clusters on a page: a picture, the tree as an indented table, every other level to open."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softcut.clustering import GraphClustering
from softcut.colours import colour_of
from softcut.communities.tree import Tree
from softcut.graph import Graph
from softcut.metrics.summary import Summary
from softcut.report.communities_file import level_summaries
from softcut.report.html_page import Details, Part, Picture, Text
from softcut.report.html_summary import summary_table
from softcut.report.level_plot import levels_figure
from softcut.report.tables import Cell, Table
from softcut.tables.arrays import plural
from softcut.tables.display_text import percent

_ROWS = 60  # of the table of nested clusters
_INDENT = "\N{EM SPACE}\N{EM SPACE}"
_DPI = 110


@dataclass(frozen=True)
class ShownLevels:
    """Nested levels of a fit, and a summary of each."""

    tree: Tree
    labels: np.ndarray  # [L, N]
    chosen: int
    summaries: Sequence[Summary]


def shown_levels(graph: Graph, estimator: GraphClustering, chosen: Summary) -> ShownLevels | None:
    """The levels of a fitted estimator; None where there is one only. `chosen` is the summary of the chosen one."""
    levels = estimator.levels_
    if estimator.tree_ is None or levels is None or len(levels.labels) < 2:
        return None
    return ShownLevels(
        estimator.tree_, levels.labels, levels.chosen, level_summaries(graph, estimator, chosen)
    )


def level_parts(levels: ShownLevels) -> list[Part]:
    """The section "Levels"."""
    ways = {-1: "Coarser levels join them, finer ones divide them.", 0: "Finer levels divide them."}
    ways[len(levels.labels) - 1] = "Coarser levels join them."
    said = f"The clusters above are those of level {levels.chosen}. {ways.get(levels.chosen, ways[-1])}"
    others = [
        Details(
            f"Level {level}: {plural(len(summary), 'cluster')}",
            [summary_table(summary)],
        )
        for level, summary in enumerate(levels.summaries)
        if level != levels.chosen
    ]
    return [Text(said), _picture(levels), _tree_table(levels), *others]


def _picture(levels: ShownLevels) -> Part:
    file = io.BytesIO()
    made = levels_figure(levels.tree, levels.labels, levels.chosen, "Levels")
    made.savefig(file, format="png", dpi=_DPI)
    text = base64.b64encode(file.getvalue()).decode()
    counts = ", ".join(str(len(summary)) for summary in levels.summaries)
    return Picture(f"data:image/png;base64,{text}", f"Bars of nested clusters: {counts} from coarse to fine.")


def _tree_table(levels: ShownLevels) -> Table:
    """Every cluster below the one that holds it, indented; the first 60."""
    typical = {
        (level, c.cluster): ", ".join(c.typical[:3])
        for level, summary in enumerate(levels.summaries)
        for c in summary.clusters
    }
    rows: list[list[str | Cell]] = []
    chains = list(_nested(levels.tree))
    for chain in chains[:_ROWS]:
        row = chain[0]
        swatch = next((colour_of(each["id"]) for each in chain if each["level"] == levels.chosen), "")
        name = _INDENT * row["level"] + " = ".join(f"{each['level']}.{each['id']}" for each in chain)
        inside = Cell(percent(row["inside"]))
        members = Cell(typical[row["level"], row["id"]], number=False)
        rows.append([Cell(name, number=False, swatch=swatch), Cell(f"{row['size']:,}"), inside, members])
    caption = (
        "Level and number of each cluster, below the one that holds it; = the same nodes at finer levels."
    )
    if len(chains) > len(rows):
        caption += f" The first {len(rows)} of {len(chains):,}."
    return Table(["cluster", "nodes", "edges inside", "typical"], rows, caption)


def _nested(tree: Tree) -> Iterator[list[dict[str, Any]]]:
    """The rows of a tree, each before those inside it; those of one set of nodes at several levels together."""
    below: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in tree.rows():
        below.setdefault((row["level"] - 1, row["parent"]), []).append(row)
    waiting = below.get((-1, -1), [])[::-1]
    while waiting:
        chain = [waiting.pop()]
        inside = below.get((chain[-1]["level"], chain[-1]["id"]), [])
        while len(inside) == 1:
            chain += inside
            inside = below.get((chain[-1]["level"], chain[-1]["id"]), [])
        yield chain
        waiting += inside[::-1]
