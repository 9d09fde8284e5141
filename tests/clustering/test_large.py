"""What large graphs do otherwise, on small ones: samples, single precision, networks that stop one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering import Recipe, fitting, networks
from softcut.clustering.encoder import Encoder
from softcut.datasets import attributed_communities
from softcut.metrics import nmi


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(
        n_nodes=400, n_clusters=3, average_degree=12, n_features=60, edge_signal=0.85, seed=0
    )


def test_large_graphs_are_encoded_as_small_ones(graph):
    first, small = Encoder.fit(graph)
    second, big = Encoder.fit(graph, Recipe(large=399))  # the sample leaves one node out
    assert big.z.shape == small.z.shape and big.z.dtype == torch.float32
    assert not torch.equal(first.centre, second.centre), "medians of a sample"
    # Directions of the projection have no sign: distances between nodes are compared.
    for one, two in zip(small.z, big.z, strict=True):
        assert (one @ one.T - two @ two.T).abs().mean() < 0.05 * (one @ one.T).abs().mean()
    torch.testing.assert_close(second.encode(graph, torch.device("cpu")).z, big.z)


def test_a_large_graph_is_clustered_as_well_and_predicted_the_same(graph):
    recipe = Recipe(large=200, networks=6, iterations=60)
    est = sc.GraphClustering(3, recipe=recipe).fit(graph)
    assert nmi(graph.y, est.labels_) > 0.85
    np.testing.assert_array_equal(est.predict(graph), est.labels_)
    assert "consensus found on 200 of 400 nodes; the others join the nearest centre." in est.notes_
    again = sc.GraphClustering(3, recipe=recipe).fit(graph)
    np.testing.assert_array_equal(again.soft_, est.soft_)
    moving = (np.diff(est.history_["cut"], axis=0) != 0).sum(0)
    assert len(set(moving.tolist())) > 1, "networks stop at different times"
    usual = sc.GraphClustering(3, n_init=6, max_iter=60).fit(graph)
    assert not any("consensus found on" in note for note in usual.notes_)


@pytest.mark.parametrize(("large", "wanted"), [(400, True), (399, False)])
def test_no_network_of_a_large_graph_begins_from_the_edges(graph, monkeypatch, large, wanted):
    asked = []

    def spy(op, ks, seed, recipe, *, quick):
        asked.append(tuple(ks))
        return {k: torch.zeros(400, 2, dtype=torch.long) for k in ks}

    monkeypatch.setattr(networks, "edge_clusters", spy)
    monkeypatch.setattr(fitting, "edge_clusters", spy)
    options = {"max_iter": 2, "recipe": Recipe(large=large, networks=2, trial_networks=2)}
    sc.GraphClustering(3, **options).fit(graph)
    assert asked == ([(3,)] if wanted else [])
    asked.clear()
    sc.GraphClustering([2, 3], **options).fit(graph)
    assert asked == ([(2, 3)] if wanted else []), "found once for all numbers"
