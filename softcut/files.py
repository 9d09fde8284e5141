"""Writing files so that nothing half-written is ever left behind."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from softcut.errors import ParameterError

_ABANDONED = 600  # seconds since a temporary file was last written to: its process was killed


def atomic_write(path: str | Path, content: bytes | Callable[[IO[bytes]], Any]) -> Path:
    """Write to a temporary name beside `path`, then rename; what a killed process left there is removed.

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
    for old in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            if time.time() - old.stat().st_mtime > _ABANDONED:
                old.unlink()
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
    """Raise before the work where a folder cannot be written to, or its disk has less than `room` bytes left.

    Where the folder does not exist, this is about the nearest one above it. `option` and `path` are what was given.
    """
    parent = nearest(folder)
    if not parent.is_dir():
        raise ParameterError(f"{option} {path} cannot be written: {parent} is a file.", argument=option)
    try:
        os.rmdir(tempfile.mkdtemp(dir=parent, prefix=".softcut-"))
        free = shutil.disk_usage(parent).free
    except OSError as error:
        raise ParameterError(
            f"{option} {path} cannot be written: {parent}: {error.strerror or error}.", argument=option
        ) from error
    if free < room:
        raise ParameterError(
            f"{option} {path} cannot be written: the results take about {room / 1e6:,.1f} MB, and {parent} has "
            f"{free / 1e6:,.1f} MB left; free some or name a folder on another disk.",
            argument=option,
        )


def nearest(path: str | Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    path = Path(path)
    return next(p for p in (path, *path.parents) if p.exists())


def atomic_json(path: str | Path, value: Any) -> Path:
    """:func:`atomic_write` of a value as JSON."""
    return atomic_write(path, (json.dumps(value, indent=1) + "\n").encode())


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders change places in one step; whether that was done (only Linux can)."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    here, swap = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    return rename is not None and rename(here, os.fsencode(one), here, os.fsencode(other), swap) == 0
