"""What the pages say is so: scores, attributes, data sets, files; their code and commands run."""

import dataclasses
import re
import shlex
import shutil
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
import typer
from helpers.csv_files import write_csv
from PIL import Image
from skimage import data

from softcut import Graph, cli, metrics
from softcut.cli.app import app
from softcut.clustering import GraphClustering, Recipe
from softcut.datasets import attributed_communities, available, available_collections
from softcut.ops import OBJECTIVES

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
HOW_TO = [*sorted((ROOT / "docs/how-to").glob("*.md")), README, ROOT / "examples/README.md"]
# Default fits take seconds: here only that the code runs is looked at.
QUICK = {
    "random_state=0).fit(": "max_iter=5).fit(",
    '(pool="mincut").fit': '(pool="mincut", max_iter=2).fit',
    "epochs=20": "epochs=1",
}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(path: Path, language: str) -> list[list[str]]:
    lines = "".join(blocks(path.read_text(encoding="utf-8"), language)).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("softcut ")]


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def run_command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ["--n-init", "2", "--max-iter", "5"] if words[0] == "cluster" else []
    monkeypatch.setattr(sys, "argv", ["softcut", *(w.replace("2:20", "2:4") for w in words), *quick])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0, words


def test_every_score_is_computed_by_the_function_named_beside_it():
    names: dict[str, object] = {}
    exec(blocks(page("metrics.md"), "python")[0], names)
    listed = [*metrics.LABEL_SCORES, *metrics.GRAPH_SCORES]
    assert [*names["scores"]] == first_column(page("metrics.md")) == listed
    graph = attributed_communities(100, 3, seed=0)
    labels = (graph.y + (np.arange(100) % 7 == 0)) % 3  # some nodes are wrong
    scores = metrics.evaluate(graph, labels, k=4)
    known = {"graph": graph, "y": graph.y, "labels": labels, "k": 4}
    for key, call in re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page("metrics.md"), flags=re.MULTILINE):
        assert eval(call, vars(metrics) | known) == pytest.approx(scores[key], rel=1e-12), key


def test_the_objectives_are_those_that_exist():
    assert re.findall(r'^\| `"(\w+)"` \|', page("objectives.md"), flags=re.MULTILINE) == list(OBJECTIVES)


def test_the_data_sets_are_those_that_can_be_loaded():
    said = {
        line.split("|")[1].strip(" `"): [int(n) for n in re.findall(r"\| (\d+) (?=\|)", line)]
        for line in page("datasets.md").splitlines()
        if re.match(r"\| `[\w-]+` \| \d+ \|", line)
    }
    known = {i.name: [i.nodes, i.edges, i.self_loops, i.features, i.classes] for i in available()}
    known |= {i.name: [i.graphs, i.nodes, i.edges, i.features, i.classes] for i in available_collections()}
    assert said == known


def test_files_and_tests_that_pages_name_exist():
    paths = re.findall(r"`([\w/]+/\w+\.py)`", page("architecture.md"))
    assert len(paths) > 40
    assert [p for p in paths if not (ROOT / p).exists() and not (ROOT / "softcut" / p).exists()] == []
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    written = "".join(tests.values())
    said = re.findall(r"`(test_\w+(?:\.py)?)`", page("robustness.md") + page("robustness-reading.md"))
    assert len(said) > 70
    assert [name for name in said if name not in tests and f"def {name}(" not in written] == []


@pytest.fixture
def people(tmp_path, monkeypatch):
    """The files that docs/clustering.md works on; a ring joins all nodes."""
    monkeypatch.chdir(tmp_path)
    ring = sp.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(60)))
    for name, words, seed in (("people", "words", 0), ("others", "other_words", 1)):
        graph = attributed_communities(60, 3, n_features=20, seed=seed)
        joined = Graph.from_scipy(graph.adjacency + ring, x=graph.x)
        write_csv(joined, Path(f"{name}.csv"), Path(f"{words}.csv"))


def test_the_page_of_the_estimator(people, monkeypatch):
    text, names = page("clustering.md"), {}
    exec(blocks(text, "python")[0].replace("random_state=0", "n_init=2, max_iter=5"), names)
    est = names["est"]
    assert isinstance(est, GraphClustering)
    attributes = re.findall(r"`([a-z_]+_)`", text)
    assert len(attributes) > 10
    assert [name for name in attributes if not hasattr(est, name)] == []
    arguments = re.findall(r"`([a-z_]+)=[^`]*`", text)
    known = {*est.get_params(), *(field.name for field in dataclasses.fields(Recipe))}
    assert {"n_clusters"} <= set(arguments) <= known
    for line in blocks(text, "bash")[0].splitlines():
        run_command(shlex.split(line)[1:], monkeypatch)
    listed = [name for name in first_column(text) if "." in name]
    assert sorted(p.name for p in Path("result").iterdir()) == sorted(listed)


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
    y = ["odd", "even"] * 20
    return {
        **{"edge_index": edge_index, "features": graph.x, "other_graph": graph, "x": torch.rand(80, 32)},
        **{"batch": torch.arange(80) // 80, "task_loss": torch.zeros(())},
        **{"graphs": graphs, "y": y, "others": graphs, "y_of_others": y},
    }


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", [*HOW_TO, ROOT / "docs/report.md", ROOT / "docs/objectives.md"], ids=name)
def test_python_blocks_run(path, folder):
    names: dict[str, object] = {"__name__": "how_to", **(given() if path == README else {})}
    for block in blocks(path.read_text(encoding="utf-8"), "python"):
        for slow, quick in QUICK.items():
            block = block.replace(slow, quick)
        exec(compile(block, path.name, "exec"), names)


@pytest.mark.parametrize("path", [p for p in HOW_TO if commands(p, "bash")], ids=name)
def test_commands_run(path, folder, monkeypatch):
    for words in commands(path, "bash"):
        run_command(words, monkeypatch)


@pytest.mark.parametrize("path", [p for p in HOW_TO if commands(p, "sh")], ids=name)
def test_commands_that_take_long_exist_with_their_options(path, monkeypatch, capsys):
    for words in commands(path, "sh"):
        if words[0] == "reproduce":  # its options are those of the experiment
            capsys.readouterr()
            run_command([*words, "--help"], monkeypatch)
            known = set(re.findall(r"(?<=[ ,])--?[a-z-]+", capsys.readouterr().out))
        else:
            known = options_of(typer.main.get_command(app).commands[words[0]])
        assert [w for w in words if re.match("--?[a-z]", w) and w.partition("=")[0] not in known] == []


@pytest.mark.parametrize(("name", "used"), [("report.md", ["report", "cluster"]), ("serve.md", ["serve"])])
def test_options_that_pages_name_exist(name, used):
    command = typer.main.get_command(app)
    known = set().union(*(options_of(command.commands[each]) for each in used))
    assert set(re.findall(r"--[a-z-]+", page(name))) <= known


def options_of(command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}
