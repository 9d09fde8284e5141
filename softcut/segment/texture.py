"""Colour and texture of regions as histograms: bins of L, a and b, and textons.

A texton is a cluster of filter responses (edges and lines of four directions at three sizes): a pixel's texton says
what the grey values around it look like.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.cluster.vq import kmeans2, vq

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
    return np.asarray(responses * (np.log1p(length / 3) / np.maximum(length, 1e-9)), dtype=np.float32)


def textons(grey: NDArray[np.floating]) -> NDArray[np.int64]:
    """Texton of every pixel of a grey image in [0, 100]; textons are those of this image."""
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
