"""``softcut classify`` and ``softcut segment``."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from softcut.metrics import ari


def predictions(folder):
    with Path(folder, "predictions.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_train_save_and_predict(done, refused, shapes):
    classes = shapes("shapes", 60)
    words = ["--epochs", 60, "--lr", 0.01, "--device", "cpu", "--held-out", 0.2, "--model-out", "m"]
    out, _ = done("classify", "shapes", *words)
    rows = predictions("shapes-classes")
    assert len(rows) == 12
    assert all(int(row["class"]) == classes[int(row["graph"]) - 1] for row in rows)
    metrics = json.loads(Path("shapes-classes/metrics.json").read_text())
    hits = np.array([row["class"] == row["predicted"] for row in rows])
    assert metrics["accuracy"] == pytest.approx(hits.mean()) and hits.mean() > 0.9
    second = np.array([row["class"] == "2" for row in rows])
    assert metrics["accuracy_per_class"]["2"] == pytest.approx(hits[second].mean())
    assert (metrics["trained_on"], metrics["tested_on"], metrics["graphs"]) == (48, 12, 60)
    assert f"{100 * hits.mean():.1f} %" in out and "of class 2" in out
    said = refused("classify", "shapes", *words)  # an earlier result is not replaced
    assert "--overwrite" in said

    truth = shapes("others", 10, seed=1, labels=False)
    out, _ = done("classify", "others", "--model", "m", "--device", "cpu", "-o", "told")
    assert "accuracy" not in out
    told = predictions("told")
    assert [row["class"] for row in told] == [""] * 10
    assert np.mean([int(row["predicted"]) == y for row, y in zip(told, truth, strict=True)]) > 0.8
    # The graphs that tested the model get the same answers from the file.
    done("classify", "shapes", "--model", "m", "--device", "cpu", "-o", "again")
    again = {row["graph"]: row for row in predictions("again")}
    for row in rows:
        assert again[row["graph"]]["predicted"] == row["predicted"]
        assert float(again[row["graph"]]["probability"]) == pytest.approx(float(row["probability"]), abs=1e-4)
    done("classify", "shapes", "--epochs", 1, "--device", "cpu", "-o", "again", "--overwrite")
    assert len(predictions("again")) == 6


def test_a_data_set_by_name_uses_its_own_split(done, refused, shapes, data, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ("bench-easy-small", "--epochs", 2, "--device", "cpu", "--model-out", "m", "-o", "r")
    out, _ = done("classify", *words)
    metrics = json.loads(Path("r/metrics.json").read_text())
    assert metrics["trained_on"] + metrics["tested_on"] == 300
    assert "Bench-easy-small: 300 graphs, 3 classes" in out
    shapes("shapes", 4)
    said = refused("classify", "shapes", "--model", "m")
    assert "was trained on Bench-easy-small, not on a folder" in said


def test_labels_overlay_and_sizes_are_written(done, refused, photo):
    out, _ = done("segment", "photo.png", "-k", 3)
    assert "3 segments" in out and "photo-segments/overlay.png" in out
    labels = np.asarray(Image.open("photo-segments/labels.png"))
    assert ari(photo.ravel(), labels.ravel()) > 0.9
    about = json.loads(Path("photo-segments/segments.json").read_text())
    assert (about["width"], about["height"], about["method"]) == (90, 40, "mincut")
    pixels = np.asarray(Image.open("photo.png"), dtype=float)
    for number, described in enumerate(about["segments"]):
        inside = labels == number
        assert described["share"] == pytest.approx(inside.mean())
        colour = [int(described["colour"][i : i + 2], 16) for i in (1, 3, 5)]
        np.testing.assert_allclose(colour, pixels[inside].mean(0), atol=1)
        assert f"{100 * inside.mean():.1f} %" in out and described["colour"] in out
    assert Image.open("photo-segments/overlay.png").size == (90, 40)
    assert "--overwrite" in refused("segment", "photo.png", "-k", 3)


def test_options_have_an_effect(done, photo):
    words = ("--method", "ncut", "--regions", "slic", "--max-pixels", 1000, "--no-texture", "--position")
    _, err = done("segment", "photo.png", "-k", "auto", "-o", "other", *words)
    assert "--segments auto" in err and "1/2 of the image's size" in err and "--max-pixels" in err
    assert json.loads(Path("other/segments.json").read_text())["method"] == "ncut"
    assert np.asarray(Image.open("other/labels.png")).shape == (40, 90)
