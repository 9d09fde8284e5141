"""Clusters from the edges alone: each step against the plain formula, the whole against what was planted."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_strategies import plain_information
from hypothesis import given, settings
from hypothesis import strategies as st

import softcut as sc
from softcut.clustering import edges
from softcut.clustering.edges import EdgeClusters, EdgeStarts, shares
from softcut.clustering.group_merges import cut, merge_steps
from softcut.clustering.recipe import DEFAULT, EdgeRecipe, Recipe
from softcut.datasets import attributed_communities
from softcut.metrics import Judge, evidence, modularity, nmi
from softcut.ops import CSR


def edge_information(adjacency, labels):
    """I(c(u); c(v)) over the edges."""
    labels = np.asarray(labels)
    one_hot = np.eye(labels.max() + 1)[labels]
    return plain_information(one_hot.T @ (sp.csr_array(adjacency) @ one_hot))


def operator(graph):
    return CSR.from_graph(graph if isinstance(graph, sc.Graph) else of_networkx(graph))


def of_networkx(graph):
    return sc.Graph.from_scipy(sp.csr_array(nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float32)))


def random(seed=0):
    return torch.Generator().manual_seed(seed)


@st.composite
def graphs(draw):
    n = draw(st.integers(4, 24))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    dense = np.zeros((n, n), dtype=np.float32)
    for u, v in pairs:
        if u != v:
            dense[u, v] = dense[v, u] = draw(st.sampled_from([1.0, 0.25]))
    return sc.Graph.from_scipy(sp.csr_array(dense))


def edge_clusters(op, ks, random_state=0, recipe=DEFAULT):
    """Settled clusterings for each K of `ks`."""
    found = EdgeClusters(op, ks, random_state, recipe)
    return {k: found.settled(k) for k in ks}


@given(graphs(), st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_any_graph_has_at_most_k_clusters_of_every_node(graph, ks, seed):
    found = edge_clusters(operator(graph), ks, seed)
    assert set(found) == set(ks)
    for k, labels in found.items():
        assert labels.shape[0] == graph.num_nodes and labels.shape[1] >= 2 and labels.dtype == torch.long
        assert int(labels.min()) >= 0 and int(labels.max()) < min(k, graph.num_nodes)


@given(graphs(), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_moves_never_lose_information(graph, k, seed):
    labels = torch.from_numpy(np.random.default_rng(seed).integers(0, k, graph.num_nodes))
    after = edges._moved(edges._Level.of(operator(graph)), labels, k, random(seed), DEFAULT)
    assert int(after.min()) >= 0 and int(after.max()) < k
    if graph.num_edges:
        assert edge_information(graph.adjacency, after) >= edge_information(graph.adjacency, labels) - 1e-9
    isolated = np.diff(graph.adjacency.indptr) == 0
    assert (after.numpy()[isolated] == labels.numpy()[isolated]).all()


@given(graphs(), st.integers(2, 6), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_a_level_above_has_the_table_of_its_groups(graph, k, seed):
    """Groups of groups: the same sums as a product of dense matrices, times one factor."""
    level, rng = edges._Level.of(operator(graph)), np.random.default_rng(seed)
    groups, clusters = rng.integers(0, k, graph.num_nodes), rng.integers(0, 2, k)
    above = level.above(torch.from_numpy(groups), k)
    both = np.eye(2)[clusters[groups]]
    plain = both.T @ (graph.adjacency @ both)
    found = above.table(torch.from_numpy(clusters), 2).numpy()
    total = float(level.degree.sum())
    assert float(above.degree.sum()) == total
    np.testing.assert_allclose(found * plain.sum(), plain * total, rtol=1e-6)


@given(graphs(), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_nodes_to_move_are_those_another_cluster_suits(graph, k, seed):
    """Against the dense table of all nodes and clusters."""
    labels = np.random.default_rng(seed).integers(0, k, graph.num_nodes)
    level = edges._Level.of(operator(graph))
    if not len(level.row):
        return
    table, given = level.table(torch.from_numpy(labels), k), torch.from_numpy(labels)
    seen = edges._look(level, given, k, DEFAULT)
    assert torch.equal(seen.table, table)
    nodes, other = (t.numpy() for t in edges._better(level, given, seen, k, DEFAULT))
    joint = table.numpy() / table.numpy().sum() + DEFAULT.edges.prior / k**2
    score = graph.adjacency @ np.eye(k)[labels] @ np.log(joint / np.outer(joint.sum(0), joint.sum(0)))
    rise = score.max(1) - score[np.arange(len(labels)), labels]
    np.testing.assert_allclose(score[nodes, other], score[nodes].max(1), rtol=1e-5, atol=1e-6)
    coo = sp.coo_array(graph.adjacency)
    border = np.isin(np.arange(len(labels)), coo.row[labels[coo.row] != labels[coo.col]])
    clear = border & (rise > 1e-4 * (1 + np.abs(score).max()))
    assert (rise[nodes] > 1e-9).all()
    assert set(np.flatnonzero(clear)) <= set(nodes.tolist()) <= set(np.flatnonzero(border))


def brute_force(graph, k):
    """Most evidence of any clustering into k clusters, none very small, that keeps edges inside."""
    n = graph.num_nodes
    found = -np.inf
    for rest in itertools.product(range(k), repeat=n - 1):
        labels = np.array((0, *rest))
        sizes = np.bincount(labels, minlength=k)
        if sizes.min() >= DEFAULT.least * n / k and modularity(graph, labels) > 0:
            found = max(found, evidence(graph, labels))
    return found


def joined_by_hand(level, room, seed, within):
    """Node by node: to the group that raises modularity most, where it is its turn and there is room."""
    generator, n, degree = random(seed), level.nodes, level.degree.numpy()
    a = np.zeros((n, n))
    a[level.row, level.col] = level.weight
    a = a if within is None else a * np.equal.outer(within, within)
    labels, share = np.arange(n), degree / degree.sum()
    for _ in range(4):
        size, weight = np.bincount(labels, degree, n), a @ np.eye(n)[labels]
        near = np.argwhere(weight).tolist()
        draws = torch.rand(len(near), generator=generator, dtype=torch.float64).tolist()
        turn = (torch.rand(n, generator=generator) < 0.5).tolist()
        stay, best = -share * (size[labels] - degree), {}
        for (u, group), draw in zip(near, draws, strict=True):
            mine = group == labels[u]
            score = weight[u, group] - share[u] * (size[group] - mine * degree[u]) + 1e-7 * degree[u] * draw
            if mine:
                stay[u] = score
            elif size[group] + degree[u] <= room:
                best[u] = max(best.get(u, (-np.inf, 0)), (score, group))
        for u, (score, group) in sorted(best.items(), key=lambda each: each[1][1]):
            if turn[u] and score > stay[u] + 1e-6 * degree[u]:
                size[group] += degree[u]
                labels[u] = group if size[group] <= room else labels[u]
    return np.unique(labels, return_inverse=True)[1].tolist()


@given(graphs(), st.integers(1, 8), st.integers(0, 5), st.booleans())
@settings(max_examples=100, deadline=None)
def test_nodes_join_the_group_that_raises_modularity_most(graph, groups, seed, parted):
    level, rng = edges._Level.of(operator(graph)), np.random.default_rng(seed)
    if len(level.row):
        within = torch.from_numpy(rng.integers(0, 2, graph.num_nodes)) if parted else None
        room = float(level.degree.sum()) / groups
        labels, count = edges._join(level, room, random(seed), DEFAULT, within)
        assert labels.tolist() == joined_by_hand(level, room, seed, within) and count == len(labels.unique())


@given(graphs(), st.integers(1, 4), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_clusterings_are_ranked_by_edges_inside_and_size_and_then_by_evidence(graph, k, seed):
    labels = np.random.default_rng(seed).integers(0, k, graph.num_nodes)
    inside = modularity(graph, labels)
    if abs(inside) > 1e-9:
        right, value = edges._rank(edges._Level.of(operator(graph)), torch.from_numpy(labels), k, DEFAULT)
        assert right == (inside > 0 and 4 * k * np.bincount(labels, minlength=k).min() >= graph.num_nodes)
        assert value == pytest.approx(float(Judge(graph.adjacency)(torch.from_numpy(labels), k).value))


def test_levels_and_clusters_in_numbers_that_were_counted_once():
    assert [edges._wanted(k, DEFAULT) for k in (2, 20, 100, 300)] == [128, 160, 512, 600]
    planted = attributed_communities(900, 6, n_features=0, edge_signal=0.6, seed=0)
    pairs, cliques = (nx.disjoint_union_all([nx.complete_graph(n)] * m) for n, m in ((2, 2000), (5, 300)))
    for graph, groups, nodes, places in (
        (planted, 40, [900, 414, 177, 95, 70, 65], 65),
        (pairs, 100, [4000, 2113, 2004], 1024),
        (cliques, 64, [1500, 425, 306], 306),
    ):
        base = edges._Level.of(operator(graph))
        levels, above, _ = edges._levels(base, groups, random(), DEFAULT)
        assert [level.nodes for level in levels] == nodes and [len(each) for each in above] == nodes[:-1]
        assert len(edges._joined(base, groups, random(), DEFAULT).unique()) == places
    quick = EdgeStarts(operator(planted), 3)(6)
    assert torch.bincount(quick).tolist() == [166, 156, 137, 142, 155, 144]


def test_the_best_comes_first_and_a_quick_answer_is_one_clustering():
    graph = attributed_communities(600, 6, n_features=0, edge_signal=0.4, seed=0)
    values = [evidence(graph, labels.numpy()) for labels in edge_clusters(operator(graph), [6])[6].mT]
    assert values == sorted(values, reverse=True) and len(set(values)) > 1
    starts = EdgeStarts(operator(graph))
    quick = starts(6)
    assert quick.shape == (600,)
    assert 0 < evidence(graph, quick.numpy()) <= values[0] + 1e-9, "the longer search sees it too"
    # What several numbers share changes none of them: as many groups, or more of them, or nothing to search.
    for k in (2, 40, 700, 6):
        assert torch.equal(starts(k), EdgeStarts(operator(graph))(k))


def test_a_few_moves_are_enough_to_compare_numbers():
    """Evidence between that of the cuts and that of settled clusters, at a fraction of the moves."""
    graph = attributed_communities(600, 6, n_features=0, edge_signal=0.4, seed=0)
    found = EdgeClusters(operator(graph), [2, 6, 700])
    best = [
        max(evidence(graph, labels.numpy()) for labels in each.mT)
        for each in (found._cuts(6), found.begun(6), found.settled(6))
    ]
    assert best[0] < best[1] <= best[2]
    assert found.begun(6).shape == found.settled(6).shape
    assert found.begun(700).unique().tolist() == list(range(600)), "as many clusters as nodes"
    assert EdgeClusters(operator(nx.empty_graph(3)), [2]).begun(2).tolist() == [[0, 0]] * 3


def test_a_table_in_pieces_says_the_same():
    op = operator(attributed_communities(300, 4, n_features=0, seed=1))
    pieces = Recipe(edges=EdgeRecipe(table=256))
    assert torch.equal(edge_clusters(op, [4], recipe=pieces)[4], edge_clusters(op, [4])[4])


@given(st.integers(1, 9), st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_each_merge_is_the_one_that_loses_least(groups, seed):
    """Against trying every pair, at every step; many tables have empty places."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 20, (groups, groups)) * (rng.random((groups, groups)) < 0.5)
    table = (table + table.T + np.diag(rng.integers(1, 40, groups))).astype(float)

    def union(t, a, b):
        t = t.copy()
        t[a] += t[b]
        t[:, a] += t[:, b]
        return np.delete(np.delete(t, b, 0), b, 1)

    nothing = np.zeros((3, 3))  # that tells them apart
    assert sorted(cut(merge_steps(nothing), 2).tolist()) == [0, 0, 1]
    steps, plain = merge_steps(table), table
    assert steps.shape == (groups - 1, 2)
    while len(plain) > 1:
        one_hot = np.eye(len(plain))[cut(steps, len(plain))]
        made = plain_information(one_hot.T @ table @ one_hot)
        assert made == pytest.approx(plain_information(plain), abs=1e-12)
        pairs = itertools.combinations(range(len(plain)), 2)
        plain = max((union(plain, a, b) for a, b in pairs), key=plain_information)


