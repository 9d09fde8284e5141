"""Table 2 as text: ours beside the paper's, what differs significantly, what is missing, and the page that shows it.

:mod:`softcut.paper.tables` writes it to its page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.paper.classification_results import FOLDS, Table2, missing_cells
from softcut.paper.classification_trials import UNCHANGED, is_trial, read_trial
from softcut.paper.classification_uniform import FILE as UNIFORM
from softcut.paper.classification_uniform import rows_of, uniform_ortho
from softcut.paper.common import markdown_table
from softcut.paper.runs import read_cells
from softcut.paper.significance import not_worse_than_the_best
from softcut.paper.table2 import (
    ABLATION_DATASETS,
    ABLATIONS,
    DATASETS,
    METHODS,
    PAPER,
    PAPER_METHODS,
    POOLERS,
    command_for,
)

__all__ = ["draw_curves", "page_text", "render"]

_CURVES = ("PROTEINS", "DD", "Bench-hard", "REDDIT-BINARY")


def is_repeated(dataset: str) -> bool:
    """Whether the "folds" of a data set are independent runs on one split."""
    return dataset.startswith("Bench")


def best_of(table: Table2, dataset: str, methods: Sequence[str]) -> dict[str, float]:
    """The best of some methods and those not significantly worse, with their p-values."""
    found = table.accuracies(dataset, methods)
    return not_worse_than_the_best(found, folds=not is_repeated(dataset)) if len(found) > 1 else {}


def render(out: str | Path, datasets: Sequence[str] = DATASETS, methods: Sequence[str] = METHODS) -> str:
    """Table 2 as Markdown from the cells in `out`: measured, and the paper's behind it in brackets.

    Bold: best, or not significantly worse than the best, of the paper's six poolers (p < 0.05; the folds' paired test
    corrected for their overlap, on Bench Welch's test over seeds). A star: a fresh draw of the data set's process.
    """
    table = Table2(out)
    used = [m for m in methods if any((d, m) in table.cells for d in datasets)]
    rows, drawn = [], False
    for dataset in datasets:
        if not any((dataset, m) in table.cells for m in used):
            continue
        bold, star = best_of(table, dataset, POOLERS), table.drawn(dataset)
        drawn = drawn or star
        row = [dataset + (" *" if star else "")]
        row += [_cell_text(table.cells.get((dataset, m)), m in bold) for m in used]
        rows.append(row)
    lines = [markdown_table(["data", *used], rows)]
    lines.append(
        "Test accuracy in percent, mean ± standard deviation over ten folds (Bench: ten runs); "
        "in brackets the paper's. "
        "Bold: the best of the six poolers Graclus, NDP, DiffPool, Top-K, SAGPool and MinCutPool, and those not "
        "significantly worse."
    )
    if drawn:
        lines.append("\\* a fresh draw of the process that made the published set, not the published graphs.")
    return "\n\n".join(lines)


def _cell_text(cell: Mapping[str, Any] | None, bold: bool) -> str:
    if cell is None:
        return "-"
    text = _plus_minus(cell["mean"], cell["std"])
    text = f"**{text}**" if bold else text
    paper = "" if cell["paper_mean"] is None else f" ({_plus_minus(cell['paper_mean'], cell['paper_std'])})"
    return text + paper + ("" if cell["n"] == FOLDS else f", {cell['n']} folds")


def _plus_minus(mean: float, std: float | None) -> str:
    return f"{mean:.1f}" if std is None else f"{mean:.1f} ± {std:.1f}"


def costs(table: Table2, datasets: Sequence[str], methods: Sequence[str]) -> str:
    """Median epochs and seconds of all folds together."""
    used = [m for m in methods if any((d, m) in table.cells for d in datasets)]
    rows = []
    for dataset in datasets:
        row = [dataset]
        for method in used:
            runs = table.runs(dataset, method)
            epochs = [run["epochs"] for run in runs if "epochs" in run]
            seconds = sum(run["seconds"] for run in runs)
            shown = f"{np.median(epochs):.0f} / " if epochs else ""
            row.append(f"{shown}{seconds:.0f} s" if runs else "-")
        rows.append(row)
    return markdown_table(["data", *used], rows)


def verdicts(table: Table2) -> str:
    """MinCutPool against the paper's mean less its deviation, and against the best of the six poolers."""
    rows, enough, first, measured = [], 0, 0, 0
    for dataset in DATASETS:
        cell = table.cells.get((dataset, "mincut"))
        if cell is None:
            continue
        measured += 1
        mean, std = PAPER[dataset, "mincut", "accuracy"]
        allowed = max(1.0, std or 0.0) if is_repeated(dataset) else std or 0.0
        good = cell["mean"] >= mean - allowed
        found = table.accuracies(dataset, POOLERS)
        among = best_of(table, dataset, POOLERS)
        best = max(found, key=lambda m, found=found: float(np.mean(list(found[m].values()))))  # type: ignore[misc]
        enough, first = enough + good, first + ("mincut" in among)
        if len(found) < 2:
            compared = "alone"
        elif best == "mincut":
            compared = "best"
        elif "mincut" in among:
            compared = f"not significantly worse than {best} (p = {among['mincut']:.2f})"
        else:
            compared = f"worse than {best}"
        left = len(POOLERS) - len(found)
        compared += f", {left} of the six not measured" if left else ""
        rows.append(
            [
                dataset,
                _plus_minus(cell["mean"], cell["std"]),
                f"{mean - allowed:.1f}",
                "yes" if good else "no",
                compared,
            ]
        )
    text = markdown_table(["data", "MinCutPool", "asked for", "reached", "among the six poolers"], rows)
    return (
        f"{text}\n\nMinCutPool reaches the paper's mean less one of the paper's standard deviations (Bench: less one "
        f"point or one standard deviation, whichever is larger) on {enough} of {len(DATASETS)} data sets, and is best, "
        f"or not significantly worse than the best, of the paper's six poolers on {first} of {len(DATASETS)}"
        + (f" ({measured} measured)." if measured < len(DATASETS) else ".")
    )


