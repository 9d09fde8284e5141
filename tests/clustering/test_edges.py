"""Clusters from the edges alone: each step against the plain formula, and what a fit makes of them."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import softcut as sc
from softcut.clustering import fit
from softcut.clustering.edges import around, edge_clusters, merge_order, moved, shares
from softcut.clustering.features import positions
from softcut.datasets import attributed_communities
from softcut.metrics import evidence_parts, modularity, nmi
from softcut.ops import CSR

TAKEN = "clusters found from the edges, without the networks, were taken"


def information(table):
    """Mutual information of a table of counts, by the plain formula."""
    p = table / table.sum()
    expected = np.outer(p.sum(1), p.sum(0))
    used = p > 0
    return float((p[used] * np.log(p[used] / expected[used])).sum())


def edge_information(adjacency, labels):
    """I(c(u); c(v)) over the edges."""
    entries, labels = sp.coo_array(adjacency), np.asarray(labels)
    table = np.zeros((labels.max() + 1,) * 2)
    np.add.at(table, (labels[entries.row], labels[entries.col]), entries.data)
    return information(table)


@st.composite
def graphs(draw):
    n = draw(st.integers(4, 24))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=60))
    dense = np.zeros((n, n), dtype=np.float32)
    for u, v in pairs:
        if u != v:
            dense[u, v] = dense[v, u] = draw(st.sampled_from([1.0, 0.25]))
    return sc.Graph.from_scipy(sp.csr_array(dense))


@given(graphs(), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_moves_never_lose_information(graph, k, seed):
    labels = torch.from_numpy(np.random.default_rng(seed).integers(0, k, graph.num_nodes))
    after = moved(CSR.from_graph(graph), labels, k)
    assert int(after.min()) >= 0 and int(after.max()) < k
    if graph.num_edges:
        assert edge_information(graph.adjacency, after) >= edge_information(graph.adjacency, labels) - 1e-6
    isolated = np.diff(graph.adjacency.indptr) == 0
    assert (after.numpy()[isolated] == labels.numpy()[isolated]).all()


@given(graphs(), st.integers(2, 4), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_moves_end_where_no_half_helps(graph, k, seed):
    """What one call leaves, another does not improve."""
    op = CSR.from_graph(graph)
    once = moved(op, torch.from_numpy(np.random.default_rng(seed).integers(0, k, graph.num_nodes)), k)
    if graph.num_edges:
        again = edge_information(graph.adjacency, moved(op, once, k))
        assert again == pytest.approx(edge_information(graph.adjacency, once), abs=1e-6)


@given(st.integers(3, 9), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_each_merge_is_the_one_that_loses_least(groups, seed):
    """Against trying every pair, step by step, down to two clusters."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 20, (groups, groups)).astype(float)
    table = table + table.T + np.diag(rng.integers(1, 40, groups))

    def union(t, a, b):
        t = t.copy()
        t[a] += t[b]
        t[:, a] += t[:, b]
        return np.delete(np.delete(t, b, 0), b, 1)

    plain = table
    while len(plain) > 2:
        pairs = [(a, b) for a in range(len(plain)) for b in range(a + 1, len(plain))]
        plain = max((union(plain, a, b) for a, b in pairs), key=information)
    found = merge_order(table, 2)
    one_hot = np.eye(2)[found]
    assert set(found) == {0, 1}
    assert information(one_hot.T @ table @ one_hot) == pytest.approx(information(plain), abs=1e-12)


def test_nothing_to_merge():
    assert merge_order(np.eye(3), 3).tolist() == [0, 1, 2]
    assert sorted(merge_order(np.zeros((3, 3)), 2).tolist()) == [0, 0, 1]


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


def test_groups_of_any_shape_are_found():
    """Two rings side by side: k-means of the coordinates cannot tell them, the edges can."""
    n = 60
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    edges = np.concatenate([ring, ring + n, [[0], [n]]], axis=1)
    op = CSR.from_graph(sc.Graph.from_edges(edges))
    found = edge_clusters(op, around(op, positions(op)), 2)
    truth = np.repeat([0, 1], n)
    assert max(nmi(truth, labels.numpy()) for labels in found.mT) > 0.9


