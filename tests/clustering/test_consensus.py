"""The consensus of networks: agreement, weights and the table, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from softcut.clustering import networks as module
from softcut.clustering.consensus import Consensus
from softcut.clustering.networks import agreement, evidence_weights
from softcut.metrics import Evidence


def partitions(n: int = 60, k: int = 4, seed: int = 0) -> np.ndarray:
    """Five labellings: two random ones, a noisy copy, one with fewer clusters and one with a single cluster."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, k, n), rng.integers(0, k, n)
    noisy = np.where(rng.random(n) < 0.2, rng.integers(0, k, n), first)
    return np.stack([first, second, noisy, np.minimum(first, 1), np.full(n, 2)], axis=1)


def test_agreement_is_that_of_scikit_learn():
    hard = partitions()
    ari = agreement(torch.from_numpy(hard), 4)
    for a in range(5):
        for b in range(5):
            assert float(ari[a, b]) == pytest.approx(adjusted_rand_score(hard[:, a], hard[:, b]), abs=1e-9)


def test_agreement_of_many_rows_is_counted_on_evenly_spaced_ones(monkeypatch):
    hard = torch.from_numpy(partitions(n=95))
    monkeypatch.setattr(module, "_ROWS", 30)
    some = agreement(hard, 4)
    monkeypatch.undo()
    torch.testing.assert_close(some, agreement(hard[::3], 4))
    assert not torch.equal(some, agreement(hard, 4))


def test_agreement_of_one_node():
    assert (agreement(torch.tensor([[0, 1]]), 2) == 1).all()


def test_weights_fall_with_the_evidence():
    """exp(-((e_max - e) / width)^2); those below a thousandth are none."""

    def weights(values, width, nodes=2):
        found = torch.tensor(values) * nodes
        return evidence_weights(
            Evidence(found, torch.zeros(len(values)), torch.ones(len(values)), nodes), width
        )

    for values, width in (([4.0, 3.8, 3.0], 0.12), ([0.5, 0.4, 0.1], 0.3), ([-0.2, -0.4], 0.5)):
        most = max(values)
        plain = np.array([np.exp(-(((most - e) / width) ** 2)) for e in values])
        plain[plain < 1e-3] = 0
        np.testing.assert_allclose(weights(values, width).numpy(), plain / plain.sum(), rtol=1e-4)
    # 2.62 widths behind the best one: e^-6.86 is a little more than a thousandth, at 2.64 it is less.
    assert weights([1.0, 1 - 0.262], 0.1)[1] > 0 and weights([1.0, 1 - 0.264], 0.1)[1] == 0


def some_table(n: int = 30, seed: int = 3) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """S [N, 3, 2], Z [N, 2, 4] and the weights of the replicas."""
    generator = torch.Generator().manual_seed(seed)
    s = torch.softmax(3 * torch.randn(n, 3, 2, generator=generator, dtype=torch.float64), -1)
    z = torch.randn(n, 2, 4, generator=generator, dtype=torch.float64) + 5
    return s, z, torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def table(s, z, weights, scales, fusion) -> np.ndarray:
    """T of the module's docstring: both halves centred, weighted, and of unit mean squared row length."""
    s, z, weights = s.numpy(), z.numpy(), weights.numpy()
    v = np.zeros(z.shape[1])
    for r, scale in enumerate(scales):
        v[scale] += weights[r]
    halves = []
    for part, weight, total in ((s, weights, 1.0), (z, v, fusion)):
        part = (part - part.mean(0)) * np.sqrt(weight)[None, :, None]
        part = part.reshape(len(part), -1)
        halves.append(total * part / np.sqrt((part**2).sum(1).mean()))
    return np.concatenate(halves, axis=1)


@pytest.mark.parametrize("fusion", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("scales", [[0, 0, 1], [0, 1, 1]])
def test_coordinates_are_those_of_the_table(fusion, scales):
    s, z, weights = some_table()
    found = Consensus.fit(s, z, 2, scales=scales, weights=weights, fusion=fusion)
    wanted = table(s, z, weights, scales, fusion)
    coordinates = found.transform(s, z).numpy()
    np.testing.assert_allclose(coordinates @ coordinates.T, wanted @ wanted.T, atol=1e-9)
    same = torch.full(
        (3,), 1 / 3, dtype=torch.float64
    )  # by default, and all replicas read the first distance
    wanted = table(s, z, same, [0, 0, 0], fusion)
    coordinates = Consensus.fit(s, z, 2, fusion=fusion).transform(s, z).numpy()
    np.testing.assert_allclose(coordinates @ coordinates.T, wanted @ wanted.T, atol=1e-9)


def test_the_leading_directions_are_kept():
    s, z, weights = some_table()
    found = Consensus.fit(s, z, 2, scales=[0, 0, 1], weights=weights, dimensions=3)
    t = table(s, z, weights, [0, 0, 1], 1.0)
    values = np.linalg.eigvalsh(t.T @ t)[::-1]
    coordinates = found.transform(s, z).numpy()
    assert coordinates.shape == (30, 3)
    np.testing.assert_allclose((coordinates**2).sum(0), values[:3], rtol=1e-9)


def test_probabilities_are_normal_densities_as_wide_as_the_spread():
    s, z, weights = some_table()
    found = Consensus.fit(s, z, 3, scales=[0, 0, 1], weights=weights)
    t, centres = found.transform(s, z).numpy(), found.centres.numpy()
    distance = ((t[:, None] - centres) ** 2).sum(-1)
    assert float(found.spread) == pytest.approx(distance.min(1).mean())
    density = np.exp(-distance / (2 * distance.min(1).mean()))
    np.testing.assert_allclose(found.proba(s, z).numpy(), density / density.sum(1, keepdims=True), atol=1e-9)


def test_a_negative_weight_counts_as_none():
    s, z, _ = some_table()
    found = Consensus.fit(s, z, 2, weights=torch.tensor([0.6, 0.4, -0.1]))
    assert (found.scale[:4] > 0).all()
    assert (found.scale[4:6] == 0).all()


def test_columns_that_say_nothing_get_no_weight():
    s, z, _ = some_table()
    found = Consensus.fit(s, torch.full_like(z, 2.0), 2)
    assert (found.scale[6:] == 0).all()
    assert torch.isfinite(found.scale).all()


def test_consensus_finds_what_noisy_replicas_share():
    truth = torch.arange(300) % 4
    rng = torch.Generator().manual_seed(0)
    replicas = []
    for _ in range(16):  # each replica renames the clusters and gets 40 % of the nodes wrong
        wrong = torch.rand(300, generator=rng) < 0.4
        noisy = torch.where(wrong, torch.randint(0, 4, (300,), generator=rng), truth)
        replicas.append(torch.eye(4)[torch.randperm(4, generator=rng)[noisy]])
    s = torch.stack(replicas, dim=1)
    z = torch.zeros(300, 1, 0)
    consensus = Consensus.fit(s, z, 4)
    labels = consensus.proba(s, z).argmax(1)
    joint = torch.zeros(4, 4).index_put((truth, labels), torch.ones(()), accumulate=True)
    assert joint.max(1).values.sum() / 300 > 0.97
    proba = consensus.proba(s, z)
    torch.testing.assert_close(proba.sum(1), torch.ones(300))
    assert torch.equal(proba.argmax(1), labels)
