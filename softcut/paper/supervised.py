"""What the runners of tables 2 and 3 share: records and checkpoints, the time limit, progress, curves, merging.

A finished training is recorded at once; one that is stopped or killed continues from a checkpoint that is at most a
minute old.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from softcut.files import atomic_json
from softcut.paper.common import Tell, run_experiment, say
from softcut.paper.runs import Records, merge_cells, read_cells, settings_hash
from softcut.report.tables import cell_table, to_markdown
from softcut.training import LoopProgress

__all__ = ["Job", "Pair", "merge", "run_main"]

Pair = tuple[str, int]  # a data set (or property) and a fold
_EVERY = 10.0  # seconds between two sentences about one training


class Job:
    """What the trainings of one call share: where results go, how much time is left, who is told."""

    def __init__(self, out: str | Path, device: torch.device | str, minutes: float | None, tell: Tell):
        self.out, self.device = Path(out), torch.device(device)
        self.tell = tell
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
        folds: int,
        known: Mapping[str, Any],
        train: Callable[[list[Pair]], None],
        cells_of: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]],
    ) -> list[dict[str, Any]]:
        """Train what is missing of some data sets and folds, write the cells of what is finished, and return them."""
        records = self.records(table)
        asked = ((name, records.missing(name, method, range(folds), known)) for name in names)
        missing = [(name, fold) for name, numbers in asked for fold in numbers]
        if missing and not self.out_of_time:
            train(missing)
        done = [records.of(name, method, range(folds), known) for name in names]
        made = [cell for runs in done if runs for cell in cells_of(runs)]
        if made:
            merge_cells(self.out / f"{table}.json", made)
        return made

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
        _add_curves(self.out, curves_of or table, curves)
        self.records(table).add(runs, device or self.device)
        checkpoint.unlink(missing_ok=True)  # not before its results are on disk


def _add_curves(out: Path, table: str, new: Sequence[Mapping[str, Any]]) -> None:
    """Put curves into the file of a table, in place of older ones of the same folds."""
    path = out / f"{table}_curves.json"
    every = [*read_cells(path), *new]
    by_name = {(c["dataset"], c["method"], c["settings"], tuple(c["folds"])): c for c in every}
    if by_name:
        atomic_json(path, [by_name[key] for key in sorted(by_name)])


def merge(
    out: str | Path,
    folders: Sequence[str | Path],
    tables: Sequence[str],
    cells_of: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Put the runs of several folders (of several machines or processes) into `out`, and write its cells.

    Of runs with different settings that make a cell of one name, the first ones count.
    """
    out = Path(out)
    made: list[dict[str, Any]] = []
    for table in tables:
        records = Records(out / f"{table}_runs.json")
        for folder in folders:
            runs = Records(Path(folder) / f"{table}_runs.json").runs
            if runs:
                records.add(runs)
            _add_curves(out, table, read_cells(Path(folder) / f"{table}_curves.json"))
        groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for run in records.runs:
            key = (run["dataset"], run["method"], settings_hash(run["settings"]))
            groups.setdefault(key, []).append(run)
        found: dict[tuple[str, str, str], dict[str, Any]] = {}
        for group in groups.values():
            for cell in cells_of(group):
                found.setdefault((cell["dataset"], cell["method"], cell["metric"]), cell)
        if found:
            merge_cells(out / f"{table}.json", list(found.values()))
        made += found.values()
    return made


def run_main(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    data: str,
    digits: int,
    run: Callable[..., list[dict[str, Any]]],
    merge: Callable[[str, Sequence[str]], list[dict[str, Any]]],
) -> None:
    """The command of a runner: the options that both have, then `run` with what was given, or `merge`."""
    parser.add_argument(
        "--folds", dest="runs", type=int, help="the first so many of the ten folds (default 10)"
    )
    parser.add_argument(
        "--minutes", type=float, help="stop cleanly after so many minutes; the same command continues"
    )
    parser.add_argument("--data", help=data)
    parser.add_argument("--seed", type=int, default=0, help="of the folds and of all weights (default 0)")
    parser.add_argument(
        "--merge", nargs="+", metavar="DIR", help="train nothing; put the runs of these folders into --out"
    )

    def run_it(given: Any) -> str:
        shared = {name: getattr(given, name) for name in ("minutes", "seed", "device", "data")}
        folds = min(given.runs, 10)
        made = merge(given.out, given.merge) if given.merge else run(given, folds=folds, tell=say, **shared)
        return to_markdown(cell_table(made, digits=digits))

    run_experiment(parser, run_it, arguments)
