"""k-means, and the last steps of a fit against plain formulas: agreement, weights, the consensus, its refinement."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import softcut as sc
from softcut.clustering import Recipe, networks
from softcut.clustering import consensus as consensus_module
from softcut.clustering import kmeans as kmeans_module
from softcut.clustering.consensus import Consensus, Refiner, refine
from softcut.clustering.kmeans import assign, kmeans, kmeans_restarts, squared_distances
from softcut.clustering.networks import agreement, evidence_weights
from softcut.clustering.node_features import sample_rows
from softcut.clustering.prepare import prepare
from softcut.datasets import attributed_communities
from softcut.metrics import Evidence
from softcut.ops import CSR


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


@pytest.mark.parametrize("table", [1, 40 * 5 * 3])
def test_restarts_that_wait_for_the_next_table_are_the_same(table, monkeypatch):
    x = points()
    wanted = kmeans(x, 5, n_init=7, finalists=2, random_state=1)
    monkeypatch.setattr(kmeans_module, "_NUMBERS_AT_ONCE", table)
    found = kmeans(x, 5, n_init=7, finalists=2, random_state=1)
    assert torch.equal(found.labels, wanted.labels) and found.inertia == pytest.approx(wanted.inertia)


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


def test_a_given_clustering_is_one_more_start():
    x = torch.rand(300, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    alone, best = (kmeans(x, 12, n_init=n, random_state=0) for n in (1, 60))
    given = kmeans(x, 12, n_init=1, also=best.labels, random_state=0)
    assert given.inertia == pytest.approx(best.inertia) and given.inertia < 0.99 * alone.inertia
    bad = kmeans(x, 12, n_init=1, also=torch.zeros(300, dtype=torch.long), random_state=0)
    assert bad.inertia <= alone.inertia  # it is taken only where it is better


def test_the_consensus_of_a_large_graph_begins_from_its_best_network_too(monkeypatch):
    seen = []

    def spied(t, k, *, also=None, **options):
        seen.append(also)
        return kmeans(t, k, also=also, **options)

    monkeypatch.setattr(consensus_module, "kmeans", spied)
    s = torch.rand(50, 2, 3, generator=torch.Generator().manual_seed(0))
    options = {"weights": torch.tensor([0.2, 0.8]), "n_init": 2}
    for finalists in (1, None):
        Consensus.fit(s, torch.zeros(50, 1, 0), 3, finalists=finalists, **options)
    assert torch.equal(seen[0], s[:, 1].argmax(1)) and seen[1] is None


@pytest.mark.parametrize(("max_iter", "finalists"), [(2, None), (2, 3), (30, None), (30, 3)])
def test_the_best_of_the_finalists_is_taken(max_iter, finalists):
    """After ten iterations the starts with the lowest error go on."""
    x = points(80)
    first = min(10, max_iter) if finalists else max_iter
    _, centres = kmeans_restarts(x, 7, 8, max_iter=first, random_state=5)
    error = torch.stack([squared_distances(x, c).amin(1).sum() for c in centres])
    if finalists and max_iter > 10:
        start = centres[error.argsort()[:finalists]]
        _, centres = kmeans_restarts(x, 7, finalists, max_iter=max_iter - 10, start=start)
        error = torch.stack([squared_distances(x, c).amin(1).sum() for c in centres])
    best = kmeans(x, 7, n_init=8, max_iter=max_iter, finalists=finalists, random_state=5)
    assert best.inertia == pytest.approx(float(error.min()))
    torch.testing.assert_close(best.centres, centres[int(error.argmin())])


def partitions(n: int = 60, k: int = 4, seed: int = 0) -> np.ndarray:
    """Five labellings: two random ones, a noisy copy, one with fewer clusters and one with a single cluster."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, k, n), rng.integers(0, k, n)
    noisy = np.where(rng.random(n) < 0.2, rng.integers(0, k, n), first)
    return np.stack([first, second, noisy, np.minimum(first, 1), np.full(n, 2)], axis=1)


def test_agreement_is_that_of_scikit_learn():
    for hard in (partitions(), np.array([[0, 0], [0, 1], [1, 1]])):
        ari = agreement(torch.from_numpy(hard), 4)
        for a, b in np.ndindex(*ari.shape):
            assert float(ari[a, b]) == pytest.approx(adjusted_rand_score(hard[:, a], hard[:, b]), abs=1e-9)
    assert (agreement(torch.tensor([[0, 1]]), 2) == 1).all(), "of one node"


def test_agreement_of_many_rows_is_counted_on_evenly_spaced_ones(monkeypatch):
    hard = torch.from_numpy(partitions(n=95))
    monkeypatch.setattr(networks, "_ROWS", 30)
    some = agreement(hard, 4)
    monkeypatch.undo()
    torch.testing.assert_close(some, agreement(hard[::3], 4))
    assert not torch.equal(some, agreement(hard, 4))


