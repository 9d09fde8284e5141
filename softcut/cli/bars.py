"""Progress on standard error: of trainings (losses, epochs, how long they take at most), and of reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

if TYPE_CHECKING:  # loads torch, which `softcut --help` need not wait for
    from softcut.training import LoopProgress
    from softcut.training import Progress as TrainingProgress


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

    def __call__(self, state: TrainingProgress) -> None:
        """An iteration of a clustering has ended: the mean losses of all networks."""
        losses = f"training  loss {state.cut.mean():+.3f}  ortho {state.ortho.mean():.3f}"
        self._draw(state, losses, f"{state.iteration}/{state.iterations}")

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
            count = f"{len(state.active)} networks, validation MSE {state.validation['mse'].mean():.3f}"
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
