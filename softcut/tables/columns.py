"""Tables of node features, which text files, data frames and node attributes become first: what a column holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import numpy as np

from softcut.errors import Note, ParameterError
from softcut.tables.arrays import are_whole, is_missing, listed, shown
from softcut.tables.choices import Missing
from softcut.tables.dates import days_of
from softcut.tables.schema import TableSchema

# An integer without sign and leading zeros: anything else is a name, or "01" and "1" would become one node.
INTEGER_ID = re.compile(r"0|[1-9][0-9]{0,17}")
# Titles of columns that can only be ids.
STRICT_ID_NAMES = {"id", "ids", "node", "nodes", "node_id", "nodeid", "node_name", "vertex"}
_ID_NAMES = STRICT_ID_NAMES | {"", "name", "names", "index", "key"}
_ID_ENDING = re.compile(r"(?:[_ \-.]|(?<=[a-z]))I[Dd]$|[_ \-.]ids?$")
_TRUTH = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")


@dataclass(frozen=True)
class Column:
    """A column: ``numbers`` (NaN where missing), or ``text`` ("" where missing), or both where they may be ids.

    ``declared`` says what its type in a data frame tells: dates (then ``numbers`` are days since 1970) or a category.
    """

    title: str
    numbers: np.ndarray | None = None
    text: list[str] | None = None
    declared: Literal["", "date", "category"] = ""

    def labels(self) -> list[str] | None:
        """The values as ids: text as it is, whole numbers as integers; None where neither fits."""
        if self.text is not None:
            return self.text
        if self.declared == "date":
            return None
        assert self.numbers is not None
        values = self.numbers
        if values.dtype.kind == "f":
            if not are_whole(values).all():
                return None
            values = values.astype(np.int64)
        return [str(value) for value in values.tolist()] if values.dtype.kind in "iu" else None


@dataclass(frozen=True)
class InputTable:
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

    def spot(self, row: int, column: int) -> str:
        """Where in the table a value stands, in the words of a message."""
        title = f" ({self.columns[column].title!r})" if self.titled and self.columns[column].title else ""
        line = f"row {row}" if self.lines is None else f"line {self.lines[row]}"
        return f"{line}, column {column + 1}{title}"

    def place(self, row: int, column: int) -> str:
        """The same with the name of the table."""
        return f"{self.label}, {self.spot(row, column)}"

    def called(self, column: int) -> str | int:
        """How an option names a column: by its title, or by its position where it has none."""
        title = self.columns[column].title
        return title if self.titled and title else column


Titles = tuple[str | int, ...]
_OF_COLUMNS = ("columns", "drop", "categories", "dates")  # options that say what columns are


@dataclass(frozen=True)
class FeatureOptions:
    """How to make a matrix of a table: its column of ids, what columns are, what to do about missing values.

    Columns are named by title or position. `columns` are those to use (None: all), `categories` may be True: all
    columns of text. `dates` has the format of each column, "" where it is to be found. With a `schema` the columns
    are what they were in another table.
    """

    ids: str | int | Literal[False] | None = None
    missing: Missing = "error"
    columns: Titles | None = None
    drop: Titles = ()
    categories: bool | Titles = ()
    dates: tuple[tuple[str | int, str], ...] = ()
    schema: TableSchema | None = None

    def check_table(self, label: str) -> None:
        """Refuse options that only a table can have, for features that are none."""
        for name in _OF_COLUMNS:
            if getattr(self, name):
                raise ParameterError(
                    f"{name} names columns of a table, but {label} is none: pass a data frame or a text file.",
                    argument=name,
                )

    @classmethod
    def checked(
        cls,
        ids: Any = None,
        missing: Any = "error",
        columns: Any = None,
        drop: Any = (),
        categories: Any = (),
        dates: Any = (),
        schema: Any = None,
    ) -> FeatureOptions:
        """Options of arguments as a caller passes them."""
        if missing not in ("error", "zero", "mean", "drop"):
            raise ParameterError(
                f"missing is {missing!r}: choose 'error', 'zero', 'mean' or 'drop'.", argument="missing"
            )
        if ids is not None and ids is not False and (ids is True or not isinstance(ids, (str, int))):
            raise ParameterError(
                f"ids is {ids!r}: pass the title or the position (from 0) of a column, or False for none.",
                argument="ids",
            )
        if schema is not None and not isinstance(schema, TableSchema):
            raise ParameterError(
                "schema must be the schema_ of an estimator or the schema of a graph.", argument="schema"
            )
        if isinstance(dates, Mapping):
            formats = tuple(dates.items())
        else:
            formats = tuple(_date_and_format(each) for each in _titles(dates, "dates"))
        for _, format in formats:
            if not isinstance(format, str):
                raise ParameterError(
                    f"dates has the format {format!r}: pass text such as '%d/%m/%Y'.", argument="dates"
                )
        options = cls(
            ids,
            missing,
            None if columns is None else _titles(columns, "columns"),
            _titles(drop, "drop"),
            categories if isinstance(categories, bool) else _titles(categories, "categories"),
            formats,
            schema,
        )
        named = next((name for name in _OF_COLUMNS if schema is not None and getattr(options, name)), None)
        if named is not None:
            raise ParameterError(
                f"{named} has no effect: what columns are was decided with the model; leave it out.",
                argument=named,
            )
        return options


def _titles(given: Any, argument: str) -> Titles:
    """Columns by title or position, as a tuple."""
    one = isinstance(given, str) or not np.iterable(given)
    titles = (given,) if one else tuple(given)
    for title in titles:
        if isinstance(title, bool) or not isinstance(title, (str, int, np.integer)):
            raise ParameterError(
                f"{argument} must be a list of titles or positions of columns, got {title!r}.",
                argument=argument,
            )
    return titles


def _date_and_format(given: str | int) -> tuple[str | int, str]:
    """A column of dates, perhaps with "=" and its format."""
    if not isinstance(given, str) or "=%" not in given:
        return given, ""
    title, _, format = given.partition("=%")
    return title, f"%{format}"


@dataclass(frozen=True)
class FeatureTable:
    """A feature matrix (float32), the id of each row where there are ids, the names of its columns."""

    label: str
    x: Any
    ids: list[str] | None = None
    names: list[str] | None = None
    id_origin: str = ""
    notes: tuple[Note, ...] = ()
    schema: TableSchema | None = None

    @property
    def may_begin_with_titles(self) -> bool:
        """Whether a first row of numbers was taken for values, which nobody asked for."""
        return any(note.values.get("titles_in_doubt") for note in self.notes)

    @property
    def by_position(self) -> bool:
        """Whether a note says already that rows were joined by position."""
        return any(note.code == "joined_by_position" for note in self.notes)


def looks_like_id(title: str) -> bool:
    """Whether a title says that a column holds ids: "user_id" and "userId", not "paid"."""
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


# ---------------------------------------------------------------------- what a column is


def column_of_values(title: str, values: np.ndarray) -> Column:
    """A column of any values: numbers where all that are not missing are numbers, else text."""
    if values.dtype.kind in "biuf":
        return Column(title, numbers=values)
    if values.dtype.kind in "mM":
        micros = values.astype(f"{values.dtype.kind}8[us]")
        days = np.where(np.isnat(micros), np.nan, micros.astype(np.int64) / 86_400e6)
        return Column(title, numbers=days, declared="date" if values.dtype.kind == "M" else "")
    items = [None if _is_gap(item) else item for item in values.tolist()]
    present = [item for item in items if item is not None]
    if present and all(isinstance(item, (bool, int, float, np.number)) for item in present):
        return Column(title, numbers=np.array([np.nan if item is None else float(item) for item in items]))
    if present and all(isinstance(item, date) for item in present):
        days = np.array([np.nan if item is None else days_of(item) for item in items])
        return Column(title, numbers=days, declared="date")
    return Column(title, text=["" if item is None else text_of(item) for item in items])


def _is_gap(item: Any) -> bool:
    return item is None or str(item) in ("<NA>", "NaT") or (isinstance(item, float) and item != item)


def column_of_fields(
    title: str, fields: Sequence[str], delimiter: str, first: bool
) -> tuple[Column, Note | None]:
    """A column of a text file: numbers, or True and False, or text; and what to say about it.

    `first`: whether it is the first column of its table, where ids usually stand.
    """
    numbers, said = numbers_of_fields(fields, delimiter)
    if numbers is None:
        gaps = [is_missing(field) for field in fields]
        present = [field.lower() for field, gap in zip(fields, gaps, strict=True) if not gap]
        if all(field in _TRUTH for field in present):
            truth = [np.nan if gap else _TRUTH[f.lower()] for f, gap in zip(fields, gaps, strict=True)]
            return Column(title, np.array(truth)), None
        filled = ["0" if gap else field for field, gap in zip(fields, gaps, strict=True)]
        numbers, said = numbers_of_fields(filled, delimiter)
        if numbers is None:  # "NA" among words may be a word
            return Column(title, text=list(fields)), None
        numbers[gaps] = np.nan
    # Distinct values in the place of ids, and distinct integers, may be ids: these are compared as they are written.
    in_place = first or looks_like_id(title) or all(field.isdecimal() for field in fields)
    may_be_ids = in_place and len(set(fields)) == len(fields) and not np.isnan(numbers).any()
    return Column(title, numbers, list(fields) if may_be_ids else None), said


def is_value(field: str) -> bool:
    """Whether a field is a number, True or False, or missing: no word."""
    return is_number(field) or is_missing(field) or field.lower() in _TRUTH


def is_number(field: str) -> bool:
    """Whether a field is a number, with a decimal point or comma."""
    return _floats([field]) is not None or _DECIMAL_COMMA.fullmatch(field) is not None


def _floats(fields: Sequence[str]) -> np.ndarray | None:
    """Fields as numbers with decimal points; None where one is none (Python's float() would take '1_0' too)."""
    try:
        values = [float(field) for field in fields]
    except ValueError:
        return None
    return None if any("_" in field for field in fields) else np.array(values, dtype=np.float64)


def numbers_of_fields(fields: Sequence[str], delimiter: str = ";") -> tuple[np.ndarray | None, Note | None]:
    """Values of a column, and what to say about them; None where they are not all numbers.

    Where a comma is the delimiter, "1,250" in quotes is rather a thousand and 250 than a decimal number.
    """
    values = _floats(fields)
    commas = [field for field in fields if "," in field] if values is None else []
    # "1,234" beside "5.6" is a thousand; only a column without points has decimal commas.
    if not commas or any("." in field for field in fields):
        return values, None
    thousands = delimiter == "," and all(_THOUSANDS.fullmatch(field) for field in commas)
    if thousands or not all(_DECIMAL_COMMA.fullmatch(field) for field in commas):
        return None, None
    values = _floats([field.replace(",", ".") for field in fields])
    if values is None:
        return None, None
    shown_as = f"decimal commas: {commas[0]!r} is {float(commas[0].replace(',', '.')):g}"
    return values, Note("decimal_commas", shown_as)


def mixed_commas(field: str) -> str:
    """The end of a sentence about a number whose comma may mean two things."""
    return (
        f"the comma in {shown(field)} may mark decimals or thousands; write numbers with points and without such "
        "commas."
    )


def text_of(value: Any) -> str:
    """An id as text: whole floats lose their point, which only the table gave them."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