def test_weights_fall_with_the_evidence():
    """exp(-((e_max - e) / (width e_max))^2); those below a thousandth are none."""

    def weights(values, width, nodes=2):
        nothing, one = torch.zeros(len(values)), torch.ones(len(values))
        return evidence_weights(Evidence(torch.tensor(values) * nodes, nothing, one, nodes), width)

    for values, width in (([4.0, 3.8, 3.0], 0.03), ([0.5, 0.4, 0.1], 0.6), ([0.4, -0.2], 1.0)):
        most = max(values)
        plain = np.array([np.exp(-(((most - e) / (width * most)) ** 2)) for e in values])
        plain[plain < 1e-3] = 0
        np.testing.assert_allclose(weights(values, width).numpy(), plain / plain.sum(), rtol=1e-4)
    # 2.62 widths behind the best one: e^-6.86 is a little more than a thousandth, at 2.64 it is less.
    assert weights([1.0, 1 - 0.262], 0.1)[1] > 0 and weights([1.0, 1 - 0.264], 0.1)[1] == 0
    torch.testing.assert_close(weights([20.0, 18.0], 0.1), weights([2.0, 1.8], 0.1))  # a share
    for values in ([-0.2, -0.4], [0.0, -1.0], [0.0, 0.0]):
        assert weights(values, 0.1).tolist() == [0.5, 0.5], "all are equal where none says anything"


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
    same = torch.full((3,), 1 / 3, dtype=torch.float64)  # by default, and all read the first distance
    for options, wanted in (
        ({"scales": scales, "weights": weights}, table(s, z, weights, scales, fusion)),
        ({}, table(s, z, same, [0, 0, 0], fusion)),
    ):
        coordinates = Consensus.fit(s, z, 2, fusion=fusion, **options).transform(s, z).numpy()
        np.testing.assert_allclose(coordinates @ coordinates.T, wanted @ wanted.T, atol=1e-9)


def test_the_leading_directions_are_kept():
    s, z, weights = some_table()
    consensus = Consensus.fit(s, z, 2, scales=[0, 0, 1], weights=weights, dimensions=3)
    t = table(s, z, weights, [0, 0, 1], 1.0)
    values = np.linalg.eigvalsh(t.T @ t)[::-1]
    coordinates = consensus.transform(s, z).numpy()
    assert coordinates.shape == (30, 3)
    np.testing.assert_allclose((coordinates**2).sum(0), values[:3], rtol=1e-9)


def test_probabilities_are_normal_densities_as_wide_as_the_spread():
    s, z, weights = some_table()
    consensus = Consensus.fit(s, z, 3, scales=[0, 0, 1], weights=weights)
    t, centres = consensus.transform(s, z).numpy(), consensus.centres.numpy()
    distance = ((t[:, None] - centres) ** 2).sum(-1)
    assert float(consensus.spread) == pytest.approx(distance.min(1).mean())
    density = np.exp(-distance / (2 * distance.min(1).mean()))
    density /= density.sum(1, keepdims=True)
    np.testing.assert_allclose(consensus.proba(s, z).numpy(), density, atol=1e-9)


def test_negative_weights_and_columns_that_say_nothing_do_not_count():
    s, z, _ = some_table()
    scale = Consensus.fit(s, z, 2, weights=torch.tensor([0.6, 0.4, -0.1])).scale
    assert (scale[:4] > 0).all() and (scale[4:6] == 0).all()
    scale = Consensus.fit(s, torch.full_like(z, 2.0), 2).scale
    assert (scale[6:] == 0).all() and torch.isfinite(scale).all()


# -------------------------------------------------------------------------------------------- refinement


