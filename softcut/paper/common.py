"""What the experiments share: which settings a run is known by, and the command line without extra packages."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from softcut.clustering import PRESETS, MinCutClustering
from softcut.clustering.consensus import WIDTHS
from softcut.clustering.refine import REFINEMENTS
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

# Arguments that say what is clustered, where and how it is told, but do not decide how.
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


def estimator_settings(**changed: Any) -> dict[str, Any]:
    """All arguments of :class:`softcut.MinCutClustering` that decide its result, with the values of its preset.

    >>> settings = estimator_settings(n_init=4)
    >>> settings["n_init"], settings["max_iter"], settings["refinements"], settings["widths"]
    (4, 200, 2, [0.08, 0.16, 0.5])
    """
    known = MinCutClustering(**changed).get_params()
    preset = asdict(PRESETS[known["preset"]])
    filled = {name: preset.get(name) if value is None else value for name, value in known.items()}
    if filled["batch"] is None:  # the way the parts of a batch are found decides nothing
        filled = {name: value for name, value in filled.items() if name not in ("batch", "batch_parts")}
    # Not arguments; runs without them have other results.
    if filled["refine"] and filled["judge"] == "evidence":
        filled["refinements"] = REFINEMENTS
    if filled["select"] == "consensus" and filled["judge"] == "evidence":
        filled["widths"], filled["edges_alone"] = list(WIDTHS), filled["refine"]
    return {name: value for name, value in filled.items() if name not in _NOT_SETTINGS}


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
    """Cells of a table (see :mod:`softcut.training.runs`) beside the paper's numbers.

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
