"""Weights of edges as communities count them."""

from __future__ import annotations

import numpy as np


def heavy_tailed(weight: np.ndarray) -> bool:
    """Whether a few weights hold most of the sum: their standard deviation is larger than their mean.

    >>> heavy_tailed(np.array([1.0, 2.0, 3.0])), heavy_tailed(np.array([1.0, 1.0, 1.0, 50.0]))
    (False, True)
    """
    return bool(len(weight)) and float(weight.std()) > float(weight.mean())
