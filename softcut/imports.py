"""Imports of large packages, as quick as they can be."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """For imports: nothing that they load is garbage, and to search it over and over takes a fourth of their time.

    >>> with importing():
    ...     import json
    >>> gc.isenabled()
    True
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
