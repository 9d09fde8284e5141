"""Features and the feature graph against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.neighbors import NearestNeighbors

from softcut.clustering.features import (
    FeatureMap,
    leading_eigenvectors,
    propagate,
    structural_features,
    unit_rows,
)
from softcut.clustering.neighbours import exact_neighbours, feature_graph
from softcut.datasets import attributed_communities
from softcut.ops import CSR


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=120, n_clusters=3, n_features=40, seed=1)


def double(graph) -> CSR:
    return CSR.from_graph(graph, dtype=torch.float64)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
