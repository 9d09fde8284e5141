"""Covering, Rand index and variation of information against plain loops over segments and pixels."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from softcut.errors import ParameterError
from softcut.segment import segmentation_scores
from softcut.segment.scores import overlap_table


def slow_covering(found, person):
    total = 0.0
    for segment in np.unique(person):
        own = person == segment
        best = max(
            (own & (found == other)).sum() / (own | (found == other)).sum() for other in np.unique(found)
        )
        total += own.sum() * best
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


images = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).integers(0, 1 + seed % 5, size=(4, 5))
)


@given(found=images, people=st.lists(images, max_size=2))
def test_scores_are_the_means_of_the_plain_formulas(found, people):
    people = [*people, 7 - found]  # itself under other numbers
    scores = segmentation_scores(found, people)
    assert scores.covering == pytest.approx(np.mean([slow_covering(found, p) for p in people]))
    assert scores.rand_index == pytest.approx(np.mean([slow_rand_index(found, p) for p in people]))
    assert scores.variation == pytest.approx(np.mean([slow_variation(found, p) for p in people]), abs=1e-9)


def test_covering_is_of_the_persons_segments_not_of_those_found():
    person, found = np.zeros((1, 4), dtype=int), np.array([[0, 0, 0, 1]])
    assert segmentation_scores(found, [person]).covering == 0.75
    assert segmentation_scores(person, [found]).covering == pytest.approx(0.75 * 0.75 + 0.25 * 0.25)


def test_what_cannot_be_scored():
    with pytest.raises(ParameterError, match="one size"):
        overlap_table(np.zeros((2, 2)), np.zeros((2, 3)))
    with pytest.raises(ParameterError, match="at least one"):
        segmentation_scores(np.zeros((2, 2)), [])
