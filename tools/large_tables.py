"""The table of the largest graph, from what benchmarks/billion.py wrote to results/.

A function takes the folder of the results and returns Markdown; see :mod:`tools.tables`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from softcut.report.tables import markdown_table
from tools.results import read_json

__all__ = ["LARGE_TABLES"]


def billion(out: Path) -> str:
    """31 million nodes and 10^9 entries on one GPU."""
    runs = read_json(out, "billion", "python benchmarks/billion.py.")["runs"]
    names = {"full": "all nodes at every step", "batches": "a sixteenth of the nodes at every step"}
    lines = [
        [
            names[run["mode"]],
            f"{run['seconds']:.1f}",
            f"{run['phases']['training']:.1f}",
            f"{run['peak_reserved_gib']:.1f}",
            f"{run['nmi_of_start']:.3f}",
            f"{run['nmi']:.3f}",
        ]
        for run in runs
    ]
    titles = ["training", "seconds", "of these training", "peak GiB", "NMI before training", "NMI"]
    return markdown_table(titles, lines)


LARGE_TABLES: dict[str, Callable[[Path], str]] = {
    "billion": billion,
}
