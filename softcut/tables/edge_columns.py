"""Edges with ids: which columns hold them, what the ids mean, and how features are joined to them by id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from softcut.errors import Argument, GraphError, Note, ParameterError, Sentence
from softcut.tables.arrays import listed, plural, shown, warn_caller
from softcut.tables.columns import (
    INTEGER_ID,
    STRICT_ID_NAMES,
    FeatureOptions,
    FeatureTable,
    InputTable,
    looks_like_id,
    position_of,
)
from softcut.tables.feature_columns import feature_table

# Pairs of titles that mean "the two ends of an edge".
_PAIRS = (
    "source/target src/dst from/to u/v i/j source_id/target_id sourceid/targetid node1/node2 node_1/node_2 "
    "id1/id2 id_1/id_2 from_node/to_node fromnodeid/tonodeid from_id/to_id head/tail start/end"
)
END_NAMES = [(pair.split("/")[0], pair.split("/")[1]) for pair in _PAIRS.split()]
# What to pass where the columns cannot be told.
SOURCE_AND_TARGET = Sentence(Argument("source", text="source="), " and ", Argument("target", text="target="))
WEIGHT_NAMES = ("weight", "weights", "edge_weight", "w", "value", "strength", "count", "similarity")


@dataclass(frozen=True)
class EdgeColumns:
    """Where a table keeps the two ends and the weight of its edges, what to say of that, and what it ignores."""

    source: int
    target: int
    weight: int | None
    said: str
    ignored: tuple[str, ...] = ()
    titles: tuple[str, str] | None = None  # of the two ends

    @classmethod
    def of(
        cls, titles: Sequence[str], a: int, b: int, w: int | None, word: Callable[[str], str] = repr
    ) -> EdgeColumns:
        """The columns at these places; `word` writes a title."""
        weight = "no weight" if w is None else f"weight {word(titles[w])}"
        said = f"source {word(titles[a])}, target {word(titles[b])}, {weight}"
        ignored = (title or f"column {i + 1}" for i, title in enumerate(titles) if i not in (a, b, w))
        return cls(a, b, w, said, tuple(ignored), (titles[a], titles[b]))

    def note(self, begin: str = "") -> Note:
        """What was understood."""
        ignored = f", ignored {listed(self.ignored)}" if self.ignored else ""
        places = {"source": self.source, "target": self.target, "weight": self.weight}
        return Note("edge_columns", begin, self.said, ignored, **places, ignored=self.ignored)


@dataclass(frozen=True)
class EdgeTable:
    """Edges as read. ``ends`` [E, 2] holds integer ids, or positions in ``names``.

    ``titles`` are those of the two columns; ``kinds`` are set where they hold two kinds of nodes.
    """

    ends: np.ndarray
    names: list[str] | None
    weight: np.ndarray | None
    titles: tuple[str, str] | None = None
    kinds: tuple[str, str] | None = None


def choose_edge_columns(
    titles: Sequence[str],
    label: str,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | None = None,
    weighted: bool | str = "auto",
    rows: Sequence[Sequence[str]] = (),
) -> EdgeColumns:
    """The columns of a titled table to use as source, target and weight: as asked for, else by their titles.

    `rows` are a few rows of the table, which show whether the first of three columns only numbers the rows.

    >>> choose_edge_columns(["id", "Source", "Target", "year"], "links.csv").note()
    "source 'Source', target 'Target', no weight, ignored 'id', 'year'"
    """
    lowered = [title.strip().lower() for title in titles]
    a = None if source is None else position_of(source, titles, "source", label)
    b = None if target is None else position_of(target, titles, "target", label)
    if a is None or b is None:
        a, b = _ends(titles, lowered, a, b, label, rows)
    if a == b:
        raise ParameterError(
            Argument("source"),
            " and ",
            Argument("target"),
            f" are both column {titles[a]!r} of {label}: name two columns.",
        )
    w: int | None = None
    if weight is not None:
        w = position_of(weight, titles, "weight", label)
        if w in (a, b):
            raise ParameterError(
                f"weight is column {titles[w]!r} of {label}, which holds the ids of nodes.", argument="weight"
            )
    elif weighted is not False:
        titled = [lowered.index(name) for name in WEIGHT_NAMES if name in lowered]
        w = next((i for i in titled if i not in (a, b)), None)
        if w is None and weighted is True:
            raise GraphError(
                f"{label}: ",
                Argument("weighted", True),
                f" but no column is called {listed(WEIGHT_NAMES)}: pass ",
                Argument("weight", text="weight="),
                " with a title.",
            )
    for name, at, asked in (("source", a, source), ("target", b, target), ("weight", w, weight)):
        if at is not None and asked in (None, titles[at]) and list(titles).count(titles[at]) > 1:
            raise GraphError(
                f"{label} has more than one column {titles[at]!r}: name one of them by its position, such as ",
                Argument(name, at),
                ", or rename the others.",
            )
    return EdgeColumns.of(titles, a, b, w)


def _ends(
    titles: Sequence[str],
    lowered: list[str],
    a: int | None,
    b: int | None,
    label: str,
    rows: Sequence[Sequence[str]],
) -> tuple[int, int]:
    """Source and target by their titles, or the only two columns that can be meant."""
    for first, second in END_NAMES:
        if first in lowered and second in lowered:
            i, j = lowered.index(first), lowered.index(second)
            return (i if a is None else a), (j if b is None else b)
    ids = [i for i, title in enumerate(titles) if looks_like_id(title) and lowered[i] not in STRICT_ID_NAMES]
    if a is None and b is None and len(ids) == 2:  # "user_id" and "movie_id"
        return ids[0], ids[1]
    rest = [i for i in range(len(titles)) if i not in (a, b)]
    if a is not None or b is not None:
        if len(rest) == 1:
            return (rest[0] if a is None else a), (rest[0] if b is None else b)
    else:
        # A leading column that numbers the rows is no end of an edge; neither is a weight.
        if len(rest) > 2 and (looks_like_id(titles[rest[0]]) or _only_numbers_rows(titles, rows, label)):
            rest = rest[1:]
        ends = [i for i in rest if lowered[i] not in WEIGHT_NAMES]
        if len(rest) in (2, 3) and len(ends) >= 2:
            return ends[0], ends[1]
    raise GraphError(
        f"{label} has the columns {listed(titles)}: name two of them source and target, or pass ",
        SOURCE_AND_TARGET,
        ".",
    )


def _only_numbers_rows(titles: Sequence[str], rows: Sequence[Sequence[str]], label: str) -> bool:
    """Whether the first of three columns counts the rows, while the other two hold the same nodes."""
    full = [row for row in rows if len(row) == 3]
    if len(titles) != 3 or len(full) < 3:
        return False
    first, second, third = ([row[i] for row in full] for i in range(3))
    counts = any(first == [str(i + start) for i in range(len(first))] for start in (0, 1))
    if not counts or not set(second) & set(third) or titles[2].strip().lower() in WEIGHT_NAMES:
        return False
    if set(first) & set(second):
        raise GraphError(
            f"{label} has the columns {listed(titles)}, of which the first may number the rows or be a node: "
            "pass ",
            SOURCE_AND_TARGET,
            ".",
        )
    return True


def edge_table_of_labels(edges: Iterable[Sequence[str]], weight: np.ndarray | None = None) -> EdgeTable:
    """Edges between ids given as text; ids that are all plain integers become integers."""
    position: dict[str, int] = {}
    ends = [position.setdefault(end, len(position)) for edge in edges for end in edge]
    empty = next((place for name, place in position.items() if not name.strip()), None)
    if empty is not None:
        raise GraphError(
            f"edge {ends.index(empty) // 2} has an end without a name: name it, or leave the edge out."
        )
    return whole_numbers(EdgeTable(np.array(ends, np.int64).reshape(-1, 2), list(position), weight))


def whole_numbers(edges: EdgeTable) -> EdgeTable:
    """The same edges with integers as ids, where every id is a plain integer."""
    if edges.names and all(INTEGER_ID.fullmatch(name) for name in edges.names):
        ids = np.array([int(name) for name in edges.names], dtype=np.int64)
        return replace(edges, ends=ids[edges.ends], names=None)
    return edges


def edges_of_table(
    edges: EdgeTable,
    label: str,
    features: InputTable | FeatureTable | None = None,
    options: FeatureOptions | None = None,
) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for edges between ids, and the features joined to them."""
    table, options = None, options or FeatureOptions()
    if features is not None:
        ids = np.unique(edges.ends).tolist() if edges.names is None else edges.names
        table = feature_table(features, options, [str(i) for i in ids], _counted(edges) is not None)
    notes: list[Note] = []
    if table is not None and table.ids is not None:
        ends, names, x, notes = _joined_by_id(edges, table, label, options.missing)
        n = int(x.shape[0])
    else:
        ends, n, names, kind = _numbered(edges, table, label)
        x = None if table is None else table.x
        notes.append(_ids_note(kind))
        if table is not None:
            notes += _said_of(table, "rows joined by position")
    return {
        "edge_index": ends.T,
        "edge_weight": edges.weight,
        "num_nodes": n,
        "node_names": names,
        "x": x,
        "feature_names": None if table is None else table.names,
        "schema": None if table is None else table.schema,
        "node_kinds": None if edges.kinds is None else _kinds_of_nodes(ends, edges.kinds, names, n),
        "notes": notes,
    }


