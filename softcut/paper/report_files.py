"""Any file of results as tables, and where its numbers come from: command, commit, machine and date."""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from softcut.errors import DataError
from softcut.paper.runs import lacking
from softcut.report.html_page import Details, Part, Text
from softcut.report.tables import Cell, Table, mean_and_deviation, number_table, pivot

_LONG = 400  # rows of a plain table
_MANY = 16  # columns of a plain table
_ORIGIN = ("command", "commit", "date", "id", "settings")  # told below each table
_ORIGIN_INSIDE = ("command", "commit", "device")  # the same of an object inside a row
_KEYS_OF_ROWS = ("rows", "runs")  # say nothing about what the rows are
_SCORES = {"nmi": "NMI", "acc": "accuracy", "ari": "adjusted Rand index", "cs": "completeness"}


def load_result(path: Path) -> Any:
    """The content of a file of results, or a sentence that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}); move it away or make it again.") from error


def any_table(value: Any, title: str = "") -> list[Part]:
    """Whatever a JSON file holds, as tables: lists of objects become rows, objects inside them columns."""
    if _is_rows(value):
        if not any(map(lacking, value)):
            return _cell_tables(value)
        flat = [_flat(item) for item in value]
        names = list(dict.fromkeys(key for row in flat for key in row))[:_MANY]
        names = [n for n in names if n not in _ORIGIN] or names
        more = f" The first {_LONG} of {len(flat):,} rows." if len(flat) > _LONG else ""
        nested: list[Part] = []
        for item in value:
            # A list inside an object is named by its key and the first thing that the object says of itself.
            said = next(
                (f" of {key} {word}" for key, word in item.items() if isinstance(word, str | int)), ""
            )
            for key, inner in item.items():
                if _is_rows(inner):
                    nested += any_table(inner, str(item.get("title") or item.get("what") or f"{key}{said}"))
        if nested and len(names) == 1:  # it stands in the titles of the nested tables
            return nested
        rows = [[row.get(name) for name in names] for row in flat[:_LONG]]
        return [number_table(names, rows, (title + more).strip()), *nested]
    if isinstance(value, Mapping):
        single = [[key, item] for key, item in _flat(value).items() if key not in _ORIGIN]
        parts: list[Part] = [number_table(["what", "value"], single, title)] if single else []
        for key, item in value.items():
            if _is_rows(item):
                parts += any_table(item, "" if key in _KEYS_OF_ROWS else str(key))
        return parts
    return [Text(f"`{json.dumps(value)[:200]}`")]


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _cell_tables(cells: Sequence[Mapping[str, Any]]) -> list[Part]:
    """One table per metric: methods down, data sets across; of a single data set, one table with all metrics."""
    metrics = list(dict.fromkeys(cell["metric"] for cell in cells))
    if len({cell["dataset"] for cell in cells}) == 1:
        by_name = {(cell["method"], cell["metric"]): cell for cell in cells}
        methods = dict.fromkeys(cell["method"] for cell in cells)
        rows = [
            [method, *(_single(by_name.get((method, metric))) for metric in metrics)] for method in methods
        ]
        columns = ["method", *(metric.replace("_", " ") for metric in metrics)]
        return [Table(columns, rows, f"{cells[0]['dataset']}, mean ± standard deviation.")]
    parts: list[Part] = []
    for metric in sorted(metrics, key=lambda name: name != "nmi"):
        name = _SCORES.get(metric, metric.replace("_", " "))
        caption = f"{name}, mean ± standard deviation over runs. Bold: the highest."
        made = pivot([c for c in cells if c["metric"] == metric], caption)
        parts.append(Details(name, [made]) if parts else made)  # the first one is open
    return parts


def _single(cell: Mapping[str, Any] | None) -> Cell:
    """A number, and below it what was published and how sure a difference is, where that is known."""
    if cell is None:
        return Cell("-")
    known = (("published {:.3g}", cell.get("paper_mean")), ("p = {:.2g}", cell.get("p")))
    said = [text.format(value) for text, value in known if value is not None]
    return Cell(mean_and_deviation(cell["mean"], cell["std"]), ", ".join(said))


def _flat(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Numbers and words by name; a list of numbers becomes its mean, other lists are left out."""
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        if prefix and key in _ORIGIN_INSIDE:
            continue
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}, ")
        elif isinstance(value, list):
            if value and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
                flat[f"{name} (mean of {len(value)})"] = float(np.mean(value))
        else:
            flat[name] = value
    return flat


