"""The whole report: every table, figure and measurement of a folder of results, as sections of one page.

The paper's tables stand beside what was measured, with every difference judged.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from softcut.colours import cluster_colours
from softcut.datasets import available
from softcut.datasets.collections import COLLECTIONS
from softcut.datasets.qm9 import PROPERTIES
from softcut.errors import DataError, SoftcutError
from softcut.files import atomic_write
from softcut.paper import autoencoder, citation, evidence, regression, segmentation, synthetic, table2
from softcut.paper.comparison import Results, compared, longest_curves
from softcut.paper.report_files import any_table, load_result, origin_of_cells, origin_of_file
from softcut.paper.runs import read_cells
from softcut.provenance import commit
from softcut.report.html_page import (
    Details,
    Key,
    Missing,
    Part,
    Section,
    Text,
    View,
    picture_of,
    plain,
    render_page,
)
from softcut.report.plots import line_styles
from softcut.report.schemata import schemata_section
from softcut.report.tables import Cell, Table, number_table

VIEWS, VIEWS_COMMAND = "views.json", "python -m tools.views --out results"
# Files that a section of their own shows.
_SHOWN = {
    *("table1.json", "table2.json", "table3.json", "table2_curves.json", "table3_curves.json", VIEWS),
    *("synthetic.json", "autoencoder.json", "autoencoder_decay.json", "curves_cora.json", "quality.json"),
    *("evidence.json", "table3_trials_curves.json"),
}
_PICTURES = 1_500_000  # bytes of all pictures of a section together
_KEY = Key(
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
    **{"wl": "WL", "dense": "Dense", "nopool": "No-pool", "graclus": "Graclus", "ndp": "NDP", "sc": "SC"},
    **{"topk": "Top-K", "sagpool": "SAGPool", "mincut": "MinCutPool", "random": "Random", "dmon": "DMoN"},
    **{"diffpool": "DiffPool", "justbalance": "JustBalance", "kmeans": "k-means", "leiden": "Leiden"},
    "flat": "Flat",
}
# The published statistics: nodes, edges, features, classes.
_CITATION_STATISTICS = {
    "cora": (2708, 5429, 1433, 7),
    "citeseer": (3327, 9228, 3703, 6),
    "pubmed": (19717, 88651, 500, 3),
}


def report_sections(folder: str | Path) -> list[Section]:
    """All sections of a folder of results."""
    folder, made = Path(folder), []
    for make in (
        *(
            table1_section,
            table2_section,
            table3_section,
            lambda _: statistics_section(),
            _synthetic,
            _curves,
        ),
        *(_autoencoder, _segmentation, view_sections, lambda _: schemata_section(), _quality, _evidence),
        _other_results,
    ):
        try:
            section = make(folder)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, SoftcutError):
                raise
            what = make.__name__.strip("_").removesuffix("_section").replace("_", " ")
            raise DataError(
                f"{folder} holds results of a wrong shape ({what}: {type(error).__name__} {error}); move the file "
                "away or make it again."
            ) from error
        made += [section] if isinstance(section, Section) else section
    return made


def write_report(folder: str | Path, out: str | Path) -> Path:
    """Write the report of a folder of results."""
    _check_results(Path(folder))
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    subtitle = f"Made on {today} by softcut report at commit {commit()} from {Path(folder).name}/."
    page = render_page("softcut: the paper's experiments, measured", report_sections(folder), subtitle)
    return atomic_write(out, page.encode())


# Files by which the output of another command is known.
_OTHER_OUTPUT = {
    "labels.csv": "softcut cluster; its own page is written by softcut cluster --report",
    "predictions.csv": "softcut classify; its numbers are in metrics.json",
    "segments.json": "softcut segment; look at overlay.png",
    "manifest.json": "softcut partition; train on them with softcut.clustering.distributed",
}


def _check_results(folder: Path) -> None:
    """Refuse a folder that holds no results of the experiments."""
    advice = "Run softcut reproduce, or name another folder with --results."
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {folder}: this report shows what softcut reproduce measured. {advice}"
        )
    for file, whose in _OTHER_OUTPUT.items():
        if (folder / file).exists():
            raise DataError(
                f"{folder} holds the output of {whose}. This report is about the paper's experiments. {advice}"
            )
    if not any(folder.glob("*.json")):
        raise DataError(f"{folder} holds no results of the paper's experiments. {advice}")


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
    own = read_cells(folder / "table1.json")
    if not own:
        return Section(title, [Missing("table 1", "softcut reproduce citation --runs 100")])
    cells = {(c["dataset"], c["method"], c["metric"]): c for c in own}
    rows: list[list[str | Cell]] = []
    parts: list[Part] = []
    for dataset in citation.DATASETS:
        for method in citation.METHODS:
            row = [cells.get((dataset, method, metric)) for metric in ("nmi", "cs", "acc")]
            if row[0] is not None:
                numbers = (compared(cell, digits=3) for cell in row)
                rows.append([dataset, _METHODS.get(method, method), *numbers, Cell(str(row[0]["n"]))])
            elif (dataset, method, "nmi") in citation.PAPER:
                options = f"--dataset {dataset} --method {method}"
                parts.append(Missing(f"{method} on {dataset}", f"softcut reproduce citation {options}"))
    columns = ["data", "method", "NMI", "completeness (CS)", "accuracy", "runs"]
    text = f"{_counts(rows)} {_TESTED}). Methods without a second line are not in the paper."
    origin = origin_of_cells(own, folder, "table1.json")
    return Section(title, [Text(text), _KEY, Table(columns, rows, heads=2), *parts, origin])


def table2_section(folder: Path) -> Section:
    """Graph classification."""
    results = table2.results(folder)
    missing = results.missing(table2.DATASETS, table2.PAPER_METHODS)
    commands = {f"{m} on {name}": table2.command_for(name, m) for name, m, count in missing if not count}
    return _folds_section("Table 2: graph classification", folder, results, table2.table(results), commands)


def table3_section(folder: Path) -> Section:
    """Graph regression."""
    results = regression.results(folder)
    missing = results.missing(PROPERTIES, regression.METHODS)
    commands = {f"{m} for {name}": regression.command_for(m, name) for name, m, count in missing if not count}
    title = "Table 3: graph regression on QM9"
    return _folds_section(title, folder, results, regression.table(results), commands)


def _folds_section(
    title: str, folder: Path, results: Results, main: Table, missing: Mapping[str, str]
) -> Section:
    """A table over folds, what is missing of it, and where the numbers come from."""
    if not results.cells:
        return Section(
            title, [Missing(title.partition(":")[0].lower(), f"softcut reproduce {results.module}")]
        )
    shown = replace(main, columns=[_METHODS.get(name, name) for name in main.columns])
    own = [cell for (_, method), cell in results.cells.items() if method in main.columns]
    tested = f"{_TESTED}; over folds with the variance corrected for the overlap of their training parts)."
    parts: list[Part] = [Text(f"{_counts(main.rows)} {tested}"), _KEY, shown, *map(Text, main.notes)]
    parts += [Missing(what, command) for what, command in missing.items()]
    return Section(title, [*parts, origin_of_cells(own, folder, f"{results.tables[0]}.json")])


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
    digits = ",d" if isinstance(counted, int) else ",.2f"
    text, other = f"{counted:{digits}}", f"{published:{digits}}"
    return Cell(text, kind="same") if text == other else Cell(f"{text} ≠", f"paper {other}")


def _picture(folder: Path, name: str, alt: str, command: str) -> Part:
    path = folder / name
    return picture_of(path, alt, f"{alt} ({name}).") if path.exists() else Missing(alt.lower(), command)


def _synthetic(folder: Path) -> Section:
    title, command = "Figure: clusters of synthetic graphs", "softcut reproduce synthetic"
    rows = read_cells(folder / "synthetic.json", "rows")
    if not rows:
        return Section(title, [Missing("the synthetic graphs", command)])
    picture = _picture(folder, "synthetic.png", "Communities and a grid by three methods", command)
    return Section(title, [picture, synthetic.table(rows), origin_of_cells(rows, folder, "synthetic.json")])


def _autoencoder(folder: Path) -> Section:
    text = 'The autoencoder of the paper pools a signal on a graph and lifts it back; "decay" is a learning rate '
    parts: list[Part] = [Text(f"{text}that falls to 0.")]
    for name, what, options in (
        ("autoencoder", "the paper's settings", ""),
        ("autoencoder_decay", "a learning rate that falls to 0", " --decay"),
    ):
        command = f"softcut reproduce autoencoder{options}"
        cells = read_cells(folder / f"{name}.json")
        if not cells:
            parts.append(Missing(f"the autoencoder with {what}", command))
            continue
        picture = _picture(folder, f"{name}.png", f"Original and reconstructions, {what}", command)
        parts += [picture, autoencoder.table(cells), origin_of_cells(cells, folder, f"{name}.json")]
    return Section("Figure: reconstruction by an autoencoder", parts)


def _segmentation(folder: Path) -> Section:
    """E2: the figures, and what the paper lacks: scores against people's segmentations."""
    command = "softcut reproduce segmentation"
    parts: list[Part] = []
    for name in sorted(path.stem for path in folder.glob("segmentation*.json")):
        if name.endswith(("_runs", "_figure", "_speed")):
            continue
        cells = read_cells(folder / f"{name}.json")
        if not cells:
            continue
        text = (
            f"Segmentations of {cells[0]['dataset']} beside those that people made. Each score with one number of "
            "segments for all images (ODS) / with the best number for each image (OIS). A star: minCUT differs "
            "significantly from the method (Wilcoxon's test over images, 5 %)."
        )
        parts += [Text(text), segmentation.table(cells), origin_of_cells(cells, folder, f"{name}.json")]
    if not parts:
        parts.append(Missing("segmentations scored against people's (BSDS500)", command))
    pictures = sorted(folder.glob("segmentation_*.png"))
    most = _PICTURES // max(6, len(pictures))
    for path in pictures:
        name = path.stem.removeprefix("segmentation_")
        caption = f"The picture {name}, over-segmented, as a graph of regions, and segmented by each method"
        parts.append(
            picture_of(path, f"Segmentations of the picture {name}", f"{caption} ({path.name}).", most)
        )
    if not pictures:
        parts.append(Missing("the figure of segmented pictures", command))
    for file, what in (("segmentation_figure.json", "the figure"), ("segmentation_speed.json", "speed")):
        if (folder / file).exists():
            value = load_result(folder / file)
            parts += [Details(f"Numbers of {what}", any_table(value)), origin_of_file(value, folder, file)]
    return Section("Figure: image segmentation", parts)


