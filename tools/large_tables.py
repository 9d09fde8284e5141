"""Tables of GPU kernels and of fits of large graphs, from what benchmarks/ wrote to results/.

Each function takes the folder of the results and returns Markdown; see :mod:`tools.tables`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.report.tables import markdown_table
from tools.results import NotMeasuredError, read_json

__all__ = ["LARGE_TABLES"]

_KERNELS, _LOSSES, _SMALL = "gpu_kernels", "gpu_losses", "gpu_kernels_small"
_FILES = ("large_cpu", "large_growth", "large_peers", "large_gpu")
# What a fit of a large graph left out, by the words of its notes.
_SWITCHES = {"fewer networks": "networks instead of", "consensus on a sample": "consensus found on"}
_NAMES = {"softcut": "default fit"}


def _read(out: Path, name: str) -> dict[str, Any]:
    command = "python benchmarks/gpu_kernels.py --out DIR measures it, in DIR/gpu_kernels.json."
    return read_json(out, name, command)


def _cases(found: dict[str, Any], section: str) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Graph, columns and precision of every measurement of a section, and what was measured."""
    for key, row in found.items():
        kind, *case = key.split(" | ")
        if kind == section:
            graph, nodes = case[0].rsplit(" ", 1)
            yield [f"{graph}, {int(nodes) / 1e6:g}M nodes", case[1].removeprefix("K="), case[2]], row


def _value(row: Mapping[str, Any], key: str, digits: int = 2) -> str:
    value = row.get(key)
    return "" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def products(out: Path) -> str:
    """The product alone, beside the gather limit and PyTorch's own."""
    rows = [
        [*case, *(_value(row, key) for key in ("ms", "share", "scaled ms", "bag ms", "cuSPARSE ms"))]
        for case, row in _cases(_read(out, _KERNELS), "product")
    ]
    titles = [
        "graph",
        "K",
        "precision",
        "ms",
        "share of the gather limit",
        "with D^-1/2, ms",
        "embedding bag, ms",
    ]
    return markdown_table([*titles, "cuSPARSE, ms"], rows)


def losses(out: Path) -> str:
    """The cut loss, forward and backward: from Python, replayed, beside PyTorch's operations and a peer's formula."""
    rows = []
    for case, row in _cases(_read(out, _LOSSES), "loss"):
        ours = [
            _value(row, "ms"),
            _value(row, "replayed ms"),
            _value(row, "extra", 3),
            _value(row, "torch ms"),
        ]
        peer = [_value(row, "peer ms", 0), _value(row, "peer GiB", 1)]
        rows.append([*case, *ours, *peer, f"{row['ratio']:.1f}x" if "ratio" in row else ""])
    titles = ["graph", "K", "precision", "called from Python, ms", "replayed, ms", "extra memory / 4NK bytes"]
    return markdown_table([*titles, "PyTorch's operations, ms", "peer, ms", "peer, GiB", "ratio"], rows)


def ragged(out: Path) -> str:
    """S'Y per graph of a batch, forward and backward."""
    rows = []
    for key, row in _read(out, _SMALL).items():
        if key.startswith("ragged"):
            graphs, size, k, f = key.split(" | ")[1].split()
            times = [f"{row['torch ms']:.2f}", f"{row['triton ms']:.2f}"]
            rows.append([f"{int(graphs):,}", f"{int(size):,}", k, f, *times])
    return markdown_table(["graphs", "nodes, about", "K", "columns of Y", "PyTorch, ms", "kernels, ms"], rows)


def growth(out: Path) -> str:
    """A training step of one replica by the number of edges, and the exponents."""
    return growth_table([row for key, row in _read(out, _KERNELS).items() if key.startswith("growth")])


def growth_table(rows: Sequence[Mapping[str, float]]) -> str:
    """Time and memory of a step by the number of edges, and the exponents of both.

    The exponent of the time is fitted where a step takes more than ten times that of the smallest graph.
    """
    lines = [
        [
            f"{row['edges']:,}",
            _value(row, "ms"),
            f"{row['extra bytes'] / 2**20:,.0f}",
            _value(row, "gather ms"),
        ]
        for row in rows
    ]
    slow = [row for row in rows if row["ms"] > 10 * rows[0]["ms"]]
    exponents = [f"{_slope(points, name):.3f}" for name, points in (
        ("ms", slow), ("extra bytes", rows[1:]), ("gather ms", slow))]  # fmt: skip
    lines.append(["exponent", *exponents])
    return markdown_table(["edges", "step, ms", "extra memory, MiB", "plain gather, ms"], lines)


def _slope(points: Sequence[Mapping[str, float]], name: str) -> float:
    x, y = (np.log([p[column] for p in points]) for column in ("edges", name))
    return float(np.polyfit(x, y, 1)[0])


def fits(out: Path) -> str:
    """Default fits with and without the kernels."""
    lines = []
    for key, row in _read(out, _LOSSES).items():
        if key.startswith("fit "):
            times = [", ".join(f"{s:.2f}" for s in row[f"{mode} s"]) for mode in ("torch", "auto")]
            lines.append(
                [key.removeprefix("fit "), *times, f"{min(row['auto s']) / min(row['torch s']):.2f}"]
            )
    return markdown_table(
        ["data set", "PyTorch only, s", "with kernels, s", "ratio of the faster ones"], lines
    )


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


def _number(row: Mapping[str, Any], key: str, digits: int) -> str:
    return f"{row[key]:,.{digits}f}" if key in row else ""


def large_fits(out: Path) -> str:
    """Every fit of the files that are there: time, memory and NMI."""
    rows = []
    for name in _FILES:
        if not (Path(out) / f"{name}.json").exists():
            continue
        found = read_json(out, name)
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


def growth_cpu(out: Path) -> str:
    """A training step of one replica on a CPU by the number of edges, and the exponents."""
    return growth_table(read_json(out, "growth_cpu", "python benchmarks/growth.py.")["rows"])


LARGE_TABLES: dict[str, Callable[[Path], str]] = {
    "gpu_products": products,
    "gpu_losses": losses,
    "gpu_ragged": ragged,
    "gpu_growth": growth,
    "gpu_fits": fits,
    "billion": billion,
    "large_fits": large_fits,
    "growth_cpu": growth_cpu,
}
