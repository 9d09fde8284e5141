"""The paper's tables beside what was measured, with every difference judged; and the two tables of data statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from softcut.datasets import available
from softcut.datasets.collections import COLLECTIONS
from softcut.paper import citation, table2, table3
from softcut.paper.comparison import Results, compared
from softcut.paper.report_files import origin_of_cells
from softcut.paper.runs import read_cells
from softcut.report.html_page import Key, Missing, Part, Section, Text
from softcut.report.tables import Cell, Table

__all__ = ["KEY", "statistics_section", "table1_section", "table2_section", "table3_section"]

KEY = Key(
    [
        ("better", "▲", "significantly better than the paper's (5 %)"),
        ("worse", "▼", "significantly worse"),
        ("same", "=", "no significant difference"),
    ]
)
_TESTED = (
    "Second line of a cell: the paper's number, and the p-value of the difference (Welch's test, two-sided, the "
    "paper's ten runs"
)
_METHODS = {
    **{
        "wl": "WL",
        "dense": "Dense",
        "nopool": "No-pool",
        "graclus": "Graclus",
        "ndp": "NDP",
        "diffpool": "DiffPool",
    },
    **{"topk": "Top-K", "sagpool": "SAGPool", "mincut": "MinCutPool", "random": "Random", "dmon": "DMoN"},
    **{"justbalance": "JustBalance", "flat": "Flat", "sc": "SC", "kmeans": "k-means", "leiden": "Leiden"},
}
# The published statistics: nodes, edges, features, classes.
_CITATION_STATISTICS = {
    "cora": (2708, 5429, 1433, 7),
    "citeseer": (3327, 9228, 3703, 6),
    "pubmed": (19717, 88651, 500, 3),
}


def _counts(rows: Iterable[Sequence[str | Cell]]) -> str:
    """How many numbers are better, alike and worse, in words."""
    kinds = [cell.kind for row in rows for cell in row if isinstance(cell, Cell)]
    tested = sum(kinds.count(kind) for kind in ("better", "same", "worse"))
    return (
        f"Of {tested} numbers that could be tested {kinds.count('same')} do not differ significantly from the paper's, "
        f"{kinds.count('better')} are better and {kinds.count('worse')} worse."
    )


def table1_section(folder: Path) -> Section:
    """Clustering the citation networks."""
    title = "Table 1: clustering the citation networks"
    found = read_cells(folder / "table1.json")
    if not found:
        return Section(title, [Missing("table 1", "softcut reproduce citation --runs 100")])
    # The default clustering of the same data, "consensus" here, stands in the table of its quality.
    quality = (cell for cell in read_cells(folder / "quality.json") if cell["method"] == "default")
    more = [{**cell, "method": "consensus"} for cell in quality]
    cells = {(c["dataset"], c["method"], c["metric"]): c for c in (*more, *found)}
    rows: list[list[str | Cell]] = []
    parts: list[Part] = []
    for dataset in citation.DATASETS:
        for method in citation.METHODS:
            own = [cells.get((dataset, method, metric)) for metric in ("nmi", "cs", "acc")]
            if own[0] is None and (dataset, method, "nmi") not in citation.PAPER:
                continue
            if own[0] is None:
                options = f"--dataset {dataset} --method {method}"
                parts.append(Missing(f"{method} on {dataset}", f"softcut reproduce citation {options}"))
                continue
            name = "softcut, default" if method == "consensus" else _METHODS.get(method, method)
            row: list[str | Cell] = [dataset, name, *(compared(cell, digits=3) for cell in own)]
            rows.append([*row, Cell(str(own[0]["n"]))])
    columns = ["data", "method", "NMI", "completeness (CS)", "accuracy", "runs"]
    text = f"{_counts(rows)} {_TESTED}). Methods without a second line are not in the paper."
    origin = origin_of_cells(found, folder, "table1.json")
    return Section(title, [Text(text), KEY, Table(columns, rows, heads=2), *parts, origin])


def table2_section(folder: Path) -> Section:
    """Graph classification."""
    found = table2.results(folder)
    missing = found.missing(table2.DATASETS, table2.PAPER_METHODS)
    commands = {
        f"{method} on {name}": table2.command_for(name, method) for name, method, n in missing if not n
    }
    title = "Table 2: graph classification"
    return _folds_section(title, folder, found, table2.table(found), commands)


def table3_section(folder: Path) -> Section:
    """Graph regression."""
    found = table3.results(folder)
    missing = found.missing(table3.PROPERTIES, table3.METHODS)
    commands = {
        f"{method} for {name}": table3.command_for(method, name) for name, method, n in missing if not n
    }
    title = "Table 3: graph regression on QM9"
    return _folds_section(title, folder, found, table3.table(found), commands)


def _folds_section(
    title: str, folder: Path, found: Results, main: Table, missing: Mapping[str, str]
) -> Section:
    """A table over folds, what is missing of it, and where the numbers come from."""
    kind = found.kind
    if not found.cells:
        return Section(title, [Missing(title.partition(":")[0].lower(), f"softcut reproduce {kind.module}")])
    shown = replace(main, columns=[_METHODS.get(name, name) for name in main.columns])
    own = [cell for (_, method), cell in found.cells.items() if method in main.columns]
    tested = f"{_TESTED}; over folds with the variance corrected for the overlap of their training parts)."
    parts: list[Part] = [Text(f"{_counts(main.rows)} {tested}"), KEY, shown, *map(Text, main.notes)]
    parts += [Missing(what, command) for what, command in missing.items()]
    return Section(title, [*parts, origin_of_cells(own, folder, f"{kind.tables[0]}.json")])


def statistics_section() -> Section:
    """Both tables of data statistics: what is loaded, beside what the paper states."""
    known = {info.name: info for info in available()}
    rows: list[list[str | Cell]] = []
    for name, published in _CITATION_STATISTICS.items():
        info = known[name]
        counted = (info.nodes, info.edges, info.features, info.classes)
        row = [_stated(c, p) for c, p in zip(counted, published, strict=True)]
        rows.append([info.title, *row, Cell(f"{2 * info.edges + info.self_loops:,}")])
    first = Table(
        ["data", "nodes", "edges", "features", "classes", "entries of A"],
        rows,
        "Citation networks. Edges are counted once, without self-loops; the paper counts entries of A for CiteSeer and "
        "PubMed (both directions, with self-loops), and the citations of the raw file, some of them twice, for Cora.",
    )
    many: list[list[str | Cell]] = []
    for name in table2.DATASETS:
        published_means = COLLECTIONS[name]
        info = published_means.info
        edges = (info.edges + info.self_loops) * published_means.edges_per_pair / info.graphs
        means = [
            _stated(info.nodes / info.graphs, published_means.nodes),
            _stated(edges, published_means.edges),
        ]
        many.append([name, Cell(f"{info.graphs:,}"), Cell(f"{info.classes}"), *means])
    second = Table(
        ["data", "graphs", "classes", "nodes of a graph, mean", "edges of a graph, mean"],
        many,
        "Lists of graphs. Edges are counted as in the paper: with self-loops, those of the Bench sets in both "
        "directions. The Bench sets are fresh draws of the process that made the published ones.",
    )
    return Section("Data statistics", [first, second])


def _stated(counted: float, published: float) -> Cell:
    whole = isinstance(counted, int)
    text = f"{counted:,}" if whole else f"{counted:,.2f}"
    other = f"{published:,}" if whole else f"{published:,.2f}"
    return Cell(text, kind="same") if text == other else Cell(f"{text} ≠", f"paper {other}")