@pytest.mark.parametrize("hubs", [0.0, 1.0])
@pytest.mark.parametrize("k", [2, 5, 12])
def test_planted_communities_are_found(k, hubs):
    graph = attributed_communities(150 * k, k, 12, 0, edge_signal=0.85, degree_spread=hubs, seed=k)
    clusters = edge_clusters(operator(graph), [2, k, k + 3])
    used = np.diff(graph.adjacency.indptr) > 0
    assert nmi(graph.y[used], clusters[k][used, 0].numpy()) > 0.8
    assert all(len(torch.unique(clusters[other][:, 0])) == other for other in clusters)


RING = np.stack([np.arange(60), (np.arange(60) + 1) % 60])
HEAVY = np.where(np.equal.outer(np.arange(20) % 2, np.arange(20) % 2), 1.0, 0.2) - np.eye(20)
FAINT = nx.stochastic_block_model([300] * 3, (np.eye(3) * 0.0155 + 0.0083).tolist(), seed=0)
COMPONENTS = nx.disjoint_union_all([nx.gnp_random_graph(60, 0.2, seed=s) for s in range(5)])


@pytest.mark.parametrize(
    ("graph", "truth", "least"),
    [
        (FAINT, np.repeat(range(3), 300), 0.3),  # near the threshold, where only eigenvectors find something
        (sc.Graph.from_edges(np.concatenate([RING, RING + 60, [[0], [60]]], 1)), np.repeat([0, 1], 60), 0.9),
        (sc.Graph.from_dense(HEAVY.astype(np.float32)), np.arange(20) % 2, 1 - 1e-6),  # heavy edges decide
        (COMPONENTS, np.repeat(range(5), 60), 1 - 1e-6),
        (nx.disjoint_union_all([nx.complete_graph(5)] * 200), np.repeat(range(200), 5), 0.95),
        (nx.barbell_graph(4, 0), np.repeat([0, 1], 4), 1 - 1e-6),
        (nx.disjoint_union(nx.complete_graph(4), nx.cycle_graph(5)), np.repeat([0, 1], [4, 5]), 1 - 1e-6),
    ],
)
def test_clusters_of_any_kind_are_found(graph, truth, least):
    k = int(truth.max()) + 1
    assert nmi(truth, edge_clusters(operator(graph), [k])[k][:, 0].numpy()) > least


