"""E5, table 2: graph classification, seven data sets, ten folds, one row per pooling operator.

All folds of a data set and method train side by side (:mod:`softcut.learning`). Finished folds are recorded
at once; a training that is stopped or killed continues from a checkpoint that is at most a minute old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.datasets.collections import load_graphs
from softcut.datasets.hierarchies import load_hierarchy
from softcut.files import atomic_json
from softcut.graph.collection import GraphCollection
from softcut.learning.experiment import METHODS as NETWORKS
from softcut.learning.experiment import (
    ClassifierSettings,
    FoldResult,
    cluster_sizes,
    folds_at_once,
    train_folds,
)
from softcut.learning.hierarchy import HIERARCHIES
from softcut.paper.classification_report import render
from softcut.paper.common import experiment_parser, run_experiment
from softcut.paper.runs import Records, cells, merge_cells, read_cells, settings_hash
from softcut.paper.table2 import (
    ABLATIONS,
    DATASETS,
    METHODS,
    PAPER,
    SMALL_DATASETS,
    TABLES,
    check_methods,
    command_for,
    dataset_names,
    graphs_for,
    network_of,
    table_of,
)
from softcut.provenance import commit, device_name
from softcut.training import LoopProgress, LoopResult

__all__ = ["Progress", "main", "merge", "run", "settings_of"]

Tell = Callable[[str], None]
# Told the data set, the method, the folds in training, and what the loop says after an epoch.
Progress = Callable[[str, str, Sequence[int], LoopProgress], None]
_CURVES = "table2_curves.json"


def settings_of(
    method: str, graphs: GraphCollection, settings: ClassifierSettings, seed: int = 0, folds: int = 10
) -> dict[str, Any]:
    """Everything that decides the result of a fold besides its number; `graphs` as the method sees them."""
    if method == "wl":
        from softcut.baselines.wl import WL_SETTINGS

        return {**WL_SETTINGS, "split_seed": seed, "folds": folds}
    _, settings = network_of(method, settings)
    known = {**asdict(settings), "pool_args": dict(settings.pool_args)}
    if settings.stop_on == "loss":
        del known["stop_on"]  # runs on disk are known without it
    return {
        **known,
        "k": list(settings.k or cluster_sizes(graphs, settings.levels)),
        "features": graphs.num_features,
        "data": graphs.note or "published",
        "split_seed": seed,
        "folds": folds,
    }


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = METHODS,
    folds: int = 10,
    *,
    minutes: float | None = None,
    seed: int = 0,
    settings: ClassifierSettings | None = None,
    device: torch.device | str = "cpu",
    data: str | Path | None = None,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> list[Mapping[str, Any]]:
    """Train what is missing; write ``table2.json`` (cells) and ``table2_runs.json`` (runs, one per fold).

    The variants of MinCutPool (``softcut.paper.table2.ABLATIONS``) and trials
    (:mod:`softcut.paper.classification_trials`) are run where they are named, and go to ``table2_ablation.json`` and
    ``table2_trials.json``. Validation curves, mean over the folds, go to ``table2_curves.json``.

    Parameters
    ----------
    out : path
        Folder of the results; finished folds found there are not repeated, unfinished trainings continue.
    datasets, methods : sequence of str
        Which rows and columns.
    folds : int
        The first so many of the ten folds.
    minutes : float, optional
        Stop cleanly after so many minutes; the same call continues.
    seed : int
        Of the folds and of all weights.
    settings : ClassifierSettings, optional
        The paper's by default.
    device : device
        Where networks are trained.
    data : path, optional
        Folder to read the data sets from, instead of ``$SOFTCUT_DATA`` and the cache.
    tell : callable, optional
        Told what is being done.
    progress : callable, optional
        Called with the data set, the method, the folds in training and a LoopProgress once per epoch.
    """
    datasets = dataset_names(datasets)
    check_methods(methods)
    settings = ClassifierSettings() if settings is None else settings
    job = _Jobs(Path(out), folds, seed, settings, torch.device(device), data, minutes, tell, progress)
    found: list[Mapping[str, Any]] = []
    for dataset in datasets:
        graphs: GraphCollection | None = None
        for method in methods:
            if graphs is None:
                graphs = load_graphs(dataset, data)
            found += job.run(graphs, method)
            if job.out_of_time:
                return found
    return found


class _Jobs:
    """What the jobs of one call share: where results go, how much time is left."""

    def __init__(
        self,
        out: Path,
        folds: int,
        seed: int,
        settings: ClassifierSettings,
        device: torch.device,
        data: str | Path | None,
        minutes: float | None,
        tell: Tell | None,
        progress: Progress | None,
    ) -> None:
        self.out, self.folds, self.seed, self.settings = out, folds, seed, settings
        self.device, self.data, self.progress = device, data, progress
        self.tell = tell if tell is not None else (lambda text: None)
        self.records = {name: _records(out, name) for name in TABLES}
        self.ends = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def left(self) -> float | None:
        """Seconds until the time is up."""
        return None if self.ends is None else self.ends - time.monotonic()

    @property
    def out_of_time(self) -> bool:
        return self.left is not None and self.left <= 0

    def run(self, graphs: GraphCollection, method: str) -> list[Mapping[str, Any]]:
        """Train the folds that are missing, in groups where that is faster, and write the cell."""
        graphs = graphs_for(method, graphs)
        known = settings_of(method, graphs, self.settings, self.seed)
        records = self.records[table_of(method)]
        missing = records.missing(graphs.name, method, range(self.folds), known)
        size = len(missing) if method == "wl" else self._at_once(graphs, method)
        size = size or max(len(missing), 1)
        origin = {"device": device_name(self.device if method != "wl" else "cpu"), "commit": commit()}
        shared = {"dataset": graphs.name, "method": method, "settings": known, "note": graphs.note}
        for first in range(0, len(missing), size):
            if self.out_of_time:
                break
            runs, checkpoint = self._train(graphs, method, missing[first : first + size], known)
            if runs:
                records.add([{**shared, **run, **origin} for run in runs])
                checkpoint.unlink(missing_ok=True)  # not before its results are on disk
        done = records.of(graphs.name, method, range(self.folds), known)
        return _write_cells(self.out, done) if done else []

    def _at_once(self, graphs: GraphCollection, method: str) -> int | None:
        return folds_at_once(graphs, network_of(method, self.settings)[1], self.device)

    def _train(
        self, graphs: GraphCollection, method: str, numbers: list[int], known: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], Path]:
        """Results of some folds (none where the time was up), and the file that the training was saved to."""
        self.tell(f"{graphs.name}: {method}, folds {', '.join(map(str, numbers))}")
        start = time.perf_counter()
        name = settings_hash({"dataset": graphs.name, "method": method, "folds": numbers, **known})
        checkpoint = self.out / "checkpoints" / f"{graphs.name}-{method}-{name}.pt"
        if method == "wl":
            from softcut.baselines.wl import wl_folds

            accuracies = wl_folds(graphs, numbers, self.seed)
            seconds = (time.perf_counter() - start) / len(numbers)
            runs = [{"seed": fold, "accuracy": 100 * hits, "seconds": seconds} for fold, hits in accuracies]
            return runs, checkpoint
        network, settings = network_of(method, self.settings)
        hierarchy = None
        if NETWORKS[network] in HIERARCHIES:
            hierarchy = load_hierarchy(graphs, network, self.data)
            taken = time.perf_counter() - start
            self.tell(f"{graphs.name}: {method}, coarse graphs ready after {taken:.1f} s")
        watch = _Watch(graphs.name, method, numbers, self.tell, self.progress, known["epochs"])
        results, loop = train_folds(
            graphs,
            network,
            numbers,
            self.seed,
            settings,
            device=self.device,
            hierarchy=hierarchy,
            callback=watch,
            checkpoint=checkpoint,
            time_limit=self.left,
        )
        if loop.interrupted:
            raise KeyboardInterrupt
        if not results:
            self.tell(
                f"{graphs.name}: {method} stopped after epoch {watch.epoch}; the same command continues it"
            )
            return [], checkpoint
        _add_curves(self.out / _CURVES, [_curve(graphs.name, method, numbers, known, loop)])
        self.tell(f"{graphs.name}: {method} took {loop.seconds:.0f} s")
        return [_record(result, loop.seconds / len(results)) for result in results], checkpoint


def _records(out: Path, table: str) -> Records:
    return Records(out / f"{table}_runs.json")


def _record(result: FoldResult, seconds: float) -> dict[str, Any]:
    return {
        "seed": result.fold,
        "accuracy": round(100 * result.accuracy, 4),
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
        "validation_loss": round(result.validation_loss, 6),
        "validation_task": round(result.validation_task, 6),
        "validation_accuracy": round(100 * result.validation_accuracy, 4),
        **{key: round(value, 6) for key, value in result.details.items()},
        "seconds": round(seconds, 3),
    }


def _curve(
    dataset: str, method: str, numbers: Sequence[int], known: Mapping[str, Any], loop: LoopResult
) -> dict[str, Any]:
    """Validation loss and accuracy after every epoch, mean over the folds still in training, and how many those are."""
    training = np.isfinite(loop.validation["loss"]).sum(1)
    means = {name: np.nanmean(loop.validation[name], axis=1) for name in ("loss", "accuracy")}
    return {
        "dataset": dataset,
        "method": method,
        "settings": settings_hash(known),
        "folds": list(numbers),
        "loss": [round(float(v), 4) for v in means["loss"]],
        "accuracy": [round(100 * float(v), 2) for v in means["accuracy"]],
        "training": training.tolist(),
    }


def _add_curves(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Put curves into the file, in place of older ones of the same folds."""
    by_name = {
        (c["dataset"], c["method"], c["settings"], tuple(c["folds"])): c for c in [*read_cells(path), *new]
    }
    if by_name:
        atomic_json(path, [by_name[key] for key in sorted(by_name)])


