"""Tables of the default estimator on large graphs, from what ``benchmarks/large.py`` wrote.

Each function takes the folder of the results and returns Markdown; see :mod:`softcut.paper.tables`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softcut.paper.common import NotMeasuredError, markdown_table
from softcut.paper.gpu_tables import growth_table

__all__ = ["LARGE_TABLES", "large_fits", "recall"]

_FILES = ("large_cpu.json", "large_growth.json", "large_peers.json", "large_gpu.json")
# What the budget rule switched on, by the words of the fit's notes.
_SWITCHES = {
    "neighbours in cells": "approximate neighbours",
    "fewer replicas": "replicas instead of",
    "consensus on a sample": "consensus found on",
}
_NAMES = {"softcut": "default fit", "other": "default fit, before these steps"}


def _number(row: Mapping[str, Any], key: str, digits: int) -> str:
    return f"{row[key]:,.{digits}f}" if key in row else ""


def large_fits(out: Path) -> str:
    """Every fit of the files that are there: time, memory and NMI."""
    rows = []
    for path in (Path(out) / name for name in _FILES):
        if not path.exists():
            continue
        found = json.loads(path.read_text(encoding="utf-8"))
        for row in found["rows"]:
            if "failed" in row:
                continue
            peak = "peak GPU GiB" if "peak GPU GiB" in row else "peak GiB"
            size = [_NAMES.get(row["what"], row["what"]), f"{row['nodes']:,}", f"{row['edges']:,}"]
            cost = [_number(row, "seconds", 1), _number(row, "cpu seconds", 0), _number(row, peak, 1)]
            switches = [
                short for short, sign in _SWITCHES.items() if any(sign in t for t in row.get("notes", []))
            ]
            end = [_number(row, "nmi", 3), str(row.get("replicas", "")), ", ".join(switches)]
            rows.append([*size, found["device"], *cost, *end])
    if not rows:
        raise NotMeasuredError(
            "results/ holds no fits of large graphs: python benchmarks/large.py --out results/large_cpu.json."
        )
    titles = ["what", "nodes", "edges", "device", "seconds", "of all cores", "peak GiB", "NMI", "replicas"]
    titles.append("switches")
    return markdown_table(titles, rows)


def growth(out: Path) -> str:
    """A training step of one replica on a CPU by the number of edges, and the exponents."""
    path = Path(out) / "growth_cpu.json"
    if not path.exists():
        raise NotMeasuredError("results/ holds no growth_cpu.json: python benchmarks/growth.py.")
    return growth_table(json.loads(path.read_text(encoding="utf-8"))["rows"])


def recall(out: Path) -> str:
    """Share of the true neighbours that the search in cells finds."""
    found = json.loads((Path(out) / "large_recall.json").read_text(encoding="utf-8"))["recall"]
    rows = [[row["rows"], f"{row['candidates']:,}", f"{row['recall']:.3f}"] for row in found]
    return markdown_table(["rows", "candidates", "recall"], rows)


LARGE_TABLES: dict[str, Callable[[Path], str]] = {
    "large_fits": large_fits,
    "large_recall": recall,
    "growth_cpu": growth,
}
