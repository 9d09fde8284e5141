"""E5, table 2: graph classification, seven data sets, ten folds, one row per pooling operator.

All folds of a data set and method train side by side (:mod:`softcut.classification`). Finished folds are recorded
at once; a training that is stopped or killed continues from a checkpoint that is at most a minute old.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.classification.collection import GraphCollection
from softcut.classification.experiment import METHODS as NETWORKS
from softcut.classification.experiment import ClassifierSettings, cluster_sizes, train_folds
from softcut.classification.hierarchy import HIERARCHIES
from softcut.datasets.collections import load_graphs
from softcut.datasets.hierarchies import load_hierarchy
from softcut.paper.common import check_names, experiment_parser, markdown_table, run_experiment
from softcut.provenance import commit, device_name
from softcut.training import LoopProgress
from softcut.training.runs import Records, cells, merge_cells, settings_hash

__all__ = ["DATASETS", "METHODS", "PAPER", "main", "merge", "render", "run", "settings_of"]

DATASETS = ("Bench-easy", "Bench-hard", "Mutagenicity", "PROTEINS", "DD", "COLLAB", "REDDIT-BINARY")
METHODS = (
    "wl",
    "dense",
    "nopool",
    "graclus",
    "ndp",
    "diffpool",
    "topk",
    "sagpool",
    "mincut",
    "random",
    "dmon",
    "justbalance",
)
TRIALS = ("Bench-easy-small", "Bench-hard-small")  # the published small sets, not in the paper's table

_PAPER_COLUMNS = ("wl", "dense", "nopool", "graclus", "ndp", "diffpool", "topk", "sagpool", "mincut")
_PAPER_ROWS: dict[str, str] = {
    "Bench-easy": "92.6 29.3±0.3 98.5±0.3 97.5±0.5 97.9±0.5 98.6±0.4 82.4±8.9 84.2±2.3 99.0±0.0",
    "Bench-hard": "60.0 29.4±0.3 67.6±2.8 69.0±1.5 72.6±0.9 69.9±1.9 42.7±15.2 37.7±14.5 73.8±1.9",
    "Mutagenicity": "81.7±1.1 68.4±0.3 78.0±1.3 74.4±1.8 77.8±2.3 77.6±2.7 71.9±3.7 72.4±2.4 79.9±2.1",
    "PROTEINS": "71.2±2.6 68.7±3.3 72.6±4.8 68.6±4.6 73.3±3.7 72.7±3.8 69.6±3.5 70.5±2.6 76.5±2.6",
    "DD": "78.6±2.7 70.6±5.2 76.8±1.5 70.5±4.8 72.0±3.1 79.3±2.4 69.4±7.8 71.5±4.5 80.8±2.3",
    "COLLAB": "74.8±1.3 79.3±1.6 82.1±1.8 77.1±2.1 79.1±1.5 81.8±1.4 79.3±1.8 79.2±2.0 83.4±1.7",
    "REDDIT-BINARY": "68.2±1.7 48.5±2.6 80.3±2.6 79.2±0.4 84.3±2.4 86.8±2.1 74.7±4.5 73.9±5.1 91.4±1.5",
}


def _paper() -> dict[tuple[str, str, str], tuple[float, float | None]]:
    found: dict[tuple[str, str, str], tuple[float, float | None]] = {}
    for dataset, row in _PAPER_ROWS.items():
        for method, text in zip(_PAPER_COLUMNS, row.split(), strict=True):
            mean, _, std = text.partition("±")
            found[dataset, method, "accuracy"] = (float(mean), float(std) if std else None)
    return found


# (mean, standard deviation) of the test accuracy in percent, table 2 of the paper.
PAPER = _paper()

Tell = Callable[[str], None]


def settings_of(
    method: str, graphs: GraphCollection, settings: ClassifierSettings, seed: int = 0, folds: int = 10
) -> dict[str, Any]:
    """Everything that decides the result of a fold besides its number."""
    if method == "wl":
        from softcut.baselines.wl import WL_SETTINGS

        return {**WL_SETTINGS, "split_seed": seed, "folds": folds}
    known = {**asdict(settings), "pool_args": dict(settings.pool_args)}
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
    progress: Callable[[str, str, LoopProgress], None] | None = None,
) -> list[Mapping[str, Any]]:
    """Train what is missing; write ``table2.json`` (cells) and ``table2_runs.json`` (runs, one per fold).

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
        Called with the data set, the method and a LoopProgress once per epoch.
    """
    check_names(datasets, (*DATASETS, *TRIALS), "datasets")
    check_names(methods, METHODS, "methods")
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
        progress: Callable[[str, str, LoopProgress], None] | None,
    ) -> None:
        self.out, self.folds, self.seed, self.settings = out, folds, seed, settings
        self.device, self.data, self.progress = device, data, progress
        self.tell = tell if tell is not None else (lambda text: None)
        self.records = Records(out / "table2_runs.json")
        self.ends = None if minutes is None else time.monotonic() + 60 * minutes

    @property
    def left(self) -> float | None:
        """Seconds until the time is up."""
        return None if self.ends is None else self.ends - time.monotonic()

    @property
    def out_of_time(self) -> bool:
        return self.left is not None and self.left <= 0

    def run(self, graphs: GraphCollection, method: str) -> list[Mapping[str, Any]]:
        """Train the folds that are missing, and write the cell."""
        known = settings_of(method, graphs, self.settings, self.seed)
        missing = self.records.missing(graphs.name, method, range(self.folds), known)
        if missing and not self.out_of_time:
            runs = self._train(graphs, method, missing, known)
            origin = {"device": device_name(self.device if method != "wl" else "cpu"), "commit": commit()}
            shared = {"dataset": graphs.name, "method": method, "settings": known, "note": graphs.note}
            self.records.add([{**shared, **run, **origin} for run in runs])
        done = self.records.of(graphs.name, method, range(self.folds), known)
        if not done:
            return []
        return _write_cells(self.out, done)

    def _train(
        self, graphs: GraphCollection, method: str, missing: list[int], known: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        self.tell(f"{graphs.name}: {method}, folds {', '.join(map(str, missing))}")
        start = time.perf_counter()
        if method == "wl":
            from softcut.baselines.wl import wl_folds

            found = wl_folds(graphs, missing, self.seed)
            seconds = (time.perf_counter() - start) / len(missing)
            return [
                {"seed": fold, "accuracy": 100 * accuracy, "seconds": seconds} for fold, accuracy in found
            ]
        hierarchy = None
        if NETWORKS[method] in HIERARCHIES:
            hierarchy = load_hierarchy(graphs, method, self.data)
            self.tell(
                f"{graphs.name}: {method}, coarse graphs ready after {time.perf_counter() - start:.1f} s"
            )
        name = settings_hash({"dataset": graphs.name, "method": method, "folds": missing, **known})
        checkpoint = self.out / "checkpoints" / f"{graphs.name}-{method}-{name}.pt"
        watch = _Watch(graphs.name, method, self.tell, self.progress, known["epochs"])
        results, loop = train_folds(
            graphs,
            method,
            missing,
            self.seed,
            self.settings,
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
            return []
        checkpoint.unlink(missing_ok=True)
        seconds = loop.seconds / len(results)
        self.tell(f"{graphs.name}: {method} took {loop.seconds:.0f} s")
        return [
            {
                "seed": result.fold,
                "accuracy": round(100 * result.accuracy, 4),
                "best_epoch": result.best_epoch,
                "epochs": result.epochs,
                "validation_loss": round(result.validation_loss, 6),
                **{key: round(value, 6) for key, value in result.details.items()},
                "seconds": round(seconds, 3),
            }
            for result in results
        ]


def _write_cells(out: Path, runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cell of one data set and method."""
    first = runs[0]
    command = (
        f"python -m softcut.paper.classification --dataset {first['dataset']} --method {first['method']}"
    )
    # Tables name data sets in small letters and the metric "acc"; runs keep the loader's name.
    named = {"dataset": first["dataset"].lower(), "metric": "acc", "note": first["note"]}
    made = [{**cell, **named} for cell in cells(runs, ["accuracy"], PAPER, command)]
    merge_cells(out / "table2.json", made)
    return list(made)


