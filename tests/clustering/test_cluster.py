"""The estimator: what it takes, what it finds, and awkward graphs."""

import collections
import functools
import itertools
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

import softcut as sc
from softcut.clustering import Recipe, feature_map, networks, prepare
from softcut.clustering.by_edges import shares
from softcut.communities.fixed_number import FixedNumber
from softcut.communities.network import Network
from softcut.datasets import attributed_communities
from softcut.errors import SoftcutError
from softcut.ops import CSR
from softcut.training import ReplicaNet


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=200, n_clusters=3, n_features=60, edge_signal=0.85, seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return sc.GraphClustering(3, n_init=6, random_state=0).fit(graph)


def test_finds_planted_communities(graph, fitted):
    assert adjusted_rand_score(graph.y, fitted.labels_) > 0.75
    sizes = np.bincount(fitted.labels_)
    assert len(sizes) == 3 and (sizes[:-1] >= sizes[1:]).all(), "clusters are numbered by size"
    assert fitted.notes_ == [
        "the clusters come from the edges and the features.",
        "features taken for 60 words",
    ]
    assert len(fitted.replicas_) == 6 and fitted.n_features_in_ == 60 and fitted.fit_seconds_ > 0
    assert fitted.history_["cut"].shape == fitted.history_["ortho"].shape == (fitted.n_iter_, 6)
    assert 0 < fitted.n_iter_ <= 50 and not fitted.interrupted_
    assert fitted.weights_.sum() == pytest.approx(1) and (fitted.weights_ > 0).all()


def test_what_fit_takes(graph, fitted):
    est = sc.GraphClustering(3, n_init=6, random_state=0)
    np.testing.assert_array_equal(est.fit_predict(graph.adjacency, graph.x), fitted.labels_)
    np.testing.assert_array_equal(est.predict(graph.adjacency, graph.x), fitted.labels_)
    dense = sc.GraphClustering(3, n_init=6).fit_predict(graph.adjacency.toarray(), graph.x.toarray())
    assert adjusted_rand_score(dense, fitted.labels_) > 0.9
    assert sc.GraphClustering(2).fit_predict(nx.karate_club_graph()).shape == (34,)
    two = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        labels = sc.GraphClustering(2).fit_predict(two)
        assert sc.GraphClustering(2, n_init=2).fit([sc.Graph.from_edges(two)] * 2).labels_.shape == (12,)
        pair = sc.GraphClustering(2, n_init=2).fit((sc.Graph.from_edges(two).adjacency, np.eye(6)[:, :5]))
    assert labels[:3].tolist() == [labels[0]] * 3 != labels[3:].tolist()
    assert (pair.labels_.shape, pair.n_features_in_) == ((6,), 5)
    for wrong, words in (([], "empty list"), ("", "path"), ([[0, 1], [1, 0]], "may be a matrix or edges")):
        with pytest.raises(SoftcutError, match=words):
            sc.GraphClustering(2).fit(wrong)
    pytest.importorskip("torch_geometric")
    np.testing.assert_array_equal(fitted.predict(graph.to_pyg()), fitted.labels_)


def test_weights_count_and_their_unit_does_not(graph):
    y = np.repeat([0, 1], 20)
    blocks = np.where(y[:, None] == y, 20.0, 1.0)  # all edges present: weight 20 within, 1 between
    np.fill_diagonal(blocks, 0)
    est = sc.GraphClustering(2).fit(blocks)
    assert normalized_mutual_info_score(y, est.labels_) == 1 and est.agreement_ > 0.99
    np.testing.assert_array_equal(sc.GraphClustering(2).fit_predict(blocks * 2.0**70), est.labels_)
    rng = np.random.default_rng(0)
    weighted = sp.csr_array(graph.adjacency.astype(np.float64))
    upper = sp.triu(weighted).tocsr()
    upper.data *= rng.uniform(0.5, 2, upper.nnz)
    weighted = sp.csr_array(upper + upper.T)
    est = sc.GraphClustering(3, n_init=4, recipe=Recipe(distances=(0,)))
    one, huge = (est.fit_predict(sp.csr_array(weighted * unit), graph.x) for unit in (1, 1e200))
    assert adjusted_rand_score(one, huge) > 0.99


