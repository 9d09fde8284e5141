"""E5, table 2: graph classification, seven data sets, ten folds, one column per pooling operator.

All folds of a data set and method train side by side (:mod:`softcut.learning`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.datasets.collections import load_graphs, load_hierarchy, load_raw_graphs
from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection
from softcut.learning.default_folds import MEMBERS, DefaultFold, train_default_folds
from softcut.learning.experiment import METHODS as NETWORKS
from softcut.learning.experiment import (
    ClassifierSettings,
    FoldResult,
    cluster_sizes,
    folds_at_once,
    train_folds,
)
from softcut.learning.hierarchy import HIERARCHIES
from softcut.learning.subtrees import COLUMNS
from softcut.paper import commands, table2
from softcut.paper.poolers import stated
from softcut.paper.runs import Pair, Progress, RunSession, Tell, cells, quiet, settings_hash
from softcut.paper.runs import merge as merge_folders
from softcut.report.tables import cell_table
from softcut.training import LoopProgress, LoopResult

_KNOWN_BY = ("batch", "lr", "epochs", "patience", "l2", "hidden", "levels", "pool_args")


def settings_of(
    method: str, graphs: GraphCollection, settings: ClassifierSettings, seed: int = 0, folds: int = 10
) -> dict[str, Any]:
    """Everything that decides the result of a fold besides its number; `graphs` as the method sees them."""
    if method == "wl":
        from softcut.baselines.wl import WL_SETTINGS

        return {**WL_SETTINGS, "split_seed": seed, "folds": folds}
    network, settings = table2.network_of(method, settings)
    if network == "default":
        names = ("batch", "lr", "epochs", "patience", "l2", "hidden", "levels")
        known = {name: getattr(settings, name) for name in names} | {
            "members": MEMBERS,
            "subtree_columns": COLUMNS,
        }
        return {**known, "data": graphs.note or "published", "split_seed": seed, "folds": folds}
    known = {**asdict(settings), "pool_args": dict(settings.pool_args)}
    usual = asdict(table2.SETTINGS)
    return {
        # Runs on disk are known by these names; others count where they are changed.
        **{name: value for name, value in known.items() if name in _KNOWN_BY or value != usual[name]},
        "k": list(settings.k or cluster_sizes(graphs, settings.levels)),
        "features": graphs.num_features,
        "data": graphs.note or "published",
        "split_seed": seed,
        "folds": folds,
    }


def run(
    out: str | Path,
    datasets: Sequence[str] = table2.DATASETS,
    methods: Sequence[str] = table2.METHODS,
    folds: int = 10,
    *,
    minutes: float | None = None,
    seed: int = 0,
    settings: ClassifierSettings | None = None,
    device: torch.device | str = "cpu",
    data: str | Path | None = None,
    tell: Tell = quiet,
    progress: Progress = quiet,
) -> list[dict[str, Any]]:
    """Train what is missing; write ``table2.json`` (cells) and ``table2_runs.json`` (runs, one per fold).

    Variants of MinCutPool and trials (:mod:`softcut.paper.table2`) are run where they are named, and go to
    ``table2_ablation.json`` and ``table2_trials.json``; validation curves, mean over the folds, to
    ``table2_curves.json``.
    """
    datasets = table2.dataset_names(datasets)
    table2.check_methods(methods)
    settings = table2.SETTINGS if settings is None else settings
    session = RunSession(out, device, minutes, tell)

    def train(graphs: GraphCollection, method: str, known: Mapping[str, Any], missing: list[Pair]) -> None:
        """Train folds side by side, in groups where that is faster; out of time, a checkpoint is left."""
        network, own = table2.network_of(method, settings)
        numbers = [fold for _, fold in missing]
        size = None if method == "wl" else folds_at_once(graphs, own, session.device)
        if size is not None and size < len(numbers):
            for first in range(0, len(numbers), size):
                if not session.out_of_time:
                    train(graphs, method, known, missing[first : first + size])
            return
        name, start = f"{graphs.name}: {method}", time.perf_counter()
        session.tell(f"{name}, folds {', '.join(map(str, numbers))}")
        identity = {"dataset": graphs.name, "method": method, **known, "folds": numbers}
        checkpoint = session.checkpoint(f"{graphs.name}-{method}", identity)
        shared: dict[str, Any] = {"dataset": graphs.name, "method": method, "settings": known}
        shared["note"] = graphs.note
        if method == "wl":
            from softcut.baselines.wl import wl_folds

            accuracies = wl_folds(graphs, numbers, seed)
            shared |= {"seconds": (time.perf_counter() - start) / len(numbers)}
            runs = [{**shared, "seed": fold, "accuracy": 100 * hits} for fold, hits in accuracies]
            session.keep(table2.table_of(method), runs, checkpoint, device="cpu")
            return
        options: dict[str, Any] = {
            "device": session.device,
            "callback": session.watch(
                name, known["epochs"], _describe, partial(progress, f"{graphs.name} {method}", numbers)
            ),
            "checkpoint": checkpoint,
            "time_limit": session.left,
        }
        results: Sequence[FoldResult | DefaultFold]
        if network == "default":
            plain = load_graphs(graphs.name, data, structure=False)
            coefficients = load_raw_graphs(graphs.name, data)[0].coefficients
            results, loop = train_default_folds(
                plain, numbers, seed, own, coefficients=coefficients, **options
            )
        else:
            hierarchy = None
            if NETWORKS[network] in HIERARCHIES:
                hierarchy = load_hierarchy(graphs, network, data)
                session.tell(f"{name}, coarse graphs ready after {time.perf_counter() - start:.1f} s")
            own = replace(own, pool_args=stated(NETWORKS[network], own.pool_args))
            results, loop = train_folds(graphs, network, numbers, seed, own, hierarchy=hierarchy, **options)
        if loop.interrupted:
            raise KeyboardInterrupt
        if not results:
            epochs = max(map(len, loop.validation.values()), default=0)
            session.tell(f"{name} stopped after {epochs} epochs; the same command continues it")
            return
        runs = [{**shared, **_record(result, loop.seconds / len(results))} for result in results]
        curve = {"dataset": graphs.name, "method": method, "settings": settings_hash(known), "folds": numbers}
        session.keep(table2.table_of(method), runs, checkpoint, [{**curve, **_means(loop)}], table2.TABLES[0])
        session.tell(f"{name} took {loop.seconds:.0f} s")

    made: list[dict[str, Any]] = []
    for dataset in datasets:
        plain = load_graphs(dataset, data)
        for method in methods:
            graphs = table2.graphs_for(method, plain)
            known = settings_of(method, graphs, settings, seed)
            missing_folds = partial(train, graphs, method, known)
            made += session.fill(
                table2.table_of(method), method, [graphs.name], folds, known, missing_folds, _cells
            )
            if session.out_of_time:
                return made
    return made


def _describe(state: LoopProgress) -> str:
    loss, accuracy = state.validation["loss"].mean(), state.validation["accuracy"].mean()
    return f"{len(state.active)} folds training, validation loss {loss:.4f}, accuracy {100 * accuracy:.1f}"


def _record(result: FoldResult | DefaultFold, seconds: float) -> dict[str, Any]:
    told = asdict(result)
    told |= {name: 100 * told[name] for name in ("accuracy", "validation_accuracy")}
    details = told.pop("details", {})
    told = {"seed": told.pop("fold"), **told, **details, "seconds": seconds}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in told.items()}


def _means(loop: LoopResult) -> dict[str, Any]:
    """Validation loss and accuracy after every epoch, mean over the folds still in training, and how many those are."""
    loss, accuracy = (np.nanmean(loop.validation[name], axis=1).tolist() for name in ("loss", "accuracy"))
    return {
        "loss": [round(value, 4) for value in loss],
        "accuracy": [round(100 * value, 2) for value in accuracy],
        "training": np.isfinite(loop.validation["loss"]).sum(1).tolist(),
    }


def _cells(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The cell of one data set and method."""
    dataset, method = runs[0]["dataset"], runs[0]["method"]
    # Tables name data sets in small letters and the metric "acc"; runs keep the loader's name.
    named = {"dataset": dataset.lower(), "metric": "acc", "note": runs[0]["note"]}
    return [
        {**cell, **named}
        for cell in cells(runs, ["accuracy"], table2.PAPER, table2.command_for(dataset, method))
    ]


