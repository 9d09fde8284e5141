"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from softcut.cli.arguments import worded

__all__ = ["err", "note", "out", "say_written", "spoken_warnings", "table"]

# Tables that go to a file or a pipe are not squeezed into 80 columns.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """One line on standard error about a decision that was made."""
    err.print("[yellow]note:[/yellow]", end=" ")
    err.print(worded(text), markup=False, soft_wrap=True)


def say_written(paths: Iterable[Path]) -> None:
    """The last line of a command: its files, named as briefly as they can be read from here."""
    here = Path.cwd()
    names = (str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths)
    out.print("Written: " + ", ".join(names), markup=False, soft_wrap=True)


@contextmanager
def spoken_warnings() -> Iterator[list[str]]:
    """Warnings as sentences on standard error, each once; the list fills with what was said."""
    said: list[str] = []

    def show(message: Any, *args: Any, **kwargs: Any) -> None:
        text = message.args[0] if isinstance(message, Warning) and message.args else str(message)
        if text not in said:
            said.append(text)
            note(text)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield said


def table(title: str, columns: Iterable[str], text: Iterable[str] = ()) -> Table:
    """An empty table; the columns named in `text` are aligned to the left, the others hold numbers."""
    made = Table(title=title)
    for column in columns:
        made.add_column(column, justify="left" if column in set(text) else "right")
    return made
