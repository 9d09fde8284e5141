"""Tables of text: delimiters, rows, numbers."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterator
from itertools import islice

import numpy as np

from softcut.errors import FileFormatError, ParameterError

__all__ = [
    "INTEGER",
    "check_delimiter",
    "find_delimiter",
    "is_number",
    "load_table",
    "number_of",
    "rows_of",
    "shown",
]

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_COMMENT_LINE = re.compile(rb"^[ \t]*[#%].*$\n?", re.MULTILINE)


def check_delimiter(delimiter: str | None) -> str | None:
    if delimiter is None:
        return None
    if (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or delimiter.isalnum()
        or delimiter in "\"'\r\n.+-#%_"
    ):
        raise ParameterError(f"delimiter is {delimiter!r}: pass one character such as ',' or a space.")
    return delimiter


def _split(line: str, delimiter: str, quoted: bool) -> list[str]:
    """Fields of a line; a space as delimiter means any white space."""
    if delimiter == " ":
        return line.split()
    if quoted:
        return [f.strip() for f in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
    return [f.strip() for f in line.split(delimiter)]


def rows_of(lines: list[str], delimiter: str, label: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every line that is neither blank nor a comment."""
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#%":
            continue
        try:
            fields = _split(line, delimiter, '"' in line)
        except (csv.Error, StopIteration) as error:
            raise FileFormatError(f"{label}, line {number}: {error}.") from None
        yield number, fields


def find_delimiter(lines: list[str]) -> str:
    """The delimiter of a table: the one that cuts a sample of lines into equally many columns."""
    sample = list(islice((line for line in lines if line.strip() and line.strip()[0] not in "#%"), 50))
    present = []
    # A semicolon before a comma: a comma may be a decimal sign, a semicolon hardly.
    for candidate in "\t;,":
        counts = set()
        for line in sample:
            try:
                counts.add(len(_split(line, candidate, '"' in line)))
            except (csv.Error, StopIteration):
                counts.add(0)
        if len(counts) == 1 and counts.pop() > 1:
            return candidate
        if sample and candidate in sample[0]:
            present.append(candidate)
    return present[0] if present else " "


def shown(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else line[:57] + "...")


def number_of(field: str) -> float:
    """A float as a table would write it (Python's float() would take '1_0' too)."""
    if "_" in field:
        raise ValueError
    return float(field)


def is_number(field: str) -> bool:
    try:
        number_of(field)
    except ValueError:
        return False
    return True


def load_table(data: bytes, fields: list[tuple[str, str]], delimiter: str) -> np.ndarray | None:
    """Rows of numbers through NumPy's C reader; None where a line is not of this kind."""
    if b"#" in data or b"%" in data:
        data = _COMMENT_LINE.sub(b"", data)
    try:
        with warnings.catch_warnings():
            # "1.5" read as the integer 1 is only a warning; here it means: not an integer.
            warnings.simplefilter("error")
            return np.loadtxt(
                io.BytesIO(data),
                dtype=np.dtype(fields),
                delimiter=None if delimiter == " " else delimiter,
                comments=None,
                ndmin=1,
            )
    except Exception:  # whatever it was, a line-by-line parser says which line
        return None
