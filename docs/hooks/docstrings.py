"""Docstrings as Markdown: examples become code blocks, and ``:func:`name` `` becomes code."""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`~?([^`]+)`")


def as_markdown(text: str) -> str:
    """The text with roles replaced; a doctest is a code block, or after the parameters a section of its own."""
    lines: list[str] = []
    inside = sections = False
    for line in ROLE.sub(r"`\1`", text).splitlines():
        starts, blank = line.startswith(">>>"), not line.strip()
        sections = sections or (set(line) == {"-"} and len(line) > 3)
        if starts and not inside:
            lines += ["Examples", "--------"] if sections else ["", "```pycon"]
        elif inside and blank and not sections:
            lines.append("```")
        inside = starts or (inside and not blank)
        lines.append(line)
    return "\n".join([*lines, "```"] if inside and not sections else lines)


class Docstrings(griffe.Extension):
    """Changes every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
