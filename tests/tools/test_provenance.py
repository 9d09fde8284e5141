"""Every file of results says where it comes from."""

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from softcut.files import atomic_json
from softcut.paper import regression
from softcut.paper.regression import RegressionSettings, label_of
from tools import provenance

ROOT = Path(__file__).resolve().parents[2]
TOLD = {"commit": "1234567", "command": "python a.py", "device": "CPU", "date": "2026-01-01"}


def test_every_file_of_results_says_where_it_comes_from() -> None:
    assert provenance.problems(ROOT / "results") == []


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({**TOLD, "rows": [{"a": 1}]}, None),
        ([{"a": 1, **TOLD}], None),
        ({"machine": {"torch": "2", **TOLD}, "a": {"ms": 1}}, None),
        ({"environment": {"cores": 2}, "rows": [{"a": 1, **TOLD}]}, None),
        ({"rows": [{"methods": {"x": TOLD, "y": {**TOLD, "date": ""}}}]}, "a.json does not say its date."),
        ([TOLD, {**TOLD, "device": None}], "a.json does not say its device."),
        ({"rows": [{"a": 1}]}, "a.json does not say its commit, command, device, date."),
        ({**TOLD, "commit": "1234567, 89abcde"}, None),
        ({**TOLD, "commit": "1234567+"}, "a.json was made by code that no commit holds: 1234567+."),
        ({**TOLD, "commit": "unknown"}, "a.json was made by code that no commit holds: unknown."),
    ],
)
def test_what_lacks_something_is_named(tmp_path: Path, value: object, sentence: str | None) -> None:
    atomic_json(tmp_path / "a.json", value)
    assert provenance.problems(tmp_path) == ([] if sentence is None else [sentence])


def test_older_entries_take_what_is_known_from_elsewhere(tmp_path: Path) -> None:
    """The day on which an entry was first committed, the command of its cell, --device, and of curves all of it."""
    run = {"dataset": "DD", "method": "mincut", "seed": 0, "settings": {"k": 4}, "accuracy": 1.0}
    run |= {"device": "NVIDIA H200", "commit": "1234567"}
    cell = {"dataset": "dd", "method": "mincut", "mean": 1.0, "device": "NVIDIA H200", "commit": "1234567"}
    curve = {"dataset": "DD", "method": "mincut", "folds": [0]}
    curve["settings"] = provenance.settings_hash({"k": 4})
    atomic_json(tmp_path / "table2_runs.json", [run])
    atomic_json(tmp_path / "table2.json", [{**cell, "command": "softcut reproduce x"}])
    atomic_json(tmp_path / "table2_curves.json", [curve])
    atomic_json(tmp_path / "speed.json", {"commit": "1234567", "device": "CPU", "command": "speed.py -k 3"})
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    day = {"GIT_COMMITTER_DATE": "2026-02-03T04:05:06+00:00"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True, env=day | {"PATH": "/usr/bin:/bin"})
    atomic_json(tmp_path / "table2.json", [{**cell, "command": "softcut reproduce y"}])
    assert len(provenance.fill(tmp_path)) == 4
    assert provenance.problems(tmp_path) == []
    for name in ("table2", "table2_runs", "table2_curves"):
        (entry,) = json.loads((tmp_path / f"{name}.json").read_text())
        assert (entry["command"], entry["date"]) == ("softcut reproduce y --device cuda", "2026-02-03")
    assert json.loads((tmp_path / "speed.json").read_text())["command"] == "python benchmarks/speed.py -k 3"
    assert provenance.fill(tmp_path) == []  # nothing more to add


def test_commands_of_trials_of_table_3_name_their_settings() -> None:
    for cell in json.loads((ROOT / "results/table3_trials.json").read_text()):
        words = shlex.split(cell["command"])
        given = dict(zip(words[3:], [*words[4:], ""], strict=True))
        numbers = {
            name: int(given[f"--{name}"]) for name in ("epochs", "k", "molecules") if f"--{name}" in given
        }
        settings = replace(RegressionSettings(), **numbers, unmasked="--unmasked" in given)
        assert label_of(given["--method"], settings.known) == cell["method"]
        assert int(given.get("--folds", regression.FOLDS)) == cell["n"]
