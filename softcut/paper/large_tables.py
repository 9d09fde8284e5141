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

__all__ = ["LARGE_TABLES", "large_fits"]

_FILES = ("large_cpu.json", "large_growth.json", "large_peers.json", "large_gpu.json")
# What a fit of a large graph left out, by the words of its notes.
_SWITCHES = {"fewer networks": "networks instead of", "consensus on a sample": "consensus found on"}
_NAMES = {"softcut": "default fit"}


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
            if "failed" in row or row["what"] == "other":  # another checkout
                continue
            peak = "peak GPU GiB" if "peak GPU GiB" in row else "peak GiB"
            size = [_NAMES.get(row["what"], row["what"]), f"{row['nodes']:,}", f"{row['edges']:,}"]
            cost = [_number(row, "seconds", 1), _number(row, "cpu seconds", 0), _number(row, peak, 1)]
            switches = [
                short for short, sign in _SWITCHES.items() if any(sign in t for t in row.get("notes", []))
            ]
            end = [_number(row, "nmi", 3), str(row.get("replicas", "")), ", ".join(switches)]
            rows.append([*size, found["device"], *cost, *end, found.get("commit", "-")])
    if not rows:
        raise NotMeasuredError(
            "results/ holds no fits of large graphs: python benchmarks/large.py --out results/large_cpu.json."
        )
    titles = ["what", "nodes", "edges", "device", "seconds", "of all cores", "peak GiB", "NMI", "networks"]
    titles += ["left out", "commit"]
    return markdown_table(titles, rows)


def growth(out: Path) -> str:
    """A training step of one replica on a CPU by the number of edges, and the exponents."""
    path = Path(out) / "growth_cpu.json"
    if not path.exists():
        raise NotMeasuredError("results/ holds no growth_cpu.json: python benchmarks/growth.py.")
    return growth_table(json.loads(path.read_text(encoding="utf-8"))["rows"])


LARGE_TABLES: dict[str, Callable[[Path], str]] = {
    "large_fits": large_fits,
    "growth_cpu": growth,
}
