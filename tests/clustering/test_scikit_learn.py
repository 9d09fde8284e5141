"""scikit-learn's own contract: tags, transform, pipelines, feature names, and its checks of estimators."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

import softcut as sc
from softcut.clustering import Recipe
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, NotFittedError
from softcut.metrics import evidence

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("SCIPY_ARRAY_API", "1")  # scikit-learn 1.6 asks for it where array-api-compat is installed
    from sklearn.utils.estimator_checks import parametrize_with_checks

# Checks that cannot apply, each with the reason.
NOT_APPLICABLE = {
    "check_complex_data": "refused with softcut's own sentence",
    "check_dtype_object": "refused with softcut's own sentence",
    "check_estimators_nan_inf": "refused with softcut's own sentence",
    "check_estimators_empty_data_messages": "refused with softcut's own sentence",
    "check_estimator_sparse_array": "its random matrices are not square",
    "check_estimator_sparse_matrix": "its random matrices are not square",
    "check_n_features_in_after_fitting": "features are counted in X, not in the columns of the adjacency",
    "check_n_features_in": "features are counted in X, not in the columns of the adjacency",
    "check_methods_subset_invariance": "half of an adjacency matrix is another graph",
    "check_methods_sample_order_invariance": "rows of an adjacency cannot be exchanged without its columns",
    "check_transformer_data_not_an_array": "it transforms parts of the matrix",
    "check_clustering": "it clusters points, not graphs",
    "check_positive_only_tag_during_fit": "refused with softcut's own sentence",
    "check_fit_score_takes_y": "the second argument is X, the node features; y is the third",
    "check_transformer_preserve_dtypes": "soft assignments have the precision of the networks, float32",
    "check_fit_idempotent": "it predicts some rows of the matrix",
    "check_fit2d_predict1d": "refused with softcut's own sentence",
}


@parametrize_with_checks(
    [sc.GraphClustering(2, n_init=2, max_iter=5), sc.MinCutClustering(2, n_init=1, max_iter=2)],
    expected_failed_checks=lambda estimator: NOT_APPLICABLE,
)
@pytest.mark.filterwarnings("ignore")
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=30, edge_signal=0.9, seed=0)


def test_parameters_and_tags():
    est = sc.GraphClustering(4, n_init=3, recipe=Recipe(width=0.1))
    params = est.get_params()
    assert set(params) == {
        *("n_clusters", "objective", "n_init", "max_iter", "learning_rate", "batch_size"),
        *("random_state", "device", "verbose", "callbacks", "recipe"),
        *("scale", "min_size", "max_size", "pattern", "use"),
    }
    assert (params["n_clusters"], params["recipe"]) == (4, Recipe(width=0.1))
    copy = clone(est).set_params(n_clusters=5)
    assert (copy.n_clusters, est.n_clusters, copy.recipe) == (5, 4, est.recipe)
    paper = sc.MinCutClustering(4, n_init=3)
    only = {"objective", "batch_size", "recipe", "scale", "min_size", "max_size", "pattern", "use"}
    assert set(params) - set(paper.get_params()) == only
    assert sc.GraphClustering().n_clusters is None and sc.MinCutClustering().n_clusters == 8
    assert isinstance(paper, sc.GraphClustering) and clone(paper).get_params() == paper.get_params()
    assert repr(paper) == "MinCutClustering(n_clusters=4, n_init=3)"
    with pytest.raises(TypeError):
        sc.MinCutClustering(4, objective="evidence")
    tags = get_tags(sc.GraphClustering())
    assert tags.input_tags.pairwise and tags.input_tags.sparse and tags.input_tags.positive_only
    assert tags.estimator_type == "clusterer"


def test_transform_is_the_soft_assignment(graph):
    est = sc.GraphClustering(3, n_init=3, max_iter=20)
    soft, names = est.fit_transform(graph), [f"graphclustering{j}" for j in range(3)]
    np.testing.assert_allclose(est.transform(graph), soft, atol=1e-6)
    assert est.get_feature_names_out().tolist() == names
    pytest.importorskip("pandas")
    assert list(est.set_output(transform="pandas").transform(graph).columns) == names


def test_a_pipeline_passes_y_and_it_is_not_taken_for_features(graph):
    pipeline = make_pipeline(FunctionTransformer(), sc.GraphClustering(3, n_init=2, max_iter=10))
    with pytest.warns(UserWarning, match="taken for y"):
        labels = pipeline.fit_predict(graph.adjacency, graph.y)
    alone = sc.GraphClustering(3, n_init=2, max_iter=10).fit(graph.adjacency)
    np.testing.assert_array_equal(labels, alone.labels_)
    with pytest.warns(UserWarning, match="taken for y"):
        est = sc.GraphClustering(3, n_init=2, max_iter=10).fit(graph.adjacency, graph.y)
    assert any("taken for y" in note for note in est.notes_)
    for feature in (graph.x[:, 0], graph.x[:, 0].toarray(), graph.x[:, 0].toarray().tolist()):  # not dropped
        with pytest.raises(GraphError, match=r"x has shape \(120,\).*x.reshape\(-1, 1\)"):
            est.fit(graph.adjacency, feature)


def test_score_is_the_evidence_of_what_is_predicted(graph):
    est = sc.GraphClustering(3, n_init=2, max_iter=10).fit(graph)
    value = evidence(graph, est.labels_)
    assert est.score(graph) == est.score(graph, y=graph.y) == pytest.approx(value)
    assert est.score(graph.adjacency, graph.x) == pytest.approx(value)
    several = sc.GraphClustering(3, n_init=2, max_iter=10).fit([graph, graph])
    assert several.score([graph, graph]) == pytest.approx(
        evidence(sc.Graph.batch([graph, graph]), several.labels_)
    )
    with pytest.raises(NotFittedError):
        sc.GraphClustering().score(graph)


def test_nodes_without_a_cluster_do_not_count_in_the_score(graph, monkeypatch):
    est = sc.GraphClustering(3, n_init=2, max_iter=10).fit(graph)
    some = np.where(np.arange(120) < 10, -1, est.labels_)
    monkeypatch.setattr(est, "predict", lambda graph: some)
    rest = np.arange(10, 120)
    assert est.score(graph) == pytest.approx(evidence(graph.subgraph(rest), some[rest]))


@pytest.mark.parametrize("form", ["graph", "matrix", "pipeline"])
def test_a_search_compares_numbers_of_clusters(graph, form):
    data, nodes = graph if form == "graph" else graph.adjacency, np.arange(graph.num_nodes)
    est = sc.GraphClustering(n_init=2, max_iter=20)
    if form == "pipeline":
        est = make_pipeline(FunctionTransformer(), est)
    name = "graphclustering__n_clusters" if form == "pipeline" else "n_clusters"
    search = GridSearchCV(est, {name: [3, 6, 8]}, cv=[(nodes, nodes)], error_score="raise").fit(data)
    each = [clone(est).set_params(**{name: k}).fit(data).score(data) for k in (3, 6, 8)]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], each)
    assert search.best_params_ == {name: 3} and search.score(data) == pytest.approx(each[0])
    np.testing.assert_array_equal(search.predict(data), search.best_estimator_.predict(data))


def test_names_of_the_training_nodes(graph):
    names = [f"n{i}" for i in range(120)]
    called = sc.Graph.from_scipy(graph.adjacency, x=graph.x, node_names=names)
    est = sc.GraphClustering(3, n_init=2, max_iter=10).fit(called)
    assert est.node_names_.tolist() == names
    assert est.fit(graph).node_names_.tolist() == list(range(120))


def named(graph, order):
    dense = graph.x.toarray() if sp.issparse(graph.x) else np.asarray(graph.x)
    names = [f"w{j}" for j in order]
    return graph.with_features(dense[:, order], feature_names=names)


def test_features_are_matched_by_name(graph, tmp_path):
    order = np.arange(30)
    est = sc.GraphClustering(3, n_init=3, max_iter=30).fit(named(graph, order))
    assert est.feature_names_in_.tolist() == [f"w{j}" for j in range(30)]
    for model in (est, sc.GraphClustering.load(est.save(tmp_path / "m"))):
        np.testing.assert_array_equal(model.predict(named(graph, order[::-1])), est.labels_)
        with pytest.raises(GraphError, match=r"missing: 'w0'"):
            model.predict(named(graph, order[1:]))
        names = ["other", *(f"w{j}" for j in range(1, 30))]
        other = graph.with_features(named(graph, order).x, feature_names=names)
        with pytest.raises(GraphError, match=r"missing: 'w0'; not known: 'other'"):
            model.predict(other)
        with pytest.warns(UserWarning, match="have no names") as caught:
            model.predict_proba(graph)
        assert caught[0].filename == __file__
    assert not hasattr(est.fit(graph), "feature_names_in_")
