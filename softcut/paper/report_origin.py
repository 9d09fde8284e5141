"""Where numbers come from: command, commit, machine and date of every result in the report."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from softcut.report.html_page import Cell, Details, Table

__all__ = ["commit_date", "file_date", "origin_of_cells", "origin_of_file"]


@cache
def _history(folder: Path) -> tuple[tuple[str, str], ...]:
    """(hash, date) of all commits of the checkout that holds a folder; none where there is no checkout."""
    try:
        done = subprocess.run(
            ["git", "log", "--all", "--format=%H %cs"], cwd=folder, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ()
    return tuple((line[:40], line[41:]) for line in done.stdout.splitlines())


def commit_date(commits: str, folder: str | Path) -> str:
    """The dates of commits ("1a2b3c4, 5d6e7f8+"), from the first to the last; empty where they are not known.

    >>> commit_date("unknown", ".")
    ''
    """
    folder = Path(folder).resolve()
    if not folder.is_dir():
        return ""
    wanted = [name.strip().rstrip("+") for name in commits.split(",")]
    dates = sorted(
        {
            date
            for whole, date in _history(folder)
            for name in wanted
            if len(name) >= 7 and whole.startswith(name)
        }
    )
    return " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else ""


def file_date(path: str | Path) -> str:
    """The day on which a file was last changed.

    >>> len(file_date(__file__))
    10
    """
    return f"{datetime.datetime.fromtimestamp(Path(path).stat().st_mtime, datetime.UTC):%Y-%m-%d}"


def origin_of_cells(cells: Iterable[Mapping[str, Any]], folder: Path, file: str) -> Details:
    """One row per data set and method: how many runs, command, commit, machine, date, seconds."""
    rows: dict[tuple[str, str], list[str | Cell]] = {}
    for cell in cells:
        key = (cell["dataset"], cell["method"])
        if key in rows:
            continue
        rows[key] = [
            *key,
            Cell(str(cell.get("n", ""))),
            cell.get("command", "-"),
            cell.get("commit", "-"),
            cell.get("device", "-"),
            commit_date(cell.get("commit", ""), folder) or file_date(folder / file),
            Cell(f"{cell.get('seconds', 0):,.1f}"),
        ]
    columns = ["data", "method", "runs", "command", "commit", "machine", "date of the commit", "seconds"]
    return Details(f"Where these numbers come from ({file})", [Table(columns, list(rows.values()), heads=2)])


def origin_of_file(value: Any, folder: Path, file: str, command: str = "-") -> Details:
    """The same for a file that says once where it comes from, or in each of its rows.

    Where it does not: the commit is the one that last changed the file, and the command `command`.
    """
    found: dict[tuple[str, ...], None] = {}
    shared = _machine(value) if isinstance(value, Mapping) else ""
    for entry in _entries(value) or [{}]:
        commit = str(entry.get("commit") or _last_change(folder, file) or "-")
        date = str(entry.get("date") or commit_date(commit, folder) or file_date(folder / file))
        machine = str(entry.get("machine") or entry.get("device") or _machine(entry) or shared or "-")
        found[str(entry.get("command") or command), commit, machine, date] = None
    rows: Sequence[Sequence[str]] = list(found)
    columns = ["command", "commit", "machine", "date"]
    return Details(f"Where these numbers come from ({file})", [Table(columns, rows, heads=0)])


@cache
def _last_change(folder: Path, file: str) -> str:
    """The commit that last changed a file; empty where there is no checkout."""
    try:
        done = subprocess.run(
            ["git", "log", "-1", "--format=%h", "--", file],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _machine(entry: Mapping[str, Any]) -> str:
    """The machine, where it is described in parts."""
    for name in ("environment", "machine", "device"):
        part = entry.get(name)
        if isinstance(part, Mapping):
            return ", ".join(
                f"{key} {value}" for key, value in part.items() if not isinstance(value, dict | list)
            )
    return ""


def _entries(value: Any) -> list[Mapping[str, Any]]:
    """The objects that name a commit or a command: the whole file, or else its rows."""
    if isinstance(value, Mapping):
        own = [value] if {"commit", "command"} & set(value) else []
        return own or [
            entry for item in value.values() if isinstance(item, list | dict) for entry in _entries(item)
        ]
    if isinstance(value, list):
        return [entry for item in value if isinstance(item, Mapping) for entry in _entries(item)]
    return []
