"""Images of every kind as RGB, files that are none, and large images made smaller."""

import numpy as np
import pytest
from PIL import Image

from softcut.errors import FileFormatError, ParameterError
from softcut.segment import as_rgb, images, read_image
from softcut.segment.images import shrink

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, size=(6, 5, 3), dtype=np.uint8)


def test_kinds_of_arrays_agree():
    expected = RGB / 255.0
    for same in (RGB, RGB.astype(np.uint16) * 257, RGB.astype(np.int64), expected):
        assert as_rgb(same).dtype == np.float32
        np.testing.assert_allclose(as_rgb(same), expected, atol=1e-6)


def test_grey_becomes_rgb_and_alpha_lies_on_white():
    grey = RGB[..., 0]
    for same in (grey, grey[..., None], np.dstack([grey, np.full_like(grey, 255)])):
        np.testing.assert_allclose(as_rgb(same), np.repeat(grey[..., None] / 255, 3, axis=2), atol=1e-6)
    half = np.dstack([RGB, np.full_like(grey, 51)])
    np.testing.assert_allclose(as_rgb(half), 0.2 * RGB / 255 + 0.8, atol=1e-6)
    assert as_rgb(np.array([[True, False]]))[0, :, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (np.zeros((3, 4, 5)), r"shape \(3, 4, 5\)"),
        (np.zeros(3), "shape"),
        (np.zeros((0, 4, 3)), "no pixels"),
        (np.array([[0.0, np.nan]]), "no numbers"),
        (np.array([[0.0, 255.0]]), "floats from 0 to 1"),
        (np.array([[-1, 3]]), "from -1 to 3"),
        (np.array([["a", "b"]]), "must hold numbers"),
    ],
)
def test_arrays_that_are_no_images(image, said):
    with pytest.raises(ParameterError, match=said):
        as_rgb(image)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I;16"])
def test_files_of_every_mode(mode, tmp_path):
    black_white = np.zeros((6, 8, 3), dtype=np.uint8)
    black_white[:, 4:] = 255
    if mode == "I;16":
        file = Image.fromarray(black_white[..., 0].astype(np.uint16) * 257)
    else:
        file = Image.fromarray(black_white).convert(mode)
    name = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    file.save(name)
    np.testing.assert_allclose(as_rgb(read_image(name)), black_white / 255.0, atol=0.01)


def test_photographs_are_turned_the_way_the_camera_noted(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    Image.fromarray(RGB).save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png"), np.rot90(RGB, -1))


def test_files_that_are_no_images(tmp_path, monkeypatch):
    with pytest.raises(FileFormatError, match="not a file"):
        read_image(tmp_path)
    (tmp_path / "a.png").write_text("an edge list")
    with pytest.raises(FileFormatError, match=r"a.png cannot be read as an image"):
        read_image(tmp_path / "a.png")
    Image.fromarray(RNG.integers(0, 256, size=(50, 50, 3), dtype=np.uint8)).save(tmp_path / "b.jpg")
    whole = (tmp_path / "b.jpg").read_bytes()
    (tmp_path / "b.jpg").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"b.jpg cannot be read .* complete"):
        read_image(tmp_path / "b.jpg")
    (tmp_path / "b.jpg").write_bytes(whole)
    monkeypatch.setattr(images, "MAX_IMAGE_PIXELS", 2400)
    with pytest.raises(ParameterError, match="50 x 50 pixels"):
        read_image(tmp_path / "b.jpg")


def test_shrinking_takes_means_and_keeps_a_ragged_edge():
    rgb = RNG.random((7, 9, 3), dtype=np.float32)
    small, factor = shrink(rgb, 20)
    assert (small.shape, factor) == ((4, 5, 3), 2)
    np.testing.assert_allclose(small[1, 2], rgb[2:4, 4:6].mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(small[3, 4], rgb[6, 8], rtol=1e-6)  # the last row and column stand alone
    same, factor = shrink(rgb, 63)
    assert factor == 1 and same is rgb