def test_the_same_labels_every_time():
    op = CSR.from_graph(attributed_communities(300, 4, seed=1))
    starts = around(op, positions(op))
    assert torch.equal(edge_clusters(op, starts, 4, 3), edge_clusters(op, starts, 4, 3))


@pytest.fixture(scope="module")
def noisy():
    """Communities whose features say nothing."""
    return attributed_communities(500, 5, 10, 200, edge_signal=0.5, feature_signal=0.0, seed=0)


def estimator(k=5, **options):
    return sc.MinCutClustering(k, n_init=8, max_iter=40, device="cpu", **options)


@pytest.fixture(scope="module")
def fitted(noisy):
    return estimator().fit(noisy)


def test_where_features_are_noise_the_edges_decide(noisy, fitted):
    assert any(TAKEN in text for text in fitted.notes_)
    without = estimator(refine=False).fit(noisy)
    assert not any(TAKEN in text for text in without.notes_)
    assert sc.metrics.evidence(noisy, fitted.labels_) > sc.metrics.evidence(noisy, without.labels_)
    assert nmi(noisy.y, fitted.labels_) >= nmi(noisy.y, without.labels_)
    assert (np.diff(np.bincount(fitted.labels_, minlength=5)) <= 0).all()  # the largest first


def test_the_training_graph_is_known_again(noisy, fitted, tmp_path):
    assert (fitted.predict_proba(noisy) == fitted.soft_).all()
    again = sc.MinCutClustering.load(fitted.save(tmp_path / "model"))
    assert (again.predict(noisy) == fitted.labels_).all()
    again.predict_proba(noisy)[:] = 0  # the caller's copy
    assert (again.predict(noisy) == fitted.labels_).all()


def test_another_graph_is_left_to_the_networks(noisy, fitted, tmp_path):
    other = attributed_communities(200, 5, 10, 200, edge_signal=0.5, feature_signal=0.0, seed=4)
    with pytest.warns(UserWarning, match="found from its edges, without the networks"):
        found = fitted.predict(other)
    again = sc.MinCutClustering.load(fitted.save(tmp_path / "model"))
    with pytest.warns(UserWarning, match="found from its edges, without the networks"):
        assert (again.predict(other) == found).all()
    # Clusters have the same numbers for both: those of the networks are matched with those of the edges.
    part = noisy.subgraph(range(499))
    with pytest.warns(UserWarning, match="found from its edges, without the networks"):
        networks = fitted.predict(part)
    shared = np.zeros((5, 5))
    np.add.at(shared, (networks, fitted.labels_[:499]), 1)
    assert shared.trace() == max(shared[list(order)].trace() for order in itertools.permutations(range(5)))


@pytest.mark.parametrize("options", [{"judge": "agreement"}, {"select": "best"}, {"refine": False}])
def test_other_judges_do_without(noisy, options):
    est = estimator(**options).fit(noisy)
    assert not any(TAKEN in text for text in est.notes_)
    assert est._model.own is None


def test_features_that_say_more_are_kept():
    graph = attributed_communities(400, 4, 8, 200, edge_signal=0.3, feature_signal=0.8, seed=3)
    est = estimator(4).fit(graph)
    assert est._model.own is None and nmi(graph.y, est.labels_) > 0.6


def test_isolated_nodes_without_features_stay_unknown():
    graph = attributed_communities(300, 3, 8, 0, edge_signal=0.8, seed=5)
    adjacency = graph.adjacency.copy()
    adjacency.resize(303, 303)
    est = sc.MinCutClustering(3, n_init=8, device="cpu").fit(sc.Graph.from_scipy(adjacency))
    assert np.allclose(est.soft_[-3:], 1 / 3)
    assert (est.predict_proba(sc.Graph.from_scipy(adjacency)) == est.soft_).all()


def test_isolated_nodes_keep_what_their_features_say():
    """Nodes without edges have no place among clusters of the edges: the networks speak for them."""
    whole = attributed_communities(400, 4, 12, 100, edge_signal=0.9, feature_signal=0.12, seed=2)
    adjacency = whole.adjacency.tolil()
    adjacency[:40, :] = 0
    adjacency[:, :40] = 0
    graph = sc.Graph.from_scipy(sp.csr_array(adjacency.tocsr()), x=whole.x)
    est = estimator(4).fit(graph)
    assert est._model.own is not None
    alone = np.diff(graph.adjacency.indptr) == 0
    assert len(np.unique(est.labels_[alone])) > 1
    est._model.own = None
    np.testing.assert_allclose(est.soft_[alone], est.predict_proba(graph)[alone], atol=1e-5)


