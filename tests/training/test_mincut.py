"""Clustering networks: replicas in one pass, their inputs, losses and settings."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.datasets import attributed_communities
from softcut.ops import CSR, OBJECTIVES, Words, mincut_loss, orthogonality_loss
from softcut.training import (
    ConvInput,
    DenseInput,
    ReplicaNet,
    TrainSettings,
    mincut,
    replica_losses,
    replica_seeds,
    train,
)


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=1)


def double(graph) -> CSR:
    return CSR.from_graph(graph, dtype=torch.float64)


def inputs_of(kind: str, graph):
    op = double(graph)
    if kind == "dense":
        return DenseInput(torch.randn(2, graph.num_nodes, 5, dtype=torch.float64, generator=generator(0)))
    x = {"skip-sparse": graph.x, "skip-dense": np.random.default_rng(0).normal(size=(graph.num_nodes, 40))}[
        kind
    ]
    return ConvInput(op, x, dtype=torch.float64, columns=1)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize(
    ("kind", "objective"),
    [*(("dense", name) for name in OBJECTIVES), ("skip-sparse", "mincut"), ("skip-dense", "ratio_trace")],
)
def test_replicas_in_one_pass_equal_separate_trainings(graph, kind, start, objective):
    inputs, op, k = inputs_of(kind, graph), double(graph), 3
    seeds = replica_seeds(5, 4)
    scales = [0, 0, 1, 1] if kind == "dense" else [0, 0, 0, 0]
    settings = TrainSettings(iterations=50, tolerance=None, lr=1e-2, objective=objective, start=10)
    labels = torch.randint(0, k, (4, graph.num_nodes), generator=generator(1))
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in labels]).double()
    given = {"start": labels, "sizes": sizes} if start else {}
    words = Words(graph.x, dtype=torch.float64)

    def net(chosen):
        own = {"seeds": [seeds[r] for r in chosen], "scales": [scales[r] for r in chosen]}
        return ReplicaNet(inputs.in_channels, k, hidden=4, terms=inputs.terms, dtype=torch.float64, **own)

    together = net(range(4))
    result = train(together, inputs, op, settings, words=words, **given)
    for r in range(4):
        alone = net([r])
        own = {name: value[r : r + 1] for name, value in given.items()}
        single = train(alone, inputs, op, settings, words=words, **own)
        np.testing.assert_allclose(result.cut[:, r], single.cut[:, 0], atol=1e-9, rtol=0)
        np.testing.assert_allclose(result.ortho[:, r], single.ortho[:, 0], atol=1e-9, rtol=0)
        for a, b in zip(together.keep([r]).parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("objective", ["mincut", "ratio_trace"])
def test_training_is_that_of_the_formulas_with_dense_matrices(graph, objective, start):
    """Against eq. 1, the losses and a start by cross-entropy, written out for one replica after another."""
    op, k, weight = double(graph), 3, 0.7
    x = torch.from_numpy(graph.x.toarray() if sp.issparse(graph.x) else graph.x).double()
    inputs = ConvInput(op, graph.x, dtype=torch.float64, columns=1)
    seeds = replica_seeds(2, 3)
    settings = TrainSettings(
        iterations=30,
        lr=1e-2,
        tolerance=None,
        temperature=0.8,
        ortho_weight=weight,
        objective=objective,
        start=6,
    )
    net = ReplicaNet(inputs.in_channels, k, seeds, hidden=4, terms=2, dtype=torch.float64)
    initial = {name: value.detach().clone() for name, value in net.named_parameters()}
    labels = torch.randint(0, k, (3, graph.num_nodes), generator=generator(1))
    result = train(net, inputs, op, settings, start=labels if start else None)
    a = torch.from_numpy(graph.adjacency.toarray()).double()
    scale = a.sum(1).clamp(min=1e-30).rsqrt()
    a = scale[:, None] * a * scale
    d = torch.diag(a.sum(1))
    for r in range(3):
        p = {name: value[r].clone().requires_grad_() for name, value in initial.items()}
        optimiser = torch.optim.Adam(p.values(), lr=1e-2)

        def logits(p=p):
            h = torch.nn.functional.elu(a @ x @ p["first.0"].T + x @ p["first.1"].T + p["bias"])
            return h @ p["second"].T + p["second_bias"]

        cuts, orthos = [], []
        for i in range(36 if start else 30):
            optimiser.zero_grad()
            if start and i < 6:
                loss = torch.nn.functional.cross_entropy(logits(), labels[r])
            else:
                s = torch.softmax(logits() / 0.8, dim=1)
                inside, volume, gram = s.T @ a @ s, s.T @ d @ s, s.T @ s
                if objective == "mincut":
                    cut = -torch.trace(inside) / torch.trace(volume)
                else:
                    ridge = 1e-3 * torch.trace(volume) / k * torch.eye(k, dtype=torch.float64)
                    cut = -torch.trace(torch.linalg.solve(volume + ridge, inside)) / k
                eye = torch.eye(k, dtype=torch.float64) / k**0.5
                ortho = torch.linalg.norm(gram / torch.linalg.norm(gram) - eye)
                cuts.append(cut.item())
                orthos.append(ortho.item())
                loss = cut + weight * ortho
            loss.backward()
            optimiser.step()
        np.testing.assert_allclose(result.cut[:, r], cuts, atol=1e-9, rtol=0)
        np.testing.assert_allclose(result.ortho[:, r], orthos, atol=1e-9, rtol=0)
        for name, value in net.named_parameters():
            torch.testing.assert_close(value[r], p[name], atol=1e-9, rtol=0)


def test_replica_losses_are_the_losses_of_each_replica(graph):
    s = torch.softmax(torch.randn(graph.num_nodes, 3, 4, dtype=torch.float64, generator=generator(0)), -1)
    op = double(graph).normalise()
    cut, ortho = replica_losses(op, s)
    for r in range(3):
        torch.testing.assert_close(cut[r], mincut_loss(s[:, r], op))
        torch.testing.assert_close(ortho[r], orthogonality_loss(s[:, r]))


def test_seeds_do_not_depend_on_their_number():
    assert replica_seeds(3, 10)[:4] == replica_seeds(3, 4)
    assert replica_seeds(3, 4) != replica_seeds(4, 4)


@pytest.mark.parametrize(("limit", "inside"), [(4 * 2 * 6 + 1, 1), (4 * 2 * 6, 2)])
def test_small_work_takes_one_thread(monkeypatch, limit, inside):
    monkeypatch.setattr(mincut, "_ONE_THREAD", limit)
    before = torch.get_num_threads()
    seen = []

    def loss(op, s):
        seen.append(torch.get_num_threads())
        return s.sum((0, 2)), s.sum((0, 2))

    torch.set_num_threads(2)
    try:
        net = ReplicaNet(4, 2, seeds=[0, 1], hidden=4)
        op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=4)
        train(net, DenseInput(torch.eye(4)), op, TrainSettings(iterations=2), loss=loss)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [inside] * 2
