"""What is wrong with a table, collected and said in one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softcut.errors import Argument, GraphError, ParameterError, Sentence
from softcut.tables.arrays import listed
from softcut.tables.columns import InputTable
from softcut.tables.schema import MOST_VALUES

_MOST = 10  # problems that are named
_Named = Sequence[str | int]


def _drop(columns: _Named) -> Argument:
    return Argument("drop", list(columns))


# What to do, for each kind of problem, about the columns that have it.
_ADVICE: dict[str, Callable[[_Named], Sentence]] = {
    "gap": lambda _: Sentence("fill it in, or pass ", Argument("missing", "zero"), ", 'mean' or 'drop'"),
    "new gap": lambda _: Sentence("fill it in, or pass ", Argument("missing", "zero"), " or 'mean'"),
    "no mean": lambda c: Sentence("leave the column out with ", _drop(c)),
    "number": lambda c: Sentence(
        "correct it, or pass ", _drop(c), " to leave the column out or ", Argument("categories", list(c)),
        " to make a column of 0 and 1 of every value",
    ),
    "new number": lambda _: Sentence("correct it"),
    "finite": lambda _: Sentence("replace or rescale such values"),
    "date": lambda c: Sentence(
        "correct it, or pass the format, such as ", Argument("dates", [f"{each}=%d/%m/%Y" for each in c])
    ),
    "new date": lambda _: Sentence("correct it"),
    "many": lambda c: Sentence(f"a category has at most {MOST_VALUES}, so leave the column out with ", _drop(c)),
    "title": lambda c: Sentence(f"choose from {listed([str(each) for each in c])}"),
    "twice": lambda _: Sentence("name a column once"),
}  # fmt: skip
_OPTIONS = ("title", "twice")  # problems of arguments


class Problems:
    """Problems of one table, found one after another and raised together."""

    def __init__(self, table: InputTable) -> None:
        self._table = table
        self._found: list[tuple[str, _Named, Sentence]] = []

    def value(self, kind: str, row: int, column: int, what: str, more: int = 0) -> None:
        """A value is wrong, and perhaps `more` of its column."""
        others = f" (and {more} more of this column)" if more else ""
        place = self._table.spot(row, column)
        self._add(kind, [self._table.called(column)], Sentence(f"{place}: {what}{others}"))

    def column(self, kind: str, column: int, what: str) -> None:
        """A whole column is wrong."""
        called = self._table.called(column)
        name = repr(called) if isinstance(called, str) else str(column + 1)
        self._add(kind, [called], Sentence(f"column {name}: {what}"))

    def option(self, kind: str, columns: _Named, argument: str, what: str) -> None:
        """An argument is wrong."""
        self._add(kind, columns, Sentence(Argument(argument), f" {what} of {self._table.label}"))

    def _add(self, kind: str, columns: _Named, what: Sentence) -> None:
        self._found.append((kind, columns, what))

    def check(self) -> None:
        """Raise what was found, if anything was."""
        if not self._found:
            return
        label, number = self._table.label, len(self._found)
        kinds = list(dict.fromkeys(kind for kind, _, _ in self._found))
        pieces: list[str | Argument] = []
        if number > 1:
            pieces.append(f"{label} has {number} problems: ")
        elif kinds[0] not in _OPTIONS:
            pieces.append(f"{label}, ")
        said = 0
        for kind in kinds:  # those of one kind together, and then what to do about them
            alike = [(columns, what) for other, columns, what in self._found if other == kind]
            shown = alike[: _MOST - said]
            for i, (_, what) in enumerate(shown):
                between = ", " if i else "; " if said else ""
                pieces += [f"{between}({said + 1}) " if number > 1 else "", what]
                said += 1
            if len(shown) < len(alike):
                pieces.append(f" and {len(alike) - len(shown)} more")
            pieces += ["; ", _ADVICE[kind](list(dict.fromkeys(c for columns, _ in alike for c in columns)))]
            if said == _MOST:
                break
        error = ParameterError if all(kind in _OPTIONS for kind in kinds) else GraphError
        raise error(*pieces, ".")
