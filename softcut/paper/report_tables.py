"""The paper's tables beside what was measured, with every difference judged; and the two tables of data statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from softcut.datasets import available
from softcut.datasets.collections import COLLECTIONS
from softcut.paper import citation, classification_report, regression_report, table2, table3
from softcut.paper.classification_results import Table2
from softcut.paper.report_origin import origin_of_cells
from softcut.paper.runs import read_cells
from softcut.paper.significance import FOLD_OVERLAP, differs_from_published
from softcut.report.html_page import Cell, Key, Missing, Part, Section, Table, Text

__all__ = ["KEY", "compared", "statistics_section", "table1_section", "table2_section", "table3_section"]

_LEVEL = 0.05
_MARKS = {"better": "▲", "worse": "▼", "same": "=", "": ""}
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


def compared(
    cell: Mapping[str, Any] | None,
    *,
    digits: int,
    higher: bool = True,
    overlap: float = 0.0,
    strong: bool = False,
) -> Cell:
    """A measured number with the paper's below it, and whether they differ.

    >>> cell = {"mean": 0.39, "std": 0.038, "n": 100, "paper_mean": 0.45, "paper_std": 0.01}
    >>> made = compared(cell, digits=3)
    >>> made.text, made.kind, made.below
    ('0.390 ± 0.038 ▼', 'worse', 'paper 0.450 ± 0.010, p < 0.001')

    Parameters
    ----------
    cell : mapping or None
        A cell of :mod:`softcut.paper.runs`; None: not measured.
    digits : int
        Decimals.
    higher : bool
        Whether more is better.
    overlap : float
        See :func:`softcut.paper.significance.differs_from_published`.
    strong : bool
        Whether it is among the best of its row.
    """
    if cell is None:
        return Cell("not measured", kind="none")
    mean, published = cell["mean"], cell.get("paper_mean")
    text = f"{mean:.{digits}f} ± {cell['std']:.{digits}f}"
    if published is None:
        return Cell(text, strong=strong)
    std = cell.get("paper_std")
    p = differs_from_published(mean, cell["std"], cell["n"], published, std, digits=digits, overlap=overlap)
    below = f"paper {published:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")
    if math.isnan(p):
        return Cell(text, f"{below}, not tested", strong=strong)
    kind = "same" if p >= _LEVEL else "better" if (mean > published) == higher else "worse"
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
    return Cell(f"{text} {_MARKS[kind]}", f"{below}, {shown}", kind, strong=strong)


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
    return Section(
        title,
        [
            Text(text),
            KEY,
            Table(columns, rows, heads=2),
            *parts,
            origin_of_cells(found, folder, "table1.json"),
        ],
    )


def table2_section(folder: Path) -> Section:
    """Graph classification."""
    title = "Table 2: graph classification"
    table = Table2(folder)
    found = [cell for cell in read_cells(folder / "table2.json") if cell["metric"] == "acc"]
    if not found:
        return Section(title, [Missing("table 2", "softcut reproduce classification")])
    rows: list[list[str | Cell]] = []
    parts: list[Part] = []
    for dataset in table2.DATASETS:
        best = classification_report.best_of(table, dataset, table2.PAPER_METHODS)
        row: list[str | Cell] = [dataset]
        for method in table2.METHODS:
            cell = table.cells.get((dataset, method))
            overlap = 0.0 if classification_report.is_repeated(dataset) else FOLD_OVERLAP
            row.append(compared(cell, digits=1, overlap=overlap, strong=method in best))
            if cell is None and method in table2.PAPER_METHODS:
                parts.append(Missing(f"{method} on {dataset}", table2.command_for(dataset, method)))
        rows.append(row)
    notes = sorted({f"{c['dataset']} is {c['note']}." for c in found if c.get("note")})
    said = (
        f"Test accuracy in percent. {_counts(rows)} Bold: the best of the paper's nine methods in a row, and those not "
        f"significantly worse. {_TESTED}; over folds with the variance corrected for the overlap of their training "
        f"parts). {' '.join(notes)}"
    )
    details: list[tuple[str, Callable[[], str]]] = [
        ("MinCutPool beside its targets", lambda: classification_report.verdicts(table)),
        ("Epochs and seconds", lambda: classification_report.costs(table, table2.DATASETS, table2.METHODS)),
        ("Does MinCutPool degenerate?", lambda: classification_report.degeneracy(table)),
        ("Other settings that were tried", lambda: classification_report.trials(table)),
        ("Training graphs per second", lambda: classification_report.throughput(folder)),
    ]
    return Section(
        title,
        [
            Text(said),
            KEY,
            Table(["data", *(_METHODS.get(m, m) for m in table2.METHODS)], rows),
            *parts,
            *_opened(details),
            origin_of_cells(found, folder, "table2.json"),
        ],
    )


def table3_section(folder: Path) -> Section:
    """Graph regression."""
    title = "Table 3: graph regression on QM9"
    found = [cell for cell in read_cells(folder / "table3.json") if cell["metric"] == "mse"]
    if not found:
        return Section(title, [Missing("table 3", "softcut reproduce regression")])
    table = regression_report.Table3(folder)
    rows: list[list[str | Cell]] = []
    parts: list[Part] = []
    for name in table3.PROPERTIES:
        best = table.best_of(name)
        row: list[str | Cell] = [name]
        for method in table3.METHODS:
            cell = table.cells.get((name, method, "mse"))
            row.append(compared(cell, digits=3, higher=False, overlap=FOLD_OVERLAP, strong=method in best))
            if cell is None:
                parts.append(
                    Missing(f"{method} for {name}", f"{table3.command_for(method)} --property {name}")
                )
        rows.append(row)
    said = (
        f"Test MSE of standardised properties. {_counts(rows)} Bold: the lowest error in a row, and those not "
        f"significantly higher. {_TESTED}; the variance corrected for the overlap of training parts)."
    )
    details: list[tuple[str, Callable[[], str]]] = [
        ("MinCutPool beside its targets", lambda: regression_report.verdicts(table)),
        ("At the last epoch", lambda: regression_report.last_epoch(table)),
        ("Seconds", lambda: regression_report.costs(table)),
    ]
    if (folder / "table3_speed.json").exists():
        details.append(("All networks in one step, or one by one", lambda: regression_report.speed(folder)))
    if table.trials:
        details.append(("Trials with other settings", lambda: regression_report.trials(table)))
    return Section(
        title,
        [
            Text(said),
            KEY,
            Table(["property", *(_METHODS.get(m, m) for m in table3.METHODS)], rows),
            *parts,
            *_opened(details),
            origin_of_cells(found, folder, "table3.json"),
        ],
    )


def _opened(details: Sequence[tuple[str, Callable[[], str]]]) -> list[Part]:
    """Titles and what the pages of a table show below them, where there is something."""
    texts = [(title, make()) for title, make in details]
    return [part for title, text in texts if text for part in (Text(f"### {title}"), Text(text))]


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
        found = COLLECTIONS[name]
        info = found.info
        many.append(
            [
                name,
                Cell(f"{info.graphs:,}"),
                Cell(f"{info.classes}"),
                _stated(info.nodes / info.graphs, found.nodes),
                _stated((info.edges + info.self_loops) * found.edges_per_pair / info.graphs, found.edges),
            ]
        )
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
    same = text == other
    return Cell(f"{text} {'=' if same else '≠'}", "" if same else f"paper {other}", "same" if same else "")
