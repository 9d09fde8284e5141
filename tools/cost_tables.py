"""Tables of time, memory and reconstruction in the pages, from ``results/``, and of what the tests notice.

Each function takes the folder of the results and returns Markdown. :mod:`tools.tables` knows which page shows
which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softcut.paper.autoencoder import TITLES, percent
from softcut.paper.runs import read_cells
from softcut.report.tables import markdown_table
from tools.results import read_json

__all__ = ["COST_TABLES"]

_STEP = "GraphConv + dense_mincut_pool"
_UNBATCHED = "GraphConv + unbatched MinCut"
_ONE_RUN = "one run, unbatched MinCut"
_ALIGNED = "---:"


class _Benchmarks:
    """``benchmarks.json``: rows by kind and contender, and what was asked for."""

    def __init__(self, out: Path) -> None:
        self.found = read_json(out, "benchmarks")["benchmarks"]

    def row(self, kind: str, contender: str, dataset: str | None = None) -> Mapping[str, Any]:
        for benchmark in self.found:
            if benchmark["kind"] == kind and benchmark["options"].get("dataset") == dataset:
                return next(row for row in benchmark["rows"] if row["contender"] == contender)
        raise KeyError(f"{kind}, {contender}")

    def check(self, kind: str, begins: str) -> Mapping[str, Any]:
        checks = [c for b in self.found if b["kind"] == kind for c in b["checks"]]
        return next(c for c in checks if c["what"].startswith(begins))


def _times(value: float) -> str:
    """A ratio with two digits."""
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"


def _part(value: float) -> str:
    """A share: 1/14, 1/1.6."""
    return f"1/{value:.1f}" if value < 2 else f"1/{value:.0f}"


def _tiny(value: float) -> str:
    """One digit and an exponent."""
    digits, _, exponent = f"{value:.0e}".partition("e")
    return f"{digits}e{int(exponent)}"


def benchmarks(out: Path) -> str:
    """Speed and memory against peers, with the range over rounds and what was asked for."""
    found = _Benchmarks(out)

    def faster(title: str, kind: str, contender: str, target: str = "", memory: bool = True) -> list[str]:
        row = found.row(kind, contender)
        less = f", {_part(row['memory_ratio'])} of the memory" if memory else ""
        low, high = row["time_ratio_range"]
        spread = f"{_times(low)}-{_times(high)}"
        asked = found.check(kind, target)["target"] if target else ""
        return [title, f"{_times(row['time_ratio'])}x faster{less}", spread, asked]

    ten = found.row("step", "softcut, 10 replicas")
    extra = found.check("cut", "cut loss, peak extra memory")
    ours, theirs = (found.check("cut", f"error of the cut loss by {n}") for n in ("softcut", "sparse_mincut"))
    fit = found.row("fit", _ONE_RUN)
    rows = [
        faster(
            "a step against `GraphConv` + `dense_mincut_pool`",
            "step",
            _STEP,
            "a step against GraphConv + dense",
        ),
        faster(
            "a step against the same with a sparse tensor", "step", "the same, sparse tensor", memory=False
        ),
        faster(
            "a step against `GraphConv` + unbatched MinCut",
            "step",
            _UNBATCHED,
            "a step against GraphConv + unbatched",
        ),
        [
            "ten replicas against one",
            f"{ten['time_ratio']:.1f}x the time",
            "-".join(f"{value:.1f}" for value in ten["time_ratio_range"]),
            found.check("step", "ten replicas")["target"],
        ],
        faster("cut loss against `sparse_mincut_loss`", "cut", "sparse_mincut_loss", "cut loss against"),
        ["peak extra memory of the cut loss", f"{extra['measured']:.1f} N K floats", "", extra["target"]],
        [
            "error of the cut loss in float32",
            f"{_tiny(ours['measured'])} (the peer's: {_tiny(theirs['measured'])})",
            "",
            ours["target"],
        ],
        [
            "default fit of Cora against one run of one network",
            f"{1 / fit['time_ratio']:.2f}x its time",
            "-".join(f"{1 / value:.2f}" for value in reversed(fit["time_ratio_range"])),
            found.check("fit", "default fit")["target"],
        ],
        faster("64 graphs against `dense_mincut_pool`", "layer", "dense_mincut_pool"),
    ]
    return markdown_table(["what", "measured", "range over rounds", "target"], rows)


def pooling_memory(out: Path) -> str:
    """A batch of 64 graphs on a CPU and on a GPU."""
    names = {"softcut": "{}", "pyg-dense": "dense_{}_pool"}
    by: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for device, file in (("cpu", "pooling_memory"), ("gpu", "pooling_memory_gpu")):
        rows = read_json(out, file)["rows"]
        by |= {(r["library"], r["operator"], device): r for r in rows if r["graphs"] == 64}
    lines = []
    for library, operator in dict.fromkeys(key[:2] for key in by):
        cpu, gpu = by[library, operator, "cpu"], by[library, operator, "gpu"]
        large = 1 if gpu["peak_gib"] >= 10 else 2
        seconds = 2 if gpu["seconds"] >= 0.1 else 3
        name = names[library].format(operator.replace("pool", "") if library == "pyg-dense" else operator)
        memory = (
            f"{cpu['peak_gib']:.2f} GiB"
            if "peak_gib" in cpu
            else f"about {cpu['estimated_gib']:.0f} GiB, extrapolated"
        )
        lines.append(
            [
                f"`{name}`",
                "softcut" if library == "softcut" else "PyTorch Geometric",
                memory,
                f"{gpu['peak_gib']:.{large}f} GiB",
                f"{gpu['seconds']:.{seconds}f} s",
            ]
        )
    titles = ["CPU, peak memory of the step", "H200, peak memory of the step", "H200, a step"]
    return markdown_table(["operator", "library", *titles], lines)


def _reconstructions(out: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Cells of the autoencoder by pooler and column ("ring", "ring, decay", ...)."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for file, ending in (("autoencoder", ""), ("autoencoder_decay", ", decay")):
        for cell in read_cells(out / f"{file}.json"):
            found[cell["method"], cell["dataset"] + ending] = cell
    return found


def reconstruction(out: Path) -> str:
    """Median error of the autoencoder as a share of the variance, one column per pooler."""
    cells = _reconstructions(out)
    lines = [
        [name, *(percent(cells[method, name]["median_over_variance"]) for method in TITLES)]
        for name in ("ring", "grid", "ring, decay", "grid, decay")
    ]
    return markdown_table(["", *TITLES.values()], lines)


def _numbers_right(table: str) -> str:
    """The second line of a table with all columns but the first aligned to the right."""
    head, line, *rows = table.split("\n")
    columns = line.count("|") - 2
    return "\n".join([head, "|---|" + f"{_ALIGNED}|" * columns, *rows])


def mutants(out: Path) -> str:
    """Drawn changes that were noticed, before and after tests were added."""
    lines, sums = [], np.zeros(3, dtype=int)
    for seed in read_json(out, "mutants")["seeds"]:
        found = np.array([[r["run"], r["noticed_first"], r["noticed_now"]] for r in seed["rooms"]]).sum(0)
        sums += found
        lines.append([str(seed["seed"]), *_shares(found)])
    lines.append(["all", *_shares(sums)])
    return _numbers_right(markdown_table(["seed", "first try", "now"], lines))


def _share(count: int, of: int, digits: int = 1) -> str:
    return f"{100 * count / of:.{digits}f} %"


def _shares(found: np.ndarray) -> list[str]:
    return [f"{noticed} of {found[0]} ({_share(noticed, found[0])})" for noticed in found[1:]]


COST_TABLES: dict[str, Callable[[Path], str]] = {
    "benchmarks": benchmarks,
    "pooling-memory": pooling_memory,
    "reconstruction": reconstruction,
    "mutants": mutants,
}
