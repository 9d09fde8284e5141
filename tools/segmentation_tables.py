"""Tables of the segmentation experiment in the pages, from ``results/``.

Each function takes the folder of the results and returns Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from softcut.paper.runs import read_cells
from softcut.paper.segmentation import METRICS, OURS, table
from softcut.report.tables import markdown_table, to_markdown
from tools.results import read_json

__all__ = ["SEGMENTATION_TABLES"]

_FILE = "segmentation.json"
_TITLES = {"covering": "covering", "rand_index": "Rand index", "variation": "variation of information"}


def _scores(results: Path) -> str:
    return to_markdown(table(read_cells(results / _FILE)))


def _tests(results: Path) -> str:
    """What minCUT gains on each method, and the p-values."""
    cells = read_cells(results / _FILE)
    found = {(c["method"], c["metric"]): c for c in cells}
    rows = []
    for method in dict.fromkeys(c["method"] for c in cells if c["method"] != OURS):
        shown = [_gain(found.get((method, f"{m}_{kind}"))) for m in METRICS for kind in ("ods", "ois")]
        rows.append([method, *shown])
    titles = [f"{_TITLES[m]}, {kind}" for m in METRICS for kind in ("ODS", "OIS")]
    return markdown_table(["minCUT against", *titles], rows)


def _gain(cell: Mapping[str, Any] | None) -> str:
    if cell is None or cell["gain"] is None:
        return "-"
    p = "p < .001" if cell["p"] < 0.001 else f"p = {cell['p']:.3f}".replace("0.", ".", 1)
    return f"{cell['gain']:+.3f}".replace("0.", ".", 1) + f" ({p})"


def _scales(results: Path) -> str:
    """The scale at which each method is best for all images, and its time per image at all of its scales."""
    rows = []
    cells = read_cells(results / _FILE)
    found = {(c["method"], c["metric"]): c for c in cells}
    for method in dict.fromkeys(c["method"] for c in cells):
        best = [f"{found[method, f'{m}_ods']['scale']:g}" for m in METRICS]
        cell = found[method, "covering_ods"]
        rows.append([method, *best, f"{cell['seconds'] / cell['n']:.1f}"])
    return markdown_table(["method", *_TITLES.values(), "seconds per image"], rows)


def _speed(results: Path) -> str:
    found = read_json(results, "segmentation_speed", "python benchmarks/segmentation.py.")
    names = {
        "over_segmentation": "over-segmentation (shared)",
        "mincut": "minCUT: region graph, texture, training",
        "cut_normalized": "scikit-image: `rag_mean_color`, `cut_normalized`",
    }
    rows = [
        [title, f"{found[name]['cpu_seconds']:.1f}", f"{found[name]['seconds']:.1f}"]
        for name, title in names.items()
    ]
    rows.append(["ratio of minCUT to `cut_normalized`", f"{found['ratio']:.2f}", ""])
    return markdown_table(["1 megapixel, 4 segments", "CPU seconds", "seconds"], rows)


SEGMENTATION_TABLES: dict[str, Callable[[Path], str]] = {
    "segmentation": _scores,
    "segmentation-tests": _tests,
    "segmentation-scales": _scales,
    "segmentation-speed": _speed,
}
