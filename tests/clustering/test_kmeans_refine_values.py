"""k-means and the refinement, against plain loops and formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import refine as module
from softcut.clustering.kmeans import kmeans, kmeans_restarts, squared_distances
from softcut.clustering.refine import Refiner
from softcut.ops import CSR


def points(n: int = 40, f: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, f, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(x: np.ndarray, k: int, restarts: int, seed: int, max_iter: int, least: float = 0.0):
    """k-means++ and Lloyd's algorithm in plain loops, with the same random numbers."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(k, restarts, generator=generator, dtype=torch.float64).numpy()
    n = len(x)
    starts = []
    for b in range(restarts):
        centres = [x[int(draws[0, b] * n)]]
        for i in range(1, k):
            distance = np.min([((x - c) ** 2).sum(1) for c in centres], axis=0)
            centres.append(x[np.searchsorted(np.cumsum(distance), draws[i, b] * distance.sum())])
        starts.append(np.stack(centres))
    labels, running = [np.full(n, -1)] * restarts, set(range(restarts))
    for iteration in range(max_iter):
        replaced = least > 0 and iteration < max_iter // 2
        draw = torch.rand(restarts, k, generator=generator, dtype=torch.float64).numpy() if replaced else None
        for b in sorted(running):
            new = ((x[:, None] - starts[b]) ** 2).sum(-1).argmin(1)
            moved = (new != labels[b]).any()
            labels[b], centres = new, starts[b].copy()
            for c in range(k):
                if (new == c).any():
                    centres[c] = x[new == c].mean(0)
                if replaced and (new == c).sum() < least:
                    centres[c] = x[int(draw[b, c] * n)]
                    moved = True
            starts[b] = centres
            if not moved:
                running.remove(b)
        if not running:
            break
    return np.stack(labels), np.stack(starts)


@pytest.mark.parametrize(
    ("max_iter", "least"), [(1, 0.0), (3, 0.0), (100, 0.0), (4, 5.0), (9, 5.0), (30, 1.0)]
)
def test_restarts_are_lloyds_algorithm(max_iter, least):
    x = points()
    labels, centres = kmeans_restarts(x, 5, 4, max_iter=max_iter, least=least, random_state=3)
    wanted_labels, wanted_centres = by_hand(x.numpy(), 5, 4, 3, max_iter, least)
    np.testing.assert_array_equal(labels.numpy(), wanted_labels)
    np.testing.assert_allclose(centres.numpy(), wanted_centres, atol=1e-12)


def test_a_centre_without_points_stays():
    """Equal rows: one centre has all of them, the other none."""
    labels, centres = kmeans_restarts(torch.full((4, 2), 3.0), 2, 1)
    assert labels.unique().numel() == 1
    assert (centres == 3).all()


def test_the_best_restart_is_taken():
    x = points(60)
    labels, centres = kmeans_restarts(x, 6, 10, max_iter=2, random_state=1)
    inertia = [float(squared_distances(x, c).amin(1).sum()) for c in centres]
    found = kmeans(x, 6, n_init=10, max_iter=2, random_state=1)
    assert found.inertia == pytest.approx(min(inertia))
    torch.testing.assert_close(found.centres, centres[int(np.argmin(inertia))])
    assert len(set(map(tuple, labels.tolist()))) > 1


def test_squared_distances_are_not_negative():
    x = points() * 1e6
    assert (squared_distances(x.float(), x.float()) >= 0).all()
    torch.testing.assert_close(squared_distances(x, points(5)), torch.cdist(x, points(5)) ** 2)


# ------------------------------------------------------------------------------------------- refinement


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


def test_of_many_rows_some_are_drawn(monkeypatch):
    x, y = groups()
    whole = Refiner.fit(x, y, 3)
    monkeypatch.setattr(module, "LARGE", 60)
    torch.testing.assert_close(Refiner.fit(x, y, 3).kernel, whole.kernel)
    monkeypatch.setattr(module, "LARGE", 30)
    rows = torch.randperm(60, generator=torch.Generator().manual_seed(4))[:30]
    torch.testing.assert_close(Refiner.fit(x, y, 3).kernel, Refiner.fit(x, y, 3, random_state=0).kernel)
    some = Refiner.fit(x, y, 3, random_state=4)
    torch.testing.assert_close(some.centre, x[rows].mean(0))
    torch.testing.assert_close(some.kernel, Refiner.fit(x[rows], y[rows], 3).kernel)


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
