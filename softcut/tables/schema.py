"""What each column of a table was taken for, decided once: a later table is read the same way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Literal, NoReturn, get_args

import numpy as np

from softcut.errors import ModelFileError, Note
from softcut.tables.arrays import plural
from softcut.tables.kinds import CATEGORY, NUMBER, WORD

Kind = Literal["number", "date", "category", "words", "constant", "id", "text", "dropped"]
KINDS: tuple[str, ...] = get_args(Kind)
LEFT_OUT = ("id", "text", "dropped")
# A category of more values is an id or free text, and would fill the memory.
MOST_VALUES = 1000
_MANY_COLUMNS, _FEW = (
    20,
    5,
)  # with more columns a note counts them by kind, and names only those of rare kinds
_PLURALS = {"number": "numbers", "date": "dates", "category": "categories", "words": "words", "text": "texts"}


@dataclass(frozen=True)
class ColumnRule:
    """What one column is, and what it becomes: nothing, one column of numbers, or one of 0 and 1 per value.

    `values` are those of a category, in order; None where the column is a number, a word, or 0 and 1 already. `fill`
    is the mean, for gaps. `group` numbers the categories that came as columns of 0 and 1, from 0; -1: no such column.
    `format` is that of dates in text: "iso", or as ``strptime`` writes it.
    """

    title: str
    kind: Kind
    values: tuple[str, ...] | None = None
    fill: float = 0.0
    group: int = -1
    format: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the columns that it becomes."""
        if self.kind in LEFT_OUT:
            return []
        return [self.title] if self.values is None else [f"{self.title}={value}" for value in self.values]


@dataclass(frozen=True)
class TableSchema:
    """One rule per column of a table. `ids` is the title of the column whose ids join rows to nodes.

    >>> schema = TableSchema((ColumnRule("age", "number", fill=40.0), ColumnRule("city", "category", ("Oslo", "Rome"))))
    >>> schema.names, schema.kinds.tolist(), schema.note
    (['age', 'city=Oslo', 'city=Rome'], [1, 2, 2], "columns: 'age' number, 'city' category (2 values)")
    >>> TableSchema.from_json(schema.to_json()) == schema
    True
    """

    columns: tuple[ColumnRule, ...]
    titled: bool = True
    ids: str | None = None
    missing: str = "error"

    @cached_property
    def names(self) -> list[str]:
        """Names of the feature columns, each once."""
        return distinct([name for rule in self.columns for name in rule.names])

    @cached_property
    def kinds(self) -> np.ndarray:
        """The kind of each feature column (:mod:`softcut.tables.kinds`)."""
        used = {rule.kind for rule in self.columns} - set(LEFT_OUT) - {"constant"}
        kinds: list[int] = []
        groups = max([-1, *(rule.group for rule in self.columns)]) + 1
        for rule in self.columns:
            kind = WORD if rule.kind == "words" else NUMBER
            if rule.kind == "constant" and used == {"words"}:
                kind = WORD
            elif rule.kind == "category":
                kind = CATEGORY + (rule.group if rule.values is None else groups)
                groups += rule.values is not None
            kinds += [kind] * len(rule.names)
        return np.array(kinds, dtype=np.int64)

    @property
    def note(self) -> Note:
        """One line that names the kind of every column, or counts those of kinds that many have."""
        counts = Counter[str](rule.kind for rule in self.columns)
        many = [kind for kind in KINDS if counts[kind] > _FEW and len(self.columns) > _MANY_COLUMNS]
        named = [rule for rule in self.columns if rule.kind not in many]
        words = [_counted(kind, counts[kind]) for kind in many]
        words += [f"{rule.title!r} {self._said(rule)}" for rule in named]
        kinds: dict[str, str] = {}
        for title, rule in zip(distinct([rule.title for rule in self.columns]), self.columns, strict=True):
            kinds[title] = rule.kind
        return Note("columns", f"columns: {', '.join(words)}", kinds=kinds)

    def _said(self, rule: ColumnRule) -> str:
        """The kind of a column in words."""
        if rule.kind == "category" and rule.values is not None:
            return f"category ({plural(len(rule.values), 'value')})"
        if rule.kind == "dropped":
            return "left out"
        joins = rule.kind == "id" and rule.title == self.ids
        return f"{rule.kind} (left out)" if rule.kind in LEFT_OUT and not joins else rule.kind

    # ------------------------------------------------------------------ JSON

    def to_json(self) -> dict[str, Any]:
        """The schema as JSON knows it."""
        return {
            "titled": self.titled,
            "ids": self.ids,
            "missing": self.missing,
            "columns": [
                {
                    "title": rule.title,
                    "kind": rule.kind,
                    "values": None if rule.values is None else list(rule.values),
                    "fill": rule.fill,
                    "group": rule.group,
                    "format": rule.format,
                }
                for rule in self.columns
            ],
        }

    @classmethod
    def from_json(cls, given: Any) -> TableSchema:
        """The schema that :meth:`to_json` wrote; anything else is one sentence."""
        if not isinstance(given, Mapping) or set(given) != {"titled", "ids", "missing", "columns"}:
            _refuse("is not that of a table")
        columns, ids = given["columns"], given["ids"]
        if not isinstance(columns, list) or not columns:
            _refuse("has no columns")
        if not isinstance(given["titled"], bool) or given["missing"] not in ("error", "zero", "mean", "drop"):
            _refuse("has options that are not known")
        rules = tuple(_rule(column) for column in columns)
        if ids is not None and ids not in [rule.title for rule in rules if rule.kind == "id"]:
            _refuse("names a column of ids that is none")
        groups = sorted({rule.group for rule in rules} - {-1})
        if groups != list(range(len(groups))):
            _refuse("has categories that are not counted from 0")
        return cls(rules, given["titled"], ids, given["missing"])


