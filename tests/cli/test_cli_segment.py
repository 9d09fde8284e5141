"""``softcut segment`` and ``softcut reproduce segmentation``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from softcut.metrics import ari
from softcut.paper import segmentation, segmentation_figure


@pytest.fixture
def photo(tmp_path):
    """Three noisy stripes of 40 x 90 pixels, and their numbers."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(3), 30)[None].repeat(40, axis=0)
    colours = np.array([[200, 60, 60], [60, 180, 70], [60, 80, 200]])
    pixels = np.clip(colours[truth] + 45 * rng.standard_normal((40, 90, 3)), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return truth


def test_labels_overlay_and_sizes_are_written(run, photo, tmp_path):
    code, out, err = run("segment", "photo.png", "-k", 3)
    assert code == 0, err
    assert "3 segments" in out and "photo-segments/overlay.png" in out
    folder = tmp_path / "photo-segments"
    labels = np.asarray(Image.open(folder / "labels.png"))
    assert ari(photo.ravel(), labels.ravel()) > 0.9
    about = json.loads((folder / "segments.json").read_text())
    assert (about["width"], about["height"], about["method"]) == (90, 40, "mincut")
    shares = np.bincount(labels.ravel()) / labels.size
    assert [s["share"] for s in about["segments"]] == pytest.approx(shares.tolist())
    assert Image.open(folder / "overlay.png").size == (90, 40)
    code, _, err = run("segment", "photo.png", "-k", 3)
    assert code == 2 and "--overwrite" in err


def test_options_have_an_effect(run, photo, tmp_path):
    words = ("--method", "ncut", "--regions", "slic", "--max-pixels", 1000, "--no-texture", "--position")
    code, _, err = run("segment", "photo.png", "-k", "auto", "-o", "other", *words)
    assert code == 0, err
    assert "--segments auto" in err and "1/2 of the image's size" in err and "--max-pixels" in err
    about = json.loads((tmp_path / "other/segments.json").read_text())
    assert about["method"] == "ncut"
    assert np.asarray(Image.open(tmp_path / "other/labels.png")).shape == (40, 90)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.png",), "missing.png is not a file"),
        (("broken.png",), "broken.png cannot be read as an image"),
        (("photo.png", "-k", "many"), "--segments must be a whole number or 'auto', got 'many'"),
        (("photo.png", "-k", 0), "--segments must be a whole number"),
        (("photo.png", "--method", "watershed"), "--method must be one of 'mincut', 'ncut', 'diffpool'"),
        (("photo.png", "-k", 5000), "--segments is 5000, but the image has only"),
        (("flat.png", "-k", 2), "single region of one colour"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(run, photo, tmp_path, words, said):
    (tmp_path / "broken.png").write_bytes((tmp_path / "photo.png").read_bytes()[:200])
    Image.fromarray(np.zeros((30, 30), dtype=np.uint8)).save(tmp_path / "flat.png")
    code, out, err = run("segment", *words)
    assert code == 2 and out == ""
    assert said in err and len(err.strip().splitlines()) == 1
    assert not list(tmp_path.glob("*-segments"))


def test_reproduce_passes_its_options_on(run, monkeypatch, tmp_path):
    asked = {}

    def fake_run(out, methods, images, **options):
        asked.update(out=out.name, methods=methods, images=images, **options)
        return []

    monkeypatch.setattr(segmentation, "run", fake_run)
    monkeypatch.setattr(segmentation_figure, "draw", lambda out, **options: [out / "picture.png"])
    words = ("--method", "mincut", "--images", 3, "--minutes", 1, "--split", "test", "-o", "there")
    code, out, err = run("reproduce", "segmentation", *words)
    assert code == 0, err
    assert (asked["methods"], asked["images"], asked["minutes"]) == (["mincut"], 3, 1.0)
    assert (asked["out"], asked["split"]) == ("there", "test")
    assert "there/picture.png" in out
    assert "gPb-owt-ucm" in out
    _, out, _ = run("reproduce", "segmentation", "--no-figure")
    assert "Picture" not in out
    code, _, err = run("reproduce", "segmentation", "--method", "magic")
    assert code == 2 and "--method must be one of mincut" in err
