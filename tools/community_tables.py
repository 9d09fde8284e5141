"""Tables of docs/unknown-numbers.md: unknown numbers of clusters, verdicts, time, graphs that change.

Each function takes the folder of the results and returns Markdown; a number that is not there is "-".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.report.tables import markdown_table
from tools.clustering_tables import TITLES, short
from tools.results import read_json

Row = Mapping[str, Any]
_COMMAND = "run python benchmarks/{}.py"
_VERDICTS = ("none", "weak", "clear")
_WAYS = ("start", "without", "leiden")
BEHIND = 0.05  # AMI from which a graph counts as behind Leiden
# Columns of AMI: the part of a row, and what of it.
_AMI = {
    "Leiden": ("leiden", "score"),
    "edges": ("by_edges", "score"),
    "best level": ("by_edges", "best"),
    "edges, before": ("before_edges", "score"),
    "both": ("both", "score"),
    "its best level": ("both", "best"),
    "both, before": ("before_both", "score"),
}


def title(name: str) -> str:
    """A name as readers know it."""
    return TITLES.get(name, name.replace("_", " "))


def told(verdicts: Sequence[str]) -> str:
    """How often each verdict was given."""
    return ", ".join(f"{verdicts.count(v)} {v}" for v in _VERDICTS if v in verdicts)


def _value(row: Row, column: str) -> float | None:
    part, key = _AMI[column]
    return (row.get(part) or {}).get(key)


def _mean(rows: Iterable[Row], column: str) -> float | None:
    found = [each for row in rows if (each := _value(row, column)) is not None]
    return float(np.mean(found)) if found else None


def unknown_numbers(out: Path) -> str:
    """AMI on every graph where no number is given, and means."""
    rows = read_json(out, "unknown_numbers", _COMMAND.format("unknown_numbers"))["rows"]
    lines = []
    for row in rows:
        parts = [row["leiden"], row["by_edges"], *([row["both"]] if row["both"] else [])]
        numbers = " / ".join(f"{part['clusters']:.0f}" for part in parts)
        verdicts = " / ".join(part["verdict"] for part in parts[1:])
        scores = [short(_value(row, name)) for name in _AMI]
        lines.append([title(row["graph"]), str(row["labels"]), *scores, numbers, verdicts])
    groups = {
        "mean": rows,
        "mean, no features": [row for row in rows if row["both"] is None],
        "mean, with features": [row for row in rows if row["both"] is not None],
    }
    for name, group in groups.items():
        lines.append([name, "", *(short(_mean(group, column)) for column in _AMI), "", ""])
    return markdown_table(["AMI", "labels", *_AMI, "clusters", "verdict"], lines)


def unknown_numbers_said(out: Path) -> str:
    """Where softcut is behind, in a sentence."""
    rows = read_json(out, "unknown_numbers", _COMMAND.format("unknown_numbers"))["rows"]

    def behind(column: str) -> str:
        pairs = [(row["graph"], _value(row, column), row["leiden"]["score"]) for row in rows]
        names = [
            f"{title(name)} ({short(ours)} beside {short(theirs)})"
            for name, ours, theirs in pairs
            if ours is not None and ours + BEHIND < theirs
        ]
        return ", ".join(names) or "none"

    return (
        f"More than {short(BEHIND, 2)} behind Leiden, by edges alone: {behind('edges')}; with features: "
        f"{behind('both')}. With the level that fits best: {behind('best level')}, and {behind('its best level')}."
    )


def unknown_numbers_test(out: Path) -> str:
    """NMI and verdicts on the test families that were drawn last."""
    command = _COMMAND.format("unknown_numbers") + " --test"
    digests = read_json(out, "unknown_numbers_test", command)["digests"]
    groups: dict[str, list[Row]] = {}
    for row in list(digests.values())[-1]["rows"]:
        name = f"LFR, mixing {short(row['strength'], 1)}" if row["family"] == "LFR" else row["family"]
        groups.setdefault(name, []).append(row)
    lines = []
    for name, group in groups.items():

        def over(part: str, key: str, group: list[Row] = group) -> str:
            if not group[0]["planted"] or part not in group[0]:
                return "-"
            return short(float(np.mean([row[part][key] for row in group])))

        cells = [
            over("leiden", "score"),
            over("softcut", "score"),
            over("softcut", "best"),
            over("by_edges", "score"),
        ]
        shares = [row["between"][0] for row in group if row.get("between")]
        if shares and name.startswith("LFR"):
            name += f" ({short(float(np.mean(shares)), 2)})"
        lines.append([name, str(len(group)), *cells, told([row["softcut"]["verdict"] for row in group])])
    titles = ["NMI", "graphs", "Leiden", "softcut", "best level", "edges alone", "verdicts"]
    return markdown_table(titles, lines)


def _groups(out: Path) -> dict[str, list[Row]]:
    groups = read_json(out, "verdicts", _COMMAND.format("verdicts"))["groups"]
    return {group["group"]: group["rows"] for group in groups}


def verdicts(out: Path) -> str:
    """Known networks, shapes, and tables; draws of the same kind are shown once, with their range."""
    groups = _groups(out)
    kinds: dict[str, list[Row]] = {}
    for name in ("known", "shapes", "tables"):
        for row in groups.get(name, []):
            kind = row["graph"].partition(", order")[0]
            if "outside" in kind:
                kind = kind.rpartition(", ")[0]
            kinds.setdefault(kind, []).append(row)

    def spread(rows: list[Row], key: str, digits: int) -> str:
        low, high = (short(each(row[key] for row in rows), digits) for each in (min, max))
        return low if low == high else f"{low} to {high}"

    lines = [
        [
            name,
            f"{rows[0]['nodes']:,}",
            spread(rows, "deviations", 1),
            spread(rows, "surplus", 3),
            told([row["verdict"] for row in rows]) if len(rows) > 1 else rows[0]["verdict"],
        ]
        for name, rows in kinds.items()
    ]
    return markdown_table(["graph", "nodes", "deviations", "surplus", "verdict"], lines)


def false_verdicts(out: Path) -> str:
    """Random graphs and tables of noise, by kind, with the verdicts."""
    groups = _groups(out)
    kinds: dict[str, list[Row]] = {}
    for name, before in (("random", "random graphs: "), ("tables of noise", "rows: ")):
        for row in groups.get(name, []):
            kinds.setdefault(before + row["graph"].partition(",")[0], []).append(row)
    lines = []
    for name, rows in kinds.items():
        nodes = [row["nodes"] for row in rows]
        worst = max(rows, key=lambda row: row["deviations"])
        shown = f"{short(worst['deviations'], 1)} ({short(worst['surplus'])})"
        sizes = f"{min(nodes):,} to {max(nodes):,}"
        lines.append([name, str(len(rows)), sizes, told([row["verdict"] for row in rows]), shown])
    titles = ["no communities", "graphs", "nodes", "verdicts", "most deviations (surplus)"]
    return markdown_table(titles, lines)


def speed(out: Path) -> str:
    """Seconds of igraph's Leiden, and of everything else as a multiple of it."""
    record = read_json(out, "communities", _COMMAND.format("communities"))
    methods = ("one scale", "all scales", "K = 20", "K = 20 before", "leidenalg", "scikit-network")
    lines = []
    for row in record["rows"]:
        own = row["methods"]
        base = own["igraph"]
        times = []
        for name in methods:
            ratio = own.get(name, {}).get("times")
            times.append("-" if ratio is None else f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}")
        memory = " / ".join(
            f"{own[name]['mib']:.0f}" if name in own else "-" for name in ("igraph", *methods[:3])
        )
        lines.append([title(row["graph"]), f"{row['edges']:,}", f"{base['seconds']:.3f}", *times, memory])
    shown = [name if name != "K = 20 before" else "K = 20, before" for name in methods]
    return markdown_table(["graph", "edges", "igraph, seconds", *shown, "MiB"], lines)


