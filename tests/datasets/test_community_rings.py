"""Communities in one ring or in two: what the classes share, and what tells them apart."""

import networkx as nx
import numpy as np
import pytest

from softcut.datasets import community_rings
from softcut.errors import ParameterError
from softcut.graph import folds


def test_one_ring_is_connected_and_two_are_not() -> None:
    graphs = community_rings(40, 8, (3, 6), noise=0.0, seed=3)
    for number in range(40):
        part = graphs[[number]]
        graph = nx.from_scipy_sparse_array(part.adjacency())
        own = part.dense_features().argmax(1)
        joined = nx.Graph((own[a], own[b]) for a, b in graph.edges if own[a] != own[b])
        assert all(nx.is_connected(graph.subgraph(np.flatnonzero(own == c))) for c in range(8))
        assert [d for _, d in joined.degree] == [2] * 8  # every community touches two others
        assert nx.number_connected_components(joined) == 1 + number % 2
        assert graphs.classes[graphs.y[number]] == ("one ring", "two rings")[number % 2]
        assert nx.number_of_selfloops(graph) == 0


def test_classes_have_the_same_sizes_degrees_and_features() -> None:
    graphs = community_rings(seed=1)
    assert len(graphs) == 1000
    y = np.repeat(graphs.y, graphs.sizes)
    degrees = [np.bincount(graphs.degree[y == c], minlength=12)[:12] / (y == c).sum() for c in (0, 1)]
    assert np.abs(degrees[0] - degrees[1]).max() < 0.01
    assert abs(graphs.degree.mean() - 3.87) < 0.05
    assert abs(np.subtract(*(graphs.sizes[graphs.y == c].mean() for c in (0, 1)))) < 1
    told = graphs.dense_features().argmax(1)
    assert np.abs(np.bincount(told[y == 0]) / (y == 0).sum() - 1 / 6).max() < 0.01


def test_test_graphs_may_have_other_sizes_and_seeds_decide() -> None:
    near, far = community_rings(60), community_rings(60, test_sizes=(30, 30))
    split = folds(far, 3)[0]
    assert [len(part) for part in split] == [42, 6, 12]
    assert set(far.sizes[split.test]) == {180}
    assert near.sizes.max() <= 96 and near.sizes.min() >= 48
    first = near.ptr[42]
    np.testing.assert_array_equal(near.value[:first], far.value[:first])  # the same graphs to train
    assert np.bincount(near.y[split.train]).tolist() == [21, 21]
    again, other = community_rings(60), community_rings(60, seed=1)
    np.testing.assert_array_equal(near.col, again.col)
    assert not np.array_equal(near.sizes, other.sizes)


def test_what_lies_on_a_limit_is_allowed() -> None:
    assert len(community_rings(20, 6, (3, 3), links=1, average_degree=2, noise=1)) == 20


@pytest.mark.parametrize(
    ("argument", "given"),
    [
        ("n_graphs", 19),
        ("n_communities", 7),
        ("n_communities", 4),
        ("sizes", (2, 5)),
        ("test_sizes", (9, 5)),
        ("links", 0),
        ("average_degree", 1.0),
        ("noise", 1.5),
    ],
)
def test_what_cannot_be_is_refused(argument: str, given: object) -> None:
    with pytest.raises(ParameterError, match=f"{argument} must") as refused:
        community_rings(**{argument: given})  # type: ignore[arg-type]
    assert refused.value.argument == argument
