"""Results on disk: what a run is known by, one record per finished run, the cells made of them, the work of one call.

A run is known by its data set, method, seed and all settings that decide its result. A table is a list of
cells {dataset, method, metric, mean, std, n, paper_mean, paper_std, seconds, device, commit, command, date}; its
runs stand beside it. Both files are rewritten whole under a temporary name and renamed, so that a process that is
killed loses nothing that was finished; a training that is stopped continues from a checkpoint. Several processes may
write to one folder: each locks it, reads what is there and adds its own.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from softcut.baselines import BASELINES
from softcut.clustering import GraphClustering
from softcut.errors import FileFormatError, ParameterError
from softcut.files import atomic_json
from softcut.graph import Graph
from softcut.metrics import ari, clusters_used, completeness, matched_accuracy, nmi
from softcut.provenance import on_device, origin
from softcut.training import LoopProgress

Tell = Callable[[str], None]
# Arguments that do not decide a result: they say on which data and device it is computed, and who is told.
_NOT_SETTINGS = {"n_clusters", "random_state", "device", "verbose", "callbacks", "callback", "x"}
Pair = tuple[str, int]  # a data set (or property) and a seed (or fold)
# Told the name of a training, its folds, and what the loop says after an epoch.
Progress = Callable[[str, Sequence[int], LoopProgress], None]
CellsOf = Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]
_EVERY = 10.0  # seconds between two sentences about one training


def keyword_settings(function: Callable[..., Any], **changed: Any) -> dict[str, Any]:
    """All keyword-only arguments of a function with their defaults, those in `changed` replaced."""
    parameters = inspect.signature(function).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {name: value for name, value in {**known, **changed}.items() if name not in _NOT_SETTINGS}


def estimator_settings(estimator: GraphClustering) -> dict[str, Any]:
    """What decides the result of an estimator: the digest of its recipe, with its own arguments in place."""
    digest = estimator._task_recipe().digest_of(several=not isinstance(estimator.n_clusters, int))
    return {"estimator": type(estimator).__name__, "recipe": digest}


def baseline(method: str) -> Callable[..., np.ndarray]:
    """A baseline by its name in the tables: "kmeans" is that on propagated features."""
    return BASELINES[{"kmeans": "kmeans_propagated", "kmeans_raw": "kmeans"}.get(method, method)]


def classes_of(graph: Graph) -> np.ndarray:
    """The known classes of a data set."""
    assert graph.y is not None
    return graph.y


def check_names(given: Iterable[str], valid: Sequence[str], argument: str) -> None:
    """An error that names the argument where a name is not among the valid ones."""
    unknown = [name for name in given if name not in valid]
    if unknown:
        raise ParameterError(
            f"{argument} must be among {', '.join(valid)}, got {', '.join(unknown)}.", argument=argument
        )


def quiet(*said: Any) -> None:
    """Tell nobody what is being done."""


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Twelve hexadecimal digits that stand for all given settings, in any order of their names."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def run_id(dataset: str, method: str, seed: int, settings: Mapping[str, Any]) -> str:
    """The hash that a run is known by."""
    return settings_hash({"dataset": dataset, "method": method, "seed": seed, "settings": dict(settings)})


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[None]:
    """Only one process at a time changes the files of a folder; what killed ones left of `path` is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".lock"):  # free again when its process ends, however it ends
        for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
            part.unlink()
        yield


def rewrite(path: str | Path, change: Callable[[list[dict[str, Any]]], Any], what: str = "cells") -> Any:
    """Replace the content of a table's file by a function of it; what other processes wrote is part of it."""
    with locked(path):
        content = change(read_cells(path, what))
        if content:
            atomic_json(path, content)
        return content


