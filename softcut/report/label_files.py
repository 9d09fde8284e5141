"""Labels as a table that people open."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

__all__ = ["spreadsheet_text", "write_labels"]


def write_labels(
    path: str | Path, names: Sequence[str] | None, soft: np.ndarray, *, spreadsheet_safe: bool = False
) -> None:
    """Write ``node,cluster,probability``, one line per node; `names` None: nodes are named by their numbers."""
    labels = soft.argmax(1)
    probability = soft[np.arange(len(soft)), labels]
    shown = [str(i) for i in range(len(soft))] if names is None else names
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["node", "cluster", "probability"])
        nodes = map(spreadsheet_text, shown) if spreadsheet_safe else shown
        writer.writerows(zip(nodes, labels.tolist(), (f"{p:.6f}" for p in probability), strict=True))


def spreadsheet_text(name: str) -> str:
    """A name that spreadsheets show as it is: ``'`` is put before what they might take for a formula."""
    return "'" + name if name.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else name
