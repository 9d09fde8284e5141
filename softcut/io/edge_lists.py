"""Edge lists: one edge per line, two ids and perhaps a weight."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from softcut.errors import FileFormatError, GraphError
from softcut.io.text_files import ReadOptions, shown
from softcut.io.text_tables import (
    TextTable,
    column_of_numbers,
    first_wrong,
    is_number,
    load_table,
    mixed_commas,
    open_table,
)
from softcut.tables.edge_columns import (
    END_NAMES,
    EdgeColumns,
    EdgeTable,
    choose_edge_columns,
    position_of,
    whole_numbers,
)

__all__ = ["Layout", "read_edge_list", "understand", "written_differently"]

# networkx writes "0 1 {'weight': 2.0}" by default; only the number is taken, nothing is evaluated.
_DICT_TAIL = re.compile(r"^(.*?)\s*\{(.*)\}$")
_DICT_WEIGHT = re.compile(r"['\"]weight['\"]\s*:\s*([-+0-9.eE]+)")
_COMMENTED_TITLES = re.compile(r"^[#%]+\s*(.*)$")

# A file where more edges than this stand alone may well begin with one of them.
_FEW_ALONE = 0.02

Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class Layout:
    """Which columns hold what, how many there are, the line the data begin on, and what was understood."""

    columns: EdgeColumns
    count: int
    first_line: int
    dicts: bool
    notes: tuple[str, ...]


def read_edge_list(data: bytes, options: ReadOptions) -> tuple[EdgeTable, list[str]]:
    """The edges of a text file, and in words what was understood.

    >>> edges, notes = read_edge_list(b"a,b\\nb,c\\n", ReadOptions("g.csv", "g"))
    >>> edges.names, notes[1]
    (['a', 'b', 'c'], 'source column 1, target column 2, no weight')
    """
    table, layout, notes = understand(data, options)
    edges = _parse_fast(table, layout)
    if edges is None:
        edges, said = _parse_rows(table, layout)
        notes += said
    if edges.ends.shape[0] == 0:
        raise FileFormatError(f"{options.label} has no edges.")
    return edges, notes


# ---------------------------------------------------------------------- layout


def understand(data: bytes, options: ReadOptions) -> tuple[TextTable, Layout, list[str]]:
    """The table of a text file, which of its columns hold what, and all of that in words.

    >>> understand(b"a,b,2\\nb,c,1\\n", ReadOptions("g.csv", "g"))[1].columns.weight
    2
    """
    table = open_table(data, options.label, options.delimiter, options.comments)
    sample = table.sample()
    if not sample:
        raise FileFormatError(f"{options.label} has no edges, only comments.")
    _refuse_matrix(table, sample, options)
    layout = _find_layout(table, sample, options)
    return table, layout, [*layout.notes, layout.columns.sentence(), *table.notes]


def _find_layout(table: TextTable, sample: Rows, options: ReadOptions) -> Layout:
    line, first = sample[0]
    dicts = table.delimiter == " " and not table.quoted and table.line(line).rstrip().endswith("}")
    if dicts:
        columns = EdgeColumns(0, 1, None if options.weighted is False else 2, "attributes in braces")
        return Layout(columns, len(first), line, True, (f"{table.label}: edge list of networkx",))
    commented = _commented_titles(table, line, len(first)) if options.header is None else None
    header, why = (True, "its titles are in a comment") if commented else _is_header(table, sample, options)
    kind = f"{table.label}: edge list separated by {table.separated_by()}"
    try:
        if header:
            titles = commented or [field.strip("\"' ") for field in first]
            if len(titles) < 2:
                raise GraphError(_column_count(table, line, len(titles)))
            columns = choose_edge_columns(
                titles,
                table.label,
                options.source,
                options.target,
                options.weight,
                options.weighted,
                [fields for _, fields in sample if fields != first or commented],
            )
            notes = (f"{kind}, header on line {line if not commented else line - 1} ({why})",)
            return Layout(columns, len(titles), line if commented else line + 1, False, notes)
        columns = _untitled_columns(table, sample, options)
    except GraphError as error:
        raise FileFormatError(str(error)) from None
    return Layout(columns, len(first), line, False, (f"{kind}, no header{why}",))


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
            "numpy.loadtxt of it to Graph.from_dense, or source=0 and target=1."
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


def _is_header(table: TextTable, sample: Rows, options: ReadOptions) -> tuple[bool, str]:
    """Whether the first row holds titles, and why."""
    if options.header is not None:
        return options.header, "as asked for" if options.header else ", as asked for"
    first, rest = sample[0][1], [fields for _, fields in sample[1:]]
    asked = [name for name in (options.source, options.target, options.weight) if isinstance(name, str)]
    if any(name in first and not is_number(name) for name in asked):
        return True, "it has the columns asked for"
    lowered = [field.lower().strip("\"' ") for field in first]
    values = {field for fields in rest for field in fields}
    for a, b in END_NAMES:
        if a in lowered and b in lowered:
            # One letter may be a node: it is a title when the following lines do not mention it.
            ends = {first[lowered.index(a)], first[lowered.index(b)]}
            if len(a) > 1 or len(first) > 3 or not values & ends:
                return True, "known titles"
    if len(first) < 2 or not rest or any("{" in field for field in first):
        return False, ""
    if any(is_number(field) for field in first):  # titles are words
        return False, ""
    for column, field in enumerate(first):
        others = [fields[column] for fields in rest if len(fields) > column]
        if others and field and not is_number(field) and all(is_number(other) for other in others):
            return True, "its types differ from those below"
    if first[0] in values or first[1] in values:
        return False, ""
    names = f"{first[0]!r} and {first[1]!r}"
    # Two names that never come again are titles, unless such edges are common here.
    rows = [fields[:2] for _, fields in table.rows() if len(fields) > 1][1:]
    counts = Counter(name for pair in rows for name in pair)
    if first[0] in counts or first[1] in counts:
        return False, ""
    alone = sum(counts[u] == counts[v] == 1 for u, v in rows)
    if alone > _FEW_ALONE * len(rows):
        return False, f" (though {names} occur on no other line: header=True if they are titles)"
    return True, f"{names} occur on no other line"


def _untitled_columns(table: TextTable, sample: Rows, options: ReadOptions) -> EdgeColumns:
    line, first = sample[0]
    titles = [f"column {i + 1}" for i in range(len(first))]
    asked = options.source is not None or options.target is not None
    if len(first) not in (2, 3) and not (asked and len(first) > 3):
        raise GraphError(_column_count(table, line, len(first)))
    source = 0 if options.source is None else position_of(options.source, titles, "source", table.label)
    free = next(i for i in range(len(first)) if i != source)
    target = free if options.target is None else position_of(options.target, titles, "target", table.label)
    weight: int | None = None
    if options.weight is not None:
        weight = position_of(options.weight, titles, "weight", table.label)
    elif options.weighted is not False and len(first) == 3:
        weight = next(i for i in range(3) if i not in (source, target))
    elif options.weighted is True:
        raise GraphError(
            f"{table.label}, line {line}: weighted=True but there is no column of weights: {shown(table.line(line))}."
        )
    said = f"source {titles[source]}, target {titles[target]}, "
    said += "no weight" if weight is None else f"weight {titles[weight]}"
    ignored = tuple(title for i, title in enumerate(titles) if i not in (source, target, weight))
    return EdgeColumns(source, target, weight, said, ignored)


def _column_count(table: TextTable, line: int, count: int) -> str:
    extra = (
        ""
        if count < 2
        else "; name the columns source, target and weight in a header, or pass source= and target="
    )
    return f"{table.label}, line {line}: expected 2 or 3 columns, found {count}: {shown(table.line(line))}{extra}."


# ---------------------------------------------------------------------- rows


def _parse_fast(table: TextTable, layout: Layout) -> EdgeTable | None:
    """Integer ids (and weights) through NumPy's C reader; None when the file is not that plain."""
    columns = layout.columns
    used = [columns.source, columns.target] + ([] if columns.weight is None else [columns.weight])
    if used != list(range(layout.count)) or layout.dicts or table.quoted or table.comments != "#%":
        return None
    fields: list[tuple[str, str]] = [("u", "<i8"), ("v", "<i8")]
    if columns.weight is not None:
        fields.append(("w", "<f8"))
    data = table.data
    if layout.first_line > 1:
        data = data.split(b"\n", layout.first_line - 1)[-1]
    if written_differently(data, table.delimiter):
        return None
    rows = load_table(data, fields, table.delimiter)
    if rows is None:
        return None
    ends = np.empty((rows.size, 2), dtype=np.int64)
    ends[:, 0], ends[:, 1] = rows["u"], rows["v"]
    if rows.size == 0 or ends.min() < 0 or ends.max() >= 10**18:
        return None
    weight = None
    if columns.weight is not None:
        weight = np.ascontiguousarray(rows["w"])
        if not (weight.min() >= 0 and np.isfinite(weight.max())):
            return None
    return EdgeTable(ends, None, weight)


