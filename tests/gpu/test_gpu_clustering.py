"""The estimator on a GPU: repeatable, and its models work on any device."""

import numpy as np
import pytest

from softcut.clustering import GraphClustering, MinCutClustering, Recipe
from softcut.datasets import attributed_communities
from softcut.metrics import ari

ESTIMATORS = {
    "default": lambda **more: GraphClustering(4, n_init=8, max_iter=60, **more),
    "mincut": lambda **more: GraphClustering(4, n_init=8, max_iter=60, objective="mincut", **more),
    "best": lambda **more: GraphClustering(4, n_init=4, max_iter=60, recipe=Recipe(select="best"), **more),
    "batches": lambda **more: GraphClustering(4, n_init=4, max_iter=60, batch_size=160, **more),
    "paper": lambda **more: MinCutClustering(4, n_init=3, max_iter=100, **more),
}


def graph(features=True):
    made = attributed_communities(600, 4, edge_signal=0.9, seed=0)
    return made if features else made.with_features(None)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_two_fits_agree_to_the_bit(name, features):
    first, again = (ESTIMATORS[name](device="cuda").fit(graph(features)) for _ in range(2))
    assert first.structure_ == again.structure_
    assert np.array_equal(first.soft_, again.soft_)
    assert np.array_equal(first.history_["cut"], again.history_["cut"])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fitted_model_moves_and_comes_back(name, tmp_path):
    est = ESTIMATORS[name](device="cuda").fit(graph())
    other = attributed_communities(500, 4, edge_signal=0.9, seed=1)
    for data in (graph(), other):
        first = est.predict_proba(data)
        here = est.set_params(device="cpu").predict_proba(data)
        back = est.set_params(device="cuda").predict_proba(data)
        np.testing.assert_allclose(here, first, atol=1e-4)
        np.testing.assert_array_equal(back, first)
    loaded = GraphClustering.load(est.save(tmp_path / "m")).set_params(device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(other), est.predict_proba(other), atol=1e-4)


def test_a_model_of_the_cpu_predicts_on_the_gpu(tmp_path):
    est = ESTIMATORS["default"](device="cpu").fit(graph())
    loaded = GraphClustering.load(est.save(tmp_path / "m")).set_params(device="cuda")
    np.testing.assert_allclose(loaded.predict_proba(graph()), est.soft_, atol=1e-4)


@pytest.mark.parametrize("features", [True, False])
def test_both_devices_find_the_same_clusters(features):
    fits = [GraphClustering(4, device=d, n_init=8).fit(graph(features)) for d in ("cuda", "cpu")]
    assert ari(*(est.labels_ for est in fits)) > 0.9
    assert fits[0].structure_ == pytest.approx(fits[1].structure_, rel=0.1)
    assert fits[0].verdict_ == fits[1].verdict_
