"""Agreement, weights and the table of the consensus, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from softcut.clustering import consensus as module
from softcut.clustering.consensus import Consensus, agreement, agreement_weights


def partitions(n: int = 60, k: int = 4, seed: int = 0) -> np.ndarray:
    """Five labellings: two random ones, a noisy copy, one with fewer clusters and one with a single cluster."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, k, n), rng.integers(0, k, n)
    noisy = np.where(rng.random(n) < 0.2, rng.integers(0, k, n), first)
    return np.stack([first, second, noisy, np.minimum(first, 1), np.full(n, 2)], axis=1)


def test_agreement_is_that_of_scikit_learn():
    hard = partitions()
    nmi, ari = agreement(torch.from_numpy(hard), 4)
    for a in range(5):
        for b in range(5):
            one, two = hard[:, a], hard[:, b]
            assert float(nmi[a, b]) == pytest.approx(normalized_mutual_info_score(one, two), abs=1e-9)
            assert float(ari[a, b]) == pytest.approx(adjusted_rand_score(one, two), abs=1e-9)


def test_agreement_of_many_rows_is_counted_on_evenly_spaced_ones(monkeypatch):
    hard = torch.from_numpy(partitions(n=95))
    monkeypatch.setattr(module, "_ROWS", 30)
    some = agreement(hard, 4)
    monkeypatch.undo()
    for got, wanted in zip(some, agreement(hard[::3], 4), strict=True):
        torch.testing.assert_close(got, wanted)


def test_agreement_of_one_node():
    nmi, ari = agreement(torch.tensor([[0, 1]]), 2)
    assert (nmi == 1).all()
    assert (ari == 1).all()


def test_weights_are_the_leading_eigenvector_of_the_agreements_with_others():
    nmi, _ = agreement(torch.from_numpy(partitions()[:, :4]), 4)
    others = nmi.numpy().copy()
    np.fill_diagonal(others, 0)
    leading = np.abs(np.linalg.eigh(others)[1][:, -1])
    np.testing.assert_allclose(agreement_weights(nmi).numpy(), leading / leading.sum(), rtol=1e-5)


@pytest.mark.parametrize("nmi", [torch.ones(1, 1), torch.eye(3), torch.eye(2) - 0.1])
def test_weights_are_equal_where_nothing_agrees(nmi):
    torch.testing.assert_close(agreement_weights(nmi), torch.full((len(nmi),), 1 / len(nmi)))


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


def test_by_default_replicas_weigh_the_same_and_read_the_first_distance():
    s, z, _ = some_table()
    found = Consensus.fit(s, z, 2)
    wanted = table(s, z, torch.full((3,), 1 / 3, dtype=torch.float64), [0, 0, 0], 1.0)
    coordinates = found.transform(s, z).numpy()
    np.testing.assert_allclose(coordinates @ coordinates.T, wanted @ wanted.T, atol=1e-9)
    np.testing.assert_allclose(found.weights.numpy(), 1 / 3)


def test_by_default_kmeans_starts_twenty_times():
    s, z, _ = some_table(n=200)  # noise, in which every start ends elsewhere
    found = Consensus.fit(s, z, 6)
    torch.testing.assert_close(found.centres, Consensus.fit(s, z, 6, n_init=20).centres)
    assert not torch.allclose(found.centres, Consensus.fit(s, z, 6, n_init=21).centres)


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
    np.testing.assert_array_equal(found.predict(s, z).numpy(), distance.argmin(1))


def test_a_sample_is_drawn_from_all_rows_by_the_random_state():
    s, z, _ = some_table(200)
    rows = torch.randperm(200, generator=torch.Generator().manual_seed(7))[:40]
    sampled = Consensus.fit(s, z, 2, sample=40, random_state=7)
    plain = Consensus.fit(s[rows], z[rows], 2, random_state=7)
    torch.testing.assert_close(sampled.mean, torch.cat([s[rows].flatten(1), z[rows].flatten(1)], 1).mean(0))
    torch.testing.assert_close(sampled.centres, plain.centres)
    whole = Consensus.fit(s, z, 2, sample=200)
    torch.testing.assert_close(whole.mean, torch.cat([s.flatten(1), z.flatten(1)], 1).mean(0))


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