def test_one_heavy_edge_is_no_cluster():
    graph = attributed_communities(400, 4, 8, 0, edge_signal=0.55, seed=0)
    adjacency = graph.adjacency.tolil()
    u, v = (int(ends[0]) for ends in graph.adjacency.nonzero())
    adjacency[u, v] = adjacency[v, u] = 100
    est = sc.MinCutClustering(4, n_init=8, device="cpu").fit(sc.Graph.from_scipy(sp.csr_array(adjacency)))
    assert np.bincount(est.labels_).min() >= 0.25 * 400 / 4 - 1


def test_the_training_graph_needs_its_features(noisy, fitted):
    with pytest.raises(sc.errors.GraphError, match="fitted with 200"):
        fitted.predict(noisy.adjacency, np.ones((500, 3), dtype=np.float32))
    with pytest.raises(sc.errors.GraphError, match="no features"):
        fitted.predict(noisy.adjacency)


def test_what_is_known_is_not_the_callers(noisy):
    est = estimator().fit(noisy)
    labels = est.labels_.copy()
    est.soft_[:] = 0
    assert (est.predict(noisy) == labels).all()


def test_an_interrupted_fit_keeps_what_was_learnt(noisy):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        est = estimator(callbacks=[stop]).fit(noisy)
    assert est._model.own is None


@pytest.mark.parametrize("damage", ["negative", "other labels"])
def test_damaged_clusters_are_refused(noisy, fitted, tmp_path, damage):
    from softcut.io.model_files import read_model, write_model

    tensors, meta = read_model(fitted.save(tmp_path / "model"))
    meta = {
        key: meta[key] for key in meta if key not in ("format", "version", "tensors_sha256", "json_sha256")
    }
    tensors["soft"] = -tensors["soft"] if damage == "negative" else tensors["soft"].flip(1)
    write_model(tmp_path / "other", tensors, meta)
    with pytest.raises(sc.errors.ModelFileError, match="does not hold the clusters of one graph"):
        sc.MinCutClustering.load(tmp_path / "other")


def test_a_pattern_with_edges_between_clusters_is_not_taken(noisy, monkeypatch):
    """More evidence is not enough: clusters must also keep their edges inside."""
    n = noisy.num_nodes
    sides = torch.arange(n) % 2
    # Edges between two sides only, and a few inside: the sides explain nearly all edges, against the grain.
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, n // 2, 3000) * 2, rng.integers(0, n // 2, 3000) * 2 + 1
    graph = sc.Graph.from_edges(np.stack([u, v]), num_nodes=n, x=noisy.x)
    assert evidence_parts(graph, sides.numpy()).value > 1 and modularity(graph, sides.numpy()) < 0
    monkeypatch.setattr(fit, "edge_clusters", lambda op, x, k, seed: sides.unsqueeze(1))
    est = sc.MinCutClustering(2, n_init=4, max_iter=20, device="cpu").fit(graph)
    assert est._model.own is None


def test_the_width_with_most_evidence_is_kept(monkeypatch):
    """The weights of the fit are those of the width whose consensus explains most."""
    graph = attributed_communities(400, 4, 10, 100, edge_signal=0.35, feature_signal=0.2, seed=2)
    est = estimator(4).fit(graph)
    text = next(t for t in est.notes_ if t.startswith("replicas weighted by evidence"))
    found = {}
    for width in fit.WIDTHS:
        monkeypatch.setattr(fit, "WIDTHS", (width,))
        only = estimator(4).fit(graph)
        found[width] = sc.metrics.evidence(graph, only.labels_), only
    best = max(found, key=lambda width: found[width][0])
    assert text.startswith(
        f"replicas weighted by evidence with a width of {best:g}, whose consensus has most"
    )
    assert (est.labels_ == found[best][1].labels_).all()
    assert np.array_equal(est.weights_, found[best][1].weights_)
