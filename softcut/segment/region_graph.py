"""The region graph of an image: a node per region, an edge per border, colour and texture as features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import ParameterError, require
from softcut.graph import Graph
from softcut.segment.regions import region_borders, region_means
from softcut.segment.texture import COLOUR_BINS, TEXTONS, chi_square, colour_codes, histograms, textons

__all__ = ["FEATURES", "WEIGHTS", "RegionGraph", "region_graph"]

FEATURES = ("colour", "paper", "texture", "position")
WEIGHTS = ("likeness", "colour", "borders", "adjacency")
# How fast the weight of an edge falls with the distance of its regions: of histograms, and of mean colours in Lab.
HISTOGRAM_WIDTH = 0.25
COLOUR_WIDTH = 10.0
# Regions that touch are never quite apart, or the smallest of them would be components of their own.
_LEAST_LIKENESS = 1e-6


@dataclass(frozen=True)
class RegionGraph:
    """Regions as a graph.

    >>> import numpy as np
    >>> from softcut.segment import over_segment
    >>> rgb = np.zeros((20, 30, 3), dtype=np.float32)
    >>> rgb[:, 10:20] = 1
    >>> found = region_graph(rgb, over_segment(rgb))
    >>> found.graph.num_nodes, found.graph.num_edges, found.graph.x.shape
    (3, 2, (3, 3))

    Attributes
    ----------
    regions : array [H, W]
        Region of every pixel.
    graph : Graph
        Weighted by `WEIGHTS`, with features by `FEATURES`.
    area : array [N]
        Pixels of every region.
    rgb, lab : array [N, 3]
        Mean colours.
    position : array [N, 2]
        Centres (x, y), in units of the longer side of the image.
    """

    regions: NDArray[np.int64]
    graph: Graph
    area: NDArray[np.int64]
    rgb: NDArray[np.float64]
    lab: NDArray[np.float64]
    position: NDArray[np.float64]

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
    features : sequence of {"colour", "paper", "texture", "position"}
        Mean colour (Lab); the paper's mean and total colour (RGB), each divided by its maximum; shares of textons;
        position of the centre.
    weights : {"likeness", "colour", "borders", "adjacency"}
        "likeness": length of the border times exp(-d / 0.25), d the chi-square distance of both regions' histograms
        of L, a, b and textons. "colour": length times exp(-(d / 10)^2), d the distance of mean colours in Lab.
        "borders": the length alone. "adjacency": 1.
    """
    unknown = [name for name in features if name not in FEATURES]
    if unknown or not features or isinstance(features, str):
        raise ParameterError(
            f"features must be a list with some of {', '.join(map(repr, FEATURES))}, got {features!r}."
        )
    if weights not in WEIGHTS:
        raise ParameterError(f"weights must be one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}.")
    colour = require("skimage.color", "images", "Segmenting images")
    lab = np.asarray(colour.rgb2lab(rgb), dtype=np.float32)
    area = np.bincount(regions.ravel())
    mean_rgb, mean_lab = region_means(regions, rgb), region_means(regions, lab)
    position = _centres(regions, area)
    texture = np.zeros((len(area), 0))
    if weights == "likeness" or "texture" in features:
        texture = histograms(regions, textons(lab[..., 0]), TEXTONS)
    pairs, lengths = region_borders(regions)
    if weights == "likeness":
        colours = (histograms(regions, codes, COLOUR_BINS) for codes in colour_codes(lab))
        distance = sum(chi_square(table, pairs) for table in (*colours, texture))
        values = lengths * np.exp(-distance / HISTOGRAM_WIDTH)
    elif weights == "colour":
        distance = np.linalg.norm(mean_lab[pairs[:, 0]] - mean_lab[pairs[:, 1]], axis=1)
        values = lengths * np.exp(-((distance / COLOUR_WIDTH) ** 2))
    else:
        values = lengths if weights == "borders" else np.ones_like(lengths)
    columns = {
        "colour": mean_lab,
        "paper": _paper_features(mean_rgb, area),
        "texture": texture,
        "position": position,
    }
    x = np.concatenate([columns[name] for name in features], axis=1)
    graph = Graph.from_scipy(
        _symmetric(pairs, np.maximum(values, _LEAST_LIKENESS * lengths), len(area)), x=x.astype(np.float32)
    )
    return RegionGraph(regions, graph, area, mean_rgb, mean_lab, position)


def _centres(regions: NDArray[np.int64], area: NDArray[np.int64]) -> NDArray[np.float64]:
    height, width = regions.shape
    numbers = regions.ravel()
    x = np.bincount(numbers, weights=np.tile(np.arange(width), height)) / area
    y = np.bincount(numbers, weights=np.repeat(np.arange(height), width)) / area
    return np.stack([x, y], axis=1) / max(height, width)


def _paper_features(rgb: NDArray[np.float64], area: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean and total colour, each column divided by its maximum."""
    both = np.concatenate([rgb, rgb * area[:, None]], axis=1)
    most = both.max(axis=0)
    return np.asarray(both / np.where(most > 0, most, 1))


def _symmetric(pairs: NDArray[np.int64], values: NDArray[np.float64], count: int) -> sp.csr_array:
    half = sp.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return sp.csr_array(half + half.T)
