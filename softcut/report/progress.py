"""Progress bars for long work."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from softcut.training import Progress as TrainingProgress

__all__ = ["bar", "training_bar"]


def bar(console: Console | None = None) -> Progress:
    """The bar all commands share; written to standard error, so that results can be piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console or Console(stderr=True),
        transient=True,
    )


def training_bar(console: Console | None = None) -> Callable[[TrainingProgress], None]:
    """A callback that shows iterations and the mean losses of all replicas."""
    progress = bar(console)
    task = progress.add_task("training")

    def tell(state: TrainingProgress) -> None:
        if not progress.live.is_started:
            progress.start()
        text = f"training  cut {state.cut.mean():+.3f}  ortho {state.ortho.mean():.3f}"
        progress.update(task, total=state.iterations, completed=state.iteration, description=text)
        if state.iteration >= state.iterations:
            progress.stop()

    tell.stop = progress.stop  # type: ignore[attr-defined]
    return tell
