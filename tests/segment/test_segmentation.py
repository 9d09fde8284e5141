"""segment_image and the images that it reads: known segments, every kind of image, and clear refusals."""

import json
from dataclasses import asdict
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.refusals import refuses
from PIL import Image
from sklearn.cluster import KMeans

import softcut as sc
from softcut.baselines import diffpool_replicas, spectral
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
    region_graph,
    segmentation,
)
from softcut.segment.images import shrink
from softcut.segment.methods import number_of_segments, spectral_coordinates
from softcut.segment.region_graph import COLOUR_WIDTH, HISTOGRAM_WIDTH, RegionGraph
from softcut.training import TrainSettings, replica_seeds


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


def test_other_methods_are_those_of_the_baselines(monkeypatch):
    monkeypatch.setattr(methods, "_DIFFPOOL_STEPS", 30)
    regions = sc.segment_image(IMAGE, 1).regions
    graph, x = regions.graph, regions.graph.x
    scaled = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    settings = {"x": scaled, "max_iter": 30, "learning_rate": 5e-3}
    s, _, result = diffpool_replicas(graph, 4, replica_seeds(3, 10), **settings)
    expected = s[:, (result.cut[-1] + result.ortho[-1]).argmin()].argmax(-1)
    np.testing.assert_array_equal(cluster_regions(graph, 4, "diffpool", 3), expected)
    np.testing.assert_array_equal(cluster_regions(graph, 4, "ncut", 3), spectral(graph, 4, 3))


def test_the_replica_of_the_smallest_last_loss_is_taken(monkeypatch):
    losses = {"cut": [[0.0, 9, 9], [1, 2, 5]], "ortho": [[0.0, 5, 9], [3, 1, 0.5]]}  # the last: 4, 3 and 5.5
    result = SimpleNamespace(**{name: np.array(values) for name, values in losses.items()})
    graph = sc.segment_image(IMAGE, 1).regions.graph
    chosen = np.arange(graph.num_nodes) % 4
    s = torch.eye(4)[torch.from_numpy(np.stack([(chosen + 1) % 4, chosen, (chosen + 2) % 4], axis=1))]
    monkeypatch.setattr(methods, "diffpool_replicas", lambda *given, **more: (s, None, result))
    np.testing.assert_array_equal(cluster_regions(graph, 4, "diffpool"), chosen)


def test_slic_and_options_change_what_is_clustered():
    image, truth = quadrants(noise=0.02)
    by_slic = sc.segment_image(image, 4, regions="slic")
    assert ari(truth.ravel(), by_slic.labels.ravel()) > 0.8
    assert 300 < len(by_slic.region_labels) < 500  # of nearly one size, however few colours there are
    plain = sc.segment_image(IMAGE, 4, position=True, texture=False).regions.graph
    assert plain.x.shape[1] == 5
    default = sc.segment_image(IMAGE)
    for divided, weights in ((default, "likeness"), (sc.segment_image(IMAGE, 4, texture=False), "colour")):
        wanted = region_graph(as_rgb(IMAGE), divided.regions.regions, weights=weights).graph
        assert (divided.regions.graph.adjacency != wanted.adjacency).nnz == 0
    assert (plain.adjacency != default.regions.graph.adjacency).nnz > 0
    assert len(repr(default)) < 1500 and "image=" not in repr(default) and "region" not in repr(default)
    assert default.regions.graph.x.shape[1] == 3 and default.n_segments == 4 and default.notes == []


def test_a_number_of_pixels_at_which_the_image_is_made_smaller():
    large = np.kron(IMAGE, np.ones((2, 2, 1), dtype=np.uint8))[:-1, :-2]
    divided = sc.segment_image(large, 4, max_pixels=96 * 96)
    assert divided.labels.shape == large.shape[:2]
    assert divided.regions.regions.size <= 96 * 96
    assert any("1/2 of the image's size" in note for note in divided.notes)
    assert ari(np.kron(TRUTH, np.ones((2, 2), dtype=int))[:-1, :-2].ravel(), divided.labels.ravel()) > 0.9
    assert divided.overlay().shape == large.shape


