"""Graclus: how much it merges, that it loses nothing, and that its cut is good."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import kneighbors_graph

from softcut.datasets import grid_graph, ring_graph
from softcut.nn import ClusterSelection, GraclusPool, NDPPool
from softcut.nn.pool.graclus import graclus_matching
from softcut.nn.pool.topological import clean


def knn(n: int, k: int = 6, seed: int = 0) -> sp.csr_array:
    points = np.random.default_rng(seed).random((n, 2))
    a = sp.csr_array(kneighbors_graph(points, k))
    return clean(a.maximum(a.T), symmetric=True)


def star(n: int) -> sp.csr_array:
    leaves = np.arange(1, n)
    a = sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), leaves)), shape=(n, n))
    return clean(sp.csr_array(a + a.T), symmetric=True)


def as_graph(name: str) -> sp.csr_array:
    graphs = {
        "grid": lambda: grid_graph(30, 30).adjacency,
        "odd grid": lambda: grid_graph(31, 17).adjacency,
        "ring": lambda: ring_graph(200).adjacency,
        "odd ring": lambda: ring_graph(501).adjacency,
        "knn": lambda: knn(1000),
        "weighted knn": lambda: _weighted(knn(1000, seed=1)),
    }
    return clean(sp.csr_array(graphs[name]()), symmetric=True)


def _weighted(a: sp.csr_array, seed: int = 0) -> sp.csr_array:
    upper = sp.csr_array(sp.triu(a))
    upper.data = np.random.default_rng(seed).random(upper.nnz) + 0.05
    return clean(sp.csr_array(upper + upper.T), symmetric=True)


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
        sizes = np.bincount(cluster)
        assert sizes.min() >= 1
        assert sizes.max() <= 2
        a = GraclusPool(seed=seed).coarsen(a, np.array([0, n])).adjacency


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_stars_lose_no_node(n: int) -> None:
    cluster = graclus_matching(star(n))
    assert len(cluster) == n
    assert cluster.max() + 1 == n - 1  # the hub takes one leaf
    assert np.array_equal(np.unique(cluster), np.arange(n - 1))
    pooled = GraclusPool(levels=3).hierarchy(star(n))
    assert pooled[-1].adjacency.shape[0] == max(1, n - 3)


def test_pairs_are_neighbours() -> None:
    a = knn(300)
    cluster = graclus_matching(a)
    for c in range(cluster.max() + 1):
        members = np.flatnonzero(cluster == c)
        assert len(members) == 1 or a[members[0], members[1]] > 0


def test_cut_is_no_worse_than_random_matching() -> None:
    rng = np.random.default_rng(0)
    worse = 0
    for trial in range(50):
        n = int(rng.integers(20, 200))
        upper = np.triu(rng.random((n, n)) < rng.uniform(2, 10) / n, 1)
        a = clean(sp.csr_array((upper + upper.T).astype(float)), symmetric=True)
        if trial % 2:
            a = _weighted(a, trial)
        mine = normalised_cut(a, graclus_matching(a, seed=trial))
        chance = np.mean([normalised_cut(a, random_matching(a, rng)) for _ in range(5)])
        worse += mine > chance
    assert worse == 0


def test_deterministic_by_seed() -> None:
    a = as_graph("knn")
    assert np.array_equal(graclus_matching(a, seed=3), graclus_matching(a, seed=3))
    assert not np.array_equal(graclus_matching(a, seed=3), graclus_matching(a, seed=4))


def test_levels_are_matchings_in_a_row() -> None:
    a = as_graph("grid")
    x = torch.rand(900, 3)
    row, col = sp.coo_array(a).coords
    e = torch.tensor(np.stack([row, col]))
    two = GraclusPool(levels=2, reduction="sum")(x, e)
    one = GraclusPool(reduction="sum")(x, e)
    again = GraclusPool(reduction="sum")(one.x, one.adj)
    torch.testing.assert_close(two.x, again.x)
    torch.testing.assert_close(two.adj.to_dense(), again.adj.to_dense())


def test_reductions_and_lift() -> None:
    from softcut.ops import Segments

    x = torch.tensor([[1.0], [5.0], [2.0]])
    cluster = torch.tensor([0, 0, 1])
    for reduction, want, lifted in (
        ("max", [5.0, 2.0], [5.0, 5.0, 2.0]),
        ("mean", [3.0, 2.0], [3.0, 3.0, 2.0]),
        ("sum", [6.0, 2.0], [3.0, 3.0, 2.0]),
    ):
        selection = ClusterSelection(cluster, 2, Segments(3), reduction)
        assert selection.reduce(x).flatten().tolist() == want
        assert selection.lift(selection.reduce(x), pinv=True).flatten().tolist() == lifted


def test_negative_features_survive_the_maximum() -> None:
    out = GraclusPool()(-torch.ones(4, 2), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    assert (out.x == -1).all()


def test_gradient_reaches_edge_weights() -> None:
    e = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    w = torch.ones(6, requires_grad=True)
    GraclusPool()(torch.rand(4, 2), e, w).adj.to_dense().sum().backward()
    assert w.grad.tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_disk_cache(tmp_path, monkeypatch) -> None:
    a = as_graph("ring")
    first = GraclusPool(cache=tmp_path, levels=2).hierarchy(a)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 2
    assert not list(tmp_path.rglob("*.tmp"))
    fresh = GraclusPool(cache=tmp_path, levels=2)
    monkeypatch.setattr(fresh, "coarsen", lambda *_: pytest.fail("the cache was not used"))
    for level, known in zip(fresh.hierarchy(a), first, strict=True):
        assert np.array_equal(level.index, known.index)
        assert (level.adjacency != known.adjacency).nnz == 0
    files[0].write_bytes(b"damaged")
    again = GraclusPool(cache=tmp_path, levels=2).hierarchy(a)
    assert np.array_equal(again[1].index, first[1].index)
    GraclusPool(cache=tmp_path, seed=5).hierarchy(a)
    assert len(list(tmp_path.rglob("*.npz"))) == 3  # another recipe, another file


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_maximum_and_its_gradient_are_those_of_scatter(levels: int) -> None:
    edges = torch.from_numpy(np.stack(knn(60).nonzero()))
    x = torch.randn(60, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pool = GraclusPool(levels=levels)
    out = pool(x, edges)
    assert out.selection.members is not None
    where = out.selection.cluster.unsqueeze(-1).expand_as(x)
    zeros = torch.zeros(out.selection.num_clusters, 5, dtype=torch.float64)
    plain = zeros.scatter_reduce(0, where, x, "amax", include_self=False)
    weight = torch.rand(plain.shape, dtype=torch.float64)
    assert torch.equal(out.x, plain)
    got, expected = (torch.autograd.grad((y * weight).sum(), x)[0] for y in (out.x, plain))
    assert torch.equal(got, expected)
    ties = torch.zeros(60, 1, requires_grad=True)  # one of several equal nodes gets all of it
    pool(ties, edges).x.sum().backward()
    assert ties.grad.sum() == out.selection.num_clusters
    assert set(ties.grad.flatten().tolist()) <= {0.0, 1.0}


def test_the_coarse_graph_is_made_once_unless_weights_are_learned() -> None:
    edges = torch.from_numpy(np.stack(knn(60).nonzero()))
    pool, x = GraclusPool(), torch.rand(60, 2)
    assert pool(x, edges).adj is pool(x, edges).adj
    weight = torch.rand(edges.shape[1], requires_grad=True)
    out = pool(x, edges, weight)
    out.adj.to_dense().sum().backward()
    assert weight.grad is not None
    assert torch.equal(copy.deepcopy(pool)(x, edges).x, pool(x, edges).x)


@pytest.mark.parametrize("make", [GraclusPool, NDPPool])
def test_a_pool_first_used_in_inference_mode_trains_later(make) -> None:
    edges = torch.from_numpy(np.stack(knn(40).nonzero()))
    pool, x = make(), torch.rand(40, 3)
    with torch.inference_mode():
        out = pool(x, edges)
        _ = out.adj
    x.requires_grad_()
    again = pool(x, edges)
    (again.x.sum() + again.adj.to_dense().sum() * x.sum()).backward()
    assert x.grad is not None


@pytest.mark.parametrize("make", [GraclusPool, NDPPool])
def test_options_changed_later_and_other_precisions_are_seen(make) -> None:
    edges = torch.from_numpy(np.stack(knn(40).nonzero()))
    pool, x = make(), torch.rand(40, 3)
    one = pool(x, edges)
    pool.levels = 2
    assert pool(x, edges).x.shape[0] < one.x.shape[0]
    if make is NDPPool:
        assert pool(x.double(), edges).adj.val.dtype == torch.float64