def written_differently(data: bytes, delimiter: str) -> bool:
    """Whether a number has a leading zero or plus: then ids are text, since 01 and 1 are two of them.

    >>> written_differently(b"1,2", ","), written_differently(b"1,02", ",")
    (False, True)
    """
    symbols = np.frombuffer(data, dtype=np.uint8)
    separators = [10, 32, 9, ord(delimiter) % 256]

    def begins(places: np.ndarray) -> np.ndarray:
        return (places == 0) | np.isin(symbols[places - 1], separators)

    zeros = np.flatnonzero(symbols[:-1] == 48)
    after = symbols[zeros + 1]
    if bool(begins(zeros[(after >= 48) & (after <= 57)]).any()):
        return True
    return b"+" in data and bool(begins(np.flatnonzero(symbols == 43)).any())


def _parse_rows(table: TextTable, layout: Layout) -> tuple[EdgeTable, list[str]]:
    """Any ids, row by row, naming the line of the first mistake."""
    label, position = table.label, {}  # type: str, dict[str, int]
    ends: list[int] = []
    weights: list[str] = []
    lines: list[int] = []
    columns, count = layout.columns, layout.count
    source, target, column = columns.source, columns.target, columns.weight
    rows = table.rows()
    if layout.dicts:
        plain = "\n".join(_without_dict(line, column) for line in table.text.split("\n"))
        rows, count = table.rows(plain), (2 if column is None else 3)
    for number, fields in rows:
        if number < layout.first_line:
            continue
        if len(fields) != count:
            expected = "2 or 3 columns" if len(fields) < 2 else f"{count} columns"
            where = "" if len(fields) < 2 else f" as on line {layout.first_line}"
            raise FileFormatError(
                f"{label}, line {number}: expected {expected}{where}, found {len(fields)}: {shown(table.line(number))}."
            )
        u, v = fields[source], fields[target]
        if not u or not v:
            raise FileFormatError(f"{label}, line {number}: a node id is empty: {shown(table.line(number))}.")
        ends.append(position.setdefault(u, len(position)))
        ends.append(position.setdefault(v, len(position)))
        if column is not None:
            weights.append(fields[column])
            lines.append(number)
    pairs = np.array(ends, dtype=np.int64).reshape(-1, 2)
    values, said = (None, "") if column is None else _weights(weights, lines, table)
    return whole_numbers(EdgeTable(pairs, list(position), values)), [said] if said else []


