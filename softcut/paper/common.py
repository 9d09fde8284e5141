"""What the experiments share: which settings a run is known by, and the command line without extra packages."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from softcut.baselines import BASELINES
from softcut.clustering import GraphClustering
from softcut.device import choose_device
from softcut.errors import ParameterError, SoftcutError
from softcut.graph import Graph
from softcut.report.tables import Table, cell_table, to_markdown

Tell = Callable[[str], None]
# Arguments that do not decide a result: they say on which data and device it is computed, and who is told.
_NOT_SETTINGS = {"n_clusters", "random_state", "device", "verbose", "callbacks", "callback", "x"}


def keyword_settings(function: Callable[..., Any], **changed: Any) -> dict[str, Any]:
    """All keyword-only arguments of a function with their defaults, those in `changed` replaced."""
    parameters = inspect.signature(function).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {name: value for name, value in {**known, **changed}.items() if name not in _NOT_SETTINGS}


def estimator_settings(estimator: GraphClustering) -> dict[str, Any]:
    """What decides the result of an estimator: the digest of its recipe, with its own arguments in place."""
    return {"estimator": type(estimator).__name__, "recipe": estimator._task_recipe().digest}


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
        raise ParameterError(f"{argument} must be among {', '.join(valid)}, got {', '.join(unknown)}.")


# Options that several experiments have.
_OPTIONS: dict[str, dict[str, Any]] = {
    "--data": {"help": "folder of the data sets (default: $SOFTCUT_DATA, then the cache)"},
    "--minutes": {"type": float, "help": "stop cleanly after so many minutes; the same command continues"},
    "--max-iter": {"type": int, "help": "fewer iterations, to try things out"},
    # Of the tables over folds:
    "--folds": {"dest": "runs", "type": int, "help": "the first so many of the ten folds (default 10)"},
    "--seed": {"type": int, "default": 0, "help": "of the folds and of all weights (default 0)"},
    "--merge": {"nargs": "+", "help": "train nothing; put the runs of these folders into --out"},
}
_OF_FOLDS = ("--folds", "--minutes", "--data", "--seed", "--merge")


def experiment_parser(
    name: str,
    description: str,
    runs: int,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    options: Iterable[str] = (),
) -> argparse.ArgumentParser:
    """The options every experiment has (``--runs``, ``--out``, ``--device``), its choices, and shared `options`."""
    parser = argparse.ArgumentParser(prog=f"python -m softcut.paper.{name}", description=description)
    parser.add_argument("--runs", type=int, default=runs, help=f"seeds of each method (default {runs})")
    parser.add_argument("--out", default="results", help="folder of the results (default results)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    for option, valid in (("dataset", datasets), ("method", methods)):
        if valid:
            parser.add_argument(f"--{option}", nargs="+", default=list(valid), choices=valid, metavar="NAME")
    for option in options:
        parser.add_argument(option, **_OPTIONS[option])
    return parser


def quiet(*said: Any) -> None:
    """Tell nobody what is being done."""


def say(text: str) -> None:
    """Print what is being done at once, also into a pipe."""
    print(text, flush=True)


def run_experiment(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], str],
    arguments: Sequence[str] | None = None,
) -> None:
    """Read the command line, run, and print what `run` returns; a mistake is one sentence and exit code 2."""
    given = parser.parse_args(arguments)
    try:
        if given.runs < 1:
            raise ParameterError(f"--runs must be at least 1, got {given.runs}.")
        given.device = choose_device(given.device)
        print(run(given))
    except SoftcutError as error:
        print(f"softcut: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("softcut: interrupted; the same command continues.", file=sys.stderr)
        sys.exit(130)


def run_and_show(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    run: Callable[..., Any],
    table: Callable[[Any], Table],
) -> None:
    """Call `run` with the options that it has arguments for, and print its table."""

    def run_it(given: argparse.Namespace) -> str:
        plural = {"dataset": "datasets", "method": "methods"}
        options = {plural.get(name, name): value for name, value in vars(given).items() if value is not None}
        known = inspect.signature(run).parameters
        return to_markdown(table(run(tell=say, **{n: v for n, v in options.items() if n in known})))

    run_experiment(parser, run_it, arguments)


def run_folds(
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    run: Callable[..., list[dict[str, Any]]],
    merge: Callable[[str, Sequence[str]], list[dict[str, Any]]],
    digits: int,
) -> None:
    """The command of a table over folds: the options that both have, then `run` with what was given, or `merge`."""
    for option in _OF_FOLDS:
        parser.add_argument(option, **_OPTIONS[option])

    def run_it(given: argparse.Namespace) -> str:
        shared = {name: getattr(given, name) for name in ("minutes", "seed", "device", "data")}
        shared |= {"folds": min(given.runs, 10), "tell": say}
        made = merge(given.out, given.merge) if given.merge else run(given, **shared)
        return to_markdown(cell_table(made, digits=digits))

    run_experiment(parser, run_it, arguments)