def merge(out: str | Path, folders: Sequence[str | Path]) -> list[Mapping[str, Any]]:
    """Put the runs of several folders (of several machines or processes) into `out`, and write its cells.

    Runs with the settings of the first run of their data set and method make its cell.
    """
    out = Path(out)
    records = Records(out / "table2_runs.json")
    for folder in folders:
        records.add(Records(Path(folder) / "table2_runs.json").runs)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for run in records.runs:
        group = groups.setdefault((run["dataset"], run["method"]), [])
        if not group or group[0]["settings"] == run["settings"]:
            group.append(run)
    return [cell for group in groups.values() for cell in _write_cells(out, group)]


class _Watch:
    """Says how far a training is, at most every few seconds."""

    EVERY = 10.0

    def __init__(
        self,
        dataset: str,
        method: str,
        tell: Tell,
        progress: Callable[[str, str, LoopProgress], None] | None,
        epochs: int,
    ) -> None:
        self.dataset, self.method, self.tell, self.progress, self.epochs = (
            dataset,
            method,
            tell,
            progress,
            epochs,
        )
        self.epoch = 0
        self.said = self.began = time.monotonic()
        self.first: int | None = None

    def __call__(self, state: LoopProgress) -> None:
        self.epoch = round(self.epochs * state.iteration / state.iterations)
        if self.progress is not None:
            self.progress(self.dataset, self.method, state)
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


