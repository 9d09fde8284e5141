"""BSDS500: reading, verification, and what is said where it is missing or damaged."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.refusals import refuses
from PIL import Image
from scipy.io import savemat

from softcut.datasets import bsds500, fetching
from softcut.datasets.bsds500 import load_bsds500
from softcut.errors import DataError, ParameterError


def write(folder: Path, name: str, people: int = 2, seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """An image and its segmentations in the layout of the data set."""
    rng = np.random.default_rng(seed)
    image = np.full((4, 6, 3), int(rng.integers(256)), dtype=np.uint8)
    drawn = [rng.integers(1, 4, size=(4, 6)).astype(np.uint16) for _ in range(people)]
    for part in ("images", "groundTruth"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folder / "images" / f"{name}.jpg", quality=100)
    cells = np.empty((1, people), dtype=object)
    for i, each in enumerate(drawn):
        cells[0, i] = {"Segmentation": each, "Boundaries": each > 1}
    savemat(folder / "groundTruth" / f"{name}.mat", {"groundTruth": cells})
    return image, drawn


def test_images_and_people_are_read_in_order(tmp_path):
    made = {name: write(tmp_path / "bsds500/test", name, seed=i) for i, name in enumerate(("30", "200", "4"))}
    images = load_bsds500("test", tmp_path)
    assert [image.name for image in images] == sorted(made)
    for each in images:
        image, drawn = made[each.name]
        assert np.abs(each.image().astype(int) - image).max() <= 2
        assert all(np.array_equal(a, b) for a, b in zip(each.people(), drawn, strict=True))


def test_validation_images_are_verified_and_downloaded_where_they_are_missing(tmp_path, monkeypatch):
    write(tmp_path / "bsds500/val", "1")
    monkeypatch.setattr(bsds500, "_VALIDATION_NAMES", "1")
    refuses(DataError, "published validation images", load_bsds500, "val", tmp_path)
    digest = bsds500._checksum(bsds500._images(tmp_path / "bsds500/val"))
    monkeypatch.setattr(bsds500, "_VALIDATION_CHECKSUM", digest)
    assert len(load_bsds500("val", tmp_path)) == 1
    asked = []

    def fetch(url, target, check, name):
        asked.append(url.removeprefix(bsds500.URL))
        part = "images" if url.endswith("jpg") else "groundTruth"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((tmp_path / "bsds500/val" / part / target.name).read_bytes())
        check(target)

    monkeypatch.setattr(fetching, "fetch", fetch)
    (tmp_path / "data").mkdir()
    assert [image.name for image in load_bsds500(root=tmp_path / "data")] == ["1"]
    assert asked == ["images/val/1.jpg", "groundTruth/val/1.mat"]
    load_bsds500(root=tmp_path / "data")
    assert len(asked) == 2
    # A folder that lacks some of them is not taken: the others go to the cache.
    monkeypatch.setattr(bsds500, "_VALIDATION_NAMES", "1 2")
    write(tmp_path / "bsds500/val", "2")
    monkeypatch.setattr(
        bsds500, "_VALIDATION_CHECKSUM", bsds500._checksum(bsds500._images(tmp_path / "bsds500/val"))
    )
    monkeypatch.setenv("SOFTCUT_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert [image.image_path.parent for image in load_bsds500()] == [
        tmp_path / "cache/softcut/bsds500/val/images"
    ] * 2


def test_what_cannot_be_read(tmp_path):
    refuses(ParameterError, "split must be one of 'train', 'val', 'test', got 'all'", load_bsds500, "all")
    refuses(DataError, r"test images .* bsds500/test/images", load_bsds500, "test", tmp_path)
    refuses(DataError, "val images", load_bsds500, "val", tmp_path, download=False)
    write(tmp_path / "bsds500/test", "1")
    (image,) = load_bsds500("test", tmp_path)
    image.image_path.write_text("no image")
    image.people_path.write_text("no matrix")
    refuses(DataError, r"1.jpg cannot be read as an image", image.image)
    refuses(DataError, r"1.mat cannot be read as segmentations", image.people)


@pytest.mark.skipif(
    not Path(os.environ.get("SOFTCUT_DATA", "none"), "bsds500/val").is_dir(), reason="BSDS500 is not here"
)
def test_the_published_images():
    images = load_bsds500(download=False)
    assert len(images) == 100
    assert images[0].image().shape == (481, 321, 3)
    assert [person.shape for person in images[0].people()] == [(481, 321)] * 5