def degeneracy(table: Table2) -> str:
    """Accuracy, clusters used and both losses of MinCutPool and its variants."""
    rows = []
    for dataset in ABLATION_DATASETS:
        for method in ("mincut", *ABLATIONS):
            runs = table.runs(dataset, method)
            if not runs:
                continue
            numbers = {
                name: float(np.mean([run[name] for run in runs]))
                for name in ("clusters1", "clusters2", "cut1", "ortho1", "cut2", "ortho2")
            }
            k = runs[0]["settings"]["k"]
            cell = table.cells[dataset, method]
            rows.append(
                [dataset, method, _plus_minus(cell["mean"], cell["std"])]
                + [f"{numbers[f'clusters{i}']:.1f} of {k[i - 1]}" for i in (1, 2)]
                + [f"{numbers['cut1']:.3f}", f"{numbers['ortho1']:.3f} ({uniform_ortho(k[0]):.3f})"]
                + [f"{numbers['cut2']:.3f}", f"{numbers['ortho2']:.3f} ({uniform_ortho(k[1]):.3f})"]
            )
    names = [
        *("data", "method", "accuracy", "clusters used", "at level 2"),
        *("L_c", "L_o", "L_c 2", "L_o 2"),
    ]
    return markdown_table(names, rows)


def trials(table: Table2) -> str:
    """What was tried beside the table, the best by validation accuracy first, and what choosing by it gives."""
    groups: dict[tuple[str, str], list[str]] = {}
    for dataset, name in table.cells:
        if is_trial(name):
            groups.setdefault((dataset, read_trial(name).method), []).append(name)
    parts = []
    for (dataset, method), names in sorted(groups.items()):
        runs = {name: table.runs(dataset, name) for name in names}
        by_validation = sorted(names, key=lambda name: _validated(runs[name]), reverse=True)
        parts.append(f"**{dataset}, {method}**")
        rows = [_trial_row(name, runs[name], table.cells[dataset, name]) for name in by_validation]
        head = [
            "changed",
            "validation accuracy",
            "cross entropy",
            "test accuracy",
            "best epoch",
            "clusters used",
        ]
        parts.append(markdown_table([*head, "L_o", "L_o 2", "seconds"], rows))
        parts.append(_chosen_text(list(runs.values())))
    return "\n\n".join(parts)


