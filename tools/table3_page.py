"""The page of table 3 (docs/regression.md): what differs significantly, costs, speed, trials, what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.paper import regression
from softcut.paper.comparison import FOLDS, Results, longest_curves
from softcut.paper.regression import METHODS, PAPER, PAPER_METHODS, PROPERTIES, command_for, label_of
from softcut.paper.runs import Records
from softcut.report.tables import markdown_table, to_markdown
from tools.results import read_json
from tools.verdicts import table3_verdicts

_NAMES = {"topk": "Top-K", "diffpool": "DiffPool", "mincut": "MinCutPool", "flat": "Flat"}
_DOTTED = (0, (2, 3))
_UNMASKED = {f"{method} (unmasked)": method for method in METHODS}
_OF_SIZE = ("alpha", "r2", "u0_atom", "cv")  # they grow with the molecule
_SHORTENED = re.compile(r"epochs \d+|molecules \d+")
Trials = dict[str, dict[str, dict[int, float]]]  # test MSE by the trial's name, property and fold


def _read_trials(out: str | Path) -> Trials:
    recorded: Trials = {}
    for run in Records(Path(out) / "table3_trials_runs.json").runs:
        label = label_of(run["method"], run["settings"])
        recorded.setdefault(label, {}).setdefault(run["dataset"], {})[run["seed"]] = run["mse"]
    return recorded


def _ordered(names: Iterable[str]) -> list[str]:
    """Methods in the table's order, trials of each after it."""
    return sorted(set(names), key=lambda m: (METHODS.index(m.split(" (")[0]), m))


def last_epoch(table: Results) -> str:
    """How far the test MSE after all epochs is from that of the chosen epoch."""
    changes = [
        cell["mean"] - table.cells[name, method]["mean"]
        for (name, method, score), cell in table.other.items()
        if score == "mse_last"
    ]
    return f"After the last epoch instead, the errors are {min(changes):.3f} to {max(changes):.3f} higher."


def costs(table: Results) -> str:
    """Seconds of all networks of a method, and the epochs that were chosen."""
    runs = {m: [run for name in PROPERTIES for run in table.runs(name, m)] for m in PAPER_METHODS}
    known = {method: own for method, own in runs.items() if own}
    told = [f"{method} {sum(run['seconds'] for run in own):.0f} s" for method, own in known.items()]
    epochs = [float(np.median([run["best_epoch"] for run in own])) for own in known.values()] or [0.0]
    where = sorted({f"{len(own)} networks, {run['device']}" for own in known.values() for run in own})
    return (
        f"{', '.join(told)} ({'; '.join(where)}); median best epoch: {min(epochs):.0f} to {max(epochs):.0f}."
    )


def speed(out: str | Path) -> str:
    """Steps per second of all networks together against one alone, from ``table3_speed.json``."""
    speed = read_json(out, "table3_speed")
    rows = [
        [
            row["method"],
            row["way"],
            str(row["replicas"]),
            f"{1e3 * row['step_s']:.3f} ms",
            f"{row['replica_steps_per_s']:,.0f}",
            f"{row['ratio']:.1f}",
        ]
        for row in speed["rows"]
    ]
    columns = ["method", "way", "networks in a step", "a step", "network steps per second", "times slower"]
    return (
        f"{markdown_table(columns, rows)}\n\n{speed['device']}, PyTorch {speed['torch']}, {speed['steps']} steps of "
        "each way. The last column is what all networks would take that way, divided by what the fastest takes."
    )


def trials(recorded: Trials) -> str:
    """Test MSE of the trials, without shortened ones and those without the mask."""
    labels = [
        label for label in _ordered(recorded) if not _SHORTENED.search(label) and label not in _UNMASKED
    ]
    rows = [_trial_row(each, recorded[each]) for each in labels]
    return markdown_table(["settings", "folds", *PROPERTIES], rows) if rows else ""


