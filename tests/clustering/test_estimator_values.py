"""Settings at their boundaries, and what the estimator says about its result."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import estimator, prepare
from softcut.clustering.encoder import Encoded
from softcut.clustering.fit import Merged, Selected
from softcut.clustering.prepare import Prepared
from softcut.clustering.replicas import Replica
from softcut.clustering.settings import LIMITS, PRESETS, Preset, Settings, resolve
from softcut.datasets import attributed_communities


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=0)


def settings_of(graph, **options):
    est = sc.MinCutClustering(**{"n_clusters": 3, **options})
    return resolve(est.get_params(), sc.MinCutClustering.__init__, graph)[0]


def prepared_of(graph, settings, notes=None):
    return prepare.prepare(graph, settings, torch.device("cpu"), (notes if notes is not None else []).append)


def test_the_presets_are_the_documented_ones(graph):
    usual = settings_of(graph)
    assert (usual.n_init, usual.select, usual.hidden, usual.paper, usual.warm) == (
        48,
        "consensus",
        16,
        False,
        True,
    )
    assert (usual.feature_graph, usual.n_neighbors, usual.fusion) == (1.0, 15, 1.0)
    assert (usual.refine, usual.n_components, usual.hops, usual.temperature, usual.seed) == (
        True,
        64,
        None,
        1.0,
        0,
    )
    train = usual.train
    assert (train.iterations, train.lr, train.tolerance, train.ortho_weight) == (200, 1e-2, 1e-3, 2.0)
    paper = settings_of(graph, preset="paper")
    assert (paper.n_init, paper.select, paper.hidden, paper.paper, paper.warm) == (
        10,
        "best",
        16,
        True,
        False,
    )
    assert (paper.feature_graph, paper.fusion, paper.refine, paper.hops) == (0.0, 0.0, False, 0)
    train = paper.train
    assert (train.iterations, train.lr, train.tolerance, train.ortho_weight) == (10_000, 5e-4, None, 1.0)
    assert set(PRESETS) == {"default", "paper"}


def test_eight_clusters_unless_told_otherwise(graph):
    est = sc.MinCutClustering(n_init=1, max_iter=2).fit(graph)
    assert est.n_clusters_ == est.soft_.shape[1] == 8


@pytest.mark.parametrize("kind", [Preset, Settings, Encoded, Prepared, Selected, Merged, Replica])
def test_parts_of_a_fit_are_not_changed_by_later_parts(kind):
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(object.__new__(kind), field.name, None)


def test_the_limits_are_the_documented_ones():
    assert LIMITS == {
        "n_clusters": 10_000, "n_init": 10_000, "hops": 1_000, "n_neighbors": 10_000, "n_components": 10_000,
        "hidden": 10_000, "max_iter": 10_000_000,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["n_init", "hops", "n_neighbors", "n_components", "hidden", "max_iter"])
def test_a_limit_itself_is_accepted(graph, name):
    settings_of(graph, **{name: LIMITS[name]})
    with pytest.raises(sc.SoftcutError, match=f"{name} is {LIMITS[name] + 1}, above the limit"):
        settings_of(graph, **{name: LIMITS[name] + 1})


@pytest.mark.parametrize(
    ("name", "least"), [("n_init", 1), ("hops", 0), ("n_neighbors", 1), ("hidden", 1), ("max_iter", 1)]
)
def test_the_least_value_is_accepted(graph, name, least):
    settings = settings_of(graph, **{name: least})
    assert (settings.train.iterations if name == "max_iter" else getattr(settings, name)) == least
    with pytest.raises(sc.SoftcutError, match=f"{name} must be a whole number of at least {least}"):
        settings_of(graph, **{name: least - 1})


@pytest.mark.parametrize("name", ["fusion", "ortho_weight", "tol", "feature_graph"])
def test_zero_is_accepted_where_it_means_something(graph, name):
    settings_of(graph, **{name: 0})
    for bad in (-1e-9, np.nan, np.inf):
        with pytest.raises(sc.SoftcutError, match=f"{name} must be .*a non-negative number"):
            settings_of(graph, **{name: bad})


@pytest.mark.parametrize("name", ["temperature", "learning_rate"])
def test_zero_is_refused_where_it_means_nothing(graph, name):
    settings_of(graph, **{name: 1e-3})
    for bad in (0, 0.0, -1.0, True):
        with pytest.raises(sc.SoftcutError, match=f"{name} must be a positive number"):
            settings_of(graph, **{name: bad})


@pytest.mark.parametrize(
    ("name", "value"),
    [("hops", 2), ("feature_graph", False), ("init", "random"), ("n_neighbors", 3), ("fusion", 0.5),
     ("refine", False), ("n_components", 5)],
)  # fmt: skip
def test_what_the_paper_does_not_have_is_refused(graph, name, value):
    with pytest.raises(sc.SoftcutError, match=f"{name} has no effect with preset='paper'"):
        settings_of(graph, preset="paper", **{name: value})


def test_as_many_clusters_as_nodes(graph):
    assert settings_of(graph, n_clusters=120).candidates == (120,)
    assert settings_of(graph, n_clusters=1).candidates == (1,)
    with pytest.raises(sc.SoftcutError, match="n_clusters is 121 but the graph has only 120 nodes"):
        settings_of(graph, n_clusters=[2, 121])
    one = sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=1)
    assert settings_of(one, n_clusters="auto").candidates == (1,)


def test_progress_is_printed_every_hundred_iterations_and_at_the_end(capsys):
    for iteration in (25, 100, 101, 200, 210):
        losses = np.array([-0.5, -0.7])
        estimator._print_progress(
            SimpleNamespace(iteration=iteration, iterations=210, cut=losses, ortho=-losses)
        )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["100", "200", "210"]
    assert lines[0].endswith("mean cut loss -0.6000, mean orthogonality loss 0.6000")


@pytest.mark.parametrize(
    ("labels", "found", "agreement", "replicas", "words"),
    [
        ([0, 1, 2], True, 0.5, 4, []),
        ([0, 1, 2], True, 0.1, 4, []),
        ([0, 1, 2], True, 0.09, 4, ["restarts hardly agree (mean adjusted Rand index 0.09)"]),
        ([0, 1, 2], True, 0.0, 1, []),
        ([0, 1, 1], True, 0.5, 4, ["only 2 of 3 clusters are used"]),
        (
            [0, 0, 0],
            False,
            0.0,
            4,
            ["no clustering into 3 was found: every restart left clusters empty, and 1 is"],
        ),
        (
            [0, 1, 1],
            False,
            0.0,
            4,
            ["no clustering into 3 was found: every restart left clusters empty, and 2 are"],
        ),
    ],
)
def test_what_speaks_against_a_result(labels, found, agreement, replicas, words):
    est = sc.MinCutClustering(3)
    est.labels_, est.n_clusters_, est.interrupted_ = np.array(labels), 3, False
    est.agreement_, est.replicas_ = agreement, [None] * replicas
    doubts = est._doubts(found)
    assert len(doubts) == len(words)
    for doubt, start in zip(doubts, words, strict=True):
        assert doubt.startswith(start)


def test_silent_nodes_get_the_same_probability_for_every_cluster(graph):
    x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    a = sp.block_diag([graph.adjacency, sp.csr_array((2, 2))], format="csr")
    wider = sc.Graph.from_scipy(sp.csr_array(a), x=np.concatenate([x, np.zeros((2, x.shape[1]))]))
    est = sc.MinCutClustering(3, n_init=3, max_iter=10).fit(wider)
    plain = sc.MinCutClustering(3, n_init=3, max_iter=10).fit(graph.with_features(x))
    np.testing.assert_allclose(est.soft_[:120], plain.soft_, atol=1e-6)
    np.testing.assert_allclose(est.soft_[120:], 1 / 3)
    assert est.labels_[120:].tolist() == [0, 0]
    np.testing.assert_allclose(est.predict_proba(wider), est.soft_, atol=1e-5)
    assert any("2 of 122 nodes" in note for note in est.notes_)


def test_features_are_matched_by_name(graph):
    x = np.random.default_rng(0).normal(size=(120, 3))
    named = graph.with_features(x, ["a", "b", "c"])
    est = sc.MinCutClustering(3, n_init=2, max_iter=5).fit(named)
    assert est.feature_names_in_.tolist() == ["a", "b", "c"]
    soft = est.predict_proba(named)
    other = graph.with_features(x[:, [2, 0, 1]], ["c", "a", "b"])
    np.testing.assert_allclose(est.predict_proba(other), soft, atol=1e-6)
    for names, columns, words in (
        (["a", "b"], [0, 1], "missing: 'c'"),
        (["a", "b", "c", "d"], [0, 1, 2, 0], "not known: 'd'"),
        (["a", "b", "z"], [0, 1, 2], "missing: 'c'; not known: 'z'"),
    ):
        with pytest.raises(sc.SoftcutError, match=words):
            est.predict(graph.with_features(x[:, columns], names))
    with pytest.warns(UserWarning, match="the features have no names"):
        np.testing.assert_allclose(est.predict_proba(graph.with_features(x)), soft, atol=1e-6)
    est.fit(graph)
    assert not hasattr(est, "feature_names_in_") or graph.feature_names is not None


def test_tags_for_scikit_learn():
    tags = sc.MinCutClustering().__sklearn_tags__().input_tags
    assert tags.pairwise and tags.positive_only and tags.sparse
