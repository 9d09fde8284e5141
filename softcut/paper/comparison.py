"""Recorded results beside the paper's: cells, the runs behind them, and which differences are significant.

Student's test over folds is corrected for the overlap of their training parts; repeated runs have Welch's test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from softcut.errors import DataError
from softcut.paper.runs import Records, read_cells, settings_hash
from softcut.report.tables import Cell, Table, mean_and_deviation

FOLDS = 10
# Test graphs per training graph of ten folds (validation graphs decide when to stop, so they count as training).
FOLD_OVERLAP = 1 / 9
LEVEL = 0.05  # of significance


def worse_by_folds(
    one: Mapping[int, float], other: Mapping[int, float], overlap: float = FOLD_OVERLAP
) -> float:
    """p-value that `one` is worse than `other`, over the folds that both have (Nadeau and Bengio, 2003).

    Training parts of folds overlap: the variance of the mean difference is taken as (1/n + test/train) times the
    variance of a difference, in place of 1/n; `overlap` is test/train. NaN for fewer than two folds.
    """
    folds = sorted(set(one) & set(other))
    if len(folds) < 2:
        return math.nan
    gain = np.array([other[fold] - one[fold] for fold in folds])
    mean, variance = float(gain.mean()), float(gain.var(ddof=1))
    if variance == 0:
        return 0.0 if mean > 0 else 1.0
    t = mean / math.sqrt((1 / len(folds) + overlap) * variance)
    return float(stats.t.sf(t, len(folds) - 1))


def worse_by_runs(one: Iterable[float], other: Iterable[float]) -> float:
    """p-value that the mean of `one` is below that of `other`, for independent runs (Welch's test)."""
    a, b = np.array(list(one)), np.array(list(other))
    if len(a) < 2 or len(b) < 2:
        return math.nan
    if np.ptp(a) == 0 and np.ptp(b) == 0:  # deterministic methods: their results are what they are
        return 0.0 if a.mean() < b.mean() else 1.0
    described = (a.mean(), a.std(ddof=1), len(a), b.mean(), b.std(ddof=1), len(b))
    return float(stats.ttest_ind_from_stats(*described, equal_var=False, alternative="less").pvalue)


def not_worse_than_the_best(runs: Mapping[str, Mapping[int, float]], *, folds: bool) -> dict[str, float]:
    """The best method, and those that are not significantly worse: p-values by name, 1 for the best."""
    best = max(runs, key=lambda method: float(np.mean(list(runs[method].values()))))
    theirs = runs[best]
    p_values = {
        method: worse_by_folds(own, theirs) if folds else worse_by_runs(own.values(), theirs.values())
        for method, own in runs.items()
        if method != best
    }
    return {best: 1.0} | {method: p for method, p in p_values.items() if p >= LEVEL}


def differs_from_published(
    mean: float,
    std: float,
    n: int,
    published: float,
    published_std: float | None,
    *,
    digits: int,
    overlap: float = 0.0,
) -> float:
    """Two-sided p-value that a measured mean and a published one differ (Welch's test); NaN without a deviation.

    The published mean is that of ten runs. Measured deviations have n in their denominator; a published one of 0 is
    taken as half of its last digit. Over folds, `overlap` is as in :func:`worse_by_folds`.
    """
    if published_std is None or n < 2:
        return math.nan
    least = 0.5 * 10.0**-digits
    ours = max(std * math.sqrt(n / (n - 1)), least) ** 2 * (1 / n + overlap)
    theirs = max(published_std, least) ** 2 * (1 / FOLDS + overlap)
    freedom = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (FOLDS - 1))
    return float(2 * stats.t.sf(abs(mean - published) / math.sqrt(ours + theirs), freedom))


def paper_numbers(
    rows: Mapping[str, str], methods: Sequence[str], score: str
) -> dict[tuple[str, str, str], tuple[float, float | None]]:
    """The paper's (mean, standard deviation) by data set, method and score, from rows such as "92.6 29.3±0.3"."""
    published: dict[tuple[str, str, str], tuple[float, float | None]] = {}
    for name, row in rows.items():
        for method, text in zip(methods, row.split(), strict=True):
            mean, _, std = text.partition("±")
            published[name, method, score] = (float(mean), float(std) if std else None)
    return published


