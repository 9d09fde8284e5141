"""What the pages say is so: names of scores, attributes, files and commands."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from softcut import cli, metrics
from softcut.clustering import GraphClustering, Recipe
from softcut.datasets import attributed_communities, available, available_collections

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page(name), flags=re.DOTALL)


def first_column(text: str) -> list[str]:
    return re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)


def test_the_scores_are_those_of_evaluate():
    keys = first_column(page("metrics.md"))
    assert keys == [*metrics.LABEL_SCORES, *metrics.GRAPH_SCORES]


def test_every_score_is_computed_by_the_function_named_beside_it():
    graph = attributed_communities(100, 3, seed=0)
    labels = (graph.y + (np.arange(100) % 7 == 0)) % 3  # some nodes are wrong
    scores = metrics.evaluate(graph, labels, k=4)
    known = {"graph": graph, "y": graph.y, "labels": labels, "k": 4}
    rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", page("metrics.md"), flags=re.MULTILINE)
    assert len(rows) == len(scores)
    for key, call in rows:
        assert eval(call, vars(metrics) | known) == pytest.approx(scores[key], rel=1e-12), key


def test_the_data_sets_are_those_that_can_be_loaded():
    said = {
        line.split("|")[1].strip(" `"): [int(n) for n in re.findall(r"\| (\d+) (?=\|)", line)]
        for line in page("datasets.md").splitlines()
        if re.match(r"\| `[\w-]+` \| \d+ \|", line)
    }
    known = {
        info.name: [info.nodes, info.edges, info.self_loops, info.features, info.classes]
        for info in available()
    }
    known |= {
        info.name: [info.graphs, info.nodes, info.edges, info.features, info.classes]
        for info in available_collections()
    }
    assert said == known


def test_the_example_of_the_scores_runs():
    names: dict[str, object] = {}
    exec(blocks("metrics.md", "python")[0], names)
    assert set(names["scores"]) == {*metrics.LABEL_SCORES, *metrics.GRAPH_SCORES}


@pytest.fixture
def people(tmp_path, monkeypatch):
    """The files that docs/clustering.md works on."""
    monkeypatch.chdir(tmp_path)
    for name, words, seed in (("people", "words", 0), ("others", "other_words", 1)):
        graph = attributed_communities(60, 3, n_features=20, seed=seed)
        first, second = graph.edge_index()[0]
        pairs = zip(first.tolist(), second.tolist(), strict=True)
        lines = [f"{a},{b}" for a, b in pairs if a < b] + [f"{i},{(i + 1) % 60}" for i in range(60)]
        Path(f"{name}.csv").write_text("\n".join(["source,target", *lines]) + "\n")
        rows = [",".join(map(str, [i, *row])) for i, row in enumerate(graph.x.toarray().tolist())]
        header = ",".join(["id", *(f"w{j}" for j in range(20))])
        Path(f"{words}.csv").write_text("\n".join([header, *rows]) + "\n")


def test_the_example_of_the_estimator_runs(people):
    names: dict[str, object] = {}
    exec(blocks("clustering.md", "python")[0].replace("random_state=0", "n_init=2, max_iter=5"), names)
    est = names["est"]
    assert isinstance(est, GraphClustering)
    attributes = re.findall(r"`([a-z_]+_)`", page("clustering.md"))
    assert len(attributes) > 10
    assert [name for name in attributes if not hasattr(est, name)] == []
    arguments = re.findall(r"`([a-z_]+)=[^`]*`", page("clustering.md"))
    known = {*est.get_params(), *(field.name for field in dataclasses.fields(Recipe))}
    assert {"n_clusters"} <= set(arguments) <= known


def test_the_commands_run(people, monkeypatch):
    for line in blocks("clustering.md", "bash")[0].splitlines():
        words = shlex.split(line)
        quick = ["--n-init", "2", "--max-iter", "5"] if words[1] == "cluster" else []
        monkeypatch.setattr(sys, "argv", [w.replace("2:20", "2:4") for w in words] + quick)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 0, line
    listed = [name for name in first_column(page("clustering.md")) if "." in name]
    assert sorted(p.name for p in Path("result").iterdir()) == sorted(listed)
