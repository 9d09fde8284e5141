"""Table 3 as text: measured beside published, what differs significantly, trials, speed, and the page that shows it.

:mod:`softcut.paper.tables` writes it to its page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError
from softcut.paper.common import markdown_table
from softcut.paper.regression_task import label_of
from softcut.paper.runs import Records, read_cells
from softcut.paper.significance import not_worse_than_the_best, worse_by_folds
from softcut.paper.table3 import FOLDS, METHODS, PAPER, PROPERTIES, command_for

__all__ = ["Table3", "draw_curves", "page_text", "render"]

_NAMES = {"topk": "Top-K", "diffpool": "DiffPool", "mincut": "MinCutPool", "flat": "Flat"}
_DOTTED = (0, (2, 3))
_RIVALS = ("topk", "diffpool")  # the poolers that MinCutPool is compared with


class Table3:
    """The cells of a folder of results, and the runs that they are the means of.

    >>> Table3("no such folder").cells
    {}

    Attributes
    ----------
    cells : dict
        By property, method and metric ("mse" at the best validation epoch, "mse_last").
    trials : dict
        Of runs with other settings: by the name that says which, and by property, test MSE by fold.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        found = read_cells(self.out / "table3.json")
        self.cells = {(cell["dataset"], cell["method"], cell["metric"]): cell for cell in found}
        self._runs = Records(self.out / "table3_runs.json").runs
        self.trials: dict[str, dict[str, dict[int, float]]] = {}
        for run in Records(self.out / "table3_trials_runs.json").runs:
            label = label_of(run["method"], run["settings"])
            self.trials.setdefault(label, {}).setdefault(run["dataset"], {})[run["seed"]] = run["mse"]

    def runs(self, name: str, method: str) -> list[dict[str, Any]]:
        """The runs of a cell; a DataError where they do not have its mean."""
        found = [run for run in self._runs if (run["dataset"], run["method"]) == (name, method)]
        cell = self.cells.get((name, method, "mse"))
        if cell is None:
            return []
        if len(found) != cell["n"] or abs(np.mean([run["mse"] for run in found]) - cell["mean"]) > 1e-4:
            raise DataError(
                f"{self.out / 'table3.json'} and its runs disagree on {method} for {name}: merge them again with "
                f"python -m softcut.paper.regression --out {self.out} --merge {self.out}."
            )
        return found

    def errors(self, name: str, method: str) -> dict[int, float]:
        """Test MSE by fold."""
        return {run["seed"]: run["mse"] for run in self.runs(name, method)}

    def best_of(self, name: str, methods: Iterable[str] = METHODS) -> dict[str, float]:
        """The method with the lowest MSE and those not significantly worse, with their p-values."""
        found = {m: self._scores(name, m) for m in methods if (name, m, "mse") in self.cells}
        return not_worse_than_the_best(found, folds=True)

    def worse(self, name: str, one: str, other: str) -> float:
        """p-value that `one` has a higher MSE than `other`."""
        return worse_by_folds(self._scores(name, one), self._scores(name, other))

    def _scores(self, name: str, method: str) -> dict[int, float]:
        """Higher is better, as the tests want it."""
        return {fold: -error for fold, error in self.errors(name, method).items()}


def render(
    out: str | Path,
    properties: Sequence[str] = PROPERTIES,
    methods: Sequence[str] = METHODS,
    table: str = "table3",
) -> str:
    """A list of the cells in Markdown: test MSE at the best validation epoch, at the last epoch, and the paper's.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     render(folder)
    'no results yet'
    """
    found = read_cells(Path(out) / f"{table}.json")
    cells = {(cell["dataset"], cell["method"], cell["metric"]): cell for cell in found}
    rows = []
    for name in properties:
        for method in _ordered(cell["method"] for cell in found):
            cell, last = (cells.get((name, method, metric)) for metric in ("mse", "mse_last"))
            if method.split(" (")[0] in methods and cell is not None and last is not None:
                paper = _plus_minus(cell["paper_mean"], cell["paper_std"])
                numbers = [_plus_minus(c["mean"], c["std"]) for c in (cell, last)]
                rows.append([name, method, *numbers, str(cell["n"]), paper, f"{cell['seconds']:.1f}"])
    if not rows:
        return "no results yet"
    columns = ["property", "method", "test MSE", "at the last epoch", "folds", "paper", "seconds"]
    return markdown_table(columns, rows)


