"""Edge lists: one edge per line, two ids and perhaps a weight."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from softcut.errors import FileFormatError
from softcut.graph import Graph
from softcut.io.feature_files import FeatureTable
from softcut.io.joining import EdgeTable, graph_by_id, number_nodes
from softcut.io.opening import ReadOptions, decode_text, plain_text_bytes
from softcut.io.text_tables import INTEGER, find_delimiter, is_number, load_table, number_of, rows_of, shown

__all__ = ["read_edge_list"]

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
# networkx writes "0 1 {'weight': 2.0}" by default; only the number is taken, nothing is evaluated.
_DICT_TAIL = re.compile(r"^(.*?)\s*\{(.*)\}$")
_DICT_WEIGHT = re.compile(r"['\"]weight['\"]\s*:\s*([-+0-9.eE]+)")


@dataclass(frozen=True)
class _Columns:
    """Where an edge list keeps its ends and weights, and on which line its data begin."""

    source: int
    target: int
    weight: int | None
    count: int
    first_line: int
    dicts: bool


def read_edge_list(
    data: bytes, delimiter: str | None, table: FeatureTable | None, options: ReadOptions
) -> Graph:
    data = plain_text_bytes(data)
    text = decode_text(data, options.label)
    # The layout shows in the first megabyte; a large plain file is never cut into lines here.
    head = text[: text.rfind("\n", 0, 1 << 20)] if len(text) > 1 << 20 else text
    if len(head) < len(text) and not any(rows_of(head.split("\n"), " ", options.label)):
        head = text
    lines = head.split("\n")
    separator = delimiter or find_delimiter(lines)
    columns = _find_columns(lines, separator, options)
    edges = _parse_fast(data, separator, columns)
    if edges is None:
        edges = _parse_lines(text.split("\n"), separator, columns, options)
    if edges.ends.shape[0] == 0:
        raise FileFormatError(f"{options.label} has no edges.")
    if table is not None and table.ids is not None:
        return graph_by_id(edges, table, options)
    ends, n, names = number_nodes(edges, table, options)
    return Graph.from_edges(
        ends.T,
        x=None if table is None else table.x,
        edge_weight=edges.weight,
        num_nodes=n,
        self_loops=options.self_loops,
        node_names=names,
        name=options.name,
    )


def _find_columns(lines: list[str], delimiter: str, options: ReadOptions) -> _Columns:
    """Header or not, and which columns to use."""
    sample: list[tuple[int, list[str]]] = []
    for row in rows_of(lines, delimiter, options.label):
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
        ids_differ = not INTEGER.fullmatch(first[0]) and not INTEGER.fullmatch(first[1])
        # "1,2,heavy" is an edge with a wrong weight; "person,friend,hours" is a header.
        some_name = not (INTEGER.fullmatch(first[0]) and INTEGER.fullmatch(first[1]))
        ids_follow = all(
            len(f) >= 2 and INTEGER.fullmatch(f[0]) and INTEGER.fullmatch(f[1]) for _, f in sample[1:]
        )
        weight_title = (
            len(first) == 3 and len(second) == 3 and not is_number(first[2]) and is_number(second[2])
        )
        header = (ids_differ and ids_follow) or (weight_title and some_name and "{" not in first[2])
    is_dict = delimiter == " " and lines[line - 1].rstrip().endswith("}")
    if not named and len(first) not in (2, 3) and not (is_dict and len(first) > 3):
        extra = "" if len(first) < 2 else "; name the columns source, target and weight in a header"
        raise FileFormatError(
            f"{options.label}, line {line}: expected 2 or 3 columns, found {len(first)}: "
            f"{shown(lines[line - 1])}{extra}."
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
            f"{shown(lines[line - 1])}."
        )
    return _Columns(source, target, weight, len(first), line + 1 if header else line, is_dict)


def _parse_fast(data: bytes, delimiter: str, columns: _Columns) -> EdgeTable | None:
    """Integer ids (and weights) through NumPy's C reader; None when the file is not that plain."""
    used = 2 if columns.weight is None else 3
    if (columns.source, columns.target) != (0, 1) or columns.count != used or columns.dicts:
        return None
    fields: list[tuple[str, str]] = [("u", "<i8"), ("v", "<i8")]
    if used == 3:
        fields.append(("w", "<f8"))
    if columns.first_line > 1:
        data = data.split(b"\n", columns.first_line - 1)[-1]
    table = load_table(data, fields, delimiter)
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
    return EdgeTable(ends, None, weight)


def _parse_lines(lines: list[str], delimiter: str, columns: _Columns, options: ReadOptions) -> EdgeTable:
    """Any ids, line by line, naming the line of the first mistake."""
    label, position = options.label, {}  # type: str, dict[str, int]
    ends: list[int] = []
    weights: list[float] = []
    source, target, column, count = columns.source, columns.target, columns.weight, columns.count
    if columns.dicts:
        lines = [_without_dict(line, column) for line in lines]
        count = 2 if column is None else 3
    for number, fields in rows_of(lines, delimiter, label):
        if number < columns.first_line:
            continue
        if len(fields) != count:
            expected = "2 or 3 columns" if len(fields) < 2 else f"{count} columns"
            where = "" if len(fields) < 2 else f" as on line {columns.first_line}"
            raise FileFormatError(
                f"{label}, line {number}: expected {expected}{where}, found {len(fields)}: "
                f"{shown(lines[number - 1])}."
            )
        u, v = fields[source], fields[target]
        if not u or not v:
            raise FileFormatError(f"{label}, line {number}: a node id is empty: {shown(lines[number - 1])}.")
        ends.append(position.setdefault(u, len(position)))
        ends.append(position.setdefault(v, len(position)))
        if column is not None:
            try:
                weight = number_of(fields[column])
            except ValueError:
                raise FileFormatError(
                    f"{label}, line {number}: the weight {shown(fields[column])} is not a number; correct "
                    "it, or pass weighted=False to ignore this column."
                ) from None
            if not 0 <= weight < np.inf:
                kind = "negative" if -np.inf < weight < 0 else "not finite"
                raise FileFormatError(
                    f"{label}, line {number}: the weight {shown(fields[column])} is {kind}; weights must be "
                    "non-negative, finite numbers."
                )
            weights.append(weight)
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    values = None if column is None else np.array(weights)
    names = list(position)
    if all(INTEGER.fullmatch(name) for name in names):
        ids = np.array([int(name) for name in names], dtype=np.int64)
        if ids.size and ids.min() >= 0:
            return EdgeTable(ids[pairs], None, values)
    return EdgeTable(pairs, names, values)


def _without_dict(line: str, column: int | None) -> str:
    """'0 1 {'weight': 2.0}' as '0 1 2.0'; an edge without a weight weighs 1."""
    match = _DICT_TAIL.match(line.strip())
    if match is None:
        return line
    if column is None:
        return match[1]
    weight = _DICT_WEIGHT.search(match[2])
    return f"{match[1]} {weight[1] if weight else 1}"
