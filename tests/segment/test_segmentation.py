"""segment_image and the images that it reads: known segments, every kind of image, and clear refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

import softcut as sc
from softcut.errors import FileFormatError, ParameterError
from softcut.metrics import ari
from softcut.segment import (
    MincutSettings,
    as_rgb,
    cluster_regions,
    images,
    methods,
    mincut_regions,
    read_image,
)
from softcut.segment.images import shrink
from softcut.segment.methods import number_of_segments, spectral_coordinates


def quadrants(size=96, noise=0.2, seed=0):
    """Four noisy fields of colours that people tell apart, and their numbers."""
    rng = np.random.default_rng(seed)
    truth = np.kron(np.array([[0, 1], [2, 3]]), np.ones((size // 2, size // 2), dtype=int))
    colours = np.array([[0.8, 0.2, 0.2], [0.2, 0.7, 0.3], [0.2, 0.3, 0.8], [0.8, 0.8, 0.3]])
    image = np.clip(colours[truth] + noise * rng.standard_normal((size, size, 3)), 0, 1)
    return (255 * image).astype(np.uint8), truth


IMAGE, TRUTH = quadrants()


@pytest.mark.parametrize("method", ["mincut", "ncut"])
def test_known_segments_are_found(method):
    divided = sc.segment_image(IMAGE, 4, method=method)
    assert divided.n_segments == 4
    assert ari(TRUTH.ravel(), divided.labels.ravel()) > 0.95
    sizes = np.bincount(divided.labels.ravel())
    assert (np.diff(sizes) <= 0).all()  # the largest first
    assert (divided.regions.paint(divided.region_labels) == divided.labels).all()


def test_diffpool_is_another_method(monkeypatch):
    monkeypatch.setattr(methods, "_DIFFPOOL_STEPS", 50)
    divided = sc.segment_image(IMAGE, 4, method="diffpool")
    assert divided.labels.shape == (96, 96) and 1 <= divided.n_segments <= 4


def test_random_states_of_every_kind():
    expected = sc.segment_image(IMAGE, 4, random_state=3).labels
    assert np.array_equal(sc.segment_image(IMAGE, 4, random_state=3, device="cpu").labels, expected)
    for random_state in (None, np.random.RandomState(1), np.random.default_rng(1)):
        assert sc.segment_image(IMAGE, 4, random_state=random_state).n_segments == 4
    with pytest.raises(ParameterError, match="random_state must be"):
        sc.segment_image(IMAGE, 4, random_state=-1)


def test_slic_and_options_change_what_is_clustered():
    image, truth = quadrants(noise=0.02)
    by_slic = sc.segment_image(image, 4, regions="slic")
    assert ari(truth.ravel(), by_slic.labels.ravel()) > 0.8
    assert 300 < len(by_slic.region_labels) < 500  # of nearly one size, however few colours there are
    plain = sc.segment_image(IMAGE, 4, position=True, texture=False).regions.graph
    assert plain.x.shape[1] == 5
    assert (plain.adjacency != sc.segment_image(IMAGE, 4).regions.graph.adjacency).nnz > 0


def test_kinds_of_images_give_the_same_segments(tmp_path):
    expected = sc.segment_image(IMAGE, 4).labels
    Image.fromarray(IMAGE).save(tmp_path / "a.png")
    for same in (IMAGE / 255.0, str(tmp_path / "a.png"), tmp_path / "a.png"):
        assert ari(expected.ravel(), sc.segment_image(same, 4).labels.ravel()) > 0.95
    grey = np.where(TRUTH % 2, 200, 50).astype(np.uint8)
    assert ari((TRUTH % 2).ravel(), sc.segment_image(grey, 2).labels.ravel()) == 1.0


def test_a_number_of_pixels_at_which_the_image_is_made_smaller():
    large = np.kron(IMAGE, np.ones((3, 3, 1), dtype=np.uint8))[:-1, :-2]
    divided = sc.segment_image(large, 4, max_pixels=96 * 96)
    assert divided.labels.shape == large.shape[:2]
    assert divided.regions.regions.size <= 96 * 96
    assert any("1/3 of the image's size" in note for note in divided.notes)
    assert ari(np.kron(TRUTH, np.ones((3, 3), dtype=int))[:-1, :-2].ravel(), divided.labels.ravel()) > 0.9
    assert divided.overlay().shape == large.shape


def test_the_overlay_mixes_image_and_colours_and_draws_borders():
    divided = sc.segment_image(IMAGE, 4)
    alone = divided.overlay(0.0)
    lines = (alone == (255, 217, 0)).all(-1)
    assert 0.01 < lines.mean() < 0.1
    assert np.array_equal(alone[~lines], IMAGE[~lines])
    inside = (divided.labels == 1) & ~lines
    flat = divided.overlay(1.0)[inside]
    assert (flat == flat[0]).all()
    assert np.abs(flat[0] - IMAGE[divided.labels == 1].mean(0)).max() < 1
    with pytest.raises(ParameterError, match="opacity must be from 0 to 1"):
        divided.overlay(2.0)


def test_cut_outs_are_the_image_inside_a_segment_and_transparent_elsewhere():
    divided = sc.segment_image(IMAGE, 4)
    cut = list(divided.cut_outs())
    assert len(cut) == divided.n_segments
    for number, pixels in enumerate(cut):
        rows, columns = np.nonzero(divided.labels == number)
        box = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        inside = divided.labels[box] == number
        assert np.array_equal(pixels[..., 3], 255 * inside)
        assert np.array_equal(pixels[..., :3], IMAGE[box] * inside[..., None])


@pytest.mark.parametrize(
    ("image", "options", "said"),
    [
        (np.zeros((20, 20), dtype=np.uint8), {}, "single region of one colour"),
        (IMAGE, {"k": 5000}, r"k is 5000, but the image has only \d+ regions"),
        (IMAGE, {"k": 0}, "k must be a whole number"),
        (IMAGE, {"k": "many"}, "'auto', got 'many'"),
        (IMAGE, {"k": True}, "k must be a whole number"),
        (IMAGE, {"method": "watershed"}, "method must be one of 'mincut', 'ncut', 'diffpool'"),
        (IMAGE, {"regions": "grid"}, "regions must be one of"),
        (IMAGE, {"max_pixels": 0}, "max_pixels must be positive"),
    ],
)
def test_what_cannot_be_divided(image, options, said):
    with pytest.raises(ParameterError, match=said):
        sc.segment_image(image, **options)


def test_one_segment_and_as_many_as_regions():
    assert sc.segment_image(IMAGE, 1).n_segments == 1
    auto = sc.segment_image(IMAGE, "auto")
    assert auto.n_segments == 4 and any("4 segments" in note for note in auto.notes)
    halves = np.zeros((30, 30), dtype=np.uint8)
    halves[:, 15:] = 255
    assert [sc.segment_image(halves, k).n_segments for k in (2, "auto")] == [2, 2]


def two_cliques(bridge=0.01):
    blocks = np.kron(np.eye(2), np.ones((8, 8)))
    blocks[0, 8] = blocks[8, 0] = bridge
    np.fill_diagonal(blocks, 0)
    x = np.random.default_rng(0).random((16, 3)).astype(np.float32)  # features that say nothing
    return sc.Graph.from_scipy(sp.csr_array(blocks), x=x)


def test_coordinates_are_eigenvectors_of_the_random_walk(monkeypatch):
    graph = two_cliques(0.5)
    dense = graph.adjacency.toarray()
    walk = dense / dense.sum(1, keepdims=True)
    for most in (100, 4):  # all at once, and a few of a larger graph
        monkeypatch.setattr(methods, "_DENSE", most)
        vectors, gaps = spectral_coordinates(graph, 3)
        np.testing.assert_allclose(walk @ vectors, vectors * (1 - gaps), atol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1)
        assert (np.diff(gaps) >= -1e-9).all() and gaps[0] > 0
    assert spectral_coordinates(graph, 50)[0].shape == (16, 15)


def test_minCUT_follows_the_graph_where_features_say_nothing():
    graph = two_cliques()
    assert number_of_segments(graph) == 2
    labels = mincut_regions(graph, 2)
    assert ari(np.repeat([0, 1], 8), labels) == 1.0
    assert (labels == mincut_regions(graph, 2)).all()
    assert len(cluster_regions(graph, 99)) == 16
    four = sp.block_diag([two_cliques().adjacency] * 2).tolil()
    four[0, 16] = four[16, 0] = 0.01
    assert number_of_segments(sc.Graph.from_scipy(sp.csr_array(four), x=np.ones((32, 1)))) == 4


def test_minCUT_follows_features_where_the_graph_says_nothing():
    ring = sp.csr_array(np.roll(np.eye(24), 1, axis=1) + np.roll(np.eye(24), -1, axis=1))
    x = np.zeros((24, 2), dtype=np.float32)
    x[5:17] = 1
    graph = sc.Graph.from_scipy(ring, x=x)
    labels = mincut_regions(graph, 2, MincutSettings(feature_weight=3.0))
    assert ari(x[:, 0].astype(int), labels) == 1.0


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
