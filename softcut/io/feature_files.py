"""Node features from text tables, data frames, NumPy arrays and archives."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from softcut.errors import FileFormatError, GraphError, Note
from softcut.graph.checks import check_features
from softcut.io.matrix_files import load_archive
from softcut.io.plain_text import PLAIN_BYTES, NotPlainError, check_plain, read_columns
from softcut.io.text_files import kind_of, label_of, read_bytes, reason_of, shown
from softcut.io.text_tables import (
    TextTable,
    column_of_numbers,
    is_missing,
    is_number,
    mixed_commas,
    open_table,
)
from softcut.tables.columns import Column, FeatureOptions, FeatureTable, Table, looks_like_id
from softcut.tables.feature_columns import feature_table
from softcut.tables.frames import is_frame, table_of_frame

__all__ = ["FeatureSource", "features_from"]

_FEATURE_FORMATS = {".csv": "text", ".tsv": "text", ".txt": "text", ".npy": "npy", ".npz": "npz"}
_TRUTH = {"true": 1.0, "false": 0.0}

# Given the names of the nodes (None: no graph) and whether their order is known, the features.
FeatureSource = Callable[[list[str] | None, bool], FeatureTable]


def features_from(
    source: Any,
    options: FeatureOptions,
    header: bool | None = None,
    delimiter: str | None = None,
    comments: str | None = None,
    max_bytes: int | None = None,
) -> FeatureSource:
    """Features of a path, a data frame, an array or a sparse matrix, read now and joined later."""
    if is_frame(source):
        frame = table_of_frame(source, "features")
        return lambda known, ordered: feature_table(frame, options, known, ordered)
    if not (isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")):
        array = _checked(source, "features")
        return lambda known, ordered: array
    label = label_of(source)
    kind = kind_of(source, _FEATURE_FORMATS, "features")
    data = read_bytes(source, max_bytes)
    if kind != "text":
        archive = _checked(_load(data, kind, label, max_bytes), label)
        return lambda known, ordered: archive
    table = _read_text(open_table(data, label, delimiter, comments), header)

    def join(known: list[str] | None, ordered: bool) -> FeatureTable:
        try:
            return feature_table(table, options, known, ordered)
        except GraphError as error:  # the sentence names the file and the line
            raise FileFormatError(error.sentence) from None

    return join


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


def _read_text(table: TextTable, asked: bool | None) -> Table:
    sample = table.sample()
    if not sample:
        raise FileFormatError(f"{table.label} has no rows, only comments.")
    line, first = sample[0]
    header, why = _is_header([fields for _, fields in sample], asked)
    if header and len(sample) == 1:
        raise FileFormatError(f"{table.label} has a header but no rows.")
    rows = [fields for _, fields in sample[1 if header else 0 :]]
    begin, width = (sample[1][0] if header else line), len(rows[0])
    titles = [title.strip("\"' ") for title in first] if header else [str(i + 1) for i in range(width)]
    if header and width == len(titles) + 1:
        titles = ["", *titles]  # R writes no title above the names of the rows
    if len(titles) != width:
        raise FileFormatError(
            f"{table.label}, line {begin}: expected {len(titles)} columns, found {width}: {shown(table.line(begin))}."
        )
    said = f"{table.label}: separated by {table.separated_by()}, {'header' if header else 'no header'}{why}"
    notes = (Note("format", said, header=header), *table.notes)
    try:
        return _parse_plain(table, begin, titles, rows, header, notes)
    except NotPlainError:
        return _parse_rows(table, begin, titles, header, notes)


def _is_header(rows: list[list[str]], asked: bool | None) -> tuple[bool, str]:
    """Whether the first row holds titles, and why."""
    if asked is not None:
        return asked, " (as asked for)"
    first, rest = rows[0], rows[1:]
    words = [bool(field) and not is_number(field) and not is_missing(field) for field in first]
    if not any(words) and not (first[0] == "" and len(first) > 1 and rest):
        return False, ""
    if not rest:
        # One row of words only can be titles; a row with numbers is a row.
        return all(words), ""
    if len(rest[0]) == len(first) + 1:
        return True, ""
    for column, field in enumerate(first):
        others = [row[column] for row in rest if len(row) > column]
        if words[column] and field.lower() not in _TRUTH and others:
            if all(_is_value(other) for other in others):
                return True, ""
            if len(set(others)) < len(others) and field not in others and all(words):
                return True, f" ({field!r} is no value of its column)"
    return all(words) and looks_like_id(first[0]) and first[0] != "", ""


def _parse_plain(
    table: TextTable,
    begin: int,
    titles: list[str],
    sample: list[list[str]],
    titled: bool,
    notes: tuple[Note, ...],
) -> Table:
    """Numbers and words of a large plain text through Arrow; NotPlainError when anything is out of the ordinary."""
    width = len(titles)
    if len(table.data) <= PLAIN_BYTES or table.quoted or any(len(row) != width for row in sample):
        raise NotPlainError
    words = [j for j in range(width) if not all(is_number(row[j]) for row in sample)]
    # Distinct integers may be ids, and ids are compared as they are written.
    maybe = [j for j in range(width) if j not in words and _may_be_ids([row[j] for row in sample], titles, j)]
    body = table.data.split(b"\n", begin - 1)[-1]
    check_plain(body, table.delimiter)
    types = {j: "string" if j in words or j in maybe else "float64" for j in range(width)}
    columns = []
    for j, values in enumerate(read_columns(body, table.delimiter, width, types)):
        fields = values.to_pylist() if types[j] == "string" else None
        numbers = None
        if j in words:
            if any(map(_is_value, fields or ())):
                raise NotPlainError
        else:
            try:
                numbers = values.cast("float64").to_numpy()
            except ValueError:
                raise NotPlainError from None
            if not np.isfinite(numbers).all():
                raise NotPlainError
        kept = fields is not None and (j in words or _may_be_ids(fields, titles, j))
        columns.append(Column(titles[j], numbers, fields if kept else None))
    lines = [n for n, line in enumerate(body.split(b"\n"), begin) if line.strip()]
    return Table(table.label, columns, titled, lines=lines, notes=notes)


def _is_value(field: str) -> bool:
    """Whether a field is a number, True or False, or missing: no word."""
    return is_number(field) or is_missing(field) or field.lower() in _TRUTH


def _may_be_ids(fields: list[str], titles: list[str], at: int) -> bool:
    """Whether values may be ids, so that they have to be kept as they are written."""
    in_place = at == 0 or looks_like_id(titles[at])
    return (in_place or all(field.isdecimal() for field in fields)) and len(set(fields)) == len(fields)


def _parse_rows(
    table: TextTable, begin: int, titles: list[str], titled: bool, notes: tuple[Note, ...]
) -> Table:
    """Any values, row by row, naming the line of the first mistake."""
    width = len(titles)
    lines: list[int] = []
    values: list[list[str]] = []
    for number, fields in table.rows():
        if number < begin:
            continue
        if len(fields) != width:
            raise FileFormatError(
                f"{table.label}, line {number}: expected {width} columns, found {len(fields)}: "
                f"{shown(table.line(number))}."
            )
        lines.append(number)
        values.append(fields)
    columns: list[Column] = []
    for j in range(width):
        fields = [row[j] for row in values]
        column, said = _column(titles, j, fields, table.delimiter)
        if column.numbers is None and all(is_number(field) or is_missing(field) for field in fields):
            row = next(i for i, field in enumerate(fields) if "," in field)
            raise FileFormatError(
                f"{table.label}, line {lines[row]}, column {j + 1}: {mixed_commas(fields[row])}"
            )
        columns.append(column)
        if said is not None and all(note.code != said.code for note in notes):
            notes = (*notes, said)
    return Table(table.label, columns, titled, lines=lines, notes=notes)


def _column(titles: list[str], at: int, fields: list[str], delimiter: str) -> tuple[Column, Note | None]:
    title = titles[at]
    present = [field for field in fields if not is_missing(field)]
    gaps = len(present) < len(fields)
    if present and all(field.lower() in _TRUTH for field in present):
        numbers = [np.nan if is_missing(field) else _TRUTH[field.lower()] for field in fields]
        return Column(title, numbers=np.array(numbers)), None
    values, said = column_of_numbers(["0" if is_missing(field) else field for field in fields], delimiter)
    if values is None:
        # "NA" among words may be a word; an empty field is none.
        return Column(title, text=fields), None
    if gaps:
        values[[is_missing(field) for field in fields]] = np.nan
    return Column(
        title, numbers=values, text=fields if not gaps and _may_be_ids(fields, titles, at) else None
    ), said
