"""Edge lists: one edge per line, two ids and perhaps a weight."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from softcut.errors import Argument, FileFormatError, Note, Sentence
from softcut.io.options import ReadOptions
from softcut.io.text_files import TextTable, errors_of_files, open_table
from softcut.tables.arrays import listed, shown
from softcut.tables.columns import is_number, mixed_commas, numbers_of_fields, position_of
from softcut.tables.edge_columns import (
    END_NAMES,
    SOURCE_AND_TARGET,
    WEIGHT_NAMES,
    EdgeColumns,
    EdgeTable,
    choose_edge_columns,
    edge_table_of_labels,
)

# networkx writes "0 1 {'weight': 2.0}" by default, NumPy's numbers as "np.float64(2.0)"; nothing is evaluated.
_DICT_TAIL = re.compile(r"^([^{]*[^{\w])(\{.*\})$")
_PLAIN_DICT = re.compile(r"\{'(\w+)': ([-+0-9.eE]+)\}")
_NUMBER_TYPES = re.compile(r"(?:(?:np|numpy)\.)?(?:float|int|uint)[0-9]*|(?:decimal\.)?Decimal")
_COMMENTED_TITLES = re.compile(r"^[#%]+\s*(.*)$")

# Above this share of edges whose two ends occur nowhere else, the first row may be such an edge.
_FEW_ALONE = 0.02

Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class EdgeListLayout:
    """Which columns hold what, how many there are, the line the data begin on, and what was understood.

    `needs_all`: whether that took all of the text, because the first row may be titles, or lines were rewritten.
    """

    columns: EdgeColumns
    count: int
    first_line: int
    note: Note
    needs_all: bool = False


def read_edge_list(data: bytes, options: ReadOptions) -> tuple[EdgeTable, list[Note]]:
    """The edges of a text file read row by row, and what was understood."""
    table, layout, notes = understand(data, options)
    edges, said = _parse_rows(table, layout)
    return replace(edges, titles=layout.columns.titles), notes + said


# ---------------------------------------------------------------------- layout


def understand(data: bytes, options: ReadOptions) -> tuple[TextTable, EdgeListLayout, list[Note]]:
    """The table of a text file, which of its columns hold what, and notes on all of that."""
    table = open_table(data, options.label, options.delimiter, options.comments, options.encoding)
    first = next((line for _, line in table.lines()), None)
    if first is None:
        raise FileFormatError(f"{options.label} has no edges, only comments.")
    if _DICT_TAIL.match(first.strip()):
        table, columns = _without_dicts(table, options)
        note = Note("format", f"{table.label}: edge list of networkx", format="edges")
        layout = EdgeListLayout(columns, 2 if columns.weight is None else 3, 1, note, needs_all=True)
    else:
        sample = table.sample()
        _refuse_matrix(table, sample, options)
        layout = _find_layout(table, sample, options)
    return table, layout, [layout.note, layout.columns.note(), *table.notes]


def _find_layout(table: TextTable, sample: Rows, options: ReadOptions) -> EdgeListLayout:
    line, first = sample[0]
    commented = _commented_titles(table, line, len(first)) if options.header is None else None
    header = (
        _Header(True, "its titles are in a comment") if commented else _find_header(table, sample, options)
    )
    if header.there:
        titles = commented or [field.strip("\"' ") for field in first]
        if len(titles) < 2:
            raise _column_count(table, line, len(titles))
        rows = [fields for _, fields in sample if fields != first or commented]
        asked = options.source, options.target, options.weight, options.weighted
        with errors_of_files():
            columns = choose_edge_columns(titles, table.label, *asked, rows)
        why = Sentence(f", header on line {line - 1 if commented else line} (", header.why, ")")
    else:
        columns = _untitled_columns(table, sample, options)
        why = Sentence(", no header", header.why)
    separated = f"{table.label}: edge list separated by {table.separated_by()}"
    note = Note("format", separated, why, format="edges", header=header.there)
    begin = line + 1 if header.there and not commented else line
    return EdgeListLayout(columns, len(first), begin, note, needs_all=header.in_doubt)


def _refuse_matrix(table: TextTable, sample: Rows, options: ReadOptions) -> None:
    """An adjacency matrix is no edge list, though a small one has as many columns."""
    if options.source is not None or options.target is not None or options.header is not None:
        return
    first, rest = sample[0][1], [fields for _, fields in sample[1:]]
    # The titles of a matrix are the names of its rows, with or without a corner in front.
    titles = first if rest and len(rest[0]) == len(first) + 1 else first[1:]
    if len(rest) == len(titles) > 1 and not is_number(first[0]) and {row[0] for row in rest} == set(titles):
        raise FileFormatError(
            f"{table.label} is an adjacency matrix with labels, not an edge list: read it with "
            "pandas.read_csv(path, index_col=0) and pass the frame."
        )
    rows = [fields for _, fields in sample]
    square = len(rows) == len(first) and all(len(row) == len(first) for row in rows)
    if not square or len(first) < 3 or not all(is_number(field) for row in rows for field in row):
        return
    mirrored = all(rows[i][j] == rows[j][i] for i in range(3) for j in range(i))
    if len(first) > 3 or (mirrored and all(float(rows[i][i].replace(",", ".")) == 0 for i in range(3))):
        raise FileFormatError(
            f"{table.label} has {len(first)} rows of {len(first)} numbers, which may be a matrix or edges: pass "
            "numpy.loadtxt of it to Graph.from_dense, or ",
            Argument("source", 0),
            " and ",
            Argument("target", 1),
            ".",
        )


def _commented_titles(table: TextTable, line: int, count: int) -> list[str] | None:
    """The titles of a header behind a comment sign, right above the first row: "#source,target"."""
    if line < 2:
        return None
    match = _COMMENTED_TITLES.match(table.line(line - 1).strip())
    if match is None or not match[1]:
        return None
    titles = (
        match[1].split() if table.delimiter == " " else [f.strip() for f in match[1].split(table.delimiter)]
    )
    lowered = [title.lower() for title in titles]
    known = any(a in lowered and b in lowered for a, b in END_NAMES)
    return titles if known and len(titles) == count else None


@dataclass(frozen=True)
class _Header:
    """Whether the first row holds titles, and why; `in_doubt`: the rows of the sample do not tell."""

    there: bool
    why: str = ""
    in_doubt: bool = False


def _find_header(table: TextTable, sample: Rows, options: ReadOptions) -> _Header:
    if options.header is not None:
        return _Header(options.header, "as asked for" if options.header else ", as asked for")
    first, rest = sample[0][1], [fields for _, fields in sample[1:]]
    asked = [name for name in (options.source, options.target, options.weight) if isinstance(name, str)]
    if any(name in first and not is_number(name) for name in asked):
        return _Header(True, "it has the columns asked for")
    lowered = [field.lower().strip("\"' ") for field in first]
    values = {field for fields in rest for field in fields}
    for a, b in END_NAMES:
        if a in lowered and b in lowered:
            # One letter may be a node: it is a title when the following lines do not mention it.
            ends = {first[lowered.index(a)], first[lowered.index(b)]}
            if len(a) > 1 or len(first) > 3 or not values & ends:
                return _Header(True, "known titles")
    if len(first) < 2 or not rest or any("{" in field for field in first):
        return _Header(False)
    if any(is_number(field) for field in first):  # titles are words
        return _Header(False)
    for column, field in enumerate(first):
        others = [fields[column] for fields in rest if len(fields) > column]
        if others and field and not is_number(field) and all(is_number(other) for other in others):
            return _Header(True, "its types differ from those below")
    if first[0] in values or first[1] in values:
        return _Header(False)
    names = f"{first[0]!r} and {first[1]!r}"
    # Two names that occur on no other line are titles, unless such edges are common in this file.
    rows = [fields[:2] for _, fields in table.rows() if len(fields) > 1][1:]
    counts = Counter(name for pair in rows for name in pair)
    if first[0] in counts or first[1] in counts:
        return _Header(False)
    alone = sum(counts[u] == counts[v] == 1 for u, v in rows)
    if alone > _FEW_ALONE * len(rows):
        unsure = f" (though {names} occur on no other line: "
        return _Header(
            False, Sentence(unsure, Argument("header", True), " if they are titles)"), in_doubt=True
        )
    return _Header(True, f"{names} occur on no other line", in_doubt=True)


def _untitled_columns(table: TextTable, sample: Rows, options: ReadOptions) -> EdgeColumns:
    line, first = sample[0]
    titles = [f"column {i + 1}" for i in range(len(first))]
    asked = options.source is not None or options.target is not None
    if len(first) not in (2, 3) and not (asked and len(first) > 3):
        raise _column_count(table, line, len(first))
    source = 0 if options.source is None else position_of(options.source, titles, "source", table.label)
    free = next(i for i in range(len(first)) if i != source)
    target = free if options.target is None else position_of(options.target, titles, "target", table.label)
    weight: int | None = None
    if options.weight is not None:
        weight = position_of(options.weight, titles, "weight", table.label)
    elif options.weighted is not False and len(first) == 3:
        weight = next(i for i in range(3) if i not in (source, target))
    elif options.weighted is True:
        raise FileFormatError(
            f"{table.label}, line {line}: ",
            Argument("weighted", True),
            f" but there is no column of weights: {shown(table.line(line))}.",
        )
    return EdgeColumns.of(titles, source, target, weight, word=str)


def _column_count(table: TextTable, line: int, count: int) -> FileFormatError:
    seen = f"{table.label}, line {line}: expected 2 or 3 columns, found {count}: {shown(table.line(line))}"
    if count < 2:
        return FileFormatError(f"{seen}.")
    way = "; name the columns source, target and weight in a header, or pass "
    return FileFormatError(seen, way, SOURCE_AND_TARGET, ".")


# ---------------------------------------------------------------------- rows


def _parse_rows(table: TextTable, layout: EdgeListLayout) -> tuple[EdgeTable, list[Note]]:
    """Any ids, row by row, naming the line of the first mistake."""
    columns, count = layout.columns, layout.count
    ends: list[tuple[str, str]] = []
    weights, lines = [], []
    for number, fields in table.rows():
        if number < layout.first_line:
            continue
        if len(fields) != count:
            expected = (
                "2 or 3 columns" if len(fields) < 2 else f"{count} columns as on line {layout.first_line}"
            )
            raise FileFormatError(
                f"{table.label}, line {number}: expected {expected}, found {len(fields)}: "
                f"{shown(table.line(number))}."
            )
        u, v = fields[columns.source], fields[columns.target]
        if not u or not v:
            raise FileFormatError(
                f"{table.label}, line {number}: a node id is empty: {shown(table.line(number))}."
            )
        ends.append((u, v))
        if columns.weight is not None:
            weights.append(fields[columns.weight])
            lines.append(number)
    if not ends:
        raise FileFormatError(f"{table.label} has no edges.")
    values, said = (None, None) if columns.weight is None else _weights(weights, lines, table)
    return edge_table_of_labels(ends, values), [said] if said else []


def _weights(fields: list[str], lines: list[int], table: TextTable) -> tuple[np.ndarray, Note | None]:
    label = table.label
    values, said = numbers_of_fields(fields, table.delimiter)
    if values is None:
        at = next((i for i, field in enumerate(fields) if not is_number(field)), None)
        if at is None:  # each alone is a number: it is the commas
            at = next(i for i, field in enumerate(fields) if "," in field)
            raise FileFormatError(f"{label}, line {lines[at]}: {mixed_commas(fields[at])}")
        raise _no_weight(label, lines[at], fields[at])
    wrong = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if wrong.size:
        at = int(wrong[0])
        kind = "negative" if -np.inf < values[at] < 0 else "not finite"
        raise FileFormatError(
            f"{label}, line {lines[at]}: the weight {shown(fields[at])} is {kind}; weights must be "
            "non-negative, finite numbers."
        )
    return values, said


def _no_weight(label: str, line: int, value: str) -> FileFormatError:
    return FileFormatError(
        f"{label}, line {line}: the weight {shown(value)} is not a number; correct it, or pass ",
        Argument("weighted", False),
        " to ignore weights.",
    )


# ---------------------------------------------------------------------- attributes in braces


def _without_dicts(table: TextTable, options: ReadOptions) -> tuple[TextTable, EdgeColumns]:
    """'0 1 {'weight': 2.0}' as '0 1 2.0', for all lines; an edge without a weight weighs 1."""
    pieces: dict[int, tuple[str, dict[str, str]]] = {}  # what stands before the braces, and the attributes
    for number, line in table.lines():
        match = _DICT_TAIL.match(line.strip())
        attributes = None if match is None else _attributes(match[2])
        if match is None or attributes is None:
            raise FileFormatError(
                f"{table.label}, line {number}: expected two nodes and attributes in braces, found {shown(line)}."
            )
        pieces[number] = match[1].rstrip(" "), attributes
    keys = list(dict.fromkeys(key for _, attributes in pieces.values() for key in attributes))
    weight = None
    if options.weight is not None:
        weight = keys[position_of(options.weight, keys, "weight", table.label)]
    elif options.weighted is not False:
        weight = next((name for name in WEIGHT_NAMES if name in keys), None)
    if options.weighted is True and weight is None:
        raise FileFormatError(
            f"{table.label}: ", Argument("weighted", True), f" but no edge has {listed(WEIGHT_NAMES)}."
        )
    last = next(iter(pieces.values()))[0][-1:]
    delimiter = options.delimiter or (last if last in (",", ";", "\t", "|") else " ")
    lines = table.text.split("\n")
    for number, (head, attributes) in pieces.items():
        value = "" if weight is None else attributes.get(weight, "1")
        if weight is not None and not is_number(value):
            raise _no_weight(table.label, number, value)
        lines[number - 1] = f"{head.removesuffix(delimiter)}{delimiter * (weight is not None)}{value}"
    ignored = tuple(key for key in keys if key != weight)
    said = f"attributes in braces, {'no weight' if weight is None else f'weight {weight!r}'}"
    columns = EdgeColumns(0, 1, None if weight is None else 2, said, ignored)
    return replace(table, text="\n".join(lines), delimiter=delimiter), columns


def _attributes(text: str) -> dict[str, str] | None:
    """The attributes of a dictionary as text, numbers of NumPy as plain ones; None where it is no dictionary."""
    if plain := _PLAIN_DICT.fullmatch(text):
        return {plain[1]: plain[2]}
    try:
        made = ast.parse(text, mode="eval").body
        if not isinstance(made, ast.Dict):
            return None
        pairs = zip(made.keys, made.values, strict=True)
        return {str(key.value): _text_of(value) for key, value in pairs if isinstance(key, ast.Constant)}
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _text_of(node: ast.expr) -> str:
    called = isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    if isinstance(node, ast.Call) and called and _NUMBER_TYPES.fullmatch(ast.unparse(node.func)):
        node = node.args[0]
    return str(node.value) if isinstance(node, ast.Constant) else ast.unparse(node)