def _weights(fields: list[str], lines: list[int], table: TextTable) -> tuple[np.ndarray, str]:
    label = table.label
    values, said = column_of_numbers(fields, table.delimiter)
    if values is None:
        at = first_wrong(fields)
        if is_number(fields[at]):  # each alone is one: it is the commas
            at = next(i for i, field in enumerate(fields) if "," in field)
            raise FileFormatError(f"{label}, line {lines[at]}: {mixed_commas(fields[at])}")
        raise FileFormatError(
            f"{label}, line {lines[at]}: the weight {shown(fields[at])} is not a number; correct it, or pass "
            "weighted=False to ignore this column."
        )
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(~((values >= 0) & (values < np.inf)))
    if wrong.size:
        at = int(wrong[0])
        kind = "negative" if -np.inf < values[at] < 0 else "not finite"
        raise FileFormatError(
            f"{label}, line {lines[at]}: the weight {shown(fields[at])} is {kind}; weights must be "
            "non-negative, finite numbers."
        )
    return values, said


def _without_dict(line: str, column: int | None) -> str:
    """'0 1 {'weight': 2.0}' as '0 1 2.0'; an edge without a weight weighs 1."""
    match = _DICT_TAIL.match(line.strip())
    if match is None:
        return line
    if column is None:
        return match[1]
    weight = _DICT_WEIGHT.search(match[2])
    return f"{match[1]} {weight[1] if weight else 1}"
