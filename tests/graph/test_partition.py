"""Dividing the nodes of a graph into parts."""

import importlib.util
import sys

import numpy as np
import pytest

from softcut import Graph
from softcut.datasets import attributed_communities
from softcut.errors import DependencyError, ParameterError
from softcut.graph.partition import _without_empty, crossing_share, partition_nodes

METIS = pytest.mark.skipif(importlib.util.find_spec("pymetis") is None, reason="needs pymetis")
RING = Graph.from_edges([np.arange(60), (np.arange(60) + 1) % 60])


@pytest.mark.parametrize("method", ["contiguous", "random", pytest.param("metis", marks=METIS)])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_parts_have_about_one_size(method, parts):
    owner, used = partition_nodes(RING.adjacency, parts, method)
    sizes = np.bincount(owner, minlength=parts)
    assert len(sizes) == parts
    assert sizes.max() - sizes.min() <= (6 if method == "metis" else 1)
    assert used == (method if parts > 1 else "contiguous")


def test_ranges_keep_neighbours_of_near_numbers_together_and_random_parts_do_not():
    ranges, _ = partition_nodes(RING.adjacency, 3, "contiguous")
    assert crossing_share(RING.adjacency, ranges) == pytest.approx(3 / 60)
    assert partition_nodes(RING.adjacency, 60, "contiguous")[0].tolist() == list(range(60))
    assert crossing_share(Graph.from_edges([], num_nodes=2).adjacency, np.array([0, 1])) == 0
    assert crossing_share(RING.adjacency, partition_nodes(RING.adjacency, 3, "random")[0]) > 0.4


@METIS
def test_metis_cuts_fewer_edges_than_chance():
    graph = attributed_communities(200, 4, seed=0)
    owners = (partition_nodes(graph.adjacency, 4, method)[0] for method in ("metis", "random"))
    shares = [crossing_share(graph.adjacency, owner) for owner in owners]
    assert shares[0] < 0.6 * shares[1]


@METIS
def test_self_loops_and_isolated_nodes_are_divided_too():
    graph = Graph.from_edges([[0, 1, 2, 2], [1, 2, 2, 3]], num_nodes=7, self_loops="keep")
    owner, _ = partition_nodes(graph.adjacency, 5, "metis")
    assert sorted(set(owner.tolist())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("owner", "filled"),
    [([0, 0, 1, 1], [2, 0, 3, 1]), ([3, 3, 3, 3], [0, 1, 2, 3]), ([0, 1, 2, 3], [0, 1, 2, 3])],
)
def test_an_empty_part_takes_a_node_of_the_largest(owner, filled):
    assert _without_empty(np.array(owner), 4).tolist() == filled


def test_seeds_repeat_and_differ():
    first, again, other = (partition_nodes(RING.adjacency, 4, "random", seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    dealt = np.random.default_rng(0).permutation(np.repeat(np.arange(4), 15))
    assert np.array_equal(partition_nodes(RING.adjacency, 4, "random")[0], dealt)
    assert not np.array_equal(first, other)


def test_without_metis_there_are_ranges_unless_it_is_insisted_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert partition_nodes(RING.adjacency, 3)[1] == "contiguous"
    with pytest.raises(DependencyError, match=r"pip install 'softcut\[parts\]'"):
        partition_nodes(RING.adjacency, 3, "metis")


@pytest.mark.parametrize("parts", [0, 61, 2.5, True])
def test_numbers_of_parts_that_cannot_be(parts):
    with pytest.raises(
        ParameterError, match="parts must be a whole number from 1 to the number of nodes, 60"
    ):
        partition_nodes(RING.adjacency, parts)


def test_unknown_methods():
    with pytest.raises(ParameterError, match="method must be one of auto, metis"):
        partition_nodes(RING.adjacency, 2, "kl")
