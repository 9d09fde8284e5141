"""Graclus: which nodes it merges and how many, and that it loses nothing."""

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.coarsening_samples import as_graph, random_graph, star

from softcut.coarsening import Graclus, clean, graclus_matching, hierarchy
from softcut.coarsening.levels import node_hash


def by_the_rule(a: sp.csr_array, seed: int) -> list[int]:
    """Graclus as its text has it, without queues: forced nodes first, then by degree; the heaviest free neighbour."""
    dense, degree = a.toarray(), np.asarray(a.sum(axis=1)).ravel()
    order = np.lexsort((node_hash(np.arange(len(dense)), seed), np.round(degree, 10))).tolist()
    free, cluster = set(order), {}
    while free:
        near = {i: [j for j in order if j in free and dense[i, j] > 0] for i in order if i in free}
        i = next((i for i in near if len(near[i]) == 1), next(iter(near)))
        worth = {j: round(dense[i, j] * (1 / degree[i] + 1 / degree[j]), 11) for j in near[i]}
        pair = {i, max(worth, key=worth.__getitem__)} if worth else {i}  # the first in order of equal ones
        free -= pair
        cluster |= dict.fromkeys(pair, min(pair))
    return np.unique([cluster[i] for i in range(len(dense))], return_inverse=True)[1].tolist()


@pytest.mark.parametrize("kind", ["binary", "weighted", "nearly equal"])
def test_pairs_are_those_of_the_rule(kind: str) -> None:
    rng = np.random.default_rng(0)
    for seed in range(12):
        a = random_graph(rng, 40, 1 + seed / 2, kind == "weighted")
        if kind == "nearly equal":  # degrees count to ten digits
            a.data += rng.choice([0, 4e-11, 3e-10, 3e-9], a.nnz)
            a = clean(a)
        assert graclus_matching(a, seed=seed).tolist() == by_the_rule(a, seed)
    assert graclus_matching(a).tolist() == by_the_rule(a, 0)


@pytest.mark.parametrize("name", ["grid", "odd grid", "ring", "odd ring", "knn", "weighted knn"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_halves_within_a_tenth(name: str, seed: int) -> None:
    a = as_graph(name)
    for _ in range(3):  # at every level
        n, a = a.shape[0], Graclus(seed)(a).adjacency
        assert n / 2 <= a.shape[0] <= 1.1 * n / 2 + 1


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_stars_lose_no_node(n: int) -> None:
    cluster = graclus_matching(star(n))
    assert len(cluster) == n
    assert np.array_equal(np.unique(cluster), np.arange(n - 1))  # the hub takes one leaf
    pooled = hierarchy(Graclus(), star(n), levels=3)
    assert pooled[-1].adjacency.shape[0] == max(1, n - 3)


def test_graphs_without_nodes() -> None:
    assert Graclus()(sp.csr_array((0, 0))).adjacency.shape == (0, 0)
    path = sp.csr_array(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1))
    assert Graclus()(path, np.array([0, 0, 3, 3])).ptr.tolist() == [0, 0, 2, 2]
