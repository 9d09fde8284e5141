"""Arguments of the library and options of the command line: which option sets which argument."""

from __future__ import annotations

import inspect
import shlex
import typing
from typing import Any

from softcut.errors import Argument, Sentence
from softcut.io.options import Option
from softcut.io.readers import read_graph

__all__ = ["READ_OPTIONS", "use_options_of", "worded"]


def _declared(function: Any) -> dict[str, tuple[Option, Any]]:
    """Arguments of a function that are options of the command line, with their defaults."""
    parameters = inspect.signature(function).parameters
    hints = typing.get_type_hints(function, include_extras=True)
    return {
        name: (option, parameters[name].default)
        for name, hint in hints.items()
        for option in getattr(hint, "__metadata__", ())
        if isinstance(option, Option)
    }


READ_OPTIONS = _declared(read_graph)
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
