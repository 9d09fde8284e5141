"""The whole report: every table, figure and measurement of a folder of results, as sections of one page.

Files that no section knows are shown as plain tables at the end, so that nothing that was measured is left out.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError, SoftcutError
from softcut.files import atomic_write
from softcut.paper import evidence, quality, table2, table3
from softcut.paper.reconstruction_figure import percent
from softcut.paper.report_files import any_table, pivot
from softcut.paper.report_origin import origin_of_cells, origin_of_file
from softcut.paper.report_schemata import schemata_section
from softcut.paper.report_tables import statistics_section, table1_section, table2_section, table3_section
from softcut.paper.report_views import FILE as VIEWS
from softcut.paper.report_views import view_sections
from softcut.paper.segmentation import result_table
from softcut.paper.tables import TABLES
from softcut.provenance import commit
from softcut.report.html_page import (
    Cell,
    Details,
    Missing,
    Part,
    Picture,
    Section,
    Table,
    Text,
    View,
    picture_of,
    plain,
    render_page,
)
from softcut.report.plots import cluster_colours, line_styles
from softcut.training.runs import read_cells

__all__ = ["report_sections", "write_report"]

# Files that a section of their own shows, or that hold the single runs behind a table.
_SHOWN = {
    *("table1.json", "table2.json", "table3.json", "table2_curves.json", "table3_curves.json", VIEWS),
    *("synthetic.json", "autoencoder.json", "autoencoder_decay.json", "curves_cora.json", "quality.json"),
    *("evidence.json", "table3_trials.json", "table3_trials_curves.json", "table2_trials.json"),
    *(
        "table2_ablation.json",
        "table3_speed.json",
        "classification_step_cpu.json",
        "classification_step_gpu.json",
    ),
}
# What else the commands of the project measure: shown as missing, with the command, where the file is not there.
_EXPECTED = {
    "objectives.json": ("the family of objectives", "python benchmarks/objectives.py"),
    "benchmarks.json": ("speed beside other libraries", "make bench"),
    "regimes.json": ("kinds of graphs", "python benchmarks/regimes.py"),
    "edgelists.json": ("edge lists without features", "python benchmarks/edgelists.py"),
    "large.json": ("large graphs", "python benchmarks/large.py"),
    "minibatch.json": ("mini-batches", "python benchmarks/minibatch.py"),
    "distributed.json": ("several processes", "python benchmarks/distributed.py"),
}
# What makes the other files that do not say it themselves.
_COMMANDS = {
    **{name: command for name, (_, command) in _EXPECTED.items()},
    "pooling_speed.json": "python benchmarks/pooling.py speed --sizes 1000 10000 100000 1000000",
    "pooling_memory.json": "python benchmarks/pooling.py memory",
    "pooling_memory_gpu.json": "python benchmarks/pooling.py memory",
}
_TITLES = {
    "objectives.json": "Objectives",
    "benchmarks.json": "Benchmarks",
    "regimes.json": "Kinds of graphs",
    "edgelists.json": "Edge lists without features",
    "minibatch.json": "Mini-batches",
    "distributed.json": "Several processes",
    "table2_uniform.json": "Why assignments stay uniform (table 2)",
    "collapse.json": "How often clusters are lost",
    "generated.json": "Generated graphs",
    "large.json": "Large graphs",
    "mutants.json": "Small wrong changes that the tests notice",
    "quality_former.json": "Quality of former defaults",
    "transfer.json": "Fit on a small graph, predict a large one",
    "pooling_speed.json": "Speed of poolers",
    "pooling_memory.json": "Memory of poolers, CPU",
    "pooling_memory_gpu.json": "Memory of poolers, GPU",
}
_METHODS = {"sc": "SC", "diffpool": "DiffPool", "mincut": "MinCutPool"}
_PICTURES = 1_500_000  # bytes of all pictures of a section together


def report_sections(folder: str | Path) -> list[Section]:
    """All sections of a folder of results.

    >>> [section.title for section in report_sections("no such folder")][:2]
    ['Table 1: clustering the citation networks', 'Table 2: graph classification']
    """
    folder = Path(folder)
    known = [
        table1_section(folder),
        table2_section(folder),
        table3_section(folder),
        statistics_section(),
        _synthetic(folder),
        _curves(folder),
        _autoencoder(folder),
        _segmentation(folder),
        *view_sections(folder),
        schemata_section(),
        _quality(folder),
        _evidence(folder),
    ]
    return [*known, *_others(folder), _pages(folder)]


def write_report(folder: str | Path, out: str | Path, extra: Sequence[Section] = ()) -> Path:
    """Write the report of a folder of results; `extra` sections come first.

    Parameters
    ----------
    folder : path
        Where the results are.
    out : path
        The HTML file.
    extra : sequence of Section
        What else to show.
    """
    if not Path(folder).is_dir():
        raise DataError(
            f"there is no folder {folder} with results; run softcut reproduce, or name it with --results."
        )
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    subtitle = f"Made on {today} by softcut report at commit {commit()} from {Path(folder).name}/."
    page = render_page(
        "softcut: the paper's experiments, measured", [*extra, *report_sections(folder)], subtitle
    )
    return atomic_write(out, page.encode())


def _picture(folder: Path, name: str, alt: str, command: str) -> Part:
    path = folder / name
    return picture_of(path, alt, f"{alt} ({name}).") if path.exists() else Missing(alt.lower(), command)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); move it away or make it again.") from error


def _synthetic(folder: Path) -> Section:
    command = "softcut reproduce synthetic"
    rows = read_cells(folder / "synthetic.json")
    parts: list[Part] = [
        _picture(folder, "synthetic.png", "Communities and a grid by three methods", command)
    ]
    if not rows:
        return Section("Synthetic graphs (figure)", [Missing("the synthetic graphs", command)])
    columns = ("nmi", "accuracy", "normalised_cut", "modularity", "balance", "clusters_used")
    lines: list[list[str | Cell]] = [
        [
            row["dataset"],
            _METHODS.get(row["method"], row["method"]),
            *(Cell(f"{row[c]:.3f} ± {row[c + '_std']:.3f}" if c in row else "-") for c in columns),
        ]
        for row in rows
    ]
    titles = ["graph", "method", *(c.replace("_", " ") for c in columns)]
    parts += [Table(titles, lines, heads=2), origin_of_cells(rows, folder, "synthetic.json")]
    return Section("Synthetic graphs (figure)", parts)


def _autoencoder(folder: Path) -> Section:
    parts: list[Part] = []
    for name, what, options in (
        ("autoencoder", "the paper's settings", ""),
        ("autoencoder_decay", "a learning rate that falls to 0", " --decay"),
    ):
        command = f"softcut reproduce autoencoder{options}"
        cells = read_cells(folder / f"{name}.json")
        if not cells:
            parts.append(Missing(f"the autoencoder with {what}", command))
            continue
        methods = list(dict.fromkeys(cell["method"] for cell in cells))
        graphs = list(dict.fromkeys(cell["dataset"] for cell in cells))
        by_name = {(cell["dataset"], cell["method"]): cell for cell in cells}
        rows: list[list[str | Cell]] = [
            [
                graph,
                *(Cell(percent(by_name[graph, method]["median_over_variance"])) for method in methods),
            ]
            for graph in graphs
        ]
        caption = f"Median MSE as a share of the signal's variance, {what}."
        parts += [
            Table(["graph", *methods], rows, caption),
            _picture(folder, f"{name}.png", f"Original and reconstructions, {what}", command),
            origin_of_cells(cells, folder, f"{name}.json"),
        ]
    return Section("Autoencoder (figure)", parts)


def _segmentation(folder: Path) -> Section:
    """E2: the figures, and what the paper lacks: scores against people's segmentations."""
    command = "softcut reproduce segmentation"
    parts: list[Part] = []
    for name in sorted(path.stem for path in folder.glob("segmentation*.json")):
        if name.endswith(("_runs", "_figure", "_speed")):
            continue
        cells = read_cells(folder / f"{name}.json")
        if not cells or "metric" not in cells[0]:
            continue
        parts += [
            Text(
                f"{cells[0]['dataset']}: each score at one scale for all images (ODS) / at the best scale for each "
                "(OIS). A star: minCUT differs significantly from the method (Wilcoxon's test over images, 5 %)."
            ),
            Text(result_table(cells)),
            origin_of_cells(cells, folder, f"{name}.json"),
        ]
    if not parts:
        parts.append(Missing("segmentations scored against people's (BSDS500)", command))
    pictures = sorted(folder.glob("segmentation_*.png"))
    parts += _pictures(pictures) if pictures else [Missing("the figure of segmented pictures", command)]
    figure = read_cells(folder / "segmentation_figure.json")
    if figure:
        parts += [Details("Numbers of the figure", any_table(figure))]
        parts.append(origin_of_file(figure, folder, "segmentation_figure.json"))
    speed = folder / "segmentation_speed.json"
    if speed.exists():
        found = _load(speed)
        parts += [
            Details("Time beside scikit-image", any_table(found)),
            origin_of_file(found, folder, speed.name),
        ]
    else:
        parts.append(Missing("time beside scikit-image", "python benchmarks/segmentation.py"))
    return Section("Image segmentation (figure)", parts)


