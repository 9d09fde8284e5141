"""What the experiments share: which settings a run is known by, and the command line without extra packages."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from softcut.clustering import GraphClustering
from softcut.device import choose_device
from softcut.errors import ParameterError, SoftcutError
from softcut.metrics import ari, clusters_used, completeness, matched_accuracy, nmi

__all__ = [
    "Tell",
    "check_names",
    "estimator_settings",
    "experiment_parser",
    "keyword_settings",
    "quiet",
    "run_experiment",
    "say",
    "scores_of",
]

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


def scores_of(classes: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """How well labels agree with known classes."""
    return {
        "nmi": nmi(classes, labels),
        "cs": completeness(classes, labels),
        "acc": matched_accuracy(classes, labels),
        "ari": ari(classes, labels),
        "clusters_used": clusters_used(labels),
    }


def check_names(given: Iterable[str], valid: Sequence[str], argument: str) -> None:
    """An error that names the argument where a name is not among the valid ones."""
    unknown = [name for name in given if name not in valid]
    if unknown:
        raise ParameterError(f"{argument} must be among {', '.join(valid)}, got {', '.join(unknown)}.")


def experiment_parser(
    name: str,
    description: str,
    runs: int,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """The options every experiment has: ``--runs``, ``--out``, ``--device``, and what can be chosen."""
    parser = argparse.ArgumentParser(prog=f"python -m softcut.paper.{name}", description=description)
    parser.add_argument("--runs", type=int, default=runs, help=f"seeds of each method (default {runs})")
    parser.add_argument("--out", default="results", help="folder of the results (default results)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    for option, valid in (("dataset", datasets), ("method", methods)):
        if valid:
            parser.add_argument(f"--{option}", nargs="+", default=list(valid), choices=valid, metavar="NAME")
    return parser


def quiet(text: str) -> None:
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
