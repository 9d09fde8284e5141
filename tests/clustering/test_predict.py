"""Prediction: the training graph gets its labels back, whatever it was; other graphs by features or by names."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering.model import PlacedModel
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, Note, NotFittedError
from softcut.metrics import evaluate

pytestmark = pytest.mark.filterwarnings("ignore:.*explain less", "ignore:restarts hardly agree")
RNG = np.random.default_rng(0)
WORDS = attributed_communities(90, 3, n_features=40, edge_signal=0.9, feature_signal=0.5, seed=0)
BARE = WORDS.with_features(None)
NUMERIC = WORDS.with_features(RNG.normal(size=(90, 4)) + 3 * np.eye(4)[WORDS.y])
NAMES = [f"n{i}" for i in RNG.permutation(90)]


def named(graph, names=NAMES):
    return sc.Graph.from_scipy(graph.adjacency, x=graph.x, node_names=list(names))


def with_isolated(graph, count):
    """The graph with more nodes that have no edges and no words, half of them at the beginning."""
    first = count // 2
    rest = count - first
    a = sp.block_diag([sp.csr_array((first, first)), graph.adjacency, sp.csr_array((rest, rest))])
    x = None
    if graph.x is not None:
        width = graph.num_features
        x = sp.vstack([sp.csr_array((first, width)), sp.csr_array(graph.x), sp.csr_array((rest, width))])
    return sc.Graph.from_scipy(sp.csr_array(a), x=x)


NOTHING = sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=4)
QUICK = {"n_init": 3, "max_iter": 8}
CASES = {
    "words": (WORDS, {}, "learned"),
    "numeric": (NUMERIC, {}, "learned"),
    "no features": (BARE, {}, "placed"),
    "no features, named": (named(BARE), {}, "placed"),
    "same features": (WORDS.with_features(np.ones((90, 2))), {}, "placed"),
    "isolated": (with_isolated(WORDS, 11), {}, "learned"),
    "isolated, no features": (with_isolated(BARE, 11), {}, "placed"),
    "isolated, several": ([WORDS, with_isolated(WORDS, 11)], {}, "learned"),
    "several": ([WORDS, WORDS.subgraph(range(40))], {}, "learned"),
    "several, no features": ([BARE, BARE.subgraph(range(40))], {}, "learned"),
    "several, one without edges": ([named(BARE), named(NOTHING, NAMES[:4])], {}, "placed"),
    "list of one": ([BARE], {}, "placed"),
    "batches": (WORDS, {"batch_size": 24}, "learned"),
    "metis": (WORDS, {"batch_size": 24, "recipe": Recipe(batch_parts="metis")}, "learned"),
    "large": (WORDS, {"recipe": Recipe(large=60)}, "learned"),
    "best": (WORDS, {"recipe": Recipe(select="best")}, "learned"),
    "not refined": (NUMERIC, {"recipe": Recipe(refine=False)}, "learned"),
    "mincut": (WORDS, {"objective": "mincut"}, "learned"),
    "several numbers": (WORDS, {"n_clusters": [2, 3]}, "learned"),
    "one cluster": (WORDS, {"n_clusters": 1}, "learned"),
    "paper": (WORDS, {"class": sc.MinCutClustering}, "learned"),
    "paper, no features": (BARE, {"class": sc.MinCutClustering}, "placed"),
    "paper, several, no features": ([BARE, BARE], {"class": sc.MinCutClustering}, "learned"),
}
FITTED = {}


def fitted(case):
    if case not in FITTED:
        data, options, _ = CASES[case]
        options = dict(options)
        kind = options.pop("class", sc.GraphClustering)
        FITTED[case] = data, kind(**{"n_clusters": 3, **QUICK, **options}).fit(data)
    return FITTED[case]


def joined(found):
    return np.concatenate(found) if isinstance(found, list) else found


@pytest.mark.parametrize("case", CASES)
def test_the_training_graph_gets_its_labels_also_after_loading(case, tmp_path):
    data, est = fitted(case)
    assert isinstance(est._model, PlacedModel) == (CASES[case][2] == "placed")
    again = sc.GraphClustering.load(est.save(tmp_path / "model"))
    sizes = [g.num_nodes for g in (data if isinstance(data, list) else [data])]
    assert [len(part) for part in again.graph_labels_] == sizes
    assert np.concatenate(again.graph_labels_).tolist() == est.labels_.tolist()
    for model in (est, again):
        np.testing.assert_array_equal(joined(model.predict(data)), est.labels_)
        np.testing.assert_allclose(joined(model.predict_proba(data)), est.soft_, atol=1e-5)
    assert all(isinstance(note, Note) for note in est.notes_)
    np.testing.assert_allclose(est.soft_.sum(1), 1, atol=1e-5)
    placed = est.labels_ >= 0
    np.testing.assert_array_equal(est.soft_.argmax(1)[placed], est.labels_[placed])
    if "isolated" not in case and "edges" not in case:
        assert (np.diff(np.bincount(est.labels_[placed])) <= 0).all(), "clusters are numbered by size"


@pytest.mark.parametrize("case", ["words", "numeric", "no features, named", "isolated", "batches", "paper"])
def test_permuted_nodes_are_recognised_by_features_or_names(case, tmp_path):
    data, est = fitted(case)
    order = np.random.default_rng(1).permutation(data.num_nodes)
    soft = sc.GraphClustering.load(est.save(tmp_path / "m")).predict_proba(data.subgraph(order))
    np.testing.assert_allclose(soft, est.soft_[order], atol=2e-4)


def test_graphs_of_one_kind_are_clustered_by_one_function():
    parts = [WORDS.subgraph(range(0, 90, 2)), WORDS.subgraph(range(1, 90, 2))]
    est = sc.GraphClustering(3, n_init=6).fit(parts)
    names = [np.bincount(parts[0].y[est.graph_labels_[0] == c], minlength=3).argmax() for c in range(3)]
    assert (np.take(names, est.graph_labels_[1]) == parts[1].y).mean() > 0.7
    np.testing.assert_array_equal(est.predict(parts[0]), est.predict(parts)[0])
    big = attributed_communities(n_nodes=600, n_clusters=4, n_features=100, edge_signal=0.8, seed=3)
    small = big.subgraph(np.sort(np.random.default_rng(0).choice(600, 400, replace=False)))
    est = sc.GraphClustering(4, n_init=6).fit(small)
    assert adjusted_rand_score(big.y, est.predict(big)) > 0.6


def test_nodes_that_say_nothing_change_nothing_for_the_others():
    for graph, case in ((WORDS, "isolated"), (BARE, "isolated, no features")):
        _, est = fitted(case)
        usual = sc.GraphClustering(3, **QUICK).fit(graph)
        silent = np.r_[np.ones(5, bool), np.zeros(90, bool), np.ones(6, bool)]
        np.testing.assert_array_equal(est.labels_[~silent], usual.labels_)
        np.testing.assert_allclose(est.soft_[silent], 1 / 3)
        assert (est.labels_[silent] == -1).all()
        count = 11 + int((np.diff(graph.adjacency.indptr) == 0).sum()) * (case != "isolated")
        said = f"{count} of 101 nodes have neither edges nor features: they were left out"
        assert any(note.startswith(said) for note in est.notes_), est.notes_


def test_nodes_with_neither_edges_nor_features_have_no_cluster():
    """In Python -1 with equal probabilities, whether a model learned a function or the places of nodes."""
    for graph, case in ((WORDS, "isolated"), (BARE, "isolated, no features")):
        data, est = fitted(case)
        assert set(est.labels_) == {-1, 0, 1, 2}
        usual = sc.GraphClustering(3, **QUICK).fit(graph)
        kept = usual.labels_ >= 0
        scores = evaluate(graph.subgraph(kept), usual.labels_[kept], k=3)
        assert evaluate(data, est.labels_, k=3).items() <= scores.items(), "the data has no classes"
    silent = sc.Graph.from_edges(np.zeros((2, 0), int), x=np.zeros((2, WORDS.num_features)))
    _, est = fitted("isolated")
    assert est.predict(silent).tolist() == [-1, -1]
    np.testing.assert_allclose(est.predict_proba(silent), 1 / 3)
    with pytest.warns(UserWarning, match="no node has an edge or a feature"):
        nothing = sc.GraphClustering(2).fit(sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=4))
    assert nothing.labels_.tolist() == [-1] * 4
    np.testing.assert_allclose(nothing.soft_, 0.5)
    assert evaluate(np.zeros((4, 4)), nothing.labels_)["clusters_used"] == 0


def test_a_node_that_had_no_edges_follows_its_neighbours_once_it_has_some():
    names = [f"n{i}" for i in range(91)]
    lonely = named(with_isolated(BARE, 1), names)
    est = sc.GraphClustering(3, **QUICK).fit(lonely)
    alone = int(np.flatnonzero(est.labels_ == -1)[0])
    friend = int(np.flatnonzero(est.labels_ == 1)[0])
    adjacency = lonely.adjacency.tolil()
    adjacency[alone, friend] = adjacency[friend, alone] = 1
    joined_up = sc.Graph(sp.csr_array(adjacency), node_names=names)
    assert est.predict(joined_up)[alone] == 1
    assert (np.delete(est.predict(joined_up), alone) == np.delete(est.labels_, alone)).all()


# --------------------------------------------------------------------------------------- graphs without features


def test_another_graph_without_features_is_refused():
    other = attributed_communities(n_nodes=90, n_clusters=3, n_features=0, seed=5)
    unequal = sp.diags_array(1.0 + np.arange(90) % 2)
    weighted = sc.Graph.from_scipy(sp.csr_array(unequal @ BARE.adjacency @ unequal))
    larger = with_isolated(BARE, 1)
    strangers = named(other, [f"other{i}" for i in range(90)])
    for case, graphs in (
        ("no features", [other, weighted, larger, BARE.subgraph(np.arange(90)[::-1])]),
        ("no features, named", [other, strangers]),
        ("paper, no features", [other]),
        ("same features", [other]),
    ):
        _, est = fitted(case)
        for graph in graphs:
            with pytest.raises(GraphError) as caught:
                est.predict(graph)
            assert str(caught.value) == (
                "graph is not the one the model was fitted on, which had no features: its clusters say where nodes "
                "are in that graph and mean nothing in another; give both graphs features, give nodes the names they "
                "had, or fit this graph."
            )
    _, est = fitted("no features, named")
    np.testing.assert_array_equal(est.predict(BARE), est.labels_)  # the same graph without its names
    np.testing.assert_array_equal(est.predict(named(BARE, strangers.node_names)), est.labels_)


def test_new_nodes_follow_their_neighbours():
    """A known node keeps its cluster; new ones get the mean of their neighbours, by weight, step by step."""
    soft = np.array([[0.9, 0.1], [0.2, 0.8]], dtype=np.float32)
    one_level = np.arange(2)[None]
    model = PlacedModel(sp.csr_array(soft), one_level, 0, ["a", "b"], "-")
    names = ["x", "b", "y", "a", "far", "lost"]
    a = np.zeros((6, 6))
    for u, v, w in ((0, 1, 1.0), (0, 3, 3.0), (2, 1, 2.0), (4, 2, 1.0), (1, 3, 9.0)):
        a[u, v] = a[v, u] = w
    graph = sc.Graph.from_scipy(sp.csr_array(a), node_names=names)
    found, unknown = model.apply(graph, None)
    assert unknown.tolist() == [False] * 5 + [True]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[[1, 3]], soft[[1, 0]], atol=1e-6)
    np.testing.assert_allclose(found[0], 0.25 * soft[1] + 0.75 * soft[0], atol=1e-4)
    np.testing.assert_allclose(found[[2, 4]], soft[[1, 1]], atol=1e-4)
    np.testing.assert_allclose(found[5], 0.5)
    assert model.apply(graph.subgraph([1, 3]), None)[0].tolist() == soft[[1, 0]].tolist()
    one = PlacedModel(sp.csr_array([[0.7, 0.3]]), one_level, 0, ["0"], "-")
    path = sc.Graph.from_edges([range(150), range(1, 151)], node_names=[str(i) for i in range(151)])
    soft = one.apply(path, None)[0]
    np.testing.assert_allclose(soft[:101], [[0.7, 0.3]] * 101, atol=1e-6)
    np.testing.assert_allclose(soft[101:], 0.5)


# ------------------------------------------------------------------------------------------------- the function


def test_the_papers_network_is_equation_1():
    """softmax(elu(A~ X W_1 + X W_2 + b) W_3 + c), with rows of X that sum to one."""
    _, est = fitted("paper")
    net = est._model.net
    assert (net.terms, net.hidden, net.replicas) == (2, 16, 1)
    assert est._model.consensus is None and est._model.refiner is None
    assert est.n_iter_ == 8 and len(est.replicas_) == 3
    a = WORDS.adjacency.toarray().astype(float)
    degree = a.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    x = rows_that_sum_to_one(WORDS).toarray()
    near, own = (part[0].detach().numpy().T for part in net.first)
    hidden = scale[:, None] * a * scale @ x @ near + x @ own + net.bias[0].detach().numpy()
    hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
    logits = hidden @ net.second[0].detach().numpy().T + net.second_bias[0].detach().numpy()
    soft = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(est.soft_, soft[:, est._model.order], atol=1e-5)


def test_features_the_model_does_not_know_are_refused():
    _, est = fitted("words")
    with pytest.raises(GraphError, match="graph has no features but the model was fitted with some"):
        est.predict(BARE)
    with pytest.raises(GraphError, match="the graph has 2 features but the model was fitted with 40"):
        est.predict(WORDS.with_features(np.random.default_rng(0).normal(size=(90, 2))))
    _, several = fitted("several, no features")  # local structure takes the place of features
    assert any("degrees in the neighbourhood" in note for note in several.notes_)
    unseen = attributed_communities(70, 2, n_features=30, seed=5)
    bare = several.predict_proba(unseen.with_features(None))
    np.testing.assert_array_equal(several.predict_proba(unseen), bare)
    for method in ("predict", "predict_proba", "transform"):
        with pytest.raises(NotFittedError, match="this GraphClustering is not fitted yet; call fit first"):
            getattr(sc.GraphClustering(3), method)(WORDS)
    with pytest.raises(NotFittedError, match="this MinCutClustering is not fitted"):
        sc.MinCutClustering(3).save("nowhere")
