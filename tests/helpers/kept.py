"""Whole results kept in files: a test compares with one, and a person reads what changed in it."""

import re
from pathlib import Path

import numpy as np

NUMBER = re.compile(r"(?<![\w.#])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")


def check_kept(path: Path, text: str, atol: float = 0.11) -> None:
    """The words of a kept file exactly, its numbers nearly; a file that was deleted is written anew, and fails."""
    if not path.exists():
        path.write_text(text, encoding="utf-8")
        raise AssertionError(f"{path.name} is written: read it and keep it.")
    kept = path.read_text(encoding="utf-8")
    assert NUMBER.sub("#", text) == NUMBER.sub("#", kept)
    numbers = (np.array(NUMBER.findall(each), dtype=float) for each in (text, kept))
    np.testing.assert_allclose(*numbers, rtol=1e-3, atol=atol)
