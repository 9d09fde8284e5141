"""What a job of the local page does: it reads, clusters or divides, writes files and tells how it goes."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import networkx as nx
import numpy as np
import pytest
from helpers.csv_files import write_csv
from PIL import Image

from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.io.read_options import READ_OPTIONS
from softcut.metrics.summary import VERDICTS
from softcut.serve import worker as serve_worker
from softcut.serve.examples import example_file, examples


def outcome(file, k, **order) -> list[tuple]:
    """What a job tells."""
    told: list[tuple] = []
    sender = SimpleNamespace(send=told.append, close=lambda: None)
    serve_worker.work(sender, file=file, n_clusters=k, **order)
    return told


def failure(file, **order) -> str:
    """The one sentence of a job that fails."""
    ((kind, sentence, field),) = outcome(file, 2, **order)
    assert kind == "failed" and field in READ_OPTIONS | {"": None}
    return sentence


@pytest.mark.parametrize("features", [False, True])
def test_work_clusters_a_graph(here, features):
    graph = attributed_communities(60, 2, n_features=8, edge_signal=0.9, seed=0)
    names = write_csv(graph, Path("g.csv"), Path("x.csv"), "<b>{}")
    first, *progress, last = outcome("g.csv", 2, features="x.csv" if features else None, n_init=4)
    assert first[0] == "read" and "g.csv" in first[1][0] and str(here) not in str(first[1])
    assert [message[0] for message in progress] == ["progress"] * len(progress)
    # The edges alone train nothing.
    assert {message[1] for message in progress} == ({0} if features else set())
    assert last[0] == "done" and last[1]["clusters"] == 2
    rows = Path("labels.csv").read_text().splitlines()[1:]
    assert {row.split(",")[0] for row in rows} <= set(names) and (len(rows) == 60 or not features)
    assert last[1]["text"].startswith(f"{len(rows)} nodes in 2 clusters, found in ")
    assert (
        "the clusters come from the edges alone: no features were given." in last[1]["notes"]
    ) is not features
    assert "the clusters come from the edges and the features." not in last[1]["notes"]  # a detail
    report = Path("report.html").read_text()
    assert last[1]["verdict"] in VERDICTS.values()
    assert report.index(last[1]["verdict"]) < report.index("clusters used")
    assert ("Evidence of each distance" in report) is features
    assert "<b>0" not in report
    views = json.loads(Path("views.json").read_text())
    assert [view["view"] for view in views] == [
        "clusters",
        "graph",
        "groups",
        "heat",
        *(["dots"] if features else []),
    ]
    sizes = [row[1]["text"] for row in views[0]["data"]["rows"]]
    assert [line.split(",")[1] for line in Path("clusters.csv").read_text().splitlines()[1:]] == sizes
    assert last[1]["files"] == ["labels.csv", "clusters.csv", "communities.json", "report.html"]


def test_work_tells_what_was_read_and_which_number_it_is_at(here):
    graph = attributed_communities(60, 2, n_features=8, edge_signal=0.9, seed=0)
    write_csv(graph, Path("g.csv"))
    reading = {"weighted": False, "source": "target", "target": "source"}
    (_, notes), *events, (kind, done) = outcome("g.csv", range(2, 5), reading=reading)
    assert any("source 'target'" in note for note in notes)
    assert events == [("comparing", k, 2, 4) for k in (2, 3, 4)]
    assert kind == "done" and done["clusters"] == 2


def test_features_without_a_graph_connect_their_nearest_rows(here):
    rows = [f"n{i},{i % 2 * 50 + i % 7},{i % 2 * 50 + i % 5}" for i in range(60)]
    Path("x.csv").write_text("\n".join(["id,a,b", *rows]))
    reading = {"n_neighbors": 4}
    (_, notes), *_, (kind, done) = outcome("x.csv", 2, features="x.csv", reading=reading, n_init=4)
    assert kind == "done" and done["clusters"] == 2 and any("4 nearest" in note for note in notes)
    found = dict(line.split(",")[:2] for line in Path("labels.csv").read_text().splitlines()[1:])
    assert len({(int(name[1:]) % 2, cluster) for name, cluster in found.items()}) == 2


def test_examples_work(here):
    for example in examples()[:2]:
        for name in filter(None, (example.file, example.features)):
            Path(name).write_bytes(example_file(name))
        k = range(2, 5) if example.features else "auto"
        told = outcome(example.file, k, features=example.features or None, n_init=4)
        assert told[-1][0] == "done"


def test_sentences_of_a_job_name_the_fields_of_the_page(here):
    Path("g.csv").write_text("source,target\n0,1\n1,2\n0,2\n")
    Path("x.csv").write_text("id,age\n0,3\n1,\n2,5\n")
    ((kind, sentence, field),) = outcome("g.csv", 2, features="x.csv")
    assert kind == "failed" and field == "missing" and "'missing: zero'" in sentence
    *_, (kind, sentence, field) = outcome("g.csv", 9)
    assert kind == "failed" and field == "n_clusters"
    assert sentence.startswith("the number of clusters is 9 but the graph has only 3 nodes")


def test_bad_files_are_one_sentence(here, capsys, monkeypatch):
    Path("bad.csv").write_text("a,b\n1,2,3\n")
    assert "bad.csv, line 2" in failure("bad.csv")
    for error, said in ((MemoryError(), "memory is full"), (RuntimeError("secret"), "something went wrong")):
        monkeypatch.setattr(serve_worker, "read_graph", Mock(side_effect=error))
        sentence = failure("bad.csv")
        assert said in sentence and "secret" not in sentence
    assert "secret" in capsys.readouterr().err


def test_orders_have_defaults_and_each_training_is_a_phase_of_its_own(here, monkeypatch):
    Image.new("1", (5000, 4000)).save("most.png")
    Image.new("1", (6_666_667, 3)).save("more.png")
    divide = Mock(side_effect=ParameterError("enough"))
    monkeypatch.setattr("softcut.segment.segment_image", divide)
    assert failure("most.png", picture=True) == "enough"
    divide.assert_called_once_with("most.png", 2, random_state=0, device="cpu")
    assert "more than 20,000,000" in failure("more.png", picture=True)
    read = Mock(return_value=SimpleNamespace(notes=["a", "b"]))
    monkeypatch.setattr(serve_worker, "read_graph", read)

    def fit(k, *, callbacks, **settings):
        assert (k, settings) == (2, {"n_init": None, "random_state": 0, "device": "cpu"})
        for i in (1, 25, 25, 10):
            callbacks[0](
                SimpleNamespace(
                    iteration=i, iterations=30, cut=np.array([1, 2]), ortho=np.ones(2), seconds_left=7.0
                )
            )
        raise ParameterError("enough")

    monkeypatch.setattr(serve_worker, "GraphClustering", fit)
    progress = [("progress", phase, i, 30, 1.5, 1.0, 7.0) for phase, i in ((0, 1), (0, 25), (1, 25), (2, 10))]
    assert outcome("g.csv", 2) == [("read", ["a", "b"]), *progress, ("failed", "enough", "")]
    read.assert_called_once_with("g.csv", features=None, max_bytes=2**28)


def test_pictures_are_segmented_and_bad_ones_are_one_sentence(here, monkeypatch):
    pytest.importorskip("softcut.segment")
    image = np.zeros((40, 60, 3), np.uint8)
    image[:, 30:] = (250, 200, 0)
    Image.fromarray(image).save("b.png")
    ((kind, done),) = outcome("b.png", 2, picture=True)
    assert kind == "done" and done["files"] == ["overlay.png", "cut-outs.zip", "labels.png"]
    labels = np.asarray(Image.open("labels.png"))
    assert (labels[:, :30] == labels[0, 0]).mean() > 0.9 and labels[0, 0] != labels[0, -1]
    assert Image.open("overlay.png").size == (60, 40)
    with zipfile.ZipFile("cut-outs.zip") as archive:
        assert archive.namelist() == ["segment-0.png", "segment-1.png"]
        cut = [np.asarray(Image.open(archive.open(name))) for name in archive.namelist()]
    assert sum((each[..., 3] == 255).sum() for each in cut) == 60 * 40
    assert {tuple(each[each[..., 3] == 255][0, :3]) for each in cut} == {(0, 0, 0), (250, 200, 0)}
    Path("a.png").write_bytes(b"no picture")
    assert "a.png cannot be read as an image" in failure("a.png", picture=True)
    monkeypatch.setattr(serve_worker, "_PIXELS", 100)
    assert "60 x 40 pixels" in failure("b.png", picture=True)


def test_levels_of_a_graph_can_be_switched_and_taken_home(here):
    lines = "\n".join(f"{a},{b}" for a, b in nx.connected_caveman_graph(12, 5).edges)
    (here / "g.csv").write_text(lines + "\n")
    _, *_, (kind, done) = outcome("g.csv", "auto")
    assert kind == "done" and "(level " in done["text"]
    titles, *_ = Path("labels.csv").read_text().splitlines()
    tree = json.loads(Path("communities.json").read_text())
    nested = [f"level_{each['level']}" for each in tree["levels"]]
    assert len(nested) > 1 and titles.split(",") == ["node", "cluster", "probability", *nested]
    graph = next(view for view in json.loads(Path("views.json").read_text()) if view["view"] == "graph")
    assert [len(level["labels"]) for level in graph["data"]["levels"]] == [60] * len(nested)
    assert ">Levels</h2>" in Path("report.html").read_text()