def test_a_large_graph_is_clustered_as_well_and_predicted_the_same():
    graph = attributed_communities(400, 3, average_degree=12, n_features=60, edge_signal=0.85, seed=0)
    recipe = Recipe(large=200, networks=6, iterations=60)
    est = sc.GraphClustering(3, recipe=recipe).fit(graph)
    assert normalized_mutual_info_score(graph.y, est.labels_) > 0.85
    np.testing.assert_array_equal(est.predict(graph), est.labels_)
    assert "consensus found on 200 of 400 nodes; the others join the nearest centre." in est.notes_
    again = sc.GraphClustering(3, recipe=recipe).fit(graph)
    np.testing.assert_array_equal(again.soft_, est.soft_)
    moving = (np.diff(est.history_["cut"], axis=0) != 0).sum(0)
    assert len(set(moving.tolist())) > 1, "networks stop at different times"


@pytest.mark.parametrize("columns", [1, 2])
def test_a_few_columns_of_noise_do_not_hide_communities(columns):
    rng = np.random.default_rng(0)
    y = np.repeat(range(3), 30)
    edges = np.triu(rng.random((90, 90)) < np.where(y[:, None] == y, 0.3, 0.02), 1)
    x = rng.normal(40, 10, (90, columns))
    est = sc.GraphClustering(3, n_init=12).fit(sp.csr_array((edges + edges.T).astype(float)), x)
    assert adjusted_rand_score(y, est.labels_) > 0.9
    assert any(note.startswith("the features say nothing about these clusters") for note in est.notes_)


# ------------------------------------------------------------------------------------------ edges alone


def test_without_features_clusters_come_from_the_edges(graph):
    bare = graph.with_features(None).subgraph(np.diff(graph.adjacency.indptr) > 0)
    same = bare.with_features(np.ones((bare.num_nodes, 2)))
    for given, why in ((bare, "no features were given"), (same, "all nodes")):
        est = sc.GraphClustering(3, random_state=7).fit(given)
        assert est.notes_[0].startswith(f"the clusters come from the edges alone: {why}")
        assert adjusted_rand_score(bare.y, est.labels_) > 0.8
        labels = FixedNumber(Network(bare.adjacency), [3], 7).settled(3)
        order = np.argsort(-np.bincount(labels[:, 0]), kind="stable")
        soft = shares(bare.adjacency, labels[:, 0], 3).toarray()[:, order]
        np.testing.assert_allclose(est.soft_, soft, atol=1e-6)
        assert np.argsort(order)[labels[:, 0]].tolist() == est.labels_.tolist()
        pairs = [adjusted_rand_score(*pair) for pair in itertools.combinations(labels.T.tolist(), 2)]
        assert est.agreement_ == pytest.approx(np.mean(pairs), abs=1e-6)
        assert est.replicas_ == [] and est.history_["cut"].shape == (0, 0) and len(est.weights_) == 0
        assert est.converged_ and not est.interrupted_ and est.n_iter_ == 1


def no_edges(n, **options):
    return sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=n, **options)


