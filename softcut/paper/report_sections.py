"""The whole report: every table, figure and measurement of a folder of results, as sections of one page."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError
from softcut.files import atomic_write
from softcut.paper import table2, table3
from softcut.paper.report_files import any_table
from softcut.paper.report_measured import documented_tables, load_result, measured_sections, table_parts
from softcut.paper.report_origin import origin_of_cells, origin_of_file
from softcut.paper.report_schemata import schemata_section
from softcut.paper.report_tables import statistics_section, table1_section, table2_section, table3_section
from softcut.paper.report_views import FILE as VIEWS
from softcut.paper.report_views import view_sections
from softcut.paper.runs import read_cells
from softcut.paper.segmentation import result_table
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

__all__ = ["report_sections", "write_report"]

# By their titles here.
_QUALITY_TABLES = {
    "NMI": "quality-nmi",
    "Accuracy": "quality-accuracy",
    "Adjusted Rand index": "quality-ari",
    "With one part of the default changed": "ablations",
    "Structure and verdict": "structure",
    "Where another method is ahead": "behind",
    "When the number of clusters is chosen, too": "number-of-clusters",
}
_EVIDENCE_TABLES = {"Rank correlation with NMI over a pool of clusterings of each graph": "rank-correlations"}
_AUTOENCODER_TABLES = {
    "Median MSE as a share of the signal's variance": "reconstruction",
    "The same, with mean ± standard deviation of the MSE": "reconstruction-spread",
}
_SEGMENTATION_TABLES = {
    "Paired differences over images": "segmentation-tests",
    "Number of segments with the best score for all images, and time": "segmentation-scales",
    "Time of a photo of one megapixel": "segmentation-speed",
}
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
# Tables of the documentation that sections of their own show, or whose numbers they show.
_TABLES_SHOWN = (
    *(
        "table1",
        "table2",
        "table3",
        "beyond-table1",
        "synthetic",
        "headline",
        "benchmarks-short",
        "segmentation",
    ),
    *_QUALITY_TABLES.values(),
    *_EVIDENCE_TABLES.values(),
    *_AUTOENCODER_TABLES.values(),
    *_SEGMENTATION_TABLES.values(),
)
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
    files = {*_SHOWN, *(path.name for path in folder.glob("segmentation*.json"))}
    return [*known, *measured_sections(folder, files), *documented_tables(folder, _TABLES_SHOWN)]


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


def _synthetic(folder: Path) -> Section:
    command = "softcut reproduce synthetic"
    rows = read_cells(folder / "synthetic.json")
    parts: list[Part] = [
        _picture(folder, "synthetic.png", "Communities and a grid by three methods", command)
    ]
    if not rows:
        return Section("Figure: clusters of synthetic graphs", [Missing("the synthetic graphs", command)])
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
    return Section("Figure: clusters of synthetic graphs", parts)


def _autoencoder(folder: Path) -> Section:
    parts: list[Part] = [
        Text(
            'The autoencoder of the paper pools a signal on a graph and lifts it back; "decay" is a learning rate '
            "that falls to 0."
        ),
        *table_parts(folder, _AUTOENCODER_TABLES),
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
        parts += [
            _picture(folder, f"{name}.png", f"Original and reconstructions, {what}", command),
            origin_of_cells(cells, folder, f"{name}.json"),
        ]
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
        parts += [
            Text(
                f"Segmentations of {cells[0]['dataset']} beside those that people made. Each score with one number of "
                "segments for all images (ODS) / with the best number for each image (OIS). A star: minCUT differs "
                "significantly from the method (Wilcoxon's test over images, 5 %)."
            ),
            Text(result_table(cells)),
            origin_of_cells(cells, folder, f"{name}.json"),
        ]
    if parts:
        parts += table_parts(folder, _SEGMENTATION_TABLES)
    else:
        parts.append(Missing("segmentations scored against people's (BSDS500)", command))
    pictures = sorted(folder.glob("segmentation_*.png"))
    parts += _segmented(pictures) if pictures else [Missing("the figure of segmented pictures", command)]
    figure = read_cells(folder / "segmentation_figure.json")
    if figure:
        parts += [Details("Numbers of the figure", any_table(figure))]
        parts.append(origin_of_file(figure, folder, "segmentation_figure.json"))
    speed = folder / "segmentation_speed.json"
    if speed.exists():
        found = load_result(speed)
        parts += [
            Details(f"All numbers of {speed.name}", any_table(found)),
            origin_of_file(found, folder, speed.name),
        ]
    else:
        parts.append(Missing("time beside scikit-image", "python benchmarks/segmentation.py"))
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


def _curves(folder: Path) -> Section:
    """Losses during training: Cora's in the paper, and those behind tables 2 and 3."""
    parts: list[Part] = []
    path = folder / "curves_cora.json"
    if path.exists():
        found = load_result(path)
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
    parts: list[Part] = [Text(text), *table_parts(folder, _QUALITY_TABLES)]
    parts.append(Details("All numbers of quality.json", any_table(cells)))
    return Section(title, [*parts, origin_of_cells(cells, folder, "quality.json")])


def _evidence(folder: Path) -> Section:
    title = "Beyond the paper: evidence, a score without labels"
    rows = read_cells(folder / "evidence.json")
    if not rows:
        return Section(title, [Missing("evidence against NMI", "softcut reproduce evidence")])
    text = (
        "Evidence is computed without labels: how much a clustering explains of edges and features, for what its "
        "labels cost. The table shows how well it, and other scores, rank clusterings of one graph by their NMI."
    )
    parts: list[Part] = [Text(text), *table_parts(folder, _EVIDENCE_TABLES)]
    return Section(title, [*parts, origin_of_file(rows, folder, "evidence.json")])
