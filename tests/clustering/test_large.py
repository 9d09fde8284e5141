"""What large graphs do otherwise, on small ones: samples, single precision, replicas that stop one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from softcut.clustering.sampling import sample_rows
from softcut.clustering.settings import resolve

import softcut as sc
from softcut.clustering import encoder, features, replicas, sampling
from softcut.clustering.encoder import Encoder
from softcut.clustering.features import FeatureMap, apart_from_constant, propagate
from softcut.clustering.kmeans import assign, kmeans, kmeans_restarts
from softcut.clustering.prepare import prepare
from softcut.clustering.rows import FeatureRows, leading_directions
from softcut.datasets import attributed_communities
from softcut.errors import GraphError
from softcut.metrics import nmi
from softcut.ops import CSR
from softcut.training import DenseInput


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=400, n_clusters=3, average_degree=12, n_features=60, seed=0)


@pytest.fixture
def large(monkeypatch):
    """Every graph of more than 200 nodes is large."""
    for module in (encoder, features, replicas, sampling):
        monkeypatch.setattr(module, "LARGE", 200)


def prepared_of(graph, **options):
    settings, _ = resolve(sc.MinCutClustering(3, **options).get_params(), sc.MinCutClustering.__init__, graph)
    return prepare(graph, settings, torch.device("cpu"), lambda text: None), settings


# ------------------------------------------------------------------------------------------------- features


def test_a_sample_has_different_rows_and_repeats(monkeypatch):
    rows = sample_rows(1000, 100, random_state=3)
    assert len(set(rows.tolist())) == 100 and int(rows.min()) >= 0 and int(rows.max()) < 1000
    assert torch.equal(rows, sample_rows(1000, 100, random_state=3))
    assert not torch.equal(rows, sample_rows(1000, 100, random_state=4))
    assert len(sample_rows(1000)) == 1000
    monkeypatch.setattr(sampling, "LARGE", 10)
    assert len(sample_rows(1000)) == 10


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_products_with_rows_of_features(sparse, unit):
    rng = np.random.default_rng(0)
    x = rng.random((30, 7)) * (rng.random((30, 7)) < 0.4)
    weight = rng.random(7).astype(np.float32) + 0.5
    offset = None if sparse else rng.random(7).astype(np.float32)
    plain = (x - (0 if offset is None else offset)) * weight
    if unit:
        length = np.linalg.norm(plain, axis=1, keepdims=True)
        plain = plain / np.where(length > 0, length, 1)
    rows = FeatureRows(sp.csr_array(x) if sparse else x, weight=weight, offset=offset, unit=unit)
    v, y = torch.randn(7, 3), torch.randn(30, 3)
    np.testing.assert_allclose(rows.times(v), plain @ v.numpy(), atol=1e-5)
    np.testing.assert_allclose(rows.turned_times(y), plain.T @ y.numpy(), atol=1e-5)


def test_unsorted_columns_are_the_same_rows():
    x = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    np.testing.assert_array_equal(FeatureRows(x).times(torch.eye(3)), x.toarray())


@pytest.mark.parametrize("sparse", [False, True])
def test_leading_directions_are_those_of_the_svd(sparse):
    rng = np.random.default_rng(1)
    x = (rng.random((200, 40)) < 0.1) * np.linspace(3, 1, 40)
    vectors, values = leading_directions(FeatureRows(sp.csr_array(x) if sparse else x), 5)
    _, s, vt = np.linalg.svd(x)
    np.testing.assert_allclose(values, s[:5], rtol=1e-2)
    np.testing.assert_allclose(np.abs(vectors[:, 0].numpy() @ vt[0]), 1, atol=1e-3)
    np.testing.assert_allclose((vectors.numpy() ** 2).sum(0), 1, atol=1e-6)
    few, exact = leading_directions(FeatureRows(x[:, :6]), 6), np.linalg.svd(x[:, :6])
    np.testing.assert_allclose(few[1], exact[1], rtol=1e-4)
    overlap = np.abs(few[0].numpy().T @ exact[2].T)
    np.testing.assert_allclose(overlap[0, 0], 1, atol=1e-3)


@pytest.mark.parametrize("kind", ["binary words", "counts", "measurements", "few measurements"])
def test_features_of_large_graphs_are_projected_as_those_of_small_ones(kind, monkeypatch):
    rng = np.random.default_rng(2)
    x = (rng.random((300, 30)) < np.linspace(0.5, 0.05, 30)).astype(np.float32)
    if kind == "counts":
        x *= rng.integers(1, 4, x.shape)
    elif kind != "binary words":
        x = rng.normal(size=(300, 30 if kind == "measurements" else 4)).astype(np.float32)
        x[:, 0] *= 3
    x = sp.csr_array(x) if "words" in kind else x
    small = FeatureMap.fit(x, x.shape[1])
    monkeypatch.setattr(features, "LARGE", 200)
    big = FeatureMap.fit(x, x.shape[1])
    found = big.project(x, torch.device("cpu")).numpy()
    np.testing.assert_allclose(found, big.transform(x), atol=1e-4)
    wanted = small.transform(x)
    # Directions have no sign: distances between nodes are compared.
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=5e-3)
    with pytest.raises(GraphError, match="fitted with"):
        big.project(x[:, :3], torch.device("cpu"))


def test_single_precision_keeps_the_digits_of_far_hops():
    mixing = attributed_communities(400, 2, average_degree=60, n_features=0, edge_signal=0, seed=0)
    op = CSR.from_graph(mixing, dtype=torch.float64)
    x = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    u, c, rest = apart_from_constant(op, x)
    assert rest.dtype == torch.float32
    exact = propagate(op, x.double(), 16)
    apart = torch.addr(propagate(op, rest, 16).double(), u, c)
    plain = propagate(op, x, 16).double()

    def error(z: torch.Tensor) -> float:
        """Of what differs between nodes, which is a small part of Z."""
        still = exact - u[:, None] * (u @ exact)
        return float((z - u[:, None] * (u @ z) - still).norm() / still.norm())

    assert error(apart) < 1e-5 < 1e-2 < error(plain)


def test_large_graphs_are_encoded_as_small_ones(graph, monkeypatch):
    _, small = Encoder.fit(graph)
    monkeypatch.setattr(encoder, "LARGE", 200)  # the sample is still larger than the graph
    second, big = Encoder.fit(graph)
    assert big.z.shape == small.z.shape and big.z.dtype == torch.float32
    torch.testing.assert_close(big.z, small.z, atol=2e-4, rtol=2e-4)
    torch.testing.assert_close(second.encode(graph, torch.device("cpu")).z, big.z)
    monkeypatch.setattr(sampling, "LARGE", 200)
    third, sampled = Encoder.fit(graph)
    assert not torch.equal(third.centre, second.centre), "medians of a sample"
    assert (sampled.z - big.z).abs().mean() < 0.3


# ------------------------------------------------------------------------------------------ k-means, starts


def test_nearest_centres_of_several_sets():
    x, centres = torch.randn(50, 3), torch.randn(4, 6, 3)
    wanted = torch.stack([torch.cdist(x, c).argmin(1) for c in centres])
    assert torch.equal(assign(x, centres), wanted)


def test_only_the_best_starts_go_on(monkeypatch):
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    calls = []

    def spy(*args, **options):
        calls.append((args[2], options["max_iter"], options.get("start")))
        return kmeans_restarts(*args, **options)

    monkeypatch.setattr("softcut.clustering.kmeans.kmeans_restarts", spy)
    every = kmeans(x, 6, n_init=12)
    some = kmeans(x, 6, n_init=12, finalists=3)
    assert [(count, most) for count, most, _ in calls] == [(12, 100), (12, 10), (3, 90)]
    assert every.inertia <= some.inertia + 1e-3 < 1.05 * every.inertia
    assert calls[2][2].shape == (3, 6, 4)
    assert float((x - some.centres[some.labels]).square().sum()) == pytest.approx(some.inertia, rel=1e-4)


def test_starts_of_large_graphs_come_from_a_sample(monkeypatch, large):
    z = torch.cat([torch.randn(200, 2), torch.randn(200, 2) + 20, torch.randn(200, 2) - 20])
    seen = []

    def spy(x, k, restarts, **options):
        seen.append((len(x), restarts, options["least"]))
        return kmeans_restarts(x, k, restarts, **options)

    monkeypatch.setattr(replicas, "kmeans_restarts", spy)
    monkeypatch.setattr(replicas, "_START_ROWS", 150)
    start = replicas._start(DenseInput(z), [0, 0], 3, 0)
    assert seen == [(150, 2 * replicas._TRIES, pytest.approx(0.25 * 150 / 3))]
    assert start.labels.shape == (2, 600)
    for labels in start.labels:
        assert {len(set(part.tolist())) for part in labels.split(200)} == {1}
    torch.testing.assert_close(start.sizes, torch.full((2, 3), 200.0))


# --------------------------------------------------------------------------------------------------- fits


def test_replicas_of_large_graphs_stop_one_by_one(graph, monkeypatch):
    prepared, settings = prepared_of(graph)
    assert replicas._schedule(prepared, settings, "trace_ratio") == settings.training("trace_ratio")
    monkeypatch.setattr(replicas, "LARGE", 399)
    large = replicas._schedule(prepared, settings, "trace_ratio")
    assert large.one_by_one and large.patience == 10 and large.tolerance == 2 * settings.train.tolerance
    monkeypatch.setattr(replicas, "LARGE", 400)
    assert not replicas._schedule(prepared, settings, "trace_ratio").one_by_one


def test_a_large_graph_is_clustered_as_well_and_predicted_the_same(graph, large):
    est = sc.MinCutClustering(3, n_init=4, max_iter=60, random_state=0).fit(graph)
    assert nmi(graph.y, est.labels_) > 0.85
    np.testing.assert_array_equal(est.predict(graph), est.labels_)
    again = sc.MinCutClustering(3, n_init=4, max_iter=60, random_state=0).fit(graph)
    np.testing.assert_array_equal(again.labels_, est.labels_)
    assert np.isfinite(est.history_["cut"]).all()
    moving = (np.diff(est.history_["cut"], axis=0) != 0).sum(0)
    assert len(set(moving.tolist())) > 1, "replicas stop at different times"


def test_clusters_that_are_used():
    hard = torch.tensor([[0, 1], [0, 2], [0, 0]])
    assert replicas._clusters_used(hard, 4) == [1, 3]
