"""Tables of clusterings in the pages: table 1, quality, evidence, other data.

Each function takes the folder of the results and returns Markdown; a number that is not there is "-".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from softcut.paper.evidence import SCORES
from softcut.paper.quality import ABLATIONS, DATASETS, settings_of
from softcut.paper.runs import Records, read_cells
from softcut.report.tables import markdown_table
from tools.results import read_json

TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "photo": "Photo",
    "computers": "Computers",
    "blogcatalog": "BlogCatalog",
    "physics": "Physics",
    "polblogs": "PolBlogs",
}
_CITATION = ("cora", "citeseer", "pubmed")
_SEEDS = 5
# Rows of the tables of quality: what a row is called, and the method in quality.json.
_DEFAULT = "default"
_QUALITY = {
    "spectral clustering": "sc",
    "k-means on features": "kmeans_raw",
    "Leiden": "leiden",
    "Leiden, its own number": "leiden, its own number of clusters",
    "DMoN": "dmon",
    "DMoN, restarted": "dmon on softcut's features, restarted",
    "k-means on propagated features": "kmeans",
    "the paper's model": "the paper's model",
    "k-means on softcut's features": "k-means on softcut's features",
    "the same, refined": "k-means on softcut's features, refined",
    "**softcut**": _DEFAULT,
}
_HEADLINE = ("leiden", "dmon", "k-means on softcut's features, refined", _DEFAULT)
# NMI that others report: the method, where it is from (links stand on the page), and the numbers.
_ANCHORS = (
    ("Dink-Net", "LSEnet", {"cora": 0.6228, "citeseer": 0.4587, "photo": 0.7436, "computers": 0.3954}),
    ("S3GC", "LSEnet", {"cora": 0.5890, "citeseer": 0.4412, "photo": 0.5978, "computers": 0.5480}),
    ("MAGI", "CoCo", {"cora": 0.5984, "photo": 0.6498}),
    ("NS4GC", "PyAGC", {"cora": 0.5940, "photo": 0.7262, "physics": 0.7538}),
    ("MAGI", "PyAGC", {"cora": 0.5894, "photo": 0.6865, "physics": 0.6608}),
    ("Dink-Net", "PyAGC", {"cora": 0.5556, "photo": 0.6474, "physics": 0.5734}),
    ("S3GC", "PyAGC", {"cora": 0.5545, "photo": 0.6827, "physics": 0.7087}),
    ("DMoN", "PyAGC", {"cora": 0.4384, "photo": 0.6274, "physics": 0.5830}),
)
_REGIMES = {
    "softcut": "softcut",
    "k-means": "kmeans",
    "k-means, propagated features": "kmeans_propagated",
    "Leiden": "leiden",
}
_VERDICTS = ("none", "weak", "clear")


def short(value: float | None, digits: int = 3) -> str:
    """A number below 1 without its leading zero; "-" where there is none."""
    if value is None:
        return "-"
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def plus_minus(mean: float | None, std: float | None) -> str:
    """Mean and standard deviation."""
    return "-" if mean is None else f"{short(mean)} ± {short(std)}"


def _by_name(cells: Iterable[Mapping[str, Any]], metric: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Cells of one metric by data set and method."""
    return {(c["dataset"], c["method"]): c for c in cells if c["metric"] == metric}


def _quality(out: Path, rows: Mapping[str, str], spread: bool = True) -> str:
    """NMI of some methods on every data set."""
    cells = _by_name(read_cells(out / "quality.json"), "nmi")
    lines = []
    for title, method in rows.items():
        own = [cells.get((name, method), {"mean": None, "std": None}) for name in DATASETS]
        lines.append([title, *(plus_minus(c["mean"], c["std"]) if spread else short(c["mean"]) for c in own)])
    return markdown_table(["NMI" if spread else "", *(TITLES[name] for name in DATASETS)], lines)


def anchors(out: Path) -> str:
    """NMI that others report, below the default's."""
    cells = _by_name(read_cells(out / "quality.json"), "nmi")
    names = [name for name in DATASETS if any(name in numbers for *_, numbers in _ANCHORS)]
    own = [short(cells[name, _DEFAULT]["mean"]) if (name, _DEFAULT) in cells else "-" for name in names]
    rows = [["**softcut**", "this page", *own]]
    rows += [
        [method, source, *(short(numbers.get(n)) for n in names)] for method, source, numbers in _ANCHORS
    ]
    return markdown_table(["NMI", "source", *(TITLES[name] for name in names)], rows)


def headline(out: Path) -> str:
    """NMI of the default beside the strongest baselines: the table of the README."""
    titles = {method: title for title, method in _QUALITY.items()} | {_HEADLINE[2]: _HEADLINE[2]}
    return _quality(out, {titles[method]: method for method in _HEADLINE}, spread=False)


def ablations(out: Path) -> str:
    """NMI with one part of the default changed: means over the seeds that were run with these settings."""
    records = Records(out / "quality_runs.json")
    names = [name for name in DATASETS if name != "polblogs"]  # without features there are no networks
    lines = []
    for method in ABLATIONS:
        settings = settings_of(method)
        line = [method]
        for name in names:
            scores = [run["nmi"] for run in records.of(name, method, range(_SEEDS), settings)]
            line.append(short(float(np.mean(scores))) if scores else "-")
        lines.append(line)
    return markdown_table(["NMI", *(TITLES[name] for name in names)], lines)


