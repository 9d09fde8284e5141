"""Progress bars for long work."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from softcut.training import Progress as TrainingProgress

__all__ = ["TrainingBar"]


class TrainingBar:
    """A callback for the estimator that draws iterations and the mean losses of all networks.

    Drawn on standard error while the ``with`` block runs, so that results can be piped; nothing is drawn where
    standard error is not a terminal.
    """

    def __init__(self, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        # Without a total the bar pulses: features and neighbours come before the first iteration.
        self._task = self._progress.add_task("preparing", total=None, count="")

    def __enter__(self) -> TrainingBar:
        if not self._progress.disable:  # older versions of rich end a bar they never drew with a blank line
            self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        if not self._progress.disable:
            self._progress.stop()

    def __call__(self, state: TrainingProgress) -> None:
        self._progress.update(
            self._task,
            total=state.iterations,
            completed=state.iteration,
            description=f"training  loss {state.cut.mean():+.3f}  ortho {state.ortho.mean():.3f}",
            count=f"{state.iteration}/{state.iterations}",
            # The end of a training is always drawn: a short one would end, and the next begin, between two frames.
            refresh=state.iteration == state.iterations,
        )