def _kinds_of_nodes(ends: np.ndarray, kinds: tuple[str, str], names: list[str] | None, n: int) -> list[str]:
    """The kind of each node: that of the column it stands in; by its name where it has no edge, "" where unknown."""
    side = np.full(n, -1)
    for i in (0, 1):
        side[ends[:, i]] = i
    for node in np.flatnonzero(side < 0):
        name = "" if names is None else names[node]
        side[node] = next((i for i in (0, 1) if name.startswith(f"{kinds[i]} ")), -1)
    return [(*kinds, "")[i] for i in side]


def _ids_note(kind: str) -> Note:
    return Note("ids", f"ids {kind}", kind=kind)


def _said_of(table: FeatureTable, how: str) -> list[Note]:
    of = "" if table.label == "features" else f" of {table.label}"
    columns = int(table.x.shape[1])
    how = "" if table.by_position else f", {how}"
    return [
        Note("features", f"features{of}: {plural(columns, 'column')}{how}", columns=columns),
        *table.notes,
    ]


def _counted(edges: EdgeTable) -> int | None:
    """0 or 1 where the ids count the nodes from there (up to half may be missing), None where they are names."""
    if edges.names is not None:
        return None
    low, high = int(edges.ends.min()), int(edges.ends.max())
    if low not in (0, 1) or high > 2 * edges.ends.size:
        return None
    distinct = int(np.count_nonzero(np.bincount(edges.ends.ravel())))  # faster than sorting many ids
    return low if high < 2 * distinct + low else None


