"""Compilation by numba: once for a machine, kept in its cache, or in memory where nothing can be written.

Modules with compiled functions are imported when they are used, so that `import softcut` needs no numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from softcut.errors import require

numba = require("numba", None, "clustering by edges")


def compiled(function: Callable[..., Any]) -> Any:
    """The function as machine code, compiled at its first call and kept for later processes."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder to write to
        return numba.njit(nogil=True)(function)


def is_cached(kernel: Any) -> bool:
    """Whether a compiled function is there already, so that its first call does not take seconds."""
    folder = getattr(kernel.stats, "cache_path", None)
    if kernel.signatures or folder is None:
        return bool(kernel.signatures)
    name = kernel.py_func.__qualname__
    return any(Path(folder).glob(f"*.{name}-*.nbi"))


@contextmanager
def interruptible() -> Iterator[None]:
    """For calls of compiled functions: Ctrl-C in one is what it is elsewhere, after the function has ended."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
