"""The estimator: scikit-learn's contract, what it accepts, prediction, storage, errors."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import softcut as sc
from softcut.clustering import PRESETS
from softcut.datasets import attributed_communities, community_graph
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError, SoftcutError


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=300, n_clusters=3, n_features=60, seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return sc.MinCutClustering(3, n_init=8, random_state=0).fit(graph)


def test_finds_planted_communities(graph, fitted):
    assert adjusted_rand_score(graph.y, fitted.labels_) > 0.75
    assert set(fitted.labels_) == {0, 1, 2}
    sizes = np.bincount(fitted.labels_)
    assert (sizes[:-1] >= sizes[1:]).all(), "clusters are numbered by size"


def test_predict_on_the_training_graph_equals_labels(graph, fitted):
    np.testing.assert_array_equal(fitted.predict(graph), fitted.labels_)
    proba = fitted.predict_proba(graph)
    assert proba.shape == (300, 3)
    np.testing.assert_allclose(proba.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(proba.argmax(1), fitted.labels_)


def test_the_same_seed_gives_the_same_result(graph, fitted):
    again = sc.MinCutClustering(3, n_init=8, random_state=0).fit(graph)
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.history_["cut"], fitted.history_["cut"])


def test_adjacency_and_features_as_scikit_learn_users_pass_them(graph, fitted):
    est = sc.MinCutClustering(3, n_init=8, random_state=0)
    np.testing.assert_array_equal(est.fit_predict(graph.adjacency, graph.x), fitted.labels_)
    np.testing.assert_array_equal(est.predict(graph.adjacency, graph.x), fitted.labels_)
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    labels = sc.MinCutClustering(3, n_init=8).fit_predict(graph.adjacency.toarray(), dense)
    assert adjusted_rand_score(labels, fitted.labels_) > 0.9


def test_networkx_and_pyg_graphs(graph):
    import networkx as nx

    labels = sc.MinCutClustering(2, n_init=4).fit_predict(nx.karate_club_graph())
    assert labels.shape == (34,)
    pytest.importorskip("torch_geometric")
    assert sc.MinCutClustering(3, n_init=2, max_iter=5).fit_predict(graph.to_pyg()).shape == (300,)


def test_scikit_learn_contract(graph):
    est = sc.MinCutClustering(4, n_init=3, hops=2, fusion=1.0)
    params = est.get_params()
    assert params["n_clusters"] == 4
    assert params["hops"] == 2
    copy = clone(est).set_params(n_clusters=5)
    assert copy.n_clusters == 5
    assert est.n_clusters == 4
    assert not hasattr(copy, "labels_")
    assert est.fit(graph) is est
    assert est.get_params() == params, "fit leaves the parameters alone"
    assert "MinCutClustering" in repr(est)


@pytest.mark.parametrize("select", ["consensus", "best"])
@pytest.mark.parametrize("objective", ["trace_ratio", "ratio_trace"])
def test_selection_and_objective(graph, select, objective):
    est = sc.MinCutClustering(3, n_init=4, select=select, objective=objective).fit(graph)
    assert adjusted_rand_score(graph.y, est.labels_) > 0.7
    np.testing.assert_array_equal(est.predict(graph), est.labels_)


def test_best_takes_the_replica_with_the_lowest_loss(graph):
    est = sc.MinCutClustering(3, n_init=5, select="best").fit(graph)
    assert est._model.net.replicas == 1
    sizes = np.bincount(est.labels_, minlength=3)
    assert (sizes[:-1] >= sizes[1:]).all()
    np.testing.assert_array_equal(est.predict_proba(graph).argmax(1), est.labels_)
    chosen = min((r for r in est.replicas_ if not r.collapsed), key=lambda r: r.loss)
    kept = est._model.net.second[0]
    again = sc.MinCutClustering(3, n_init=5, select="consensus").fit(graph)
    position = [r.seed for r in again.replicas_].index(chosen.seed)
    torch.testing.assert_close(kept, again._model.net.second[position])


def test_paper_preset_is_the_papers_model(graph):
    est = sc.MinCutClustering(3, preset="paper", n_init=2, max_iter=300).fit(graph)
    net = est._model.net
    assert (net.terms, net.hidden, net.replicas) == (2, 16, 1)
    assert est.n_iter_ == 300
    assert PRESETS["paper"].max_iter == 10_000
    assert PRESETS["paper"].learning_rate == 5e-4
    np.testing.assert_array_equal(est.predict(graph), est.labels_)


def test_many_graphs_one_function():
    graphs = [attributed_communities(n_nodes=n, n_clusters=3, n_features=60, seed=0) for n in (150, 200)]
    est = sc.MinCutClustering(3, n_init=4).fit(graphs)
    assert [len(part) for part in est.graph_labels_] == [150, 200]
    assert np.concatenate(est.graph_labels_).tolist() == est.labels_.tolist()
    predicted = est.predict(graphs)
    assert isinstance(predicted, list)
    for got, wanted in zip(predicted, est.graph_labels_, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_predicts_a_larger_graph_of_the_same_kind():
    big = attributed_communities(n_nodes=2000, n_clusters=4, n_features=100, seed=3)
    rng = np.random.default_rng(0)
    small = big.subgraph(np.sort(rng.choice(2000, 1000, replace=False)))
    est = sc.MinCutClustering(4, n_init=8).fit(small)
    assert adjusted_rand_score(big.y, est.predict(big)) > 0.6


def test_no_features_structural_ones_are_made_and_said():
    graph = community_graph().with_features(None)
    est = sc.MinCutClustering(6, n_init=8).fit(graph)
    assert any("structural" in note for note in est.notes_)
    assert adjusted_rand_score(graph.y, est.labels_) > 0.8
    np.testing.assert_array_equal(est.predict(graph), est.labels_)
    with pytest.raises(GraphError, match="fit this one"):
        est.predict(community_graph(seed=1).with_features(None))


def test_many_graphs_without_features_use_local_structure():
    graphs = [community_graph(seed=s).with_features(None) for s in range(2)]
    est = sc.MinCutClustering(2, n_init=2).fit(graphs)
    unseen = community_graph(seed=5).with_features(None)
    assert est.predict(unseen).shape == (unseen.num_nodes,)


def test_auto_number_of_clusters():
    graph = attributed_communities(
        n_nodes=400, n_clusters=4, n_features=80, edge_signal=0.9, feature_signal=0.6, seed=0
    )
    est = sc.MinCutClustering(range(2, 8), n_init=8).fit(graph)
    assert est.n_clusters_ == 4
    assert sorted(est.candidates_) == list(range(2, 8))
    assert any("4 chosen from 2 to 7" in note for note in est.notes_)


def test_weighted_graph_ignores_the_unit_of_its_weights(graph):
    weighted = sp.csr_array(graph.adjacency.astype(np.float64) * 3.0)
    one = sc.MinCutClustering(3, n_init=4, hops=0).fit(weighted, graph.x)
    huge = sc.MinCutClustering(3, n_init=4, hops=0).fit(sp.csr_array(weighted * 1e200), graph.x)
    assert adjusted_rand_score(one.labels_, huge.labels_) > 0.99


# --------------------------------------------------------------------------------------- awkward graphs


@pytest.mark.parametrize(
    ("graph", "k"),
    [
        (sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=5), 2),
        (sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=5, x=np.eye(5)), 3),
        (sc.Graph.from_edges([[0], [1]]), 2),
        (sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=1), 1),
        (sc.Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=8, x=np.ones((8, 3))), 3),
        (sc.Graph.from_edges([[0, 1, 3], [1, 2, 4]], num_nodes=8, x=np.zeros((8, 3))), 1),
    ],
)
def test_degenerate_graphs_give_labels(graph, k):
    est = sc.MinCutClustering(k, n_init=4, max_iter=20).fit(graph)
    assert est.labels_.shape == (graph.num_nodes,)
    assert np.isfinite(est.predict_proba(graph)).all()
    assert np.isfinite(est.history_["cut"]).all()
    np.testing.assert_array_equal(est.predict(graph), est.labels_)


def test_collapsed_replicas_are_reported_and_left_out(graph, monkeypatch):
    """One replica is forced into a single cluster; the consensus must not see it."""
    import softcut.clustering.replicas as module

    real = module.train

    def sabotage(net, *args, **kwargs):
        result = real(net, *args, **kwargs)
        with torch.no_grad():
            net.second[0] = 0
            net.second_bias[0] = torch.tensor([50.0, 0.0, 0.0])
        return result

    monkeypatch.setattr(module, "train", sabotage)
    est = sc.MinCutClustering(3, n_init=4, objective="trace_ratio").fit(graph)
    assert [r.collapsed for r in est.replicas_] == [True, False, False, False]
    assert est.replicas_[0].clusters_used == 1
    assert est._model.net.replicas == 3
    assert any("left out" in note for note in est.notes_)
    assert adjusted_rand_score(graph.y, est.labels_) > 0.75


def test_the_budget_is_kept_and_said(graph, monkeypatch):
    from softcut.clustering import fit, prepare

    monkeypatch.setitem(prepare.BUDGET, "cpu", (300 * 19 * 5, 1))
    monkeypatch.setattr(fit, "CONSENSUS_ROWS", 100)
    est = sc.MinCutClustering(3, n_init=32).fit(graph)
    assert len(est.replicas_) == 5
    for word in ("5 replicas instead of 32", "approximate neighbours", "100 of 300"):
        assert any(word in note for note in est.notes_), word
    np.testing.assert_array_equal(est.predict(graph), est.labels_)


def test_callbacks_and_interrupt(graph):
    seen = []

    def stop(progress):
        seen.append(progress.iteration)
        if progress.iteration >= 50:
            raise KeyboardInterrupt

    est = sc.MinCutClustering(3, n_init=4, callbacks=[stop])
    with pytest.warns(UserWarning, match="interrupted after 50"):
        est.fit(graph)
    assert seen[-1] == 50
    assert est.labels_.shape == (300,)


def test_verbose_prints_and_quiet_does_not(graph, capsys):
    sc.MinCutClustering(2, n_init=2, max_iter=30).fit(graph.with_features(None))
    assert capsys.readouterr().out == ""
    sc.MinCutClustering(2, n_init=2, max_iter=30, verbose=True).fit(graph.with_features(None))
    assert "structural" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------- storage


@pytest.mark.parametrize("kind", ["default", "paper", "best", "structural", "several"])
def test_save_and_load(graph, tmp_path, kind):
    options = {
        "default": {},
        "paper": {"preset": "paper", "max_iter": 20},
        "best": {"select": "best"},
        "structural": {},
        "several": {},
    }[kind]
    data = {"structural": graph.with_features(None), "several": [graph, graph]}.get(kind, graph)
    est = sc.MinCutClustering(3, n_init=4, **options).fit(data)
    path = est.save(tmp_path / "model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.json", "model.safetensors"]
    for name in (path, tmp_path / "model.json", str(tmp_path / "model.safetensors")):
        again = sc.MinCutClustering.load(name)
    for got, wanted in zip(np.atleast_1d(again.predict(data)), np.atleast_1d(est.predict(data)), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(again.labels_, est.labels_)
    assert again.get_params() == est.get_params()
    assert again.replicas_ == est.replicas_


def test_damaged_models_are_one_sentence(fitted, tmp_path):
    path = fitted.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="missing"):
        sc.MinCutClustering.load(tmp_path / "other")
    tensors = (tmp_path / "m.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(tensors[:100])
    with pytest.raises(ModelFileError, match="damaged"):
        sc.MinCutClustering.load(path)
    (tmp_path / "m.safetensors").write_bytes(tensors)
    good = json.loads((tmp_path / "m.json").read_text())
    for change in (
        {"version": 99},
        {"format": "x"},
        {"model": {}},
        {"params": {"evil": 1}},
        {"replicas_": None},
    ):
        (tmp_path / "m.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(ModelFileError):
            sc.MinCutClustering.load(path)
    (tmp_path / "m.json").write_text("{")
    with pytest.raises(ModelFileError, match="damaged"):
        sc.MinCutClustering.load(path)


# ----------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 301}, "fewer clusters"),
        ({"n_clusters": "many"}, "n_clusters"),
        ({"n_clusters": 2.5}, "n_clusters"),
        ({"n_init": 0}, "n_init"),
        ({"select": "vote"}, "select"),
        ({"hops": -1}, "hops"),
        ({"hops": "far"}, "hops"),
        ({"feature_graph": "yes"}, "feature_graph"),
        ({"init": "cold"}, "init"),
        ({"feature_graph": -1.0}, "feature_graph"),
        ({"temperature": 0}, "temperature"),
        ({"objective": "ncut"}, "objective"),
        ({"preset": "fast"}, "preset"),
        ({"device": "abacus"}, "device"),
        ({"random_state": -1}, "random_state"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"fusion": -1.0}, "fusion"),
        ({"n_clusters": range(3, 3)}, "empty range"),
        ({"n_clusters": [2, 400]}, "fewer clusters"),
        ({"select": ""}, "select"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"feature_graph": "auto"}, "feature_graph"),
        ({"refine": 1}, "refine"),
        ({"hops": 10**9}, "hops is 1000000000, above the limit"),
        ({"n_init": 10**9}, "n_init is 1000000000, above the limit"),
        ({"random_state": 2**64}, "random_state"),
        ({"random_state": "zero"}, "random_state"),
        ({"preset": "paper", "hops": 2}, "hops has no effect with preset='paper'"),
        ({"preset": "paper", "feature_graph": False}, "feature_graph has no effect"),
        ({"preset": "paper", "fusion": 0.5}, "fusion has no effect"),
        ({"preset": "paper", "fusion": -1.0}, "non-negative"),
    ],
)
def test_bad_arguments_name_themselves(graph, options, word):
    with pytest.raises(ParameterError, match=word) as caught:
        sc.MinCutClustering(**{"n_clusters": 3, **options}).fit(graph)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).count("\n") == 0


def test_other_errors(graph, fitted):
    with pytest.raises(NotFittedError):
        sc.MinCutClustering(3).predict(graph)
    with pytest.raises(GraphError, match="features"):
        fitted.predict(graph.with_features(np.ones((300, 2))))
    with pytest.raises(GraphError, match="no features"):
        fitted.predict(graph.with_features(None))
    with pytest.raises(GraphError, match="empty list"):
        sc.MinCutClustering(3).fit([])
    with pytest.raises(SoftcutError):
        sc.MinCutClustering(3).fit("not a graph")


def test_import_is_light():
    """`import softcut` must not pull in the heavy, task-specific packages."""
    import subprocess
    import sys

    code = (
        "import sys, softcut; softcut.Graph; softcut.MinCutClustering;"
        "heavy = {'torch_geometric', 'matplotlib', 'numba', 'typer', 'igraph'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_warnings_in_an_ordinary_fit(graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sc.MinCutClustering(3, n_init=2, max_iter=20).fit(graph)


@pytest.mark.parametrize("columns", [1, 2])
def test_a_few_columns_of_noise_do_not_hide_communities(columns):
    rng = np.random.default_rng(0)
    y = np.repeat(range(3), 30)
    edges = np.triu(rng.random((90, 90)) < np.where(y[:, None] == y, 0.3, 0.02), 1)
    x = rng.normal(40, 10, (90, columns))
    est = sc.MinCutClustering(3, device="cpu").fit(sp.csr_array((edges + edges.T).astype(float)), x)
    assert adjusted_rand_score(y, est.labels_) > 0.9
    lost = [r.objective for r in est.replicas_ if r.collapsed]
    assert lost in ([], ["trace_ratio"])  # one of 24 at most, and none of those that are trained again


def test_auto_with_one_replica_still_compares():
    graph = attributed_communities(200, 3, seed=0)
    est = sc.MinCutClustering(range(2, 7), n_init=1, device="cpu").fit(graph)
    assert min(est.candidates_.values()) < 1
    assert est.n_clusters_ < 6
