"""What the documentation site is made of: the navigation, links that lead somewhere, docstrings as Markdown."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.tables import pages

ROOT = Path(__file__).resolve().parents[1]
NAVIGATION = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)


def hook(name: str) -> ModuleType:
    pytest.importorskip("mkdocs")
    pytest.importorskip("griffe")
    spec = importlib.util.spec_from_file_location(f"hook_{name}", ROOT / f"docs/hooks/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_once():
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    examples = {f"gallery/{path.stem}.md" for path in (ROOT / "examples").glob("*.py")}
    outside = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "gallery/index.md"}
    assert sorted(NAVIGATION) == sorted(written | examples | outside)


def test_the_gallery_runs_every_example():
    assert set(hook("gallery").EXAMPLES) == {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("page", pages(ROOT), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_links_out_of_docs_lead_into_the_site():
    targets = hook("outside").targets(
        "[a](../results/table1.json) [b](quality.md#x) [c](none.md)", "reproduction.md", ROOT
    )
    assert targets == {"../results/table1.json": "results/table1.json", "quality.md": "quality.md"}
    targets = hook("outside").targets("[a](docs/how-to/scale-out.md)", "README.md", ROOT)
    assert targets == {"docs/how-to/scale-out.md": "how-to/scale-out.md"}


def test_docstrings_become_markdown():
    made = hook("docstrings").as_markdown(
        "One of :class:`~softcut.Graph`.\n\n>>> 1 + 1\n2\n\nMore.\n\nParameters\n----------\nx\n    It.\n\n>>> 2\n2"
    )
    assert made == (
        "One of `softcut.Graph`.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.\n\nParameters\n----------\nx\n    It.\n\n"
        "Examples\n--------\n>>> 2\n2"
    )
    formula = hook("docstrings").as_markdown("Loss\n\n.. math::\n    \\frac{a}{b}\n    + c\n\nafter")
    assert re.fullmatch(
        r'Loss\n\n<img class="formula" alt="\\frac{a}{b} \+ c" src="data:image/svg[^"]+">\n+after', formula
    )


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("material")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = re.findall(
        r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', (tmp_path / "index.html").read_text()
    )
    assert loaded == []  # nothing is fetched from elsewhere
