"""The features of a table: which column holds the ids of the nodes, and the matrix of the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from softcut.errors import Argument, GraphError, Note, ParameterError
from softcut.tables.arrays import listed
from softcut.tables.column_kinds import decide_columns, has_gaps, places, with_numbers
from softcut.tables.columns import (
    INTEGER_ID,
    STRICT_ID_NAMES,
    Column,
    FeatureOptions,
    FeatureTable,
    InputTable,
    is_number,
    looks_like_id,
    position_of,
)
from softcut.tables.dates import ISO, day_of
from softcut.tables.feature_matrix import feature_matrix, left_out_note, places_of_rules
from softcut.tables.problems import Problems
from softcut.tables.schema import TableSchema

# With fewer rows, a feature may hold the numbers of the nodes by chance.
_FEW_ROWS = 10
_WHOLE = re.compile(r"(?:0|[1-9][0-9]*)\.0*")


def feature_table(
    table: InputTable | FeatureTable,
    options: FeatureOptions,
    known: Sequence[str] | None = None,
    ordered: bool = True,
    named: bool = True,
) -> FeatureTable:
    """The features of a table, with the column of ids set apart; a matrix of features is returned as it is.

    `known` are the names of the nodes that need a row (None: there is no graph), `ordered` says whether they count the
    nodes, `named` whether somebody wrote them: ids that match none of them are refused then. Rows of nodes that are
    only numbered are joined by position.

    >>> table = InputTable("x", [Column("user_id", np.array([7, 5])), Column("age", np.array([31.0, 45.0]))])
    >>> made = feature_table(table, FeatureOptions(), known=["5", "7"])
    >>> made.ids, made.x.ravel().tolist(), made.names
    (['7', '5'], [31.0, 45.0], ['age'])
    """
    if isinstance(table, FeatureTable):
        options.check_table(table.label)
        return table
    problems = Problems(table)
    ids = _choose_ids(table, options, known, ordered, named)
    if ids.labels is not None:
        empty = next((row for row, name in enumerate(ids.labels) if not name.strip()), None)
        if empty is not None and ids.at is not None:
            raise GraphError(
                f"{table.place(empty, ids.at)}: the node id is empty; fill it in, or drop that row."
            )
        if known is not None and named and set(known).isdisjoint(ids.labels):
            raise _no_common_id(table, ids.at, ids.labels, known)
    if len(table.columns) == (ids.at is not None):
        place = f"{table.label}, line {table.lines[0]}" if table.lines else table.label
        raise GraphError(f"{place}: expected at least one feature beside the node id.")
    table, schema = with_numbers(table), options.schema
    if schema is not None:
        where, others = places_of_rules(table, ids.at, schema)
        notes = [schema.note, *others]
        x, said = feature_matrix(table, schema, where, problems, options.missing)
        notes += said
    else:
        schema = decide_columns(table, ids.at, options, problems)
        notes = [schema.note, *_left_out(table, schema, ids.at, problems)]
        x, said = feature_matrix(table, schema, range(len(table.columns)), problems)
        notes += said
    names = schema.names if table.titled and schema.titled else None
    return FeatureTable(
        table.label, x, ids.labels, names, ids.origin, (*table.notes, *ids.notes, *notes), schema
    )


def _left_out(table: InputTable, schema: TableSchema, ids: int | None, problems: Problems) -> list[Note]:
    """What to say about columns that are not used; an error where no column is left."""
    gaps = [
        _name(table, i)
        for i, rule in enumerate(schema.columns)
        if rule.kind == "dropped" and schema.missing == "drop" and has_gaps(table.columns[i], rule)
    ]
    if not schema.names:
        problems.check()
        if gaps:
            raise GraphError(
                f"{table.label}: every column has missing values; pass ",
                Argument("missing", "zero"),
                " or 'mean'.",
            )
        texts = [
            table.called(i)
            for i, rule in enumerate(schema.columns)
            if rule.kind in ("id", "text") and i != ids
        ]
        if not texts:
            raise GraphError(f"{table.label} has no column left that holds values; leave out fewer.")
        raise GraphError(
            f"{table.label} has no column that tells nodes apart: {listed([str(t) for t in texts])} left out as ids or "
            "free text; add others, or pass ",
            Argument("categories", texts),
            " to make a column of 0 and 1 of every value.",
        )
    notes = []
    if gaps:
        said = f"columns with missing values left out: {', '.join(gaps)}"
        notes.append(Note("missing_dropped", said, columns=gaps))
    note = left_out_note(table, schema)
    return notes if note is None else [*notes, note]


# ---------------------------------------------------------------------- ids


class _Ids(NamedTuple):
    """Position of the column of ids (None: no column), the ids (None: no ids), where they are from, what to say."""

    at: int | None = None
    labels: list[str] | None = None
    origin: str = ""
    notes: tuple[Note, ...] = ()


def _choose_ids(
    table: InputTable, options: FeatureOptions, known: Sequence[str] | None, ordered: bool, named: bool
) -> _Ids:
    """The ids of the rows: as asked for, else the column with the names of the nodes, else one that is called id."""
    if options.ids is False:
        return _Ids()
    if options.ids is not None:
        titles = [c.title if table.titled else f"column {i + 1}" for i, c in enumerate(table.columns)]
        asked = position_of(options.ids, titles, "ids", table.label)
        names = table.columns[asked].labels()
        if names is None:
            raise ParameterError(
                f"ids names column {asked + 1} of {table.label}, whose values are no ids.", argument="ids"
            )
        return _unique_ids(table, asked, names)
    wanted = set(known or ())
    if options.schema is not None and options.schema.ids in (titles := [c.title for c in table.columns]):
        as_before = titles.index(options.schema.ids)  # the column that held them in the table of the fit
        names = table.columns[as_before].labels()
        if names is not None and (known is None or not wanted.isdisjoint(names)):
            return _unique_ids(table, as_before, names)
    if known is not None and ordered:
        _refuse_hidden_ids(table, known)
    candidates = _candidates(table, options, known)
    if known is not None:
        for at, labels in candidates:
            if _is_join(table, at, labels, wanted):
                return _unique_ids(table, at, labels)
    # No column holds every name: one that is called id, or a first column of text, still is a column of ids.
    unknown: _Ids | None = None
    for at, labels in candidates:
        if at is not None:
            column = table.columns[at]
            in_front = at == 0 and options.categories is not True and _is_text(column)
            if not in_front and not _titled_id(table, at):
                continue
            if len(set(labels)) < len(labels):
                # Ids that repeat are a mistake; numbers and words that repeat are a feature.
                strict = table.titled and column.title.strip().lower() in STRICT_ID_NAMES
                if strict or (_is_text(column) and not wanted.isdisjoint(labels)):
                    return _unique_ids(table, at, labels)
                continue
        ids = _Ids(at, labels, _origin(table, at))
        if known is None or not wanted.isdisjoint(labels):
            return ids
        if not named and table.num_rows == len(known):
            said = f"no id of {ids.origin} is a node: rows joined by position"
            return _Ids(at, notes=(Note("joined_by_position", said),))
        if named or at is not None:
            unknown = unknown or ids
    return unknown or _Ids()


def _no_common_id(
    table: InputTable, at: int | None, labels: Sequence[str], known: Sequence[str]
) -> GraphError:
    """Two sides that have no id in common, such as 001 and 1."""
    return GraphError(
        f"{table.label}: no id of {_origin(table, at)} is a node; the ids are {listed(labels, 3)}, the nodes "
        f"{listed(known, 3)}: write both alike, or pass ",
        Argument("ids", False) if at is None else Argument("drop", [table.called(at)]),
        " if row i belongs to node i.",
    )


def _candidates(
    table: InputTable, options: FeatureOptions, known: Sequence[str] | None
) -> list[tuple[int | None, list[str]]]:
    """Columns that may hold the ids, best first, with their values as ids; None stands for the index."""
    result: list[tuple[int | None, list[str]]] = [] if table.index is None else [(None, table.index)]
    categories = options.categories if isinstance(options.categories, tuple) else ()
    named = [*options.drop, *categories, *(title for title, _ in options.dates)]
    features = set(places(table, named, "drop", Problems(table)))
    for i in sorted(range(len(table.columns)), key=lambda i: (not _titled_id(table, i), i)):
        column = table.columns[i]
        if i in features:
            continue
        if column.text is None and column.numbers is not None and not _titled_id(table, i):
            # Numbers under another title can only be known by the names of nodes; those that repeat are a feature.
            head = column.numbers[:64]
            if known is None or np.unique(head).size < head.size:
                continue
        labels = column.labels()
        if labels is not None:
            result.append((i, labels))
            if column.text is not None and all(_WHOLE.fullmatch(label) for label in labels):
                result.append((i, [label.split(".")[0] for label in labels]))  # "7.0" is the integer 7
    return result


def _is_join(table: InputTable, at: int | None, labels: list[str], wanted: set[str]) -> bool:
    """Whether a column's values are the names of the nodes, and not by chance."""
    have = set(labels)
    if not wanted <= have:
        return False
    if at is None or table.columns[at].numbers is None or _titled_id(table, at):
        return True
    if len(have) < len(labels):  # numbers that repeat are a feature
        return False
    numbers = {int(name) for name in wanted if INTEGER_ID.fullmatch(name)}
    start = 0 if "0" in have else 1
    if len(numbers) == len(wanted) and numbers and max(numbers) < 2 * len(numbers) + start:
        # Names like 0, 1, 2 may also be values of a feature: only a first column that counts the rows is taken for ids.
        return at == 0 and len(labels) >= 3 and have == {str(i) for i in range(start, len(labels) + start)}
    return True


