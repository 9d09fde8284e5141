"""How a segmentation agrees with those that people drew: covering, Rand index, variation of information.

All three follow the benchmark of Arbelaez, Maire, Fowlkes and Malik (TPAMI 2011); each is the mean over the people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array

from softcut.errors import ParameterError


@dataclass(frozen=True)
class SegmentationScores:
    """Scores of one segmentation.

    `covering`: every segment of a person by the intersection over union of the segment found that fits it best,
    weighted by size, in [0, 1]; 1 is best. `rand_index`: share of the pairs of pixels on which both agree that they
    belong together, or that they do not; 1 is best. `variation` of information in bits, H(found | person) +
    H(person | found); 0 is best.
    """

    covering: float
    rand_index: float
    variation: float


def overlap_table(segments: ArrayLike, person: ArrayLike) -> NDArray[np.int64]:
    """Pixels that each segment found shares with each segment of a person."""
    a, b = np.asarray(segments), np.asarray(person)
    if a.shape != b.shape or a.size == 0:
        raise ParameterError(
            f"segments and person must be images of one size, got {a.shape} and {b.shape}.",
            argument="segments",
        )
    rows, columns = (np.unique(each, return_inverse=True)[1].ravel() for each in (a, b))
    return np.asarray(coo_array((np.ones(a.size, dtype=np.int64), (rows, columns))).toarray())


def table_scores(table: ArrayLike) -> SegmentationScores:
    """Scores from the pixels that segments share (rows: found, columns: a person's)."""
    shared = np.asarray(table, dtype=np.float64)
    total, own, person = shared.sum(), shared.sum(axis=1), shared.sum(axis=0)
    union = own[:, None] + person[None, :] - shared
    overlap = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    covering = float((person * overlap.max(axis=0)).sum() / total)
    apart = (np.square(own).sum() + np.square(person).sum()) / 2 - np.square(shared).sum()
    pairs = total * (total - 1) / 2
    rand_index = 1.0 - float(apart / pairs) if pairs else 1.0
    variation = 2 * _bits(shared / total) - _bits(own / total) - _bits(person / total)
    return SegmentationScores(covering, rand_index, max(0.0, variation))


def _bits(shares: NDArray[np.float64]) -> float:
    used = shares[shares > 0]
    return float(-(used * np.log2(used)).sum())


def segmentation_scores(segments: ArrayLike, people: Sequence[ArrayLike]) -> SegmentationScores:
    """Scores of a segmentation [H, W], the mean over the segmentations that several people drew.

    >>> import numpy as np
    >>> left = np.repeat([[0, 1]], 2, axis=0)
    >>> segmentation_scores(left, [left, np.zeros((2, 2))])
    SegmentationScores(covering=0.75, rand_index=0.6666666666666667, variation=0.5)
    """
    if not len(people):
        raise ParameterError("people must hold at least one segmentation.", argument="people")
    each = [table_scores(overlap_table(segments, person)) for person in people]
    return SegmentationScores(*np.mean([astuple(scores) for scores in each], axis=0).tolist())
