"""Tables of the segmentation experiment in the pages, from ``results/``.

Each function takes the folder of the results and returns Markdown.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from softcut.paper.runs import read_cells
from softcut.paper.segmentation import table
from softcut.report.tables import to_markdown

__all__ = ["SEGMENTATION_TABLES"]

_FILE = "segmentation.json"


def _scores(results: Path) -> str:
    return to_markdown(table(read_cells(results / _FILE)))


SEGMENTATION_TABLES: dict[str, Callable[[Path], str]] = {
    "segmentation": _scores,
}
