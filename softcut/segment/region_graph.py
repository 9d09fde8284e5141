"""The regions of an image and their graph: a node per region, an edge per border, colour and texture as features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import ParameterError, require
from softcut.graph import Graph
from softcut.segment.images import check_choice
from softcut.segment.texture import COLOUR_BINS, TEXTONS, chi_square, colour_codes, histograms, textons

REGION_KINDS = ("felzenszwalb", "slic")
FEATURES = ("colour", "paper", "texture", "position")
WEIGHTS = ("likeness", "colour", "borders", "adjacency")
# How fast the weight of an edge falls with the distance of its regions: of histograms, and of mean colours in Lab.
HISTOGRAM_WIDTH = 0.25
COLOUR_WIDTH = 10.0
# Regions that touch are never quite apart, or the smallest of them would be components of their own.
_LEAST_LIKENESS = 1e-6


def over_segment(
    rgb: NDArray[np.float32],
    kind: str = "felzenszwalb",
    *,
    scale: float = 100.0,
    sigma: float = 1.0,
    min_size: int = 50,
    n_segments: int = 400,
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
        The graph-based method of Felzenszwalb and Huttenlocher, which the paper uses; or SLIC superpixels, of nearly
        equal size.
    scale, sigma, min_size
        Of felzenszwalb; the defaults are the paper's. A larger scale gives larger regions.
    n_segments : int
        About how many superpixels SLIC makes.
    """
    check_choice("regions", kind, REGION_KINDS)
    methods = require("skimage.segmentation", "images", "Segmenting images")
    if kind == "felzenszwalb":
        parts = methods.felzenszwalb(rgb, scale=scale, sigma=sigma, min_size=min_size)
    else:
        parts = methods.slic(rgb, n_segments=n_segments, compactness=10.0, start_label=0)
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
    check_choice("weights", weights, WEIGHTS)
    colour = require("skimage.color", "images", "Segmenting images")
    lab = np.asarray(colour.rgb2lab(rgb), dtype=np.float32)
    area = np.bincount(regions.ravel())
    mean_rgb, mean_lab = region_means(regions, rgb), region_means(regions, lab)
    height, width = regions.shape
    position = region_means(regions, np.stack(np.meshgrid(range(width), range(height)), axis=2)) / max(
        height, width
    )
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
    total = np.concatenate([mean_rgb, mean_rgb * area[:, None]], axis=1)
    most = total.max(axis=0)
    columns = {
        "colour": mean_lab,
        "paper": total / np.where(most > 0, most, 1),
        "texture": texture,
        "position": position,
    }
    x = np.concatenate([columns[name] for name in features], axis=1)
    values = np.maximum(values, _LEAST_LIKENESS * lengths)
    half = sp.coo_array((values, (pairs[:, 0], pairs[:, 1])), shape=(len(area), len(area)))
    graph = Graph.from_scipy(sp.csr_array(half + half.T), x=x.astype(np.float32))
    return RegionGraph(regions, graph, area, mean_rgb, mean_lab, position)
