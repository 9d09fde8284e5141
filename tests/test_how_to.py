"""Every how-to does what it says: its Python blocks run, its commands run or at least exist."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import networkx as nx
import pytest
import torch
import typer
from PIL import Image
from skimage import data

from softcut import Graph, cli
from softcut.cli.app import app
from softcut.datasets import attributed_communities

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [*sorted((ROOT / "docs/how-to").glob("*.md")), README, ROOT / "examples/README.md"]
# Default fits take seconds: here only that the code runs is looked at.
QUICK = {
    "random_state=0).fit(": "max_iter=5).fit(",
    '(pool="mincut").fit': '(pool="mincut", max_iter=2).fit',
    "max_iter=40": "max_iter=2",
    "epochs=20": "epochs=1",
}
QUICKER = {"cluster": ["--n-init", "2", "--max-iter", "5", "--no-plot"]}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def commands(page: Path, language: str) -> list[list[str]]:
    lines = "".join(blocks(page, language)).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("softcut ")]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    Image.fromarray(data.astronaut()[::8, ::8]).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given() -> dict[str, object]:
    """What the README's blocks take for granted."""
    graph = attributed_communities(n_nodes=80, n_clusters=7, n_features=20, seed=0)
    edge_index = torch.from_numpy(graph.edge_index()[0])
    graphs = [Graph.from_networkx(nx.cycle_graph(4 + i % 3)) for i in range(40)]
    return {
        **{"edge_index": edge_index, "features": graph.x, "other_graph": graph, "x": torch.rand(80, 32)},
        **{"batch": torch.arange(80) // 80, "task_loss": torch.zeros(())},
        **{
            "graphs": graphs,
            "y": ["odd", "even"] * 20,
            "others": graphs,
            "y_of_others": ["odd", "even"] * 20,
        },
    }


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_blocks_run(page, folder):
    names: dict[str, object] = {"__name__": "how_to", **(given() if page == README else {})}
    for block in blocks(page, "python"):
        for slow, quick in QUICK.items():
            block = block.replace(slow, quick)
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p, "bash")], ids=name)
def test_commands_run(page, folder, monkeypatch):
    for words in commands(page, "bash"):
        monkeypatch.setattr(sys, "argv", ["softcut", *words, *QUICKER.get(words[0], [])])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0, words


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p, "sh")], ids=name)
def test_commands_that_take_long_exist_with_their_options(page):
    for words in commands(page, "sh"):
        command = typer.main.get_command(app)
        while hasattr(command, "commands"):
            command, words = command.commands[words[0]], words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        assert [w for w in words if re.match("--?[a-z]", w) and w.partition("=")[0] not in known] == []
