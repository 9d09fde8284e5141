"""One set of options for every command that reads a graph."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeAlias

from softcut.cli import reading
from softcut.graph import Graph

__all__ = ["ReadGraph", "reads_a_graph"]

# What a command gets in place of the options: a function that reads the graph they describe.
ReadGraph: TypeAlias = Callable[[], Graph]

# The types of the arguments of `reading.read`, which also say how each option is written.
_TYPES: dict[str, Any] = {
    "features": reading.FeatureFile,
    "format": reading.FileFormat,
    "delimiter": reading.Delimiter,
    "source": reading.SourceColumn,
    "target": reading.TargetColumn,
    "weight": reading.WeightColumn,
    "weighted": reading.Weighted,
    "directed": reading.Directed,
    "header": reading.Header,
    "features_header": reading.FeaturesHeader,
    "ids": reading.FeatureIds,
    "missing": reading.MissingValues,
    "one_hot": reading.OneHot,
    "comments": reading.Comments,
    "keep_self_loops": reading.KeepSelfLoops,
    "max_bytes": reading.MaxBytes,
}


def reads_a_graph(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the reading options; it takes `graph` (the file) and `read` (reads it, when called).

    A command reads when it is ready to: places for the output are checked first.

    >>> @reads_a_graph
    ... def count(graph: reading.GraphFile, read: ReadGraph, twice: bool = False) -> None: ...
    >>> list(inspect.signature(count).parameters)[:4]
    ['graph', 'twice', 'features', 'format']
    """
    types = typing.get_type_hints(command, include_extras=True)
    defaults = inspect.signature(reading.read).parameters
    own = [p.replace(annotation=types[p.name]) for p in inspect.signature(command).parameters.values()]
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=kind
        )
        for name, kind in _TYPES.items()
    ]

    def run(graph: Any, **given: Any) -> None:
        options = {name: given.pop(name) for name in _TYPES}
        command(graph=graph, read=lambda: reading.read(graph, **options), **given)

    shown = [p for p in own if p.name != "read"] + more
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in shown}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
