"""Results on disk: one record per finished run, and the cells of a table with where they came from.

A run is known by its data set, method, seed and all settings that decide its result. A table is a list of
cells {dataset, method, metric, mean, std, n, paper_mean, paper_std, seconds, device, commit, command}; its runs
stand beside it. Both files are rewritten whole under a temporary name and renamed, so that a process that is
killed loses nothing that was finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.errors import FileFormatError
from softcut.files import atomic_json
from softcut.provenance import commit, device_name

__all__ = ["Records", "cells", "merge_cells", "read_cells", "run_id", "settings_hash"]


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that stand for all given settings, in any order of their names."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_id(dataset: str, method: str, seed: int, settings: Mapping[str, Any]) -> str:
    """The hash that a run is known by."""
    return settings_hash({"dataset": dataset, "method": method, "seed": seed, "settings": dict(settings)})


class Records:
    """Finished runs, kept in a JSON file; a run is known by its data set, method, seed and settings.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records = Records(folder + "/runs.json")
    ...     records.add([{"dataset": "cora", "method": "sc", "seed": 0, "settings": {"n_init": 10}, "nmi": 0.02}])
    ...     again = Records(folder + "/runs.json")
    ...     again.missing("cora", "sc", range(3), {"n_init": 10}), again.missing("cora", "sc", [0], {"n_init": 1})
    ([1, 2], [0])

    The file is made with the first finished run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.runs = read_cells(self.path, "runs")

    def missing(
        self, dataset: str, method: str, seeds: Iterable[int], settings: Mapping[str, Any]
    ) -> list[int]:
        """The seeds that have not been run with these settings yet."""
        done = {run.get("id") for run in self.runs}
        return [seed for seed in seeds if run_id(dataset, method, seed, settings) not in done]

    def of(
        self, dataset: str, method: str, seeds: Iterable[int], settings: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        """The finished runs among these, in the order of the seeds."""
        by_id = {run.get("id"): run for run in self.runs}
        wanted = (run_id(dataset, method, seed, settings) for seed in seeds)
        return [by_id[key] for key in wanted if key in by_id]

    def add(self, runs: Iterable[Mapping[str, Any]], device: torch.device | str | None = None) -> None:
        """Keep finished runs (each with dataset, method, seed and settings); on disk when this returns.

        With a device, its name and the commit are noted with each run.
        """
        if device is not None:
            runs = [{**run, "device": device_name(device), "commit": commit()} for run in runs]
        new = [
            {"id": run_id(run["dataset"], run["method"], run["seed"], run["settings"]), **run} for run in runs
        ]
        replaced = {run["id"] for run in new}
        self.runs = [*(run for run in self.runs if run.get("id") not in replaced), *new]
        self.runs.sort(key=lambda run: (run["dataset"], run["method"], run["seed"]))
        atomic_json(self.path, self.runs)


def cells(
    runs: Sequence[Mapping[str, Any]],
    metrics: Iterable[str],
    paper: Mapping[tuple[str, str, str], tuple[float, float | None]],
    command: str,
    digits: int | None = 4,
) -> list[dict[str, Any]]:
    """One cell for each metric of runs that share a data set, a method and settings.

    `paper` holds the paper's (mean, standard deviation) by (dataset, method, metric), `command` is what makes the
    cells, and mean and standard deviation are rounded to `digits` decimals.
    """
    if not runs:
        return []
    first = runs[0]
    found = []
    for metric in metrics:
        values = np.array([run[metric] for run in runs])
        measured = [float(values.mean()), float(values.std())]
        if digits is not None:
            measured = [round(value, digits) for value in measured]
        mean, std = paper.get((first["dataset"], first["method"], metric), (None, None))
        found.append(
            {
                "dataset": first["dataset"],
                "method": first["method"],
                "metric": metric,
                "mean": measured[0],
                "std": measured[1],
                "n": len(values),
                "paper_mean": mean,
                "paper_std": std,
                "seconds": round(float(sum(run["seconds"] for run in runs)), 2),
                "device": _distinct(runs, "device"),
                "commit": _distinct(runs, "commit"),
                "command": command,
            }
        )
    return found


def _distinct(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    return ", ".join(dict.fromkeys(run[name] for run in runs))


def read_cells(path: str | Path, what: str = "cells") -> list[dict[str, Any]]:
    """The cells (or runs, or curves) of a table's file; none where there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path} is not a list of {what}: {error}; move it away.") from error
    if not isinstance(found, list):
        raise FileFormatError(f"{path} is not a list of {what}; move it away.")
    return found


def merge_cells(path: str | Path, new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put cells into a table's file, in place of older ones of the same name, and return the whole table."""
    names = {(c["dataset"], c["method"], c["metric"]) for c in new}
    old = [c for c in read_cells(path) if (c["dataset"], c["method"], c["metric"]) not in names]
    merged = sorted([*old, *map(dict, new)], key=lambda c: (c["dataset"], c["method"], c["metric"]))
    atomic_json(path, merged)
    return merged