def test_the_order_of_nodes_isolated_nodes_and_the_unit_of_weights_change_nothing():
    graph = attributed_communities(400, 4, 14, 0, edge_signal=0.9, degree_spread=0.3, seed=2)

    def best(adjacency):
        return edge_clusters(operator(sc.Graph.from_scipy(sp.csr_array(adjacency))), [4])[4][:, 0].numpy()

    usual, order = best(graph.adjacency), np.random.default_rng(0).permutation(400)
    assert np.array_equal(best(graph.adjacency), usual), "the same every time"
    assert nmi(usual[order], best(graph.adjacency[order][:, order])) > 0.98
    assert np.array_equal(best(graph.adjacency * np.float32(0.5)), usual), "equal weights are none"
    larger = graph.adjacency.copy()
    larger.resize(420, 420)
    assert nmi(usual, best(larger)[:400]) > 0.95
    weights = sp.triu(graph.adjacency, format="csr").astype(np.float32)
    weights.data = np.random.default_rng(0).uniform(0.1, 1, weights.nnz).astype(np.float32)
    weights = sp.csr_array(weights + weights.T)
    for factor in (0.25, 4.0):
        assert np.array_equal(best(weights), best(weights * np.float32(factor)))


def test_no_edges_one_cluster_and_a_cluster_for_each_node():
    for n in (0, 1, 5):
        op = CSR.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=n)
        for labels in edge_clusters(op, [1, 2, 5, 9]).values():
            assert labels.shape == (n, 2) and not labels.any()
    clusters = edge_clusters(operator(nx.path_graph(6)), [1, 6, 8, 2])
    assert not clusters[1].any()
    assert clusters[6][:, 0].tolist() == clusters[8][:, 1].tolist() == [0, 1, 2, 3, 4, 5]
    assert clusters[2][:, 0].tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