def two_groups(n: int = 200) -> tuple[torch.Tensor, torch.Tensor, CSR]:
    """Labels, features that show them, and a graph of edges inside the groups only."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 2
    x = torch.eye(2)[y] + 0.1 * torch.randn(n, 2, generator=generator)
    ends = torch.randint(0, n // 2, (2, 5 * n), generator=generator) * 2 + (torch.arange(5 * n) % 2)
    ends = ends[:, ends[0] != ends[1]]
    return y, x, CSR.from_edge_index(torch.cat([ends, ends.flip(0)], 1), num_nodes=n)


def test_nothing_passes_without_edges_and_features():
    proba = torch.rand(6, 3, generator=torch.Generator().manual_seed(1))
    proba /= proba.sum(1, keepdim=True)
    refiner = Refiner.fit(torch.zeros(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]), k=3)
    assert refiner.weight < 1e-6 and refiner.scale == 0
    op = CSR.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=6)
    torch.testing.assert_close(refiner.apply(torch.zeros(6, 2), proba, op), proba)


def test_the_regression_is_the_minimum_of_its_loss_and_weighs_what_it_explains_of_the_entropy():
    y = torch.arange(60) % 2
    x = torch.eye(3)[y] + 0.6 * torch.randn(60, 3, generator=torch.Generator().manual_seed(5)) + 2
    y[:10] = 0
    refiner = Refiner.fit(x, y, 3)  # the third cluster is empty
    torch.testing.assert_close(refiner.centre, x.mean(0))
    spread = (x - x.mean(0)).square().mean().sqrt()
    torch.testing.assert_close(refiner.scale, 1 / spread)
    z = ((x - x.mean(0)) / spread).double()
    kernel, bias = (t.double().clone().requires_grad_() for t in (refiner.kernel, refiner.bias))
    left = torch.nn.functional.cross_entropy(z @ kernel + bias, y)
    (left + 3e-3 * kernel.square().sum()).backward()
    assert max(kernel.grad.abs().max(), bias.grad.abs().max()) < 2e-3
    share = torch.bincount(y) / 60  # less than one nat
    told = 1 - left.detach().float() / -(share * share.log()).sum()
    assert 0.2 < told < 0.9
    torch.testing.assert_close(refiner.weight, told / (1 + told))


def test_neighbours_by_weight():
    """A path of three nodes with one heavy edge: ten steps of PageRank with restart 0.4, written out."""
    a = torch.tensor([[0.0, 3.0, 0.0], [3.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    op = CSR.from_graph(sc.Graph.from_scipy(sp.csr_array(a.numpy())))
    one, quarter = torch.tensor(1.0), torch.tensor(0.25)
    refiner = Refiner(torch.zeros(1), one, torch.zeros(1, 2), torch.zeros(2), quarter)
    proba = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]])
    evidence = 0.25 * 0.5 + 0.75 * proba
    scale = a.sum(1).rsqrt()
    out, p = evidence, scale[:, None] * a * scale
    for _ in range(10):
        out = 0.4 * evidence + 0.6 * p @ out
    torch.testing.assert_close(refiner.apply(torch.zeros(3, 1), proba, op), out / out.sum(1, keepdim=True))
    other = 0.7 * evidence + 0.3 * p @ (0.7 * evidence + 0.3 * p @ evidence)
    refined = refiner.apply(torch.zeros(3, 1), proba, op, Recipe(steps=2, restart=0.7))
    torch.testing.assert_close(refined, other / other.sum(1, keepdim=True))


def test_the_regression_is_part_of_the_answer():
    y, x, op = two_groups(40)
    refiner = Refiner.fit(x + 3, y, k=2)
    proba = torch.rand(40, 2, generator=torch.Generator().manual_seed(2))
    alone = torch.softmax((x + 3 - refiner.centre) * refiner.scale @ refiner.kernel + refiner.bias, 1)
    wanted = refiner.weight * alone + (1 - refiner.weight) * proba
    refined = refiner.apply(x + 3, proba, op, Recipe(steps=0))
    torch.testing.assert_close(refined, wanted / wanted.sum(1, keepdim=True), atol=1e-5, rtol=1e-5)


# ------------------------------------------------------------------------------------- as a step of a fit


def prepared_of():
    graph = attributed_communities(120, 3, n_features=40, seed=0)
    return prepare(graph, Recipe(), torch.device("cpu"), [].append)


def test_the_step_is_fit_and_apply_on_labels_of_the_consensus():
    prepared, notes = prepared_of(), []
    soft = torch.full((120, 3), 0.2)
    soft[torch.arange(120), torch.from_numpy(prepared.encoded.graph.y)] = 0.6
    for large in (50_000, 60):
        recipe = Recipe(large=large)
        rows = sample_rows(120, large)
        wanted = Refiner.fit(prepared.encoded.x[rows], soft.argmax(1)[rows], 3)
        after, refiner = refine(prepared, soft, recipe, notes.append)
        torch.testing.assert_close(refiner.kernel, wanted.kernel)
        torch.testing.assert_close(after, wanted.apply(prepared.encoded.x, soft, prepared.encoded.op))
    assert notes == []
    assert refine(prepared, soft, Recipe(refine=False), notes.append) == (soft, None)
    nothing = replace(prepared, encoded=replace(prepared.encoded, x=torch.zeros(120, 0)))
    assert refine(nothing, soft, Recipe(), notes.append) == (soft, None), "neighbours alone are no reason"


def test_a_refinement_that_empties_a_cluster_is_left_out(monkeypatch):
    prepared, notes = prepared_of(), []
    labels = torch.arange(120) % 3
    soft = torch.full((120, 4), 0.1)  # the fourth cluster is empty before
    soft[torch.arange(120), labels] = 0.7
    after = torch.eye(4)[torch.minimum(labels, torch.tensor(1))]
    monkeypatch.setattr(Refiner, "apply", lambda self, *arguments: after)
    assert refine(prepared, soft, Recipe(), notes.append) == (soft, None)
    assert notes == [
        "nodes were not moved to the cluster that suits them best: that would have emptied a cluster."
    ]
    after = torch.eye(4)[2 - labels]
    kept, refiner = refine(prepared, soft, Recipe(), notes.append)
    assert kept is after and refiner is not None and len(notes) == 1
