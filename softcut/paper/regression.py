"""E6, table 3: nine properties of QM9's molecules, ten folds, four methods.

All folds and properties of a method train side by side, 90 networks in one step
(:class:`softcut.training.DenseBatchTask`). Results are recorded once a method is done; a training that is stopped or
killed continues from a checkpoint that is at most a minute old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.datasets.qm9 import Molecules, load_molecules
from softcut.errors import ParameterError
from softcut.files import atomic_json
from softcut.paper.common import check_names, experiment_parser, run_experiment
from softcut.paper.regression_net import READOUTS
from softcut.paper.regression_report import render
from softcut.paper.regression_task import (
    QUICK,
    VALIDATION,
    Pair,
    RegressionSettings,
    build_task,
    label_of,
    loop_settings,
    table_of,
)
from softcut.paper.runs import Records, cells, merge_cells, read_cells, settings_hash
from softcut.paper.table3 import FOLDS, METHODS, PAPER, PROPERTIES, command_for
from softcut.provenance import commit, device_name
from softcut.training import Checkpoint, Loop, LoopProgress, LoopResult

__all__ = ["main", "merge", "run"]

Tell = Callable[[str], None]


def run(
    out: str | Path,
    properties: Sequence[str] = PROPERTIES,
    methods: Sequence[str] = METHODS,
    folds: int = FOLDS,
    *,
    minutes: float | None = None,
    seed: int = 0,
    settings: RegressionSettings | None = None,
    device: torch.device | str = "cpu",
    data: str | Path | None = None,
    compiled: bool = False,
    tell: Tell | None = None,
    progress: Callable[[str, LoopProgress], None] | None = None,
) -> list[Mapping[str, Any]]:
    """Train what is missing; write ``table3.json`` (cells), ``table3_runs.json`` and ``table3_curves.json``.

    With settings other than the paper's the files are called ``table3_trials``, and cells name what is different.

    Parameters
    ----------
    out : path
        Folder of the results; finished runs found there are not repeated, unfinished trainings continue.
    properties, methods : sequence of str
        Which rows and columns.
    folds : int
        The first so many of the ten folds.
    minutes : float, optional
        Stop cleanly after so many minutes; the same call continues.
    seed : int
        Of the folds and of all weights.
    settings : RegressionSettings, optional
        The paper's by default.
    device : device
        Where networks are trained.
    data : path, optional
        Folder to read QM9 from, instead of ``$SOFTCUT_DATA`` and the cache.
    compiled : bool
        Compile the training step with ``torch.compile``.
    tell : callable, optional
        Told what is being done.
    progress : callable, optional
        Called with the method and a LoopProgress after every epoch.
    """
    check_names(properties, PROPERTIES, "properties")
    check_names(methods, METHODS, "methods")
    if not 1 <= folds <= FOLDS:
        raise ParameterError(f"folds must be between 1 and {FOLDS}, got {folds}.")
    settings = RegressionSettings() if settings is None else settings
    say = tell if tell is not None else (lambda text: None)
    job = _Jobs(Path(out), settings, seed, torch.device(device), compiled, minutes, say, progress)
    molecules: Molecules | None = None
    found: list[Mapping[str, Any]] = []
    for method in methods:
        missing = job.missing(method, properties, range(folds))
        if missing and not job.out_of_time:
            if molecules is None:
                molecules = _choose(load_molecules(data), settings.molecules, seed)
                say(f"{len(molecules)} molecules of QM9")
            job.train(molecules, method, missing)
        found += job.write_cells(method, properties, range(folds))
    return found


def _choose(molecules: Molecules, count: int | None, seed: int) -> Molecules:
    if count is None or count >= len(molecules):
        return molecules
    return molecules[np.random.default_rng(seed).choice(len(molecules), count, replace=False)]


class _Jobs:
    """What the jobs of one call share: where results go, how much time is left."""

    def __init__(
        self,
        out: Path,
        settings: RegressionSettings,
        seed: int,
        device: torch.device,
        compiled: bool,
        minutes: float | None,
        tell: Tell,
        progress: Callable[[str, LoopProgress], None] | None,
    ) -> None:
        self.out, self.settings, self.seed, self.device, self.compiled = out, settings, seed, device, compiled
        self.tell, self.progress = tell, progress
        self.table = table_of(settings)
        self.records = Records(out / f"{self.table}_runs.json")
        self.ends = None if minutes is None else time.monotonic() + 60 * minutes
        self.known = {
            **asdict(settings),
            "pool_args": dict(settings.pool_args),
            "split_seed": seed,
            "folds": FOLDS,
            "validation": VALIDATION,
        }

    @property
    def left(self) -> float | None:
        """Seconds until the time is up."""
        return None if self.ends is None else self.ends - time.monotonic()

    @property
    def out_of_time(self) -> bool:
        return self.left is not None and self.left <= 0

    def missing(self, method: str, properties: Sequence[str], folds: Sequence[int]) -> list[Pair]:
        """Properties and folds that were not trained yet."""
        return [
            (name, fold)
            for name in properties
            for fold in self.records.missing(name, method, folds, self.known)
        ]

    def train(self, molecules: Molecules, method: str, pairs: Sequence[Pair]) -> None:
        """Train properties and folds side by side, and record them; a checkpoint is left where the time is up."""
        settings = self.settings
        networks = f"{len(pairs)} network{'s' if len(pairs) > 1 else ''}"
        self.tell(f"{method}: {networks}, {settings.epochs} epochs")
        task = build_task(
            molecules, method, pairs, settings, seed=self.seed, device=self.device, compiled=self.compiled
        )
        identity = {"method": method, "replicas": [list(pair) for pair in pairs], **self.known}
        checkpoint = self.out / "checkpoints" / f"{self.table}-{method}-{settings_hash(identity)}.pt"
        watch = _Watch(method, task.steps, settings.epochs, self.tell, self.progress)
        result = Loop(task, loop_settings(task, settings)).run(
            watch, Checkpoint(checkpoint, identity), self.left
        )
        if result.interrupted:
            raise KeyboardInterrupt
        if result.timed_out:
            done = result.iterations / task.steps
            self.tell(f"{method} stopped after {done:.1f} epochs; the same command continues it")
            return
        shared = {
            "method": method,
            "settings": self.known,
            "device": device_name(self.device),
            "commit": commit(),
            "seconds": round(result.seconds / len(pairs), 3),
            "trained_together": len(pairs),
        }
        runs = [
            {"dataset": name, "seed": fold, **shared, **_measured(result, row)}
            for row, (name, fold) in enumerate(pairs)
        ]
        self.records.add(runs)
        _add_curves(self.out / f"{self.table}_curves.json", _curves(method, pairs, self.known, result))
        checkpoint.unlink(missing_ok=True)  # not before its results are on disk
        self.tell(f"{method}: {networks} took {result.seconds:.1f} s")

    def write_cells(
        self, method: str, properties: Sequence[str], folds: Sequence[int]
    ) -> list[Mapping[str, Any]]:
        """Cells of what is finished."""
        made: list[Mapping[str, Any]] = []
        for name in properties:
            made += _cells(self.records.of(name, method, folds, self.known))
        if made:
            merge_cells(self.out / f"{self.table}.json", made)
        return made


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cells of runs that share a property, a method and settings; those of a trial name what is different."""
    if not runs:
        return []
    label = label_of(runs[0]["method"], runs[0]["settings"])
    return [
        {**cell, "method": label}
        for cell in cells(runs, ["mse", "mse_last"], PAPER, command_for(runs[0]["method"]))
    ]


