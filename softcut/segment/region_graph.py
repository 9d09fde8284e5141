"""The regions of an image and their graph: a node per region, an edge per border, colour and texture as features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy import ndimage
from scipy.cluster.vq import kmeans2, vq

from softcut.errors import ParameterError, require
from softcut.graph import Graph
from softcut.segment.images import check_choice

REGION_KINDS = ("felzenszwalb", "slic")
FEATURES = ("colour", "paper", "position")
WEIGHTS = ("likeness", "colour", "adjacency")
# How fast the weight of an edge falls with the distance of its regions: of histograms, and of mean colours in Lab.
HISTOGRAM_WIDTH = 0.25
COLOUR_WIDTH = 10.0
# Regions that touch are never quite apart, or the smallest of them would be components of their own.
_LEAST_LIKENESS = 1e-6
COLOUR_BINS = 25
TEXTONS = 24
# Range of a and b that is told apart; stronger colours fall into the outer bins.
_CHROMA = (-73.0, 95.0)
_SIZES = (1.0, 2.0, 4.0)
_DIRECTIONS = 4
_SAMPLE = 8000


def colour_codes(lab: NDArray[np.floating]) -> list[NDArray[np.int64]]:
    """Bin of L, of a and of b at every pixel of a Lab image, slightly smoothed."""
    codes = []
    for channel, (low, high) in zip(range(3), ((0.0, 100.0), _CHROMA, _CHROMA), strict=True):
        smooth = ndimage.gaussian_filter(np.asarray(lab[..., channel], dtype=np.float32), 1.0)
        bins = (smooth - low) / (high - low) * COLOUR_BINS
        codes.append(np.clip(bins, 0, COLOUR_BINS - 1).astype(np.int64))
    return codes


def _responses(grey: NDArray[np.floating]) -> NDArray[np.float32]:
    """Filter responses [H, W, 27], strong ones compressed."""
    grey = np.asarray(grey, dtype=np.float32)
    layers = []
    for size in _SIZES:

        def filtered(order: tuple[int, int], size: float = size) -> NDArray[np.float32]:
            return ndimage.gaussian_filter(grey, size, order=order) * size ** sum(order)

        x, y, xx, xy, yy = map(filtered, ((0, 1), (1, 0), (0, 2), (1, 1), (2, 0)))
        for angle in np.arange(_DIRECTIONS) * np.pi / _DIRECTIONS:
            c, s = np.float32(np.cos(angle)), np.float32(np.sin(angle))
            layers.append(np.abs(c * x + s * y))
            layers.append(c * c * xx + 2 * s * c * xy + s * s * yy)
        layers.append(xx + yy)
    responses = np.stack(layers, axis=-1)
    length = np.linalg.norm(responses, axis=-1, keepdims=True)
    responses *= np.log1p(length / 3) / np.maximum(length, 1e-9)  # in place: they are the largest array here
    return responses


def textons(grey: NDArray[np.floating]) -> NDArray[np.int64]:
    """Texton of every pixel of a grey image in [0, 100]: the cluster of its responses to filters for edges and lines.

    Clusters are those of this image.
    """
    height, width = grey.shape
    responses = _responses(grey).reshape(height * width, -1)
    rng = np.random.default_rng(0)
    sample = responses
    if len(responses) > _SAMPLE:
        sample = responses[rng.choice(len(responses), _SAMPLE, replace=False)]
    count = min(TEXTONS, len(np.unique(sample, axis=0)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty")  # it keeps its centre
        centres, _ = kmeans2(sample, count, iter=20, minit="++", rng=rng, missing="warn")
    return vq(responses, centres)[0].astype(np.int64).reshape(height, width)


def histograms(regions: NDArray[np.int64], codes: NDArray[np.int64], bins: int) -> NDArray[np.float64]:
    """Share of every code in each region: [N, bins], rows sum to one."""
    count = int(regions.max()) + 1
    table = np.bincount((regions * bins + codes).ravel(), minlength=count * bins).reshape(count, bins)
    return table / table.sum(axis=1, keepdims=True)


def chi_square(table: NDArray[np.float64], pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Chi-square distance, in [0, 1], of the histograms of each pair of rows."""
    a, b = table[pairs[:, 0]], table[pairs[:, 1]]
    total = a + b
    part = np.divide((a - b) ** 2, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(part.sum(axis=1) / 2)


def over_segment(
    rgb: NDArray[np.float32],
    kind: str = "felzenszwalb",
    *,
    scale: float = 100.0,
    sigma: float = 1.0,
) -> NDArray[np.int64]:
    """Region numbers [H, W] from 0 on, none left out.

    >>> import numpy as np
    >>> rgb = np.zeros((20, 20, 3), dtype=np.float32)
    >>> rgb[:, 10:] = 1
    >>> int(over_segment(rgb, sigma=0.0).max())
    1

    Parameters
    ----------
    rgb : array [H, W, 3]
        In [0, 1].
    kind : {"felzenszwalb", "slic"}
        The graph-based method of Felzenszwalb and Huttenlocher, which the paper uses; or about 400 superpixels of
        nearly equal size by SLIC.
    scale, sigma
        Of felzenszwalb; the defaults are the paper's. A larger scale gives larger regions.
    """
    check_choice("regions", kind, REGION_KINDS)
    methods = require("skimage.segmentation", "images", "Segmenting images")
    if kind == "felzenszwalb":
        parts = methods.felzenszwalb(rgb, scale=scale, sigma=sigma, min_size=50)
    else:
        parts = methods.slic(rgb, n_segments=400, compactness=10.0, start_label=0)
    numbers = np.unique(parts, return_inverse=True)[1]
    return np.asarray(numbers, dtype=np.int64).reshape(parts.shape)


def region_borders(regions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Pairs of regions [M, 2] that touch, and the length of their border: pairs of pixels side by side."""
    count = int(regions.max()) + 1
    beside = ((regions[:, :-1], regions[:, 1:]), (regions[:-1], regions[1:]))
    a, b = (np.concatenate([pair[i][pair[0] != pair[1]] for pair in beside]) for i in (0, 1))
    codes, lengths = np.unique(np.minimum(a, b) * count + np.maximum(a, b), return_counts=True)
    return np.stack([codes // count, codes % count], axis=1), lengths.astype(np.float64)


def region_means(regions: NDArray[np.int64], image: NDArray[Any]) -> NDArray[np.float64]:
    """Mean of an image [H, W, C] over every region: [N, C]."""
    numbers = regions.ravel()
    area = np.bincount(numbers)
    columns = image.reshape(len(numbers), -1).T
    return np.stack([np.bincount(numbers, weights=column) / area for column in columns], axis=1)


@dataclass(frozen=True)
class RegionGraph:
    """Regions as a graph.

    >>> import numpy as np
    >>> from softcut.segment import over_segment, region_graph
    >>> rgb = np.zeros((20, 30, 3), dtype=np.float32)
    >>> rgb[:, 10:20] = 1
    >>> graph = region_graph(rgb, over_segment(rgb)).graph
    >>> graph.num_nodes, graph.num_edges, graph.x.shape
    (3, 2, (3, 3))
    """

    regions: NDArray[np.int64]  # [H, W], region of every pixel
    graph: Graph  # weighted by `WEIGHTS`, with features by `FEATURES`
    area: NDArray[np.int64]  # [N], pixels of every region
    rgb: NDArray[np.float64]  # [N, 3], mean colours
    lab: NDArray[np.float64]  # the same in Lab
    position: NDArray[np.float64]  # [N, 2], centres (x, y), in units of the longer side of the image

    def paint(self, labels: NDArray[np.integer]) -> NDArray[np.int64]:
        """Labels of regions [N] as labels of pixels [H, W]."""
        return np.asarray(labels, dtype=np.int64)[self.regions]


def region_graph(
    rgb: NDArray[np.float32],
    regions: NDArray[np.int64],
    *,
    features: Sequence[str] = ("colour",),
    weights: str = "likeness",
) -> RegionGraph:
    """The graph of regions of an image.

    Parameters
    ----------
    rgb : array [H, W, 3]
        In [0, 1].
    regions : array [H, W]
        Region of every pixel, from 0 on.
    features : sequence of {"colour", "paper", "position"}
        Mean colour (Lab); the paper's mean and total colour (RGB), each divided by its maximum; position of the centre.
    weights : {"likeness", "colour", "adjacency"}
        "likeness": length of the border times exp(-d / 0.25), d the chi-square distance of both regions' histograms
        of L, a, b and textons. "colour": length times exp(-(d / 10)^2), d the distance of mean colours in Lab.
        "adjacency": 1.
    """
    unknown = [name for name in features if name not in FEATURES]
    if unknown or not features or isinstance(features, str):
        raise ParameterError(
            f"features must be a list with some of {', '.join(map(repr, FEATURES))}, got {features!r}.",
            argument="features",
        )
    check_choice("weights", weights, WEIGHTS)
    colour = require("skimage.color", "images", "Segmenting images")
    lab = np.asarray(colour.rgb2lab(rgb), dtype=np.float32)
    area = np.bincount(regions.ravel())
    mean_rgb, mean_lab = region_means(regions, rgb), region_means(regions, lab)
    height, width = regions.shape
    position = region_means(regions, np.stack(np.meshgrid(range(width), range(height)), axis=2)) / max(
        height, width
    )
    pairs, lengths = region_borders(regions)
    if weights == "likeness":
        colours = (histograms(regions, codes, COLOUR_BINS) for codes in colour_codes(lab))
        texture = histograms(regions, textons(lab[..., 0]), TEXTONS)
        distance = sum(chi_square(table, pairs) for table in (*colours, texture))
        values = lengths * np.exp(-distance / HISTOGRAM_WIDTH)
    elif weights == "colour":
        distance = np.linalg.norm(mean_lab[pairs[:, 0]] - mean_lab[pairs[:, 1]], axis=1)
        values = lengths * np.exp(-((distance / COLOUR_WIDTH) ** 2))
    else:
        values = np.ones_like(lengths)
    total = np.concatenate([mean_rgb, mean_rgb * area[:, None]], axis=1)
    most = total.max(axis=0)
    columns = {"colour": mean_lab, "paper": total / np.where(most > 0, most, 1), "position": position}
    x = np.concatenate([columns[name] for name in features], axis=1)
    values = np.maximum(values, _LEAST_LIKENESS * lengths)
    half = sp.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(len(area), len(area)))
    graph = Graph.from_scipy(sp.csr_array(half + half.T), x=x.astype(np.float32))
    return RegionGraph(regions, graph, area, mean_rgb, mean_lab, position)
