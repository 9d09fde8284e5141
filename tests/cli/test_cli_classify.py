"""``softcut classify`` and ``softcut reproduce classification``."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest


def write_graphs(folder, count, seed=0, labels=True):
    """Rings and stars of 4 to 9 nodes, their nodes labelled at random."""
    rng = np.random.default_rng(seed)
    edges, indicator, classes, node_labels = [], [], [], []
    for number in range(count):
        n, first = int(rng.integers(4, 10)), len(indicator) + 1
        ring = number % 2 == 0
        for i in range(n):
            other = (i + 1) % n if ring else 0
            if other != i:
                edges += [(first + i, first + other), (first + other, first + i)]
        indicator += [number + 1] * n
        node_labels += rng.integers(2, size=n).tolist()
        classes.append(1 if ring else 2)
    folder.mkdir()
    (folder / "SHAPES_A.txt").write_text("".join(f"{a}, {b}\n" for a, b in edges))
    (folder / "SHAPES_graph_indicator.txt").write_text("".join(f"{g}\n" for g in indicator))
    (folder / "SHAPES_node_labels.txt").write_text("".join(f"{v}\n" for v in node_labels))
    if labels:
        (folder / "SHAPES_graph_labels.txt").write_text("".join(f"{y}\n" for y in classes))
    return classes


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_train_save_and_predict(run, tmp_path):
    classes = write_graphs(tmp_path / "shapes", 60)
    words = ["--epochs", 60, "--lr", 0.01, "--device", "cpu", "--held-out", 0.2, "--model-out", "m"]
    code, out, err = run("classify", "shapes", *words)
    assert code == 0, err
    assert "accuracy" in out
    assert "of class 2" in out
    rows = read_csv(tmp_path / "shapes-classes/predictions.csv")
    assert len(rows) == 12
    assert all(int(row["class"]) == classes[int(row["graph"]) - 1] for row in rows)
    metrics = json.loads((tmp_path / "shapes-classes/metrics.json").read_text())
    assert metrics["accuracy"] == pytest.approx(np.mean([r["class"] == r["predicted"] for r in rows]))
    assert metrics["accuracy"] > 0.9
    assert (metrics["trained_on"], metrics["tested_on"]) == (48, 12)

    truth = write_graphs(tmp_path / "others", 10, seed=1, labels=False)
    code, out, err = run("classify", "others", "--model", "m", "--device", "cpu", "-o", "told")
    assert code == 0, err
    assert "accuracy" not in out
    told = read_csv(tmp_path / "told/predictions.csv")
    assert [row["class"] for row in told] == [""] * 10
    assert np.mean([int(row["predicted"]) == y for row, y in zip(told, truth, strict=True)]) > 0.8
    # The graphs that tested the model get the same answers from the file.
    code, _, err = run("classify", "shapes", "--model", "m", "--device", "cpu", "-o", "again")
    assert code == 0, err
    again = {row["graph"]: row for row in read_csv(tmp_path / "again/predictions.csv")}
    for row in rows:
        assert again[row["graph"]]["predicted"] == row["predicted"]
        assert float(again[row["graph"]]["probability"]) == pytest.approx(float(row["probability"]), abs=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "neither a folder nor a data set; the data sets are Bench-easy,"),
        (["empty"], "no file NAME_A.txt"),
        (["shapes", "--pool", "median"], "pool must be one of"),
        (["shapes", "--held-out", "0.9"], "--held-out must be above 0 and at most 0.5, got 0.9"),
        (["shapes", "--model", "a", "--model-out", "b"], "leave it out with --model"),
        (["shapes", "--model", "none"], "none"),
        (["unlabelled"], "has no graph labels"),
        (["few"], "too few to train"),
        (["shapes", "--epochs", "0"], "epochs must be positive"),
    ],
)
def test_every_error_is_one_sentence(run, tmp_path, words, message):
    write_graphs(tmp_path / "shapes", 12)
    write_graphs(tmp_path / "unlabelled", 12, labels=False)
    write_graphs(tmp_path / "few", 1)
    (tmp_path / "empty").mkdir()
    code, out, err = run("classify", *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*-classes"))


def test_an_earlier_result_is_not_replaced(run, tmp_path):
    write_graphs(tmp_path / "shapes", 20)
    words = ["classify", "shapes", "--epochs", 1, "--device", "cpu"]
    assert run(*words)[0] == 0
    code, _, err = run(*words)
    assert code == 2
    assert "--overwrite" in err
    assert run(*words, "--overwrite")[0] == 0


@pytest.fixture
def data(monkeypatch, tmp_path):
    root = os.environ.get("SOFTCUT_DATA", "")
    if not root or not (Path(root) / "bench/easy_small.npz").is_file():
        pytest.skip("Bench is not in SOFTCUT_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return root


def test_a_data_set_by_name_uses_its_own_split(run, tmp_path, data):
    code, out, err = run(
        "classify", "bench-easy-small", "--epochs", 2, "--device", "cpu", "--model-out", "m", "-o", "r"
    )
    assert code == 0, err
    metrics = json.loads((tmp_path / "r/metrics.json").read_text())
    assert metrics["trained_on"] + metrics["tested_on"] == 300
    assert "Bench-easy-small: 300 graphs, 3 classes" in out
    write_graphs(tmp_path / "shapes", 4)
    code, _, err = run("classify", "shapes", "--model", "m")
    assert code == 2
    assert "was trained on Bench-easy-small, not on a folder" in err


def test_reproduce_classification_ends_with_a_table_and_resumes(run, tmp_path, data):
    words = ["reproduce", "classification", "--dataset", "bench_easy_small", "--epochs", 2, "--device", "cpu"]
    code, out, err = run(*words, "--method", "nopool", "--method", "wl", "--folds", 1)
    assert code == 0, err
    assert "Table 2" in out
    assert "nopool, folds 0" in err
    cells = json.loads((tmp_path / "results/table2.json").read_text())
    assert {(c["method"], c["n"]) for c in cells} == {("nopool", 1), ("wl", 1)}
    code, out, err = run(*words, "--method", "nopool", "--folds", 2)
    assert code == 0, err
    assert "nopool, folds 1" in err  # the other fold is not repeated
    code, out, err = run(*words, "--method", "mincut", "--folds", 2, "--minutes", 0)
    assert code == 0, err
    assert "not finished: Bench-easy-small: mincut. The same command continues" in " ".join(err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--dataset", "cora"], "--dataset must be among Bench-easy,"),
        (["--method", "median"], "--method must be one of wl,"),
        (["--folds", "11"], "--folds"),
    ],
)
def test_reproduce_classification_refuses_in_one_sentence(run, words, message):
    code, out, err = run("reproduce", "classification", *words)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
