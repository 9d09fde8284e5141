"""Any file of results as tables: cells by method and data set, lists of objects as rows, objects as pairs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from softcut.report.html_page import Cell, Details, Part, Table, Text, number_table

__all__ = ["any_table", "pivot"]

_LONG = 400  # rows of a plain table
_ORIGIN = ("command", "commit", "date", "id", "settings")  # told below each table
_ORIGIN_INSIDE = ("command", "commit", "device")  # the same of an object inside a row
_MANY = 16  # columns of a plain table
_KEYS_OF_ROWS = ("rows", "runs")  # say nothing about what the rows are
_SCORES = {"nmi": "NMI", "acc": "accuracy", "ari": "adjusted Rand index", "cs": "completeness"}


def any_table(value: Any, title: str = "") -> list[Part]:
    """Whatever a JSON file holds, as tables: lists of objects become rows, objects inside them columns.

    >>> (table,) = any_table([{"a": 1, "b": {"c": 0.5}}, {"a": 2}])
    >>> table.columns, [[cell.text for cell in row] for row in table.rows]
    (['a', 'b, c'], [['1', '0.5'], ['2', '-']])
    """
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        if all({"dataset", "method", "metric", "mean", "std"} <= set(item) for item in value):
            return _cell_tables(value)
        flat = [_flat(item) for item in value]
        names = list(dict.fromkeys(key for row in flat for key in row))[:_MANY]
        names = [n for n in names if n not in _ORIGIN] or names
        rows = [[row.get(name) for name in names] for row in flat[:_LONG]]
        more = f" The first {_LONG} of {len(flat):,} rows." if len(flat) > _LONG else ""
        nested = [
            part
            for item in value
            for key, inner in item.items()
            if isinstance(inner, list) and inner and isinstance(inner[0], Mapping)
            for part in any_table(inner, str(item.get("title") or item.get("what") or _of(key, item)))
        ]
        if nested and len(names) == 1:  # it stands in the titles of the nested tables
            return nested
        return [number_table(names, rows, (title + more).strip()), *nested]
    if isinstance(value, Mapping):
        single = {key: item for key, item in _flat(value).items() if key not in _ORIGIN}
        parts: list[Part] = []
        if single:
            parts.append(
                number_table(["what", "value"], [[key, item] for key, item in single.items()], title)
            )
        for key, item in value.items():
            if isinstance(item, list) and item and isinstance(item[0], Mapping):
                parts += any_table(item, "" if key in _KEYS_OF_ROWS else str(key))
        return parts
    return [Text(f"`{json.dumps(value)[:200]}`")]


def _of(key: str, item: Mapping[str, Any]) -> str:
    """What a list inside an object is called: its key, and the first thing that the object says of itself."""
    said = next((f" of {k} {v}" for k, v in item.items() if isinstance(v, str | int)), "")
    return f"{key}{said}"


def _cell_tables(cells: Sequence[Mapping[str, Any]]) -> list[Part]:
    """One table per metric: methods down, data sets across; of a single data set, one table with all metrics."""
    parts: list[Part] = []
    if len({cell["dataset"] for cell in cells}) == 1:
        metrics = list(dict.fromkeys(cell["metric"] for cell in cells))
        by_name = {(cell["method"], cell["metric"]): cell for cell in cells}
        rows: list[list[str | Cell]] = []
        for method in dict.fromkeys(cell["method"] for cell in cells):
            found = [by_name.get((method, metric)) for metric in metrics]
            rows.append([method, *(Cell("-") if c is None else _single(c) for c in found)])
        columns = ["method", *(metric.replace("_", " ") for metric in metrics)]
        return [Table(columns, rows, f"{cells[0]['dataset']}, mean ± standard deviation.")]
    for metric in sorted({cell["metric"]: None for cell in cells}, key=lambda name: name != "nmi"):
        own = {(c["dataset"], c["method"]): c for c in cells if c["metric"] == metric}
        datasets = list(dict.fromkeys(key[0] for key in own))
        parts.append(
            pivot(own, datasets, (), _SCORES.get(metric, metric.replace("_", " ")), folded=bool(parts))
        )
    return parts


def _single(cell: Mapping[str, Any]) -> Cell:
    """A number, and below it what was published and how sure a difference is, where that is known."""
    said = []
    if cell.get("paper_mean") is not None:
        said.append(f"published {cell['paper_mean']:.3g}")
    if cell.get("p") is not None:
        said.append(f"p = {cell['p']:.2g}")
    return Cell(f"{cell['mean']:.3f} ± {cell['std']:.3f}", ", ".join(said))


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Numbers and words by name; a list of numbers becomes its mean, other lists are left out."""
    found: dict[str, Any] = {}
    for key, value in entry.items():
        if prefix and key in _ORIGIN_INSIDE:
            continue
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}, ")
        elif isinstance(value, list):
            if value and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
                found[f"{name} (mean of {len(value)})"] = float(np.mean(value))
        else:
            found[name] = value
    return found


def pivot(
    cells: Mapping[tuple[str, str], Mapping[str, Any]],
    columns: Sequence[str],
    order: Sequence[str],
    caption: str,
    folded: bool = False,
) -> Part:
    """Methods down, data sets across; the best of each column in bold.

    >>> cells = {("cora", "a"): {"mean": 0.5, "std": 0.1}, ("cora", "b"): {"mean": 0.4, "std": 0.1}}
    >>> [row[1].strong for row in pivot(cells, ["cora"], (), "NMI").rows]
    [True, False]

    Parameters
    ----------
    cells : mapping
        By data set and method.
    columns : sequence of str
        Data sets.
    order : sequence of str
        Methods that come first, in their order.
    caption : str
        What was measured.
    folded : bool
        Whether the table opens only when asked for.
    """
    methods = [m for m in order if any(key[1] == m for key in cells)]
    methods += sorted({key[1] for key in cells} - set(methods))
    best = {
        c: max((cell["mean"] for key, cell in cells.items() if key[0] == c), default=None) for c in columns
    }
    rows: list[list[str | Cell]] = []
    for method in methods:
        row: list[str | Cell] = [method]
        for column in columns:
            cell = cells.get((column, method))
            text = "-" if cell is None else f"{cell['mean']:.3f} ± {cell['std']:.3f}"
            row.append(Cell(text, strong=cell is not None and cell["mean"] == best[column]))
        rows.append(row)
    made = Table(
        ["method", *columns], rows, f"{caption}, mean ± standard deviation over runs. Bold: the highest."
    )
    return Details(caption, [made]) if folded else made
