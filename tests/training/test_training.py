"""Replicas in one pass, their inputs, k-means, the feature graph and the consensus."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors

from softcut.clustering.consensus import Consensus
from softcut.clustering.features import (
    FeatureMap,
    leading_eigenvectors,
    propagate,
    structural_features,
    unit_rows,
)
from softcut.clustering.kmeans import kmeans, kmeans_restarts
from softcut.clustering.neighbours import exact_neighbours, feature_graph
from softcut.datasets import attributed_communities
from softcut.errors import ParameterError
from softcut.ops import CSR, mincut_loss, orthogonality_loss
from softcut.training import (
    ConvInput,
    DenseInput,
    ReplicaNet,
    TrainSettings,
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


@pytest.mark.parametrize("kind", ["dense", "skip-sparse", "skip-dense"])
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("objective", ["trace_ratio", "ratio_trace"])
def test_replicas_in_one_pass_equal_separate_trainings(graph, kind, start, objective):
    inputs, op, k = inputs_of(kind, graph), double(graph), 3
    seeds = replica_seeds(5, 4)
    scales = [0, 0, 1, 1] if kind == "dense" else [0, 0, 0, 0]
    settings = TrainSettings(iterations=50, tolerance=None, lr=1e-2, objective=objective, start=10)
    labels = torch.randint(0, k, (4, graph.num_nodes), generator=generator(1))
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in labels]).double()
    given = {"start": labels, "sizes": sizes} if start else {}

    def net(chosen):
        picked = [scales[r] for r in chosen]
        chosen_seeds = [seeds[r] for r in chosen]
        return ReplicaNet(
            inputs.in_channels,
            k,
            chosen_seeds,
            hidden=4,
            terms=inputs.terms,
            scales=picked,
            dtype=torch.float64,
        )

    together = net(range(4))
    result = train(together, inputs, op, settings, **given)
    for r in range(4):
        alone = net([r])
        own = {name: value[r : r + 1] for name, value in given.items()}
        single = train(alone, inputs, op, settings, **own)
        np.testing.assert_allclose(result.cut[:, r], single.cut[:, 0], atol=1e-9, rtol=0)
        np.testing.assert_allclose(result.ortho[:, r], single.ortho[:, 0], atol=1e-9, rtol=0)
        for a, b in zip(together.keep([r]).parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(a, b, atol=1e-9, rtol=0)


@pytest.mark.parametrize("columns", [1, 64])
@pytest.mark.parametrize("density", [0.02, 0.9])
def test_skip_input_is_eq_1_whichever_way_it_is_computed(graph, columns, density):
    x = sp.random_array((graph.num_nodes, 30), density=density, rng=np.random.default_rng(0), format="csr")
    op = double(graph)
    kinds = set()
    for features in (x, x.toarray()):
        layer = ConvInput(op, features, columns=columns, dtype=torch.float64)
        kinds.add(layer.kind)
        weights = [
            torch.randn(2, 3, 30, dtype=torch.float64, generator=generator(i)).requires_grad_()
            for i in (1, 2)
        ]
        out = layer(weights, [0, 0])
        dense = torch.from_numpy(x.toarray())
        a = op.normalise().to_dense()
        plain = torch.einsum("nf,rhf->rhn", a @ dense, weights[0]) + torch.einsum(
            "nf,rhf->rhn", dense, weights[1]
        )
        torch.testing.assert_close(out, plain)
        cotangent = torch.randn(out.shape, dtype=torch.float64, generator=generator(3))
        got = torch.autograd.grad(out, weights, cotangent)
        wanted = torch.autograd.grad(plain, weights, cotangent)
        for g, w in zip(got, wanted, strict=True):
            torch.testing.assert_close(g, w)
    assert kinds == {"sparse"} if density < 0.1 else kinds <= {"dense", "constant"}


def test_replica_losses_are_the_losses_of_each_replica(graph):
    s = torch.softmax(torch.randn(graph.num_nodes, 3, 4, dtype=torch.float64, generator=generator(0)), -1)
    op = double(graph).normalise()
    cut, ortho = replica_losses(op, s)
    for r in range(3):
        torch.testing.assert_close(cut[r], mincut_loss(s[:, r], op))
        torch.testing.assert_close(ortho[r], orthogonality_loss(s[:, r]))


def test_training_lowers_the_loss_and_is_repeatable(graph):
    def run():
        inputs, op = inputs_of("skip-sparse", graph), double(graph)
        net = ReplicaNet(inputs.in_channels, 3, replica_seeds(0, 2), terms=2, dtype=torch.float64)
        return train(net, inputs, op, TrainSettings(iterations=60, lr=1e-2, tolerance=None))

    first, second = run(), run()
    total = first.cut + first.ortho
    assert (total[-1] < total[0] - 0.05).all()
    np.testing.assert_array_equal(first.cut, second.cut)


def test_stops_when_no_replica_improves(graph):
    inputs, op = inputs_of("dense", graph), double(graph)
    net = ReplicaNet(inputs.in_channels, 3, [1, 2], dtype=torch.float64)
    settings = TrainSettings(iterations=5000, lr=5e-2, tolerance=1e-3, patience=50, check_every=10)
    result = train(net, inputs, op, settings)
    assert result.converged
    assert result.iterations < 5000
    total = result.cut + result.ortho
    assert (total[:-50].min(0) - total.min(0) < 1e-3).all()


def test_interrupt_keeps_what_was_learnt(graph):
    inputs, op = inputs_of("dense", graph), double(graph)
    net = ReplicaNet(inputs.in_channels, 3, [1], dtype=torch.float64)
    before = net.second.detach().clone()

    def stop(progress):
        if progress.iteration >= 50:
            raise KeyboardInterrupt

    result = train(net, inputs, op, TrainSettings(iterations=500, tolerance=None), stop)
    assert result.interrupted
    assert result.iterations == 50
    assert result.cut.shape == (50, 1)
    assert not torch.equal(before, net.second)


def test_a_start_is_learnt_before_the_cut(graph):
    z = torch.eye(graph.num_nodes)
    labels = torch.randint(0, 3, (1, graph.num_nodes), generator=generator(0))
    net = ReplicaNet(graph.num_nodes, 3, [0], hidden=16)
    train(
        net,
        DenseInput(z),
        CSR.from_graph(graph),
        TrainSettings(iterations=1, start=200, lr=5e-2),
        start=labels,
    )
    assert (net.assign(DenseInput(z))[:, 0].argmax(-1) == labels[0]).float().mean() > 0.95


@pytest.mark.parametrize(
    "bad", [{"iterations": 0}, {"lr": -1.0}, {"objective": "cut"}, {"ortho_weight": -1.0}]
)
def test_settings_are_checked(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        TrainSettings(**bad)


def test_seeds_do_not_depend_on_their_number():
    assert replica_seeds(3, 10)[:4] == replica_seeds(3, 4)
    assert replica_seeds(3, 4) != replica_seeds(4, 4)


# ------------------------------------------------------------------------------------------------- k-means


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


# ------------------------------------------------------------------------------- features and feature graph


def test_feature_graph_is_the_symmetrised_cosine_neighbour_graph(monkeypatch):
    z = torch.randn(50, 6, generator=generator(0), dtype=torch.float64)
    monkeypatch.setattr("softcut.clustering.neighbours._BLOCK", 50 * 7)  # several blocks
    op = feature_graph(z, 4)
    finder = NearestNeighbors(n_neighbors=5, metric="cosine").fit(z.numpy())
    distance, index = finder.kneighbors(z.numpy())
    plain = np.zeros((50, 50))
    np.put_along_axis(plain, index[:, 1:], np.clip(1 - distance[:, 1:], 0, None), axis=1)
    np.testing.assert_allclose(op.to_dense().numpy(), np.maximum(plain, plain.T), atol=1e-9)
    assert op.symmetric


def test_exact_neighbours_never_name_the_node_itself():
    _, index = exact_neighbours(torch.ones(6, 2), 3)
    assert (index != torch.arange(6).unsqueeze(1)).all()


def test_propagate_is_the_power_of_the_normalised_adjacency(graph):
    x = torch.randn(graph.num_nodes, 3, dtype=torch.float64, generator=generator(0))
    a = torch.from_numpy(graph.adjacency.toarray()) + torch.eye(graph.num_nodes, dtype=torch.float64)
    scale = a.sum(1).rsqrt()
    p = scale[:, None] * a * scale
    torch.testing.assert_close(propagate(double(graph), x, 3), p @ p @ p @ x)


def test_feature_map_gives_sparse_and_dense_words_the_same_columns(graph):
    dense = graph.x.toarray() if sp.issparse(graph.x) else graph.x
    a, b = FeatureMap.fit(sp.csr_array(dense), 8), FeatureMap.fit(dense, 8)
    assert a.words and b.words
    one, two = a.transform(sp.csr_array(dense)), b.transform(dense)
    np.testing.assert_allclose(one @ one.T, two @ two.T, atol=1e-4)  # up to the sign of each column


def test_feature_map_standardises_measurements():
    x = np.random.default_rng(0).normal(loc=[5, -3], scale=[1000, 0.001], size=(200, 2)).astype(np.float32)
    columns = FeatureMap.fit(x).transform(x)
    assert columns.shape == (200, 2)
    np.testing.assert_allclose(columns.std(0), 1, atol=0.1)


@pytest.mark.parametrize("x", [np.zeros((5, 3)), np.ones((5, 3)), np.zeros((5, 0)), sp.csr_array((5, 4))])
def test_feature_map_on_features_that_say_nothing(x):
    columns = FeatureMap.fit(x).transform(x)
    assert columns.shape[0] == 5
    assert np.isfinite(columns).all()


def test_leading_eigenvectors_are_the_leading_eigenvectors_of_the_regularised_graph(graph):
    modes, values = leading_eigenvectors(CSR.from_graph(graph), n_components=8)
    a = torch.from_numpy(graph.adjacency.toarray()).double()
    scale = (a.sum(1) + a.sum(1).mean() / 2).rsqrt()
    exact, vectors = torch.linalg.eigh(scale[:, None] * a * scale)
    assert (modes.double().T @ vectors[:, -3:]).norm(dim=0).min() > 0.99
    torch.testing.assert_close(values[:3].double(), exact.flip(0)[:3], atol=1e-3, rtol=1e-3)


def test_structural_features_are_unit_rows(graph):
    rows = structural_features(graph, n_components=6)
    joined = np.diff(graph.adjacency.indptr) > 0
    np.testing.assert_allclose(np.linalg.norm(rows[joined], axis=1), 1, rtol=1e-5)
    assert (rows[~joined] == 0).all()


def test_unit_rows_of_zeros_are_zeros():
    assert unit_rows(torch.zeros(2, 3)).abs().sum() == 0


# ------------------------------------------------------------------------------------------------ consensus


def test_consensus_finds_what_noisy_replicas_share():
    truth = torch.arange(300) % 4
    rng = generator(0)
    replicas = []
    for _ in range(16):  # each replica renames the clusters and gets 40 % of the nodes wrong
        wrong = torch.rand(300, generator=rng) < 0.4
        noisy = torch.where(wrong, torch.randint(0, 4, (300,), generator=rng), truth)
        replicas.append(torch.eye(4)[torch.randperm(4, generator=rng)[noisy]])
    s = torch.stack(replicas, dim=1)
    z = torch.zeros(300, 1, 0)
    consensus = Consensus.fit(s, z, 4)
    labels = consensus.predict(s, z)
    joint = torch.zeros(4, 4).index_put((truth, labels), torch.ones(()), accumulate=True)
    assert joint.max(1).values.sum() / 300 > 0.97
    proba = consensus.proba(s, z)
    torch.testing.assert_close(proba.sum(1), torch.ones(300))
    assert torch.equal(proba.argmax(1), labels)


def test_consensus_on_a_sample_labels_the_rest():
    truth = torch.arange(400) % 2
    s = torch.eye(2)[truth].unsqueeze(1)
    consensus = Consensus.fit(s, torch.zeros(400, 1, 0), 2, sample=50)
    labels = consensus.predict(s, torch.zeros(400, 1, 0))
    assert (labels[truth == 0] == labels[0]).all()
    assert (labels[truth == 1] != labels[0]).all()
