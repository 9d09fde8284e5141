"""A given number of clusters from the edges: against plain formulas, brute force and scipy's components."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.communities import evidence_merges as merges
from softcut.communities import evidence_moves as moves
from softcut.communities import fixed_number
from softcut.communities.fixed_number import FixedNumber
from softcut.communities.network import Network
from softcut.errors import ParameterError
from softcut.ops.information import mutual_information


def both_ways(upper):
    both = sp.csr_array(upper + upper.T)
    both.sort_indices()
    return both


def matrix(rows, cols, n):
    return both_ways(sp.coo_array((np.ones(len(rows)), (rows, cols)), shape=(n, n)).tocsr())


def planted(blocks, size, inside, between, seed=0):
    """A graph of blocks, and its labels."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(blocks), size)
    chance = np.where(labels[:, None] == labels, inside, between)
    upper = np.triu(random.random(chance.shape) < chance, 1)
    return matrix(*np.nonzero(upper), n=len(labels)), labels


def random_graph(n, edges, seed, weighted=False, loops=False):
    random = np.random.default_rng(seed)
    upper = sp.random_array((n, n), density=min(1, 2 * edges / n**2), rng=random)
    upper = sp.csr_array(sp.triu(upper, 0 if loops else 1))
    upper.data = random.integers(1, 9, upper.nnz).astype(float) if weighted else np.ones(upper.nnz)
    return both_ways(upper)


def table_of(adjacency, labels, k):
    indicator = np.eye(k)[labels]
    return indicator.T @ (adjacency @ indicator)


def told(table):
    return float(mutual_information(torch.from_numpy(np.asarray(table, dtype=np.float64))))


def pieces(adjacency, labels):
    """Connected pieces of all clusters together."""
    entries = adjacency.tocoo()
    kept = labels[entries.row] == labels[entries.col]
    inside = sp.coo_array((entries.data[kept], (entries.row[kept], entries.col[kept])), adjacency.shape)
    return sp.csgraph.connected_components(inside, directed=False)[0]


@pytest.mark.parametrize("weighted", [False, True])
def test_tables_and_information_are_those_of_the_plain_formula(weighted):
    adjacency = random_graph(40, 150, 1, weighted, loops=True)
    labels = np.random.default_rng(0).integers(0, 5, 40).astype(np.int32)
    table = moves.pair_table(Network(adjacency).level, labels, 5)
    plain = table_of(adjacency, labels, 5)
    np.testing.assert_allclose(table / table.sum(), plain / plain.sum(), rtol=1e-12)
    assert moves.information(table) == pytest.approx(told(plain), rel=1e-10)


def test_the_exact_rise_of_a_move_is_the_difference_of_the_plain_formula():
    adjacency = random_graph(30, 90, 2, weighted=True, loops=True)
    labels = np.random.default_rng(1).integers(0, 4, 30).astype(np.int32)
    whole = adjacency.sum()
    own = adjacency.diagonal()
    table = np.asarray(table_of(adjacency, labels, 4))
    for i, b in itertools.product(range(30), range(4)):
        if b == labels[i]:
            continue
        row = adjacency[[i]].toarray()[0]
        row[i] = 0
        near = np.bincount(labels, row, minlength=4)
        touched = np.flatnonzero(near).astype(np.int32)
        changed = labels.copy()
        changed[i] = b
        place = own[i], row.sum() + own[i], int(labels[i]), b
        rise = moves.exact_rise(table, table.sum(1), near, touched, *place)
        expected = told(table_of(adjacency, changed, 4)) - told(table)
        assert rise / whole == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_moves_never_lower_the_evidence(every, seed):
    adjacency = random_graph(80, 240, seed, weighted=seed == 2)
    start = np.random.default_rng(seed).integers(0, 6, 80).astype(np.int32)
    values = [told(table_of(adjacency, start, 6))]
    for _ in range(3):
        moves.move_by_evidence(Network(adjacency).level, start, 6, every, False, 1, 80, 1)
        values.append(told(table_of(adjacency, start, 6)))
    assert values == sorted(values)
    assert values[0] < values[-1]


def brute_steps(table, nodes, adjacent, largest):
    """Unions one after another, each found by trying all of them."""
    groups, steps = {a: [a] for a in range(len(table))}, []

    def worth(pair):
        a, b = pair
        union = groups[a] + groups[b]
        member = [np.isin(range(len(table)), each) for c, each in groups.items() if c not in pair]
        member = np.array([*member, np.isin(range(len(table)), union)], dtype=float)
        size, apart = nodes[union].sum(), adjacent and not table[np.ix_(groups[a], groups[b])].any()
        return -size if size > largest else 0, not apart, round(told(member @ table @ member.T), 12)

    while len(groups) > 1:
        a, b = max(itertools.combinations(sorted(groups), 2), key=worth)
        groups[a] += groups.pop(b)
        steps.append((a, b))
    return np.array(steps)


@pytest.mark.parametrize(("adjacent", "largest"), [(False, 99), (True, 99), (False, 5)])
@pytest.mark.parametrize("seed", range(3))
def test_merges_are_those_of_brute_force(seed, adjacent, largest):
    random = np.random.default_rng(seed)
    table = random.random((9, 9)) * (random.random((9, 9)) < 0.5)
    table = table + table.T + np.diag(random.random(9))
    nodes = random.integers(1, 4, 9)
    found = merges.merge_steps(table, nodes, adjacent, largest)
    assert found.tolist() == brute_steps(table, nodes, adjacent, largest).tolist()