def _pictures(paths: Sequence[Path]) -> list[Picture]:
    """Pictures that together stay within a limit."""
    most = _PICTURES // max(6, len(paths))
    return [picture_of(path, path.stem.replace("_", " "), f"{path.name}.", most) for path in paths]


def _curves(folder: Path) -> Section:
    """Losses during training: Cora's in the paper, and those behind tables 2 and 3."""
    parts: list[Part] = []
    path = folder / "curves_cora.json"
    if path.exists():
        found = _load(path)
        panels = []
        for method, titles in (
            ("diffpool", ("DiffPool: link loss", "DiffPool: entropy loss", "DiffPool: NMI")),
            ("mincut", ("MinCutPool: L_c", "MinCutPool: L_o", "MinCutPool: NMI")),
        ):
            points = found[method]
            for key, title in zip(("first", "second", "nmi"), titles, strict=True):
                values = [float(np.mean(point[key])) for point in points]
                colour = cluster_colours(2)[method == "mincut"]
                series = {
                    "name": _METHODS[method],
                    "x": [p["iteration"] for p in points],
                    "y": values,
                    "colour": colour,
                }
                panels.append({"title": title, "x": "iteration", "series": [series]})
        parts += [
            View("curves", plain({"panels": panels}), "Training on Cora, mean over ten seeds."),
            _picture(
                folder,
                "curves_cora.png",
                "Loss and NMI during training on Cora",
                "softcut reproduce citation",
            ),
            origin_of_file(found | {"command": "softcut reproduce citation"}, folder, path.name),
        ]
    else:
        parts.append(Missing("the curves on Cora", "softcut reproduce citation"))
    for file, names, methods, key, what, command in (
        (
            "table2_curves.json",
            table2.DATASETS,
            table2.METHODS,
            "accuracy",
            "Validation accuracy (table 2)",
            "classification",
        ),
        (
            "table3_curves.json",
            table3.PROPERTIES,
            table3.METHODS,
            "validation",
            "Validation MSE (table 3)",
            "regression",
        ),
    ):
        curves = read_cells(folder / file)
        if not curves:
            parts.append(Missing(what.lower(), f"softcut reproduce {command}"))
            continue
        data = plain({"panels": _panels(curves, names, methods, key), "legend": methods})
        parts.append(
            View("curves", data, f"{what} by epoch, mean over folds while at least half of them train.")
        )
    return Section("Training curves (figure)", parts)


