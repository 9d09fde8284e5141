"""Table 3 as text: measured beside published, and which methods are not significantly worse than the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from softcut.paper.common import markdown_table
from softcut.paper.table3 import METHODS, PROPERTIES
from softcut.training.runs import read_cells

__all__ = ["render"]


def render(
    out: str | Path,
    properties: Sequence[str] = PROPERTIES,
    methods: Sequence[str] = METHODS,
    table: str = "table3",
) -> str:
    """The table in Markdown: test MSE at the best validation epoch, at the last epoch, and the paper's.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     render(folder)
    'no results yet'
    """
    found = read_cells(Path(out) / f"{table}.json")
    cells = {(cell["dataset"], cell["method"], cell["metric"]): cell for cell in found}
    rows = []
    names = [m for m in dict.fromkeys(cell["method"] for cell in found) if m.split(" (")[0] in methods]
    for name in properties:
        for method in sorted(names, key=lambda m: (METHODS.index(m.split(" (")[0]), m)):
            cell, last = (cells.get((name, method, metric)) for metric in ("mse", "mse_last"))
            if cell is not None and last is not None:
                rows.append([name, method, *_numbers(cell, last)])
    if not rows:
        return "no results yet"
    columns = ["property", "method", "test MSE", "at the last epoch", "folds", "paper", "seconds"]
    return markdown_table(columns, rows)


def _numbers(cell: Mapping[str, Any], last: Mapping[str, Any]) -> list[str]:
    paper = "-" if cell["paper_mean"] is None else f"{cell['paper_mean']:.3f} ± {cell['paper_std']:.3f}"
    measured = [f"{c['mean']:.3f} ± {c['std']:.3f}" for c in (cell, last)]
    return [*measured, str(cell["n"]), paper, f"{cell['seconds']:.1f}"]