class Records:
    """Finished runs in a JSON file, which is made with the first of them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._runs, self._stamp = [], None  # type: tuple[list[dict[str, Any]], Any]
        _ = self.runs  # a broken file is refused now

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs in the file, also those that other processes have finished meanwhile."""
        with contextlib.suppress(FileNotFoundError):
            about = self.path.stat()
            stamp = about.st_ino, about.st_mtime_ns, about.st_size
            if stamp != self._stamp:
                self._runs, self._stamp = read_cells(self.path, "runs"), stamp
        return self._runs

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

        With a device, where they come from is noted with each run.
        """
        if device is not None:
            told = origin(device)
            runs = [{**run, **told} for run in runs]
        new = [
            {"id": run_id(run["dataset"], run["method"], run["seed"], run["settings"]), **run} for run in runs
        ]
        replaced = {run["id"] for run in new}

        def merged(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
            kept = [run for run in known if run.get("id") not in replaced]
            return sorted([*kept, *new], key=lambda run: (run["dataset"], run["method"], run["seed"]))

        rewrite(self.path, merged, "runs")


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
    made = []
    for metric in metrics if runs else ():
        dataset, method = runs[0]["dataset"], runs[0]["method"]
        values = np.array([run[metric] for run in runs])
        measured = [float(values.mean()), float(values.std())]
        mean, std = measured if digits is None else [round(value, digits) for value in measured]
        published = paper.get((dataset, method, metric), (None, None))
        device = ", ".join(dict.fromkeys(run["device"] for run in runs))
        made.append(
            {
                "dataset": dataset,
                "method": method,
                "metric": metric,
                "mean": mean,
                "std": std,
                "n": len(values),
                "paper_mean": published[0],
                "paper_std": published[1],
                "seconds": round(float(sum(run["seconds"] for run in runs)), 2),
                "device": device,
                "commit": ", ".join(dict.fromkeys(run["commit"] for run in runs)),
                "command": on_device(command, device),
                "date": max(run.get("date", "") for run in runs),
            }
        )
    return made


# What every entry of a file has, by what the file holds.
_NAMED = {"dataset": str, "method": str}
_NEEDED: dict[str, dict[str, type | tuple[type, ...]]] = {
    "cells": {**_NAMED, "metric": str, "mean": (int, float), "std": (int, float), "n": int},
    "runs": {**_NAMED, "seed": int},
    "curves": {**_NAMED, "settings": str, "folds": list},
    "rows": {"dataset": str},
}


def lacking(entry: Any, what: str = "cells") -> list[str]:
    """What an entry of a file of cells (or runs, curves or rows) should have and has not."""
    known = entry if isinstance(entry, dict) else {}
    return [name for name, kind in _NEEDED[what].items() if not isinstance(known.get(name), kind)]


def read_cells(path: str | Path, what: str = "cells") -> list[dict[str, Any]]:
    """The cells (or runs, curves or rows) of a table's file; none where there is no file."""
    path = Path(path)
    if not path.exists():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not a list of {what}: {error}; move it away.") from error
    if not isinstance(content, list):
        raise FileFormatError(f"{path} is not a list of {what}; move it away.")
    for number, entry in enumerate(content):
        wrong = lacking(entry, what)
        if wrong:
            raise FileFormatError(
                f"{path} is not a list of {what}: entry {number} has no {wrong[0]!r} of the right kind; move it away."
            )
    return content


def _name(cell: Mapping[str, Any]) -> tuple[str, str, str]:
    return cell["dataset"], cell["method"], cell["metric"]