def _validated(runs: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Mean validation accuracy, and the cross entropy (less is better) that decides between equals."""
    return (
        float(np.mean([run["validation_accuracy"] for run in runs])),
        -float(np.mean([run["validation_task"] for run in runs])),
    )


def _trial_row(name: str, runs: Sequence[Mapping[str, Any]], cell: Mapping[str, Any]) -> list[str]:
    accuracy, entropy = _validated(runs)
    changed = name.partition("+")[2]
    row = ["nothing" if changed == UNCHANGED else changed.replace("+", ", ")]
    row += [f"{accuracy:.1f}", f"{-entropy:.3f}", _cell_text(cell, False)]
    row.append(f"{np.median([run['best_epoch'] for run in runs]):.0f}")
    k = runs[0]["settings"]["k"]
    for name, shown in (
        ("clusters1", "{:.1f} of {}"),
        ("ortho1", "{:.3f} ({:.3f})"),
        ("ortho2", "{:.3f} ({:.3f})"),
    ):
        size = k[int(name[-1]) - 1]
        other = size if name.startswith("clusters") else uniform_ortho(size)
        row.append(shown.format(np.mean([run[name] for run in runs]), other) if name in runs[0] else "-")
    return [*row, f"{sum(run['seconds'] for run in runs):.0f}"]


def _chosen_text(trials: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Test accuracy where each fold takes the settings that are best on its own validation graphs."""
    found = []
    for fold in range(FOLDS):
        mine = [run for runs in trials for run in runs if run["seed"] == fold]
        if mine:
            found.append(max(mine, key=lambda run: _validated([run]))["accuracy"])
    return (
        f"With the settings chosen in each fold by its own validation graphs: "
        f"{_plus_minus(float(np.mean(found)), float(np.std(found)))}."
    )


def page_text(out: str | Path) -> str:
    """What stands on the page between the two marks."""
    table = Table2(out)
    gone = missing_cells(out)
    ablations = missing_cells(out, ABLATION_DATASETS, tuple(ABLATIONS))
    gpu = sum(
        cell["seconds"]
        for (_, method), cell in table.cells.items()
        if method in PAPER_METHODS and "CPU" not in cell["device"]
    )
    parts = [
        render(out),
        "Significance: Student's paired test over folds with the variance corrected for the overlap of their training "
        "parts (Nadeau and Bengio, 2003), one-sided, 5 %; on Bench, which has one split, Welch's test over seeds.",
        "### MinCutPool",
        verdicts(table),
        "### Epochs and seconds",
        "Median epochs of a fold / seconds of all folds together. "
        f"The networks of the paper's table took {gpu / 60:.0f} minutes of a GPU in sum.",
        costs(table, DATASETS, METHODS),
        "### Does MinCutPool degenerate?",
        "Test graphs, mean over folds: clusters that are the first choice of at least one node, and both losses before "
        "their weights, at both levels; in brackets the L_o of an assignment that puts every node into all clusters "
        "alike, which has L_c = -1 and is degenerate. `mincut-nolosses`: both losses off; `mincut-noortho`: L_o off; "
        "`mincut-diagonal`: the diagonal of the pooled adjacency is kept.",
        degeneracy(table),
    ]
    smoothness = read_cells(Path(out) / UNIFORM)
    if smoothness:
        parts += [
            "### Why assignments stay uniform",
            "The uniform assignment has the smallest L_c there is, and no gradient. It is left only where L_o gains "
            "more than L_c loses, to second order: along changes of S with q below w_o / (w_c u √K), with w_o and w_c "
            "the weights of the losses, u the uniform L_o and q the mean squared difference between neighbours over "
            "the variance within the graph (formulas in `softcut.paper.classification_uniform`). `smallest q`: the "
            "least that any direction of the first pooler's hidden features has before training, mean over ten "
            "networks. At the second level nothing differs between clusters while the first is uniform, so it stays "
            "uniform as well.",
            rows_of(smoothness),
        ]
    tried = trials(table)
    if tried:
        parts += [
            "### What was tried",
            "Other settings than the table's, the best on the validation graphs first; the test accuracy stands beside "
            "it for all of them and chose nothing. `changed` is what follows the method's name in the command: "
            "`--method mincut+lr=0.002+batch=8`. Cross entropy: of the validation graphs, without auxiliary losses. "
            "In brackets the L_o of the uniform assignment.",
            tried,
        ]
    speed = throughput(out)
    if speed:
        parts += [
            "### Training graphs per second",
            "MinCutPool's network, all ten folds, 32 graphs per fold and step; making the batch is part of a step "
            "(`python benchmarks/classification.py`). PyG: PyTorch Geometric's dense layers with `dense_mincut_pool`, "
            "one fold after another; tgp: GraphConv and torch-geometric-pool's MinCutPooling on sparse graphs, "
            "likewise.",
            speed,
        ]
    parts += [
        "### What is missing",
        _missing_text([*gone, *ablations], missing_cells(out, methods=METHODS[len(PAPER_METHODS) :])),
    ]
    if (Path(out) / "table2_curves.json").exists():
        parts += ["### Training curves", "![Validation loss and accuracy by epoch](images/table2_curves.png)"]
    return "\n\n".join(parts)


def throughput(out: str | Path) -> str:
    """What ``benchmarks/classification.py`` measured on each device; empty where it was not run."""
    parts = []
    for name in ("classification_step_gpu.json", "classification_step_cpu.json"):
        path = Path(out) / name
        if not path.exists():
            continue
        measured = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            [
                row["dataset"],
                row["way"],
                f"{row['graphs_per_second']:,.{0 if row['graphs_per_second'] >= 10 else 1}f}",
                f"{row['softcut_is_faster_by']:.1f}",
                f"{row['memory_bytes'] / 2**30:.2f}",
            ]
            for row in measured["rows"]
            if "graphs_per_second" in row  # a peer that is not installed has none
        ]
        columns = ["data", "way", "training graphs per second", "softcut is faster by", "peak memory, GiB"]
        parts += [f"{measured['device']}, PyTorch {measured['torch']}:", markdown_table(columns, rows)]
    return "\n\n".join(parts)


