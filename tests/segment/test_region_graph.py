"""Regions, their borders, histograms and graph, and scores of segmentations, against plain loops."""

import importlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from helpers.refusals import refuses
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from skimage.color import rgb2lab
from skimage.segmentation import felzenszwalb, slic

from softcut.errors import ParameterError
from softcut.segment import SegmentationScores, over_segment, region_graph, segmentation_scores
from softcut.segment.region_graph import (
    _responses,
    chi_square,
    colour_codes,
    histograms,
    region_borders,
    region_means,
    textons,
)
from softcut.segment.scores import overlap_table

RNG = np.random.default_rng(1)
REGIONS = np.kron(np.arange(6).reshape(2, 3), np.ones((5, 4), dtype=int))  # 2 x 3 tiles of 5 x 4 pixels
COLOURS = RNG.random((6, 3))
IMAGE = (COLOURS[REGIONS]).astype(np.float32)


def test_borders_count_pairs_of_pixels():
    regions = RNG.integers(0, 4, size=(6, 7))
    expected: Counter[tuple[int, ...]] = Counter()
    for y, x in itertools.product(range(6), range(7)):
        for other in ((y, x + 1), (y + 1, x)):
            if other[0] < 6 and other[1] < 7 and regions[y, x] != regions[other]:
                expected[tuple(sorted((int(regions[y, x]), int(regions[other]))))] += 1
    pairs, lengths = region_borders(regions)
    assert {tuple(p): n for p, n in zip(pairs.tolist(), lengths, strict=True)} == expected


def test_means_and_histograms():
    regions, values = RNG.integers(0, 3, size=(8, 8)), RNG.random((8, 8, 2))
    codes = RNG.integers(0, 5, size=(8, 8))
    means, shares = region_means(regions, values), histograms(regions, codes, 5)
    for r in range(3):
        own = regions == r
        np.testing.assert_allclose(means[r], values[own].mean(0))
        np.testing.assert_allclose(shares[r], np.bincount(codes[own], minlength=5) / own.sum())
    a, b = shares[0], shares[2]
    expected = sum((x - y) ** 2 / (x + y) for x, y in zip(a, b, strict=True) if x + y) / 2
    assert chi_square(shares, np.array([[0, 2]]))[0] == pytest.approx(expected)


def test_colours_fall_into_bins_of_equal_width():
    known = {(0, -73, 95): [0, 0, 24], (50.1, 0, 11.1): [12, 10, 12], (100, -200, 200): [24, 0, 24]}
    for lab, bins in known.items():
        assert [int(c[1, 1]) for c in colour_codes(np.full((3, 3, 3), lab))] == bins
    lab = RNG.uniform((0, -100, -100), (100, 120, 120), size=(9, 8, 3))
    smooth = np.stack([gaussian_filter(channel, 1.0) for channel in np.moveaxis(lab, 2, 0)])
    share = (smooth - np.array([0, -73, -73])[:, None, None]) / np.array([100, 168, 168])[:, None, None]
    np.testing.assert_array_equal(colour_codes(lab), np.clip(25 * share, 0, 24).astype(int))


@pytest.mark.parametrize("contrast", [100, 0.1])
def test_responses_are_derivatives_in_four_directions_at_three_sizes(contrast):
    grey, layers = RNG.uniform(0, contrast, (20, 24)), []
    for size in (1.0, 2.0, 4.0):
        first = [gaussian_filter(grey, size, order=o) * size for o in ((0, 1), (1, 0))]
        second = [gaussian_filter(grey, size, order=o) * size**2 for o in ((0, 2), (1, 1), (1, 1), (2, 0))]
        hessian = np.reshape(second, (2, 2, 20, 24))
        for degrees in (0, 45, 90, 135):
            way = np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
            layers += [np.abs(np.einsum("i,ihw", way, first)), np.einsum("i,j,ijhw", way, way, hessian)]
        layers.append(np.einsum("iihw", hessian))
    length = np.linalg.norm(layers, axis=0)
    expected = np.array(layers) / length * np.log1p(length / 3)
    np.testing.assert_allclose(np.moveaxis(_responses(grey), 2, 0), expected, atol=1e-6 * contrast)


