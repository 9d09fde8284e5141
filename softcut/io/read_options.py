"""The options of `read_graph` by name, for whatever offers them to people: the command line, the local page."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any

from softcut.io.graph_files import read_graph
from softcut.io.options import Option

# Types that are no options stay names: their modules take long to import.
_HINTS = typing.get_type_hints(
    read_graph, localns=dict.fromkeys(("Graph", "ReadProgress", "TableSchema"), Any), include_extras=True
)
# Arguments of `read_graph` that people may set, with their defaults.
READ_OPTIONS: dict[str, tuple[Option, Any]] = {
    name: (option, inspect.signature(read_graph).parameters[name].default)
    for name, hint in _HINTS.items()
    for option in getattr(hint, "__metadata__", ())
    if isinstance(option, Option)
}


def choices_of(name: str) -> tuple[str, ...]:
    """The words an option takes; empty where it takes any.

    >>> from softcut.io.read_options import choices_of
    >>> choices_of("missing"), choices_of("weight")
    (('error', 'zero', 'mean', 'drop'), ())
    >>> choices_of("self_loops")  # a flag
    ()
    """
    kind = typing.get_args(_HINTS[name])[0]
    # A flag that sets one value (--keep-self-loops) is no choice, whatever values its argument has.
    if typing.get_origin(kind) is not typing.Literal or True in READ_OPTIONS[name][0].words:
        return ()
    return typing.get_args(kind)


def is_about_features(name: str) -> bool:
    """Whether an option is about the table of features, not about the graph.

    >>> from softcut.io.read_options import is_about_features
    >>> is_about_features("missing"), is_about_features("weight")
    (True, False)
    """
    from softcut.tables.columns import FeatureOptions

    return name.startswith("features") or name in {field.name for field in dataclasses.fields(FeatureOptions)}


def meaning_of(given: Any, option: Option, default: Any) -> Any:
    """What is given for an option as a value of the argument; None, an empty list and an unset flag are the default.

    >>> flag, plain = (READ_OPTIONS[name][0] for name in ("self_loops", "header"))
    >>> [meaning_of(given, flag, "drop") for given in (True, False, None)], meaning_of(False, plain, None)
    (['keep', 'drop', 'drop'], False)
    """
    if given is None or given == [] or (given is False and True in option.words):
        return default
    if isinstance(given, list):
        return next((option.words[word] for word in given if word in option.words), tuple(given))
    return option.words.get(given.lower() if isinstance(given, str) else given, given)


def words_of(value: Any, option: Option) -> list[str]:
    """How people write a value of an option: the reverse of :func:`meaning_of`."""
    written = next((word for word, meaning in option.words.items() if value is meaning), value)
    return [str(each) for each in (written if isinstance(written, list | tuple) else [written])]
