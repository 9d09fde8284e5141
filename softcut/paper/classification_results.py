"""The cells and runs of table 2 as they are on disk, and which are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError
from softcut.paper.runs import Records, read_cells
from softcut.paper.table2 import DATASETS, PAPER_METHODS, TABLES, table_of

__all__ = ["FOLDS", "Table2", "missing_cells"]

FOLDS = 10


class Table2:
    """The cells and runs of a folder of results.

    Attributes
    ----------
    cells : dict
        By data set (the loader's name) and method.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out)
        self.cells: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._runs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for table in TABLES:
            runs = Records(self.out / f"{table}_runs.json").runs
            names = {run["dataset"].lower(): run["dataset"] for run in runs}
            for cell in read_cells(self.out / f"{table}.json"):
                if cell["metric"] == "acc":
                    self.cells[names.get(cell["dataset"], cell["dataset"]), cell["method"]] = cell
            for run in runs:
                self._runs.setdefault((run["dataset"], run["method"]), []).append(run)

    def runs(self, dataset: str, method: str) -> list[Mapping[str, Any]]:
        """The runs that a cell is the mean of: those with the settings of the first, as many as it has."""
        found = self._runs.get((dataset, method), [])
        cell = self.cells.get((dataset, method))
        if cell is None:
            return []
        groups: list[list[Mapping[str, Any]]] = []
        for run in found:
            for group in groups:
                if group[0]["settings"] == run["settings"]:
                    group.append(run)
                    break
            else:
                groups.append([run])
        for group in groups:
            accuracy = np.mean([run["accuracy"] for run in group])
            if len(group) == cell["n"] and abs(accuracy - cell["mean"]) < 1e-3:
                return group
        raise DataError(
            f"{self.out / table_of(method)}.json and its runs disagree on {method} on {dataset}: "
            f"merge them again with python -m softcut.paper.classification --out {self.out} --merge {self.out}."
        )

    def accuracies(self, dataset: str, methods: Iterable[str]) -> dict[str, dict[int, float]]:
        """By method, the accuracy of every fold or seed."""
        return {
            method: {run["seed"]: run["accuracy"] for run in self.runs(dataset, method)}
            for method in methods
            if (dataset, method) in self.cells
        }

    def drawn(self, dataset: str) -> bool:
        """Whether the data set is a fresh draw of its process, not the published graphs."""
        return any(cell.get("note") for (name, _), cell in self.cells.items() if name == dataset)


def missing_cells(
    out: str | Path, datasets: Sequence[str] = DATASETS, methods: Sequence[str] = PAPER_METHODS
) -> list[tuple[str, str, int]]:
    """Cells that are not there or have fewer than ten folds: (data set, method, folds so far).

    >>> missing_cells("no such folder", ["DD"], ["mincut"])
    [('DD', 'mincut', 0)]
    """
    known = Table2(out).cells
    counts = {(d, m): int(known[d, m]["n"]) if (d, m) in known else 0 for d in datasets for m in methods}
    return [(*key, count) for key, count in counts.items() if count < FOLDS]
