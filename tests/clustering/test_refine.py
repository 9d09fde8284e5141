"""The last step of the clustering: a node's own features, the consensus, and the neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering import consensus as module
from softcut.clustering.consensus import Refiner, refine
from softcut.clustering.node_features import sample_rows
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
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


def groups(n: int = 60, k: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.arange(n) % k
    x = torch.eye(k)[y] + 0.6 * torch.randn(n, k, generator=torch.Generator().manual_seed(5)) + 2
    return x, torch.where(torch.arange(n) < 10, 0, y)


def test_the_regression_is_the_minimum_of_its_loss():
    x, y = groups()
    refiner = Refiner.fit(x, y, 3)
    torch.testing.assert_close(refiner.centre, x.mean(0))
    spread = (x - x.mean(0)).square().mean().sqrt()
    torch.testing.assert_close(refiner.scale, 1 / spread)
    z = ((x - x.mean(0)) / spread).double()
    kernel, bias = (t.double().clone().requires_grad_() for t in (refiner.kernel, refiner.bias))
    loss = torch.nn.functional.cross_entropy(z @ kernel + bias, y) + 3e-3 * kernel.square().sum()
    loss.backward()
    assert kernel.grad.abs().max() < 2e-3
    assert bias.grad.abs().max() < 2e-3


def test_its_weight_is_the_share_of_the_entropy_that_features_explain():
    x, y = groups()
    refiner = Refiner.fit(x, y, 3)
    logits = (x - refiner.centre) * refiner.scale @ refiner.kernel + refiner.bias
    left = -torch.log_softmax(logits, 1)[torch.arange(60), y].mean()
    share = torch.bincount(y) / 60
    told = 1 - left / -(share * share.log()).sum()
    assert 0.2 < told < 0.9
    torch.testing.assert_close(refiner.weight, told / (1 + told))


def test_neighbours_by_weight():
    """A path of three nodes with one heavy edge: ten steps of PageRank with restart 0.4, written out."""
    a = torch.tensor([[0.0, 3.0, 0.0], [3.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    op = CSR.from_graph(sc.Graph.from_scipy(sp.csr_array(a.numpy())))
    refiner = Refiner(
        torch.zeros(1), torch.tensor(1.0), torch.zeros(1, 2), torch.zeros(2), torch.tensor(0.25)
    )
    proba = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    evidence = 0.25 * 0.5 + 0.75 * proba
    scale = a.sum(1).rsqrt()
    out, p = evidence, scale[:, None] * a * scale
    for _ in range(10):
        out = 0.4 * evidence + 0.6 * p @ out
    torch.testing.assert_close(refiner.apply(torch.zeros(3, 1), proba, op), out / out.sum(1, keepdim=True))
    other = 0.7 * evidence + 0.3 * p @ (0.7 * evidence + 0.3 * p @ evidence)
    found = refiner.apply(torch.zeros(3, 1), proba, op, Recipe(steps=2, restart=0.7))
    torch.testing.assert_close(found, other / other.sum(1, keepdim=True))


def test_the_regression_is_part_of_the_answer() -> None:
    y, x, op = two_groups(40)
    refiner = Refiner.fit(x + 3, y, k=2)
    proba = torch.rand(40, 2, generator=torch.Generator().manual_seed(2))
    alone = torch.softmax((x + 3 - refiner.centre) * refiner.scale @ refiner.kernel + refiner.bias, 1)
    wanted = refiner.weight * alone + (1 - refiner.weight) * proba
    found = refiner.apply(x + 3, proba, op, Recipe(steps=0))
    torch.testing.assert_close(found, wanted / wanted.sum(1, keepdim=True), atol=1e-5, rtol=1e-5)


# ------------------------------------------------------------------------------------- as a step of a fit


def prepared_of(graph, recipe=Recipe()):  # noqa: B008
    return prepare(graph, recipe, torch.device("cpu"), [].append)


def test_the_step_is_fit_and_apply_on_labels_of_the_consensus() -> None:
    graph = attributed_communities(120, 3, n_features=40, seed=0)
    prepared, notes = prepared_of(graph), []
    soft = torch.full((120, 3), 0.2)
    soft[torch.arange(120), torch.from_numpy(graph.y)] = 0.6
    for large in (50_000, 60):
        recipe = Recipe(large=large)
        rows = sample_rows(120, large)
        wanted = Refiner.fit(prepared.encoded.x[rows], soft.argmax(1)[rows], 3)
        after, refiner = refine(prepared, soft, recipe, notes.append)
        torch.testing.assert_close(refiner.kernel, wanted.kernel)
        torch.testing.assert_close(after, wanted.apply(prepared.encoded.x, soft, prepared.encoded.op))
    assert notes == []
    assert refine(prepared, soft, Recipe(refine=False), notes.append) == (soft, None)


def test_features_that_tell_nothing_refine_nothing() -> None:
    """The nodes of two complete graphs are alike: no column is left, and neighbours alone are no reason."""
    pair = sc.Graph.batch([sc.Graph.from_dense(np.ones((4, 4)) - np.eye(4))] * 2)
    prepared = prepared_of(pair)
    assert prepared.encoded.x.shape == (8, 0)
    soft = torch.tensor([[0.9, 0.1], [0.6, 0.4]] * 2 + [[0.2, 0.8], [0.4, 0.6]] * 2)
    assert refine(prepared, soft, Recipe(), [].append) == (soft, None)


def test_a_refinement_that_empties_a_cluster_is_left_out(monkeypatch) -> None:
    graph = attributed_communities(120, 3, n_features=40, seed=0)
    prepared, notes = prepared_of(graph), []
    labels = torch.arange(120) % 3
    soft = torch.full((120, 4), 0.1)  # the fourth cluster is empty before
    soft[torch.arange(120), labels] = 0.7
    after = torch.eye(4)[torch.minimum(labels, torch.tensor(1))]
    monkeypatch.setattr(module.Refiner, "apply", lambda self, *arguments: after)
    assert refine(prepared, soft, Recipe(), notes.append) == (soft, None)
    assert notes == ["no refinement: it would have emptied a cluster."]
    after = torch.eye(4)[2 - labels]
    kept, refiner = refine(prepared, soft, Recipe(), notes.append)
    assert kept is after and refiner is not None and len(notes) == 1


def test_it_gains_on_graphs_where_both_signals_are_weak() -> None:
    graph = attributed_communities(500, 4, edge_signal=0.5, feature_signal=0.3, seed=5)
    recipe = Recipe(networks=6)
    scores = [
        nmi(graph.y, sc.GraphClustering(4, recipe=replace(recipe, refine=refined)).fit(graph).labels_)
        for refined in (True, False)
    ]
    assert scores[0] > scores[1]
