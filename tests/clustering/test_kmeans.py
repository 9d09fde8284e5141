"""k-means against scikit-learn's, a plain loop, and on awkward points."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from softcut.clustering.kmeans import assign, kmeans, kmeans_restarts, squared_distances


@pytest.mark.parametrize("seed", range(2))
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
    labels, centres = kmeans_restarts(torch.full((4, 2), 3.0), 2, 1)  # a centre without points stays
    assert labels.unique().numel() == 1 and (centres == 3).all()


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


def test_distances_and_nearest_centres():
    x, centres = points(50), torch.stack([points(6, seed=s) for s in range(4)])
    torch.testing.assert_close(squared_distances(x, centres[0]), torch.cdist(x, centres[0]) ** 2)
    assert (squared_distances(1e6 * x.float(), 1e6 * x.float()) >= 0).all()
    assert torch.equal(assign(x, centres), torch.stack([torch.cdist(x, c).argmin(1) for c in centres]))


def test_restarts_from_given_centres_leave_them_alone():
    x, start = points(), points(3, seed=9).unsqueeze(0)
    kept = start.clone()
    labels, centres = kmeans_restarts(x, 3, 1, max_iter=1, start=start)
    assert torch.equal(start, kept)
    assert torch.equal(labels, assign(x, start))
    torch.testing.assert_close(centres[0], torch.stack([x[labels[0] == c].mean(0) for c in range(3)]))


@pytest.mark.parametrize(("max_iter", "finalists"), [(2, None), (2, 3), (30, None), (30, 3)])
def test_the_best_of_the_finalists_is_taken(max_iter, finalists):
    """After ten iterations the starts with the lowest error go on."""
    x = points(80)
    _, centres = kmeans_restarts(
        x, 7, 8, max_iter=min(10, max_iter) if finalists else max_iter, random_state=5
    )
    error = torch.stack([squared_distances(x, c).amin(1).sum() for c in centres])
    if finalists and max_iter > 10:
        start = centres[error.argsort()[:finalists]]
        _, centres = kmeans_restarts(x, 7, finalists, max_iter=max_iter - 10, start=start)
        error = torch.stack([squared_distances(x, c).amin(1).sum() for c in centres])
    best = kmeans(x, 7, n_init=8, max_iter=max_iter, finalists=finalists, random_state=5)
    assert best.inertia == pytest.approx(float(error.min()))
    torch.testing.assert_close(best.centres, centres[int(error.argmin())])
