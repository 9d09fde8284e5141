"""Tables of node features: columns of numbers and text, and what can be asked of them.

Text files and data frames become a :class:`Table` first, so that both follow the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from softcut.errors import Note, ParameterError
from softcut.tables.arrays import listed

__all__ = [
    "INTEGER_ID",
    "STRICT_ID_NAMES",
    "Column",
    "FeatureOptions",
    "FeatureTable",
    "Missing",
    "Table",
    "column_of_values",
    "looks_like_id",
    "position_of",
    "text_of",
]

Missing = Literal["error", "zero", "mean", "drop"]

# An integer without sign and leading zeros: anything else is a name, or "01" and "1" would become one node.
INTEGER_ID = re.compile(r"0|[1-9][0-9]{0,17}")
# Titles of columns that can only be ids.
STRICT_ID_NAMES = {"id", "ids", "node", "nodes", "node_id", "nodeid", "node_name", "vertex"}
_ID_NAMES = STRICT_ID_NAMES | {"", "name", "names", "index", "key"}
_ID_ENDING = re.compile(r"(?:[_ \-.]|(?<=[a-z]))I[Dd]$|[_ \-.]ids?$")


@dataclass(frozen=True)
class Column:
    """A column: ``numbers`` (NaN where missing), or ``text`` ("" where missing), or both where they may be ids."""

    title: str
    numbers: np.ndarray | None = None
    text: list[str] | None = None

    def labels(self) -> list[str] | None:
        """The values as ids: text as it is, whole numbers as integers; None where neither fits."""
        if self.text is not None:
            return self.text
        assert self.numbers is not None
        values = self.numbers
        if values.dtype.kind == "f":
            if not (np.isfinite(values).all() and np.all(values == np.floor(values))):
                return None
            if values.size and np.abs(values).max() >= 2**53:
                return None
            values = values.astype(np.int64)
        return [str(value) for value in values.tolist()] if values.dtype.kind in "iu" else None


@dataclass(frozen=True)
class Table:
    """Columns as read, with row labels that are no column (``index``) and, for messages, the lines of a file."""

    label: str
    columns: list[Column]
    titled: bool = True
    index: list[str] | None = None
    lines: Sequence[int] | None = None
    notes: tuple[Note, ...] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        first = self.columns[0]
        return len(first.numbers) if first.numbers is not None else len(first.text or ())

    def place(self, row: int, column: int) -> str:
        """Where a value stands, in the words of a message."""
        title = f" ({self.columns[column].title!r})" if self.titled and self.columns[column].title else ""
        if self.lines is not None:
            return f"{self.label}, line {self.lines[row]}, column {column + 1}{title}"
        return f"{self.label}, row {row}, column {column + 1}{title}"


@dataclass(frozen=True)
class FeatureOptions:
    """How to make a matrix of a table: the column of ids, one-hot columns, what to do about missing values."""

    ids: str | int | Literal[False] | None = None
    one_hot: bool | tuple[str, ...] = False
    missing: Missing = "error"

    @classmethod
    def checked(cls, ids: Any, one_hot: Any, missing: Any) -> FeatureOptions:
        """Options of arguments as a caller passes them."""
        if missing not in ("error", "zero", "mean", "drop"):
            raise ParameterError(
                f"missing is {missing!r}: choose 'error', 'zero', 'mean' or 'drop'.", argument="missing"
            )
        if isinstance(one_hot, str):
            one_hot = (one_hot,)
        if not isinstance(one_hot, bool):
            try:
                one_hot = tuple(one_hot)
            except TypeError:
                one_hot = (None,)
            if not all(isinstance(title, str) for title in one_hot):
                raise ParameterError(
                    "one_hot must be True, False or a list of column titles.", argument="one_hot"
                )
        if ids is not None and ids is not False and (ids is True or not isinstance(ids, (str, int))):
            raise ParameterError(
                f"ids is {ids!r}: pass the title or the position (from 0) of a column, or False for none.",
                argument="ids",
            )
        return cls(ids, one_hot, missing)


@dataclass(frozen=True)
class FeatureTable:
    """A feature matrix (float32), the id of each row where there are ids, the names of its columns."""

    label: str
    x: Any
    ids: list[str] | None = None
    names: list[str] | None = None
    id_origin: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def by_position(self) -> bool:
        """Whether a note says already that rows were joined by position."""
        return any(note.code == "joined_by_position" for note in self.notes)


def looks_like_id(title: str) -> bool:
    """Whether a title says that a column holds ids.

    >>> looks_like_id("user_id"), looks_like_id("userId"), looks_like_id("paid")
    (True, True, False)
    """
    title = title.strip()
    return title.lower() in _ID_NAMES or _ID_ENDING.search(title) is not None


def position_of(which: str | int, titles: Sequence[str], argument: str, label: str) -> int:
    """Position of a column given by title or position."""
    if isinstance(which, str):
        if which in titles:
            return list(titles).index(which)
        lowered = [title.lower() for title in titles]
        if which.lower() in lowered:
            return lowered.index(which.lower())
        # A command line has no integers: "0" is a position where no title says otherwise.
        if INTEGER_ID.fullmatch(which) and int(which) < len(titles):
            return int(which)
    elif isinstance(which, (int, np.integer)) and not isinstance(which, bool) and 0 <= which < len(titles):
        return int(which)
    raise ParameterError(
        f"{argument} is {which!r}, which is no column of {label}: choose from {listed(titles)}.",
        argument=argument,
    )


def column_of_values(title: str, values: np.ndarray) -> Column:
    """A column of any values: numbers where all that are not missing are numbers, else text."""
    if values.dtype.kind in "biuf":
        return Column(title, numbers=values)
    items = values.tolist()
    gaps = [_is_gap(item) for item in items]
    if not all(gaps) and all(gap or _is_number(item) for item, gap in zip(items, gaps, strict=True)):
        numbers = [np.nan if gap else float(item) for item, gap in zip(items, gaps, strict=True)]
        return Column(title, numbers=np.array(numbers))
    return Column(title, text=["" if gap else text_of(item) for item, gap in zip(items, gaps, strict=True)])


def _is_number(item: Any) -> bool:
    return isinstance(item, (bool, int, float, np.number))


def _is_gap(item: Any) -> bool:
    if item is None or str(item) in ("<NA>", "NaT"):
        return True
    return isinstance(item, float) and item != item


def text_of(value: Any) -> str:
    """An id as text: whole floats lose their point, which only the table gave them."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
