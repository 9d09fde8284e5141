"""Every how-to does what it says: its Python blocks run, its commands run or at least exist."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import typer

from softcut import cli
from softcut.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs/how-to").glob("*.md")) + [ROOT / "docs/index.md", ROOT / "README.md"]
# Default fits take seconds: here only that the code runs is looked at.
QUICK = (("random_state=0).fit(graph)", "n_init=2, max_iter=5).fit(graph)"), ("epochs=40", "epochs=2"), ("epochs=20", "epochs=1"))
QUICKER = {"cluster": ["--n-init", "2", "--max-iter", "5", "--no-plot"]}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def commands(page: Path, language: str) -> list[list[str]]:
    lines = "".join(blocks(page, language)).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("softcut ")]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_blocks_run(page, folder):
    names: dict[str, object] = {"__name__": "how_to"}
    for block in blocks(page, "python"):
        for slow, quick in QUICK:
            block = block.replace(slow, quick)
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p, "bash")], ids=lambda page: page.stem)
def test_commands_run(page, folder, monkeypatch):
    for words in commands(page, "bash"):
        monkeypatch.setattr(sys, "argv", ["softcut", *words, *QUICKER.get(words[0], [])])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0, words


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p, "sh")], ids=lambda page: page.stem)
def test_commands_that_take_long_exist_with_their_options(page):
    for words in commands(page, "sh"):
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        assert [w for w in words if re.match("--?[a-z]", w) and w.partition("=")[0] not in known] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []
