"""The progress of many trainings (which one runs, its epochs, how long it will take at most), and of reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:  # loads torch, which `softcut --help` need not wait for
    from softcut.training import LoopProgress

__all__ = ["JobBar", "reading_bar"]


class JobBar:
    """Draws the training that runs; prints what it is told where standard error is no terminal."""

    def __init__(self, console: Console, jobs: int = 1) -> None:
        self._console, self._jobs, self._job = console, jobs, 0
        self._key: tuple[str, tuple[int, ...]] | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TextColumn("at most"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("starting", total=None, count="")

    def __enter__(self) -> JobBar:
        if not self._progress.disable:
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._progress.disable:
            self._progress.stop()

    def tell(self, text: str) -> None:
        """What is being done."""
        if not self._progress.disable:
            self._progress.update(self._task, description=text)
        else:
            self._console.print(text, markup=False, soft_wrap=True)

    def update(self, dataset: str, method: str, folds: Sequence[int], state: LoopProgress) -> None:
        """An epoch of a classifier has ended."""
        accuracy = 100 * float(state.validation["accuracy"].mean())
        count = f"{len(state.active)} of {len(folds)} folds training, validation accuracy {accuracy:.1f} %"
        self._advance(f"{dataset} {method}", tuple(folds), state, count)

    def update_regression(self, method: str, state: LoopProgress) -> None:
        """An epoch of a method's regressors has ended."""
        count = f"{len(state.active)} networks, validation MSE {state.validation['mse'].mean():.3f}"
        self._advance(method, (), state, count)

    def _advance(self, job: str, folds: tuple[int, ...], state: LoopProgress, count: str) -> None:
        key = (job, folds)
        if key != self._key:
            if self._key is None or job != self._key[0]:
                self._job += 1
            self._key = key
            self._progress.reset(self._task, total=state.iterations, completed=0, count="")
        self._progress.update(
            self._task,
            completed=state.iteration,
            total=state.iterations,
            description=f"{job} ({self._job} of {self._jobs})",
            count=count,
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
