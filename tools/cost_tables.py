"""Tables of time, memory and reconstruction in the pages, from ``results/``, and of what the tests notice.

Each function takes the folder of the results and returns Markdown. :mod:`tools.tables` knows which page shows
which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
_OPERATORS = ("mincut", "diffpool", "topk", "sagpool", "graclus", "ndp", "random", "nopool")
# Rows of the table of time and quality: the contender of benchmarks.json.
_CONTENDERS = {
    "softcut, default": "softcut, default",
    "softcut, 4 networks": "softcut, 4 replicas",
    "PyAGC, MinCut": "MinCut as published",
    "PyAGC, DMoN": "DMoN as published",
    "Louvain": "Louvain",
    "Leiden": "Leiden",
    "spectral clustering": "spectral clustering",
}
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


def benchmarks_short(out: Path) -> str:
    """The same in short: times faster, share of the memory."""
    found = _Benchmarks(out)
    rows = {
        "a training step on Cora, against PyTorch Geometric's `GraphConv` + `dense_mincut_pool`": (
            "step",
            _STEP,
        ),
        "a training step on Cora, against torch-geometric-pool's unbatched MinCut": ("step", _UNBATCHED),
        "cut loss and gradient, 1M nodes, 10M edges, against torch-geometric-pool": (
            "cut",
            "sparse_mincut_loss",
        ),
        "a default fit of Cora, against one run with torch-geometric-pool": ("fit", _ONE_RUN),
    }
    lines = []
    for title, key in rows.items():
        row = found.row(*key)
        lines.append([title, _times(row["time_ratio"]), _part(row["memory_ratio"])])
    return markdown_table(["", "times faster", "memory"], lines)


def time_and_quality(out: Path) -> str:
    """Seconds and NMI of peers on Cora and Photo."""
    found = _Benchmarks(out)
    lines = []
    for title, contender in _CONTENDERS.items():
        own = [found.row("quality", contender, dataset) for dataset in ("cora", "photo")]
        if title in ("Louvain", "Leiden"):  # the only two that choose the number
            title += f" ({own[0]['clusters']:.0f} and {own[1]['clusters']:.0f} clusters)"
        numbers = [text for row in own for text in (_seconds(row["seconds"]), f"{row['nmi']:.3f}")]
        lines.append([title, *numbers])
    titles = ["median over 3 runs (Cora), one run (Photo)"]
    titles += [f"{name}, {what}" for name in ("Cora", "Photo") for what in ("seconds", "NMI")]
    return markdown_table(titles, lines)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def growth(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    """The exponent of a cost in the number of nodes, fitted from 10^4 nodes on; None for fewer than two sizes."""
    large = [row for row in rows if row["nodes"] >= 10_000 and row.get(key)]
    if len(large) < 2:
        return None
    logs = np.log([[row["nodes"], row[key]] for row in large])
    return round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 12)


def pooling_speed(out: Path) -> str:
    """One forward and backward pass of every pooler."""
    rows = read_json(out, "pooling_speed")["rows"]
    sizes = sorted({row["nodes"] for row in rows})
    lines = []
    for name in _OPERATORS:
        by = {(row["library"], row["nodes"]): row for row in rows if row["operator"] == name}
        for library in ("softcut", "tgp"):
            mine = [by[library, n] for n in sizes if (library, n) in by]
            if not mine:
                continue
            line = [name, library]
            for n in sizes:
                row, base = by.get((library, n), {}), by.get(("softcut", n), {})
                text = f"{1e3 * row['step']:.1f} ms" if "step" in row else row.get("failed", "-")[:60]
                if library == "tgp" and "step" in row and "step" in base:
                    text += f" ({row['step'] / base['step']:.1f}x)"
                line.append(text)
            done = [row for row in mine if "step" in row]
            slope = growth(done, "step")
            line.append("-" if slope is None else f"{slope:.2f}")
            line += [f"{done[-1]['peak_gib']:.2f}", f"{done[-1]['once']:.2f} s"] if done else ["-", "-"]
            lines.append(line)
    titles = [*(f"{n:,}" for n in sizes), "growth", "peak GiB at largest", "once at largest"]
    return markdown_table(["operator", "library", *titles], lines)


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


def reconstruction_spread(out: Path) -> str:
    """The same with mean and standard deviation of the error, one row per pooler."""
    cells = _reconstructions(out)
    columns = ("ring", "ring, decay", "grid", "grid, decay")
    lines = []
    for method, title in TITLES.items():
        own = [cells[method, name] for name in columns]
        lines.append(
            [
                title,
                *(f"{percent(c['median_over_variance'])} ({c['mean']:.1e} ± {c['std']:.0e})" for c in own),
            ]
        )
    return markdown_table(["pooler", *columns], lines)


def _numbers_right(table: str) -> str:
    """The second line of a table with all columns but the first aligned to the right."""
    head, line, *rows = table.split("\n")
    columns = line.count("|") - 2
    return "\n".join([head, "|---|" + f"{_ALIGNED}|" * columns, *rows])


def mutants_by_hand(out: Path) -> str:
    """Changes made by hand, and how many the tests noticed."""
    rows = read_json(out, "mutants")["by_hand"]["rows"]
    lines = [[row["room"], str(row["changes"]), str(row["noticed"])] for row in rows]
    return _numbers_right(markdown_table(["room", "changes", "noticed"], lines))


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


def mutants_of(out: Path, seed: int) -> str:
    """The drawn changes of one seed, room by room."""
    rooms = next(s["rooms"] for s in read_json(out, "mutants")["seeds"] if s["seed"] == seed)
    keys = ("places", "run", "noticed_first", "noticed_now")
    total = {"room": "all", **{key: sum(room[key] for room in rooms) for key in keys}}
    lines = []
    for row in (*rooms, total):
        digits = 1 if row is total else 0
        run, first, now = row["run"], row["noticed_first"], row["noticed_now"]
        line = [row["room"], str(row["places"]), str(run), f"{first} ({_share(first, run, digits)})"]
        line += [str(now), str(run - now), _share(now, run, digits)]
        lines.append([*line, "" if row is total else f"{row['tests']} ({row['tests_left_out']})"])
    titles = ["room", "places", "run", "noticed, first try", "noticed now", "survived", "share now"]
    return _numbers_right(markdown_table([*titles, "tests (left out as slow)"], lines))


COST_TABLES: dict[str, Callable[[Path], str]] = {
    "benchmarks": benchmarks,
    "benchmarks-short": benchmarks_short,
    "time-and-quality": time_and_quality,
    "pooling-speed": pooling_speed,
    "pooling-memory": pooling_memory,
    "reconstruction": reconstruction,
    "reconstruction-spread": reconstruction_spread,
    "mutants-by-hand": mutants_by_hand,
    "mutants": mutants,
    "mutants-seed-0": lambda out: mutants_of(out, 0),
    "mutants-seed-1": lambda out: mutants_of(out, 1),
}
