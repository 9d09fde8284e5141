"""k-means against scikit-learn's, on awkward points, and repeated."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from softcut.clustering.kmeans import kmeans, kmeans_restarts


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", range(4))
def test_kmeans_is_as_good_as_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(loc=rng.normal(scale=3, size=5), size=(40, 5)) for _ in range(6)])
    ours = kmeans(torch.from_numpy(x), 6, n_init=20, random_state=seed)
    theirs = KMeans(6, n_init=20, random_state=seed).fit(x)
    assert ours.inertia <= theirs.inertia_ * 1.001
    distance = ((x[:, None] - ours.centres.numpy()) ** 2).sum(-1)
    np.testing.assert_array_equal(ours.labels.numpy(), distance.argmin(1))
    assert ours.inertia == pytest.approx(distance.min(1).sum())


def test_kmeans_on_awkward_points():
    same = kmeans(torch.zeros(5, 2), 3)
    assert same.inertia == 0
    assert torch.isfinite(same.centres).all()
    assert kmeans(torch.eye(3), 3).labels.unique().numel() == 3
    assert kmeans(torch.rand(4, 0), 2).labels.shape == (4,)


def test_kmeans_restarts_differ_and_repeat():
    x = torch.rand(60, 3, generator=generator(0))
    a, _ = kmeans_restarts(x, 5, 6, random_state=1)
    b, _ = kmeans_restarts(x, 5, 6, random_state=1)
    assert torch.equal(a, b)
    assert len({tuple(row.tolist()) for row in a}) > 1