def view_sections(folder: Path) -> list[Section]:
    """The clusterings of ``views.json`` to explore, or what makes it."""
    path = folder / VIEWS
    if not path.exists():
        missing = Missing("interactive views of clusterings", VIEWS_COMMAND)
        return [Section("Clusterings to explore", [missing])]
    sections = []
    for entry in load_result(path):
        scores = [[name.replace("_", " "), value] for name, value in entry["scores"].items()]
        text = f"The default clustering of {entry['nodes']:,} nodes and {entry['edges']:,} edges."
        views: list[Part] = [View(view["view"], view["data"], view["caption"]) for view in entry["views"]]
        numbers: list[Part] = [number_table(["score", "value"], scores), origin_of_file(entry, folder, VIEWS)]
        sections.append(Section(f"Clustering to explore: {entry['title']}", [Text(text), *views, *numbers]))
    return sections


def _curves(folder: Path) -> Section:
    """Losses during training: Cora's in the paper, and those behind tables 2 and 3."""
    parts: list[Part] = []
    path, command = folder / "curves_cora.json", "softcut reproduce citation"
    if path.exists():
        curves = load_result(path)
        panels = []
        shown = (
            ("diffpool", "DiffPool", "link loss", "entropy loss"),
            ("mincut", "MinCutPool", "L_c", "L_o"),
        )
        for colour, (method, name, *losses) in zip(cluster_colours(2), shown, strict=True):
            at = [point["iteration"] for point in curves[method]]
            for key, title in zip(("first", "second", "nmi"), (*losses, "NMI"), strict=True):
                values = [float(np.mean(point[key])) for point in curves[method]]
                series = {"name": name, "x": at, "y": values, "colour": colour}
                panels.append({"title": f"{name}: {title}", "x": "iteration", "series": [series]})
        parts += [
            View("curves", plain({"panels": panels}), "Training on Cora, mean over ten seeds."),
            _picture(folder, "curves_cora.png", "Loss and NMI during training on Cora", command),
            origin_of_file(curves | {"command": command}, folder, path.name),
        ]
    else:
        parts.append(Missing("the curves on Cora", command))
    classified = (
        table2.DATASETS,
        table2.METHODS,
        "accuracy",
        "Validation accuracy (table 2)",
        "classification",
    )
    regressed = (PROPERTIES, regression.METHODS, "validation", "Validation MSE (table 3)", "regression")
    for file, (names, methods, key, what, command) in (("table2", classified), ("table3", regressed)):
        curves = read_cells(folder / f"{file}_curves.json", "curves")
        if not curves:
            parts.append(Missing(what.lower(), f"softcut reproduce {command}"))
            continue
        data = plain({"panels": _panels(curves, names, methods, key), "legend": methods})
        caption = f"{what} by epoch, mean over folds while at least half of them train."
        parts.append(View("curves", data, caption))
    return Section("Figure: training curves", parts)


