"""Edge lists as plain text, Parquet and NumPy files, read block by block: the memory is that of the edges.

Plain text means: no quotes, no comments between the rows, one delimiter, all rows of one width. Arrow reads it many
times faster than row by row, with the same values. What its columns hold is found from its head by the same function
that :mod:`softcut.io.edge_lists` uses; a file with anything unusual in it is left to that reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import IO, Any

import numpy as np

from softcut.errors import DependencyError, FileFormatError, Note, require
from softcut.graph.checks import check_edge_index
from softcut.io.edge_lists import EdgeListLayout, understand
from softcut.io.options import ReadOptions
from softcut.io.text_files import errors_of_files, plain_text_bytes, reason_of
from softcut.tables.edge_columns import EdgeTable, choose_edge_columns, whole_numbers

# Smaller texts are read row by row: loading Arrow would take longer.
PLAIN_BYTES = 1 << 20
# Bytes of text, and rows of a Parquet file, that are held at a time; bytes that one thread parses.
_BLOCK = 32 * 2**20
_ROWS = 1 << 20
_PIECE = 1 << 20
# The layout is found from this many bytes at most.
_HEAD = 4 * 2**20
_LEADING = re.compile(rb"(?:[ \t]*(?:[#%][^\n]*)?\n)*")
# Quotes, comments, what is no text, and what is white space to Python but part of a name to Arrow.
_UNUSUAL = [bytes([sign]) for sign in b'"#%\0\x0b\x0c\x1c\x1d\x1e\x1f']
_LARGEST_ID = 10**18

# Called with the bytes (of a Parquet file: rows) that were read, and how many there are.
ReadProgress = Callable[[int, int], None]


class _NotPlainError(Exception):
    """The text holds something that only the row-by-row reader understands, or Arrow is not installed."""


def _edge_table(blocks: Iterable[tuple[Any, Any, np.ndarray | None]]) -> EdgeTable | None:
    """All edges of blocks of source, target and weight; None where there are none.

    Ids are Arrow arrays of integers or of text; text is numbered in the order of the first mention.
    """
    import pyarrow

    ends: list[Any] = []
    weights: list[np.ndarray] = []
    for u, v, weight in blocks:
        if pyarrow.types.is_integer(u.type) and pyarrow.types.is_integer(v.type):
            ends.append(np.stack([u.to_numpy(), v.to_numpy()], axis=1).astype(np.int64, copy=False))
        else:
            both = pyarrow.concat_arrays([*u.cast("string").chunks, *v.cast("string").chunks])
            turns = np.arange(2 * len(u)).reshape(2, -1).T.ravel()  # u[0], v[0], u[1], v[1], ...
            ends.append(both.take(pyarrow.array(turns)).dictionary_encode())
        if weight is not None:
            weights.append(weight)
    if not ends:
        return None
    weight = np.concatenate(weights) if weights else None
    if isinstance(ends[0], np.ndarray):
        return EdgeTable(np.concatenate(ends), None, weight)
    chunks = pyarrow.chunked_array(ends).unify_dictionaries().chunks
    places = np.concatenate([chunk.indices.to_numpy() for chunk in chunks]).astype(np.int64)
    return whole_numbers(EdgeTable(places.reshape(-1, 2), chunks[0].dictionary.to_pylist(), weight))


# ---------------------------------------------------------------------- plain text


def read_plain_edges(
    stream: IO[bytes], size: int, options: ReadOptions, progress: ReadProgress | None = None
) -> tuple[EdgeTable, list[Note]] | None:
    """The edges of a plain text, and what was understood; None for a text that takes the row-by-row reader.

    `size` is the number of bytes of `stream`; `progress` is called after every block.
    """
    head = stream.read(_HEAD)
    head = head if len(head) == size else head[: head.rfind(b"\n") + 1]
    try:
        require("pyarrow.csv", "tables", "reading text quickly")
        layout, notes, delimiter = _layout(head, options)
    except (_NotPlainError, DependencyError):
        return None
    for kind in ("int64", "string"):
        stream.seek(0)
        blocks = _blocks(stream, size, layout, delimiter, progress)
        try:
            table = _edge_table(_columns(block, layout, delimiter, kind) for block in blocks)
        except _NotPlainError:
            continue
        if table is None or "" in (table.names or ()):
            return None
        return replace(table, titles=layout.columns.titles), notes
    return None


def _layout(head: bytes, options: ReadOptions) -> tuple[EdgeListLayout, list[Note], str]:
    """Which columns hold what; only where all of the file would be understood like its head."""
    data = plain_text_bytes(head)
    if options.comments is not None or options.encoding is not None or data.startswith(b"\x1f\x8b"):
        raise _NotPlainError
    begin = _LEADING.match(data)
    assert begin is not None
    _check_plain(data[begin.end() :])
    if not data[begin.end() :].strip():
        raise _NotPlainError
    table, layout, notes = understand(data, options)
    unusual = layout.needs_all or table.quoted or table.comments != "#%"
    if unusual or not table.delimiter.isascii():
        raise _NotPlainError
    return layout, notes, table.delimiter


def _check_plain(block: bytes, delimiter: str | None = None) -> None:
    """Raise _NotPlainError for text that Arrow would read in another way than the row-by-row reader."""
    if any(sign in block for sign in _UNUSUAL):
        raise _NotPlainError
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            raise _NotPlainError from None
    if delimiter == " ":
        uneven = b"  " in block or b"\t" in block or b" \n" in block or b"\n " in block
        if uneven or not block.isascii() or block[:1] == b" " or block[-1:] == b" ":
            raise _NotPlainError


def _blocks(
    stream: IO[bytes], size: int, layout: EdgeListLayout, delimiter: str, progress: ReadProgress | None
) -> Iterator[bytes]:
    """Rows of the file, a few millions at a time: whole lines, without header and what stands before it."""
    skip, rest, first = layout.first_line - 1, b"", True
    while data := stream.read(_BLOCK):
        data, last = rest + data, stream.tell() >= size
        end = len(data) if last else data.rfind(b"\n") + 1
        block, rest = data[:end], data[end:]
        if first or b"\r" in block:
            block, first = plain_text_bytes(block), False
        if skip:
            lines = block.split(b"\n", skip)
            skip -= len(lines) - 1
            block = lines[-1] if skip == 0 else b""
        _check_plain(block, delimiter)
        if block and not block.isspace():
            yield block
        if progress is not None:
            progress(stream.tell(), size)


def _columns(
    block: bytes, layout: EdgeListLayout, delimiter: str, kind: str
) -> tuple[Any, Any, np.ndarray | None]:
    """Source, target and perhaps weight of the rows of a block, with ids of one kind."""
    import pyarrow
    from pyarrow import compute, csv

    # "01" and "1" are two ids, and Arrow reads "0x1" as a number.
    if kind == "int64" and (_written_differently(block, delimiter) or b"0x" in block or b"0X" in block):
        raise _NotPlainError
    names, columns = [str(i) for i in range(layout.count)], layout.columns
    types = {names[columns.source]: kind, names[columns.target]: kind}
    if columns.weight is not None:
        types[names[columns.weight]] = "float64"
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=_PIECE),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=True),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
            ),
        )
    except pyarrow.ArrowException:
        raise _NotPlainError from None
    u, v, *weight = table.columns
    if kind == "string":
        u, v = compute.utf8_trim_whitespace(u), compute.utf8_trim_whitespace(v)
    elif not _are_ids(u, v):
        raise _NotPlainError
    values = weight[0].to_numpy() if weight else None
    if values is not None and values.size and not (values.min() >= 0 and values.max() < np.inf):
        raise _NotPlainError
    return u, v, values


def _are_ids(*columns: Any) -> bool:
    """Whether integers can be ids as they are."""
    from pyarrow import compute

    ranges = [compute.min_max(column).as_py() for column in columns if len(column)]
    return all(each["min"] >= 0 and each["max"] < _LARGEST_ID for each in ranges)


def _written_differently(data: bytes, delimiter: str) -> bool:
    """Whether a number has a leading zero or plus: then ids are text, since 01 and 1 are two of them."""
    symbols = np.frombuffer(b"\n" + data + b"\n", dtype=np.uint8)
    before, here, after = symbols[:-2], symbols[1:-1], symbols[2:]
    odd = (here == ord("+")) | ((here == ord("0")) & (after >= ord("0")) & (after <= ord("9")))
    return bool(np.isin(before[odd], np.frombuffer(b"\n \t" + delimiter.encode(), np.uint8)).any())


# ---------------------------------------------------------------------- Parquet and NumPy


def read_parquet_edges(
    path: str, options: ReadOptions, progress: ReadProgress | None = None
) -> tuple[EdgeTable, list[Note]]:
    """The edges of a Parquet file, one per row, and what was understood."""
    parquet = require("pyarrow.parquet", "tables", "reading Parquet files")
    import pyarrow
    from pyarrow import compute, types

    label = options.label
    try:
        file = parquet.ParquetFile(path)
        total, schema = file.metadata.num_rows, file.schema_arrow
        head = next(file.iter_batches(batch_size=1000), None)
    except (pyarrow.ArrowException, OSError) as error:
        raise FileFormatError(f"{label} cannot be read as a Parquet file: {reason_of(error)}.") from None
    if head is None or not total:
        raise FileFormatError(f"{label} has no edges.")
    rows = [[str(value) for value in row] for row in zip(*(c.to_pylist() for c in head.columns), strict=True)]
    asked = options.source, options.target, options.weight, options.weighted
    with errors_of_files():
        columns = choose_edge_columns([str(name) for name in schema.names], label, *asked, rows)
    places = [columns.source, columns.target, *([] if columns.weight is None else [columns.weight])]
    titles = [schema.names[i] for i in places]
    for title, place in zip(titles[:2], places, strict=False):
        kind = schema.field(place).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
            raise FileFormatError(
                f"{label}: column {title!r} holds {kind}, which is no id of a node; store ids as integers or text."
            )
    integers = all(types.is_integer(schema.field(place).type) for place in places[:2])
    repeated = len(set(schema.names)) < len(schema.names)  # then columns can only be known by their places

    def blocks() -> Iterator[tuple[Any, Any, np.ndarray | None]]:
        read = 0
        for batch in file.iter_batches(batch_size=_ROWS, columns=None if repeated else titles):
            block = pyarrow.Table.from_batches([batch]).select(places if repeated else titles)
            for i, (title, column) in enumerate(zip(titles, block.columns, strict=True)):
                empty = column.is_null()
                if i < 2 and not types.is_integer(column.type):
                    names = column.cast("string").fill_null("")
                    empty = compute.equal(compute.utf8_trim_whitespace(names), "")
                if compute.any(empty).as_py():
                    row = read + int(np.flatnonzero(empty.to_numpy())[0])
                    raise FileFormatError(
                        f"{label}, row {row}: column {title!r} is empty; fill or drop that row."
                    )
            u, v, *weight = block.columns
            if integers and not _are_ids(u, v):
                raise FileFormatError(f"{label}: ids must lie between 0 and 10^18; store others as text.")
            try:
                values = weight[0].cast("float64").to_numpy() if weight else None
            except pyarrow.ArrowException:
                said = f"column {titles[2]!r} holds {weight[0].type}, not numbers; name another column of weights."
                raise FileFormatError(f"{label}: {said}") from None
            yield u, v, values
            read += batch.num_rows
            if progress is not None:
                progress(read, total)

    table = _edge_table(blocks())
    assert table is not None
    return replace(table, titles=columns.titles), [
        Note("format", f"{label}: Parquet file", format="parquet"),
        columns.note(),
    ]


def read_npy_edges(path: str, options: ReadOptions) -> tuple[EdgeTable, list[Note]]:
    """The edges of a NumPy array [2, E] or [E, 2] of integer ids."""
    try:
        source, target = check_edge_index(np.lib.format.open_memmap(path, mode="r"))
    except Exception as error:  # a damaged header fails in many ways
        raise FileFormatError(f"{options.label} cannot be read as edges: {reason_of(error)}.") from None
    if not source.size:
        raise FileFormatError(f"{options.label} has no edges.")
    ends = np.stack([source, target], axis=1).astype(np.int64, copy=False)
    return EdgeTable(ends, None, None), [
        Note("format", f"{options.label}: NumPy array of edges", format="npy")
    ]
