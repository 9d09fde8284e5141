"""Ctrl-C: the first press keeps what was learnt, the second gives up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Stopped(BaseException):
    """Ctrl-C was pressed a second time. Not a KeyboardInterrupt: training would keep its work and go on."""


class Interrupts:
    """Counts presses of Ctrl-C while it is active.

    The first one raises KeyboardInterrupt, which training answers by keeping its last finished iteration;
    the second raises :class:`Stopped`, which nothing answers but the end of the program.
    """

    def __init__(self) -> None:
        self.count = 0
        self._shielded = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        self.count = 0
        with contextlib.suppress(ValueError):  # only the main thread may handle signals
            self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if not self._shielded:
            raise KeyboardInterrupt if self.count == 1 else Stopped

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """A few lines that must run to their end: Ctrl-C is counted meanwhile, and nothing more."""
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False


INTERRUPTS = Interrupts()
