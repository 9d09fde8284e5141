"""Calls that must be refused."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(error: type[Exception], said: str, call: Callable[..., Any], *given: Any, **options: Any) -> None:
    """The call raises the error, with a sentence that matches."""
    with pytest.raises(error, match=said):
        call(*given, **options)