def _counted(kind: str, number: int) -> str:
    left_out = " (left out)" if kind in ("id", "text") else ""
    if kind in ("constant", "dropped"):
        return f"{number} constant" if kind == "constant" else f"{number} left out"
    return f"{number} {kind if number == 1 else _PLURALS.get(kind, kind + 's')}{left_out}"


def _rule(given: Any) -> ColumnRule:
    if not isinstance(given, Mapping) or set(given) != {"title", "kind", "values", "fill", "group", "format"}:
        _refuse("has a column that is not described")
    title, kind, values, fill = given["title"], given["kind"], given["values"], given["fill"]
    if not isinstance(title, str) or kind not in KINDS or not isinstance(given["format"], str):
        _refuse(f"has a column of an unknown kind: {str(kind)[:40]!r}")
    if isinstance(fill, bool) or not isinstance(fill, int | float) or not math.isfinite(fill):
        _refuse(f"fills gaps of {title[:40]!r} with something that is not a number")
    group = given["group"]
    if isinstance(group, bool) or not isinstance(group, int) or group < -1:
        _refuse(f"has no category for {title[:40]!r}")
    if values is not None:
        texts = isinstance(values, list) and all(isinstance(value, str) for value in values)
        if not texts or not 0 < len(values) <= MOST_VALUES or len(set(values)) < len(values):
            _refuse(f"has values of {title[:40]!r} that are not those of a category")
        if kind not in ("category", "constant"):
            _refuse(f"has values of {title[:40]!r}, which is no category")
    if (kind == "category" and (values is None) != (group >= 0)) or (kind != "category" and group >= 0):
        _refuse(f"does not say which category {title[:40]!r} is")
    if given["format"] and kind != "date":
        _refuse(f"has a format of dates for {title[:40]!r}, which is no date")
    return ColumnRule(title, kind, None if values is None else tuple(values), fill, group, given["format"])


def _refuse(problem: str) -> NoReturn:
    raise ModelFileError(f"the model is damaged: its table of columns {problem}; fit it again.")


def distinct(names: Sequence[str]) -> list[str]:
    """Names made unique: a second 'a' becomes 'a (2)'."""
    taken, result = set(names), dict[str, None]()
    for name in names:
        if name in result:
            name = next(other for i in count(2) if (other := f"{name} ({i})") not in taken)
            taken.add(name)
        result[name] = None
    return list(result)
