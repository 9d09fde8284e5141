"""What the columns of a table are: numbers, dates, categories, words, or something to leave out.

Asked for, or by the type a data frame gives, or by the values:

- numbers are numbers; ten or more columns of mostly zeros (counts, 0 and 1) are words, and neighbouring columns of 0
  and 1 of which each row has exactly one 1 are a category;
- text that is dates in ISO format is a date, as days since 1970;
- text with at most 50 different values and at least two rows for each, or at most 200 and ten, is a category;
- other text is left out as ids (distinct, without spaces) or free text; so are whole numbers under the title of an id
  that are all different;
- a column with one value is constant: it is kept and has no say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from softcut.tables.arrays import are_whole, is_missing, listed, shown
from softcut.tables.columns import (
    INTEGER_ID,
    Column,
    FeatureOptions,
    InputTable,
    is_number,
    looks_like_id,
    numbers_of_fields,
    text_of,
)
from softcut.tables.dates import ISO, day_of, days_of_texts, formats_of_texts
from softcut.tables.kinds import CATEGORY, FEW, WORD, kinds_of_columns
from softcut.tables.problems import Problems
from softcut.tables.schema import LEFT_OUT, MOST_VALUES, ColumnRule, TableSchema

# (different values, rows for each): text that repeats so often is a category.
_CATEGORIES = ((50, 2), (200, 10))


def decide_columns(
    table: InputTable, ids: int | None, options: FeatureOptions, problems: Problems
) -> TableSchema:
    """One rule for each column; `ids` is the place of the one that holds the ids of the nodes.

    >>> table = InputTable("t", [Column("age", np.array([31.0, 45.0, 28.0, 52.0])), Column("city", text=list("abab"))])
    >>> decide_columns(table, None, FeatureOptions(), Problems(table)).note
    "columns: 'age' number, 'city' category (2 values)"
    """
    used, categories, dates = _asked(table, ids, options, problems)
    rules = []
    for i, column in enumerate(table.columns):
        if i == ids:
            rule = ColumnRule(column.title, "id")
        elif i not in used:
            rule = ColumnRule(column.title, "dropped")
        elif i in categories:
            rule = _category(column, i, problems)
        elif i in dates:
            rule = _date(column, i, dates[i], problems)
        else:
            rule = _by_values(column, i, options, problems)
        if options.missing == "drop" and rule.kind not in LEFT_OUT and has_gaps(column, rule):
            rule = ColumnRule(column.title, "dropped")
        rules.append(rule)
    rules = _with_words(table, rules)
    joins = table.columns[ids].title if ids is not None else None
    return TableSchema(tuple(rules), table.titled, joins, options.missing)


# ---------------------------------------------------------------------- what was asked for


def places(table: InputTable, named: Iterable[str | int], argument: str, problems: Problems) -> list[int]:
    """Places of columns given by title or position; several titles may stand in one text, between commas."""
    titles = [column.title if table.titled else "" for column in table.columns]
    lowered = [title.strip().lower() for title in titles]

    def place(which: str | int) -> int | None:
        if not isinstance(which, str):
            return int(which) if 0 <= which < len(titles) else None
        if which in titles:
            return titles.index(which)
        if which.strip().lower() in lowered:
            return lowered.index(which.strip().lower())
        # A command line has no integers: "0" is a position where no title says otherwise.
        return int(which) if INTEGER_ID.fullmatch(which) and int(which) < len(titles) else None

    positions: list[int] = []
    for which in named:
        at = place(which)
        parts = [place(part.strip()) for part in which.split(",")] if isinstance(which, str) else []
        if at is not None:
            positions.append(at)
        elif len(parts) > 1 and None not in parts:
            positions += [part for part in parts if part is not None]
        else:
            all_titles = [table.called(i) for i in range(len(titles))]
            problems.option("title", all_titles, argument, f"names {which!r}, which is no column")
    return positions


def _asked(
    table: InputTable, ids: int | None, options: FeatureOptions, problems: Problems
) -> tuple[set[int], set[int], dict[int, str]]:
    """Places of the columns to use, of those that are categories by request, and formats of dates by request."""
    used = set(range(len(table.columns)))
    if options.columns is not None:
        used = set(places(table, options.columns, "columns", problems))
    used -= set(places(table, options.drop, "drop", problems))
    if options.categories is True:
        categories = {i for i in used if table.columns[i].numbers is None and i != ids}
    else:
        categories = set(places(table, options.categories or (), "categories", problems))
    dates = {
        at: format for title, format in options.dates for at in places(table, [title], "dates", problems)
    }
    if options.categories is True:
        categories -= set(dates)
    for argument, named in (("categories", categories), ("dates", set(dates))):
        for at in sorted(named - used):
            problems.option("twice", (), argument, f"names {table.called(at)!r}, which is left out,")
    for at in sorted(categories & set(dates)):
        problems.option("twice", (), "dates", f"names {table.called(at)!r}, which is one of the categories,")
    return used, categories, dates


def texts_of(column: Column) -> list[str]:
    """Values of a column as text, "" where missing."""
    labels = column.labels()
    if labels is None:
        assert column.numbers is not None
        labels = ["" if value != value else text_of(value) for value in column.numbers.tolist()]
    return labels


def _category(column: Column, at: int, problems: Problems) -> ColumnRule:
    values = sorted(set(texts_of(column)) - {""})
    if len(values) > MOST_VALUES:
        problems.column("many", at, f"{len(values)} different values")
    if not values:
        return ColumnRule(column.title, "dropped")
    constant = len(values) == 1 and "" not in texts_of(column)
    return ColumnRule(column.title, "constant" if constant else "category", tuple(values[:MOST_VALUES]))


def _date(column: Column, at: int, format: str, problems: Problems) -> ColumnRule:
    """A column of dates by request; "": the format that all values have."""
    if column.declared == "date":
        return _number(column, "date")
    texts = texts_of(column)
    if not format:
        formats = formats_of_texts(texts)
        if len(formats) > 1:
            row = next(i for i, text in enumerate(texts) if not is_missing(text))
            problems.value("date", row, at, f"{shown(texts[row])} may be {listed(formats)}")
        format = formats[0] if formats else ISO
    days, wrong = days_of_texts(texts, format)
    if wrong is not None:
        how = "in any known format" if format == ISO else f"in the format {format!r}"
        problems.value("date", wrong, at, f"{shown(texts[wrong])} is not a date {how}")
    return replace(_number(Column(column.title, days), "date"), format=format)


# ---------------------------------------------------------------------- by values


def with_numbers(table: InputTable) -> InputTable:
    """The table with numbers for columns of text that are nothing else, as in a frame that was read as text."""
    columns = []
    for column in table.columns:
        numbers, texts = None, column.text or []
        gaps = np.array([is_missing(text) for text in texts], dtype=bool)
        if (
            column.numbers is None
            and not column.declared
            and not gaps.all()
            and is_number(texts[gaps.argmin()])
        ):
            numbers, _ = numbers_of_fields(["0" if gap else t for t, gap in zip(texts, gaps, strict=True)])
        if numbers is not None:
            numbers[gaps] = np.nan
            column = replace(column, numbers=numbers)
        columns.append(column)
    return replace(table, columns=columns)


def _by_values(column: Column, at: int, options: FeatureOptions, problems: Problems) -> ColumnRule:
    if column.declared == "category":
        return _category(column, at, problems)
    if column.numbers is not None:
        if column.declared == "date":
            return _number(column, "date")
        if options.ids is not False and looks_like_id(column.title) and _are_ids(column.numbers):
            return ColumnRule(column.title, "id")
        return _number(column, "number")
    texts = column.text or []
    values = {text: count for text, count in Counter(texts).items() if not is_missing(text)}
    if not values:
        return ColumnRule(column.title, "dropped")
    present = sum(values.values())
    words = {text for text in values if not is_number(text)}
    if 2 * sum(values[text] for text in words) <= present:  # numbers with mistakes among them
        row = next(i for i, text in enumerate(texts) if text in words or (not words and text in values))
        more = sum(values[text] for text in words) - 1
        problems.value("number", row, at, f"{shown(texts[row])} is not a number", more)
        return ColumnRule(column.title, "number")
    sample = list(values)[:100]
    dates = sum(values[text] for text in sample if day_of(text, ISO) is not None)
    if 2 * dates > sum(values[text] for text in sample):
        days, row_of_text = days_of_texts(texts, ISO)
        if row_of_text is not None:
            problems.value(
                "date", row_of_text, at, f"{shown(texts[row_of_text])} is not a date like the others"
            )
        return replace(_number(Column(column.title, days), "date"), format=ISO)
    if len(values) == 1 or any(
        len(values) <= most and present >= rows * len(values) for most, rows in _CATEGORIES
    ):
        return _category(column, at, problems)
    spaces = sum(" " in text.strip() for text in values)
    distinct = len(values) == present and 2 * spaces <= len(values)
    return ColumnRule(column.title, "id" if distinct else "text")


def _are_ids(numbers: np.ndarray) -> bool:
    """Whether numbers are whole and all different."""
    if numbers.dtype.kind == "f" and not are_whole(numbers).all():
        return False
    return numbers.dtype.kind != "b" and len(numbers) > 1 and np.unique(numbers).size == numbers.size


def _number(column: Column, kind: str) -> ColumnRule:
    """A rule for numbers or dates; the mean fills gaps."""
    assert column.numbers is not None
    values = column.numbers.astype(np.float64)
    known = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        mean = float(known.mean()) if known.size else np.nan
    constant = known.size == len(values) and known.min() == known.max()
    return ColumnRule(
        column.title,
        "constant" if constant and not column.declared and kind == "number" else kind,  # type: ignore[arg-type]
        fill=mean if np.isfinite(mean) else 0.0,
    )


def has_gaps(column: Column, rule: ColumnRule) -> bool:
    """Whether values are missing, for a column that is what its rule says."""
    if rule.values is not None:
        return "" in texts_of(column)
    if column.numbers is not None:
        return bool(np.isnan(column.numbers.astype(np.float64)).any())
    return any(map(is_missing, column.text or ()))


def _with_words(table: InputTable, rules: list[ColumnRule]) -> list[ColumnRule]:
    """The rules, where columns of numbers that belong together are words or the values of a category."""
    at = [
        i
        for i, rule in enumerate(rules)
        if rule.kind in ("number", "constant")
        and rule.values is None
        and table.columns[i].numbers is not None
    ]
    if not at:
        return rules
    columns = [table.columns[i].numbers for i in at]
    x = np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)
    kinds = kinds_of_columns(np.nan_to_num(x, posinf=0.0, neginf=0.0))
    others = any(rule.kind in ("category", "date") for rule in rules)
    words = kinds == WORD
    if others and words.sum() < FEW:
        words[:] = False
    for i, word, kind in zip(at, words.tolist(), kinds.tolist(), strict=True):
        if rules[i].kind != "number":
            continue
        if word:
            rules[i] = replace(rules[i], kind="words")
        elif kind >= CATEGORY:
            rules[i] = replace(rules[i], kind="category", group=kind - CATEGORY)
    return rules
