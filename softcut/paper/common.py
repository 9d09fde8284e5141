"""What the experiments share: which settings a run is known by, and the command line without extra packages."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from softcut.clustering import GraphClustering
from softcut.device import choose_device
from softcut.errors import DataError, ParameterError, SoftcutError

__all__ = [
    "NotMeasuredError",
    "check_names",
    "estimator_settings",
    "experiment_parser",
    "keyword_settings",
    "markdown_cells",
    "markdown_table",
    "run_experiment",
]

# Arguments that do not decide a result: they say on which data and device it is computed, and who is told.
_NOT_SETTINGS = {"n_clusters", "random_state", "device", "verbose", "callbacks", "callback", "x"}


class NotMeasuredError(DataError):
    """Results that a table is made of are not there yet; the message says what makes them."""


def keyword_settings(function: Callable[..., Any], **changed: Any) -> dict[str, Any]:
    """All keyword-only arguments of a function with their defaults, those in `changed` replaced.

    >>> def method(graph, *, hops=2, n_init=10, device="cpu"): ...
    >>> keyword_settings(method, n_init=1)
    {'hops': 2, 'n_init': 1}
    """
    parameters = inspect.signature(function).parameters.values()
    known = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    return {name: value for name, value in {**known, **changed}.items() if name not in _NOT_SETTINGS}


def estimator_settings(estimator: GraphClustering) -> dict[str, Any]:
    """What decides the result of an estimator: the digest of its recipe, with its own arguments in place.

    >>> estimator_settings(GraphClustering()) == estimator_settings(GraphClustering(3, n_init=24))
    True
    >>> estimator_settings(GraphClustering()) == estimator_settings(GraphClustering(n_init=8))
    False
    """
    return {"estimator": type(estimator).__name__, "recipe": estimator._task_recipe().digest}


def check_names(given: Iterable[str], valid: Sequence[str], argument: str) -> None:
    """An error that names the argument where a name is not among the valid ones.

    >>> check_names(["cora"], ("cora", "citeseer"), "datasets")
    """
    unknown = [name for name in given if name not in valid]
    if unknown:
        raise ParameterError(f"{argument} must be among {', '.join(valid)}, got {', '.join(unknown)}.")


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(markdown_table(["data", "NMI"], [["cora", ".39"]]))
    | data | NMI |
    |---|---|
    | cora | .39 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        "|" + "|".join(row) + "|" if i == 1 else "| " + " | ".join(row) + " |" for i, row in enumerate(lines)
    )


def markdown_cells(cells: Iterable[Mapping[str, Any]]) -> str:
    """Cells of a table (see :mod:`softcut.paper.runs`) beside the paper's numbers.

    >>> cell = {"dataset": "cora", "method": "sc", "metric": "nmi", "mean": 0.014, "std": 0.0, "n": 10}
    >>> print(markdown_cells([cell | {"paper_mean": 0.025, "paper_std": 0.014}]))
    | data | method | metric | measured | runs | paper |
    |---|---|---|---|---|---|
    | cora | sc | nmi | 0.014 ± 0.000 | 10 | 0.025 ± 0.014 |
    """
    rows = []
    for c in cells:
        paper = "-" if c["paper_mean"] is None else f"{c['paper_mean']:.3f} ± {c['paper_std']:.3f}"
        measured = f"{c['mean']:.3f} ± {c['std']:.3f}"
        rows.append([c["dataset"], c["method"], c["metric"], measured, str(c["n"]), paper])
    return markdown_table(["data", "method", "metric", "measured", "runs", "paper"], rows)


def experiment_parser(
    name: str,
    description: str,
    runs: int,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> argparse.ArgumentParser:
    """The options every experiment has: ``--runs``, ``--out``, ``--device``, and what can be chosen.

    >>> experiment_parser("citation", "Table 1.", 10, ["cora"]).parse_args(["--dataset", "cora"]).dataset
    ['cora']
    """
    parser = argparse.ArgumentParser(prog=f"python -m softcut.paper.{name}", description=description)
    parser.add_argument("--runs", type=int, default=runs, help=f"seeds of each method (default {runs})")
    parser.add_argument("--out", default="results", help="folder of the results (default results)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    for option, valid in (("dataset", datasets), ("method", methods)):
        if valid:
            parser.add_argument(f"--{option}", nargs="+", default=list(valid), choices=valid, metavar="NAME")
    return parser


def run_experiment(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], str],
    arguments: Sequence[str] | None = None,
) -> None:
    """Read the command line, run, and print what `run` returns; a mistake is one sentence and exit code 2.

    >>> parser = experiment_parser("synthetic", "Two graphs.", 10)
    >>> run_experiment(parser, lambda given: f"{given.runs} runs on {given.device}", ["--device", "cpu"])
    10 runs on cpu
    """
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
