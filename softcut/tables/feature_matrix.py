"""The feature matrix of a table whose columns are decided: the same for the table of the fit and for later ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softcut.errors import Argument, GraphError, Note
from softcut.tables.arrays import is_missing, listed, plural, shown
from softcut.tables.column_kinds import texts_of
from softcut.tables.columns import Column, InputTable, is_number
from softcut.tables.dates import ISO, days_of_texts
from softcut.tables.problems import Problems
from softcut.tables.schema import LEFT_OUT, ColumnRule, TableSchema, distinct


def places_of_rules(
    table: InputTable, ids: int | None, schema: TableSchema
) -> tuple[list[int | None], list[Note]]:
    """Where a later table keeps each column of the schema (None: not needed), and what to say of its others.

    Columns are found by title, in any order; by position where one of the tables has no titles.
    """
    others = [i for i in range(len(table.columns)) if i != ids]
    if not (table.titled and schema.titled):
        wanted = [i for i, rule in enumerate(schema.columns) if rule.title != schema.ids or rule.kind != "id"]
        if len(wanted) != len(others):
            raise GraphError(
                f"{table.label} has {plural(len(others), 'feature column')}, but the table of the fit had "
                f"{len(wanted)}: give the same columns in the same order."
            )
        where: list[int | None] = [None] * len(schema.columns)
        for i, at in zip(wanted, others, strict=True):
            where[i] = at
        return where, []
    place = {title: i for i, title in enumerate(distinct([column.title for column in table.columns]))}
    titles = distinct([rule.title for rule in schema.columns])
    positions = [
        None if rule.kind in LEFT_OUT else place.get(title)
        for title, rule in zip(titles, schema.columns, strict=True)
    ]
    missing = [
        t
        for t, r, at in zip(titles, schema.columns, positions, strict=True)
        if at is None and r.kind not in LEFT_OUT
    ]
    extra = [title for title, i in place.items() if i != ids and title not in titles]
    if missing:
        unknown = f"; not known: {listed(extra)}" if extra else ""
        raise GraphError(
            f"{table.label}: the columns are not those of the fit (missing: {listed(missing)}{unknown}); give columns "
            "with the same names, in any order."
        )
    notes = []
    if extra:
        said = f"columns that the fit did not have ignored: {listed(extra)}"
        notes.append(Note("columns_ignored", said, columns=extra))
    return positions, notes


def feature_matrix(
    table: InputTable,
    schema: TableSchema,
    where: Sequence[int | None],
    problems: Problems,
    missing: str | None = None,
) -> tuple[np.ndarray, list[Note]]:
    """Features [N, F], float32, and what to say about gaps and unknown values.

    `where` has the place of each column of the schema in the table. `missing` is given for a later table than that of
    the schema: gaps are what they were then, or what is asked for now.
    """
    later = missing is not None
    fills = schema.missing if missing in (None, "error") else missing
    blocks: list[np.ndarray] = []
    notes: list[Note] = []
    filled, empty, unknown = 0, dict[str, int](), dict[str, list[str]]()
    for rule, at in zip(schema.columns, where, strict=True):
        if rule.kind in LEFT_OUT or at is None:
            continue
        column = table.columns[at]
        if rule.values is not None:
            block, gaps, new = _one_hot(column, rule.values)
            blocks.append(block)
            if gaps:
                empty[column.title] = gaps
            if new:
                unknown[column.title] = new
            continue
        values = _numbers(column, rule, at, problems, later)
        gaps_of_values = np.isnan(values)
        if gaps_of_values.any():
            if fills not in ("zero", "mean"):
                row = int(np.flatnonzero(gaps_of_values)[0])
                more = int(gaps_of_values.sum()) - 1
                problems.value("new gap" if later else "gap", row, at, "the value is missing", more)
            elif fills == "mean" and not later and gaps_of_values.all():
                problems.column("no mean", at, "every value is missing, so it has no mean")
            values = np.where(gaps_of_values, rule.fill if fills == "mean" else 0.0, values)
            filled += int(gaps_of_values.sum())
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        finite = np.isfinite(single)
        if not finite.all():
            row = int(np.flatnonzero(~finite)[0])
            problems.value(
                "finite", row, at, f"{float(values[row])} is not finite in float32", int((~finite).sum()) - 1
            )
        blocks.append(single[:, None])
    problems.check()
    if filled:
        word = "the mean of the column" if fills == "mean" else "zero"
        said = f"{plural(filled, 'missing value')} filled with {word}"
        notes.append(Note("missing_filled", said, count=filled))
    if empty:
        said = f"{plural(sum(empty.values()), 'gap')} in {listed(list(empty))} taken for no value"
        notes.append(Note("category_gaps", said, counts=empty))
    if unknown:
        words = "; ".join(f"{listed(new, 3)} of {title!r}" for title, new in unknown.items())
        notes.append(
            Note(
                "unknown_values", f"values that the fit did not have taken for none: {words}", values=unknown
            )
        )
    return np.concatenate(blocks, axis=1), notes


def _numbers(column: Column, rule: ColumnRule, at: int, problems: Problems, later: bool) -> np.ndarray:
    """The numbers of a column [N], NaN where missing; dates as days since 1970."""
    if rule.kind == "date" and column.declared != "date":
        texts = texts_of(column)
        days, wrong = days_of_texts(texts, rule.format or ISO)
        if wrong is not None and later:
            problems.value(
                "new date", wrong, at, f"{shown(texts[wrong])} is not a date like those of the fit"
            )
        return np.where(np.isnan(days) & (wrong is not None), 0.0, days)
    if column.numbers is not None:
        return column.numbers if column.numbers.dtype == np.float32 else column.numbers.astype(np.float64)
    text = column.text or []
    wrong_rows = [i for i, value in enumerate(text) if not is_missing(value) and not is_number(value)]
    if later and wrong_rows:
        problems.value(
            "new number",
            wrong_rows[0],
            at,
            f"{shown(text[wrong_rows[0]])} is not a number",
            len(wrong_rows) - 1,
        )
    if wrong_rows:  # said already
        return np.zeros(len(text))
    return np.full(len(text), np.nan)  # nothing but gaps


def _one_hot(column: Column, values: Sequence[str]) -> tuple[np.ndarray, int, list[str]]:
    """One column of 0 and 1 per value; how many values are missing, and those that are none of them."""
    place = {value: j for j, value in enumerate(values)}
    result = np.zeros((len(texts := texts_of(column)), len(values)), dtype=np.float32)
    gaps, unknown = 0, dict[str, None]()
    for row, text in enumerate(texts):
        if text in place:
            result[row, place[text]] = 1.0
        elif text:
            unknown[text] = None
        else:
            gaps += 1
    return result, gaps, list(unknown)


def left_out_note(table: InputTable, schema: TableSchema) -> Note | None:
    """Names text that was left out although values repeat, and says how to use it all the same."""
    named, words = [], []
    for i, rule in enumerate(schema.columns):
        texts = [text for text in table.columns[i].text or () if text]
        if rule.kind == "text" and len(set(texts)) < len(texts):
            named.append(table.called(i))
            words.append(
                f"{table.called(i)!r} with {len(set(texts))} different values in {plural(len(texts), 'row')}"
            )
    if not named:
        return None
    advice = Argument("categories", named)
    text = f"left out as free text: {', '.join(words[:3])} ("
    return Note("columns_left_out", text, advice, " makes a column of 0 and 1 of every value)", columns=named)
