"""Writing files so that nothing half-written is ever left behind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from softcut.errors import ParameterError


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


def check_writable(option: str, path: str | Path, folder: str | Path, room: int = 0) -> None:
    """Say before the work, not after it, that a folder cannot be written to, or has no room for so many bytes.

    Where the folder does not exist, this is about the nearest one above it. `option` and `path` are what was given.
    """
    parent = nearest(folder)
    if not parent.is_dir():
        raise ParameterError(f"{option} {path} cannot be written: {parent} is a file.")
    try:
        os.rmdir(tempfile.mkdtemp(dir=parent, prefix=".softcut-"))
        free = shutil.disk_usage(parent).free
    except OSError as error:
        raise ParameterError(
            f"{option} {path} cannot be written: {parent}: {error.strerror or error}."
        ) from error
    if free < room:
        raise ParameterError(
            f"{option} {path} cannot be written: the results take about {room / 1e6:,.1f} MB, and {parent} has "
            f"{free / 1e6:,.1f} MB left; free some or name a folder on another disk."
        )


def nearest(path: str | Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    path = Path(path)
    return next(p for p in (path, *path.parents) if p.exists())


def atomic_json(path: str | Path, value: Any) -> Path:
    """:func:`atomic_write` of a value as JSON."""
    return atomic_write(path, (json.dumps(value, indent=1) + "\n").encode())
