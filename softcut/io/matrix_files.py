"""Adjacency matrices: Matrix Market, and archives of NumPy and scipy."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from softcut.errors import Argument, FileFormatError, Note
from softcut.graph import Graph
from softcut.io.options import ReadOptions
from softcut.io.text_files import (
    check_archive_size,
    decode_text,
    plain_text_bytes,
    reason_of,
)
from softcut.tables.arrays import listed, shown
from softcut.tables.columns import is_number

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_COMMENT_LINE = re.compile(rb"^[ \t]*[#%].*$\n?", re.MULTILINE)
_MTX_SIZES = re.compile(rb"^[ \t]*[^%\s].*$", re.MULTILINE)  # the first line that is no comment

# More nodes than this, with hardly an edge among them, is a damaged file rather than a graph.
_MANY_NODES = 10_000_000


def read_mtx(data: bytes, options: ReadOptions) -> Graph:
    """Matrix Market. Read here, not by scipy.io.mmread, which can crash on a damaged file."""
    label = options.label
    data = plain_text_bytes(data)
    decode_text(data, label)
    banner = data.split(b"\n", 1)[0].decode("utf-8").lower().split()
    if not banner or banner[0] != "%%matrixmarket":
        raise FileFormatError(f"{label}, line 1: a Matrix Market file starts with '%%MatrixMarket'.")
    layout, field, symmetry = banner[2:5] if len(banner) == 5 and banner[1] == "matrix" else ("", "", "")
    pattern = field == "pattern"
    if (
        layout not in ("coordinate", "array")
        or field not in ("real", "double", "integer", "pattern")
        or symmetry not in ("general", "symmetric")
        or (pattern and layout == "array")
    ):
        raise FileFormatError(
            f"{label}, line 1: expected '%%MatrixMarket matrix', then coordinate or array, then real, integer or "
            f"pattern, then general or symmetric; found {shown(' '.join(banner))}."
        )
    line = _MTX_SIZES.search(data)
    sizes = [int(f) if _INTEGER.fullmatch(f) else -1 for f in line[0].decode("utf-8").split()] if line else []
    end = line.end() if line else len(data)
    start = data.count(b"\n", 0, end)
    body = data[end + 1 :]
    if len(sizes) != (3 if layout == "coordinate" else 2) or min(sizes) < 0:
        raise FileFormatError(f"{label}, line {start + 1}: expected the sizes of the matrix.")
    rows, columns = sizes[:2]
    if layout == "coordinate":
        entries = sizes[2]
        titles = ["row", "column"] if pattern else ["row", "column", "value"]
    else:
        entries = rows * (rows + 1) // 2 if symmetry == "symmetric" else rows * columns
        titles = ["value"]
    if entries > len(body):  # before any memory is asked for
        raise FileFormatError(f"{label}, line {start + 1}: {entries} entries announced in a smaller file.")
    check_plausible(max(rows, columns), entries, label)
    if rows != columns:
        raise FileFormatError(f"{label}: a {rows} x {columns} matrix is not the adjacency matrix of a graph.")
    dtype = [(title, "<f8" if title == "value" else "<i8") for title in titles]
    table = _entries(body, dtype) if entries else np.zeros(0, dtype)
    if table is None:
        _raise_first_bad_entry(body, start + 2, titles, label)
    if table.size != entries:
        raise FileFormatError(f"{label}: {entries} entries announced, {table.size} found.")
    if layout == "coordinate":
        u, v = table["row"] - 1, table["column"] - 1
    elif symmetry == "symmetric":
        v, u = np.triu_indices(rows)  # the lower triangle column by column is the upper row by row
    else:
        v, u = np.divmod(np.arange(entries), rows)
    outside = (u < 0) | (v < 0) | (u >= rows) | (v >= rows)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise FileFormatError(
            f"{label}: entry {at + 1} is in row {u[at] + 1}, column {v[at] + 1}, outside the {rows} x {rows} matrix."
        )
    # Entries without values are there or not: repeated ones are merged, not added up.
    values = np.ones(entries, dtype=bool) if pattern else table["value"]
    if symmetry == "symmetric":
        off = u != v
        u, v = np.concatenate([u, v[off]]), np.concatenate([v, u[off]])
        values = np.concatenate([values, values[off]])
    kind = "Matrix Market" if layout == "coordinate" else "Matrix Market, dense"
    return _from_matrix(sp.coo_array((values, (u, v)), shape=(rows, rows)), options, kind)


def check_plausible(nodes: int, edges: int, label: str) -> None:
    """Refuse a number of nodes that only a damaged file can announce."""
    if nodes > max(_MANY_NODES, 100 * edges):
        raise FileFormatError(
            f"{label} announces {nodes} nodes but has only {edges} entries: the file is damaged, or its "
            "nodes need to be numbered 0 to N-1."
        )


def _entries(body: bytes, fields: list[tuple[str, str]]) -> np.ndarray | None:
    """Rows of numbers; None where a line is not of this kind."""
    try:
        with warnings.catch_warnings():
            # "1.5" read as the integer 1 is only a warning; here it means: not an integer.
            warnings.simplefilter("error")
            return np.loadtxt(
                io.BytesIO(_COMMENT_LINE.sub(b"", body)), dtype=np.dtype(fields), comments=None, ndmin=1
            )
    except Exception:  # whatever it was, the line is found below
        return None


def _raise_first_bad_entry(body: bytes, first: int, titles: Sequence[str], label: str) -> NoReturn:
    for number, line in enumerate(body.decode("utf-8").split("\n"), first):
        fields = line.split()
        if not fields or fields[0].startswith("%"):
            continue
        whole = [_INTEGER.fullmatch(f) for f, title in zip(fields, titles, strict=False) if title != "value"]
        if len(fields) != len(titles) or not all(whole) or not is_number(fields[-1]):
            raise FileFormatError(
                f"{label}, line {number}: expected {', '.join(titles)}, found {shown(line)}."
            )
    raise FileFormatError(f"{label} has entries that cannot be read as numbers.")


def _from_matrix(matrix: Any, options: ReadOptions, kind: str) -> Graph:
    """A graph of a sparse adjacency matrix."""
    said = [Note("format", f"{options.label}: {kind}", format=kind)]
    graph = Graph.from_scipy(
        matrix, self_loops=options.self_loops, name=options.name, directed=options.directed, notes=said
    )
    if options.weighted is False and graph.weighted:
        binary = graph.adjacency.copy()
        binary.data[:] = 1.0
        return Graph(
            binary, name=options.name, notes=[*graph.notes, Note("weights_ignored", "weights ignored")]
        )
    if options.weighted is True and not graph.weighted:
        raise FileFormatError(f"{options.label}: ", Argument("weighted", True), " but every weight is 1.")
    said_of_weights = "values are weights" if graph.weighted else "no weights"
    return graph.with_notes(Note("weights", said_of_weights, weighted=graph.weighted))


def read_npz(data: bytes, options: ReadOptions) -> Graph:
    """A sparse matrix of scipy, or the arrays ``edges`` and ``num_nodes``."""
    label = options.label
    arrays = load_archive(data, label, options.max_bytes)
    if sp.issparse(arrays):
        return _from_matrix(arrays, options, "sparse matrix of scipy")
    edges = arrays.get("edges", arrays.get("edge_index"))
    if edges is None:
        raise FileFormatError(
            f"{label} holds {', '.join(map(repr, arrays)) or 'nothing'}: expected a matrix of "
            "scipy.sparse.save_npz, or the arrays 'edges' and 'num_nodes'."
        )
    num_nodes: int | None = None
    if "num_nodes" in arrays:
        declared = arrays["num_nodes"]
        if declared.size != 1 or declared.dtype.kind not in "iu":
            raise FileFormatError(f"{label}: 'num_nodes' must be one integer.")
        num_nodes = int(declared.ravel()[0])
        check_plausible(num_nodes, edges.size, label)
    weight = arrays.get("edge_weight", arrays.get("weight"))
    if options.weighted is True and weight is None:
        raise FileFormatError(
            f"{label}: ", Argument("weighted", True), " but there is no array 'edge_weight'."
        )
    taken = ("edges" if "edges" in arrays else "edge_index", "num_nodes", "x", "y")
    weights = "edge_weight" if "edge_weight" in arrays else "weight"
    used = [key for key in arrays if key in taken or (key == weights and options.weighted is not False)]
    ignored = [key for key in arrays if key not in used]
    more = f", ignored {listed(ignored)}" if ignored else ""
    return Graph.from_edges(
        edges,
        x=arrays.get("x"),
        edge_weight=None if options.weighted is False else weight,
        weighted=options.weighted is not False,
        num_nodes=num_nodes,
        self_loops=options.self_loops,
        y=arrays.get("y"),
        directed=options.directed,
        name=options.name,
        notes=[Note("format", f"{label}: arrays {listed(used)}", more, format="npz", ignored=ignored)],
    )


def load_archive(data: bytes, label: str, max_bytes: int | None = None) -> Any:
    """A scipy sparse matrix, or a dictionary of all arrays, of an .npz archive; never with pickle."""
    try:
        if data[:2] == b"PK":
            check_archive_size(data, label, max_bytes)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array, name it .npy")
            if "format" not in archive.files:
                return {key: np.asarray(archive[key]) for key in archive.files}
        matrix = sp.load_npz(io.BytesIO(data))
        if matrix.ndim != 2:
            raise ValueError(f"it has {matrix.ndim} dimensions")
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # a wrong index must not reach compiled code
        check_plausible(max(matrix.shape), matrix.nnz, label)
        return matrix if matrix.format in ("csr", "csc", "coo") else matrix.tocoo()
    except FileFormatError:
        raise
    except Exception as error:  # zipfile, zlib, struct, numpy and scipy each have their own
        raise FileFormatError(f"{label} is not a valid .npz file: {reason_of(error)}.") from None
