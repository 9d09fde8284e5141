"""Graclus: how much it merges, that it loses nothing, and that its cut is good."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.coarsening_samples import as_graph, random_graph, star

from softcut.coarsening import Graclus, graclus_matching, hierarchy


def normalised_cut(a: sp.csr_array, cluster: np.ndarray) -> float:
    n, k = len(cluster), cluster.max() + 1
    s = sp.csr_array((np.ones(n), (np.arange(n), cluster)), shape=(n, k))
    volume = s.T @ np.asarray(a.sum(axis=1)).ravel()
    inside = (s.T @ a @ s).diagonal()
    return float(((volume - inside) / np.maximum(volume, 1e-300)).sum())


def random_matching(a: sp.csr_array, rng: np.random.Generator) -> np.ndarray:
    n = a.shape[0]
    mate = np.full(n, -1)
    for i in rng.permutation(n):
        if mate[i] < 0:
            free = [j for j in a.indices[a.indptr[i] : a.indptr[i + 1]] if mate[j] < 0]
            j = rng.choice(free) if free else i
            mate[i], mate[j] = j, i
    return np.unique(np.minimum(mate, np.arange(n)), return_inverse=True)[1]


@pytest.mark.parametrize("name", ["grid", "odd grid", "ring", "odd ring", "knn", "weighted knn"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_halves_within_a_tenth(name: str, seed: int) -> None:
    a = as_graph(name)
    for _ in range(3):  # at every level
        cluster = graclus_matching(a, seed=seed)
        n, k = a.shape[0], cluster.max() + 1
        assert n / 2 <= k <= 1.1 * n / 2 + 1
        assert set(np.bincount(cluster)) <= {1, 2}
        first, second = (
            np.unique(cluster, return_index=True)[1],
            n - 1 - np.unique(cluster[::-1], return_index=True)[1],
        )
        assert (a[first, second][first != second] > 0).all()  # pairs are neighbours
        a = Graclus(seed)(a).adjacency


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_stars_lose_no_node(n: int) -> None:
    cluster = graclus_matching(star(n))
    assert len(cluster) == n
    assert cluster.max() + 1 == n - 1  # the hub takes one leaf
    assert np.array_equal(np.unique(cluster), np.arange(n - 1))
    pooled = hierarchy(Graclus(), star(n), levels=3)
    assert pooled[-1].adjacency.shape[0] == max(1, n - 3)


def test_cut_is_no_worse_than_random_matching() -> None:
    rng = np.random.default_rng(0)
    worse = 0
    for trial in range(50):
        a = random_graph(rng, int(rng.integers(20, 200)), rng.uniform(2, 10), bool(trial % 2))
        mine = normalised_cut(a, graclus_matching(a, seed=trial))
        chance = np.mean([normalised_cut(a, random_matching(a, rng)) for _ in range(5)])
        worse += mine > chance
    assert worse == 0


def test_seeds_differ() -> None:
    a = as_graph("knn")
    assert not np.array_equal(graclus_matching(a, seed=3), graclus_matching(a, seed=4))
