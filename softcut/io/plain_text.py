"""Plain tables of text read by Arrow: many times faster than row by row, with the same values.

Plain means: no quotes, no comments between the rows, one delimiter, all rows of one width. Whatever is not plain is
left to the row-by-row reader of :mod:`softcut.io.text_tables`, which understands more and names the line of a mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softcut.errors import DependencyError, require

__all__ = ["PLAIN_BYTES", "NotPlainError", "check_plain", "read_columns"]

# Smaller texts are read row by row: loading Arrow would take longer.
PLAIN_BYTES = 1 << 20
# Bytes that one thread parses.
_PIECE = 1 << 20
# Quotes, comments, what is no text, and what is white space to Python but part of a name to Arrow.
_UNUSUAL = [bytes([sign]) for sign in b'"#%\0\x0b\x0c\x1c\x1d\x1e\x1f']


class NotPlainError(Exception):
    """The text holds something that only the row-by-row reader understands, or Arrow is not installed."""


def check_plain(block: bytes, delimiter: str | None = None) -> None:
    """Raise NotPlainError for text that Arrow would read in another way than the row-by-row reader."""
    if any(sign in block for sign in _UNUSUAL):
        raise NotPlainError
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            raise NotPlainError from None
    if delimiter == " ":
        uneven = b"  " in block or b"\t" in block or b" \n" in block or b"\n " in block
        if uneven or not block.isascii() or block[:1] == b" " or block[-1:] == b" ":
            raise NotPlainError


def read_columns(block: bytes, delimiter: str, width: int, types: Mapping[int, str]) -> list[Any]:
    """Some columns of plain text as Arrow arrays, by their positions; text is stripped of white space.

    >>> [column.to_pylist() for column in read_columns(b"a,1,x\\nb,2,y\\n", ",", 3, {0: "string", 1: "int64"})]
    [['a', 'b'], [1, 2]]
    """
    try:
        csv = require("pyarrow.csv", "tables", "reading text quickly")
    except DependencyError:
        raise NotPlainError from None
    import pyarrow
    from pyarrow import compute

    names = [str(i) for i in range(width)]
    used = {names[i]: kind for i, kind in types.items()}
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=_PIECE),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=True),
            convert_options=csv.ConvertOptions(
                column_types=used, include_columns=list(used), null_values=[], strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        raise NotPlainError from None
    return [
        compute.utf8_trim_whitespace(table.column(name)) if kind == "string" else table.column(name)
        for name, kind in used.items()
    ]