def noise(out: Path) -> str:
    """Verdicts on noise, and on planted clusters that were found and that were not."""
    groups = read_json(out, "noise")
    titles = {"noise": "noise", "planted": "planted, found", "planted_not_found": "planted, not found"}
    lines = []
    for group, title in titles.items():
        rows = groups.get(group, [])
        if rows:
            values = [row["structure"] for row in rows]
            counts = [str(sum(row["verdict"] == verdict for row in rows)) for verdict in _VERDICTS]
            lines.append([title, str(len(rows)), *counts, f"{min(values):.2f} to {max(values):.2f}"])
    return markdown_table(["graphs", "fits", *_VERDICTS, "structure"], lines)


def rank_correlations(out: Path) -> str:
    """Rank correlation of scores that need no classes with NMI."""
    rows = read_json(out, "evidence")
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        line = [TITLES[name]]
        for score in SCORES:
            known = [r["rank_correlation"][score] for r in own if r["rank_correlation"][score] is not None]
            line.append(short(float(np.mean(known)), 2) if known else "-")
        line += [
            short(float(np.mean([row[key] for row in own]))) for key in ("nmi_of_most_evidence", "best_nmi")
        ]
        lines.append(line)
    titles = ["", "evidence", "its edges", "its features", *SCORES[3:], "NMI of most evidence", "best NMI"]
    return markdown_table(titles, lines)


def regimes(out: Path) -> str:
    """NMI on tables of scikit-learn, the karate club and generated graphs."""
    lines = [
        [row["data"], *(short(row["methods"].get(m, {}).get("mean")) for m in _REGIMES.values())]
        for row in read_json(out, "regimes")["rows"]
    ]
    return markdown_table(["NMI", *_REGIMES], lines)


def edge_lists(out: Path) -> str:
    """Modularity beside Leiden's on plain graphs."""
    rows = read_json(out, "edgelists")
    counts = sorted({row["clusters"] for row in rows})
    lines = []
    for name, nodes in dict.fromkeys((row["graph"], row["nodes"]) for row in rows):
        line = [name, f"{nodes:,}"]
        for k in counts:
            own: dict[str, Any] = next(
                (row for row in rows if (row["graph"], row["clusters"]) == (name, k)), {}
            )
            line += [short(own.get(method, {}).get("modularity")) for method in ("softcut", "leiden")]
        lines.append(line)
    titles = [title for k in counts for title in (f"K = {k}: softcut", "Leiden")]
    return markdown_table(["modularity", "nodes", *titles], lines)


def behind(out: Path) -> str:
    """Where another method is ahead by more than .01: NMI of data sets and regimes, modularity of plain graphs."""
    rivals: list[tuple[str, str, float, Mapping[str, float]]] = []  # data, score, ours, others
    cells = _by_name(read_cells(out / "quality.json"), "nmi")
    for name in DATASETS:
        means = {t: cells[name, m]["mean"] for t, m in _QUALITY.items() if (name, m) in cells}
        rivals.append((TITLES[name], "NMI", means.pop("**softcut**", math.nan), means))
    for row in read_json(out, "regimes")["rows"]:
        means = {t: row["methods"][m]["mean"] for t, m in _REGIMES.items() if m in row["methods"]}
        rivals.append((row["data"], "NMI", means.pop("softcut", math.nan), means))
    for row in read_json(out, "edgelists"):
        name = f"{row['graph']}, K = {row['clusters']}"
        ours, theirs = (row.get(method, {}).get("modularity", math.nan) for method in ("softcut", "leiden"))
        rivals.append((name, "modularity", ours, {"Leiden": theirs}))
    lines = []
    for name, score, ours, others in rivals:
        best = max(others, key=others.__getitem__, default="")
        if others and others[best] - ours > 0.01:
            title = best.replace("the same, ", "k-means on softcut's features, ")
            lines.append([name, score, short(ours), title, short(others[best])])
    if not lines:
        return "There are none."
    return markdown_table(["data", "score", "softcut", "best other method", "its score"], lines)


def table1(out: Path) -> str:
    """The paper's table 1: all seeds, the first ten, and the published numbers; from runs, as cells are rounded."""
    cells, runs = read_cells(out / "table1.json"), Records(out / "table1_runs.json").runs
    lines = []
    for key in itertools.product(_CITATION, ("sc", "diffpool", "mincut")):
        own = [run for run in runs if (run["dataset"], run["method"]) == key]
        line = [*key]
        for metric in ("nmi", "cs"):
            for chosen in (own, [run for run in own if run["seed"] < 10]):
                scores = np.array([run[metric] for run in chosen])
                line.append(plus_minus(float(scores.mean()), float(scores.std())))
            cell = _by_name(cells, metric)[key]
            line.append(plus_minus(cell["paper_mean"], cell["paper_std"]))
        lines.append([*line, str(len(own))])
    titles = ["data", "method", "NMI, all", "first ten", "paper", "CS, all", "first ten", "paper", "n"]
    return markdown_table(titles, lines)


def generated(out: Path) -> str:
    """Baselines on the generated graph of the examples."""
    rows = read_json(out, "generated")["rows"]
    lines = [[f"`{row['baseline']}`", row["sees"], short(row["nmi"], 2)] for row in rows]
    return markdown_table(["baseline (key of `softcut.baselines.BASELINES`)", "sees", "NMI"], lines)


CLUSTERING_TABLES: dict[str, Callable[[Path], str]] = {
    "headline": headline,
    "quality-nmi": lambda out: _quality(out, _QUALITY),
    "anchors": anchors,
    "ablations": ablations,
    "noise": noise,
    "rank-correlations": rank_correlations,
    "regimes": regimes,
    "edge-lists": edge_lists,
    "behind": behind,
    "table1": table1,
    "generated": generated,
}
