"""Edge lists as plain text, Parquet and NumPy files, read block by block: the memory is that of the edges.

What the columns of a text file hold is found from its head by the same function that :mod:`softcut.io.edge_lists`
uses; a file with anything unusual in it is left to that reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from softcut.errors import FileFormatError, GraphError, Note, require
from softcut.io.edge_lists import Layout, understand
from softcut.io.options import ReadOptions
from softcut.io.plain_text import NotPlainError, check_plain, read_columns
from softcut.io.text_files import plain_text_bytes, reason_of
from softcut.tables.edge_columns import EdgeColumns, EdgeTable, choose_edge_columns, whole_numbers

__all__ = ["ReadProgress", "read_npy_edges", "read_parquet_edges", "read_plain_edges"]

# Bytes of text, and rows of a Parquet file, that are held at a time.
_BLOCK = 32 * 2**20
_ROWS = 1 << 20
# The layout is found from so many bytes; those it looks at are fewer.
_HEAD = 4 * 2**20
_LEADING = re.compile(rb"(?:[ \t]*(?:[#%][^\n]*)?\n)*")
_LARGEST_ID = 10**18

# Called with the bytes (of a Parquet file: rows) that were read, and how many there are.
ReadProgress = Callable[[int, int], None]


class _NotIntegersError(Exception):
    """Ids are text."""


def read_plain_edges(
    stream: IO[bytes], size: int, options: ReadOptions, progress: ReadProgress | None = None
) -> tuple[EdgeTable, list[Note]] | None:
    """The edges of a plain text, and what was understood; None for a text that takes the row-by-row reader.

    `size` is the number of bytes of `stream`; `progress` is called after every block.
    """
    head = stream.read(_HEAD)
    try:
        layout, notes, delimiter = _layout(
            head if len(head) == size else head[: head.rfind(b"\n") + 1], options
        )
        for parse in (_integers, _texts):
            stream.seek(0)
            try:
                return parse(
                    _blocks(stream, size, layout, delimiter, progress), layout, delimiter, size
                ), notes
            except _NotIntegersError:
                continue
    except NotPlainError:
        pass
    return None


def _layout(head: bytes, options: ReadOptions) -> tuple[Layout, list[Note], str]:
    """Which columns hold what; only where all of the file would be understood like its head."""
    data = plain_text_bytes(head)
    if options.comments is not None or not data.strip() or data.startswith(b"\x1f\x8b"):
        raise NotPlainError
    begin = _LEADING.match(data)
    assert begin is not None
    check_plain(data[begin.end() :])
    if begin.end() >= len(data):
        raise NotPlainError
    table, layout, notes = understand(data, options)
    if layout.dicts or layout.in_doubt or table.quoted or table.comments != "#%":
        raise NotPlainError
    if not table.delimiter.isascii():
        raise NotPlainError
    return layout, notes, table.delimiter


def _blocks(
    stream: IO[bytes], size: int, layout: Layout, delimiter: str, progress: ReadProgress | None
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
        check_plain(block, delimiter)
        if block and not block.isspace():
            yield block
        if progress is not None:
            progress(stream.tell(), size)


def _columns(block: bytes, layout: Layout, delimiter: str, kind: str) -> tuple[Any, Any, np.ndarray | None]:
    """Source, target and perhaps weight of the rows of a block."""
    columns = layout.columns
    types = {columns.source: kind, columns.target: kind}
    if columns.weight is None:
        return *read_columns(block, delimiter, layout.count, types), None
    u, v, weight = read_columns(block, delimiter, layout.count, {**types, columns.weight: "float64"})
    values = weight.to_numpy()
    if values.size and not (values.min() >= 0 and values.max() < np.inf):
        raise NotPlainError
    return u, v, values


def _integers(blocks: Iterator[bytes], layout: Layout, delimiter: str, size: int) -> EdgeTable:
    ends, weights, read = _Growing(2, np.int64), _Growing(1, np.float64), 0
    for block in blocks:
        # "01" and "1" are two ids, and Arrow reads "0x1" as a number.
        if _written_differently(block, delimiter) or b"0x" in block or b"0X" in block:
            raise _NotIntegersError
        try:
            u, v, weight = _columns(block, layout, delimiter, "int64")
        except NotPlainError:
            raise _NotIntegersError from None
        u, v = u.to_numpy(), v.to_numpy()
        if u.size and (min(u.min(), v.min()) < 0 or max(u.max(), v.max()) >= _LARGEST_ID):
            raise _NotIntegersError
        read += len(block)
        expected = 1.02 * (ends.length + len(u)) * size / read
        ends.add([u, v], expected)
        if weight is not None:
            weights.add([weight], expected)
    if not ends.length:
        raise NotPlainError
    return EdgeTable(ends.rows(), None, weights.column(layout.columns.weight))


def _written_differently(data: bytes, delimiter: str) -> bool:
    """Whether a number has a leading zero or plus: then ids are text, since 01 and 1 are two of them."""
    symbols = np.frombuffer(data, dtype=np.uint8)
    separators = [10, 32, 9, ord(delimiter) % 256]

    def begins(places: np.ndarray) -> np.ndarray:
        return (places == 0) | np.isin(symbols[places - 1], separators)

    zeros = np.flatnonzero(symbols[:-1] == 48)
    after = symbols[zeros + 1]
    if bool(begins(zeros[(after >= 48) & (after <= 57)]).any()):
        return True
    return b"+" in data and bool(begins(np.flatnonzero(symbols == 43)).any())


def _texts(blocks: Iterator[bytes], layout: Layout, delimiter: str, size: int) -> EdgeTable:
    names, weights = _Names(), _Growing(1, np.float64)
    for block in blocks:
        u, v, weight = _columns(block, layout, delimiter, "string")
        names.add(u, v)
        if weight is not None:
            weights.add([weight], weights.length + 2 * len(weight))
    ends, known = names.finish()
    if not len(ends) or "" in known:
        raise NotPlainError
    return whole_numbers(EdgeTable(ends, known, weights.column(layout.columns.weight)))


class _Growing:
    """Rows of an array whose number shows only at the end."""

    def __init__(self, width: int, dtype: Any) -> None:
        self.data, self.length = np.empty((0, width), dtype=dtype), 0

    def add(self, columns: list[np.ndarray], expected: float) -> None:
        """Append rows; `expected` is how many there may be in the end."""
        end = self.length + len(columns[0])
        if end > len(self.data):
            larger = np.empty((max(end, int(expected)), self.data.shape[1]), dtype=self.data.dtype)
            larger[: self.length] = self.data[: self.length]
            self.data = larger
        for i, column in enumerate(columns):
            self.data[self.length : end, i] = column
        self.length = end

    def rows(self) -> np.ndarray:
        return self.data[: self.length]

    def column(self, wanted: int | None) -> np.ndarray | None:
        """The only column; None where none was wanted."""
        return None if wanted is None else self.rows()[:, 0]


class _Names:
    """Ids that are text, numbered in the order in which they are first mentioned."""

    def __init__(self) -> None:
        self.chunks: list[Any] = []

    def add(self, u: Any, v: Any) -> None:
        """The two ends of some edges."""
        import pyarrow

        both = pyarrow.concat_arrays([*u.chunks, *v.chunks])
        turns = np.arange(2 * len(u)).reshape(2, -1).T.ravel()  # u[0], v[0], u[1], v[1], ...
        self.chunks.append(both.take(pyarrow.array(turns)).dictionary_encode())

    def finish(self) -> tuple[np.ndarray, list[str]]:
        """Ends as positions in the list of names."""
        import pyarrow

        if not self.chunks:
            return np.empty((0, 2), dtype=np.int64), []
        chunks = pyarrow.chunked_array(self.chunks).unify_dictionaries().chunks
        ends = np.concatenate([chunk.indices.to_numpy() for chunk in chunks]).astype(np.int64)
        return ends.reshape(-1, 2), chunks[0].dictionary.to_pylist()


# ---------------------------------------------------------------------- Parquet and NumPy


def read_parquet_edges(
    path: str, options: ReadOptions, progress: ReadProgress | None = None
) -> tuple[EdgeTable, list[Note]]:
    """The edges of a Parquet file, one per row, and what was understood."""
    parquet = require("pyarrow.parquet", "tables", "reading Parquet files")
    import pyarrow

    try:
        file = parquet.ParquetFile(path)
        total = file.metadata.num_rows
        titles = [str(name) for name in file.schema_arrow.names]
        head = next(file.iter_batches(batch_size=1000), None)
    except (pyarrow.ArrowException, OSError) as error:
        raise FileFormatError(
            f"{options.label} cannot be read as a Parquet file: {reason_of(error)}."
        ) from None
    if head is None or not total:
        raise FileFormatError(f"{options.label} has no edges.")
    rows = [[str(value) for value in row.values()] for row in head.to_pylist()]
    try:
        columns = choose_edge_columns(
            titles, options.label, options.source, options.target, options.weight, options.weighted, rows
        )
    except GraphError as error:
        raise FileFormatError(error.sentence) from None
    edges = _parquet_edges(file, titles, columns, total, options.label, progress)
    return edges, [Note("format", f"{options.label}: Parquet file", format="parquet"), columns.note()]


def _parquet_edges(
    file: Any, titles: list[str], columns: EdgeColumns, total: int, label: str, progress: ReadProgress | None
) -> EdgeTable:
    import pyarrow
    from pyarrow import types

    used = [columns.source, columns.target] + ([] if columns.weight is None else [columns.weight])
    kinds = [file.schema_arrow.field(i).type for i in used]
    integers = all(types.is_integer(kind) for kind in kinds[:2])
    for i, kind in zip(used[:2], kinds[:2], strict=True):
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)):
            raise FileFormatError(
                f"{label}: column {titles[i]!r} holds {kind}, which is no id of a node; store ids as integers or text."
            )
    ends, weights, names, read = _Growing(2, np.int64), _Growing(1, np.float64), _Names(), 0
    for batch in file.iter_batches(batch_size=_ROWS, columns=[titles[i] for i in used]):
        parts = [batch.column(titles[i]) for i in used]
        for i, part in zip(used, parts, strict=True):
            if part.null_count:
                at = read + int(np.flatnonzero(part.is_null().to_numpy(zero_copy_only=False))[0])
                raise FileFormatError(
                    f"{label}, row {at}: column {titles[i]!r} is empty; fill or drop that row."
                )
        if integers:
            pair = [part.to_numpy(zero_copy_only=False) for part in parts[:2]]
            if max(int(column.max(initial=0)) for column in pair) >= _LARGEST_ID or (
                min(int(column.min(initial=0)) for column in pair) < 0
            ):
                raise FileFormatError(f"{label}: ids must lie between 0 and 10^18; store others as text.")
            ends.add(pair, total)
        else:
            names.add(*(pyarrow.chunked_array([part.cast("string")]) for part in parts[:2]))
        if columns.weight is not None:
            weights.add([_checked_weight(parts[2], read, titles[used[2]], label)], total)
        read += batch.num_rows
        if progress is not None:
            progress(read, total)
    weight = weights.column(columns.weight)
    if integers:
        return EdgeTable(ends.rows(), None, weight)
    pairs, known = names.finish()
    return whole_numbers(EdgeTable(pairs, known, weight))


def _checked_weight(part: Any, read: int, title: str, label: str) -> np.ndarray:
    try:
        weight = part.cast("float64").to_numpy()
    except Exception:
        raise FileFormatError(
            f"{label}: column {title!r} holds {part.type}, not numbers; name another column of weights."
        ) from None
    wrong = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    if wrong.size:
        at = int(wrong[0])
        raise FileFormatError(
            f"{label}, row {read + at}: the weight {weight[at]:g} is not a non-negative, finite number."
        )
    return weight


def read_npy_edges(path: str, options: ReadOptions) -> tuple[EdgeTable, list[Note]]:
    """The edges of a NumPy array [2, E] or [E, 2] of integer ids."""
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # a damaged header fails in many ways
        raise FileFormatError(
            f"{options.label} cannot be read as a NumPy array: {reason_of(error)}."
        ) from None
    if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
        raise FileFormatError(
            f"{options.label} holds {array.dtype} of shape {list(array.shape)}: save integers of shape [2, E] or "
            "[E, 2]."
        )
    ends = np.array(array.T if array.shape[0] == 2 else array, dtype=np.int64)
    if not len(ends):
        raise FileFormatError(f"{options.label} has no edges.")
    if ends.min() < 0:
        raise FileFormatError(f"{options.label} has the id {ends.min()}: ids must not be negative.")
    return EdgeTable(ends, None, None), [
        Note("format", f"{options.label}: NumPy array of edges", format="npy")
    ]
