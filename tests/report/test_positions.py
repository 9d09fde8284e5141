"""Where nodes stand in a picture."""

from __future__ import annotations

import numpy as np
import pytest

from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.report.plots import node_positions


@pytest.mark.parametrize("nodes", [250, 1000])
@pytest.mark.parametrize("features", [True, False])
def test_neighbours_stand_near_each_other(nodes, features):
    graph = attributed_communities(nodes, 3, edge_signal=0.95, seed=0)
    graph = graph if features else graph.with_features(None)
    positions, _ = node_positions(graph)
    assert positions.shape == (nodes, 2)
    first, second = graph.edge_index()[0]
    near = np.linalg.norm(positions[first] - positions[second], axis=1).mean()
    anywhere = np.linalg.norm(
        positions - positions[np.random.default_rng(0).permutation(nodes)], axis=1
    ).mean()
    assert near < 0.75 * anywhere


def test_two_features_are_coordinates():
    graph = grid_graph(3, 4)
    positions, what = node_positions(graph)
    np.testing.assert_allclose(positions, graph.x)
    assert what == "coordinates"


def test_the_same_seed_gives_the_same_places():
    for nodes in (100, 500):
        graph = attributed_communities(nodes, 3, seed=0)
        np.testing.assert_array_equal(node_positions(graph)[0], node_positions(graph)[0])


def test_parts_that_are_not_connected_do_not_overlap():
    edges = np.array([(a + b, a + (b + 1) % 5) for a in (0, 5, 10) for b in range(5)]).T
    graph = Graph.from_edges(edges, num_nodes=17)  # three rings and two isolated nodes
    positions, _ = node_positions(graph)
    assert np.isfinite(positions).all()
    rings = [positions[a : a + 5] for a in (0, 5, 10)]
    for i, one in enumerate(rings):
        size = np.linalg.norm(one - one.mean(0), axis=1).max()
        for other in rings[i + 1 :]:
            assert np.linalg.norm(one.mean(0) - other.mean(0)) > size


@pytest.mark.parametrize("columns", [1, 3])
def test_few_features_give_two_coordinates(columns):
    graph = grid_graph(20, 20)
    graph = graph.with_features(np.random.default_rng(0).random((400, columns)))
    positions, _ = node_positions(graph)
    assert positions.shape == (400, 2)
    assert np.isfinite(positions).all()
