"""The estimator's arguments, by their effect."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

import softcut as sc
from softcut.clustering import settings as module
from softcut.clustering.neighbours import feature_graph
from softcut.clustering.prepare import prepare
from softcut.clustering.settings import resolve, seed_from
from softcut.datasets import attributed_communities


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=150, n_clusters=3, n_features=40, seed=0)


def resolved(graph, **options):
    est = sc.MinCutClustering(**{"n_clusters": 3, **options})
    return resolve(est.get_params(), sc.MinCutClustering.__init__, graph)


def test_auto_is_a_range(graph):
    assert resolved(graph, n_clusters="auto")[0].candidates == tuple(range(2, 13))
    assert resolved(graph, n_clusters=range(2, 21))[0].candidates == tuple(range(2, 21))
    assert resolved(graph, n_clusters=[4, 2, 2])[0].candidates == (2, 4)
    assert resolved(graph, n_clusters=np.int64(5))[0].candidates == (5,)
    three = sc.Graph.from_edges([[0, 1], [1, 2]])
    assert resolved(three, n_clusters="auto")[0].candidates == (2, 3)


def test_random_state_takes_what_scikit_learn_takes():
    assert seed_from(5) == 5
    assert seed_from(np.uint32(5)) == 5
    assert seed_from(None) != seed_from(None)
    for make in (np.random.RandomState, np.random.default_rng):
        assert seed_from(make(3)) == seed_from(make(3)) != seed_from(make(4))
        state = make(3)
        assert seed_from(state) != seed_from(state), "a generator moves on"
    assert seed_from(2**32 - 1) == 2**32 - 1
    for wrong in (2**32, 2**64, -1):
        with pytest.raises(sc.SoftcutError) as caught:
            seed_from(wrong)
        assert (
            str(caught.value)
            == f"random_state must be between 0 and 4294967295 (2**32 - 1, as in NumPy), got {wrong}."
        )


def test_random_state_reaches_the_training(graph):
    first, again, other = (
        sc.MinCutClustering(3, n_init=3, max_iter=10, random_state=seed).fit(graph) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.history_["cut"], again.history_["cut"])
    assert not np.array_equal(first.history_["cut"], other.history_["cut"])
    assert [r.seed for r in first.replicas_] != [r.seed for r in other.replicas_]


def test_estimators_with_generators_can_be_cloned_and_saved(graph, tmp_path):
    est = clone(sc.MinCutClustering(2, n_init=2, max_iter=5, random_state=np.random.RandomState(0)))
    est.fit(graph).save(tmp_path / "m")
    assert sc.MinCutClustering.load(tmp_path / "m").random_state is None


def test_limits_can_be_raised(graph, monkeypatch):
    monkeypatch.setitem(module.LIMITS, "hops", 10)
    with pytest.raises(sc.SoftcutError, match="hops is 11, above the limit of 10"):
        resolved(graph, hops=11)
    monkeypatch.setitem(module.LIMITS, "hops", 11)
    assert resolved(graph, hops=11)[0].hops == 11


def test_arguments_without_effect_are_said(graph):
    assert resolved(graph, n_neighbors=5, feature_graph=False)[1] == [
        "n_neighbors has no effect with feature_graph=False."
    ]
    assert resolved(graph, n_neighbors=5)[1] == []
    est = sc.MinCutClustering(2, n_init=2, max_iter=5, select="best", fusion=0.5).fit(graph)
    assert "fusion has no effect with select='best'." in est.notes_


@pytest.mark.parametrize(
    "options",
    [
        {"hops": 1},
        {"feature_graph": False},
        {"feature_graph": 0.2},
        {"n_neighbors": 3},
        {"fusion": 0.0},
        {"refine": False},
        {"n_components": 5},
        {"hidden": 3},
        {"temperature": 0.3},
        {"ortho_weight": 0.1},
        {"max_iter": 7},
        {"learning_rate": 1e-4},
        {"objective": "ratio_trace"},
        {"init": "random"},
        {"select": "best"},
        {"tol": 10.0},
    ],
    ids=str,
)
def test_every_argument_changes_the_result(graph, options):
    """An option that never reaches the computation leaves the soft assignments as they are."""
    usual = sc.MinCutClustering(3, n_init=3, max_iter=120).fit(graph)
    other = sc.MinCutClustering(**{"n_clusters": 3, "n_init": 3, "max_iter": 120, **options}).fit(graph)
    assert np.abs(usual.soft_ - other.soft_).max() > 1e-6


def test_temperature_below_one_is_harder(graph):
    """Same weights, other temperature: lower is harder."""
    est = sc.MinCutClustering(3, n_init=1, select="best", refine=False, max_iter=20).fit(graph)

    def hardness(temperature):
        est._model.temperature = temperature
        return est.predict_proba(graph).max(1).mean()

    assert hardness(0.2) > hardness(1.0) > hardness(5.0)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_the_weight_of_the_feature_graph(graph, weight):
    """The operator of the cut is sym-norm(A~ + w F~)."""
    settings, _ = resolved(graph, feature_graph=weight, n_neighbors=4)
    prepared = prepare(graph, settings, torch.device("cpu"), lambda text: None)

    def normalised(a):
        scale = a.sum(1).clamp(min=1e-12).rsqrt()
        return scale[:, None] * a * scale

    a = normalised(torch.from_numpy(graph.adjacency.toarray()).double())
    f = normalised(feature_graph(prepared.encoded.x, 4).to_dense().double())
    wanted = a if weight == 0 else normalised(a + weight * f)
    torch.testing.assert_close(prepared.op.to_dense().double(), wanted, rtol=1e-5, atol=1e-6)