@pytest.mark.parametrize(("width", "line"), [(300, 1), (1199, 1), (1200, 4), (2799, 4), (2800, 6)])
def test_borders_are_wider_on_large_images(width, line):
    image, halves = np.zeros((7, width, 3), np.float32), np.arange(width)[None].repeat(7, 0) * 2 // width
    described = RegionGraph(halves, None, np.bincount(halves.ravel()), np.eye(2, 3), None, None)
    drawn = segmentation.Segmentation(halves, image, described, np.arange(2)).overlay()
    assert (drawn[3] == (255, 217, 0)).all(-1).sum() == line
    assert drawn[3, 0].tolist() == [128, 0, 0], "half of the mean colour"


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
    refuses(ParameterError, "opacity must be from 0 to 1", divided.overlay, 2.0)


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
        (IMAGE, {"k": "many"}, "'auto', got 'many'"),
        *((IMAGE, {"k": bad}, "k must be a whole number") for bad in (0, True)),
        (IMAGE, {"method": "watershed"}, "method must be one of 'mincut', 'ncut', 'diffpool'"),
        (IMAGE, {"regions": "grid"}, "regions must be one of"),
        (IMAGE, {"max_pixels": 0}, "max_pixels must be positive"),
        (IMAGE, {"max_pixels": 1}, "single region of one colour"),
    ],
)
def test_what_cannot_be_divided(image, options, said):
    refuses(ParameterError, said, sc.segment_image, image, **options)


def test_one_segment_and_as_many_as_regions(monkeypatch):
    assert sc.segment_image(IMAGE, 1).n_segments == 1
    auto = sc.segment_image(IMAGE, "auto")
    assert auto.n_segments == 4 and any("4 segments" in note for note in auto.notes)
    halves = np.zeros((30, 30), dtype=np.uint8)
    halves[:, 15:] = 255
    assert [sc.segment_image(halves, k).n_segments for k in (2, "auto")] == [2, 2]
    monkeypatch.setattr(segmentation, "cluster_regions", lambda *given, area: np.full(len(area), 3))
    (note,) = sc.segment_image(IMAGE, 4).notes
    assert (note, note.code) == ("1 segments instead of 4: the others are empty.", "segments_empty")


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
    values = np.sort(np.linalg.eigvals(walk).real)[::-1]
    for most in (16, 15):  # all at once, and a few of a larger graph
        monkeypatch.setattr(methods, "_DENSE", most)
        vectors, gaps = spectral_coordinates(graph, 3)
        np.testing.assert_allclose(walk @ vectors, vectors * (1 - gaps), atol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1)
        np.testing.assert_allclose(gaps, 1 - values[1:4], atol=1e-8)
        assert (vectors[np.abs(vectors).argmax(0), range(3)] > 0).all()
    assert spectral_coordinates(graph, 50)[0].shape == (16, 15)


def test_what_the_networks_read_and_start_from(monkeypatch):
    """Rows of length 4 on average: weighted eigenvectors, and features with a weight; k-means of them."""
    graph, given = two_cliques(0.5), {}

    def noted(net, inputs, op, settings, start, sizes):
        given.update(settings=settings, start=start, sizes=sizes, rows=inputs.z, scales=net.scales)
        raise InterruptedError

    monkeypatch.setattr(methods, "train", noted)
    area = np.arange(16) ** 2 + 1
    with pytest.raises(InterruptedError):
        mincut_regions(graph, 5, MincutSettings(n_init=3), area=area, random_state=7)
    vectors, gaps = spectral_coordinates(graph, 10)
    rows = []
    for power in (0.5, 1.0):
        parts = vectors / (gaps + 1e-3) ** power, graph.x
        parts = [part - part.mean(0) for part in parts]
        parts = [4 * part / np.sqrt((part**2).sum(1).mean()) for part in parts]
        rows.append(np.hstack([parts[0], 0.3 * parts[1]]))
    np.testing.assert_allclose(given["rows"], rows, atol=1e-5)
    assert given["scales"] == [0, 0, 1, 1]
    pairs = product(given["rows"].numpy(), (KMeans(5, n_init=1, random_state=seed) for seed in (7, 8)))
    starts = [means.fit(each, sample_weight=area).labels_ for each, means in pairs]
    np.testing.assert_array_equal(given["start"], starts)
    np.testing.assert_array_equal(given["sizes"], [np.bincount(each) for each in starts])
    assert given["settings"] == TrainSettings(40, 1e-2, ortho_weight=1.0, start=20, tolerance=None)