def longest_curves(curves: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Recorded curves by data set and method; of several the one with most folds."""
    ranked = sorted(curves, key=lambda curve: len(curve["folds"]))
    return {(curve["dataset"], curve["method"]): curve for curve in ranked}


@dataclass
class Results:
    """The cells of a table over folds in a folder of results, and the runs that they are the means of.

    ``cells`` are those of the table's metric by data set (the loader's name) and method, ``other`` those of other
    metrics by data set, method and metric.
    """

    out: str | Path
    tables: tuple[str, ...]  # names of the files of cells and runs
    metric: str  # in the cells
    score: str  # in the runs
    module: str  # that fills the table
    digits: int
    higher: bool  # whether the highest score is the best

    def __post_init__(self) -> None:
        out = Path(self.out)
        self.cells: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.other: dict[tuple[str, str, str], Mapping[str, Any]] = {}
        self._runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for table in self.tables:
            runs = Records(out / f"{table}_runs.json").runs
            names = {run["dataset"].lower(): run["dataset"] for run in runs}
            for cell in read_cells(out / f"{table}.json"):
                key = (names.get(cell["dataset"], cell["dataset"]), cell["method"])
                if cell["metric"] == self.metric:
                    self.cells[key] = cell
                else:
                    self.other[*key, cell["metric"]] = cell
            for run in runs:
                self._runs.setdefault((run["dataset"], run["method"]), []).append(run)

    def runs(self, dataset: str, method: str) -> list[Mapping[str, Any]]:
        """The runs of a cell: those with equal settings that have its number and mean; a DataError without such."""
        cell = self.cells.get((dataset, method))
        if cell is None:
            return []
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for run in self._runs.get((dataset, method), []):
            groups.setdefault(settings_hash(run["settings"]), []).append(run)
        for group in groups.values():
            mean = np.mean([run[self.score] for run in group])
            if len(group) == cell["n"] and abs(mean - cell["mean"]) < 2e-4:  # both are rounded
                return group
        raise DataError(
            f"{self.tables[0]}.json in {self.out} and its runs disagree on {method} for {dataset}: merge them "
            f"again with python -m softcut.paper.{self.module} --out {self.out} --merge {self.out}."
        )

    def scores(self, dataset: str, method: str) -> dict[int, float]:
        """By fold or seed; errors with a minus, so that the highest is the best."""
        sign = 1 if self.higher else -1
        return {run["seed"]: sign * run[self.score] for run in self.runs(dataset, method)}

    def best_of(self, dataset: str, methods: Iterable[str], independent: bool = False) -> dict[str, float]:
        """The best of several methods and those not significantly worse, with their p-values."""
        measured = {m: self.scores(dataset, m) for m in methods if (dataset, m) in self.cells}
        return not_worse_than_the_best(measured, folds=not independent) if len(measured) > 1 else {}

    def missing(self, names: Iterable[str], methods: Sequence[str]) -> list[tuple[str, str, int]]:
        """Cells that are not there or have fewer than ten folds: (data set, method, folds so far)."""
        counts = {(d, m): int(self.cells.get((d, m), {"n": 0})["n"]) for d in names for m in methods}
        return [(*key, count) for key, count in counts.items() if count < FOLDS]


def compared(
    cell: Mapping[str, Any] | None,
    *,
    digits: int,
    higher: bool = True,
    overlap: float = 0.0,
    strong: bool = False,
    folds: int | None = None,
) -> Cell:
    """A measured number, the paper's, and whether they differ; a note where it is of fewer than all folds."""
    if cell is None:
        return Cell("-", title="not measured")
    mean, published, std = cell["mean"], cell.get("paper_mean"), cell.get("paper_std")
    text = mean_and_deviation(mean, cell["std"], digits)
    note = "" if folds in (None, cell["n"]) else f"{cell['n']} folds"
    if published is None:
        return Cell(text, strong=strong, note=note)
    p = differs_from_published(mean, cell["std"], cell["n"], published, std, digits=digits, overlap=overlap)
    kind, test = "", "not tested"
    if not math.isnan(p):
        kind = "same" if p >= LEVEL else "better" if (mean > published) == higher else "worse"
        test = "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
    paper = mean_and_deviation(published, std, digits)
    return Cell(text, kind=kind, strong=strong, paper=paper, test=test, note=note)


def grid(
    results: Results,
    title: str,
    names: Sequence[str],
    methods: Sequence[str],
    *,
    among: Sequence[str],
    independent: Callable[[str], bool] = lambda name: False,
) -> Table:
    """Data sets down, methods across, as far as they were measured; bold: the best of `among` and those not worse.

    `independent` says whether the "folds" of a data set are independent runs on one split.
    """
    used = [m for m in methods if any((name, m) in results.cells for name in names)]
    rows: list[list[str | Cell]] = []
    for name in names:
        if not any((name, m) in results.cells for m in used):
            continue
        best = results.best_of(name, among, independent(name))
        shared: dict[str, Any] = {
            "digits": results.digits,
            "higher": results.higher,
            "folds": FOLDS,
        }
        shared["overlap"] = 0.0 if independent(name) else FOLD_OVERLAP
        cells = (compared(results.cells.get((name, m)), strong=m in best, **shared) for m in used)
        rows.append([name, *cells])
    return Table([title, *used], rows)
