"""Where commands write (results to standard output, everything else to standard error), and how they name options."""

from __future__ import annotations

import inspect
import shlex
import sys
import typing
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from softcut.errors import Argument, Sentence
from softcut.io.options import Option
from softcut.io.readers import read_graph
from softcut.report.tables import Cell, Table, to_terminal

# Tables that go to a file or a pipe are not squeezed into 80 columns.
out = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True, highlight=False)

# Arguments of `read_graph` that are options of the command line, with their defaults.
READ_OPTIONS: dict[str, tuple[Option, Any]] = {
    name: (option, inspect.signature(read_graph).parameters[name].default)
    for name, hint in typing.get_type_hints(read_graph, include_extras=True).items()
    for option in getattr(hint, "__metadata__", ())
    if isinstance(option, Option)
}
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
    for word, meaning in option.words.items() if option else ():
        value = word if value is meaning else value
    values = value if isinstance(value, list) else [value]
    return f"{name} {' '.join(shlex.quote(str(each)) for each in values)}"


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


def say_written(paths: Iterable[Path]) -> None:
    """The last line of a command: its files, named as briefly as they can be read from here."""
    here = Path.cwd()
    names = (str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths)
    out.print("Written: " + ", ".join(names), markup=False, soft_wrap=True)
