"""Data frames of pandas and polars, without importing either: a module that was never loaded made no frame."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from softcut.errors import Argument, GraphError, Note, ParameterError
from softcut.tables.arrays import as_array, listed, plural
from softcut.tables.bipartite import separated
from softcut.tables.column_kinds import texts_of
from softcut.tables.columns import Column, FeatureOptions, FeatureTable, InputTable, column_of_values, text_of
from softcut.tables.edge_columns import (
    END_NAMES,
    SOURCE_AND_TARGET,
    EdgeColumns,
    EdgeTable,
    choose_edge_columns,
    edge_table_of_labels,
    edges_of_table,
    names_of_rows,
    rows_of_nodes,
)
from softcut.tables.feature_columns import feature_table
from softcut.tables.schema import TableSchema

# Where the options of reading a table are: fit and most constructors have none.
_WHERE = "Such options are arguments of Graph.from_frame(edges, nodes, ...) and read_graph."


@dataclass(frozen=True)
class NodeTable:
    """A data frame with one row per node, and how to read it."""

    frame: Any
    options: FeatureOptions = field(default_factory=FeatureOptions)

    @property
    def shape(self) -> tuple[int, int]:
        """That of the frame."""
        return self.frame.shape


def is_node_table(value: Any) -> bool:
    """Whether features are a data frame, with or without options of reading it."""
    return isinstance(value, NodeTable) or is_frame(value)


@contextmanager
def reading_options_named(of: Any = None) -> Iterator[None]:
    """Errors inside that advise an option of reading say where that option is, unless `of` came with its options."""
    try:
        yield
    except (GraphError, ParameterError) as error:
        options = FeatureOptions.__dataclass_fields__
        advised = any(isinstance(p, Argument) and p.name in options for p in error.sentence.pieces)
        if not advised or isinstance(of, NodeTable) or _WHERE in str(error):
            raise
        raise type(error)(error.sentence, f" {_WHERE}") from None


def is_frame(value: Any) -> bool:
    """Whether a value is a data frame of pandas or polars."""
    return _is(value, "pandas", "DataFrame") or _is(value, "polars", "DataFrame")


def _is(value: Any, module: str, kind: str) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, kind))


def table_of_frame(frame: Any, label: str) -> InputTable:
    """The columns of a frame, with its index where that is more than a row number."""
    pandas = _is(frame, "pandas", "DataFrame")
    values, titles = (frame.iloc if pandas else frame), [text_of(title) for title in frame.columns]
    columns = [_column(title, values[:, i]) for i, title in enumerate(titles)]
    index = _labels(frame.index) if pandas and not _counts_rows(frame.index) else None
    if not columns or len(frame) == 0:
        raise GraphError(
            f"{label} is a data frame of shape ({len(frame)}, {len(columns)}): it has no values."
        )
    # Columns called 0, 1, 2, ... were never named.
    titled = titles != [str(i) for i in range(len(titles))]
    return InputTable(label, columns, titled, index)


def _column(title: str, series: Any) -> Column:
    """A column of a series; a categorical type says what it is, even where the values are numbers."""
    if not str(series.dtype).lower().startswith(("categor", "enum")):
        return column_of_values(title, series.to_numpy())
    column = column_of_values(title, np.asarray(series.to_list(), dtype=object))
    return Column(title, text=texts_of(column), declared="category")


def _labels(index: Any) -> list[str]:
    return [text_of(value) for value in index.tolist()]


def _counts_rows(index: Any) -> bool:
    """Whether an index is 0, 1, 2, ... and hence says nothing."""
    return bool(index.dtype.kind in "iu") and bool(np.array_equal(index.to_numpy(), np.arange(len(index))))


def labelled_adjacency(frame: Any, label: str) -> tuple[np.ndarray, list[str] | None] | None:
    """A square frame whose rows and columns have the same labels, columns put in the order of the rows."""
    rows, columns = frame.shape
    pandas = _is(frame, "pandas", "DataFrame")
    if pandas and rows == columns:
        names, titles, values = _labels(frame.index), [text_of(title) for title in frame.columns], frame
    elif columns == rows + 1 and rows > 1:
        table = table_of_frame(frame, label)
        first = table.columns[0].labels()
        if first is None:
            return None
        names, titles = first, [column.title for column in table.columns[1:]]
        values = (frame.iloc if pandas else frame)[:, 1:]
    else:
        return None
    if set(names) != set(titles):
        return None
    for kind, labels in (("rows", names), ("columns", titles)):
        if len(set(labels)) < len(labels):
            repeated = next(name for i, name in enumerate(labels) if name in labels[:i])
            raise GraphError(
                f"{label} is a matrix with {kind} of the same label {repeated!r}: labels must be unique."
            )
    matrix = as_array(values.to_numpy(), label)
    place = {title: j for j, title in enumerate(titles)}
    matrix = matrix[:, [place[name] for name in names]]
    counted = names == [str(i) for i in range(rows)]
    if counted and rows in (2, 3) and not np.array_equal(matrix, matrix.T):
        _raise_ambiguous(label)  # three rows of source, target and weight are square, too
    return matrix, (None if counted else names)


def _raise_ambiguous(label: str) -> NoReturn:
    raise GraphError(
        f"{label} is a square data frame without labels on its rows, which may be a matrix or edges: call "
        "Graph.from_dense with frame.to_numpy(), or Graph.from_frame with ",
        SOURCE_AND_TARGET,
        ".",
    )


def edges_of_frame(
    frame: Any,
    label: str,
    source: str | int | None = None,
    target: str | int | None = None,
    weight: str | int | None = None,
    weighted: bool | str = "auto",
) -> tuple[EdgeTable, EdgeColumns]:
    """Edges of a frame that has one edge per row, and the columns they were taken from."""
    table = table_of_frame(frame, label)
    titles = [column.title for column in table.columns]
    lowered = {title.lower() for title in titles}
    known = any(a in lowered and b in lowered for a, b in END_NAMES)
    numbers = all(column.numbers is not None for column in table.columns)
    if source is target is weight is None and not known and numbers and len(frame) == len(titles) > 1:
        _raise_ambiguous(label)
    rows: list[list[str]] = []
    if len(titles) == 3 and not known:
        shown = [(column.labels() or [])[:1000] for column in table.columns]
        rows = [list(row) for row in zip(*shown, strict=False)]
    columns = choose_edge_columns(titles, label, source, target, weight, weighted, rows)
    ends = []
    for argument, at in (("source", columns.source), ("target", columns.target)):
        labels = table.columns[at].labels()
        empty = next((row for row, name in enumerate(labels or ()) if not name.strip()), None)
        if labels is None or empty is not None:
            row = empty or 0
            raise GraphError(
                f"{table.place(row, at)}: the {argument} is missing or not a node id; correct it or drop the row."
            )
        ends.append(labels)
    weights = None
    if columns.weight is not None:
        weights = table.columns[columns.weight].numbers
        if weights is None:
            raise GraphError(
                f"{label}: the weights in column {titles[columns.weight]!r} are not numbers; pass ",
                Argument("weighted", False),
                f" or another of {listed(titles)}.",
            )
    edges = edge_table_of_labels(zip(*ends, strict=True), weights)
    return replace(edges, titles=columns.titles), columns


def aligned_series(values: Any, node_names: list[str] | None) -> Any:
    """A pandas series in the order of the nodes it is labelled with; anything else as it is."""
    if not _is(values, "pandas", "Series") or node_names is None or _counts_rows(values.index):
        return values
    labels = _labels(values.index)
    place = {name: i for i, name in enumerate(labels)}
    if len(place) < len(labels) or not set(node_names) & set(labels):
        return values
    absent = [name for name in node_names if name not in place]
    if absent:
        raise GraphError(f"y has no value for node {absent[0]!r}: label one value per node.")
    return values.to_numpy()[[place[name] for name in node_names]]


def features_of_frame(
    frame: Any, n: int, node_names: list[str] | None
) -> tuple[np.ndarray, list[str] | None, list[Note], TableSchema | None]:
    """Features in the order of the nodes, their names, in words how the rows were joined, what the columns are."""
    given = frame if isinstance(frame, NodeTable) else NodeTable(frame)
    unique = node_names is None or len(set(node_names)) == len(node_names)
    known = [str(i) for i in range(n)] if node_names is None else node_names
    # The graphs of a batch may share names: their rows can only be joined by position.
    rows = table_of_frame(given.frame, "x")
    table = feature_table(rows, given.options, known if unique else None, named=node_names is not None)
    if table.ids is None or not unique:
        return table.x, table.names, list(table.notes), table.schema
    names = names_of_rows(n, table) if node_names is None else node_names
    x, said = rows_of_nodes(table, names, given.options.missing, "the graph")
    notes = [Note("features", f"features {said}"), *table.notes]
    others = len(table.ids) - n
    if others > 0:
        notes.append(Note("rows_left_out", f"{plural(others, 'row')} of other nodes left out", count=others))
    return x, table.names, notes, table.schema


def edges_with_features(
    edges: EdgeTable, x: Any, notes: Sequence[str] = (), bipartite: bool | None = None
) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for edges between ids and features, a data frame or an array."""
    features: InputTable | FeatureTable | None = None
    options = x.options if isinstance(x, NodeTable) else FeatureOptions()
    if is_node_table(x):
        features = table_of_frame(x.frame if isinstance(x, NodeTable) else x, "x")
    elif x is not None:
        features = FeatureTable("x", x if sp.issparse(x) else as_array(x, "x"))
    edges, features, options, said = separated(edges, bipartite, features, options)
    parts = edges_of_table(edges, "the graph", features, options)
    return {**parts, "notes": [*notes, *said, *parts["notes"]]}


def rows_by_name(frame: Any, names: list[str] | None, n: int) -> np.ndarray | None:
    """The row of each of n nodes in a frame, -1 where it has none; None where rows and nodes have nothing in common.

    Rows are known by the index or by the column that holds most of the names, each once; without either row i is node
    i where there are as many.
    """
    table = table_of_frame(frame, "nodes")
    known = [str(i) for i in range(n)] if names is None else names
    best: np.ndarray | None = None
    columns = [] if names is None else [column.labels() for column in table.columns]
    for labels in (table.index, *columns):
        if labels is None or len(set(labels)) < len(labels):
            continue
        place = {label: row for row, label in enumerate(labels)}
        rows = np.array([place.get(name, -1) for name in known])
        if (rows >= 0).any() and (best is None or (rows >= 0).sum() > (best >= 0).sum()):
            best = rows
    return np.arange(n) if best is None and table.num_rows == n and names is None else best
