"""A fit encodes its graph once: one projection, one operator, one pass of propagations, one table of agreements."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering import encoder, features, replicas
from softcut.datasets import attributed_communities
from softcut.ops import CSR
from softcut.training import ReplicaNet


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=200, n_clusters=3, n_features=60, seed=0)


@pytest.fixture
def counts(monkeypatch):
    """How often the costly steps were taken."""
    found = dict.fromkeys(("projections", "operators", "propagations", "agreements", "models"), 0)

    def counting(name, function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            found[name] += 1
            return function(*args, **kwargs)

        return wrapped

    monkeypatch.setattr(
        features.FeatureMap, "transform", counting("projections", features.FeatureMap.transform)
    )
    from_graph = CSR.from_graph.__func__

    def made(cls, *args, **kwargs):
        found["operators"] += 1
        return from_graph(cls, *args, **kwargs)

    monkeypatch.setattr(CSR, "from_graph", classmethod(made))
    monkeypatch.setattr(encoder, "propagate", counting("propagations", encoder.propagate))
    monkeypatch.setattr(replicas, "agreement", counting("agreements", replicas.agreement))
    monkeypatch.setattr(ReplicaNet, "assign", counting("models", ReplicaNet.assign))
    return found


def test_a_fit_encodes_once(graph, counts):
    sc.MinCutClustering(3, n_init=6, max_iter=30).fit(graph)
    # Two: the evidence replicas alone, to see which of them lost a cluster, then all.
    assert counts == {"projections": 1, "operators": 1, "propagations": 16, "agreements": 1, "models": 2}


def test_so_does_a_prediction(graph, counts):
    est = sc.MinCutClustering(3, n_init=6, max_iter=30).fit(graph)
    counts.update(dict.fromkeys(counts, 0))
    est.predict(graph)
    assert counts == {"projections": 1, "operators": 1, "propagations": 16, "agreements": 0, "models": 1}


def test_the_soft_assignments_of_the_fit_are_those_of_predict_proba(graph):
    est = sc.MinCutClustering(3, n_init=6, max_iter=30).fit(graph)
    np.testing.assert_allclose(est.soft_, est.predict_proba(graph), atol=1e-6)
    np.testing.assert_array_equal(est.soft_.argmax(1), est.labels_)


def test_comparing_numbers_of_clusters_trains_a_few_replicas_for_each(graph, monkeypatch):
    trained = []
    real = replicas.train

    def counted(net, inputs, op, settings, *args, **kwargs):
        trained.append((net.k, net.replicas, settings.objective))
        return real(net, inputs, op, settings, *args, **kwargs)

    monkeypatch.setattr(replicas, "train", counted)
    est = sc.MinCutClustering(range(2, 5), n_init=16, max_iter=30).fit(graph)
    assert trained[:3] == [(k, 12, "trace_ratio") for k in (2, 3, 4)]
    assert trained[3:] == [(est.n_clusters_, 8, "trace_ratio"), (est.n_clusters_, 8, "evidence")]
    assert len(est.replicas_) == 16
    assert len({r.seed for r in est.replicas_}) == 16
    assert est.history_["cut"].shape == (est.n_iter_, 16)


def test_a_number_that_was_chosen_gives_what_it_gives_when_asked_for(graph):
    compared = sc.MinCutClustering([3, 4], n_init=4, max_iter=5).fit(graph)
    asked = sc.MinCutClustering(compared.n_clusters_, n_init=4, max_iter=5).fit(graph)
    assert (compared.labels_ == asked.labels_).all()
    assert compared.replicas_ == asked.replicas_


def test_prediction_moves_nothing_of_the_model(graph):
    """The encoder's tensors stay where they are; a second prediction is the same."""
    est = sc.MinCutClustering(3, n_init=4, max_iter=20).fit(graph)
    before = {k: v.clone() for k, v in est._model.tensors().items()}
    est.predict(graph)
    for name, value in est._model.tensors().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