def first_call(out: Path) -> str:
    """Seconds of the first fit of a process."""
    (first,) = read_json(out, "communities", _COMMAND.format("communities"))["first"]
    cells = [[what, f"{value:.1f}"] for what, value in first.items() if isinstance(value, float)]
    return markdown_table(["a new process", "seconds"], cells)


def changing(out: Path) -> str:
    """Share of nodes that change community in a step."""
    record = read_json(out, "changing_graphs", _COMMAND.format("changing_graphs"))
    lines = []
    for row in record["changing"]:
        shares = [short(row[way], 4) for way in _WAYS]
        ratio = row["start"] / row["leiden"] if row["leiden"] else float(row["start"] > 0)
        below = short(row["behind_fresh"], 4)
        lines.append(
            [title(row["graph"]), f"{row['edges']:,}", row["added"], *shares, short(ratio, 2), below]
        )
    means = {way: float(np.mean([row[way] for row in record["changing"]])) for way in _WAYS}
    most = max(row["behind_fresh"] for row in record["changing"])
    ratio = means["start"] / means["leiden"] if means["leiden"] else 0.0
    shares = [short(mean, 4) for mean in means.values()]
    lines.append(["mean; of the last column the most", "", "", *shares, short(ratio, 2), short(most, 4)])
    titles = [
        "graph",
        "edges",
        "added",
        "`start=`",
        "without",
        "Leiden",
        "`start=` / Leiden",
        "below a fresh fit",
    ]
    return markdown_table(titles, lines)


def renumbered(out: Path) -> str:
    """Graphs whose communities follow their nodes, and those that do not."""
    rows = read_json(out, "changing_graphs", _COMMAND.format("changing_graphs"))["renumbered"]
    orders = max(row["orders"] for row in rows)
    others = [f"{title(row['graph'])} {short(row['ari'])}" for row in rows if row["ari"] < 1]
    said = f"In {orders} other orders of their nodes {len(rows) - len(others)} of {len(rows)} graphs have the same "
    said += "communities (adjusted Rand index 1, nodes that colour refinement cannot tell apart left out)"
    return said + (f"; the others: {', '.join(others)}." if others else ".")


COMMUNITY_TABLES: dict[str, Callable[[Path], str]] = {
    "unknown-numbers": unknown_numbers,
    "unknown-numbers-said": unknown_numbers_said,
    "unknown-numbers-test": unknown_numbers_test,
    "verdicts": verdicts,
    "false-verdicts": false_verdicts,
    "communities-speed": speed,
    "first-call": first_call,
    "changing-graphs": changing,
    "renumbered-graphs": renumbered,
}
