"""Over-segmentation: many small regions of one colour, and where they touch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from softcut.errors import ParameterError, require

__all__ = ["REGION_KINDS", "over_segment", "region_borders", "region_means"]

REGION_KINDS = ("felzenszwalb", "slic")


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
    if kind not in REGION_KINDS:
        raise ParameterError(
            f"regions must be one of {', '.join(map(repr, REGION_KINDS))}, got {kind!r}.", argument="regions"
        )
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
    """Mean of an image [H, W] or [H, W, C] over every region: [N] or [N, C]."""
    numbers = regions.ravel()
    area = np.bincount(numbers)
    columns = image.reshape(len(numbers), -1).T
    means = np.stack([np.bincount(numbers, weights=column) / area for column in columns], axis=1)
    return means if image.ndim == 3 else means[:, 0]
