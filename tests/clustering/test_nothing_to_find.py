"""The obvious answer where there is one; where there is none, that is said instead of an arbitrary answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel

import softcut as sc
from softcut.clustering.features import structural_features
from softcut.clustering.prepare import silence_rule, silent_nodes
from softcut.datasets import attributed_communities, community_graph


def complete(n):
    return np.ones((n, n)) - np.eye(n)


def blocks():
    """Two blocks of 20 nodes, all edges present: weight 20 within, 1 between."""
    y = np.repeat([0, 1], 20)
    a = np.where(y[:, None] == y, 20.0, 1.0)
    np.fill_diagonal(a, 0)
    return a, y


def test_weights_alone_tell_two_blocks_apart():
    a, y = blocks()
    est = sc.MinCutClustering(2).fit(a)
    assert normalized_mutual_info_score(y, est.labels_) == 1
    assert est.agreement_ > 0.99


def test_two_separate_edges():
    est = sc.MinCutClustering(2).fit(sc.Graph.from_edges([[0, 2], [1, 3]]))
    assert est.labels_[0] == est.labels_[1] != est.labels_[2] == est.labels_[3]


@pytest.mark.parametrize("seed", [0, 2])
def test_smooth_kernels_are_clustered_as_well_as_by_spectral_clustering(seed):
    x, y = make_blobs(300, centers=3, random_state=seed, center_box=(-8, 8))
    a = rbf_kernel(x, gamma=0.05)
    np.fill_diagonal(a, 0)
    spectral = SpectralClustering(3, affinity="precomputed", random_state=0).fit_predict(a)
    found = sc.MinCutClustering(3).fit_predict(a)
    wanted = normalized_mutual_info_score(y, spectral) - 0.02
    assert normalized_mutual_info_score(y, found) >= wanted


@pytest.mark.parametrize("k", [2, "auto"])
@pytest.mark.parametrize(
    "graph",
    [
        (complete(20),),
        (sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=9),),
        (complete(12), np.ones((12, 3))),
    ],
    ids=["complete", "no edges", "complete, same features"],
)
def test_nothing_to_find_is_said(graph, k):
    with pytest.warns(UserWarning, match=r"no clustering into 2 was found.* 1 is used"):
        est = sc.MinCutClustering(k, n_init=4).fit(*graph)
    assert est.agreement_ == 0
    assert est.n_clusters_ == 2
    assert set(est.labels_) == {0}
    assert any("nothing to cluster by" in note for note in est.notes_)
    assert any("no clustering into 2 was found" in note for note in est.notes_)
    np.testing.assert_array_equal(est.predict(*graph), est.labels_)


def test_more_clusters_than_the_graph_has():
    """All replicas lose clusters: one of them is taken as it is, and no clusters are made up."""
    y = np.repeat([0, 1], 15)
    a = (y[:, None] == y).astype(float) - np.eye(30)  # two complete graphs: nothing tells their nodes apart
    with pytest.warns(UserWarning, match="no clustering into 5 was found"):
        est = sc.MinCutClustering(5, n_init=4).fit(a)
    assert est.agreement_ == 0
    assert normalized_mutual_info_score(y, est.labels_) == 1
    assert len(set(est.labels_)) == 2


def test_low_agreement_is_a_warning(monkeypatch):
    graph = attributed_communities(100, 3, n_features=30, seed=0)
    usual = sc.MinCutClustering(3, n_init=4, max_iter=20).fit(graph)
    assert not any("hardly agree" in note for note in usual.notes_)
    monkeypatch.setattr("softcut.clustering.estimator.LOW_AGREEMENT", usual.agreement_ + 1e-6)
    with pytest.warns(UserWarning, match="restarts hardly agree"):
        est = sc.MinCutClustering(3, n_init=4, max_iter=20).fit(graph)
    assert any("hardly agree" in note for note in est.notes_)


def test_an_ordinary_fit_has_no_doubts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.MinCutClustering(6, n_init=6).fit(community_graph())


def test_structural_features_see_weights_and_admit_nothing():
    a, _ = blocks()
    rows = structural_features(sc.Graph.from_dense(a))
    assert np.allclose(rows[:20], rows[0], atol=1e-4)
    assert np.abs(rows[0] - rows[20]).max() > 0.5
    assert not structural_features(sc.Graph.from_dense(complete(8))).any()
    assert not structural_features(sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=4)).any()


# ------------------------------------------------------------------------- nodes that say nothing


def with_isolated(graph, count, features):
    """The graph with `count` more nodes that have no edges and no words, some of them at the beginning."""
    first = count // 2
    a = sp.block_diag([sp.csr_array((first, first)), graph.adjacency, sp.csr_array((count - first,) * 2)])
    x = None
    if features:
        width = graph.num_features
        x = sp.vstack([sp.csr_array((first, width)), graph.x, sp.csr_array((count - first, width))])
    silent = np.r_[np.ones(first, bool), np.zeros(graph.num_nodes, bool), np.ones(count - first, bool)]
    return sc.Graph.from_scipy(sp.csr_array(a), x=x), silent


@pytest.mark.parametrize("features", [True, False])
def test_isolated_nodes_change_nothing_for_the_others(features, tmp_path):
    graph = attributed_communities(200, 3, n_features=50, edge_signal=0.9, seed=0)
    graph = graph if features else graph.with_features(None)
    usual = sc.MinCutClustering(3, n_init=4).fit(graph)
    larger, silent = with_isolated(graph, 60, features)
    est = sc.MinCutClustering(3, n_init=4).fit(larger)
    np.testing.assert_array_equal(est.labels_[~silent], usual.labels_)
    assert (est.labels_[silent] == 0).all()
    np.testing.assert_allclose(est.soft_[silent], 1 / 3)
    count = int(silent_nodes(larger, silence_rule(larger)).sum())
    assert count >= 60
    assert any(f"{count} of 260 nodes have neither edges nor features" in note for note in est.notes_)
    np.testing.assert_array_equal(est.predict(larger), est.labels_)
    np.testing.assert_allclose(est.predict_proba(larger), est.soft_, atol=1e-6)
    again = sc.MinCutClustering.load(est.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(larger), est.labels_)


def test_isolated_nodes_in_a_batch():
    graphs = [attributed_communities(n, 3, n_features=50, seed=s) for s, n in enumerate((80, 60))]
    larger, silent = with_isolated(graphs[1], 10, True)
    est = sc.MinCutClustering(3, n_init=2).fit([graphs[0], larger])
    assert [len(labels) for labels in est.graph_labels_] == [80, 70]
    np.testing.assert_allclose(est.soft_[80:][silent], 1 / 3)
    for got, wanted in zip(est.predict([graphs[0], larger]), est.graph_labels_, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_row_of_zeros_is_a_measurement_like_any_other():
    x = np.array([[0.0, 0.0], [1.0, -1.0], [2.0, 0.5]])
    graph = sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=3, x=x)
    assert silence_rule(graph) == "never"
    assert not silent_nodes(graph, "never").any()
    words = sc.Graph.from_edges(
        [[0], [1]], num_nodes=4, x=np.array([[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0.0]])
    )
    assert silence_rule(words) == "empty"
    assert silent_nodes(words, "empty").tolist() == [False, False, True, False]