def test_the_recorded_benchmark_was_made_with_the_default_settings():
    runs = json.loads((Path(__file__).parents[2] / "results/segmentation_runs.json").read_text())
    recorded = next(run["settings"] for run in runs if run["method"] == "mincut")
    own = {**asdict(MincutSettings()), "histogram_width": HISTOGRAM_WIDTH, "colour_width": COLOUR_WIDTH}
    assert json.loads(json.dumps(own)).items() <= recorded.items()


def test_minCUT_follows_the_graph_where_features_say_nothing():
    graph = two_cliques()
    assert number_of_segments(graph) == 2
    labels = mincut_regions(graph, 2)
    assert ari(np.repeat([0, 1], 8), labels) == 1.0
    assert (labels == mincut_regions(graph, 2)).all()
    assert len(cluster_regions(graph, 99)) == 16
    four = sp.block_diag([two_cliques().adjacency] * 2).tolil()
    four[0, 16] = four[16, 0] = 0.01
    same = sc.Graph.from_scipy(sp.csr_array(four), x=np.ones((32, 1)))
    assert number_of_segments(same) == 4
    assert ari(np.arange(32) // 8, mincut_regions(same, 4)) == 1.0
    for cliques, expected in ((1, 2), (11, 11), (14, 12)):  # never more than twelve
        matrix = np.kron(np.eye(cliques), np.ones((4, 4))) + 1e-3
        assert number_of_segments(sc.Graph.from_dense(matrix - np.diag(np.diag(matrix)))) == expected


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


@pytest.mark.parametrize(
    ("kind", "value", "unit"),
    [
        *((np.uint16, 7, 7 / 65535), (np.uint32, 255, 1.0), (np.int64, 255, 1.0), (np.int64, 0, 0.0)),
        *((np.int64, 256, 256 / 65535), (np.int64, 65535, 1.0), (np.float64, 1.0, 1.0), (np.float64, 0, 0.0)),
    ],
)
def test_numbers_are_divided_by_the_largest_of_their_kind(kind, value, unit):
    np.testing.assert_allclose(as_rgb(np.array([[value]], dtype=kind)), unit, rtol=1e-6)


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
        *((np.array([row]), "floats from 0 to 1") for row in ([0.0, 1.5], [-0.5, 1.0])),
        (np.array([[0, 65536]]), "from 0 to 65536"),
        (np.array([[-1, 3]]), "from -1 to 3"),
        (np.array([["a", "b"]]), "must hold numbers"),
    ],
)
def test_arrays_that_are_no_images(image, said):
    refuses(ParameterError, said, as_rgb, image)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "CMYK", "I;16"])
def test_files_of_every_mode(mode, tmp_path):
    black_white = np.zeros((6, 8, 3), dtype=np.uint8)
    black_white[:, 4:] = 255
    if mode == "I;16":
        black_white[:, 4:] = 100  # grey, which only numbers of 16 bits can be
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
    refuses(FileFormatError, "not a file", read_image, tmp_path)
    (tmp_path / "a.png").write_text("an edge list")
    refuses(FileFormatError, r"a.png cannot be read as an image", read_image, tmp_path / "a.png")
    Image.fromarray(RNG.integers(0, 256, size=(50, 50, 3), dtype=np.uint8)).save(tmp_path / "b.jpg")
    whole = (tmp_path / "b.jpg").read_bytes()
    (tmp_path / "b.jpg").write_bytes(whole[: len(whole) // 2])
    refuses(FileFormatError, r"b.jpg cannot be read .* complete", read_image, tmp_path / "b.jpg")
    (tmp_path / "b.jpg").write_bytes(whole)
    monkeypatch.setattr(images, "MAX_IMAGE_PIXELS", 2500)
    assert read_image(tmp_path / "b.jpg").shape == (50, 50, 3)
    monkeypatch.setattr(images, "MAX_IMAGE_PIXELS", 2499)
    refuses(ParameterError, "50 x 50 pixels", read_image, tmp_path / "b.jpg")


def test_shrinking_takes_means_and_keeps_a_ragged_edge():
    rgb = RNG.random((7, 9, 3), dtype=np.float32)
    small, factor = shrink(rgb, 20)
    assert (small.shape, factor) == ((4, 5, 3), 2)
    np.testing.assert_allclose(small[1, 2], rgb[2:4, 4:6].mean((0, 1)), rtol=1e-6)
    np.testing.assert_allclose(small[3, 4], rgb[6, 8], rtol=1e-6)  # the last row and column stand alone
    same, factor = shrink(rgb, 63)
    assert factor == 1 and same is rgb