def _missing_text(gone: Sequence[tuple[str, str, int]], beyond: Sequence[tuple[str, str, int]] = ()) -> str:
    """Missing cells with their commands: those of the paper and the ablations, then those beyond the paper."""
    if gone:
        text = "\n".join(
            [f"{len(gone)} cells, each with the command that makes it:", "", *_missing_lines(gone)]
        )
    else:
        text = "Of the paper's table and the ablations nothing: every cell has ten folds."
    if beyond:
        more = f"Of the poolers beyond the paper {len(beyond)} cells, for want of GPU time:"
        text = "\n".join([text, "", more, "", *_missing_lines(beyond)])
    return text


def _missing_lines(gone: Sequence[tuple[str, str, int]]) -> list[str]:
    return [
        f"- {dataset}, {method}: {'not run yet' if not count else f'{count} of {FOLDS} folds'}; "
        f"`{command_for(dataset, method)}`"
        for dataset, method, count in gone
    ]


def draw_curves(curves: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Validation loss and accuracy by epoch, one column per data set, one line per method.

    Parameters
    ----------
    curves : sequence of mapping
        Of ``table2_curves.json``; of several for one data set and method the one with most folds is drawn.
    path : path
        The picture.
    """
    from softcut.report.plots import cluster_colours, figure, save_figure

    chosen: dict[tuple[str, str], Mapping[str, Any]] = {}
    for curve in curves:
        key = (curve["dataset"], curve["method"])
        if key not in chosen or len(curve["folds"]) > len(chosen[key]["folds"]):
            chosen[key] = curve
    names = [d for d in _CURVES if any(key[0] == d for key in chosen)] or sorted({key[0] for key in chosen})[
        :4
    ]
    methods = [m for m in METHODS if any((d, m) in chosen for d in names)]
    colours = dict(zip(methods, cluster_colours(len(methods)), strict=True))
    fig, axes = figure(2, len(names), figsize=(3.4 * len(names), 5.2), sharex="col", squeeze=False)
    for column, dataset in enumerate(names):
        for method in methods:
            found = chosen.get((dataset, method))
            if found is None:
                continue
            # Where most folds have stopped, the mean is that of a few.
            last = int((np.array(found["training"]) * 2 >= len(found["folds"])).sum())
            for row, name in enumerate(("loss", "accuracy")):
                epochs = np.arange(1, last + 1)
                axes[row, column].plot(epochs, found[name][:last], color=colours[method], label=method, lw=1)
        axes[0, column].set_title(dataset)
        axes[1, column].set_xlabel("epoch")
    axes[0, 0].set_ylabel("validation loss")
    axes[1, 0].set_ylabel("validation accuracy (%)")
    axes[0, -1].legend(fontsize=7)
    return save_figure(fig, path)
