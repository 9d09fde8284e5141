"""Nested levels as a table, by hand and by the plain formula."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import softcut as sc
from softcut.communities.tree import inside_shares, tree_of


def test_a_tree_by_hand():
    levels = np.array([[0, 0, 0, 0, 1, 1, -1], [1, 1, 0, 0, 2, 2, -1], [4, 1, 0, 0, 2, 2, -1]])
    inside = [np.array([0.9, 0.8]), np.array([0.7, 0.6, 0.5]), np.array([0.1, 0.2, 0.3, 0.4, 0.45])]
    tree = tree_of(levels, inside)
    assert list(tree.rows()) == [
        dict(zip(("level", "id", "parent", "size", "inside"), row, strict=True))
        for row in (
            (0, 0, -1, 4, 0.9),
            (0, 1, -1, 2, 0.8),
            (1, 0, 0, 2, 0.7),
            (1, 1, 0, 2, 0.6),
            (1, 2, 1, 2, 0.5),
            (2, 0, 0, 2, 0.1),
            (2, 1, 1, 1, 0.2),
            (2, 2, 2, 2, 0.3),
            (2, 4, 1, 1, 0.45),  # no community has the number 3
        )
    ]
    frame = tree.to_frame()
    assert list(frame.columns) == tree.columns and len(frame) == len(tree) == 9
    assert tree == tree_of(levels, inside) != tree_of(levels[:2], inside[:2])


@pytest.mark.parametrize("seed", range(3))
def test_shares_inside_are_those_of_the_plain_formula(seed):
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.integers(0, 4, (20, 20)) * (rng.random((20, 20)) < 0.3)).astype(float)
    dense = dense + dense.T
    labels = rng.integers(-1, 4, 20)
    found = inside_shares(sp.csr_array(dense), labels)
    for c in range(int(labels.max()) + 1):
        rows = labels == c
        total = dense[rows].sum()
        assert found[c] == pytest.approx(dense[np.ix_(rows, rows)].sum() / total if total else 0.0)


def test_the_tree_of_a_fit_is_that_of_its_labels():
    graph = nx.les_miserables_graph()
    est = sc.GraphClustering().fit(graph)
    adjacency, tree = nx.to_scipy_sparse_array(graph, format="csr", dtype=float), est.tree_
    assert est.verdict_ == "clear" and 5 <= est.n_clusters_ <= 6 and tree.level.max() >= 1
    for level in range(int(tree.level.max()) + 1):
        rows, labels = tree.level == level, est.labels_at(level)
        np.testing.assert_array_equal(tree.id[rows], np.unique(labels))
        np.testing.assert_array_equal(tree.size[rows], np.bincount(labels))
        np.testing.assert_allclose(tree.inside[rows], inside_shares(adjacency, labels))
    for upper, lower in itertools.pairwise(range(int(tree.level.max()) + 1)):
        for i in np.flatnonzero(tree.level == lower):
            assert set(est.labels_at(upper)[est.labels_at(lower) == tree.id[i]]) == {tree.parent[i]}
    assert (tree.parent[tree.level == 0] == -1).all()


def test_isolated_nodes_are_in_no_community_of_any_level():
    graph = nx.disjoint_union(nx.connected_caveman_graph(6, 6), nx.empty_graph(3))
    est = sc.GraphClustering().fit(graph)
    assert (est.levels_.labels[:, -3:] == -1).all() and (est.levels_.labels[:, :-3] >= 0).all()
    assert {int(est.tree_.size[est.tree_.level == level].sum()) for level in set(est.tree_.level)} == {36}


@pytest.mark.filterwarnings("ignore:.*explain less")
def test_one_level_where_there_is_nothing_to_divide():
    est = sc.GraphClustering(3).fit(nx.connected_caveman_graph(6, 6))
    assert est.levels_.labels.shape == (1, 36) and est.tree_.size.sum() == 36 and est.scales_ is None
    several = sc.GraphClustering(2, n_init=2, max_iter=3).fit(
        [sc.Graph.from_networkx(nx.connected_caveman_graph(3, 6))] * 2
    )
    paper = sc.MinCutClustering(2, n_init=2, max_iter=3).fit(nx.karate_club_graph())
    for each in (several, paper):
        assert each.tree_ is None and each.level_ == 0
        with pytest.raises(
            sc.errors.ParameterError, match="several graphs, and the paper's model, have one level"
        ):
            each.labels_at(0)