@pytest.mark.parametrize("k", [2, 7, 30])
@pytest.mark.parametrize(
    "graph",
    # Pairs: more components than a table of groups has places.
    [
        nx.complete_graph(300),
        nx.star_graph(3000),
        nx.from_edgelist([(2 * i, 2 * i + 1) for i in range(2000)]),
    ],
    ids=["complete", "star", "pairs"],
)
def test_graphs_with_nothing_to_tell(graph, k):
    labels = edge_clusters(operator(graph), [k])[k]
    assert int(labels.max()) < k and len(torch.unique(labels[:, 0])) > 1


def test_soft_clusters_of_labels():
    """Rows sum to one, and the label is the largest entry even where all neighbours are elsewhere."""
    star = sc.Graph.from_edges([[0, 0, 0], [1, 2, 3]], num_nodes=5)
    labels = torch.tensor([0, 1, 1, 1, 2])
    soft = shares(CSR.from_graph(star), labels, 3)
    assert torch.allclose(soft.sum(1), torch.ones(5))
    assert soft.argmax(1).tolist() == labels.tolist()
    assert soft[0].tolist() == pytest.approx([0.6, 0.4, 0])
    assert soft[4].tolist() == [0, 0, 1]  # no neighbours
    faint = sp.csr_array(np.array([[0, 1e-35, 0], [1e-35, 0, 1], [0, 1, 0]], dtype=np.float32))
    soft = shares(CSR.from_graph(sc.Graph.from_scipy(faint)), torch.tensor([0, 0, 1]), 2)
    assert torch.allclose(soft.sum(1), torch.ones(3))


@pytest.mark.gpu
def test_the_same_on_a_gpu():
    graph = attributed_communities(2000, 6, 12, 0, edge_signal=0.7, seed=0)
    found = edge_clusters(CSR.from_graph(graph), [6])[6][:, 0]
    other = edge_clusters(CSR.from_graph(graph, device="cuda"), [6])[6][:, 0]
    assert other.is_cuda and nmi(found.numpy(), other.cpu().numpy()) > 0.95


@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (nx.barbell_graph(4, 0), 2),
        (nx.ring_of_cliques(3, 3), 3),
        (nx.connected_caveman_graph(2, 5), 2),
        (nx.disjoint_union(nx.complete_graph(4), nx.cycle_graph(5)), 2),
    ],
    ids=["barbell", "three cliques", "two caves", "two components"],
)
def test_the_most_evidence_there_is_on_tiny_graphs(graph, k):
    found = edge_clusters(operator(graph), [k])[k][:, 0]
    graph = of_networkx(graph)
    assert evidence(graph, found.numpy()) == pytest.approx(brute_force(graph, k), abs=1e-6)
