"""Node features from text tables, data frames, NumPy arrays and archives."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softcut.errors import Argument, FileFormatError, GraphError, Note
from softcut.graph.checks import check_features
from softcut.io.matrix_files import load_archive
from softcut.io.text_files import TextTable, kind_of, label_of, open_table, read_bytes, reason_of
from softcut.io.workbooks import Workbook
from softcut.tables.arrays import is_missing, shown
from softcut.tables.columns import (
    Column,
    FeatureTable,
    InputTable,
    column_of_fields,
    is_number,
    is_value,
    looks_like_id,
    mixed_commas,
)
from softcut.tables.frames import is_frame, table_of_frame

_FEATURE_FORMATS = {".csv": "text", ".tsv": "text", ".txt": "text", ".npy": "npy", ".npz": "npz"}
_FEATURE_FORMATS[".xlsx"] = "xlsx"
_SEPARATED = re.compile(r" separated by commas,?")
_SAMPLE = 1000  # rows that show whether the first one holds titles


def features_from(
    source: Any,
    header: bool | None = None,
    delimiter: str | None = None,
    comments: str | None = None,
    max_bytes: int | None = None,
    encoding: str | None = None,
) -> InputTable | FeatureTable:
    """The table of a text file or data frame, or the matrix of an array, archive or sparse matrix."""
    if is_frame(source):
        return table_of_frame(source, "features")
    if not (isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")):
        return _checked(source, "features")
    label = label_of(source)
    kind = kind_of(source, _FEATURE_FORMATS, "features")
    data = read_bytes(source, max_bytes)
    if kind == "text":
        return _read_text(open_table(data, label, delimiter, comments, encoding), header)
    if kind == "xlsx":
        book = Workbook(data, label, max_bytes)
        return table_of_sheet(book, book.nodes(first=True) or book.edges(), header)
    return _checked(_load(data, kind, label, max_bytes), label)


def table_of_sheet(book: Workbook, sheet: str, header: bool | None) -> InputTable:
    """The table of one sheet of a workbook."""
    table = _read_text(open_table(book.sheets[sheet], book.place(sheet), ",", ""), header)
    return replace(table, notes=tuple(without_delimiter(table.notes)))


def without_delimiter(notes: Sequence[Note]) -> list[Note]:
    """What was understood of a sheet, which has columns without anything that separates them."""
    shorter = []
    for note in notes:
        pieces = [p if isinstance(p, Argument) else _SEPARATED.sub("", p) for p in note.pieces]
        shorter.append(Note(note.code, *pieces, **note.values))
    return shorter


def _load(data: bytes, kind: str, label: str, max_bytes: int | None) -> Any:
    x: Any
    if kind == "npy":
        try:
            x = np.load(io.BytesIO(data), allow_pickle=False)
            if not isinstance(x, np.ndarray):
                raise ValueError("it is an archive, name it .npz")
        except Exception as error:
            raise FileFormatError(f"{label} is not a valid .npy file: {reason_of(error)}.") from None
    else:
        x = load_archive(data, label, max_bytes)
        if isinstance(x, dict):
            if len(x) != 1:
                raise FileFormatError(
                    f"{label} holds {', '.join(map(repr, x)) or 'nothing'}: expected a matrix of "
                    "scipy.sparse.save_npz, or one dense array."
                )
            x = next(iter(x.values()))
    return x.reshape(-1, 1) if x.ndim == 1 else x


def _checked(x: Any, label: str) -> FeatureTable:
    """Features that have passed the graph's own checks, with the file named in its sentences."""
    try:
        rows = int(x.shape[0]) if hasattr(x, "shape") else len(x)
    except (TypeError, IndexError):
        raise GraphError(f"{label} is one value: give one row per node.") from None
    if rows == 0:
        raise GraphError(f"{label} has no rows: give one row per node.")
    try:
        return FeatureTable(label, check_features(x, rows))
    except GraphError as error:
        raise GraphError(f"{label}: ", error.sentence) from None


# ---------------------------------------------------------------------- text


def _read_text(table: TextTable, asked: bool | None) -> InputTable:
    """The columns of a text table, naming the line of the first mistake."""
    numbered = list(table.rows())
    if not numbered:
        raise FileFormatError(f"{table.label} has no rows, only comments.")
    first = numbered[0][1]
    header, why = _is_header([fields for _, fields in numbered[:_SAMPLE]], asked)
    if header and len(numbered) == 1:
        raise FileFormatError(f"{table.label} has a header but no rows.")
    numbered = numbered[1:] if header else numbered
    width = len(numbered[0][1])
    titles = [title.strip("\"' ") for title in first] if header else [str(i + 1) for i in range(width)]
    if header and width == len(titles) + 1:
        titles = ["", *titles]  # R writes no title above the names of the rows
    for number, fields in numbered:
        if len(fields) != len(titles):
            raise FileFormatError(
                f"{table.label}, line {number}: expected {len(titles)} columns, found {len(fields)}: "
                f"{shown(table.line(number))}."
            )
    lines = [number for number, _ in numbered]
    said = f"{table.label}: separated by {table.separated_by()}, {'header' if header else 'no header'}{why}"
    doubt = {"titles_in_doubt": True} if not header and asked is None else {}
    notes = [Note("format", said, header=header, **doubt), *table.notes]
    columns: list[Column] = []
    for j, values in enumerate(zip(*(fields for _, fields in numbered), strict=True)):
        column, note = column_of_fields(titles[j], values, table.delimiter, first=j == 0)
        if column.numbers is None and all(is_number(field) or is_missing(field) for field in values):
            row = next(i for i, field in enumerate(values) if "," in field)
            where = f"{table.label}, line {lines[row]}, column {j + 1}"
            raise FileFormatError(f"{where}: {mixed_commas(values[row])}")
        columns.append(column)
        if note is not None and all(note.code != other.code for other in notes):
            notes.append(note)
    return InputTable(table.label, columns, header, lines=lines, notes=tuple(notes))


def _is_header(rows: list[list[str]], asked: bool | None) -> tuple[bool, str]:
    """Whether the first row holds titles, and why."""
    if asked is not None:
        return asked, " (as asked for)"
    first, rest = rows[0], rows[1:]
    words = [not is_number(field) and not is_missing(field) for field in first]
    if len(first) > 1 and _titles_ids(first[0], [row[0] for row in rest]):
        return True, ""  # the others may be years
    if not any(words) and not (first[0] == "" and len(first) > 1 and rest):
        return False, ""
    if not rest:
        # One row of words only can be titles; a row with numbers is a row.
        return all(words), ""
    if len(rest[0]) == len(first) + 1:
        return True, ""
    for column, field in enumerate(first):
        others = [row[column] for row in rest if len(row) > column]
        if not is_value(field) and others:
            if all(map(is_value, others)):
                return True, ""
            if len(set(others)) < len(others) and field not in others and all(words):
                return True, f" ({field!r} is no value of its column)"
    return all(words) and looks_like_id(first[0]) and first[0] != "", ""


def _titles_ids(field: str, below: list[str]) -> bool:
    """Whether the first field of a table titles a column of ids: called so, or empty above names or a count."""
    if field == "":  # as pandas writes an index
        names = len(set(below)) == len(below) > 1 and not any(map(is_value, below))
        return names or (
            len(below) > 1 and below in ([str(i + start) for i in range(len(below))] for start in (0, 1))
        )
    return looks_like_id(field) and bool(below) and field not in below
