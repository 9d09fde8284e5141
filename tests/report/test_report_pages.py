"""What docs/report.md and docs/serve.md say is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from softcut.cli.cluster import cluster
from softcut.cli.commands import report, serve

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["report.md", "serve.md"])
def test_pictures_and_pages_that_are_linked_exist(page):
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (DOCS / link).is_file()] == []
    assert max((DOCS / link).stat().st_size for link in links) < 150_000


def test_the_example_makes_a_page():
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "report.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, str] = {}
    exec(code.replace("n_init=4", "n_init=2, max_iter=5"), names)
    assert "my graph: 3 clusters" in names["page"]


@pytest.mark.parametrize(("page", "commands"), [("report.md", (report, cluster)), ("serve.md", (serve,))])
def test_the_options_exist(page, commands):
    said = set(re.findall(r"--([a-z-]+)", (DOCS / page).read_text(encoding="utf-8")))
    known = {name.replace("_", "-") for command in commands for name in inspect.signature(command).parameters}
    assert said <= known | {"out"}