def not_worse_than_the_best(runs: Mapping[str, Sequence[float]], level: float = 0.05) -> set[str]:
    """The methods whose results are not significantly worse than those of the best one (Welch's t-test).

    >>> sorted(not_worse_than_the_best({"a": [90.0, 91.0, 92.0], "b": [89.0, 91.0, 91.5], "c": [50.0, 51.0, 52.0]}))
    ['a', 'b']
    """
    from scipy.stats import ttest_ind

    if not runs:
        return set()
    best = max(runs, key=lambda method: float(np.mean(runs[method])))
    found = {best}
    for method, values in runs.items():
        if method == best or len(values) < 2 or len(runs[best]) < 2:
            continue
        if np.array_equal(np.sort(values), np.sort(runs[best])):
            found.add(method)
            continue
        p = float(ttest_ind(values, runs[best], equal_var=False, alternative="less").pvalue)
        if math.isnan(p) or p >= level:
            found.add(method)
    return found


def render(out: str | Path, datasets: Sequence[str] = DATASETS, methods: Sequence[str] = METHODS) -> str:
    """Table 2 as Markdown from the cells in `out`: measured, and the paper's below it in brackets.

    Bold: not significantly worse than the best of the row (p < 0.05, Welch's t-test). A star: a fresh draw of the
    data set's process.
    """
    import json

    path = Path(out) / "table2.json"
    table = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    known = {(cell["dataset"], cell["method"]): cell for cell in table if cell["metric"] == "acc"}
    used = [m for m in methods if any((d.lower(), m) in known for d in datasets)]
    rows, drawn = [], False
    records = Records(Path(out) / "table2_runs.json")
    for dataset in datasets:
        cells_of = {m: known[dataset.lower(), m] for m in used if (dataset.lower(), m) in known}
        if not cells_of:
            continue
        values = {
            m: [r["accuracy"] for r in records.runs if r["dataset"] == dataset and r["method"] == m]
            for m in cells_of
        }
        compared = {m: v for m, v in values.items() if v}
        bold = not_worse_than_the_best(compared) if len(compared) > 1 else set()
        star = any(cell.get("note") for cell in cells_of.values())
        drawn = drawn or star
        row = [dataset + (" *" if star else "")]
        for method in used:
            cell = cells_of.get(method)
            if cell is None:
                row.append("-")
                continue
            text = f"{cell['mean']:.1f} ± {cell['std']:.1f}"
            text = f"**{text}**" if method in bold else text
            short = "" if cell["n"] == 10 else f", {cell['n']} folds"
            paper = "" if cell["paper_mean"] is None else f" ({cell['paper_mean']:.1f})"
            row.append(text + paper + short)
        rows.append(row)
    lines = [markdown_table(["data", *used], rows)]
    lines.append("Test accuracy in percent, mean ± standard deviation over folds; in brackets the paper's.")
    if drawn:
        lines.append("* a fresh draw of the process that made the published set, not the published graphs.")
    return "\n\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.classification --dataset PROTEINS --method mincut --folds 2 --minutes 10``."""
    parser = experiment_parser(
        "classification", "E5: table 2, graph classification.", 10, (*DATASETS, *TRIALS), METHODS
    )
    parser.set_defaults(dataset=list(DATASETS))
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

        def tell(text: str) -> None:
            print(text, flush=True)

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
            tell=tell,
        )
        return render(given.out, given.dataset, given.method)

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
