"""Results on disk: one record a finished run, and the cells of a table with where they came from.

A table is a list of cells {dataset, method, metric, mean, std, n, paper_mean, paper_std, seconds, device, commit,
command}; its runs stand beside it. Both files are rewritten whole under a temporary name and renamed, so a
run that is killed loses nothing that was finished.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.errors import FileFormatError
from softcut.files import atomic_json

__all__ = ["Records", "cells", "commit", "device_name", "merge_cells"]


class Records:
    """Finished runs, kept in a JSON file; a run is known by its data set, method and seed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records = Records(folder + "/runs.json")
    ...     records.add([{"dataset": "cora", "method": "sc", "seed": 0, "nmi": 0.02}])
    ...     Records(folder + "/runs.json").missing("cora", "sc", range(3))
    [1, 2]
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.runs: list[dict[str, Any]] = []
        if self.path.exists():
            try:
                self.runs = json.loads(self.path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise FileFormatError(f"{self.path} is not a list of runs: {error}; move it away.") from error

    def missing(self, dataset: str, method: str, seeds: Iterable[int]) -> list[int]:
        """The seeds that have not been run yet."""
        done = {r["seed"] for r in self.of(dataset, method)}
        return [seed for seed in seeds if seed not in done]

    def of(self, dataset: str, method: str) -> list[dict[str, Any]]:
        """All runs of a method on a data set, by seed."""
        found = [r for r in self.runs if r["dataset"] == dataset and r["method"] == method]
        return sorted(found, key=lambda r: r["seed"])

    def add(self, runs: list[dict[str, Any]]) -> None:
        """Keep finished runs; on disk when this returns."""
        self.runs = [*self.runs, *runs]
        self.runs.sort(key=lambda r: (r["dataset"], r["method"], r["seed"]))
        atomic_json(self.path, self.runs)


def commit() -> str:
    """$SOFTCUT_COMMIT where it is set (for copies without their history), else the commit of the checkout.

    "+" says that files were changed since.
    """
    if os.environ.get("SOFTCUT_COMMIT"):
        return os.environ["SOFTCUT_COMMIT"]
    here = Path(__file__).resolve().parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", "."],
            cwd=here.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def device_name(device: torch.device | str) -> str:
    """What the numbers were computed on, for people."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} threads, {platform.machine()} CPU"


def cells(
    runs: list[dict[str, Any]],
    metrics: Iterable[str],
    paper: Mapping[tuple[str, str, str], tuple[float, float | None]],
    command: str,
) -> list[dict[str, Any]]:
    """One cell for each metric of runs that share a data set and a method."""
    if not runs:
        return []
    first = runs[0]
    found = []
    for metric in metrics:
        values = np.array([r[metric] for r in runs])
        mean, std = paper.get((first["dataset"], first["method"], metric), (None, None))
        found.append(
            {
                "dataset": first["dataset"],
                "method": first["method"],
                "metric": metric,
                "mean": round(float(values.mean()), 4),
                "std": round(float(values.std()), 4),
                "n": len(values),
                "paper_mean": mean,
                "paper_std": std,
                "seconds": round(float(sum(r["seconds"] for r in runs)), 2),
                "device": first["device"],
                "commit": first["commit"],
                "command": command,
            }
        )
    return found


def merge_cells(path: str | Path, new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put cells into a table's file, in place of older ones of the same name."""
    path = Path(path)
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    names = {(c["dataset"], c["method"], c["metric"]) for c in new}
    merged = [c for c in old if (c["dataset"], c["method"], c["metric"]) not in names] + new
    merged.sort(key=lambda c: (c["dataset"], c["method"], c["metric"]))
    atomic_json(path, merged)
    return merged