def _panels(
    curves: Sequence[Mapping[str, Any]], names: Sequence[str], methods: Sequence[str], key: str
) -> list[dict[str, Any]]:
    """One panel per data set, one line per method."""
    chosen = longest_curves(curves)
    styles = line_styles(methods)
    panels = []
    for name in names:
        series = []
        for method in methods:
            curve = chosen.get((name, method))
            if curve is None:
                continue
            values = curve[key]
            if key == "accuracy":  # here `training` counts the folds that still train
                values = values[: int((2 * np.array(curve["training"]) >= len(curve["folds"])).sum())]
            at = np.unique(np.linspace(0, len(values) - 1, min(120, len(values))).astype(int))
            y = [float(f"{values[i]:.4g}") for i in at]
            series.append({"name": method, "x": at + 1, "y": y, **styles[method]})
        if series:
            panels.append({"title": name, "x": "epoch", "series": series})
    return panels


def _quality(folder: Path) -> Section:
    title = "Beyond the paper: quality of the default clustering"
    cells = read_cells(folder / "quality.json")
    if not cells:
        return Section(title, [Missing("quality of the default", "softcut reproduce quality")])
    text = "The default of GraphClustering beside what one would use instead, by agreement with the known classes."
    return Section(title, [Text(text), *any_table(cells), origin_of_cells(cells, folder, "quality.json")])


def _evidence(folder: Path) -> Section:
    title = "Beyond the paper: evidence, a score without labels"
    rows = read_cells(folder / "evidence.json", "rows")
    if not rows:
        return Section(title, [Missing("evidence against NMI", "softcut reproduce evidence")])
    text = (
        "Evidence is computed without labels: how much a clustering explains of edges and features, for what its "
        "labels cost. The table shows how well it, and other scores, rank clusterings of one graph by their NMI."
    )
    return Section(title, [Text(text), evidence.table(rows), origin_of_file(rows, folder, "evidence.json")])


def _other_results(folder: Path) -> list[Section]:
    """Every other file of results as plain tables, so that nothing that was measured is left out."""
    sections = []
    for name in sorted(path.name for path in folder.glob("*.json")):
        if name not in _SHOWN and not name.startswith("segmentation") and not name.endswith("_runs.json"):
            value = load_result(folder / name)
            parts = [Text(f"`{name}`"), *any_table(value), origin_of_file(value, folder, name)]
            title = name.removesuffix(".json").replace("_", " ")
            sections.append(Section(f"Other results: {title}", parts))
    return sections
