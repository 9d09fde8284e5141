"""A page of its own: sections of text, tables, pictures, drawings and interactive views, in one HTML file.

Nothing is loaded from anywhere: style, scripts, pictures and data are inside. Text that comes from users' files is
escaped, and a content security policy lets only the page's own script run.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from softcut import __version__
from softcut.errors import require
from softcut.report.tables import Table

VIEW_SCRIPTS = ("views.js", "view_graph.js", "view_charts.js")
_START = "softcutViews.mountAll();\n"
_WIDEST = 1500  # pixels of an inlined picture
_LARGEST = 350_000  # bytes of an inlined picture


@dataclass(frozen=True)
class Text:
    """Markdown: paragraphs, lists, tables. HTML in it is shown as text."""

    markdown: str

    @property
    def html(self) -> Any:
        box = '<div class="box plain" tabindex="0" role="region" aria-label="Table">'
        made = _markdown().render(self.markdown).replace("strong>", "b>")
        return _markup(made.replace("<table>", f"{box}<table>").replace("</table>", "</table></div>"))


@dataclass(frozen=True)
class Picture:
    """A picture as a data address, see :func:`picture_of`."""

    source: str
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class Drawings:
    """Names and SVG (see :mod:`softcut.report.schemata`), side by side where there is room."""

    drawings: Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class View:
    """A view: "graph", "groups", "heat", "curves", "points", "dots" or "clusters" (a table), and its data."""

    view: str
    data: Any
    caption: str = ""


@dataclass(frozen=True)
class Missing:
    """A result that is not there, and the command that makes it."""

    what: str
    command: str


@dataclass(frozen=True)
class Details:
    """Parts that open when asked for."""

    summary: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Key:
    """What the colours and marks of a table mean: (kind, mark, text)."""

    entries: Sequence[tuple[str, str, str]]


Part: TypeAlias = Table | Text | Picture | Drawings | View | Missing | Details | Key


@dataclass(frozen=True)
class Section:
    """A title and what stands below it."""

    title: str
    parts: Sequence[Part]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


def template_text(name: str) -> str:
    """A file of the folder ``templates``."""
    return (files("softcut.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def page_environment() -> Any:
    """jinja2 with everything escaped that is not marked as safe."""
    jinja2 = require("jinja2", "report", "an HTML report")
    made = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text), autoescape=True, undefined=jinja2.StrictUndefined
    )
    made.filters["kind"] = lambda part: type(part).__name__.lower()  # chooses what the template writes
    return made


def render_page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """The whole file."""
    script = "\n".join(template_text(name) for name in VIEW_SCRIPTS) + _START
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page: str = (
        page_environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            subtitle=subtitle,
            sections=sections,
            version=__version__,
            css=_markup(template_text("page.css")),
            script=_markup(script),
            script_hash=digest,
        )
    )
    return page


def plain(value: Any) -> Any:
    """The same in types that JSON has: numbers that are not finite become None, arrays lists."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def picture_of(path: str | Path, alt: str, caption: str = "", most_bytes: int = _LARGEST) -> Picture:
    """A picture file, made small enough to stand in a page: at most 1,500 pixels wide and `most_bytes` long.

    Drawings become PNG with few colours; what is too large that way (photographs) becomes JPEG, or less wide.
    """
    images = require("PIL.Image", "report", "an HTML report")
    with images.open(path) as opened:
        image = opened.convert("RGB")
    for width, kind in product((_WIDEST, 1200, 900, 600, 300), ("png", "jpeg")):
        scaled, file = image.copy(), io.BytesIO()
        scaled.thumbnail((width, 10 * width))
        (scaled.quantize(128, dither=images.Dither.NONE) if kind == "png" else scaled).save(
            file, kind, optimize=True, quality=82
        )
        if file.tell() <= most_bytes:
            break
    return Picture(f"data:image/{kind};base64," + base64.b64encode(file.getvalue()).decode(), alt, caption)


@cache
def _markdown() -> Any:
    return (
        require("markdown_it", "report", "an HTML report")
        .MarkdownIt("commonmark", {"html": False})
        .enable("table")
    )


def _markup(text: str) -> Any:
    return require("markupsafe", "report", "an HTML report").Markup(text)
