"""The last step of the clustering: a node's own features, the consensus, and the neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering.features import structural_features
from softcut.clustering.refine import Refiner
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.metrics import nmi
from softcut.ops import CSR


def two_groups(n: int = 200) -> tuple[torch.Tensor, torch.Tensor, CSR]:
    """Labels, features that show them, and a graph of edges inside the groups only."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = torch.eye(2)[y] + 0.1 * torch.randn(n, 2, generator=generator)
    ends = torch.randint(0, n // 2, (2, 5 * n), generator=generator) * 2 + (torch.arange(5 * n) % 2)
    ends = ends[:, ends[0] != ends[1]]
    return y, x, CSR.from_edge_index(torch.cat([ends, ends.flip(0)], 1), num_nodes=n)


def test_nothing_passes_without_edges_and_features() -> None:
    proba = torch.rand(6, 3, generator=torch.Generator().manual_seed(1))
    proba /= proba.sum(1, keepdim=True)
    refiner = Refiner.fit(torch.zeros(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]), k=3)
    assert refiner.weight < 1e-6
    op = CSR.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=6)
    torch.testing.assert_close(refiner.apply(torch.zeros(6, 2), proba, op), proba)


def test_the_formula() -> None:
    y, x, op = two_groups(40)
    refiner = Refiner.fit(x, y, k=2)
    proba = torch.rand(40, 2, generator=torch.Generator().manual_seed(2))
    alone = torch.softmax((x - refiner.centre) * refiner.scale @ refiner.kernel + refiner.bias, 1)
    evidence = refiner.weight * alone + (1 - refiner.weight) * proba
    out, a = evidence, op.normalise().to_dense().float()
    for _ in range(10):
        out = 0.4 * evidence + 0.6 * a @ out
    expected = out / out.sum(1, keepdim=True)
    torch.testing.assert_close(refiner.apply(x, proba, op), expected, atol=1e-5, rtol=1e-5)


def test_wrong_nodes_are_put_right_by_features_and_neighbours() -> None:
    y, x, op = two_groups()
    wrong = y.clone()
    wrong[:20] = 1 - wrong[:20]
    refiner = Refiner.fit(x, wrong, k=2)
    assert 0.2 < refiner.weight <= 0.5
    found = refiner.apply(x, torch.eye(2)[wrong] * 0.8 + 0.1, op).argmax(1)
    assert (found == y).float().mean() > 0.99


def test_features_that_say_nothing_weigh_nothing() -> None:
    y, _, op = two_groups(2000)
    noise = torch.randn(2000, 8, generator=torch.Generator().manual_seed(3))
    refiner = Refiner.fit(noise, y, k=2)
    assert refiner.weight < 0.02
    found = refiner.apply(noise, torch.eye(2)[y], op).argmax(1)
    assert torch.equal(found, y)


@pytest.mark.parametrize("state", [0, 1])
def test_it_gains_on_graphs_where_both_signals_are_weak(state: int) -> None:
    graph = attributed_communities(600, 4, edge_signal=0.45, feature_signal=0.25, seed=5)
    scores = [
        nmi(graph.y, sc.MinCutClustering(4, n_init=8, refine=refine, random_state=state).fit(graph).labels_)
        for refine in (True, False)
    ]
    assert scores[0] > scores[1]


def test_the_number_of_clusters_stays() -> None:
    graph = attributed_communities(300, 3, size_spread=1.5, seed=2)
    for k in (3, 12):
        est = sc.MinCutClustering(k, n_init=4, max_iter=50).fit(graph)
        assert len(np.unique(est.labels_)) == k
        proba = est.predict_proba(graph)
        np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
        assert (proba.argmax(1) == est.labels_).all()


def test_the_paper_s_preset_is_left_alone() -> None:
    graph = attributed_communities(100, 2, seed=0)
    est = sc.MinCutClustering(2, preset="paper", n_init=2, max_iter=20).fit(graph)
    assert est._model.refiners == []


def test_structural_features_travel_with_the_model(tmp_path, monkeypatch) -> None:
    graph = attributed_communities(150, 3, seed=1).with_features(None)
    est = sc.MinCutClustering(3, n_init=2, max_iter=20).fit(graph)
    path = est.save(tmp_path / "model")

    def refuse(*args, **kwargs):
        raise AssertionError("made again")

    monkeypatch.setattr("softcut.clustering.model.structural_features", refuse)
    again = sc.MinCutClustering.load(path)
    assert (again.predict(graph) == est.labels_).all()


def test_refine_must_be_yes_or_no() -> None:
    with pytest.raises(ParameterError, match="refine must be True or False"):
        sc.MinCutClustering(2, refine="no").fit(attributed_communities(50, 2, seed=0))


def test_nodes_without_edges_stand_nowhere() -> None:
    graph = sc.Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=6)
    rows = structural_features(graph, n_components=4)
    assert (rows[4:] == 0).all()
    assert np.isfinite(rows).all()