def _ordered(names: Iterable[str]) -> list[str]:
    """Methods in the table's order, trials of each after it."""
    return sorted(set(names), key=lambda m: (METHODS.index(m.split(" (")[0]), m))


def _plus_minus(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "-"
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"


def main_table(table: Table3) -> str:
    """Ours, and the paper's in brackets; bold is the best, or not significantly worse."""
    rows = []
    for name in PROPERTIES:
        bold, row = table.best_of(name), [name]
        for method in METHODS:
            cell = table.cells.get((name, method, "mse"))
            if cell is None:
                row.append("-")
                continue
            text = _plus_minus(cell["mean"], cell["std"])
            text = f"**{text}**" if method in bold else text
            few = "" if cell["n"] == FOLDS else f", {cell['n']} folds"
            row.append(f"{text} ({_plus_minus(*PAPER[name, method, 'mse'])}){few}")
        rows.append(row)
    return markdown_table(["property", *METHODS], rows)


def last_epoch(table: Table3) -> str:
    """Test MSE after all epochs."""
    cells = ((name, [table.cells.get((name, m, "mse_last")) for m in METHODS]) for name in PROPERTIES)
    rows = [
        [name, *("-" if c is None else _plus_minus(c["mean"], c["std"]) for c in row)] for name, row in cells
    ]
    return markdown_table(["property", *METHODS], rows)


def verdicts(table: Table3) -> str:
    """MinCutPool against the paper's mean plus its deviation, and against the other two poolers."""
    rows, reached, lower, significant = [], 0, 0, 0
    for name in PROPERTIES:
        cell = table.cells.get((name, "mincut", "mse"))
        if cell is None:
            continue
        mean, std = PAPER[name, "mincut", "mse"]
        asked = mean + (std or 0.0)
        good = cell["mean"] <= asked
        row = [name, _plus_minus(cell["mean"], cell["std"]), f"{asked:.3f}", "yes" if good else "no"]
        rivals = [m for m in _RIVALS if (name, m, "mse") in table.cells]
        wins = [cell["mean"] < table.cells[name, m, "mse"]["mean"] for m in rivals]
        p_values = [table.worse(name, m, "mincut") for m in rivals]
        row += [f"{'yes' if win else 'no'} (p = {p:.1g})" for win, p in zip(wins, p_values, strict=True)]
        rows.append(row + ["-"] * (len(_RIVALS) - len(rivals)))
        every = len(rivals) == len(_RIVALS)
        reached += good
        lower += every and all(wins)
        significant += every and all(p < 0.05 for p in p_values)
    names = ["property", "MinCutPool", "asked for", "reached", *(f"lower than {_NAMES[m]}" for m in _RIVALS)]
    of = len(PROPERTIES)
    return (
        f"{markdown_table(names, rows)}\n\nThe error of MinCutPool is at most the paper's mean plus one of the paper's "
        f"standard deviations on {reached} of {of} properties. It is lower than those of Top-K and DiffPool on {lower} "
        f"of {of}, significantly so (5 %) on {significant}."
    )


def costs(table: Table3) -> str:
    """Seconds of all networks of a method, and the epoch that was chosen."""
    rows = []
    for method in METHODS:
        runs = [run for name in PROPERTIES for run in table.runs(name, method)]
        if runs:
            device = ", ".join(sorted({run["device"] for run in runs}))
            epochs = f"{np.median([run['best_epoch'] for run in runs]):.0f} of {runs[0]['epochs']}"
            rows.append(
                [method, str(len(runs)), f"{sum(run['seconds'] for run in runs):.0f} s", epochs, device]
            )
    return markdown_table(["method", "networks", "seconds together", "median best epoch", "device"], rows)


def speed(out: str | Path) -> str:
    """Steps per second of all networks together against one alone, from ``table3_speed.json``."""
    found = json.loads((Path(out) / "table3_speed.json").read_text(encoding="utf-8"))
    rows = [
        [
            row["method"],
            row["way"],
            str(row["replicas"]),
            f"{1e3 * row['step_s']:.3f} ms",
            f"{row['replica_steps_per_s']:,.0f}",
            f"{row['ratio']:.1f}",
        ]
        for row in found["rows"]
    ]
    columns = ["method", "way", "networks in a step", "a step", "network steps per second", "times slower"]
    return (
        f"{markdown_table(columns, rows)}\n\n{found['device']}, PyTorch {found['torch']}, {found['steps']} steps of "
        "each way. The last column is what all networks would take that way, divided by what the fastest takes."
    )


def trials(table: Table3) -> str:
    """Trials beside the table's settings on the same folds, and the paper's."""
    rows = []
    for base in METHODS:
        mine = [label for label in _ordered(table.trials) if label.split(" (")[0] == base]
        seen: list[set[int]] = []
        for label in mine:
            folds = {fold for errors in table.trials[label].values() for fold in errors}
            if folds not in seen:  # the same folds of the table itself
                seen.append(folds)
                rows.append(_trial_row(base, {name: table.errors(name, base) for name in PROPERTIES}, folds))
            rows.append(_trial_row(label, table.trials[label], folds))
        if mine:
            rows.append([f"{base}, the paper", "", *(f"{PAPER[n, base, 'mse'][0]:.3f}" for n in PROPERTIES)])
    return markdown_table(["settings", "folds", *PROPERTIES], rows)


def _trial_row(label: str, errors: Mapping[str, Mapping[int, float]], folds: set[int]) -> list[str]:
    row = [label, str(len(folds))]
    for name in PROPERTIES:
        values = [value for fold, value in errors.get(name, {}).items() if fold in folds]
        row.append(f"{np.mean(values):.3f}" if values else "-")
    return row


def missing(table: Table3) -> str:
    """Cells with fewer than ten folds, and what makes them."""
    counts = {(n, m): table.cells.get((n, m, "mse"), {"n": 0})["n"] for n in PROPERTIES for m in METHODS}
    gone = [(n, m, count) for (n, m), count in counts.items() if count < FOLDS]
    if not gone:
        return f"Every one of the {len(counts)} cells has {FOLDS} folds."
    lines = [
        f"- {n}, {m}: {count} of {FOLDS} folds; `{command_for(m)} --property {n}`" for n, m, count in gone
    ]
    return "\n".join([f"{len(gone)} cells are not finished:", "", *lines])


def page_text(out: str | Path) -> str:
    """What stands on the page between the two marks."""
    table = Table3(out)
    parts = [
        main_table(table),
        "Test MSE of standardised properties at the epoch with the lowest validation MSE, mean ± standard deviation "
        "over ten folds; in brackets the paper's. Bold: the lowest of the four, and those not significantly higher "
        "(Student's paired test over folds with the variance corrected for the overlap of their training parts, "
        "Nadeau and Bengio, 2003; one-sided, 5 %).",
        missing(table),
        "### MinCutPool",
        verdicts(table),
        "### At the last epoch",
        last_epoch(table),
        "### Seconds",
        costs(table),
    ]
    if (Path(out) / "table3_speed.json").exists():
        parts += ["### Together against one by one", speed(out)]
    if table.trials:
        parts += ["### Trials with other settings", trials(table)]
    if (Path(out) / "table3_curves.json").exists():
        parts += ["### Training curves", "![Validation MSE by epoch](images/table3_curves.png)"]
    return "\n\n".join(parts)


def draw_curves(curves: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Validation MSE by epoch, one panel per property, one line per method; dotted: the paper's test MSE.

    Parameters
    ----------
    curves : sequence of mapping
        Of ``table3_curves.json``; of several for one property and method the one with most folds is drawn.
    path : path
        The picture.
    """
    from softcut.report.plots import cluster_colours, figure, save_figure

    chosen: dict[tuple[str, str], Mapping[str, Any]] = {}
    for curve in sorted(curves, key=lambda curve: len(curve["folds"])):
        chosen[curve["dataset"], curve["method"]] = curve
    names = [name for name in PROPERTIES if any(key[0] == name for key in chosen)]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    fig, axes = figure(lines, columns, figsize=(3.6 * columns, 2.6 * lines), sharex=True, squeeze=False)
    colours = dict(zip(METHODS, cluster_colours(len(METHODS)), strict=True))
    for panel, name in zip(axes.flat, names, strict=False):
        for method in METHODS:
            found = chosen.get((name, method))
            if found is not None:
                values = found["validation"]
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