def _write_cells(out: Path, runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cell of one data set and method."""
    dataset, method = runs[0]["dataset"], runs[0]["method"]
    # Tables name data sets in small letters and the metric "acc"; runs keep the loader's name.
    named = {"dataset": dataset.lower(), "metric": "acc", "note": runs[0]["note"]}
    made = [{**cell, **named} for cell in cells(runs, ["accuracy"], PAPER, command_for(dataset, method))]
    merge_cells(out / f"{table_of(method)}.json", made)
    return list(made)


def merge(out: str | Path, folders: Sequence[str | Path]) -> list[Mapping[str, Any]]:
    """Put the runs of several folders (of several machines or processes) into `out`, and write its cells.

    Runs with the settings of the first run of their data set and method make its cell.
    """
    out = Path(out)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for table in TABLES:
        records = _records(out, table)
        for folder in folders:
            found = _records(Path(folder), table).runs
            if found:
                records.add(found)
        for run in records.runs:
            group = groups.setdefault((run["dataset"], run["method"]), [])
            if not group or group[0]["settings"] == run["settings"]:
                group.append(run)
    _add_curves(out / _CURVES, [curve for folder in folders for curve in read_cells(Path(folder) / _CURVES)])
    return [cell for group in groups.values() for cell in _write_cells(out, group)]


class _Watch:
    """Says how far a training is, at most every few seconds."""

    EVERY = 10.0

    def __init__(
        self,
        dataset: str,
        method: str,
        numbers: Sequence[int],
        tell: Tell,
        progress: Progress | None,
        epochs: int,
    ) -> None:
        self.dataset, self.method, self.numbers = dataset, method, numbers
        self.tell, self.progress, self.epochs = tell, progress, epochs
        self.epoch = 0
        self.said = self.began = time.monotonic()
        self.first: int | None = None

    def __call__(self, state: LoopProgress) -> None:
        self.epoch = round(self.epochs * state.iteration / state.iterations)
        if self.progress is not None:
            self.progress(self.dataset, self.method, self.numbers, state)
        if self.first is None:
            self.first = self.epoch - 1
        now = time.monotonic()
        if now - self.said < self.EVERY:
            return
        self.said = now
        each = (now - self.began) / max(self.epoch - self.first, 1)
        loss, accuracy = state.validation["loss"].mean(), state.validation["accuracy"].mean()
        self.tell(
            f"{self.dataset}: {self.method}, epoch {self.epoch} of at most {self.epochs}, {len(state.active)} folds "
            f"training, {each:.2f} s per epoch, validation loss {loss:.4f}, accuracy {100 * accuracy:.1f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.classification --dataset PROTEINS --method mincut --folds 2 --minutes 10``."""
    parser = experiment_parser(
        "classification",
        "E5: table 2, graph classification.",
        10,
        (*DATASETS, *SMALL_DATASETS),
    )
    parser.set_defaults(dataset=list(DATASETS))
    parser.add_argument(
        "--method",
        nargs="+",
        default=list(METHODS),
        metavar="NAME",
        help=f"among {', '.join((*METHODS, *ABLATIONS))}, or with other settings: mincut+lr=0.002+batch=8",
    )
    defaults = ClassifierSettings()
    parser.add_argument(
        "--folds", dest="runs", type=int, help="the first so many of the ten folds (default 10)"
    )
    parser.add_argument(
        "--minutes", type=float, help="stop cleanly after so many minutes; the same command continues"
    )
    parser.add_argument(
        "--data", help="folder of the data sets, as written by python -m softcut.datasets.pack"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the folds and of all weights (default 0)")
    for name, kind in (("batch", int), ("epochs", int), ("patience", int), ("lr", float), ("l2", float)):
        default = getattr(defaults, name)
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"default {default}")
    parser.add_argument(
        "--merge", nargs="+", metavar="DIR", help="train nothing; put the runs of these folders into --out"
    )

    def run_it(given: Any) -> str:
        if given.merge:
            merge(given.out, given.merge)
            return render(given.out, given.dataset, given.method)
        settings = ClassifierSettings(
            batch=given.batch, epochs=given.epochs, patience=given.patience, lr=given.lr, l2=given.l2
        )
        run(
            given.out,
            given.dataset,
            given.method,
            min(given.runs, 10),
            minutes=given.minutes,
            seed=given.seed,
            settings=settings,
            device=given.device,
            data=given.data,
            tell=lambda text: print(text, flush=True),
        )
        return render(given.out, given.dataset, given.method)

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
