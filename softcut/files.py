"""Writing files so that nothing half-written is ever left behind."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def atomic_write(path: str | Path, content: bytes | Callable[[IO[bytes]], Any]) -> Path:
    """Write to a temporary name beside `path`, then rename.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     atomic_write(folder + "/a.txt", b"done").read_bytes()
    b'done'

    Parameters
    ----------
    path : path
        Where the file should be.
    content : bytes, or a function that writes to an open binary file
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes private files
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def atomic_json(path: str | Path, value: Any) -> Path:
    """:func:`atomic_write` of a value as JSON."""
    return atomic_write(path, (json.dumps(value, indent=1) + "\n").encode())
