"""Whether MinCutPool reaches the paper's numbers in tables 2 and 3, and how it stands among the poolers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from softcut.paper import regression, table2
from softcut.paper.comparison import Results, worse_by_folds
from softcut.report.tables import Table, mean_and_deviation

OURS = "mincut"
_RIVALS = {"topk": "Top-K", "diffpool": "DiffPool"}  # the poolers of table 3 that MinCutPool is compared with


def _beside_targets(
    results: Results,
    names: Sequence[str],
    paper: dict[tuple[str, str, str], tuple[float, float | None]],
    allowed: Callable[[str, float], float],
    rest: Callable[[str], list[str]],
) -> tuple[list[list[str]], int]:
    """MinCutPool beside the paper's mean less (of an error: plus) what is `allowed`: rows, and how many reach it.

    `rest` gives the further columns of a row.
    """
    rows, reached, digits = [], 0, results.digits
    sign = 1 if results.higher else -1
    for name in names:
        cell = results.cells.get((name, OURS))
        if cell is None:
            continue
        mean, std = paper[name, OURS, results.score]
        asked = mean - sign * allowed(name, std or 0.0)
        good = sign * (cell["mean"] - asked) >= 0
        reached += good
        shown = mean_and_deviation(cell["mean"], cell["std"], digits)
        rows.append([name, shown, f"{asked:.{digits}f}", "yes" if good else "no", *rest(name)])
    return rows, reached


def table2_verdicts(table: Results) -> Table:
    """MinCutPool against the paper's mean less its deviation, and against the best of the six poolers."""
    first = 0

    def among_poolers(dataset: str) -> list[str]:
        nonlocal first
        measured = [m for m in table2.POOLERS if (dataset, m) in table.cells]
        among = table.best_of(dataset, table2.POOLERS, table2.is_repeated(dataset))
        best = max(measured, key=lambda m: float(np.mean(list(table.scores(dataset, m).values()))))
        first += OURS in among
        if len(measured) < 2:
            text = "alone"
        elif best == OURS:
            text = "best"
        elif OURS in among:
            text = f"not significantly worse than {best} (p = {among[OURS]:.2f})"
        else:
            text = f"worse than {best}"
        left = len(table2.POOLERS) - len(measured)
        return [text + (f", {left} of the six not measured" if left else "")]

    def allowed(dataset: str, std: float) -> float:
        return max(1.0, std) if table2.is_repeated(dataset) else std

    rows, reached = _beside_targets(table, table2.DATASETS, table2.PAPER, allowed, among_poolers)
    of_all = len(table2.DATASETS)
    note = (
        "MinCutPool reaches the paper's mean less one of the paper's standard deviations (Bench: less one "
        f"point or one standard deviation, whichever is larger) on {reached} of {of_all} data sets, and is "
        f"best, or not significantly worse than the best, of the paper's six poolers on {first} of {of_all}"
    )
    note += f" ({len(rows)} measured)." if len(rows) < of_all else "."
    columns = ["data", "MinCutPool", "asked for", "reached", "among the six poolers"]
    return Table(columns, rows, notes=[note])


def table3_verdicts(table: Results) -> Table:
    """MinCutPool against the paper's mean plus its deviation, and against the other two poolers."""
    lower = significant = 0

    def beside_rivals(name: str) -> list[str]:
        nonlocal lower, significant
        rivals = [m for m in _RIVALS if (name, m) in table.cells]
        wins = [table.cells[name, OURS]["mean"] < table.cells[name, m]["mean"] for m in rivals]
        ours = table.scores(name, OURS)
        p_values = [worse_by_folds(table.scores(name, m), ours) for m in rivals]
        if len(rivals) == len(_RIVALS):
            lower += all(wins)
            significant += all(p < 0.05 for p in p_values)
        texts = [f"{'yes' if win else 'no'} (p = {p:.1g})" for win, p in zip(wins, p_values, strict=True)]
        return texts + ["-"] * (len(_RIVALS) - len(rivals))

    rows, reached = _beside_targets(
        table, regression.PROPERTIES, regression.PAPER, lambda name, std: std, beside_rivals
    )
    of = len(regression.PROPERTIES)
    note = (
        "The error of MinCutPool is at most the paper's mean plus one of the paper's "
        f"standard deviations on {reached} of {of} properties. It is lower than those of Top-K and DiffPool on {lower} "
        f"of {of}, significantly so (5 %) on {significant}."
    )
    columns = [
        "property",
        "MinCutPool",
        "asked for",
        "reached",
        *(f"lower than {_RIVALS[m]}" for m in _RIVALS),
    ]
    return Table(columns, rows, notes=[note])