@pytest.mark.parametrize("sample", [8000, 900])
def test_textons_tell_textures_apart(sample, monkeypatch):
    # By this way, for that name in softcut.segment is the function.
    module = importlib.import_module("softcut.segment.region_graph")
    monkeypatch.setattr(module, "_SAMPLE", sample)
    image = np.full((40, 80), 50.0)
    image[:, :40] += 40 * (np.arange(40) // 2 % 2)  # vertical stripes on the left
    codes = textons(image)
    left, right = codes[5:-5, 8:32], codes[5:-5, 64:]
    assert len(np.unique(right)) == 1 and right[0, 0] not in left
    assert codes.max() == 23 and (textons(np.full((8, 8), 50.0)) == 0).all()
    np.testing.assert_array_equal(textons(image + 5.0), codes)  # the brightness itself is no texture


@pytest.mark.parametrize("weights", ["colour", "adjacency"])
def test_weights(weights):
    made = region_graph(IMAGE, REGIONS, weights=weights)
    lab = rgb2lab(COLOURS[None])[0]
    lengths = {1: 5, 3: 4}  # tiles beside each other share 5 pixels, tiles above each other 4
    dense = made.graph.adjacency.toarray()
    for i, j in itertools.combinations(range(6), 2):
        touch = (j - i == 1 and i % 3 != 2) or j - i == 3
        length = lengths.get(j - i, 0) if touch else 0
        likeness = np.exp(-(np.linalg.norm(lab[i] - lab[j]) ** 2) / 100)
        expected = {"colour": length * max(likeness, 1e-6), "adjacency": length > 0}
        assert dense[i, j] == dense[j, i] == pytest.approx(float(expected[weights]), rel=1e-3, abs=1e-9)


def test_likeness_is_the_length_times_the_exponential_of_the_distance():
    rgb = np.clip(IMAGE + 0.1 * RNG.standard_normal(IMAGE.shape), 0, 1).astype(np.float32)
    lab = np.asarray(rgb2lab(rgb), dtype=np.float32)
    tables = [histograms(REGIONS, codes, 25) for codes in colour_codes(lab)]
    tables.append(histograms(REGIONS, textons(lab[..., 0]), 24))
    dense = region_graph(rgb, REGIONS).graph.adjacency.toarray()
    pairs, lengths = region_borders(REGIONS)
    distance = sum(chi_square(table, pairs) for table in tables)
    expected = lengths * np.maximum(np.exp(-distance / 0.25), 1e-6)
    np.testing.assert_allclose(dense[pairs[:, 0], pairs[:, 1]], expected, rtol=1e-5)
    assert (dense > 0).sum() == 2 * len(pairs)


def test_features():
    made = region_graph(IMAGE, REGIONS, features=("paper", "position"), weights="adjacency")
    total = COLOURS * 20
    expected = np.concatenate([COLOURS / COLOURS.max(0), total / total.max(0)], axis=1)
    np.testing.assert_allclose(made.graph.x[:, :6], expected, rtol=1e-5)
    np.testing.assert_allclose(made.graph.x[4, 6:], [(4 + 1.5) / 12, (5 + 2) / 12], rtol=1e-6)
    colour = region_graph(IMAGE, REGIONS, weights="adjacency").graph.x
    np.testing.assert_allclose(colour, rgb2lab(COLOURS[None])[0], rtol=1e-3, atol=1e-2)
    assert made.paint(np.arange(6) * 2).tolist() == (REGIONS * 2).tolist()
    without_blue = region_graph(IMAGE * np.float32([1, 1, 0]), REGIONS, features=["paper"]).graph.x
    np.testing.assert_allclose(without_blue, expected * [1, 1, 0, 1, 1, 0], rtol=1e-5)


def test_kinds_of_regions():
    """Felzenszwalb's with the paper's scale, 400 superpixels by SLIC; every number occurs."""
    image = RNG.random((60, 70, 3)).astype(np.float32)
    for made, expected in (
        (over_segment(image), felzenszwalb(image, scale=100, sigma=1.0, min_size=50)),
        (over_segment(image, scale=9.0, sigma=0.5), felzenszwalb(image, 9.0, 0.5, min_size=50)),
        (over_segment(image, "slic"), slic(image, 400, compactness=10.0)),
    ):
        np.testing.assert_array_equal(np.unique(made), np.arange(len(np.unique(expected))))
        assert len(np.unique(np.stack([made, expected]).reshape(2, -1), axis=1).T) == made.max() + 1


def test_unknown_names():
    with pytest.raises(ParameterError, match="regions must be one of 'felzenszwalb', 'slic', got 'other'"):
        over_segment(IMAGE, "other")
    for features in (("size",), (), "colour"):
        with pytest.raises(ParameterError, match="features must be a list with some of 'colour'"):
            region_graph(IMAGE, REGIONS, features=features)
    refuses(ParameterError, "weights must be one of 'likeness'", region_graph, IMAGE, REGIONS, weights="none")


def slow_covering(found, person):
    total = 0.0
    for segment in np.unique(person):
        own, others = person == segment, [found == other for other in np.unique(found)]
        total += own.sum() * max((own & other).sum() / (own | other).sum() for other in others)
    return total / person.size


def slow_rand_index(found, person):
    pairs = list(itertools.combinations(range(person.size), 2))
    a, b = found.ravel(), person.ravel()
    return sum((a[i] == a[j]) == (b[i] == b[j]) for i, j in pairs) / len(pairs)


def slow_variation(found, person):
    """H(found | person) + H(person | found) in bits."""
    total = 0.0
    for x, y in itertools.product(np.unique(found), np.unique(person)):
        both = ((found == x) & (person == y)).mean()
        if both > 0:
            total -= both * (math.log2(both / (found == x).mean()) + math.log2(both / (person == y).mean()))
    return total


seeds = st.integers(0, 2**32 - 1)
images = seeds.map(lambda seed: np.random.default_rng(seed).integers(0, 1 + seed % 5, size=(4, 5)))


@given(found=images, people=st.lists(images, max_size=2))
def test_scores_are_the_means_of_the_plain_formulas(found, people):
    people = [*people, 7 - found]  # itself under other numbers
    scores = segmentation_scores(found, people)
    assert scores.covering == pytest.approx(np.mean([slow_covering(found, p) for p in people]))
    assert scores.rand_index == pytest.approx(np.mean([slow_rand_index(found, p) for p in people]))
    assert scores.variation == pytest.approx(np.mean([slow_variation(found, p) for p in people]), abs=1e-9)


def test_what_cannot_be_scored():
    assert segmentation_scores([[5]], [[[1]]]) == SegmentationScores(1.0, 1.0, 0.0)
    for found, person in ((np.zeros((2, 2)), np.zeros((2, 3))), (np.zeros((0, 3)), np.zeros((0, 3)))):
        refuses(ParameterError, "one size", overlap_table, found, person)
    refuses(ParameterError, "at least one", segmentation_scores, np.zeros((2, 2)), [])
