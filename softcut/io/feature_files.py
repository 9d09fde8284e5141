"""Node features from text tables, NumPy arrays and archives."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from softcut.errors import FileFormatError, GraphError
from softcut.graph import Graph
from softcut.io.matrix_files import load_archive
from softcut.io.opening import decode_text, kind_of, label_of, plain_text_bytes, read_bytes, reason_of
from softcut.io.text_tables import find_delimiter, is_number, number_of, rows_of, shown

__all__ = ["FeatureTable", "feature_table_of", "raise_missing"]

_FEATURE_FORMATS = {".csv": "text", ".tsv": "text", ".txt": "text", ".npy": "npy", ".npz": "npz"}
_ID_NAMES = {"", "id", "ids", "node", "nodes", "node_id", "nodeid", "node_name", "name", "vertex", "index"}
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class FeatureTable:
    """Features as read: one id per row where the file has ids."""

    label: str
    x: Any
    ids: list[str] | None = None


def feature_table_of(source: Any) -> FeatureTable:
    """Features from a path, an array or a sparse matrix."""
    if not (isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")):
        return _checked_features(source, "features")
    label = label_of(source)
    kind = kind_of(source, _FEATURE_FORMATS, "features")
    data = read_bytes(source)
    if kind == "text":
        return _features_from_text(data, label)
    x: Any
    if kind == "npy":
        try:
            x = np.load(io.BytesIO(data), allow_pickle=False)
            if not isinstance(x, np.ndarray):
                raise ValueError("it is an archive, name it .npz")
        except Exception as error:
            raise FileFormatError(f"{label} is not a valid .npy file: {reason_of(error)}.") from None
    else:
        x = load_archive(data, label)
        if isinstance(x, dict):
            if len(x) != 1:
                raise FileFormatError(
                    f"{label} holds {', '.join(map(repr, x)) or 'nothing'}: expected a matrix of "
                    "scipy.sparse.save_npz, or one dense array."
                )
            x = next(iter(x.values()))
    return _checked_features(x.reshape(-1, 1) if x.ndim == 1 else x, label)


def _checked_features(x: Any, label: str) -> FeatureTable:
    """Features that have passed the graph's own checks, with the file named in its sentences."""
    try:
        rows = int(x.shape[0]) if hasattr(x, "shape") else len(x)
    except (TypeError, IndexError):
        raise GraphError(f"{label} is one value: give one row per node.") from None
    if rows == 0:
        raise GraphError(f"{label} has no rows: give one row per node.")
    try:
        return FeatureTable(label, Graph.from_edges([], num_nodes=rows).with_features(x).x)
    except GraphError as error:
        raise GraphError(f"{label}: {error}") from None


def _features_from_text(data: bytes, label: str) -> FeatureTable:
    data = plain_text_bytes(data)
    lines = decode_text(data, label).split("\n")
    delimiter = find_delimiter(lines)
    rows = rows_of(lines, delimiter, label)
    line, first = next(rows, (0, [""]))
    if line == 0:
        raise FileFormatError(f"{label} has no rows, only comments.")
    titled = first[0].lower() in _ID_NAMES
    # An empty field is a missing value, not a title.
    header = titled or any(field and not is_number(field) for field in first[1:])
    if len(first) == 1 and not is_number(first[0]):
        header = True
    second = next(rows, (0, []))[1] if header else first
    if header and not second:
        raise FileFormatError(f"{label} has a header but no rows.")
    # R writes a header without a title for the ids: one column less than the rows.
    ids = (
        (titled and len(second) > 1) or not is_number(second[0]) or (header and len(second) == len(first) + 1)
    )
    width = len(second)
    begin = line + 1 if header else line
    return _parse_features_fast(lines, delimiter, begin, width, ids, label) or _parse_features(
        lines, delimiter, begin, width, ids, label
    )


def _parse_features_fast(
    lines: list[str], delimiter: str, begin: int, width: int, ids: bool, label: str
) -> FeatureTable | None:
    """Numbers through NumPy's C reader; None when anything is out of the ordinary."""
    body = [line for line in lines[begin - 1 :] if line.strip() and line.lstrip()[0] not in "#%"]
    names: list[str] | None = None
    if ids:
        if any('"' in line for line in body):
            return None
        parts = [line.strip().split(None if delimiter == " " else delimiter, 1) for line in body]
        if any(len(part) != 2 for part in parts):
            return None
        names = [part[0].strip() for part in parts]
        body = [part[1] for part in parts]
        if len(set(names)) < len(names):
            return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = np.loadtxt(
                body,
                dtype=np.float32,
                delimiter=None if delimiter == " " else delimiter,
                comments=None,
                ndmin=2,
            )
    except Exception:  # the line-by-line parser says which line
        return None
    if x.shape != (len(body), width - int(ids)) or not x.size or not np.isfinite(x).all():
        return None
    return FeatureTable(label, x, names)


def _parse_features(
    lines: list[str], delimiter: str, begin: int, width: int, ids: bool, label: str
) -> FeatureTable:
    names: list[str] = []
    seen: set[str] = set()
    values: list[list[float]] = []
    for number, fields in rows_of(lines, delimiter, label):
        if number < begin:
            continue
        if len(fields) != width:
            raise FileFormatError(
                f"{label}, line {number}: expected {width} columns, found {len(fields)}: "
                f"{shown(lines[number - 1])}."
            )
        if ids:
            if fields[0] in seen:
                raise FileFormatError(f"{label}, line {number}: node {shown(fields[0])} has a row already.")
            seen.add(fields[0])
            names.append(fields[0])
        row = []
        for column, field in enumerate(fields[int(ids) :], 1 + int(ids)):
            try:
                value = number_of(field)
            except ValueError:
                raise FileFormatError(
                    f"{label}, line {number}, column {column}: {shown(field)} is not a number."
                ) from None
            if not abs(value) <= _FLOAT32_MAX:
                raise FileFormatError(
                    f"{label}, line {number}, column {column}: {shown(field)} is not finite in float32; "
                    "replace or rescale such values."
                )
            row.append(value)
        values.append(row)
    if width - int(ids) < 1:
        raise FileFormatError(f"{label}, line {begin}: expected at least one feature beside the node id.")
    return FeatureTable(label, np.array(values, dtype=np.float32), names if ids else None)


def raise_missing(label: str, missing: list[str], graph: str | None = None) -> NoReturn:
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    where = f" of {graph}" if graph else ""
    raise FileFormatError(
        f"{label} has no row for node {shown(missing[0])}{others}{where}: add the missing rows."
    )
