"""Large edge lists: text, Parquet and NumPy files read block by block.

The memory is that of the edges, not of the text. A text file is read as :mod:`softcut.io.edge_lists` would read it:
what its columns hold is found from its head by the same function, and a file with anything unusual in it (quotes,
comments between the rows, mistakes) is left to that reader, which names the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from softcut.errors import DependencyError, FileFormatError, GraphError, require
from softcut.io.edge_lists import Layout, understand, written_differently
from softcut.io.text_files import ReadOptions, plain_text_bytes, reason_of
from softcut.tables.edge_columns import EdgeColumns, EdgeTable, choose_edge_columns, whole_numbers

__all__ = ["LARGE", "ReadProgress", "read_large_edge_list", "read_npy_edges", "read_parquet_edges"]

# Text files of more bytes than this are read block by block.
LARGE = 64 * 2**20
# Bytes of text, and rows of a Parquet file, that are held at a time.
_BLOCK = 32 * 2**20
_ROWS = 1 << 20
# Bytes that one thread parses.
_PIECE = 1 << 20
# The layout is found from so many bytes; those it looks at are fewer.
_HEAD = 4 * 2**20
# Quotes, comments, what is no text, and what is white space to Python but part of a name to Arrow.
_UNUSUAL = [bytes([sign]) for sign in b'"#%\0\x0b\x0c\x1c\x1d\x1e\x1f']
_LEADING = re.compile(rb"(?:[ \t]*(?:[#%][^\n]*)?\n)*")
_LARGEST_ID = 10**18

# Called with the bytes (of a Parquet file: rows) that were read, and how many there are.
ReadProgress = Callable[[int, int], None]


class _NotPlain(Exception):
    """The file holds something that only the reader of small files understands."""


class _NotIntegers(Exception):
    """Ids are text."""


def read_large_edge_list(
    path: str, options: ReadOptions, progress: ReadProgress | None = None
) -> tuple[EdgeTable, list[str]] | None:
    """The edges of a text file, and in words what was understood; None where it takes the other reader.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = file.write(b"source,target\\n0,1\\n1,2\\n")
    ...     file.flush()
    ...     edges, notes = read_large_edge_list(file.name, ReadOptions("g.csv", "g"))
    >>> edges.ends.tolist(), notes[1]
    ([[0, 1], [1, 2]], "source 'source', target 'target', no weight")

    Parameters
    ----------
    path : str
        A file that is not compressed.
    options : ReadOptions
        As for :func:`softcut.io.edge_lists.read_edge_list`.
    progress : callable, optional
        Called after every block with the bytes read and the size of the file.
    """
    try:
        require("pyarrow.csv", "tables", "reading large files")
    except DependencyError:
        return None
    try:
        with open(path, "rb") as stream:
            head = stream.read(_HEAD)
        whole = len(head) == os.path.getsize(path)
        layout, notes, delimiter = _layout(head if whole else head[: head.rfind(b"\n") + 1], options)
        for parse in (_integers, _texts):
            try:
                return parse(path, layout, delimiter, progress), notes
            except _NotIntegers:
                continue
    except (_NotPlain, OSError):
        pass
    return None


def _layout(head: bytes, options: ReadOptions) -> tuple[Layout, list[str], str]:
    """Which columns hold what; only where all of the file would be understood like its head."""
    data = plain_text_bytes(head)
    if options.comments is not None or not data.strip() or data.startswith(b"\x1f\x8b"):
        raise _NotPlain
    begin = _LEADING.match(data)
    assert begin is not None
    _check(data[begin.end() :])
    if begin.end() >= len(data):
        raise _NotPlain
    table, layout, notes = understand(data, options)
    # Two names that may be titles: whether they occur again takes all of the text.
    doubt = any("occur on no other line" in note for note in layout.notes)
    if layout.dicts or doubt or table.quoted or table.comments != "#%" or not table.delimiter.isascii():
        raise _NotPlain
    return layout, notes, table.delimiter


def _check(block: bytes) -> None:
    if any(sign in block for sign in _UNUSUAL):
        raise _NotPlain
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            raise _NotPlain from None


def _blocks(path: str, layout: Layout, delimiter: str, progress: ReadProgress | None) -> Iterator[bytes]:
    """Rows of the file, a few millions at a time: whole lines, without header and what stands before it."""
    size, skip, rest = os.path.getsize(path), layout.first_line - 1, b""
    with open(path, "rb") as stream:
        first = True
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
            _check(block)
            if delimiter == " ":
                uneven = b"  " in block or b"\t" in block or b" \n" in block or b"\n " in block
                if uneven or not block.isascii() or block[:1] == b" " or block[-1:] == b" ":
                    raise _NotPlain
            if block and not block.isspace():
                yield block
            if progress is not None:
                progress(stream.tell(), size)


def _parsed(block: bytes, layout: Layout, delimiter: str, kind: str) -> Any:
    """The columns u, v and perhaps w of a block, as an Arrow table."""
    import pyarrow
    from pyarrow import csv

    columns = layout.columns
    names = [f"column {i}" for i in range(layout.count)]
    used = {names[columns.source]: kind, names[columns.target]: kind}
    if columns.weight is not None:
        used[names[columns.weight]] = "float64"
    try:
        table = csv.read_csv(
            pyarrow.BufferReader(block),
            read_options=csv.ReadOptions(column_names=names, block_size=_PIECE),
            parse_options=csv.ParseOptions(delimiter=delimiter, quote_char=False, ignore_empty_lines=True),
            convert_options=csv.ConvertOptions(
                column_types=used,
                include_columns=list(used),
                null_values=[],
                strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowException:
        raise (_NotIntegers if kind == "int64" else _NotPlain) from None
    return table.rename_columns(["u", "v", "w"][: len(used)])


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


def _weights(table: Any) -> np.ndarray:
    weight = table.column("w").to_numpy()
    if weight.size and not (weight.min() >= 0 and weight.max() < np.inf):
        raise _NotPlain
    return weight


def _integers(path: str, layout: Layout, delimiter: str, progress: ReadProgress | None) -> EdgeTable:
    ends, weights = _Growing(2, np.int64), _Growing(1, np.float64)
    size, read = os.path.getsize(path), 0
    for block in _blocks(path, layout, delimiter, progress):
        # "01" and "1" are two ids, and Arrow reads "0x1" as a number.
        if written_differently(block, delimiter) or b"0x" in block or b"0X" in block:
            raise _NotIntegers
        table = _parsed(block, layout, delimiter, "int64")
        u, v = (table.column(name).to_numpy() for name in ("u", "v"))
        if u.size and (min(u.min(), v.min()) < 0 or max(u.max(), v.max()) >= _LARGEST_ID):
            raise _NotIntegers
        read += len(block)
        expected = 1.02 * (ends.length + len(u)) * size / read
        ends.add([u, v], expected)
        if layout.columns.weight is not None:
            weights.add([_weights(table)], expected)
    if not ends.length:
        raise _NotPlain
    weighted = layout.columns.weight is not None
    return EdgeTable(ends.rows(), None, weights.rows()[:, 0] if weighted else None)


def _texts(path: str, layout: Layout, delimiter: str, progress: ReadProgress | None) -> EdgeTable:
    from pyarrow import compute

    names, weights = _Names(), _Growing(1, np.float64)
    for block in _blocks(path, layout, delimiter, progress):
        table = _parsed(block, layout, delimiter, "string")
        u, v = (compute.utf8_trim_whitespace(table.column(name)) for name in ("u", "v"))
        names.add(u, v)
        if layout.columns.weight is not None:
            weights.add([_weights(table)], weights.length + 2 * table.num_rows)
    ends, known = names.finish()
    if not len(ends) or "" in known:
        raise _NotPlain
    weighted = layout.columns.weight is not None
    return whole_numbers(EdgeTable(ends, known, weights.rows()[:, 0] if weighted else None))


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
) -> tuple[EdgeTable, list[str]]:
    """The edges of a Parquet file, one per row, and in words what was understood.

    >>> import tempfile, pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"source": ["a", "b"], "target": ["b", "c"]}).to_parquet(folder + "/g.parquet")
    ...     read_parquet_edges(folder + "/g.parquet", ReadOptions("g.parquet", "g"))[0].names
    ['a', 'b', 'c']
    """
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
        raise FileFormatError(str(error)) from None
    edges = _parquet_edges(file, titles, columns, total, options.label, progress)
    return edges, [f"{options.label}: Parquet file", columns.sentence()]


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
    weight = None if columns.weight is None else weights.rows()[:, 0]
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


def read_npy_edges(path: str, options: ReadOptions) -> tuple[EdgeTable, list[str]]:
    """The edges of a NumPy array [2, E] or [E, 2] of integer ids.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/g.npy", np.array([[0, 1], [1, 2], [2, 3]]))
    ...     read_npy_edges(folder + "/g.npy", ReadOptions("g.npy", "g"))[0].ends.tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
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
    return EdgeTable(ends, None, None), [f"{options.label}: NumPy array of edges"]
