"""The command line of the experiments, declared once for each of them with :func:`command`.

``softcut reproduce NAME`` and ``python -m softcut.paper.NAME`` (which needs no extra packages) both call it.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from softcut.device import choose_device
from softcut.errors import ParameterError, SoftcutError
from softcut.files import check_writable
from softcut.report.tables import Table, to_markdown

Option = tuple[tuple[str, ...], dict[str, Any]]


def option(*flags: str, **keywords: Any) -> Option:
    """An option of a command, as :meth:`argparse.ArgumentParser.add_argument` takes it."""
    return flags, keywords


def numeric(kind: type[int] | type[float], low: float, high: float = math.inf) -> Callable[[str], Any]:
    """The type of an option that is a number between two limits."""
    what = "a whole number" if kind is int else "a number"
    limits = f"of at least {low}" if high == math.inf else f"from {low} to {high}"

    def read(text: str) -> Any:
        with contextlib.suppress(ValueError):
            if low <= (value := kind(text)) <= high:
                return value
        raise argparse.ArgumentTypeError(f"must be {what} {limits}, got {text!r}")

    return read


def one_of(valid: Sequence[str]) -> Callable[[str], str]:
    """The type of an option that is one of some names."""

    def read(text: str) -> str:
        if text not in valid:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(valid)}, got {text!r}")
        return text

    return read


def choices(flag: str, valid: Sequence[str] | None, about: str = "default all") -> Option:
    """An option that takes one or more names, also when it is given again; None where it is left out."""
    kind = str if valid is None else one_of(valid)
    return option(flag, nargs="+", action="extend", type=kind, metavar="NAME", help=about)


def runs(default: int) -> Option:
    """How many seeds."""
    about = f"seeds of each method (default {default})"
    return option("--runs", type=numeric(int, 1), default=default, help=about)


def settings_options(defaults: Any, kinds: Mapping[str, type[int] | type[float]]) -> list[Option]:
    """Options for some fields of settings."""
    return [
        option(f"--{name}", type=numeric(kind, 0), help=f"default {getattr(defaults, name) or 'all'}")
        for name, kind in kinds.items()
    ]


def given_settings(given: Any, names: Iterable[str]) -> dict[str, Any]:
    """What :func:`settings_options` were given."""
    return {name: value for name in names if (value := getattr(given, name)) is not None}


DATA = option("--data", help="folder of the data sets (default: $SOFTCUT_DATA, then the cache)")
MINUTES = option(
    "--minutes",
    type=numeric(float, 0),
    help="stop cleanly after this many minutes; the same command continues",
)
MAX_ITER = option("--max-iter", type=numeric(int, 1), help="fewer iterations, to try things out")
# Of the tables over folds.
OF_FOLDS = (
    option("--folds", type=numeric(int, 1, 10), default=10, help="how many of the ten folds, from the first"),
    MINUTES,
    option("--seed", type=numeric(int, 0), default=0, help="of the folds and of all weights (default 0)"),
    DATA,
    option("--merge", nargs="+", help="train nothing; put the runs of these folders into --out"),
)


class Screen:
    """Where a command says what it does and shows its results: plain lines on standard output."""

    def working(self, jobs: int = 0) -> contextlib.AbstractContextManager[Any]:
        """While this is open, its `tell` and `update` (progress of `jobs` trainings) say what is being done."""
        return contextlib.nullcontext(self)

    def tell(self, text: str) -> None:
        print(text, flush=True)

    def update(self, *progress: Any) -> None:
        """Trainings say by `tell` how far they are."""

    def note(self, text: str) -> None:
        print(text)

    def show(self, *results: Table | str) -> None:
        for result in results:
            print(to_markdown(result) if isinstance(result, Table) else result)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        place, _, rest = message.removeprefix("argument ").partition(": ")
        raise ParameterError(f"{place} {rest}." if message.startswith("argument ") else f"{message}.")


def command(module: str, *options: Option) -> Callable[[Callable[[Any, Screen], None]], Any]:
    """Make the ``main`` of a module from a function of the given options and a screen, described by its docstring.

    Every command has ``--out`` and ``--device``. Called without a screen, a mistake is one sentence and exit code 2.
    """

    def decorate(run: Callable[[Any, Screen], None]) -> Callable[..., None]:
        def main(arguments: Sequence[str] | None = None, screen: Screen | None = None) -> None:
            name = module.rpartition(".")[2]
            program = f"python -m {module}" if screen is None else f"softcut reproduce {name}"
            parser = _Parser(prog=program, description=run.__doc__, allow_abbrev=False)
            for flags, keywords in options:
                parser.add_argument(*flags, **keywords)
            parser.add_argument(
                "--out", "-o", default="results", help="folder of the results (default results)"
            )
            parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
            try:
                given = parser.parse_args(arguments)
                given.device = choose_device(given.device)
                check_writable("--out", given.out, given.out)
                run(given, screen or Screen())
            except (SoftcutError, KeyboardInterrupt) as error:
                if screen is not None:
                    raise
                stopped = isinstance(error, KeyboardInterrupt)
                said = "interrupted; the same command continues." if stopped else error
                print(f"softcut: {said}", file=sys.stderr)
                sys.exit(130 if stopped else 2)

        main.__doc__ = run.__doc__
        return main

    return decorate
