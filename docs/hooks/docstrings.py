"""Docstrings as Markdown: examples become code blocks, ``:func:`name` `` becomes code, formulas become pictures."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

import griffe
import matplotlib
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image

ROLE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`~?([^`]+)`")
MATH = re.compile(r"^\.\. math::\n((?:[ ]+.*\n?|\n(?=[ ]))+)", flags=re.MULTILINE)
# What matplotlib's formulas do not have, and what says the same.
SPELLING = {
    r"\Big\|": r"\|",
    r"\left\|": r"\|",
    r"\right\|": r"\|",
    r"\qquad": r"\quad",
    r"\sqrt K": r"\sqrt{K}",
}


def picture(match: re.Match[str]) -> str:
    """A formula as a picture in the page, drawn without LaTeX and without a script from elsewhere."""
    formula = " ".join(match[1].split())
    drawn = formula
    for other, known in SPELLING.items():
        drawn = drawn.replace(other, known)
    file = io.BytesIO()
    with matplotlib.rc_context({"savefig.transparent": True, "mathtext.fontset": "cm"}):
        math_to_image(f"${drawn}$", file, prop=FontProperties(size=14), format="svg")
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img class="formula" alt="{formula}" src="data:image/svg+xml;base64,{data}">\n\n'


def as_markdown(text: str) -> str:
    """The text with roles and formulas replaced; a doctest is a code block, or after the parameters a section."""
    lines: list[str] = []
    inside = sections = False
    for line in MATH.sub(picture, ROLE.sub(r"`\1`", text)).splitlines():
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
