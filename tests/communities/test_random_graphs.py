"""Random graphs keep what they should: degrees, loops, weights and kinds of ends; and nothing else."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.communities.moves import modularity, optimise
from softcut.communities.network import Network
from softcut.communities.random_graphs import rewired


def network_of(graph, weight=None):
    return Network(sp.csr_array(nx.to_scipy_sparse_array(graph, weight=weight, dtype=float)))


def matrix_of(network):
    return sp.csr_array((network.weight, network.indices, network.indptr), shape=(network.nodes,) * 2)


def pairs(network):
    """Ends of the edges, the smaller number first, and their weights."""
    upper = sp.triu(matrix_of(network), format="coo")
    return upper.row, upper.col, upper.data


def check(network, other):
    before, after = matrix_of(network), matrix_of(other)
    assert np.array_equal(np.diff(before.indptr), np.diff(after.indptr))
    assert np.array_equal(after.toarray(), after.T.toarray())
    assert not after.diagonal().any()
    for row in range(other.nodes):
        columns = other.indices[other.indptr[row] : other.indptr[row + 1]]
        assert (np.diff(columns) > 0).all()  # sorted, no edge twice
    assert np.array_equal(np.sort(network.weight), np.sort(other.weight))
    assert np.array_equal(other.own, network.own) and np.array_equal(other.size, network.size)
    assert np.array_equal(other.degree, after.sum(axis=1) + other.own)
    assert other.unit == network.unit


@st.composite
def networks(draw):
    n = draw(st.integers(1, 12))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = draw(st.dictionaries(pair, st.integers(1, 4), max_size=30))
    matrix = np.zeros((n, n))
    for (i, j), weight in edges.items():
        matrix[i, j] = matrix[j, i] = weight
    kinds = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    return Network(sp.csr_array(matrix)), kinds


@settings(deadline=None, max_examples=60)
@given(networks(), st.integers(0, 5))
def test_degrees_weights_loops_and_kinds_are_kept(made, seed):
    network, kinds = made
    check(network, rewired(network, seed))
    other = rewired(network, seed, kinds)
    check(network, other)

    def by_kinds(each):
        first, second, weight = pairs(each)
        ends = np.sort(np.column_stack([kinds[first], kinds[second]]), axis=1)
        return sorted(map(tuple, np.column_stack([ends, weight]).tolist()))

    assert by_kinds(network) == by_kinds(other)  # weights stay between the same kinds, too


@pytest.mark.parametrize(
    "graph", [nx.star_graph(9), nx.complete_graph(8), nx.empty_graph(4), nx.path_graph(2)]
)
def test_a_graph_that_cannot_change_does_not(graph):
    network = network_of(graph)
    assert np.array_equal(matrix_of(rewired(network, 3)).toarray(), matrix_of(network).toarray())


@pytest.mark.parametrize("graph", [nx.cycle_graph(40), nx.balanced_tree(2, 5), nx.karate_club_graph()])
def test_edges_are_exchanged(graph):
    network = network_of(graph)
    other = rewired(network, 0)
    check(network, other)
    kept = matrix_of(network).multiply(matrix_of(other)).sum() / len(network.indices)
    assert kept < 0.5
    assert not np.array_equal(other.indices, rewired(network, 1).indices)  # another seed, another graph
    assert np.array_equal(other.indices, rewired(network, 0).indices)


def test_every_graph_of_the_degrees_is_as_likely():
    """The matchings of six nodes in pairs: 15 of them."""
    network = network_of(nx.Graph([(0, 1), (2, 3), (4, 5)]))
    times = {}
    for seed in range(1500):
        key = tuple(rewired(network, seed).indices)
        times[key] = times.get(key, 0) + 1
    assert len(times) == 15
    assert sum((count - 100) ** 2 / 100 for count in times.values()) < 36  # chi square, 14 degrees: p > .001


def test_users_stay_with_movies():
    rng = np.random.default_rng(0)
    block = sp.csr_array(rng.random((30, 50)) < 0.1, dtype=float)
    network = Network(sp.csr_array(sp.block_array([[None, block], [block.T, None]])))
    other = rewired(network, 0, np.repeat([7, 2], [30, 50]))
    check(network, other)
    first, second, _ = pairs(other)
    assert (first < 30).all() and (second >= 30).all()
    assert not np.array_equal(other.indices, network.indices)


def test_communities_are_gone_and_more_exchanges_change_nothing(monkeypatch):
    network = network_of(nx.planted_partition_graph(2, 60, 0.2, 0.02, seed=0))

    def best(each):
        rank = each.rank(0)
        labels, _ = optimise(*each.level, rank, rank.copy(), 1.0, each.nodes, 2)
        return modularity(each.indptr, each.indices, each.weight, each.own, each.degree, labels, 1.0)

    few = [best(rewired(network, seed)) for seed in range(20)]
    monkeypatch.setattr("softcut.communities.random_graphs._PASSES", 30)
    many = [best(rewired(network, seed)) for seed in range(20)]
    assert best(network) > max(few) + 0.05
    assert abs(np.mean(few) - np.mean(many)) < 0.01


def test_numbers_of_nodes_do_not_matter():
    rng = np.random.default_rng(0)
    matrix = np.triu(rng.integers(1, 20, (30, 30)) * (rng.random((30, 30)) < 0.2), 1).astype(float)
    matrix += matrix.T
    order = rng.permutation(30)
    kinds = rng.integers(0, 2, 30)
    for each in (None, kinds):
        straight = rewired(Network(sp.csr_array(matrix)), 5, each)
        turned = rewired(
            Network(sp.csr_array(matrix[np.ix_(order, order)])), 5, None if each is None else each[order]
        )
        expected = matrix_of(straight).toarray()[np.ix_(order, order)]
        assert np.array_equal(matrix_of(turned).toarray(), expected)


def test_what_was_found_for_the_graph_is_not_taken_for_the_random_one():
    network = network_of(nx.karate_club_graph(), "weight")
    before = network.colours
    other = rewired(network, 0)
    check(network, other)
    assert not np.array_equal(other.colours, before)
    assert network.colours is before
