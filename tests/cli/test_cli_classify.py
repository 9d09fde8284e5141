"""``softcut classify``: what is trained, written and said, and what is refused."""

import csv
import json
import re
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest
import typer

from softcut.cli.app import app
from softcut.cli.classify import _show
from softcut.cli.learners import Curve
from softcut.datasets import load_graphs
from softcut.learning import GraphClassification
from softcut.learning.graph_estimator import PRESETS
from softcut.metrics.predictions import class_scores
from softcut.training import LoopProgress


def predictions(folder):
    with Path(folder, "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_network_of_the_paper_reads_degrees_beside_labels(done, shapes):
    shapes("shapes", 20)
    done("classify", "shapes", "--pool", "nopool", "--epochs", 1, "--device", "cpu", "--model-out", "m")
    model = GraphClassification.load("m")
    assert (model.preset, model.pool, model.features) == ("paper", "nopool", "both")


def test_train_save_and_predict(done, refused, shapes):
    classes = shapes("shapes", 60)
    words = [
        "--epochs",
        20,
        "--lr",
        0.01,
        "--n-init",
        1,
        "--device",
        "cpu",
        "--held-out",
        0.2,
        "--model-out",
        "m",
    ]
    out, _ = done("classify", "shapes", *words)
    every = predictions("shapes-classes")
    assert [int(row["graph"]) for row in every] == list(range(1, 61))
    rows = [row for row in every if row["part"] == "test"]
    assert len(rows) == 12 and {row["part"] for row in every} == {"training", "test"}
    for row in every:
        chances = {name: float(row[f"p_{name}"]) for name in ("1", "2")}
        assert row["predicted"] == max(chances, key=chances.get)
        assert float(row["probability"]) == max(chances.values())
        assert sum(chances.values()) == pytest.approx(1, abs=2e-6)
    assert GraphClassification.load("m").features == "auto"  # the labels of nodes alone
    assert all(int(row["class"]) == classes[int(row["graph"]) - 1] for row in rows)
    metrics = json.loads(Path("shapes-classes/metrics.json").read_text())
    hits = np.array([row["class"] == row["predicted"] for row in rows])
    assert metrics["accuracy"] == pytest.approx(hits.mean()) and hits.mean() > 0.9
    second = np.array([row["class"] == "2" for row in rows])
    assert metrics["accuracy_per_class"]["2"] == pytest.approx(hits[second].mean())
    assert (metrics["trained_on"], metrics["tested_on"], metrics["graphs"]) == (48, 12, 60)
    edges = len(Path("shapes/SHAPES_A.txt").read_text().splitlines()) // 2
    assert metrics["edges"] == edges and 0 < metrics["seconds"] < 1000
    assert "was trained on a folder" in refused("classify", "bench-easy-small", "--model", "m", "-o", "x")
    assert f"{100 * hits.mean():.1f} %" in out and "of class 2" in out
    assert out.splitlines()[-1] == "Report: shapes-classes/report.html"
    assert "Scores are on 12 graphs that were held out and not trained on: 20 % of all" in out
    truth = np.array([int(row["class"]) - 1 for row in rows])
    chances = np.array([[float(row["p_1"]), float(row["p_2"])] for row in rows])
    counts = np.bincount([int(row["class"]) - 1 for row in every if row["part"] == "training"])
    for name, value in class_scores(truth, chances, int(counts.argmax())).items():
        np.testing.assert_allclose(metrics[name], value, atol=1e-5)
    said = refused("classify", "shapes", *words)  # an earlier result is not replaced
    assert "--overwrite" in said

    truth = shapes("others", 10, seed=1, labels=False)
    out, _ = done("classify", "others", "--model", "m", "--device", "cpu", "-o", "told")
    assert "accuracy" not in out and "others: 10 graphs" not in out
    assert "Their classes are not known" in Path("told/report.html").read_text()
    told = predictions("told")
    assert [row["class"] for row in told] == [""] * 10
    assert np.mean([int(row["predicted"]) == y for row, y in zip(told, truth, strict=True)]) > 0.8
    # The graphs that tested the model get the same answers from the file.
    out, _ = done("classify", "shapes", "--model", "m", "--device", "cpu", "-o", "again")
    assert "only if it was not trained" in out
    again = {row["graph"]: row for row in predictions("again")}
    for row in rows:
        assert again[row["graph"]]["predicted"] == row["predicted"]
        assert float(again[row["graph"]]["probability"]) == pytest.approx(float(row["probability"]), abs=1e-4)
    done("classify", "shapes", "--epochs", 1, "--device", "cpu", "-o", "again", "--overwrite")
    assert sum(row["part"] == "test" for row in predictions("again")) == 6


def test_a_data_set_by_name_uses_its_own_split(done, refused, shapes, data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ("bench-easy-small", "--epochs", 2, "--device", "cpu", "--model-out", "m", "-o", "r")
    fit = create_autospec(GraphClassification.fit, side_effect=GraphClassification.fit)
    monkeypatch.setattr(GraphClassification, "fit", fit)
    out, _ = done("classify", *words)
    assert len(fit.call_args.args[1]) == (load_graphs("bench-easy-small").split < 2).sum()
    assert GraphClassification.load("m").features == "auto"  # those of the data set
    metrics = json.loads(Path("r/metrics.json").read_text())
    assert metrics["trained_on"] + metrics["tested_on"] == 300
    assert "Bench-easy-small: 300 graphs, 3 classes" in out
    shapes("shapes", 4)
    said = refused("classify", "shapes", "--model", "m")
    assert "was trained on Bench-easy-small, not on a folder" in said


@pytest.mark.parametrize("classes", [10, 11])
def test_few_classes_are_listed(capsys, classes):
    metrics = {"network": "default", "trained_on": 9000, "tested_on": 1000, "epochs": 3, "accuracy": 0.875}
    metrics |= {"accuracy_interval": [0.8, 0.9], "baseline_accuracy": 0.25, "calibration_error": 0.0123}
    metrics |= {"accuracy_per_class": dict.fromkeys(map(str, range(classes)), 0.5), "interrupted": True}
    metrics |= {"name": "g", "graphs": 10_000, "classes": [""] * classes, "seconds": 1.25}
    _show(metrics)
    facts = {"network": "default", "trained on, tested on": "9,000, 1,000 graphs"}
    facts |= {"epochs": "3", "accuracy": "87.5 %", "95 % interval of it": "80.0 to 90.0 %"}
    facts |= {"baseline: the most frequent class": "25.0 %", "calibration error": "0.012"}
    facts |= {f"of class {i}": "50.0 %" for i in range(classes)} if classes == 10 else {}
    facts |= {"interrupted": "after 3 epochs", "seconds": "1.2"}
    assert dict(re.findall(r"│ (.*?) +│ +(.*?) │", capsys.readouterr().out)) == facts


def test_a_curve_is_the_mean_of_the_networks_and_keeps_the_last_value_of_those_that_stopped():
    curve = Curve("loss")
    assert curve.drawn([1]) is None
    both, one = {"loss": np.array([1.0, 3.0]), "l2": np.zeros(2)}, {"loss": np.array([5.0])}
    curve(LoopProgress(10, 30, {}, {**both, "accuracy": np.array([0.5, 0.7])}, (0, 1), means=both))
    curve(LoopProgress(20, 30, {}, {**one, "accuracy": np.array([0.9])}, (1,), means=one))
    drawn = curve.drawn([1, 2])
    assert {
        title: {name: v.tolist() for name, v in lines.items()} for title, lines in drawn["panels"].items()
    } == {
        "loss": {"training": [2.0, 3.0], "validation": [2.0, 3.0]},
        "accuracy": {"validation": pytest.approx([0.6, 0.7])},
    }
    assert drawn["best"] == [1, 2]


def test_graphs_of_a_class_that_no_training_graph_had_are_wrong(done, shapes):
    shapes("shapes", 20)
    done("classify", "shapes", "--epochs", 2, "--device", "cpu", "--model-out", "m", "--no-report")
    assert not Path("shapes-classes/report.html").exists()
    labels = Path("shapes/SHAPES_graph_labels.txt")
    labels.write_text(labels.read_text().replace("2", "7"))
    done("classify", "shapes", "--model", "m", "--device", "cpu", "-o", "strange")
    metrics = json.loads(Path("strange/metrics.json").read_text())
    assert metrics["classes"] == ["1", "2", "7"] and metrics["accuracy_per_class"]["7"] == 0
    assert sum(metrics["confusion"][2]) == 10 and metrics["baseline_accuracy"] in (0, 0.5)


def test_classes_that_cannot_be_learnt_are_named(refused, shapes):
    shapes("shapes", 20)
    labels = Path("shapes/SHAPES_graph_labels.txt")
    classes = labels.read_text()
    labels.write_text(classes.replace("2", "7", 1))
    assert "shapes: only one graph has the class '7'" in refused("classify", "shapes")
    labels.write_text(classes.replace("2", "1"))
    assert "all graphs have the class '1'; two classes are needed." in refused("classify", "shapes")
    Path("shapes/raw").mkdir()  # as PyTorch Geometric keeps them
    for file in Path("shapes").glob("*.txt"):
        file.rename(Path("shapes/raw", file.name))
    assert "all graphs have the class '1'" in refused("classify", "shapes")
    labels = Path("shapes/raw/SHAPES_graph_labels.txt")
    labels.write_text(classes[:-2])
    assert "must have a line for each of the 20 graphs, got 19" in refused("classify", "shapes")


@pytest.mark.parametrize("command", ["classify", "regress"])
def test_the_help_names_what_options_mean_that_are_left_out(command):
    own, paper = PRESETS["default"], PRESETS["paper"]
    options = {each.name: each for each in typer.main.get_command(app).commands[command].params}
    for name in ("n_init", "max_iter", "patience", "batch_size", "learning_rate"):
        said = "by the number of graphs" if own[name] is None else f"{own[name]:g}"
        assert options[name].default is None
        assert options[name].help.endswith(f"; {said}, with --pool {paper[name]:g}."), name