def _measured(result: LoopResult, row: int) -> dict[str, Any]:
    """What one replica came to."""
    values = {name: numbers[:, row] for name, numbers in result.validation.items()}
    best = int(np.argmin(values["mse"]))
    return {
        "mse": round(float(values["test_mse"][best]), 6),
        "mse_last": round(float(values["test_mse"][-1]), 6),
        "best_epoch": best + 1,
        "epochs": len(values["mse"]),
        "validation_mse": round(float(values["mse"][best]), 6),
        "training_mse": round(float(values["training_mse"][best]), 6),
        "auxiliary": round(float(values["test_auxiliary"][best]), 6),
    }


def _curves(
    method: str, pairs: Sequence[Pair], known: Mapping[str, Any], result: LoopResult
) -> list[dict[str, Any]]:
    """MSE after every epoch, mean over the folds of a property."""
    found = []
    for name in dict.fromkeys(name for name, _ in pairs):
        rows = [row for row, pair in enumerate(pairs) if pair[0] == name]
        means = {
            part: [round(float(v), 5) for v in result.validation[key][:, rows].mean(1)]
            for part, key in (("training", "training_mse"), ("validation", "mse"), ("test", "test_mse"))
        }
        folds = [pairs[row][1] for row in rows]
        found.append(
            {"dataset": name, "method": method, "settings": settings_hash(known), "folds": folds, **means}
        )
    return found


def _add_curves(path: Path, new: Sequence[Mapping[str, Any]]) -> None:
    """Put curves into the file, in place of older ones of the same folds."""
    every = [*read_cells(path), *new]
    by_name = {(c["dataset"], c["method"], c["settings"], tuple(c["folds"])): c for c in every}
    if by_name:
        atomic_json(path, [by_name[key] for key in sorted(by_name)])


def merge(out: str | Path, folders: Sequence[str | Path]) -> list[Mapping[str, Any]]:
    """Put the runs of several folders (of several machines) into `out`, and write its cells."""
    out, made = Path(out), []
    for table in ("table3", "table3_trials"):
        records = Records(out / f"{table}_runs.json")
        for folder in folders:
            records.add(Records(Path(folder) / f"{table}_runs.json").runs)
            _add_curves(out / f"{table}_curves.json", read_cells(Path(folder) / f"{table}_curves.json"))
        groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for one in records.runs:
            key = (one["dataset"], one["method"], settings_hash(one["settings"]))
            groups.setdefault(key, []).append(one)
        found = [cell for group in groups.values() for cell in _cells(group)]
        if found:
            merge_cells(out / f"{table}.json", found)
        made += found
    return made


