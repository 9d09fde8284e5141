"""Checks of the numbers that layers are made with."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from softcut.errors import ParameterError

__all__ = ["check_number", "check_size"]


def check_size(value: Any, name: str, least: int = 1) -> int:
    """A whole number that is large enough, as an ``int``; NumPy's are accepted."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} must be a whole number, got {value!r}.")
    if value < least:
        raise ParameterError(f"{name} must be at least {least}, got {value}.")
    return int(value)


def check_number(value: Any, name: str) -> float:
    """A finite number, as a ``float``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ParameterError(f"{name} must be a finite number, got {value!r}.")
    return float(value)