def merge_cells(path: str | Path, new: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put cells into a table's file, in place of older ones of the same name, and return the whole table."""

    def merged(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
        by_name = {_name(cell): dict(cell) for cell in (*known, *new)}
        return [by_name[name] for name in sorted(by_name)]

    return rewrite(path, merged)


class RunSession:
    """What the trainings of one call share: where results go, how much time is left, who is told."""

    def __init__(
        self,
        out: str | Path,
        device: torch.device | str = "cpu",
        minutes: float | None = None,
        tell: Tell = quiet,
    ):
        self.out, self.device, self.tell = Path(out), torch.device(device), tell
        self._ends = None if minutes is None else time.monotonic() + 60 * minutes
        self._records: dict[str, Records] = {}

    @property
    def left(self) -> float | None:
        """Seconds until the time is up; None without a limit."""
        return None if self._ends is None else self._ends - time.monotonic()

    @property
    def out_of_time(self) -> bool:
        return self.left is not None and self.left <= 0

    def records(self, table: str) -> Records:
        """The finished runs of a table."""
        if table not in self._records:
            self._records[table] = Records(self.out / f"{table}_runs.json")
        return self._records[table]

    def checkpoint(self, name: str, identity: Mapping[str, Any]) -> Path:
        """Where a training is saved, known by everything that decides it."""
        return self.out / "checkpoints" / f"{name}-{settings_hash(identity)}.pt"

    def watch(
        self,
        name: str,
        epochs: int,
        describe: Callable[[LoopProgress], str],
        progress: Callable[[LoopProgress], None],
    ) -> Callable[[LoopProgress], None]:
        """A callback of the loop: passes every epoch on, and says how far the training is, now and then."""
        began = said = time.monotonic()
        first: int | None = None

        def look(state: LoopProgress) -> None:
            nonlocal said, first
            progress(state)
            epoch, now = round(epochs * state.iteration / state.iterations), time.monotonic()
            first = epoch - 1 if first is None else first
            if now - said >= _EVERY:
                said, each = now, (now - began) / max(epoch - first, 1)
                self.tell(
                    f"{name}, epoch {epoch} of at most {epochs}, {each:.2f} s per epoch, {describe(state)}"
                )

        return look

    def fill(
        self,
        table: str,
        method: str,
        names: Sequence[str],
        seeds: int,
        known: Mapping[str, Any],
        train: Callable[[list[Pair]], None],
        cells_of: CellsOf,
    ) -> list[dict[str, Any]]:
        """Train what is missing of some data sets and seeds, write the cells of what is finished, and return them."""
        records = self.records(table)
        asked = ((name, records.missing(name, method, range(seeds), known)) for name in names)
        missing = [(name, seed) for name, numbers in asked for seed in numbers]
        if missing and not self.out_of_time:
            train(missing)
        done = (records.of(name, method, range(seeds), known) for name in names)
        made = [cell for runs in done if runs for cell in cells_of(runs)]
        if made:
            merge_cells(self.out / f"{table}.json", made)
        return made

    def cluster(
        self,
        table: str,
        method: str,
        known: Mapping[str, Any],
        classes: np.ndarray,
        labels_of: Callable[[list[int]], Iterable[tuple[np.ndarray, Mapping[str, Any]]]],
        group: int,
        missing: list[Pair],
    ) -> None:
        """Cluster with some seeds, a group at a time, and record how well labels agree with classes.

        `labels_of` gives labels for each seed, and what else is to be recorded. Nodes of the class -1 do not count.
        """
        counted = classes >= 0
        for first in range(0, len(missing), group):
            name, seeds = missing[first][0], [seed for _, seed in missing[first : first + group]]
            self.tell(f"{name}: {method}, {len(seeds)} runs, {len(missing) - first - len(seeds)} to go")
            start = time.perf_counter()
            made = labels_of(seeds)
            seconds = (time.perf_counter() - start) / len(seeds)
            shared = {"dataset": name, "method": method, "settings": known, "seconds": seconds}
            runs = [
                {**shared, "seed": seed, **_scores(classes[counted], labels[counted]), **more}
                for seed, (labels, more) in zip(seeds, made, strict=True)
            ]
            self.records(table).add(runs, self.device)

    def keep(
        self,
        table: str,
        runs: Iterable[Mapping[str, Any]],
        checkpoint: Path,
        curves: Sequence[Mapping[str, Any]] = (),
        curves_of: str | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """Record curves (in the file of `curves_of`) and finished runs, then remove the checkpoint."""
        device = device or self.device
        _add_curves(self.out, curves_of or table, [{**curve, **origin(device)} for curve in curves])
        self.records(table).add(runs, device)
        checkpoint.unlink(missing_ok=True)  # not before its results are on disk


def _scores(classes: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """How well labels agree with known classes."""
    return {
        "nmi": nmi(classes, labels),
        "cs": completeness(classes, labels),
        "acc": matched_accuracy(classes, labels),
        "ari": ari(classes, labels),
        "clusters_used": clusters_used(labels),
        "nmi_geometric": nmi(classes, labels, "geometric"),
    }


def _add_curves(out: Path, table: str, new: Sequence[Mapping[str, Any]]) -> None:
    """Put curves into the file of a table, in place of older ones of the same folds."""

    def merged(known: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
        every = [*known, *new]
        by_name = {(c["dataset"], c["method"], c["settings"], tuple(c["folds"])): c for c in every}
        return [by_name[key] for key in sorted(by_name)]

    if new:
        rewrite(out / f"{table}_curves.json", merged, "curves")


def merge(
    out: str | Path, folders: Iterable[str | Path], tables: Iterable[str], cells_of: CellsOf
) -> list[dict[str, Any]]:
    """Put the runs of several folders (of several machines or processes) into `out`, and write its cells.

    Of runs with different settings that make a cell of one name, the first ones count.
    """
    out = Path(out)
    made: list[dict[str, Any]] = []
    for table in tables:
        records = Records(out / f"{table}_runs.json")
        for folder in map(Path, folders):
            runs = Records(folder / f"{table}_runs.json").runs
            if runs:
                records.add(runs)
            _add_curves(out, table, read_cells(folder / f"{table}_curves.json", "curves"))
        groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for run in records.runs:
            key = (run["dataset"], run["method"], settings_hash(run["settings"]))
            groups.setdefault(key, []).append(run)
        first: dict[tuple[str, str, str], dict[str, Any]] = {}
        for cell in (cell for group in groups.values() for cell in cells_of(group)):
            first.setdefault(_name(cell), cell)
        if first:
            merge_cells(out / f"{table}.json", first.values())
        made += first.values()
    return made