def test_planted_communities_are_found_and_the_best_clustering_comes_first():
    adjacency, labels = planted(5, 40, 0.4, 0.02)
    model = FixedNumber(Network(adjacency), [4, 5])
    found = model.settled(5)
    assert len(np.unique(found[:, 0] * 5 + labels)) == 5
    assert model.outcome(5) == (0, True, True)
    assert len(np.unique(model.begun(4)[:, 0])) == 4
    values = [round(told(table_of(adjacency, each, 5)), 12) for each in found.T]
    assert values == sorted(values, reverse=True)
    assert FixedNumber(Network(adjacency), [4], quick=True).settled(4).shape == (200, 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(4, 40), st.floats(0.5, 4), st.integers(0, 10**6), st.booleans(), st.data())
def test_clusters_are_connected_and_as_many_as_asked_for(n, ratio, seed, weighted, data):
    adjacency = random_graph(n, int(ratio * n), seed, weighted, loops=True)
    linked = np.flatnonzero(np.asarray(adjacency.sum(axis=1)).ravel())
    if not len(linked):
        return
    inner = sp.csr_array(adjacency[linked][:, linked])
    components, component = sp.csgraph.connected_components(inner, directed=False)
    k = data.draw(st.integers(1, len(linked)))
    model = FixedNumber(Network(adjacency), [k], seed % 7)
    labels = model.settled(k)[linked, 0]
    outcome = model.outcome(k)
    assert outcome.connected
    assert pieces(inner, labels) == len(np.unique(labels)) + outcome.shared_components
    assert len(np.unique(labels)) == k
    small = np.bincount(component) < 0.25 * len(linked) / k
    if not small.any() and k >= components:
        assert outcome.shared_components == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(12, 50), st.integers(0, 10**6), st.integers(2, 5))
def test_sizes_are_kept(n, seed, k):
    adjacency = random_graph(n, 3 * n, seed)
    mean = n / k
    smallest, largest = max(1, int(0.7 * mean)), int(np.ceil(1.2 * mean))
    model = FixedNumber(Network(adjacency), [k], smallest=smallest, largest=largest)
    for labels in model.settled(k).T:
        sizes = np.bincount(labels, minlength=k)
        assert smallest <= sizes.min() and sizes.max() <= largest
    assert model.outcome(k).sizes_met


@pytest.mark.parametrize("pattern", ["communities", "any"])
def test_the_numbers_of_nodes_do_not_matter(pattern):
    adjacency, labels = planted(4, 40, 0.35, 0.03, seed=3)
    adjacency = sp.csr_array(adjacency.multiply(np.add.outer(labels, labels) % 3 + 1.0))
    order = np.random.default_rng(0).permutation(len(labels))
    turned = sp.csr_array(adjacency[order][:, order])
    turned.sort_indices()
    one = FixedNumber(Network(adjacency), [4], 1, pattern=pattern).settled(4)
    other = FixedNumber(Network(turned), [4], 1, pattern=pattern).settled(4)
    np.testing.assert_array_equal(one[order, 0], other[:, 0])


def test_any_pattern_finds_the_two_sides_of_a_bipartite_graph():
    random = np.random.default_rng(0)
    across = random.random((30, 30)) < 0.5
    rows, cols = np.nonzero(across)
    adjacency = matrix(rows, cols + 30, n=60)
    labels = FixedNumber(Network(adjacency), [2], pattern="any").settled(2)[:, 0]
    assert set(labels[:30]) != set(labels[30:]) and len(set(labels[:30])) == 1


def test_a_small_component_shares_a_cluster():
    adjacency, labels = planted(2, 40, 0.4, 0.02)
    both = sp.csr_array(sp.block_diag([adjacency, np.array([[0, 1], [1, 0]])]))
    model = FixedNumber(Network(both), [2])
    found = model.settled(2)[:, 0]
    assert len(np.unique(found[:80] * 2 + labels)) == 2
    assert model.outcome(2) == (1, True, True)


@pytest.mark.parametrize("pattern", ["communities", "any"])
def test_one_cluster_every_node_no_edges_and_one_node(pattern):
    ring = matrix(np.arange(9), (np.arange(9) + 1) % 9, n=9)
    model = FixedNumber(Network(ring), [1, 9], pattern=pattern)
    assert len(np.unique(model.settled(1))) == 1
    assert len(np.unique(model.settled(9)[:, 0])) == 9 and len(np.unique(model.begun(9)[:, 0])) == 9
    empty = sp.csr_array((5, 5))
    assert FixedNumber(Network(empty), [2], pattern=pattern).settled(2).shape == (5, 2)
    assert FixedNumber(Network(sp.csr_array((1, 1))), [1], pattern=pattern).settled(1).tolist() == [[0, 0]]


@pytest.mark.parametrize("k", [30, 77, 239])
def test_very_many_clusters_need_no_table(monkeypatch, k):
    monkeypatch.setattr(fixed_number, "TABLE", 8)
    adjacency, labels = planted(30, 8, 0.8, 0.004)
    model = FixedNumber(Network(adjacency), [k])
    found = model.settled(k)[:, 0]
    assert len(np.unique(found)) == k and model.outcome(k).connected
    assert len(np.unique(found * 30 + labels)) < max(60, k + 15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"smallest": 31},
        {"largest": 29},
        {"smallest": 0},
        {"smallest": 20, "largest": 10},
        {"pattern": "roles"},
    ],
)
def test_what_cannot_be_is_said_before_the_work(wrong):
    adjacency, _ = planted(2, 30, 0.4, 0.02)
    with pytest.raises(ParameterError, match=[*wrong][-1]) as raised:
        FixedNumber(Network(adjacency), [2], **wrong)
    assert raised.value.argument == [*wrong][-1]
