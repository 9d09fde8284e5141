"""Where numbers come from: command, commit, machine and date of every result in the report."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from softcut.report.html_page import Details
from softcut.report.tables import Cell, Table

__all__ = ["commit_date", "origin_of_cells", "origin_of_file"]


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
        if key in rows:
            continue
        date = commit_date(cell.get("commit", ""), folder) or _file_date(folder / file)
        told = [cell.get(name, "-") for name in ("command", "commit", "device")]
        rows[key] = [
            *key,
            Cell(str(cell.get("n", ""))),
            *told,
            date,
            Cell(f"{cell.get('seconds', 0):,.1f}"),
        ]
    columns = ["data", "method", "runs", "command", "commit", "machine", "date of the commit", "seconds"]
    return Details(f"Where these numbers come from ({file})", [Table(columns, list(rows.values()), heads=2)])


def origin_of_file(value: Any, folder: Path, file: str, command: str = "-") -> Details:
    """The same for a file that says once where it comes from, or in each of its rows.

    Where it does not: the commit is the one that last changed the file, and the command `command`.
    """
    rows: dict[tuple[str, ...], None] = {}
    shared = _machine(value) if isinstance(value, Mapping) else ""
    for entry in _entries(value) or [{}]:
        commit = entry.get("commit") or next(iter(_git_log(folder, "-1", "--format=%h", "--", file)), "-")
        date = entry.get("date") or commit_date(str(commit), folder) or _file_date(folder / file)
        machine = entry.get("machine") or entry.get("device") or _machine(entry) or shared or "-"
        rows[str(entry.get("command") or command), str(commit), str(machine), str(date)] = None
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
