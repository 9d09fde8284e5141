"""Calls that must be refused."""

from collections.abc import Callable
from typing import Any

import pytest


def refuses(error: type[Exception], said: str, call: Callable[..., Any], *given: Any, **options: Any) -> None:
    """The call raises the error, with a sentence that matches."""
    with pytest.raises(error, match=said):
        call(*given, **options)


def sentence_of(
    error: type[Exception] | tuple[type[Exception], ...],
    call: Callable[..., Any],
    *given: Any,
    **options: Any,
) -> str:
    """What the error says that the call raises: one line that ends as a sentence does."""
    with pytest.raises(error) as caught:
        call(*given, **options)
    said = str(caught.value)
    assert "\n" not in said and said.endswith((".", "?"))
    return said
