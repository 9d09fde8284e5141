"""What commands print: results to standard output, notes and progress to standard error; how they name options."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from softcut.errors import Argument, Sentence
from softcut.io.read_options import READ_OPTIONS, words_of
from softcut.report.tables import Cell, Table, to_terminal

if TYPE_CHECKING:  # loads torch, which `softcut --help` need not wait for
    from softcut.metrics.summary import Summary
    from softcut.training import LoopProgress
    from softcut.training import Progress as TrainingProgress

# Tables that go to a file or a pipe are not squeezed into 80 columns.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)

# Parameters of the command that runs, by their names: those of the library's arguments.
_parameters: dict[str, Any] = {}


def use_options_of(command: Any) -> None:
    """From now on sentences name the options of this command."""
    _parameters.clear()
    _parameters.update({parameter.name: parameter for parameter in command.params})


def worded(text: str) -> str:
    """A sentence with the options of the running command in place of arguments."""
    return text.worded(_option) if isinstance(text, Sentence) else text


def _option(argument: Argument) -> str:
    parameter = _parameters.get(argument.name)
    if parameter is None:
        return str(argument)
    name = next(flag for flag in parameter.opts if flag.startswith("--"))
    value = argument.value
    if value is ... or getattr(parameter, "is_flag", False):
        return parameter.secondary_opts[0] if value is False else name
    option, _ = READ_OPTIONS.get(argument.name, (None, None))
    values = words_of(value, option) if option else value if isinstance(value, list) else [value]
    return " ".join(f"{name} {shlex.quote(str(each))}" for each in values)


def note(text: str) -> None:
    """One line on standard error about a decision that was made."""
    err.print("[yellow]note:[/yellow]", end=" ")
    err.print(worded(text), markup=False, soft_wrap=True)


@contextmanager
def spoken_warnings() -> Iterator[list[str]]:
    """Warnings as sentences on standard error, each once; the list fills with what was said."""
    said: list[str] = []

    def say(message: Any, *args: Any, **kwargs: Any) -> None:
        text = message.args[0] if isinstance(message, Warning) and message.args else str(message)
        if text not in said:
            said.append(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = say
        yield said


def show(table: Table) -> None:
    """A table and its notes."""
    out.print(to_terminal(table))
    for text in table.notes:
        out.print(text, markup=False)


def show_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """A table of names and values."""
    show(Table(["what", "value"], [[name, Cell(value)] for name, value in facts], title))


def show_summary(summary: Summary, most: int = 12) -> None:
    """What was found, cluster by cluster; in a terminal a mark has the cluster's colour in every picture."""
    from rich.text import Text

    from softcut.colours import colour_of

    out.print(summary.heading, markup=False, soft_wrap=True)
    for cluster in summary.clusters[:most]:
        colour = colour_of(cluster.cluster)
        mark = Text("● " if out.is_terminal else "", colour)
        out.print()
        out.print(mark + Text(str(cluster)), soft_wrap=True)
    if len(summary) > most:
        out.print(f"\nand {len(summary) - most} more clusters: clusters.csv has all of them.", markup=False)
    out.print()


def say_written(paths: Iterable[Path]) -> None:
    """The last lines of a command: its files, named as briefly as they can be read from here, and the page."""
    paths, here = list(paths), Path.cwd()
    names = {path: str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths}
    out.print("Written: " + ", ".join(names.values()), markup=False, soft_wrap=True)
    for path in paths:
        if path.name == "report.html":
            out.print(f"Report: {names[path]}", markup=False, soft_wrap=True)


class TrainingBar:
    """Draws the training that runs, of which there are `jobs` (0: not known); draws nothing without a terminal.

    It is a callback of the estimators of clusterings; classifiers and regressors are drawn by its methods.
    """

    def __init__(self, console: Console, jobs: int = 0) -> None:
        self._console, self._jobs, self._job = console, jobs, 0
        self._key: tuple[str, Sequence[int]] = ("", ())
        columns: list[ProgressColumn] = [TextColumn("{task.description}"), BarColumn()]
        columns += [TextColumn("{task.fields[count]}"), TimeElapsedColumn()]
        if jobs:
            columns += [TextColumn("at most"), TimeRemainingColumn()]
        disable = not console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=disable)
        # Without a total the bar pulses: data are prepared before the first iteration.
        self._task = self._progress.add_task("preparing", total=None, count="")

    def __enter__(self) -> TrainingBar:
        if not self._progress.disable:  # older versions of rich end a bar they never drew with a blank line
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._progress.disable:
            self._progress.stop()

    def tell(self, text: str) -> None:
        """What is being done; printed where nothing is drawn."""
        if not self._progress.disable:
            self._progress.update(self._task, description=text)
        else:
            self._console.print(text, markup=False, soft_wrap=True)

    def comparing(self, k: int, numbers: Sequence[int]) -> None:
        """A number of clusters is looked at, one of several."""
        if not self._progress.disable:
            self._progress.update(
                self._task,
                completed=list(numbers).index(k),
                total=len(numbers),
                description="comparing",
                count=f"{k} clusters",
            )

    def __call__(self, state: TrainingProgress) -> None:
        """An iteration of a clustering has ended: the mean losses of all networks."""
        losses = f"training  loss {state.cut.mean():+.3f}  ortho {state.ortho.mean():.3f}"
        left = f", at most {state.seconds_left:.0f} s left" if state.seconds_left >= 1 else ""
        self._draw(state, losses, f"{state.iteration}/{state.iterations}{left}")

    def update(self, job: str, folds: Sequence[int], state: LoopProgress) -> None:
        """An epoch of classifiers (which have an accuracy) or regressors has ended."""
        if (job, folds) != self._key:
            self._job += job != self._key[0]
            self._key = (job, folds)
            self._progress.reset(self._task, total=state.iterations, completed=0, count="")
        if "accuracy" in state.validation:
            accuracy = 100 * float(state.validation["accuracy"].mean())
            count = (
                f"{len(state.active)} of {len(folds)} folds training, validation accuracy {accuracy:.1f} %"
            )
        else:
            error = state.validation["mse" if "mse" in state.validation else "task"].mean()
            count = f"{len(state.active)} networks, validation MSE {error:.3f}"
        self._draw(state, f"{job} ({self._job} of {self._jobs})", count)

    def _draw(self, state: Any, description: str, count: str) -> None:
        self._progress.update(
            self._task,
            completed=state.iteration,
            total=state.iterations,
            description=description,
            count=count,
            # The end of a training is always drawn: a short one would end, and the next begin, between two frames.
            refresh=state.iteration == state.iterations,
        )


@contextmanager
def reading_bar(console: Console) -> Iterator[Callable[[int, int], None] | None]:
    """What to call while a large file is read, with what was read and how much there is; None without a terminal."""
    if not console.is_terminal:
        yield None
        return
    columns = TextColumn("reading"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading", total=None, visible=False)
        yield lambda read, total: progress.update(task, completed=read, total=total, visible=True)