def _refuse_hidden_ids(table: InputTable, known: Sequence[str]) -> None:
    """A later column that counts the nodes in another order: ids, or ranks, and only the caller knows."""
    if len(known) < _FEW_ROWS or table.index is not None or _counts(table, 0, known):
        return
    if any(_titled_id(table, i) for i in range(len(table.columns))):
        return
    hidden = next((i for i in range(1, len(table.columns)) if _counts(table, i, known)), None)
    if hidden is not None:
        raise GraphError(
            f"{table.label}, {_origin(table, hidden)}: the values are the ids of the nodes in another order than "
            "the rows; pass ",
            Argument("ids", table.columns[hidden].title if table.titled else hidden),
            " to join rows by them, or ",
            Argument("ids", False),
            " if row i belongs to node i.",
        )


def _counts(table: InputTable, at: int, known: Sequence[str]) -> bool:
    """Whether a column counts all rows from the first id on, in another order."""
    numbers = table.columns[at].numbers
    if numbers is None or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
        return False
    first = 0 if numbers.min() == 0 else 1
    count = np.arange(len(numbers)) + first
    if np.array_equal(numbers, count) or not np.array_equal(np.sort(numbers), count):
        return False
    return set(known) <= {str(i) for i in count.tolist()} and str(first) in known


def _is_text(column: Column) -> bool:
    """Whether a column holds words, rather than dates, or numbers with a few mistakes among them."""
    if column.numbers is not None or column.text is None or day_of(column.text[0], ISO) is not None:
        return False
    return 2 * sum(map(is_number, column.text)) <= len(column.text)


def _titled_id(table: InputTable, at: int) -> bool:
    return table.titled and looks_like_id(table.columns[at].title)


def _origin(table: InputTable, at: int | None) -> str:
    return "the index" if at is None else f"column {_name(table, at)}"


def _name(table: InputTable, at: int) -> str:
    return repr(table.columns[at].title) if table.titled and table.columns[at].title else str(at + 1)


def _unique_ids(table: InputTable, at: int | None, labels: list[str]) -> _Ids:
    """Ids of a column, which must not repeat; those of an index are checked where rows are joined by them."""
    seen: set[str] = set()
    for row, name in enumerate(() if at is None else labels):
        if name in seen:
            place = table.place(row, at or 0).rsplit(", column", 1)[0]
            raise GraphError(f"{place}: node {name!r} has a row already.")
        seen.add(name)
    return _Ids(at, labels, _origin(table, at))
