"""The whole report: every table, figure and measurement of a folder of results, as sections of one page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError
from softcut.files import atomic_write
from softcut.paper import autoencoder, evidence, segmentation, synthetic, table2, table3
from softcut.paper.report_files import any_table, load_result, origin_of_cells, origin_of_file
from softcut.paper.report_schemata import schemata_section
from softcut.paper.report_tables import statistics_section, table1_section, table2_section, table3_section
from softcut.paper.runs import read_cells
from softcut.provenance import commit
from softcut.report.html_page import (
    Details,
    Missing,
    Part,
    Picture,
    Section,
    Text,
    View,
    picture_of,
    plain,
    render_page,
)
from softcut.report.plots import cluster_colours, line_styles
from softcut.report.tables import number_table

__all__ = ["VIEWS", "VIEWS_COMMAND", "report_sections", "view_sections", "write_report"]

VIEWS, VIEWS_COMMAND = "views.json", "python -m tools.views --out results"
# Files that a section of their own shows.
_SHOWN = {
    *("table1.json", "table2.json", "table3.json", "table2_curves.json", "table3_curves.json", VIEWS),
    *("synthetic.json", "autoencoder.json", "autoencoder_decay.json", "curves_cora.json", "quality.json"),
    *("evidence.json", "table3_trials_curves.json"),
}
_PICTURES = 1_500_000  # bytes of all pictures of a section together


def report_sections(folder: str | Path) -> list[Section]:
    """All sections of a folder of results.

    >>> [section.title for section in report_sections("no such folder")][:2]
    ['Table 1: clustering the citation networks', 'Table 2: graph classification']
    """
    folder = Path(folder)
    return [
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
        *_other_results(folder),
    ]


def write_report(folder: str | Path, out: str | Path, extra: Sequence[Section] = ()) -> Path:
    """Write the report of a folder of results; `extra` sections come first."""
    if not Path(folder).is_dir():
        raise DataError(
            f"there is no folder {folder} with results; run softcut reproduce, or name it with --results."
        )
    today = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
    subtitle = f"Made on {today} by softcut report at commit {commit()} from {Path(folder).name}/."
    sections = [*extra, *report_sections(folder)]
    return atomic_write(
        out, render_page("softcut: the paper's experiments, measured", sections, subtitle).encode()
    )


def _picture(folder: Path, name: str, alt: str, command: str) -> Part:
    path = folder / name
    return picture_of(path, alt, f"{alt} ({name}).") if path.exists() else Missing(alt.lower(), command)


def _synthetic(folder: Path) -> Section:
    title, command = "Figure: clusters of synthetic graphs", "softcut reproduce synthetic"
    rows = read_cells(folder / "synthetic.json")
    if not rows:
        return Section(title, [Missing("the synthetic graphs", command)])
    picture = _picture(folder, "synthetic.png", "Communities and a grid by three methods", command)
    return Section(title, [picture, synthetic.table(rows), origin_of_cells(rows, folder, "synthetic.json")])


def _autoencoder(folder: Path) -> Section:
    parts: list[Part] = [
        Text(
            'The autoencoder of the paper pools a signal on a graph and lifts it back; "decay" is a learning rate '
            "that falls to 0."
        )
    ]
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
        if not cells or "metric" not in cells[0]:
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
    parts += _segmented(pictures) if pictures else [Missing("the figure of segmented pictures", command)]
    for file, what in (("segmentation_figure.json", "the figure"), ("segmentation_speed.json", "speed")):
        if (folder / file).exists():
            value = load_result(folder / file)
            parts += [Details(f"Numbers of {what}", any_table(value)), origin_of_file(value, folder, file)]
    return Section("Figure: image segmentation", parts)


def _segmented(paths: Sequence[Path]) -> list[Picture]:
    """The figure of each picture; together they stay within a limit."""
    most = _PICTURES // max(6, len(paths))
    names = [path.stem.removeprefix("segmentation_") for path in paths]
    caption = "The picture {}, over-segmented, as a graph of regions, and segmented by each method ({})."
    return [
        picture_of(path, f"Segmentations of the picture {name}", caption.format(name, path.name), most)
        for path, name in zip(paths, names, strict=True)
    ]


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
        found = load_result(path)
        panels = []
        for colour, method, losses in zip(
            cluster_colours(2),
            ("diffpool", "mincut"),
            (("DiffPool: link loss", "DiffPool: entropy loss"), ("MinCutPool: L_c", "MinCutPool: L_o")),
            strict=True,
        ):
            name = losses[0].partition(":")[0]
            at = [point["iteration"] for point in found[method]]
            for key, title in zip(("first", "second", "nmi"), (*losses, f"{name}: NMI"), strict=True):
                values = [float(np.mean(point[key])) for point in found[method]]
                series = {"name": name, "x": at, "y": values, "colour": colour}
                panels.append({"title": title, "x": "iteration", "series": [series]})
        parts += [
            View("curves", plain({"panels": panels}), "Training on Cora, mean over ten seeds."),
            _picture(folder, "curves_cora.png", "Loss and NMI during training on Cora", command),
            origin_of_file(found | {"command": command}, folder, path.name),
        ]
    else:
        parts.append(Missing("the curves on Cora", command))
    for module, names, key, what, command in (
        (table2, table2.DATASETS, "accuracy", "Validation accuracy (table 2)", "classification"),
        (table3, table3.PROPERTIES, "validation", "Validation MSE (table 3)", "regression"),
    ):
        methods = module.METHODS
        curves = read_cells(folder / f"{module.__name__.rpartition('.')[2]}_curves.json")
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
    text = "The default of GraphClustering beside what one would use instead, by agreement with the known classes."
    return Section(title, [Text(text), *any_table(cells), origin_of_cells(cells, folder, "quality.json")])


def _evidence(folder: Path) -> Section:
    title = "Beyond the paper: evidence, a score without labels"
    rows = read_cells(folder / "evidence.json")
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
