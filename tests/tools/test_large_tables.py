"""The table of the largest graph from a file as benchmarks/billion.py writes it."""

from __future__ import annotations

import json

import pytest

from softcut.errors import DataError
from tools.large_tables import LARGE_TABLES


def test_every_run_is_a_row(tmp_path):
    run = {"mode": "full", "seconds": 25.04, "phases": {"training": 9.96}, "peak_reserved_gib": 88.0}
    run |= {"nmi_of_start": 0.5, "nmi": 0.9876}
    (tmp_path / "billion.json").write_text(json.dumps({"runs": [run]}))
    *_, row = LARGE_TABLES["billion"](tmp_path).splitlines()
    assert row == "| all nodes at every step | 25.0 | 10.0 | 88.0 | 0.500 | 0.988 |"


def test_what_is_not_measured_is_named_with_its_command(tmp_path):
    with pytest.raises(DataError, match=r"results/ holds no .*: python benchmarks/billion\.py"):
        LARGE_TABLES["billion"](tmp_path)