def _by_name(edges: EdgeTable) -> tuple[np.ndarray, list[str]]:
    """Ends as positions in a list of names, in the order the table mentions them."""
    if edges.names is not None:
        return edges.ends, edges.names
    ids, first, inverse = np.unique(edges.ends.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[inverse].reshape(-1, 2), [str(i) for i in ids[order].tolist()]


def _numbered(
    edges: EdgeTable, table: FeatureTable | None, label: str
) -> tuple[np.ndarray, int, list[str] | None, str]:
    """Node indices, node count, names and what the ids are, for features without ids or none at all."""
    rows = None if table is None else int(table.x.shape[0])
    if edges.names is None:
        low, high = int(edges.ends.min()), int(edges.ends.max())
        start = _counted(edges)
        if table is not None and rows is not None:
            if high >= rows and not (low >= 1 and high == rows):
                raise GraphError(
                    f"{table.label} has {rows} rows but {label} has node {high}: give one row per "
                    "node (row i for node i), or a column with the node ids."
                )
            start = 0 if high < rows else 1
            if table.may_begin_with_titles and rows == high + (2 if low == 0 else 1):
                way = Argument("features_header", True)
                warn_caller(
                    Sentence(
                        f"{table.label} has one row more than {label} has nodes; pass ",
                        way,
                        " if row 1 holds titles.",
                    )
                )
        if start == 0:
            return edges.ends, rows or high + 1, None, "are node indices"
        if start == 1:
            return edges.ends - 1, high, [str(i) for i in range(1, high + 1)], "count nodes from 1"
    elif table is not None and rows is not None:
        first, last, count = edges.names[0], edges.names[-1], len(edges.names)
        if rows != count:
            raise GraphError(
                f"{table.label} has {plural(rows, 'row')} and no node ids, but {label} has {plural(count, 'node')} "
                f"with names (the first is {first!r}): give a table with a column of those names."
            )
        warn_caller(
            f"{table.label} has no node ids: its rows were joined to the nodes of {label} in the order in which these "
            f"are first mentioned, from {first!r} to {last!r}; give a table with a column of the names to join by them."
        )
    ends, names = _by_name(edges)
    kind = "numbers with gaps, kept as names" if edges.names is None else "text"
    return ends, len(names), names, f"are {kind}"


def _joined_by_id(
    edges: EdgeTable, table: FeatureTable, label: str, missing: str
) -> tuple[np.ndarray, list[str] | None, Any, list[Note]]:
    """Node indices, names, features joined by id, and notes; nodes that only the features know are isolated."""
    assert table.ids is not None
    ends, names = _by_name(edges)
    known = set(names)
    extra = [name for name in table.ids if name not in known]
    names = names + extra
    n = len(names)
    labels: list[str] | None = names
    if edges.names is None and all(INTEGER_ID.fullmatch(name) for name in names):
        # Ids that fill 0..N-1 or 1..N keep their numerical order, as they would without features.
        values = np.array([int(name) for name in names], dtype=np.int64)
        start = int(values.min())
        if start in (0, 1) and int(values.max()) == n - 1 + start:
            ends = (values - start)[ends]
            names = [str(i) for i in range(start, n + start)]
            labels = None if start == 0 else names
    x, said = rows_of_nodes(table, names, missing, label)
    kind = "integers" if edges.names is None else "text"
    notes = [_ids_note(f"are {kind}"), *_said_of(table, said)]
    if extra:
        notes.append(nodes_without_edges(table, extra))
    return ends, labels, x, notes


def nodes_without_edges(table: FeatureTable, names: Sequence[str]) -> Note:
    """Says how many nodes only the features know."""
    said = f"{plural(len(names), 'node')} only in {table.label}, without edges"
    return Note("nodes_without_edges", said, count=len(names))


def rows_of_nodes(table: FeatureTable, names: Sequence[str], missing: str, label: str) -> tuple[Any, str]:
    """The rows of these nodes in their order, and in words how they were found."""
    assert table.ids is not None
    row = {name: i for i, name in enumerate(table.ids)}
    if len(row) < len(table.ids):
        repeated = next(name for i, name in enumerate(table.ids) if row[name] != i)
        raise GraphError(f"{table.label} has more than one row for node {repeated!r}: keep one.")
    order = np.array([row.get(name, -1) for name in names], dtype=np.int64)
    absent = np.flatnonzero(order < 0)
    said = f"joined by {table.id_origin}"
    if not absent.size:
        return table.x[order], said
    if missing not in ("zero", "mean"):
        first = names[absent[0]]
        others = f" and {absent.size - 1} more" if absent.size > 1 else ""
        alike = (name for name in table.ids if name.lstrip("0") == first.lstrip("0"))
        other = next(alike, None) if first.isdecimal() else None
        hint = "" if other is None else f"; ids are compared as text, and {other!r} is another id"
        raise GraphError(
            f"{table.label} has no row for node {shown(first)}{others} of {label}: add the missing rows{hint}."
        )
    if not isinstance(table.x, np.ndarray):
        raise GraphError(
            f"{table.label}: missing rows of sparse features cannot be filled; add them to the file."
        )
    x = table.x[order]
    x[absent] = table.x.mean(axis=0) if missing == "mean" else 0.0
    return x, f"{said}, {plural(int(absent.size), 'node')} without a row filled with {missing}s"


def names_of_rows(n: int, table: FeatureTable) -> list[str]:
    """Names of unnamed nodes: counted from 0, or from 1 where the ids of the features are."""
    start = 0 if "0" in (table.ids or ()) else 1
    return [str(i) for i in range(start, n + start)]