def _panels(
    curves: Sequence[Mapping[str, Any]], names: Sequence[str], methods: Sequence[str], key: str
) -> list[dict[str, Any]]:
    """One panel per data set, one line per method; of several curves the one with most folds."""
    chosen = {(c["dataset"], c["method"]): c for c in sorted(curves, key=lambda curve: len(curve["folds"]))}
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
    parts: list[Part] = []
    for metric, words in (("nmi", "NMI"), ("ari", "adjusted Rand index"), ("acc", "accuracy")):
        own = {(c["dataset"], c["method"]): c for c in cells if c["metric"] == metric}
        if own:
            parts.append(pivot(own, quality.DATASETS, quality.METHODS, words, folded=metric != "nmi"))
    return Section(title, [*parts, origin_of_cells(cells, folder, "quality.json")])


def _evidence(folder: Path) -> Section:
    title = "Beyond the paper: evidence and NMI"
    rows = read_cells(folder / "evidence.json")
    if not rows:
        return Section(title, [Missing("evidence against NMI", "softcut reproduce evidence")])
    columns, lines = evidence.table(rows)
    made: list[list[str | Cell]] = [[line[0], *map(Cell, line[1:])] for line in lines]
    caption = "Rank correlation with NMI over a pool of clusterings of each graph."
    return Section(title, [Table(columns, made, caption), origin_of_file(rows, folder, "evidence.json")])


def _others(folder: Path) -> list[Section]:
    """Every other file of results, as it is."""
    found = sorted(p.name for p in folder.glob("*.json")) if folder.is_dir() else []
    names = [name for name in found if name not in _SHOWN and not name.endswith("_runs.json")]
    names = [name for name in names if not name.startswith("segmentation")]
    sections = []
    for name in dict.fromkeys([*_EXPECTED, *names]):
        title = _TITLES.get(name, name.removesuffix(".json").replace("_", " ").capitalize())
        if name not in names:
            sections.append(Section(title, [Missing(*_EXPECTED[name])]))
            continue
        value = _load(folder / name)
        sections.append(
            Section(
                title,
                [
                    *any_table(value),
                    *_pictures(sorted(folder.glob(name.removesuffix(".json") + "*.png"))),
                    origin_of_file(value, folder, name, _COMMANDS.get(name, "-")),
                ],
            )
        )
    return sections


def _pages(folder: Path) -> Section:
    """The tables of the documentation, which are rendered from the same files."""
    parts: list[Part] = [Text("As they stand in README.md and docs/, by their names there.")]
    absent = []
    for name, render in TABLES.items():
        if name in ("table2", "table3"):
            continue  # whole pages; the same as the sections above
        try:
            parts.append(Details(name, [Text(render(folder))]))
        except (SoftcutError, OSError, LookupError, ValueError, StopIteration):
            absent.append(name)
    if absent:
        parts.append(Missing(f"the results behind {', '.join(absent)}", "softcut reproduce, make bench"))
    return Section("Tables of the documentation", parts)
