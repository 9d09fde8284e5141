"""Levels that nest."""

import itertools

import numpy as np
import pytest

from softcut.clustering.nesting import nested


def some_levels(seed, nodes=300, numbers=(2, 5, 11, 24)):
    rng = np.random.default_rng(seed)
    soft = [rng.dirichlet(np.full(k, 0.3), nodes) for k in numbers]
    labels = [each.argmax(1) for each in soft]
    for each in labels:
        each[:7] = -1
    return labels, soft


@pytest.mark.parametrize("chosen", range(4))
def test_every_cluster_lies_inside_one_of_the_next_coarser_level(chosen):
    labels, soft = some_levels(chosen)
    found = nested(labels, soft, chosen)
    for coarse, fine in itertools.pairwise(found):
        pairs = np.unique(np.stack([fine, coarse])[:, 7:], axis=1)
        assert len(pairs[0]) == len(np.unique(pairs[0]))
    for each in found:
        assert (each[:7] == -1).all() and each[7:].min() == 0
        sizes = np.bincount(each[7:])
        assert (sizes > 0).all() and list(sizes) == sorted(sizes, reverse=True)
    both = np.unique(np.stack([labels[chosen], found[chosen]]), axis=1)
    assert both.shape[1] == len(np.unique(labels[chosen])), "the chosen level is as it was"


def test_levels_that_nest_stay_as_they_are():
    fine = np.repeat([0, 1, 2, 3, 4], [9, 7, 5, 3, 2])
    middle, coarse = np.array([0, 1, 1, 2, 2])[fine], np.array([0, 0, 0, 1, 1])[fine]
    soft = [np.eye(k)[each] for k, each in ((2, coarse), (3, middle), (5, fine))]
    for chosen in range(3):
        found = nested([coarse, middle, fine], soft, chosen)
        assert [len(np.unique(each)) for each in found] == [2, 3, 5]
        np.testing.assert_array_equal(found[0], coarse)
        np.testing.assert_array_equal(found[2], fine)


def test_a_node_takes_the_likeliest_of_the_finer_clusters_of_its_own():
    coarse, fine = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 2, 2, 2])
    soft = np.array([[0.6, 0.3, 0.1]] * 2 + [[0.2, 0.7, 0.1], [0.1, 0.3, 0.6], [0, 0, 1], [0, 0, 1]])
    found = nested([coarse, fine], [np.eye(2)[coarse], soft], 0)
    assert found[1].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_cluster_without_finer_ones_is_whole():
    coarse, fine = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 0, 1])
    found = nested([coarse, fine], [np.eye(2)[coarse], np.eye(2)[fine]], 0)
    assert found[1].tolist() == [0, 0, 1, 1, 2, 2]
