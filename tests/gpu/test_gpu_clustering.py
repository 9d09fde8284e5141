"""The estimator on a GPU: repeatable, and its models work on any device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from softcut.clustering import MinCutClustering
from softcut.datasets import attributed_communities
from softcut.metrics import ari

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SETTINGS = {
    "default": {"n_init": 8, "max_iter": 60},
    "best": {"n_init": 4, "max_iter": 60, "select": "best"},
    "paper": {"preset": "paper", "n_init": 3, "max_iter": 100},
}


def graph(features=True):
    made = attributed_communities(600, 4, edge_signal=0.9, seed=0)
    return made if features else made.with_features(None)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("settings", SETTINGS)
def test_two_fits_agree_to_the_bit(settings, features):
    first, again = (
        MinCutClustering(4, device="cuda", **SETTINGS[settings]).fit(graph(features)) for _ in range(2)
    )
    assert np.array_equal(first.soft_, again.soft_)
    assert np.array_equal(first.history_["cut"], again.history_["cut"])


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_fitted_model_moves_and_comes_back(settings, tmp_path):
    est = MinCutClustering(4, device="cuda", **SETTINGS[settings]).fit(graph())
    other = attributed_communities(500, 4, edge_signal=0.9, seed=1)
    for data in (graph(), other):
        first = est.predict_proba(data)
        here = est.set_params(device="cpu").predict_proba(data)
        back = est.set_params(device="cuda").predict_proba(data)
        np.testing.assert_allclose(here, first, atol=1e-4)
        np.testing.assert_array_equal(back, first)
    loaded = MinCutClustering.load(est.save(tmp_path / "m")).set_params(device="cpu")
    np.testing.assert_allclose(loaded.predict_proba(other), est.predict_proba(other), atol=1e-4)


def test_a_model_of_the_cpu_predicts_on_the_gpu(tmp_path):
    est = MinCutClustering(4, device="cpu", **SETTINGS["default"]).fit(graph())
    loaded = MinCutClustering.load(est.save(tmp_path / "m")).set_params(device="cuda")
    np.testing.assert_allclose(loaded.predict_proba(graph()), est.soft_, atol=1e-4)


def test_both_devices_find_the_same_clusters():
    found = [MinCutClustering(4, device=d, n_init=8).fit_predict(graph()) for d in ("cuda", "cpu")]
    assert ari(*found) > 0.9