def merge(out: str | Path, folders: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Put the runs of several folders into `out`, and write its cells; see :func:`softcut.paper.runs.merge`."""
    return merge_folders(out, folders, table2.TABLES, _cells)


_NUMBERS = {"batch": int, "epochs": int, "patience": int, "lr": float, "l2": float}


@commands.command(
    "softcut.paper.classification",
    commands.choices(
        "--dataset",
        None,
        f"among {', '.join((*table2.DATASETS, *table2.SMALL_DATASETS))} (default: all but the last two)",
    ),
    commands.choices(
        "--method",
        None,
        f"among {', '.join((*table2.METHODS, *table2.ABLATIONS))}, or a trial: mincut+lr=0.002+batch=8",
    ),
    *commands.OF_FOLDS,
    *commands.settings_options(table2.SETTINGS, _NUMBERS),
)
def main(given: Any, screen: commands.Screen) -> None:
    """E5: table 2, graph classification by every pooler; an interrupted run resumes."""
    if given.merge:
        screen.show(cell_table(merge(given.out, given.merge), digits=1))
        return
    datasets = table2.dataset_names(given.dataset or table2.DATASETS, "--dataset")
    table2.check_methods(methods := given.method or table2.METHODS, "--method")
    changed = commands.given_settings(given, _NUMBERS)
    settings = replace(table2.SETTINGS, **changed)
    if changed and "default" in methods:
        raise ParameterError(
            "--method default has settings of its own: change them by a trial, default+lr=0.002.",
            argument="method",
        )
    options = {name: getattr(given, name) for name in ("folds", "minutes", "seed", "device", "data")}
    with screen.working(len(datasets) * len(methods)) as bar:
        options |= {"settings": settings, "tell": bar.tell, "progress": bar.update}
        made = run(given.out, datasets, methods, **options)
    if made:
        screen.show(cell_table(made, "Table 2: test accuracy in percent", digits=1))
    finished = {(cell["dataset"], cell["method"]): cell["n"] for cell in made}
    left = [f"{d}: {m}" for d in datasets for m in methods if finished.get((d.lower(), m), 0) < given.folds]
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        screen.note(f"the time was up; not finished: {shown}. The same command continues.")


if __name__ == "__main__":
    main()
