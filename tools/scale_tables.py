"""Tables of large graphs in the pages: mini-batches, and distributed training, measured and by its cost model.

Each function takes the folder of the results and returns Markdown. :mod:`tools.tables` knows which page shows
which.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from softcut.report.tables import markdown_table
from tools.clustering_tables import TITLES, plus_minus
from tools.results import read_json

__all__ = ["SCALE_TABLES"]

_GRAPHS = {"cora": "Cora", "made": "generated, 20,000 nodes"}
_DEFAULT = ("default", "nmi")  # method and metric of the default in quality.json


def distributed_quality(out: Path) -> str:
    """NMI of training on parts, beside the default of the whole graph."""
    found = read_json(out, "distributed")["quality"]
    lines = [
        [title, *(plus_minus(row[key], row[f"{key} std"]) for row in found)]
        for title, key in (("`GraphClustering`", "whole"), ("on one part", "parts"))
    ]
    lines.append(["nodes labelled alike", *(f"{100 * row['alike']:.1f} %" for row in found)])
    return markdown_table(["", *(TITLES.get(row["graph"], row["graph"]) for row in found)], lines)


SCALE_TABLES: dict[str, Callable[[Path], str]] = {
    "distributed-quality": distributed_quality,
}