def unmasked(table: Results, recorded: Trials) -> str:
    """Test MSE without the mask beside the paper's, and how near to it each method is with the mask and without."""
    columns = [label for label in _UNMASKED if len(recorded.get(label, {})) == len(PROPERTIES)]
    if not columns:
        return ""
    means = {
        (name, _UNMASKED[label]): float(np.mean(list(recorded[label][name].values())))
        for label in columns
        for name in PROPERTIES
    }
    paper = {key: PAPER[*key, "mse"] for key in means}
    methods = [_UNMASKED[label] for label in columns]
    rows = [
        [name, *(f"{means[name, m]:.3f} ({paper[name, m][0]:.3f})" for m in methods)] for name in PROPERTIES
    ]
    told = []
    for method in methods:
        of_size = [(name, method) for name in _OF_SIZE]
        masked = np.mean([table.cells[key]["mean"] / paper[key][0] for key in of_size])
        told.append(
            f"{_NAMES[method]} {masked:.2f} and {np.mean([means[key] / paper[key][0] for key in of_size]):.2f}"
        )
    note = f"Error over the paper's, mean of {', '.join(_OF_SIZE)}, with the mask and without: {', '.join(told)}."
    return f"{markdown_table(['property', *methods], rows)}\n\n{note}"


def _trial_row(label: str, errors: Mapping[str, Mapping[int, float]]) -> list[str]:
    row = [label, str(len({fold for values in errors.values() for fold in values}))]
    for name in PROPERTIES:
        values = list(errors.get(name, {}).values())
        row.append(f"{np.mean(values):.3f}" if values else "-")
    return row


def missing(table: Results) -> str:
    """Cells with fewer than ten folds, and what makes them."""
    gone = table.missing(PROPERTIES, METHODS)
    if not gone:
        return f"Every one of the {len(PROPERTIES) * len(METHODS)} cells has {FOLDS} folds."
    lines = [f"- {n}, {m}: {count} of {FOLDS} folds; `{command_for(m, n)}`" for n, m, count in gone]
    return "\n".join([f"{len(gone)} cells are not finished:", "", *lines])


def page_text(out: str | Path) -> str:
    """What stands on the page between the two marks."""
    table, tried = regression.results(out), _read_trials(out)
    parts = [
        to_markdown(regression.table(table)),
        missing(table),
        table3_verdicts(table),
        *([last_epoch(table)] if table.other else []),
        f"All networks of a method took: {costs(table)}",
    ]
    if (Path(out) / "table3_speed.json").exists():
        parts += ["### Together against one by one", speed(out)]
    if without := unmasked(table, tried):
        parts += ["### Without the mask", without]
    if others := trials(tried):
        parts += ["### Trials with other settings", "Test MSE, to compare with table 3.", others]
    if (Path(out) / "table3_curves.json").exists():
        parts += ["### Training curves", "![Validation MSE by epoch](images/table3_curves.png)"]
    return "\n\n".join(parts)


def draw_curves(curves: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Validation MSE by epoch, one panel per property, one line per method; dotted: the paper's test MSE."""
    from softcut.colours import cluster_colours
    from softcut.report.plots import figure, save_figure

    chosen = longest_curves(curves)
    names = [name for name in PROPERTIES if any(key[0] == name for key in chosen)]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    fig, axes = figure(lines, columns, figsize=(3.6 * columns, 2.6 * lines), sharex=True, squeeze=False)
    colours = dict(zip(METHODS, cluster_colours(len(METHODS)), strict=True))
    for panel, name in zip(axes.flat, names, strict=False):
        for method in METHODS:
            if (name, method) in chosen:
                values = chosen[name, method]["validation"]
                epochs = np.arange(1, len(values) + 1)
                panel.plot(epochs, values, color=colours[method], label=_NAMES[method], lw=1.4)
                panel.axhline(PAPER[name, method, "mse"][0], color=colours[method], ls=_DOTTED, lw=0.8)
        panel.set_title(name)
    for panel in axes.flat[len(names) :]:
        panel.set_visible(False)
    for panel in axes[-1]:
        panel.set_xlabel("epoch")
    for panel in axes[:, 0]:
        panel.set_ylabel("validation MSE")
    axes.flat[0].plot([], [], color="0.4", ls=_DOTTED, lw=0.8, label="paper's test MSE")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, ncols=len(handles), loc="outside upper center", frameon=False)
    return save_figure(fig, path)
