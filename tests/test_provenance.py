"""Where a result comes from."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from softcut import provenance

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("original", "script", "wanted"),
    [
        (
            ["python", "-m", "softcut.paper.quality", "-k", "3"],
            "quality.py",
            "python -m softcut.paper.quality -k 3",
        ),
        (["python", "x"], "/somewhere/bin/softcut", "softcut -k 3"),
        (["python", "x"], str(ROOT / "benchmarks" / "halo.py"), "python benchmarks/halo.py -k 3"),
        (["python", "x"], "/somewhere/own.py", "python own.py -k 3"),
    ],
)
def test_the_command_is_what_one_types_in_the_checkout(monkeypatch, original, script, wanted):
    monkeypatch.setattr(sys, "orig_argv", original)
    monkeypatch.setattr(sys, "argv", [script, "-k", "3"])
    assert provenance.command_line() == wanted
    assert provenance.origin()["command"] == wanted


def test_the_origin_names_commit_and_device(monkeypatch):
    monkeypatch.setenv("SOFTCUT_COMMIT", "1234567")
    found = provenance.origin("cpu")
    assert found["commit"] == "1234567"
    assert found["device"] == provenance.device_name("cpu")