@pytest.mark.parametrize("kind", [sc.GraphClustering, sc.MinCutClustering])
@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (no_edges(5), 2),
        (no_edges(5, x=np.eye(5)), 3),
        (no_edges(1), 1),
        (sc.Graph.from_edges([[0], [1]]), 2),
        (sc.Graph.from_edges([[0, 2], [1, 3]]), 2),
        (sc.Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=8, x=np.ones((8, 3))), 3),
        (sc.Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=8, x=np.zeros((8, 3))), 1),
        (sc.Graph.from_dense(np.ones((12, 12)) - np.eye(12)), "auto"),
        (sc.Graph.from_dense(np.zeros((4, 4)), x=np.array([[0.0, 1], [1, 0], [5, 5], [6, 5]])), 2),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_degenerate_graphs_give_labels(graph, k, kind):
    est = kind(k, n_init=3, max_iter=10).fit(graph)
    assert est.labels_.shape == (graph.num_nodes,)
    assert all(np.isfinite(each).all() for each in (est.soft_, est.history_["cut"], est.structure_))
    np.testing.assert_array_equal(est.predict(graph), est.labels_)


def test_a_fit_and_a_prediction_encode_the_graph_once(graph, monkeypatch):
    """One projection, one operator, one pass of propagations, one table of agreements; also for several numbers."""
    counts = collections.Counter()

    def count(place, name):
        real = getattr(place, name)

        @functools.wraps(real)
        def wrapped(*args, **kwargs):
            counts[name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(place, name, wrapped)

    once = {"transform": 1, "from_graph": 1, "propagate": 16, "agreement": 1, "assign": 1}
    for place, name in zip((feature_map.FeatureMap, CSR, prepare, networks, ReplicaNet), once, strict=True):
        count(place, name)
    est = sc.GraphClustering(3, n_init=2, max_iter=3).fit(graph)
    assert counts == once
    counts.clear()
    soft = est.predict_proba(graph)
    assert counts == collections.Counter({**once, "agreement": 0})
    np.testing.assert_array_equal(soft, est.predict_proba(graph))
    counts.clear()
    sc.GraphClustering([2, 3], n_init=2, max_iter=3).fit(graph)
    assert counts == once


# --------------------------------------------------------------------------------- progress and interrupts


def test_callbacks_and_interrupt(graph):
    seen = []

    def stop(progress):
        seen.append(progress.iteration)
        if progress.iteration >= 25:
            raise KeyboardInterrupt

    est = sc.GraphClustering(3, n_init=4, callbacks=[stop])
    said = r"^interrupted after 25 iterations; the result is what was learnt until then\.$"
    with pytest.warns(UserWarning, match=said):
        est.fit(graph)
    assert seen[-1] == 25 and est.interrupted_ and est.n_iter_ == 25
    assert est.labels_.shape == (200,)


@pytest.mark.parametrize("features", [True, False])
def test_callbacks_are_told_which_number_of_clusters_is_compared(graph, features, capsys):
    class Told:
        def __init__(self):
            self.numbers = []

        def comparing(self, k, numbers):
            self.numbers.append((k, tuple(numbers)))

        def __call__(self, progress):
            pass

    graph = graph if features else graph.with_features(None)
    told, options = Told(), {"n_init": 2, "max_iter": 3, "verbose": True}
    sc.GraphClustering(range(2, 5), callbacks=[told, lambda progress: None], **options).fit(graph)
    assert told.numbers == [(k, (2, 3, 4)) for k in (2, 3, 4)]
    assert "comparing 2 to 4 clusters: 3" in capsys.readouterr().out.splitlines()
    told.numbers.clear()
    sc.GraphClustering(3, callbacks=[told], **options).fit(graph)
    assert told.numbers == []  # a single number is compared with none


def test_verbose_prints_and_quiet_does_not(graph, capsys):
    sc.GraphClustering(3, n_init=2, max_iter=30).fit(graph)
    assert capsys.readouterr().out == ""
    est = sc.GraphClustering(3, n_init=2, max_iter=30, verbose=True).fit(graph)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == est.notes_[0]
    told = [line for line in lines if line.startswith("iteration")][:2]
    assert [line.split()[1] for line in told] == ["5", "10"], "the first checks"
    cut, ortho = (est.history_[name][9].mean() for name in ("cut", "ortho"))
    assert told[1].endswith(f"of at most 30: mean loss {cut:.4f}, mean orthogonality loss {ortho:.4f}")
