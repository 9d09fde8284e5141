"""A fit encodes its graph once: one projection, one operator, one pass of propagations, one table of agreements."""

import functools

import numpy as np
import pytest

import softcut as sc
from softcut.clustering import networks, node_features, prepare
from softcut.datasets import attributed_communities
from softcut.ops import CSR
from softcut.training import ReplicaNet


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=200, n_clusters=3, n_features=60, edge_signal=0.85, seed=0)


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
        node_features.FeatureMap, "transform", counting("projections", node_features.FeatureMap.transform)
    )
    from_graph = CSR.from_graph.__func__

    def made(cls, *args, **kwargs):
        found["operators"] += 1
        return from_graph(cls, *args, **kwargs)

    monkeypatch.setattr(CSR, "from_graph", classmethod(made))
    monkeypatch.setattr(prepare, "propagate", counting("propagations", prepare.propagate))
    monkeypatch.setattr(networks, "agreement", counting("agreements", networks.agreement))
    monkeypatch.setattr(ReplicaNet, "assign", counting("models", ReplicaNet.assign))
    return found


def test_a_fit_encodes_once(graph, counts):
    sc.GraphClustering(3, n_init=6, max_iter=30).fit(graph)
    assert counts == {"projections": 1, "operators": 1, "propagations": 16, "agreements": 1, "models": 1}


def test_so_does_a_comparison_of_numbers(graph, counts):
    sc.GraphClustering([2, 3], n_init=2, max_iter=3).fit(graph)
    assert counts == {"projections": 1, "operators": 1, "propagations": 16, "agreements": 3, "models": 3}


def test_so_does_a_prediction(graph, counts):
    est = sc.GraphClustering(3, n_init=6, max_iter=30).fit(graph)
    counts.update(dict.fromkeys(counts, 0))
    est.predict(graph)
    assert counts == {"projections": 1, "operators": 1, "propagations": 16, "agreements": 0, "models": 1}


def test_a_second_prediction_is_the_same(graph):
    est = sc.GraphClustering(3, n_init=4, max_iter=20).fit(graph)
    np.testing.assert_array_equal(est.predict_proba(graph), est.predict_proba(graph))