class _Watch:
    """Says how far a training is, at most every few seconds."""

    EVERY = 10.0

    def __init__(
        self,
        method: str,
        steps: int,
        epochs: int,
        tell: Tell,
        progress: Callable[[str, LoopProgress], None] | None,
    ) -> None:
        self.method, self.steps, self.epochs = method, steps, epochs
        self.tell, self.progress = tell, progress
        self.began = self.said = time.monotonic()
        self.first: int | None = None

    def __call__(self, state: LoopProgress) -> None:
        if self.progress is not None:
            self.progress(self.method, state)
        epoch, now = round(state.iteration / self.steps), time.monotonic()
        if self.first is None:
            self.first, self.began = epoch, now
        if now - self.said < self.EVERY and epoch < self.epochs:
            return
        self.said = now
        each = (now - self.began) / max(epoch - self.first, 1)
        self.tell(
            f"{self.method}: epoch {epoch} of {self.epochs}, {each:.2f} s per epoch ({each / self.steps * 1e3:.3f} ms "
            f"per step), MSE: training {state.validation['training_mse'].mean():.4f}, validation "
            f"{state.validation['mse'].mean():.4f}"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.regression --method mincut --property mu alpha --folds 2 --minutes 9``."""
    parser = experiment_parser("regression", "E6: table 3, graph regression on QM9.", FOLDS, (), METHODS)
    parser.add_argument(
        "--property",
        nargs="+",
        default=list(PROPERTIES),
        choices=PROPERTIES,
        metavar="NAME",
        help="default all",
    )
    parser.add_argument(
        "--folds", dest="runs", type=int, help="the first so many of the ten folds (default 10)"
    )
    parser.add_argument(
        "--minutes", type=float, help="stop cleanly after so many minutes; the same command continues"
    )
    parser.add_argument("--data", help="folder of QM9.npz, as written by python -m softcut.datasets.pack QM9")
    parser.add_argument("--seed", type=int, default=0, help="of the folds and of all weights (default 0)")
    defaults = RegressionSettings()
    for name, kind in (("batch", int), ("epochs", int), ("lr", float), ("k", int), ("molecules", int)):
        parser.add_argument(f"--{name}", type=kind, help=f"default {getattr(defaults, name) or 'all'}")
    parser.add_argument("--bond-orders", action="store_true", help="bonds weigh 1, 2, 3, and 1.5 if aromatic")
    parser.add_argument(
        "--readout", choices=READOUTS, help="default mean, over the atoms; padded: sum divided by 9"
    )
    parser.add_argument(
        "--unmasked", action="store_true", help="padding counts as atoms: all molecules have 9 nodes"
    )
    parser.add_argument(
        "--pool-hidden", type=int, help="width of the hidden layer of MinCutPool (default 16)"
    )
    parser.add_argument(
        "--two-hop",
        action="store_true",
        help="Top-K joins kept atoms with a common neighbour, as the paper's code",
    )
    parser.add_argument("--quick", action="store_true", help=f"a trial, not the table: {dict(QUICK)}")
    parser.add_argument(
        "--compile", action="store_true", help="compile the step (a minute per method, then faster)"
    )
    parser.add_argument(
        "--merge", nargs="+", metavar="DIR", help="train nothing; put the runs of these folders into --out"
    )

    def run_it(given: Any) -> str:
        if given.merge:
            merge(given.out, given.merge)
            return render(given.out, given.property, given.method)
        names = ("batch", "epochs", "lr", "k", "molecules", "readout")
        chosen = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
        if given.two_hop:
            if given.method != ["topk"]:
                raise ParameterError("--two-hop is an option of Top-K: add --method topk.")
            chosen["pool_args"] = {"connect": "two_hop"}
        if given.pool_hidden is not None:
            if given.method != ["mincut"]:
                raise ParameterError("--pool-hidden is an option of MinCutPool: add --method mincut.")
            chosen["pool_args"] = {"hidden": given.pool_hidden}
        chosen |= {name: True for name in ("bond_orders", "unmasked") if getattr(given, name)}
        settings = RegressionSettings(**{**(QUICK if given.quick else {}), **chosen})
        if given.quick:
            print(f"a trial with {settings.changed()}, not the table of the paper", flush=True)
        run(
            given.out,
            given.property,
            given.method,
            min(given.runs, FOLDS),
            minutes=given.minutes,
            seed=given.seed,
            settings=settings,
            device=given.device,
            data=given.data,
            compiled=given.compile,
            tell=lambda text: print(text, flush=True),
        )
        return render(given.out, given.property, given.method, table_of(settings))

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
