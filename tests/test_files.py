"""Files are written whole or not at all."""

from __future__ import annotations

import json

import pytest

from softcut.files import atomic_json, atomic_write


def test_a_failed_write_leaves_the_old_file(tmp_path):
    atomic_json(tmp_path / "a.json", [1])

    def half(file):
        file.write(b"[2")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        atomic_write(tmp_path / "a.json", half)
    assert json.loads((tmp_path / "a.json").read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
