"""Reading the files in results/ that tables of the pages are made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from softcut.errors import DataError


class NotMeasuredError(DataError):
    """Results that a table is made of are not there yet; the message says what makes them."""


def read_json(out: str | Path, name: str, command: str = "") -> Any:
    """The content of ``<name>.json``; where it is missing and a command makes it, an error that names it."""
    path = Path(out) / f"{name}.json"
    if command and not path.exists():
        raise NotMeasuredError(f"results/ holds no {path.name}: {command}")
    return json.loads(path.read_text(encoding="utf-8"))
