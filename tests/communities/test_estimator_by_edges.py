"""The estimator by edges: sizes, scales, patterns, weights, kinds of nodes, and rows of numbers."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons
from sklearn.neighbors import NearestNeighbors

import softcut as sc
from softcut.clustering.model import NearestModel, PlacedModel
from softcut.communities.engine import adjusted_rand
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ParameterError
from softcut.metrics import nmi

CAVES = nx.connected_caveman_graph(6, 7)
WORDS = attributed_communities(60, 2, n_features=30, edge_signal=0.9, seed=0)
SAYS_NOTHING = pytest.mark.filterwarnings("ignore:.*ommunities", "ignore:.*no clusters", "ignore:.*not every")


def codes(est):
    return [note.code for note in est.notes_]


def pieces(graph, labels):
    inside = nx.Graph((u, v) for u, v in graph.edges if labels[u] == labels[v])
    inside.add_nodes_from(graph)
    return nx.number_connected_components(inside)


# ---------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize(("smallest", "largest"), [(None, 5), (10, None), (3, 9), (12, 16)])
def test_sizes_of_communities(smallest, largest):
    graph = nx.convert_node_labels_to_integers(nx.planted_partition_graph(6, 20, 0.35, 0.02, seed=0))
    est = sc.GraphClustering(min_size=smallest, max_size=largest).fit(graph)
    assert est.tree_.level.max() >= 0
    for level in range(len(est.levels_.labels)):
        labels = est.labels_at(level)
        sizes = np.bincount(labels)
        assert sizes.max() <= (largest or 120)
        assert pieces(graph, labels) == len(sizes)
        if largest is None:
            assert sizes.min() >= smallest


@SAYS_NOTHING
def test_sizes_of_a_given_number():
    est = sc.GraphClustering(6, min_size=5, max_size=9).fit(CAVES)
    assert np.bincount(est.labels_).tolist() == [7] * 6
    est = sc.GraphClustering(5, min_size=8, max_size=9).fit(CAVES)
    assert sorted(np.bincount(est.labels_)) == [8, 8, 8, 9, 9]


@pytest.mark.parametrize(
    ("options", "graph", "sentence", "argument"),
    [
        ({"min_size": 0}, CAVES, "min_size must be a whole number of at least 1 or None, got 0", "min_size"),
        ({"max_size": 2.5}, CAVES, "max_size must be a whole number of at least 1 or None", "max_size"),
        ({"n_clusters": 6, "min_size": 8}, CAVES, "min_size is 8, but 42 nodes in 6 clusters", "min_size"),
        (
            {"n_clusters": 6, "max_size": 6},
            CAVES,
            "max_size is 6, but 42 nodes in 6 clusters have 7",
            "max_size",
        ),
        ({"scale": 0}, CAVES, "scale must be 'coarse', 'fine', a positive number", "scale"),
        ({"scale": -1.0}, CAVES, "scale must be", "scale"),
        ({"scale": "medium"}, CAVES, "scale must be", "scale"),
        ({"scale": True}, CAVES, "scale must be", "scale"),
        ({"scale": float("inf")}, CAVES, "scale must be", "scale"),
        ({"scale": 1.0, "n_clusters": 3}, CAVES, "scale has no effect beside n_clusters", "scale"),
        ({"pattern": "roles"}, CAVES, "pattern must be 'communities' or 'any', got 'roles'", "pattern"),
        ({"use": "features"}, CAVES, "use must be 'edges' or 'both', got 'features'", "use"),
        ({"scale": 2.0}, WORDS, "scale has no effect where networks are trained.*use='edges'", "scale"),
        ({"min_size": 2}, WORDS, "min_size has no effect where networks are trained", "min_size"),
        ({"max_size": 9}, WORDS, "max_size has no effect where networks are trained", "max_size"),
        ({"n_clusters": 2, "use": "edges"}, [WORDS] * 2, r"use has no effect .* leave it out\.$", "use"),
        ({"pattern": "any"}, WORDS, "pattern has no effect where networks are trained", "pattern"),
    ],
)
def test_what_cannot_be_is_said_before_the_fit(options, graph, sentence, argument):
    with pytest.raises(ParameterError, match=sentence) as caught:
        sc.GraphClustering(**options).fit(graph)
    assert caught.value.argument == argument and "\n" not in str(caught.value)


# ---------------------------------------------------------------------------------------------- scale, pattern, use


def test_a_resolution_that_was_asked_for():
    coarse, fine = (sc.GraphClustering(scale=g).fit(nx.les_miserables_graph()) for g in (0.3, 4))
    assert coarse.n_clusters_ < 6 < fine.n_clusters_
    assert coarse.scales_.resolution[coarse.scales_.chosen] == 0.3
    assert fine.levels_.marks[fine.level_] == 4


@SAYS_NOTHING
def test_a_scale_that_was_asked_for_is_found_in_a_random_graph_too():
    graph = nx.gnm_random_graph(60, 150, seed=0)
    est = sc.GraphClustering(scale=1.0).fit(graph)
    assert est.verdict_ == "none" and est.n_clusters_ > 1
    assert sc.GraphClustering().fit(graph).n_clusters_ == 1


def test_features_may_be_left_alone():
    est = sc.GraphClustering(2, use="edges").fit(WORDS)
    assert isinstance(est._model, PlacedModel) and est.notes_[0].startswith(
        "the clusters come from the edges alone: as asked for"
    )
    np.testing.assert_array_equal(est.labels_, sc.GraphClustering(2).fit(WORDS.with_features(None)).labels_)
    est = sc.GraphClustering(scale=1.0, use="edges", n_init=3, max_iter=7).fit(WORDS)
    told = [note for note in est.notes_ if note.code == "no_effect"]
    assert told == ["no network is trained without features: n_init, max_iter have no effect here."]


@SAYS_NOTHING
def test_two_kinds_of_nodes_are_compared_with_graphs_of_two_kinds():
    rng = np.random.default_rng(0)
    users, items = np.repeat(np.arange(60), 5), rng.integers(0, 40, 300)
    pairs = np.unique(np.stack([users, items + 60]), axis=1)
    kinds = ["user"] * 60 + ["item"] * 40
    est = sc.GraphClustering().fit(sc.Graph.from_edges(pairs, num_nodes=100, node_kinds=kinds))
    assert est.verdict_ == "none" and est.n_clusters_ == 1
    tastes = np.where(rng.random(300) < 0.85, (users % 3) * 13 + rng.integers(0, 13, 300), items)
    pairs = np.unique(np.stack([users, tastes + 60]), axis=1)
    est = sc.GraphClustering().fit(sc.Graph.from_edges(pairs, num_nodes=100, node_kinds=kinds))
    assert est.verdict_ == "clear" and nmi(np.arange(60) % 3, est.labels_[:60]) > 0.8


# ---------------------------------------------------------------------------------------------- weights


@pytest.mark.filterwarnings("ignore:.*explain less")
def test_heavy_tailed_weights_count_by_their_square_root():
    matrix = sp.csr_array(nx.to_scipy_sparse_array(CAVES, dtype=float))
    upper = sp.triu(matrix, format="csr")
    upper.data = np.random.default_rng(0).pareto(1.2, upper.nnz) + 0.1
    heavy = sp.csr_array(upper + upper.T)
    root = heavy.copy()
    root.data = np.sqrt(root.data)
    est = sc.GraphClustering().fit(heavy)
    assert "weights_square_root" in codes(est) and "weights_square_root" not in codes(
        sc.GraphClustering().fit(matrix)
    )
    np.testing.assert_array_equal(est.predict(heavy), est.labels_)
    np.testing.assert_array_equal(sc.GraphClustering().fit(heavy * 1000).labels_, est.labels_)
    said = sc.MinCutClustering(2, n_init=1, max_iter=3).fit(heavy).notes_
    assert not any(note.code == "weights_square_root" for note in said), "the paper's model has no such rule"
    x = np.random.default_rng(0).normal(size=(42, 4)) + np.arange(42)[:, None] // 7
    learned = sc.GraphClustering(6, n_init=4, max_iter=10).fit(heavy, x)
    assert "weights_square_root" in codes(learned)
    np.testing.assert_array_equal(learned.predict(heavy, x), learned.labels_)


# ---------------------------------------------------------------------------------------------- rows of numbers


def test_rows_of_numbers_are_clustered_by_their_edges():
    x, y = make_moons(300, noise=0.05, random_state=0)
    est = sc.GraphClustering(2).fit(sc.Graph.from_features(x))
    assert isinstance(est._model, NearestModel) and nmi(y, est.labels_) > 0.99
    assert "they were made from the features" in est.notes_[0]
    new, classes = make_moons(200, noise=0.05, random_state=1)
    for order in (np.arange(200), np.arange(200)[::-1]):
        labels = est.predict(sc.Graph.from_features(new[order]))
        assert nmi(classes[order], labels) > 0.98
    both = sc.GraphClustering(2, use="both", n_init=4, max_iter=10).fit(sc.Graph.from_features(x))
    assert not isinstance(both._model, NearestModel)


def test_new_rows_get_the_mean_of_their_nearest_rows():
    x, _ = load_iris(return_X_y=True)
    est = sc.GraphClustering().fit(sc.Graph.from_features(x, n_neighbors=8))
    model, new = est._model, np.random.default_rng(0).normal(x.mean(0), x.std(0), (40, 4))
    centre, scale = x.mean(0), x.std(0)
    near = NearestNeighbors(n_neighbors=8).fit((x - centre) / scale).kneighbors((new - centre) / scale)[1]
    np.testing.assert_allclose(model.factor, 1 / scale, rtol=0.2)
    soft = est.predict_proba(sc.Graph.from_features(new, n_neighbors=5))
    plain = est.soft_[near].mean(1)
    assert soft.shape == plain.shape and (soft.argmax(1) == plain.argmax(1)).mean() > 0.9
    np.testing.assert_allclose(soft.sum(1), 1, atol=1e-6)
    some = est.predict_proba(sc.Graph.from_features(x[:50], n_neighbors=5))
    np.testing.assert_allclose(some, est.soft_[:50], atol=1e-6)  # rows of the fit keep their clusters
    with pytest.raises(GraphError, match="the graph has 3 features but the model was fitted with 4"):
        est.predict(sc.Graph.from_features(new[:, :3], n_neighbors=5))


@SAYS_NOTHING
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_noise_have_no_clusters(seed):
    x = np.random.default_rng(seed).normal(size=(200, 4))
    assert sc.GraphClustering().fit(sc.Graph.from_features(x)).verdict_ == "none"


def test_labels_of_a_renumbered_graph():
    order = np.random.default_rng(0).permutation(77)
    matrix = sp.csr_array(nx.to_scipy_sparse_array(nx.les_miserables_graph(), dtype=float))
    usual = sc.GraphClustering().fit(matrix)
    other = sc.GraphClustering().fit(sp.csr_array(matrix[order][:, order]))
    assert usual.deviations_ == pytest.approx(other.deviations_, rel=0.5)
    assert adjusted_rand(usual.labels_[order], other.labels_) > 0.95
