"""How commands read a graph: one set of options for all of them, made from what `read_graph` declares."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from softcut.cli.console import err, note, reading_bar, worded
from softcut.errors import Argument, Note, ParameterError, Sentence
from softcut.io.options import Option
from softcut.io.read_options import READ_OPTIONS, meaning_of

if TYPE_CHECKING:  # loads numpy
    from softcut.graph import Graph

_FORMATS = (
    "Edge list (csv, tsv, txt, .gz, Parquet, .xlsx), GraphML, GEXF, GML, Pajek, JSON, .mtx, .npy, .npz, .h5ad"
)
_OR_NAME = "'-' is standard input; or a data set's name, such as cora."
GraphFile = Annotated[Path, typer.Argument(help=f"{_FORMATS}; {_OR_NAME}")]
# A command that can do with features alone.
OptionalGraphFile = Annotated[
    Path | None,
    typer.Argument(help=f"{_FORMATS}; {_OR_NAME} Without it, the nearest rows of --features are connected."),
]
# What a command gets in place of the options: a function that reads the graph they describe. Other arguments of
# `read_graph` may be passed to it.
if TYPE_CHECKING:
    ReadGraph: TypeAlias = Callable[..., Graph]
else:
    ReadGraph = Callable


def reads_a_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the reading options; it takes `graph` (the file) and `read` (reads it, when called).

    One that takes `named_after`, too, gets the file of the graph or else that of the features.
    A command reads when it is ready to: places for the output are checked first.
    """
    types = typing.get_type_hints(command, include_extras=True)
    own = [p.replace(annotation=types[p.name]) for p in inspect.signature(command).parameters.values()]
    more = [_parameter(name, *declared) for name, declared in READ_OPTIONS.items()]

    def run(graph: Any, **given: Any) -> None:
        options = {name: meaning_of(given.pop(name), *declared) for name, declared in READ_OPTIONS.items()}
        if graph is None and options["features"] is None:
            raise ParameterError("name a file of edges, or features with --features.")
        named = {"named_after": graph or Path(options["features"])} if "named_after" in types else {}
        command(graph=graph, read=lambda **more: _read(graph, {**options, **more}), **named, **given)

    shown = [p for p in own if p.name not in ("read", "named_after")] + more
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


def _read(graph: Path | None, options: dict[str, Any]) -> Graph:
    """The graph of a file or a data set, with one line on standard error that says what was understood."""
    from softcut import io

    made = None if graph is None else _data_set(graph, options)
    if made is None:
        with reading_bar(err) as progress:
            made = io.read_graph(graph, **options, progress=progress)
    pieces = [piece for said in made.notes for piece in ("; ", said)]
    typer.echo(worded(Sentence(*pieces[1:])), err=True)
    return made


def _data_set(graph: Path, options: dict[str, Any]) -> Graph | None:
    """The data set of that name; None where a file is meant, which a word with an ending or a folder always is."""
    if graph.suffix or len(graph.parts) != 1 or str(graph) == "-":
        return None
    from softcut.datasets import available, load, name_of_data_set
    from softcut.datasets.collections import COLLECTIONS

    name = name_of_data_set(str(graph))
    if graph.is_file() or (graph.exists() and name is None):
        if name is not None:
            note(f"{graph} is the file of that name in this folder, not the data set {name}.")
        return None
    if name is None:
        if str(graph).lower() in map(str.lower, COLLECTIONS):
            raise ParameterError(f"{graph} is a list of graphs: classify them with softcut classify {graph}.")
        names = ", ".join(info.name for info in available())
        raise ParameterError(f"{graph} is neither a file nor a data set; the data sets are {names}.")
    for argument, (_, default) in READ_OPTIONS.items():
        if argument != "self_loops" and options[argument] != default:
            raise ParameterError(
                Argument(argument), f" says how a file is read, and {name} is a data set: leave it out."
            )
    made = load(name, self_loops=options["self_loops"])
    sizes = f"{made.num_nodes:,} nodes, {made.num_edges:,} edges, {made.num_features:,} features"
    return made.with_notes(Note("data_set", f"{name}: the data set of that name, {sizes}", name=name))
