"""Imports of large packages, as quick as they can be."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@contextmanager
def importing() -> Iterator[None]:
    """For imports: nothing that they load is garbage, and to search it over and over takes a fourth of their time.

    scipy takes every name that numpy has, and with them a compiler of Fortran that nobody asked for: it is left for
    later.

    >>> with importing():
    ...     import json
    >>> gc.isenabled()
    True
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        with left_for_later("numpy.f2py"):
            yield
    finally:
        if enabled:
            # What was loaded counts as old at once: the first search through it would take as long as to load scipy.
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Later(ModuleType):
    """A module that is imported when something is first taken from it."""

    __file__ = None  # ``inspect`` asks all modules for theirs

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            package = self.__name__.partition(".")[0]
            _make_way({each: module for each, module in sys.modules.items() if each.split(".")[0] == package})
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def left_for_later(*names: str) -> Iterator[None]:
    """Stand-ins take the place of modules while others are imported, and are gone afterwards.

    Whoever imports such a module then gets the real one, and a name that somebody kept passes everything on to it.
    The packages that a module is part of come before it, if they are to wait as well.
    """
    installed = [name for name in names if name not in sys.modules and find_spec(name.partition(".")[0])]
    waiting: dict[str, ModuleType] = {}
    for name in installed:
        waiting[name] = sys.modules[name] = _Later(name)
        package, _, last = name.rpartition(".")
        if package:
            setattr(importlib.import_module(package), last, waiting[name])
    try:
        yield
    finally:
        _make_way(waiting)


def _make_way(modules: dict[str, ModuleType]) -> None:
    """Take those that are stand-ins, and still in their place, out of it."""
    for name, module in modules.items():
        if type(module) is _Later and sys.modules.get(name) is module:
            del sys.modules[name]
            package, _, last = name.rpartition(".")
            if package in sys.modules and vars(sys.modules[package]).get(last) is module:
                delattr(sys.modules[package], last)