@cache
def _git_log(folder: Path, *options: str) -> tuple[str, ...]:
    """Lines of ``git log`` in the checkout that holds a folder; none where there is no checkout."""
    try:
        words = ["git", "log", *options]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple(done.stdout.splitlines())


def commit_date(commits: str, folder: str | Path) -> str:
    """The dates of commits ("1a2b3c4, 5d6e7f8+"), from the first to the last; empty where they are not known."""
    wanted = [name.strip().rstrip("+") for name in commits.split(",")]
    wanted = [name for name in wanted if len(name) >= 7]
    history = _git_log(Path(folder).resolve(), "--all", "--format=%H %cs") if wanted else ()
    dates = sorted({line[41:] for line in history for name in wanted if line.startswith(name)})
    return " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""


def _file_date(path: Path) -> str:
    """The day on which a file was last changed."""
    return f"{datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC):%Y-%m-%d}"


def origin_of_cells(cells: Iterable[Mapping[str, Any]], folder: Path, file: str) -> Details:
    """One row per data set and method: how many runs, command, commit, machine, date, seconds."""
    rows: dict[tuple[str, str], list[str | Cell]] = {}
    for cell in cells:
        key = (cell["dataset"], cell["method"])
        if key not in rows:
            date = commit_date(str(cell.get("commit", "")), folder) or _file_date(folder / file)
            told = [str(cell.get(name) or "-") for name in ("command", "commit", "device")]
            seconds = Cell(f"{cell.get('seconds', 0):,.1f}")
            rows[key] = [*key, Cell(str(cell.get("n", ""))), *told, date, seconds]
    columns = ["data", "method", "runs", "command", "commit", "machine", "date of the commit", "seconds"]
    return Details(f"Where these numbers come from ({file})", [Table(columns, list(rows.values()), heads=2)])


def origin_of_file(value: Any, folder: Path, file: str) -> Details:
    """The same for a file that says once where it comes from, or in each of its rows.

    Where it does not, the commit is the one that last changed the file.
    """
    rows: dict[tuple[str, ...], None] = {}
    shared = _machine(value) if isinstance(value, Mapping) else ""
    for entry in _entries(value) or [{}]:
        commit = entry.get("commit") or next(iter(_git_log(folder, "-1", "--format=%h", "--", file)), "-")
        date = entry.get("date") or commit_date(str(commit), folder) or _file_date(folder / file)
        machine = entry.get("machine") or entry.get("device") or _machine(entry) or shared or "-"
        rows[str(entry.get("command") or "-"), str(commit), str(machine), str(date)] = None
    table = Table(["command", "commit", "machine", "date"], list(rows), heads=0)
    return Details(f"Where these numbers come from ({file})", [table])


def _machine(entry: Mapping[str, Any]) -> str:
    """The machine, where it is described in parts."""
    for name in ("environment", "machine", "device"):
        part = entry.get(name)
        if isinstance(part, Mapping):
            told = {key: value for key, value in part.items() if not isinstance(value, dict | list)}
            return ", ".join(f"{key} {value}" for key, value in told.items())
    return ""


def _entries(value: Any) -> list[Mapping[str, Any]]:
    """The objects that name a commit or a command: the whole file, or else its rows."""
    if isinstance(value, Mapping):
        if {"commit", "command"} & set(value):
            return [value]
        value = [item for item in value.values() if isinstance(item, list | Mapping)]
    return [entry for item in value for entry in _entries(item)] if isinstance(value, list) else []
