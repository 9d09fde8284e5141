"""Whether every file of ``results/`` says where it comes from: commit, command, device and date.

``python -m tools.provenance`` names what lacks something; ``--fill`` first adds what is known from elsewhere to entries
that were recorded before everything was noted: the day on which an entry first stood in the history of its file, the
command of a run's cell, ``--device``, and of curves what their runs say.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from softcut.files import atomic_json, atomic_write
from softcut.paper.regression import label_of
from softcut.paper.runs import settings_hash
from softcut.provenance import on_device

KEYS = ("commit", "command", "device", "date")
_COMMIT = re.compile(r"[0-9a-f]{7,40}(, [0-9a-f]{7,40})*")
Entry = dict[str, Any]


def entries(value: Any, known: Mapping[str, Any] | None = None) -> Iterator[Entry]:
    """What each part of a file says about its origin: the file for all, or else each of its rows."""
    known = dict(known or {})
    if isinstance(value, Mapping):
        machine = value.get("machine")
        known |= {key: value[key] for key in KEYS if value.get(key)}
        known |= {key: machine[key] for key in KEYS if isinstance(machine, Mapping) and machine.get(key)}
        parts = [part for part in value.values() if isinstance(part, Mapping | list)]
        rows = [part for part in parts if isinstance(part, list) and part and isinstance(part[0], Mapping)]
        if all(key in known for key in KEYS) or not parts:
            yield known
        else:
            for part in rows or parts:
                yield from entries(part, known)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for part in value:
            yield from entries(part, known)
    else:
        yield known


def problems(folder: str | Path) -> list[str]:
    """One sentence for every file that does not say, for all that it holds, where it comes from."""
    sentences = []
    for path in sorted(Path(folder).glob("*.json")):
        told = list(entries(json.loads(path.read_text(encoding="utf-8"))))
        missing = [key for key in KEYS if any(key not in entry for entry in told)]
        if missing:
            sentences.append(f"{path.name} does not say its {', '.join(missing)}.")
        commits = {str(entry.get("commit", "")) for entry in told} - {""}
        wrong = sorted(name for name in commits if not _COMMIT.fullmatch(name))
        if wrong:
            sentences.append(f"{path.name} was made by code that no commit holds: {', '.join(wrong)}.")
    return sentences


# ------------------------------------------------------------------------------- what older entries do not say


def _git(path: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=path.parent, capture_output=True, text=True, check=True)
    return done.stdout


def _content(entry: Mapping[str, Any]) -> str:
    """What an entry says besides where it comes from; commands and columns were added later."""
    kept = {key: value for key, value in entry.items() if key not in ("command", "date", "note", "device")}
    return json.dumps(kept, sort_keys=True)


def first_days(path: Path) -> dict[str, str]:
    """The day on which each entry of a list first stood in the file, by its content."""
    days: dict[str, str] = {}
    for line in _git(path, "log", "--reverse", "--format=%H %cs", "--", path.name).splitlines():
        commit, day = line.split()
        try:
            old = json.loads(_git(path, "show", f"{commit}:./{path.name}"))
        except (subprocess.CalledProcessError, ValueError):
            continue
        for entry in old if isinstance(old, list) else []:
            days.setdefault(_content(entry), day)
    return days


def _whole(command: str) -> str:
    """A command that can be pasted: scripts were once noted by their names alone."""
    return re.sub(r"^(?:benchmarks/)?(\w+\.py)", r"python benchmarks/\1", command)


def _of_cells(path: Path) -> dict[tuple[str, str], str]:
    """The commands of a table's cells by data set (small letters) and method; of a method where only it is known."""
    cells = json.loads((path.parent / path.name.replace("_runs", "")).read_text(encoding="utf-8"))
    named = {(str(cell["dataset"]).lower(), cell["method"]): cell["command"] for cell in cells}
    return {("", method): command for (_, method), command in named.items()} | named


