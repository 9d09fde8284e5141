"""How commands read a graph: one set of options for all of them, made from what `read_graph` declares."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from softcut.cli.console import err, reading_bar, worded
from softcut.errors import Sentence
from softcut.graph import Graph
from softcut.io.options import Option
from softcut.io.read_options import READ_OPTIONS, meaning_of

GraphFile = Annotated[
    Path,
    typer.Argument(
        help="Edge list (csv, tsv, txt, .gz, Parquet), GraphML, GML, .mtx, .npy or .npz; '-' is standard input."
    ),
]
# What a command gets in place of the options: a function that reads the graph they describe.
ReadGraph: TypeAlias = Callable[[], Graph]


def reads_a_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the reading options; it takes `graph` (the file) and `read` (reads it, when called).

    A command reads when it is ready to: places for the output are checked first.
    """
    types = typing.get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=types[p.name]) for p in inspect.signature(command).parameters.values()]
    more = [_parameter(name, *declared) for name, declared in READ_OPTIONS.items()]

    def run(graph: Any, **given: Any) -> None:
        options = {name: meaning_of(given.pop(name), *declared) for name, declared in READ_OPTIONS.items()}
        command(graph=graph, read=lambda: _read(graph, options), **given)

    shown = [p for p in own if p.name != "read"] + more
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _parameter(name: str, option: Option, default: Any) -> inspect.Parameter:
    """An argument of `read_graph` as a parameter of a typer command; None where the option is not given."""
    written = typer.Option(*option.flags, help=option.help, rich_help_panel="Reading")
    shown = default if isinstance(default, str) and option.type is str else None
    kind: Any = bool if True in option.words else option.type | None  # a single flag, or what may be left out
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind is bool else shown,
        annotation=Annotated[kind, written],
    )


def _read(graph: Path, options: dict[str, Any]) -> Graph:
    """The graph of a file, with one line on standard error that says what was understood."""
    from softcut import io

    with reading_bar(err) as progress:
        made = io.read_graph(graph, **options, progress=progress)
    pieces = [piece for note in made.notes for piece in ("; ", note)]
    typer.echo(worded(Sentence(*pieces[1:])), err=True)
    return made
