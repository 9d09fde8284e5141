"""The feature matrix of a table: which column holds the ids, missing values, one-hot columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from softcut.errors import Argument, GraphError, Note, ParameterError
from softcut.tables.arrays import listed, plural
from softcut.tables.columns import (
    INTEGER_ID,
    STRICT_ID_NAMES,
    Column,
    FeatureOptions,
    FeatureTable,
    Table,
    looks_like_id,
    position_of,
)

__all__ = ["feature_table"]

# One-hot columns of more values than this are ids or free text, and would fill the memory.
_MOST_CATEGORIES = 1000
# In fewer rows a feature may count the nodes by chance.
_FEW_ROWS = 10
_WHOLE = re.compile(r"(?:0|[1-9][0-9]*)\.0*")


def feature_table(
    table: Table,
    options: FeatureOptions,
    known: Sequence[str] | None = None,
    ordered: bool = True,
    ids_possible: bool = True,
) -> FeatureTable:
    """The features of a table, with the column of ids set apart.

    >>> table = Table("x", [Column("user_id", np.array([7, 5])), Column("age", np.array([31.0, 45.0]))])
    >>> made = feature_table(table, FeatureOptions(), known=["5", "7"])
    >>> made.ids, made.x.ravel().tolist(), made.names
    (['7', '5'], [31.0, 45.0], ['age'])

    Parameters
    ----------
    table
        Columns of numbers and text.
    options
        What was asked for.
    known
        Names of the nodes that need a row; None when there is no graph.
    ordered
        Whether the nodes have an order the caller knows, so that rows can be joined by position.
    ids_possible
        False where every column is a feature.
    """
    at, ids, origin, notes = (
        _choose_ids(table, options, known, ordered) if ids_possible else (None, None, "", [])
    )
    columns = [i for i in range(len(table.columns)) if i != at]
    if not columns:
        place = f"{table.label}, line {table.lines[0]}" if table.lines else table.label
        raise GraphError(f"{place}: expected at least one feature beside the node id.")
    if isinstance(options.one_hot, tuple):
        titles = [table.columns[i].title for i in columns]
        unknown = [title for title in options.one_hot if title not in titles]
        if unknown:
            raise ParameterError(
                f"one_hot names {unknown[0]!r}, which is no feature column of {table.label}: "
                f"choose from {listed(titles)}.",
                argument="one_hot",
            )
    x, names, more = _matrix(table, columns, options)
    return FeatureTable(
        table.label,
        x,
        ids,
        _distinct(names) if table.titled else None,
        origin,
        (*table.notes, *notes, *more),
    )


# ---------------------------------------------------------------------- ids


def _choose_ids(
    table: Table, options: FeatureOptions, known: Sequence[str] | None, ordered: bool
) -> tuple[int | None, list[str] | None, str, list[Note]]:
    """Position of the id column (None: there is none), the ids, where they came from, what to say."""
    if options.ids is False:
        return None, None, "", []
    if options.ids is not None:
        titles = [c.title if table.titled else f"column {i + 1}" for i, c in enumerate(table.columns)]
        asked = position_of(options.ids, titles, "ids", table.label)
        names = table.columns[asked].labels()
        if names is None:
            raise ParameterError(
                f"ids names column {asked + 1} of {table.label}, whose values are no ids.", argument="ids"
            )
        _check_unique(table, names, asked)
        return asked, names, f"column {_name(table, asked)}", []
    if known is not None and ordered:
        _refuse_hidden_ids(table, known)
    hot = options.one_hot if isinstance(options.one_hot, tuple) else ()
    order = sorted(range(len(table.columns)), key=lambda i: (not _titled_id(table, i), i))
    candidates: list[tuple[int | None, list[str]]] = [] if table.index is None else [(None, table.index)]
    for i in order:
        column = table.columns[i]
        if column.title in hot and table.titled:
            continue
        # A column that is neither text, nor first, nor called an id, can only be known by its values.
        if column.text is None and known is None and not _titled_id(table, i):
            continue
        if column.text is None and column.numbers is not None and not _titled_id(table, i):
            first = column.numbers[:64]
            if np.unique(first).size < first.size:  # numbers that repeat are a feature
                continue
        labels = column.labels()
        if labels is not None:
            candidates.append((i, labels))
            if column.text is not None and all(_WHOLE.fullmatch(label) for label in labels):
                candidates.append((i, [label.split(".")[0] for label in labels]))  # "7.0" is the integer 7
    if known is not None:
        wanted = set(known)
        for at, labels in candidates:
            if _is_join(table, at, labels, wanted):
                if at is not None:
                    _check_unique(table, labels, at)
                return at, labels, _origin(table, at), []
    # Nothing holds every name: what is called an id, or is text in front, still is a column of ids.
    for at, labels in candidates:
        text_in_front = at == 0 and options.one_hot is not True and _is_text(table.columns[0])
        if not (at is None or _titled_id(table, at) or text_in_front):
            continue
        if at is not None and len(set(labels)) < len(labels):
            # Ids that repeat are a mistake; numbers and words that repeat are a feature.
            column = table.columns[at]
            shared = known is not None and bool(set(known) & set(labels))
            if (table.titled and column.title.strip().lower() in STRICT_ID_NAMES) or (
                _is_text(column) and shared
            ):
                _check_unique(table, labels, at)
            continue
        if known is not None and not set(known) & set(labels):
            if ordered and table.num_rows == len(known):
                said = f"no id of {_origin(table, at)} is a node: rows joined by position"
                return at, None, "", [Note("joined_by_position", said)]
            if at is None:
                continue
        return at, labels, _origin(table, at), []
    return None, None, "", []


def _is_join(table: Table, at: int | None, labels: list[str], wanted: set[str]) -> bool:
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
        # Names like 0, 1, 2 may also be the values of a feature: only a first column that counts is believed.
        return at == 0 and len(labels) >= 3 and have == {str(i) for i in range(start, len(labels) + start)}
    return True


def _refuse_hidden_ids(table: Table, known: Sequence[str]) -> None:
    """A later column that counts the nodes in another order: ids, or ranks, and only the caller knows."""
    if len(known) < _FEW_ROWS or table.index is not None or _counts(table, 0, known):
        return
    if any(_titled_id(table, i) for i in range(len(table.columns))):
        return
    hidden = next((i for i in range(1, len(table.columns)) if _counts(table, i, known)), None)
    if hidden is not None:
        way = table.columns[hidden].title if table.titled else hidden
        raise GraphError(
            f"{table.label}, column {_name(table, hidden)}: the values are the ids of the nodes in another order than "
            "the rows; pass ",
            Argument("ids", way),
            " to join rows by them, or ",
            Argument("ids", False),
            " if row i belongs to node i.",
        )


def _counts(table: Table, at: int, known: Sequence[str]) -> bool:
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
    """Whether a column holds words, rather than numbers with a few mistakes among them."""
    if column.numbers is not None or column.text is None:
        return False
    return 2 * sum(_is_number(value) for value in column.text) <= len(column.text)


def _titled_id(table: Table, at: int) -> bool:
    return table.titled and looks_like_id(table.columns[at].title)


def _name(table: Table, at: int) -> str:
    return repr(table.columns[at].title) if table.titled and table.columns[at].title else str(at + 1)


def _origin(table: Table, at: int | None) -> str:
    return "the index" if at is None else f"column {_name(table, at)}"


def _check_unique(table: Table, labels: list[str], at: int) -> None:
    seen: set[str] = set()
    for row, name in enumerate(labels):
        if name in seen:
            place = table.place(row, at).rsplit(", column", 1)[0]
            raise GraphError(f"{place}: node {name!r} has a row already.")
        seen.add(name)


# ---------------------------------------------------------------------- values


def _matrix(
    table: Table, columns: list[int], options: FeatureOptions
) -> tuple[np.ndarray, list[str], list[Note]]:
    """Features as float32, the names of the columns, what to say about them."""
    rows = table.num_rows
    blocks: list[np.ndarray] = []
    names: list[str] = []
    notes: list[Note] = []
    filled, dropped = 0, []
    plain = all(
        table.columns[i].numbers is not None and table.columns[i].numbers.dtype.kind in "biu"  # type: ignore[union-attr]
        for i in columns
    )
    for i in columns:
        column = table.columns[i]
        hot = (
            column.numbers is None
            if options.one_hot is True
            else isinstance(options.one_hot, tuple) and column.title in options.one_hot
        )
        if hot:
            values, titles = _one_hot(table, i)
            said = f"{_origin(table, i)} became {len(titles)} columns of 0 and 1"
            notes.append(Note("one_hot", said, column=column.title, columns=len(titles)))
        elif column.numbers is None:
            _raise_text(table, i)
        else:
            values, titles = column.numbers.reshape(-1, 1), [column.title]
            if values.dtype != np.float32:
                values = values.astype(np.float64)
        gaps = None if plain else np.isnan(values)
        if gaps is not None and gaps.any():
            if options.missing == "error":
                row = int(np.flatnonzero(gaps.any(axis=1))[0])
                raise GraphError(
                    f"{table.place(row, i)}: the value is missing; fill it in, or pass ",
                    Argument("missing", "zero"),
                    ", 'mean' or 'drop'.",
                )
            if options.missing == "drop":
                dropped.append(_name(table, i))
                continue
            count = int(gaps.any(axis=1).sum())
            if options.missing == "mean" and count == rows:
                raise GraphError(
                    f"{table.label}, {_origin(table, i)}: every value is missing, so it has no mean."
                )
            filled += count
            fill = np.nanmean(values, axis=0) if options.missing == "mean" else np.zeros(values.shape[1])
            values = np.where(gaps, fill, values)
        blocks.append(values)
        names.extend(titles)
    if dropped:
        said = f"columns with missing values left out: {', '.join(dropped)}"
        notes.append(Note("missing_dropped", said, columns=dropped))
    if filled:
        word = "the mean of the column" if options.missing == "mean" else "zero"
        said = f"{plural(filled, 'missing value')} filled with {word}"
        notes.append(Note("missing_filled", said, count=filled))
    if not blocks:
        raise GraphError(
            f"{table.label}: every column has missing values; pass ",
            Argument("missing", "zero"),
            " or 'mean'.",
        )
    x = np.empty((rows, len(names)), dtype=np.float32)
    start = 0
    with np.errstate(over="ignore"):
        for block in blocks:
            x[:, start : start + block.shape[1]] = block
            start += block.shape[1]
    if not np.isfinite(x).all():
        _raise_not_finite(table, columns)
    return x, names, notes


def _one_hot(table: Table, at: int) -> tuple[np.ndarray, list[str]]:
    column = table.columns[at]
    labels = column.labels()
    if labels is None:
        assert column.numbers is not None
        labels = ["" if value != value else str(value) for value in column.numbers.tolist()]
    values = sorted(set(labels) - {""})
    if len(values) > _MOST_CATEGORIES:
        raise GraphError(
            f"{table.label}, {_origin(table, at)}: {len(values)} different values are too many for one-hot columns "
            f"(at most {_MOST_CATEGORIES}): leave the column out."
        )
    place = {value: j for j, value in enumerate(values)}
    result = np.zeros((len(labels), max(len(values), 1)))
    for row, label in enumerate(labels):
        if label:
            result[row, place[label]] = 1.0
        else:
            result[row] = np.nan
    return result, [f"{column.title}={value}" for value in values] or [column.title]


def _raise_text(table: Table, at: int) -> NoReturn:
    column = table.columns[at]
    assert column.text is not None
    row = next((i for i, value in enumerate(column.text) if value and not _is_number(value)), 0)
    value = column.text[row]
    shown = repr(value if len(value) <= 60 else value[:57] + "...")
    raise GraphError(
        f"{table.place(row, at)}: {shown} is not a number; correct it, leave the column out, or pass ",
        Argument("one_hot", [column.title] if table.titled else True),
        " to make a column of 0 and 1 of every value.",
    )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return "_" not in value


def _raise_not_finite(table: Table, columns: list[int]) -> NoReturn:
    for i in columns:
        numbers = table.columns[i].numbers
        if numbers is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = np.isinf(numbers.astype(np.float32))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise GraphError(
                f"{table.place(row, i)}: {float(numbers[row])} is not finite in float32; "
                "replace or rescale such values."
            )
    raise GraphError(f"{table.label} has values that are not finite in float32.")


def _distinct(names: list[str]) -> list[str]:
    """Names made unique: a second 'a' becomes 'a (2)'."""
    if len(set(names)) == len(names):
        return names
    seen: dict[str, int] = {}
    result: list[str] = []
    taken = set(names)
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        unique = name
        while seen[name] > 1 and unique in taken:
            unique = f"{name} ({seen[name]})"
            seen[name] += unique in taken
        taken.add(unique)
        result.append(unique)
    return result