def _label(path: Path, run: Mapping[str, Any]) -> tuple[str, str]:
    """The data set and method that the cell of a run is known by."""
    of_trials = path.stem.startswith("table3")
    return str(run["dataset"]).lower(), label_of(run["method"], run["settings"]) if of_trials else run[
        "method"
    ]


def _of_runs(path: Path) -> dict[tuple[str, str], str]:
    """The last day on which runs of a cell were recorded, by data set and method."""
    runs = path.with_name(f"{path.stem}_runs.json")
    days: dict[tuple[str, str], str] = {}
    if runs.exists():
        first = first_days(runs)
        for run in json.loads(runs.read_text(encoding="utf-8")):
            day = run.get("date") or first.get(_content(run), "")
            days[_label(path, run)] = max(day, days.get(_label(path, run), ""))
    return days


def _filled_list(path: Path, value: list[Entry]) -> list[Entry]:
    days, days_of_runs, made = first_days(path), _of_runs(path), []
    last = _git(path, "log", "-1", "--format=%cs", "--", path.name).strip()
    commands = _of_cells(path) if path.stem.endswith("_runs") else {}
    runs: dict[tuple[str, str, str], Entry] = {}
    if path.stem.endswith("_curves"):
        for other in path.parent.glob(f"{path.stem.removesuffix('_curves')}*_runs.json"):
            for run in json.loads(other.read_text(encoding="utf-8")):
                runs[run["dataset"], run["method"], settings_hash(run["settings"])] = run
    for entry in value:
        new = dict(entry)
        day = days.get(_content(entry), last)
        if days_of_runs:
            day = days_of_runs.get((str(new["dataset"]).lower(), new["method"]), day)
        if commands:
            name, label = _label(path, new)
            new.setdefault("command", commands.get((name, label), commands.get(("", label), "")))
        if runs:
            run = runs.get((new["dataset"], new["method"], new["settings"]), {})
            new |= {key: run[key] for key in KEYS if key in run and key not in new}
        if "command" in new and "device" in new and new["command"].startswith("softcut reproduce"):
            new["command"] = on_device(new["command"], new["device"])
        new.setdefault("date", day)
        made.append(new)
    return made


def _filled(value: Any, day: str) -> Any:
    """Dates, and commands in full, of an object that names a commit, or of the rows of one."""
    if isinstance(value, list):
        return [_filled(part, day) for part in value]
    if not isinstance(value, Mapping):
        return value
    new = {key: _filled(part, day) for key, part in value.items()}
    if "commit" in new:
        new.setdefault("date", day)
    if isinstance(new.get("command"), str):
        new["command"] = _whole(new["command"])
    return new


def fill(folder: str | Path) -> list[Path]:
    """Add to every file what is known from elsewhere; the files that were changed."""
    written = []  # files of one line (pictures to turn) stay so
    paths = sorted(
        Path(folder).resolve().glob("*.json"), key=lambda p: ("_curves" in p.name, "_runs" in p.name)
    )
    for path in paths:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text)
        if isinstance(value, list) and all("dataset" in entry for entry in value):
            new: Any = _filled_list(path, value)
        else:
            new = _filled(value, _git(path, "log", "-1", "--format=%cs", "--", path.name).strip())
        if new != value and text.count("\n") > 1:
            written.append(atomic_json(path, new))
        elif new != value:
            text = json.dumps(new, separators=(",", ":"), ensure_ascii=False)
            written.append(atomic_write(path, f"{text}\n".encode()))
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m tools.provenance [--fill]``; the exit code is 1 where something is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.provenance", description=__doc__)
    parser.add_argument("--fill", action="store_true", help="add what is known from elsewhere")
    parser.add_argument("--results", default="results", help="the folder (default results)")
    given = parser.parse_args(arguments)
    for path in fill(given.results) if given.fill else []:
        print(path.name)
    sentences = problems(given.results)
    print(*sentences, sep="\n")
    return 1 if sentences else 0


if __name__ == "__main__":
    raise SystemExit(main())
