"""Graphs and node features from files: edge lists, GraphML, GML, Matrix Market, NumPy and scipy archives.

Every failure is a :class:`~softcut.errors.SoftcutError` whose sentence names the file and, in text, the line.
Nothing in a file is ever executed: archives are opened without pickle, attributes are parsed, not evaluated.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import scipy.sparse as sp

from softcut.errors import FileFormatError, GraphError, ParameterError, SoftcutError, require
from softcut.graph import Graph, SelfLoops

__all__ = ["read_features", "read_graph"]

_GRAPH_FORMATS = {
    ".csv": "edges",
    ".tsv": "edges",
    ".txt": "edges",
    ".edges": "edges",
    ".edgelist": "edges",
    ".graphml": "graphml",
    ".gml": "gml",
    ".mtx": "mtx",
    ".npz": "npz",
}
_FEATURE_FORMATS = {".csv": "text", ".tsv": "text", ".txt": "text", ".npy": "npy", ".npz": "npz"}

# Pairs of headers that mean "the two ends of an edge".
_END_NAMES = [
    ("source", "target"),
    ("src", "dst"),
    ("from", "to"),
    ("u", "v"),
    ("i", "j"),
    ("source_id", "target_id"),
    ("sourceid", "targetid"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("id1", "id2"),
    ("id_1", "id_2"),
    ("from_node", "to_node"),
    ("fromnodeid", "tonodeid"),
    ("head", "tail"),
    ("start", "end"),
]
_WEIGHT_NAMES = ("weight", "weights", "edge_weight", "w", "value", "similarity", "strength")
_ID_NAMES = {"", "id", "ids", "node", "nodes", "node_id", "nodeid", "node_name", "name", "vertex", "index"}

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_MTX_SIZES = re.compile(rb"^[ \t]*[^%\s].*$", re.MULTILINE)  # the first line that is no comment
_COMMENT_LINE = re.compile(rb"^[ \t]*[#%].*$\n?", re.MULTILINE)
# networkx writes "0 1 {'weight': 2.0}" by default; only the number is taken, nothing is evaluated.
_DICT_TAIL = re.compile(r"^(.*?)\s*\{(.*)\}$")
_DICT_WEIGHT = re.compile(r"['\"]weight['\"]\s*:\s*([-+0-9.eE]+)")

# More nodes than this, with hardly an edge among them, is a damaged file rather than a graph.
_MANY_NODES = 10_000_000
_FLOAT32_MAX = float(np.finfo(np.float32).max)


def read_graph(
    path: str | os.PathLike[str],
    features: Any = None,
    *,
    weighted: bool | Literal["auto"] = "auto",
    self_loops: SelfLoops = "drop",
    format: str | None = None,
    delimiter: str | None = None,
) -> Graph:
    """Read a graph, and optionally its node features, from files.

    >>> import pathlib, tempfile
    >>> from softcut.io.readers import read_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "friends.csv").write_text("source,target,weight\\nann,bob,2\\nbob,cy,1\\n")
    >>> _ = (folder / "x.csv").write_text("id,age\\nann,31\\ncy,28\\nbob,45\\n")
    >>> g = read_graph(folder / "friends.csv", features=folder / "x.csv")
    >>> g
    Graph('friends': 3 nodes, 2 edges, weighted, 1 feature, named nodes)
    >>> g.x.ravel().tolist(), g.node_names
    ([31.0, 45.0, 28.0], ['ann', 'bob', 'cy'])

    Parameters
    ----------
    path
        The file; its extension says what it is (add ``.gz`` to any but ``.npz``):

        - ``.csv .tsv .txt .edges .edgelist``: one edge a line, two ids and perhaps a weight. Comma, tab,
          semicolon or spaces, with or without a header; lines that start with ``#`` or ``%`` are comments.
          With more columns, a header must name source, target (and weight).
        - ``.graphml``, ``.gml``: read with networkx.
        - ``.mtx``: Matrix Market.
        - ``.npz``: a matrix of ``scipy.sparse.save_npz``; or the arrays ``edges`` (2 x E), ``num_nodes`` and
          perhaps ``edge_weight``, ``x``, ``y``.
    features
        Features of the nodes: a file (see :func:`read_features`), an array with one row per node, or
        ``"attributes"`` for the numeric node attributes of a GraphML or GML file. A file with ids is joined
        by id: every node of the graph needs a row, rows of other nodes add isolated nodes.
    weighted
        ``"auto"`` uses weights where the file has them, True insists on them, False ignores them.
    self_loops
        ``"drop"`` or ``"keep"``, see :meth:`softcut.graph.Graph.from_edges`.
    format
        ``"edges"``, ``"graphml"``, ``"gml"``, ``"mtx"`` or ``"npz"``, where the extension does not tell.
    delimiter
        Column separator of an edge list, for files where the guess is wrong (a space means any white space).

    Returns
    -------
    Graph
        Integer ids that fill 0 to N-1 (at least half of them occur), or that stay below the number of feature
        rows, are node indices; ids that fill 1 to N become nodes 0 to N-1 with the ids as names. All other
        ids are names, in the order in which the file mentions them.

    Raises
    ------
    FileFormatError, GraphError
        For anything that cannot be read, naming the file and the line.
    """
    if not (weighted == "auto" or isinstance(weighted, (bool, np.bool_))):
        raise ParameterError(f"weighted is {weighted!r}: choose 'auto', True or False.")
    if self_loops not in ("drop", "keep"):
        raise ParameterError(f"self_loops is {self_loops!r}: choose 'drop' or 'keep'.")
    kinds = sorted(set(_GRAPH_FORMATS.values()))
    if format is not None and format not in kinds:
        raise ParameterError(f"format is {format!r}: choose one of {', '.join(kinds)}.")
    separator = _check_delimiter(delimiter)
    label = _label(path)
    kind = format or _kind(path, _GRAPH_FORMATS, "graph")
    attributes = isinstance(features, str) and features == "attributes"
    if attributes and kind not in ("graphml", "gml"):
        raise ParameterError(
            "features='attributes' needs a GraphML or GML file: pass a features file instead."
        )
    data = _read_bytes(path)
    table = None if features is None or attributes else _features_from(features)
    options = _Options(label, weighted, self_loops, attributes, _stem(path))
    try:
        if kind == "edges":
            return _read_edge_list(data, separator, table, options)
        reader: Callable[[bytes, _Options], Graph] = {
            "graphml": _read_graphml,
            "gml": _read_gml,
            "mtx": _read_mtx,
            "npz": _read_npz,
        }[kind]
        graph = reader(data, options)
        return graph if table is None else _attach(graph, table, options)
    except GraphError as error:  # the graph's own checks do not know which file they look at
        raise GraphError(f"{label}: {error}") from None


def read_features(
    path: str | os.PathLike[str], node_names: Sequence[str] | None = None
) -> np.ndarray | sp.csr_array:
    """Read node features, one row per node, as float32.

    >>> import pathlib, tempfile
    >>> from softcut.io.readers import read_features
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = file.write_text("id,height,width\\nb,1,2\\na,3,4\\n")
    >>> read_features(file, node_names=["a", "b"])
    array([[3., 4.],
           [1., 2.]], dtype=float32)

    Parameters
    ----------
    path
        ``.csv``, ``.tsv`` or ``.txt`` (also ``.gz``): numbers, perhaps with a header, perhaps with node ids
        in the first column (recognised when they are not numbers, or by a header such as ``id`` or ``node``);
        ``.npy``: one dense array; ``.npz``: one dense array, or a matrix of ``scipy.sparse.save_npz``, which
        stays sparse.
    node_names
        Return the rows of these nodes, in this order. A file without ids must then have one row for each.
    """
    table = _features_from(path)
    if node_names is None:
        return table.x
    names = [str(name) for name in node_names]
    if table.ids is None:
        if table.x.shape[0] != len(names):
            raise FileFormatError(
                f"{table.label} has {table.x.shape[0]} rows but there are {len(names)} nodes: "
                "give one row per node, or node ids in the first column."
            )
        return table.x
    position = {name: i for i, name in enumerate(table.ids)}
    missing = [name for name in names if name not in position]
    if missing:
        _raise_missing(table.label, missing)
    return table.x[[position[name] for name in names]]


# ---------------------------------------------------------------------- files


@dataclass(frozen=True)
class _Options:
    """What read_graph was asked for, handed to the reader of each format."""

    label: str
    weighted: bool | str
    self_loops: SelfLoops
    attributes: bool
    name: str


@dataclass(frozen=True)
class _Features:
    """Features as read: one id per row where the file has ids."""

    label: str
    x: Any
    ids: list[str] | None = None


def _label(path: Any) -> str:
    try:
        return os.fspath(path) if isinstance(os.fspath(path), str) else os.fsdecode(path)
    except TypeError:
        raise ParameterError(f"path is a {type(path).__name__}: pass the name of a file.") from None


def _suffixes(path: Any) -> tuple[str, str]:
    """File name without and the last extension (lower case), ``.gz`` left out."""
    name = Path(_label(path)).name
    if name.lower().endswith(".gz"):
        name = name[:-3]
    stem, suffix = os.path.splitext(name)
    return stem, suffix.lower()


def _stem(path: Any) -> str:
    return _suffixes(path)[0]


def _kind(path: Any, known: dict[str, str], what: str) -> str:
    suffix = _suffixes(path)[1]
    if os.path.isdir(path):
        raise FileFormatError(f"{_label(path)} is a folder; name a {what} file in it.")
    if suffix not in known:
        hint = "; or pass format=..." if what == "graph" else ""
        raise FileFormatError(
            f"{_label(path)}: a {what} file cannot be recognised by the extension {suffix!r}: "
            f"use one of {' '.join(known)}{hint}."
        )
    return known[suffix]


def _read_bytes(path: Any) -> bytes:
    """The content of a file, decompressed."""
    label = _label(path)
    file = Path(label).expanduser()
    try:
        if file.is_dir():
            raise FileFormatError(f"{label} is a folder: pass a file.")
        data = file.read_bytes()
    except FileNotFoundError:
        raise FileFormatError(f"{label} does not exist: check the path.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(f"{label} cannot be opened: {reason}.") from None
    if label.lower().endswith(".gz") or data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except Exception as error:  # OSError, EOFError, zlib.error, struct.error: all mean the same
            raise FileFormatError(f"{label} is not a valid gzip file: {error}.") from None
    if not data.strip():
        raise FileFormatError(f"{label} is empty.")
    return data


def _decode(data: bytes, label: str) -> str:
    """Text of a file that claims to be text; the line of the first byte that is not."""
    zero = data.find(b"\0")
    if zero >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise FileFormatError(
            f"{label}, line {line}: a zero byte, so this is not a UTF-8 text file; convert it to UTF-8 text."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"{label}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8."
        ) from None


def _text_bytes(data: bytes) -> bytes:
    """Without byte order mark, with one kind of line ending."""
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


# ---------------------------------------------------------------------- tables of text


def _check_delimiter(delimiter: str | None) -> str | None:
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


def _rows(lines: list[str], delimiter: str, label: str) -> Iterator[tuple[int, list[str]]]:
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


def _sniff(lines: list[str]) -> str:
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


def _show(line: str) -> str:
    line = line.strip()
    return repr(line if len(line) <= 60 else line[:57] + "...")


def _number(field: str) -> float:
    """A float as a table would write it (Python's float() would take '1_0' too)."""
    if "_" in field:
        raise ValueError
    return float(field)


def _is_number(field: str) -> bool:
    try:
        _number(field)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------- edge lists


@dataclass(frozen=True)
class _Columns:
    """Where an edge list keeps its ends and weights, and on which line its data begin."""

    source: int
    target: int
    weight: int | None
    count: int
    first_line: int
    dicts: bool


@dataclass(frozen=True)
class _Edges:
    """Edges as read. ``ends`` [E, 2] holds integer ids, or positions in ``names``."""

    ends: np.ndarray
    names: list[str] | None
    weight: np.ndarray | None


def _read_edge_list(data: bytes, delimiter: str | None, table: _Features | None, options: _Options) -> Graph:
    data = _text_bytes(data)
    text = _decode(data, options.label)
    # The layout shows in the first megabyte; a large plain file is never cut into lines here.
    head = text[: text.rfind("\n", 0, 1 << 20)] if len(text) > 1 << 20 else text
    if len(head) < len(text) and not any(_rows(head.split("\n"), " ", options.label)):
        head = text
    lines = head.split("\n")
    separator = delimiter or _sniff(lines)
    columns = _find_columns(lines, separator, options)
    edges = _parse_fast(data, separator, columns)
    if edges is None:
        edges = _parse_lines(text.split("\n"), separator, columns, options)
    if edges.ends.shape[0] == 0:
        raise FileFormatError(f"{options.label} has no edges.")
    if table is not None and table.ids is not None:
        return _graph_by_id(edges, table, options)
    ends, n, names = _number_nodes(edges, table, options)
    return Graph.from_edges(
        ends.T,
        x=None if table is None else table.x,
        edge_weight=edges.weight,
        num_nodes=n,
        self_loops=options.self_loops,
        node_names=names,
        name=options.name,
    )


def _find_columns(lines: list[str], delimiter: str, options: _Options) -> _Columns:
    """Header or not, and which columns to use."""
    sample: list[tuple[int, list[str]]] = []
    for row in _rows(lines, delimiter, options.label):
        sample.append(row)
        if len(sample) == 100:
            break
    if not sample:
        raise FileFormatError(f"{options.label} has no edges, only comments.")
    line, first = sample[0]
    lowered = [field.lower().strip("\"' ") for field in first]
    source, target, weight = 0, 1, None
    header = named = False
    for a, b in _END_NAMES:
        if a in lowered and b in lowered:
            # One letter may be a node: it is a header when the following lines do not mention it.
            rest = {field for _, fields in sample[1:] for field in fields}
            if len(a) > 1 or len(first) > 3 or not rest & {first[lowered.index(a)], first[lowered.index(b)]}:
                source, target, header, named = lowered.index(a), lowered.index(b), True, True
                break
    if not header and len(sample) > 1 and len(first) >= 2:
        second = sample[1][1]
        ids_differ = not _INTEGER.fullmatch(first[0]) and not _INTEGER.fullmatch(first[1])
        # "1,2,heavy" is an edge with a wrong weight; "person,friend,hours" is a header.
        some_name = not (_INTEGER.fullmatch(first[0]) and _INTEGER.fullmatch(first[1]))
        ids_follow = all(
            len(f) >= 2 and _INTEGER.fullmatch(f[0]) and _INTEGER.fullmatch(f[1]) for _, f in sample[1:]
        )
        weight_title = (
            len(first) == 3 and len(second) == 3 and not _is_number(first[2]) and _is_number(second[2])
        )
        header = (ids_differ and ids_follow) or (weight_title and some_name and "{" not in first[2])
    is_dict = delimiter == " " and lines[line - 1].rstrip().endswith("}")
    if not named and len(first) not in (2, 3) and not (is_dict and len(first) > 3):
        extra = "" if len(first) < 2 else "; name the columns source, target and weight in a header"
        raise FileFormatError(
            f"{options.label}, line {line}: expected 2 or 3 columns, found {len(first)}: "
            f"{_show(lines[line - 1])}{extra}."
        )
    if named:
        titles = [name for name in _WEIGHT_NAMES if name in lowered]
        if titles:
            weight = lowered.index(titles[0])
        elif len(first) == 3:
            weight = 3 - source - target
    elif len(first) == 3 or is_dict:
        weight = 2
    if options.weighted is False:
        weight = None
    elif weight is None and options.weighted is True:
        raise FileFormatError(
            f"{options.label}, line {line}: weighted=True but there is no column of weights: "
            f"{_show(lines[line - 1])}."
        )
    return _Columns(source, target, weight, len(first), line + 1 if header else line, is_dict)


def _load_table(data: bytes, fields: list[tuple[str, str]], delimiter: str) -> np.ndarray | None:
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


def _parse_fast(data: bytes, delimiter: str, columns: _Columns) -> _Edges | None:
    """Integer ids (and weights) through NumPy's C reader; None when the file is not that plain."""
    used = 2 if columns.weight is None else 3
    if (columns.source, columns.target) != (0, 1) or columns.count != used or columns.dicts:
        return None
    fields: list[tuple[str, str]] = [("u", "<i8"), ("v", "<i8")]
    if used == 3:
        fields.append(("w", "<f8"))
    if columns.first_line > 1:
        data = data.split(b"\n", columns.first_line - 1)[-1]
    table = _load_table(data, fields, delimiter)
    if table is None:
        return None
    ends = np.empty((table.size, 2), dtype=np.int64)
    ends[:, 0], ends[:, 1] = table["u"], table["v"]
    if table.size == 0 or ends.min() < 0:
        return None
    weight = None
    if used == 3:
        weight = np.ascontiguousarray(table["w"])
        if not (weight.min() >= 0 and np.isfinite(weight.max())):
            return None
    return _Edges(ends, None, weight)


def _parse_lines(lines: list[str], delimiter: str, columns: _Columns, options: _Options) -> _Edges:
    """Any ids, line by line, naming the line of the first mistake."""
    label, position = options.label, {}  # type: str, dict[str, int]
    ends: list[int] = []
    weights: list[float] = []
    source, target, column, count = columns.source, columns.target, columns.weight, columns.count
    if columns.dicts:
        lines = [_without_dict(line, column) for line in lines]
        count = 2 if column is None else 3
    for number, fields in _rows(lines, delimiter, label):
        if number < columns.first_line:
            continue
        if len(fields) != count:
            expected = "2 or 3 columns" if len(fields) < 2 else f"{count} columns"
            where = "" if len(fields) < 2 else f" as on line {columns.first_line}"
            raise FileFormatError(
                f"{label}, line {number}: expected {expected}{where}, found {len(fields)}: "
                f"{_show(lines[number - 1])}."
            )
        u, v = fields[source], fields[target]
        if not u or not v:
            raise FileFormatError(f"{label}, line {number}: a node id is empty: {_show(lines[number - 1])}.")
        ends.append(position.setdefault(u, len(position)))
        ends.append(position.setdefault(v, len(position)))
        if column is not None:
            try:
                weight = _number(fields[column])
            except ValueError:
                raise FileFormatError(
                    f"{label}, line {number}: the weight {_show(fields[column])} is not a number; correct "
                    "it, or pass weighted=False to ignore this column."
                ) from None
            if not 0 <= weight < np.inf:
                kind = "negative" if -np.inf < weight < 0 else "not finite"
                raise FileFormatError(
                    f"{label}, line {number}: the weight {_show(fields[column])} is {kind}; weights must be "
                    "non-negative, finite numbers."
                )
            weights.append(weight)
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    values = None if column is None else np.array(weights)
    names = list(position)
    if all(_INTEGER.fullmatch(name) for name in names):
        ids = np.array([int(name) for name in names], dtype=np.int64)
        if ids.size and ids.min() >= 0:
            return _Edges(ids[pairs], None, values)
    return _Edges(pairs, names, values)


def _without_dict(line: str, column: int | None) -> str:
    """'0 1 {'weight': 2.0}' as '0 1 2.0'; an edge without a weight weighs 1."""
    match = _DICT_TAIL.match(line.strip())
    if match is None:
        return line
    if column is None:
        return match[1]
    weight = _DICT_WEIGHT.search(match[2])
    return f"{match[1]} {weight[1] if weight else 1}"


def _by_name(edges: _Edges) -> tuple[np.ndarray, list[str]]:
    """Ends as positions in a list of names, in the order the file mentions them."""
    if edges.names is not None:
        return edges.ends, edges.names
    ids, first, inverse = np.unique(edges.ends.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[inverse].reshape(-1, 2), [str(i) for i in ids[order].tolist()]


def _number_nodes(
    edges: _Edges, table: _Features | None, options: _Options
) -> tuple[np.ndarray, int, list[str] | None]:
    """Node indices, node count and names, for features without ids or none at all."""
    if edges.names is None:
        low, high = int(edges.ends.min()), int(edges.ends.max())
        if table is not None:
            rows = table.x.shape[0]
            if high < rows:
                return edges.ends, rows, None
            one_based = low >= 1 and high == rows
            if not one_based:
                raise FileFormatError(
                    f"{table.label} has {rows} rows but {options.label} has node {high}: give one row per "
                    "node (row i for node i), or node ids in the first column of a csv file."
                )
        else:
            distinct = int(np.unique(edges.ends).size)
            if low == 0 and high < 2 * distinct:
                return edges.ends, high + 1, None
            one_based = low == 1 and high <= 2 * distinct
        if one_based:
            return edges.ends - 1, high, [str(i) for i in range(1, high + 1)]
    elif table is not None:
        raise FileFormatError(
            f"{table.label} has no node ids, but the nodes of {options.label} have names (the first is "
            f"{_show(edges.names[0])}): give a csv file with the names in its first column."
        )
    ends, names = _by_name(edges)
    return ends, len(names), names


def _graph_by_id(edges: _Edges, table: _Features, options: _Options) -> Graph:
    """Join edges and features by id; nodes that only the features know are isolated."""
    assert table.ids is not None
    ends, names = _by_name(edges)
    ids = table.ids
    if edges.names is None:  # "007" and "7" are the same integer
        ids = [str(int(i)) if _INTEGER.fullmatch(i) else i for i in ids]
    row = {name: i for i, name in enumerate(ids)}
    if len(row) < len(ids):
        _raise_repeated(table.label, ids)
    missing = [name for name in names if name not in row]
    if missing:
        _raise_missing(table.label, missing, options.label)
    known = set(names)
    names = names + [name for name in ids if name not in known]
    n = len(names)
    labels: list[str] | None = names
    if edges.names is None and all(_INTEGER.fullmatch(name) for name in names):
        # Ids that fill 0..N-1 or 1..N keep their numerical order, as they would without features.
        values = np.array([int(name) for name in names], dtype=np.int64)
        start = int(values.min())
        if start in (0, 1) and int(values.max()) == n - 1 + start:
            ends = (values - start)[ends]
            names = [str(i) for i in range(start, n + start)]
            labels = None if start == 0 else names
    return Graph.from_edges(
        ends.T,
        x=table.x[[row[name] for name in names]],
        edge_weight=edges.weight,
        num_nodes=n,
        self_loops=options.self_loops,
        node_names=labels,
        name=options.name,
    )


# ---------------------------------------------------------------------- other graph formats


def _read_graphml(data: bytes, options: _Options) -> Graph:
    nx = require("networkx", "all", "reading GraphML")
    # Entities can refer to other files and expand without bound; no graph needs them.
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", data, re.IGNORECASE) or data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileFormatError(f"{options.label} must be UTF-8 XML without a document type declaration.")
    return _from_networkx(lambda: nx.read_graphml(io.BytesIO(data)), "GraphML", options)


def _read_gml(data: bytes, options: _Options) -> Graph:
    nx = require("networkx", "all", "reading GML")
    text = _decode(_text_bytes(data), options.label)
    # networkx reads ASCII with character references, and writes them as well.
    lines = text.encode("ascii", "xmlcharrefreplace").decode("ascii").split("\n")

    def parse() -> Any:
        try:
            return nx.parse_gml(lines, label="label")
        except nx.NetworkXError as error:
            if "no 'label' attribute" not in str(error):
                raise
            return nx.parse_gml(lines, label="id")

    return _from_networkx(parse, "GML", options)


def _from_networkx(parse: Callable[[], Any], what: str, options: _Options) -> Graph:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = parse()
            keys = {key for *_, attributes in graph.edges(data=True) for key in attributes}
    except Exception as error:  # networkx lets the errors of its parsers through
        raise FileFormatError(f"{options.label} is not valid {what}: {_reason(error)}.") from None
    weight = next((key for key in ("weight", "value") if key in keys), None)
    if options.weighted is True and weight is None:
        raise FileFormatError(f"{options.label}: weighted=True but no edge has a 'weight' or 'value'.")
    if options.weighted is False:
        weight = None
    return Graph.from_networkx(
        graph,
        weight=weight,
        features="attributes" if options.attributes else None,
        self_loops=options.self_loops,
        name=options.name,
    )


def _read_mtx(data: bytes, options: _Options) -> Graph:
    """Matrix Market. Read here, not by scipy.io.mmread, which can crash on a damaged file."""
    label = options.label
    data = _text_bytes(data)
    _decode(data, label)
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
            f"pattern, then general or symmetric; found {_show(' '.join(banner))}."
        )
    found = _MTX_SIZES.search(data)
    sizes = (
        [int(f) if _INTEGER.fullmatch(f) else -1 for f in found[0].decode("utf-8").split()] if found else []
    )
    end = found.end() if found else len(data)
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
    _check_plausible(max(rows, columns), entries, label)
    if rows != columns:
        raise FileFormatError(f"{label}: a {rows} x {columns} matrix is not the adjacency matrix of a graph.")
    dtype = [(title, "<f8" if title == "value" else "<i8") for title in titles]
    table = _load_table(body, dtype, " ") if entries else np.zeros(0, dtype)
    if table is None:
        _raise_first_bad_entry(body, start + 2, titles, label)
    if table.size != entries:
        raise FileFormatError(f"{label}: {entries} entries announced, {table.size} found.")
    if layout == "array":
        dense = np.zeros((rows, rows))
        if symmetry == "symmetric":
            upper = np.triu_indices(rows)  # the lower triangle column by column is the upper row by row
            dense[upper] = dense.T[upper] = table["value"]
        else:
            dense = table["value"].reshape((rows, rows), order="F")
        return _from_matrix(dense, options)
    u, v = table["row"] - 1, table["column"] - 1
    outside = (u < 0) | (v < 0) | (u >= rows) | (v >= rows)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise FileFormatError(
            f"{label}: entry {at + 1} is in row {u[at] + 1}, column {v[at] + 1}, outside the {rows} x {rows} matrix."
        )
    values = np.ones(entries) if pattern else table["value"]
    if symmetry == "symmetric":
        off = u != v
        u, v, values = (
            np.concatenate([u, v[off]]),
            np.concatenate([v, u[off]]),
            np.concatenate([values, values[off]]),
        )
    if pattern:  # entries without values: a repeated one is no weight of 2
        options = replace(options, weighted=False)
    return _from_matrix(sp.coo_array((values, (u, v)), shape=(rows, rows)), options)


def _raise_first_bad_entry(body: bytes, first: int, titles: Sequence[str], label: str) -> NoReturn:
    for number, line in enumerate(body.decode("utf-8").split("\n"), first):
        fields = line.split()
        if not fields or fields[0].startswith("%"):
            continue
        whole = [_INTEGER.fullmatch(f) for f, title in zip(fields, titles, strict=False) if title != "value"]
        if len(fields) != len(titles) or not all(whole) or not _is_number(fields[-1]):
            raise FileFormatError(
                f"{label}, line {number}: expected {', '.join(titles)}, found {_show(line)}."
            )
    raise FileFormatError(f"{label} has entries that cannot be read as numbers.")


def _from_matrix(matrix: Any, options: _Options) -> Graph:
    """A graph of an adjacency matrix, sparse or dense."""
    build = Graph.from_scipy if sp.issparse(matrix) else Graph.from_dense
    graph = build(matrix, self_loops=options.self_loops, name=options.name)
    if options.weighted is False and graph.weighted:
        binary = graph.adjacency.copy()
        binary.data[:] = 1.0
        return Graph(binary, name=options.name)
    if options.weighted is True and not graph.weighted:
        raise FileFormatError(f"{options.label}: weighted=True but every weight is 1.")
    return graph


def _read_npz(data: bytes, options: _Options) -> Graph:
    label = options.label
    arrays = _load_archive(data, label)
    if sp.issparse(arrays):
        return _from_matrix(arrays, options)
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
        _check_plausible(num_nodes, edges.size, label)
    elif edges.size and edges.dtype.kind in "iuf":
        high = edges.max()
        _check_plausible(int(high) if np.isfinite(high) else 0, edges.size, label)
    weight = arrays.get("edge_weight", arrays.get("weight"))
    if options.weighted is True and weight is None:
        raise FileFormatError(f"{label}: weighted=True but there is no array 'edge_weight'.")
    return Graph.from_edges(
        edges,
        x=arrays.get("x"),
        edge_weight=None if options.weighted is False else weight,
        num_nodes=num_nodes,
        self_loops=options.self_loops,
        y=arrays.get("y"),
        name=options.name,
    )


def _load_archive(data: bytes, label: str) -> Any:
    """A scipy sparse matrix, or a dictionary of all arrays, of an .npz archive; never with pickle."""
    try:
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
        _check_plausible(max(matrix.shape), matrix.nnz, label)
        return matrix if matrix.format in ("csr", "csc", "coo") else matrix.tocoo()
    except FileFormatError:
        raise
    except Exception as error:  # zipfile, zlib, struct, numpy and scipy each have their own
        raise FileFormatError(f"{label} is not a valid .npz file: {_reason(error)}.") from None


def _check_plausible(nodes: int, edges: int, label: str) -> None:
    if nodes > max(_MANY_NODES, 100 * edges):
        raise FileFormatError(
            f"{label} announces {nodes} nodes but has only {edges} entries: the file is damaged, or its "
            "nodes need to be numbered 0 to N-1."
        )


def _reason(error: BaseException) -> str:
    """The first line of another library's message, without its full stop."""
    text = str(error).strip().split("\n")[0].strip().rstrip(".")
    if "pickle" in text:  # NumPy's advice for data it does not know: to let it execute code
        text = "it holds no plain arrays"
    return text[:200] or type(error).__name__


# ---------------------------------------------------------------------- features


def _features_from(source: Any) -> _Features:
    """Features from a path, an array or a sparse matrix."""
    if not (isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")):
        return _checked_features(source, "features")
    label = _label(source)
    kind = _kind(source, _FEATURE_FORMATS, "features")
    data = _read_bytes(source)
    if kind == "text":
        return _features_from_text(data, label)
    x: Any
    if kind == "npy":
        try:
            x = np.load(io.BytesIO(data), allow_pickle=False)
            if not isinstance(x, np.ndarray):
                raise ValueError("it is an archive, name it .npz")
        except Exception as error:
            raise FileFormatError(f"{label} is not a valid .npy file: {_reason(error)}.") from None
    else:
        x = _load_archive(data, label)
        if isinstance(x, dict):
            if len(x) != 1:
                raise FileFormatError(
                    f"{label} holds {', '.join(map(repr, x)) or 'nothing'}: expected a matrix of "
                    "scipy.sparse.save_npz, or one dense array."
                )
            x = next(iter(x.values()))
    return _checked_features(x.reshape(-1, 1) if x.ndim == 1 else x, label)


def _checked_features(x: Any, label: str) -> _Features:
    """Features that have passed the graph's own checks, with the file named in its sentences."""
    try:
        rows = int(x.shape[0]) if hasattr(x, "shape") else len(x)
    except (TypeError, IndexError):
        raise GraphError(f"{label} is one value: give one row per node.") from None
    if rows == 0:
        raise GraphError(f"{label} has no rows: give one row per node.")
    try:
        return _Features(label, Graph.from_edges([], num_nodes=rows).with_features(x).x)
    except GraphError as error:
        raise GraphError(f"{label}: {error}") from None


def _features_from_text(data: bytes, label: str) -> _Features:
    data = _text_bytes(data)
    lines = _decode(data, label).split("\n")
    delimiter = _sniff(lines)
    rows = _rows(lines, delimiter, label)
    line, first = next(rows, (0, [""]))
    if line == 0:
        raise FileFormatError(f"{label} has no rows, only comments.")
    titled = first[0].lower() in _ID_NAMES
    # An empty field is a missing value, not a title.
    header = titled or any(field and not _is_number(field) for field in first[1:])
    if len(first) == 1 and not _is_number(first[0]):
        header = True
    second = next(rows, (0, []))[1] if header else first
    if header and not second:
        raise FileFormatError(f"{label} has a header but no rows.")
    # R writes a header without a title for the ids: one column less than the rows.
    ids = (
        (titled and len(second) > 1)
        or not _is_number(second[0])
        or (header and len(second) == len(first) + 1)
    )
    width = len(second)
    begin = line + 1 if header else line
    return _parse_features_fast(lines, delimiter, begin, width, ids, label) or _parse_features(
        lines, delimiter, begin, width, ids, label
    )


def _parse_features_fast(
    lines: list[str], delimiter: str, begin: int, width: int, ids: bool, label: str
) -> _Features | None:
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
    return _Features(label, x, names)


def _parse_features(
    lines: list[str], delimiter: str, begin: int, width: int, ids: bool, label: str
) -> _Features:
    names: list[str] = []
    seen: set[str] = set()
    values: list[list[float]] = []
    for number, fields in _rows(lines, delimiter, label):
        if number < begin:
            continue
        if len(fields) != width:
            raise FileFormatError(
                f"{label}, line {number}: expected {width} columns, found {len(fields)}: "
                f"{_show(lines[number - 1])}."
            )
        if ids:
            if fields[0] in seen:
                raise FileFormatError(f"{label}, line {number}: node {_show(fields[0])} has a row already.")
            seen.add(fields[0])
            names.append(fields[0])
        row = []
        for column, field in enumerate(fields[int(ids) :], 1 + int(ids)):
            try:
                value = _number(field)
            except ValueError:
                raise FileFormatError(
                    f"{label}, line {number}, column {column}: {_show(field)} is not a number."
                ) from None
            if not abs(value) <= _FLOAT32_MAX:
                raise FileFormatError(
                    f"{label}, line {number}, column {column}: {_show(field)} is not finite in float32; "
                    "replace or rescale such values."
                )
            row.append(value)
        values.append(row)
    if width - int(ids) < 1:
        raise FileFormatError(f"{label}, line {begin}: expected at least one feature beside the node id.")
    return _Features(label, np.array(values, dtype=np.float32), names if ids else None)


def _attach(graph: Graph, table: _Features, options: _Options) -> Graph:
    """Features for a graph whose nodes have an order of their own (not an edge list)."""
    n = graph.num_nodes
    if table.ids is None:
        if table.x.shape[0] != n:
            raise FileFormatError(
                f"{table.label} has {table.x.shape[0]} rows but {options.label} has {n} nodes: "
                "give one row per node."
            )
        return graph.with_features(table.x)
    names = graph.node_names
    if names is None:
        # Unnamed nodes are counted from 0, or from 1 where the features do so.
        start = 0 if "0" in table.ids else 1
        names = [str(i) for i in range(start, n + start)]
    row = {name: i for i, name in enumerate(table.ids)}
    missing = [name for name in names if name not in row]
    if missing:
        _raise_missing(table.label, missing, options.label)
    known = set(names)
    extra = [name for name in table.ids if name not in known]
    order = [row[name] for name in names + extra]
    if not extra:
        return graph.with_features(table.x[order])
    if graph.node_names is None:
        raise FileFormatError(
            f"{table.label} has node {_show(extra[0])}, which {options.label} with its {n} nodes does not "
            "have."
        )
    larger = graph.adjacency.copy()
    larger.resize((n + len(extra), n + len(extra)))
    return Graph(larger, x=table.x[order], node_names=names + extra, name=graph.name)


def _raise_missing(label: str, missing: list[str], graph: str | None = None) -> NoReturn:
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    where = f" of {graph}" if graph else ""
    raise FileFormatError(
        f"{label} has no row for node {_show(missing[0])}{others}{where}: add the missing rows."
    )


def _raise_repeated(label: str, ids: list[str]) -> NoReturn:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise FileFormatError(f"{label} has more than one row for node {_show(name)}: keep one.")
        seen.add(name)
    raise SoftcutError(f"{label} has repeated node ids.")
