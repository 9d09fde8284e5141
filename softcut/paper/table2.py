"""Table 2 of the paper: data sets, methods, the published numbers; variants of MinCutPool and trials beside it.

A trial is a method with other settings, named by them: ``mincut+lr=0.002+batch=8``. It is trained, recorded and merged
as a method of the table is, into files of its own (``table2_trials.json``). What can be changed:

- ``batch``, ``lr``, ``epochs``, ``patience``, ``l2``, ``hidden``: numbers of
  :class:`~softcut.learning.ClassifierSettings`;
- ``k=20,10``: clusters at each level;
- ``stop_on``: loss, task (cross entropy alone) or error;
- ``degree``: how the degree is given: ``seen`` (one-hot of the degrees that occur), ``log`` (the z-scored logarithm of
  1 + degree) or a number (one-hot, higher degrees count as it);
- any option of the pooler, such as ``ortho_weight=4`` or ``temperature=0.1``.

``mincut+table`` changes nothing: the settings of the table, with what is recorded of a trial.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.datasets.collections import COLLECTIONS
from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection
from softcut.learning.default_folds import default_settings
from softcut.learning.experiment import METHODS as NETWORKS
from softcut.learning.experiment import ClassifierSettings
from softcut.nn.pool import pool_options
from softcut.paper.comparison import Results, grid, paper_numbers
from softcut.report.tables import Table

DATASETS = ("Bench-easy", "Bench-hard", "Mutagenicity", "PROTEINS", "DD", "COLLAB", "REDDIT-BINARY")
SMALL_DATASETS = ("Bench-easy-small", "Bench-hard-small")  # published, not in the paper's table
PAPER_METHODS = ("wl", "dense", "nopool", "graclus", "ndp", "diffpool", "topk", "sagpool", "mincut")
POOLERS = PAPER_METHODS[3:]
# "default" is that of GraphClassification: its protocol is in docs/classification.md.
METHODS = (*PAPER_METHODS, "random", "dmon", "justbalance", "default")

# What keeps MinCutPool from degenerating, taken away piece by piece; a table of their own.
ABLATIONS: dict[str, dict[str, Any]] = {
    "mincut-nolosses": {"cut_weight": 0.0, "ortho_weight": 0.0},
    "mincut-noortho": {"ortho_weight": 0.0},
    "mincut-diagonal": {"keep_diagonal": True},
}
ABLATION_DATASETS = ("PROTEINS", "DD", "Bench-hard")
# How the networks of the table are trained: the paper's settings, but for the batch.
SETTINGS = ClassifierSettings(
    batch=32,
    lr=5e-4,
    epochs=500,
    patience=50,
    l2=1e-4,
    hidden=32,
    levels=2,
    k=None,
    pool_args={},
    stop_on="loss",
)
TABLES = ("table2", "table2_ablation", "table2_trials")  # names of the files of cells and runs
UNCHANGED = "table"  # the change of a trial that changes nothing
_NUMBERS = {"batch": int, "lr": float, "epochs": int, "patience": int, "l2": float, "hidden": int}

_PAPER_ROWS: dict[str, str] = {
    "Bench-easy": "92.6 29.3±0.3 98.5±0.3 97.5±0.5 97.9±0.5 98.6±0.4 82.4±8.9 84.2±2.3 99.0±0.0",
    "Bench-hard": "60.0 29.4±0.3 67.6±2.8 69.0±1.5 72.6±0.9 69.9±1.9 42.7±15.2 37.7±14.5 73.8±1.9",
    "Mutagenicity": "81.7±1.1 68.4±0.3 78.0±1.3 74.4±1.8 77.8±2.3 77.6±2.7 71.9±3.7 72.4±2.4 79.9±2.1",
    "PROTEINS": "71.2±2.6 68.7±3.3 72.6±4.8 68.6±4.6 73.3±3.7 72.7±3.8 69.6±3.5 70.5±2.6 76.5±2.6",
    "DD": "78.6±2.7 70.6±5.2 76.8±1.5 70.5±4.8 72.0±3.1 79.3±2.4 69.4±7.8 71.5±4.5 80.8±2.3",
    "COLLAB": "74.8±1.3 79.3±1.6 82.1±1.8 77.1±2.1 79.1±1.5 81.8±1.4 79.3±1.8 79.2±2.0 83.4±1.7",
    "REDDIT-BINARY": "68.2±1.7 48.5±2.6 80.3±2.6 79.2±0.4 84.3±2.4 86.8±2.1 74.7±4.5 73.9±5.1 91.4±1.5",
}
# (mean, standard deviation) of the test accuracy in percent.
PAPER = paper_numbers(_PAPER_ROWS, PAPER_METHODS, "accuracy")


def results(out: str | Path) -> Results:
    """The cells and runs of a folder."""
    return Results(out, TABLES, "acc", "accuracy", "classification", digits=1, higher=True)


def is_repeated(dataset: str) -> bool:
    """Whether the "folds" of a data set are independent runs on one split."""
    return dataset.startswith("Bench")


def table(measured: Results, datasets: Sequence[str] = DATASETS, methods: Sequence[str] = METHODS) -> Table:
    """Table 2: measured, and the paper's.

    Bold: best, or not significantly worse than the best, of all columns (p < 0.05; the folds' paired test corrected for
    their overlap, on Bench Welch's test over seeds). A star: a fresh draw of the data set's process.
    """
    made = grid(measured, "data", datasets, methods, among=methods, independent=is_repeated)
    drawn = {name for (name, _), cell in measured.cells.items() if cell.get("note")}
    best = {name: measured.best_of(name, POOLERS, is_repeated(name)) for name in datasets}
    notes = [
        "Test accuracy in percent, mean ± standard deviation over ten folds (Bench: ten runs); in brackets the "
        "paper's. Bold: the best of all columns, and those not significantly worse.",
        "The same among the paper's six poolers alone: "
        + "; ".join(
            f"{name}: {', '.join(sorted(own, key=POOLERS.index))}" for name, own in best.items() if own
        )
        + ".",
    ]
    if drawn & set(datasets):
        notes.append("\\* a fresh draw of the process that made the published set, not the published graphs.")
    rows = [[f"{row[0]} *" if row[0] in drawn else row[0], *row[1:]] for row in made.rows]
    return replace(made, rows=rows, notes=notes)


def is_trial(method: str) -> bool:
    """Whether a name is that of a trial."""
    return "+" in method


def read_trial(name: str) -> tuple[str, dict[str, str]]:
    """The network of a trial, and what is changed for it, as text: mincut and {"lr": "0.002"}."""
    method, _, rest = name.partition("+")
    if method not in NETWORKS:
        raise ParameterError(
            f"method {name!r} must begin with a network ({', '.join(NETWORKS)}), not {method!r}.",
            argument="method",
        )
    valid = dict.fromkeys((*_NUMBERS, "k", "stop_on", "degree", *pool_options(NETWORKS[method])))
    valid.pop("in_channels", None)
    changes: dict[str, str] = {}
    for part in rest.split("+") if rest != UNCHANGED else ():
        key, _, value = part.partition("=")
        if key not in valid:
            raise ParameterError(
                f"method {name!r} must change one of {', '.join(valid)}, not {key}.", argument="method"
            )
        if not value or key in changes:
            raise ParameterError(
                f"method {name!r} must give {key} one value, as in {key}=VALUE.", argument="method"
            )
        changes[key] = value
    return method, changes


def _number(kind: Callable[[str], Any], name: str, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"{name} must be a number, not {text!r}.", argument=name) from None


def _option(text: str) -> Any:
    """The value of a pooler's option: True, False, None, a number or a word."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return float(value) if type(value) is int else value


def network_of(method: str, settings: ClassifierSettings) -> tuple[str, ClassifierSettings]:
    """The network that a method trains, and its settings: a variant is MinCutPool with other options."""
    if method in ABLATIONS:
        return "mincut", replace(settings, pool_args={**settings.pool_args, **ABLATIONS[method]})
    if method.partition("+")[0] == "default":
        settings = default_settings()
    if not is_trial(method):
        return method, settings
    network, changes = read_trial(method)
    changed: dict[str, Any] = {"pool_args": dict(settings.pool_args)}
    for name, text in changes.items():
        if name in _NUMBERS:
            changed[name] = _number(_NUMBERS[name], name, text)
        elif name == "k":
            changed["k"] = tuple(_number(int, name, part) for part in text.split(","))
        elif name == "stop_on":
            changed["stop_on"] = text
        elif name != "degree":
            changed["pool_args"][name] = _option(text)
    return network, replace(settings, **changed)


def check_methods(given: Iterable[str], argument: str = "methods") -> None:
    """An error where a name is neither a method of the table, nor a variant of MinCutPool, nor a trial."""
    valid = (*METHODS, *ABLATIONS)
    for name in given:
        if is_trial(name):
            network_of(name, SETTINGS)  # values that cannot be are refused before anything is trained
        elif name not in valid:
            raise ParameterError(
                f"{argument} must be one of {', '.join(valid)}, or a trial (mincut+lr=0.002), got {name!r}.",
                argument=argument,
            )


def graphs_for(method: str, graphs: GraphCollection) -> GraphCollection:
    """The graphs as a method sees them: a trial may give the degree in another form."""
    degree = read_trial(method)[1].get("degree") if is_trial(method) else None
    return graphs if degree is None else with_degree(graphs, degree)


def with_degree(graphs: GraphCollection, how: str) -> GraphCollection:
    """The graphs with another form of the degree, which is the first feature of the TU data sets."""
    degree = graphs.degree
    if not graphs.index.shape[1] or not np.array_equal(graphs.index[:, 0], degree):
        raise ParameterError(
            f"degree must be left as it is for {graphs.name}: its first feature is not the degree.",
            argument="degree",
        )
    old = int(degree.max()) + 1
    if how == "log":
        logarithm = np.log1p(degree)
        scaled = (logarithm - logarithm.mean()) / (logarithm.std() or 1.0)
        value = np.column_stack([scaled, graphs.value]).astype(np.float32)
        # The logarithm goes to the numbers, which are the last features.
        index = graphs.index[:, 1:] - old
        return replace(graphs, index=index, value=value, num_features=graphs.num_features - old + 1)
    column: NDArray[Any]
    if how == "seen":
        _, column = np.unique(degree, return_inverse=True)
    else:
        highest = _number(int, "degree", how)
        if highest < 1:
            raise ParameterError(f"degree must be seen, log or at least 1, not {how}.", argument="degree")
        column = np.minimum(degree, highest)
    new = int(column.max()) + 1
    index = np.column_stack([column, graphs.index[:, 1:] - old + new]).astype(np.int32)
    return replace(graphs, index=index, num_features=graphs.num_features - old + new)


def table_of(method: str) -> str:
    """The name of the files that hold a method's cells and runs."""
    plain, ablation, trials = TABLES
    return trials if is_trial(method) else ablation if method in ABLATIONS else plain


def command_for(dataset: str, method: str) -> str:
    """What makes a cell."""
    return f"softcut reproduce classification --dataset {dataset} --method {method}"


def dataset_names(given: Iterable[str], argument: str = "datasets") -> list[str]:
    """Names of table 2's data sets, in any case, as the loader has them."""
    valid = {name.lower(): name for name in COLLECTIONS if name in (*DATASETS, *SMALL_DATASETS)}
    names = []
    for name in given:
        key = str(name).strip().lower().replace("_", "-")
        if key not in valid:
            raise ParameterError(
                f"{argument} must be among {', '.join(valid.values())}, got {name!r}.", argument=argument
            )
        names.append(valid[key])
    return names
