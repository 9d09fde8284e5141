"""What softcut says to people: errors, and notes on what was understood or decided.

An error is one clear sentence naming the argument, what was wrong and what to do; every kind is a
:class:`SoftcutError`, which the command line prints before it exits with code 2. Sentences know which arguments they
mention, so that the command line can name its options instead.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

__all__ = [
    "Argument",
    "DataError",
    "DependencyError",
    "Detail",
    "FileFormatError",
    "GraphError",
    "ModelFileError",
    "NotFittedError",
    "Note",
    "ParameterError",
    "Sentence",
    "SoftcutError",
    "require",
]


@dataclass(frozen=True)
class Argument:
    """An argument that a sentence mentions, perhaps with a value; `text` is how Python code says it.

    >>> str(Argument("missing", "zero")), str(Argument("missing")), str(Argument("source", text="source="))
    ("missing='zero'", 'missing', 'source=')
    """

    name: str
    value: Any = ...
    text: str = ""

    def __str__(self) -> str:
        return self.text or (self.name if self.value is ... else f"{self.name}={self.value!r}")


class Sentence(str):
    """A text that knows which arguments it mentions.

    >>> sentence = Sentence("fill it in, or pass ", Argument("missing", "zero"), ".")
    >>> sentence
    "fill it in, or pass missing='zero'."
    >>> sentence.worded(lambda argument: f"--{argument.name} {argument.value}")
    'fill it in, or pass --missing zero.'
    """

    pieces: tuple[str | Argument, ...]

    def __new__(cls, *pieces: str | Argument) -> Self:
        sentence = super().__new__(cls, "".join(map(str, pieces)))
        sentence.pieces = tuple(
            part for piece in pieces for part in (piece.pieces if isinstance(piece, Sentence) else (piece,))
        )
        return sentence

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.pieces

    def worded(self, word: Callable[[Argument], str]) -> str:
        """The same text with other words for the arguments."""
        return "".join(word(piece) if isinstance(piece, Argument) else piece for piece in self.pieces)


class Note(Sentence):
    """A sentence on what was understood or decided: a code, values and the text.

    >>> note = Note("self_loops_dropped", "2 self-loops dropped", count=2)
    >>> note, note.code, note.values
    ('2 self-loops dropped', 'self_loops_dropped', {'count': 2})
    """

    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, *pieces: str | Argument, **values: Any) -> Self:
        note = super().__new__(cls, *pieces)
        note.code, note.values = code, values
        return note

    def __reduce__(self) -> tuple[Any, ...]:
        return _note, (type(self), self.code, self.pieces, self.values)


class Detail(Note):
    """A note on how something was done: nothing is wrong and nothing need be done. Printed only where asked for.

    >>> isinstance(Detail("large_graph", "medians are those of a sample."), Note)
    True
    """


def _note(kind: type[Note], code: str, pieces: tuple[str | Argument, ...], values: dict[str, Any]) -> Note:
    return kind(code, *pieces, **values)


class SoftcutError(Exception):
    """Base class of every error softcut raises on purpose.

    ``sentence`` is what it says; ``argument`` names the argument that was wrong or would help, where there is one.

    >>> from softcut import SoftcutError, Graph
    >>> try:
    ...     Graph.from_edges([[0, 1], [1, 2]], edge_weight=[1.0, -1.0])
    ... except SoftcutError as error:
    ...     print("negative" in str(error))
    True
    """

    def __init__(self, *pieces: str | Argument, argument: str | None = None) -> None:
        if argument is not None and isinstance(pieces[0], str) and pieces[0].startswith(argument):
            pieces = (Argument(argument), pieces[0][len(argument) :], *pieces[1:])
        self.sentence = Sentence(*pieces)
        mentioned = (piece.name for piece in self.sentence.pieces if isinstance(piece, Argument))
        self.argument = argument or next(mentioned, None)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return str.__str__(self.sentence)


class GraphError(SoftcutError, ValueError):
    """A graph that cannot be clustered: negative weights, mismatched lengths, no nodes, ..."""


class FileFormatError(SoftcutError, ValueError):
    """A file that cannot be read; the sentence names the file and, for text files, the line."""


class ParameterError(SoftcutError, ValueError):
    """An argument outside its range or an unknown name; the sentence lists what is valid."""


class DataError(SoftcutError):
    """A data set that is absent, cannot be downloaded, or fails its checksum."""


class DependencyError(SoftcutError, ImportError):
    """An optional package that a feature needs is not installed."""


class ModelFileError(SoftcutError, ValueError):
    """A saved model that cannot be read."""


if TYPE_CHECKING:

    class NotFittedError(SoftcutError, ValueError, AttributeError):
        """A method that needs a fitted estimator was called before ``fit``."""


def __getattr__(name: str) -> Any:
    """NotFittedError is made when first asked for: importing scikit-learn takes longer than many commands."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from softcut.sklearn_base import NotFittedError as OfSklearn

    about = {
        "__doc__": "A method that needs a fitted estimator was called before ``fit``.",
        "__module__": __name__,
    }
    globals()[name] = type(name, (SoftcutError, OfSklearn), about)
    return globals()[name]


def require(module: str, extra: str | None, purpose: str) -> ModuleType:
    """Import a dependency, or say in one sentence how to get it; it is of an extra, or (None) of softcut itself.

    >>> from softcut.errors import require
    >>> require("math", "pyg", "an example").sqrt(4.0)
    2.0
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        how = f"pip install {package}."
        if extra is not None:
            how = f"pip install 'softcut[{extra}]' (in a clone of the source: pip install -e '.[{extra}]')."
        raise DependencyError(f"{purpose} needs the package '{package}': run {how}") from error
