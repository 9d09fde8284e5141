"""Features, the encoder and the feature graph, against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import softcut as sc
from softcut.clustering import features as module
from softcut.clustering.encoder import Encoder
from softcut.clustering.features import (
    FeatureMap,
    rows_that_sum_to_one,
    structural_features,
)
from softcut.clustering.neighbours import exact_neighbours, feature_graph
from softcut.datasets import attributed_communities
from softcut.metrics.presence import looks_like_words


def words(n: int = 40, f: int = 24, seed: int = 0, binary: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (rng.random((n, f)) < np.linspace(0.05, 0.6, f)).astype(np.float32)
    return x if binary else x * rng.integers(1, 5, (n, f))


def measurements(n: int = 40, f: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(rng.normal(size=f), rng.uniform(0.5, 4, f), (n, f)).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x / np.where(length > 0, length, 1)


def half_whitened(rows: np.ndarray, d: int) -> np.ndarray:
    """Inner products of the leading d columns of U S, each divided by the root of its deviation s / sqrt(n)."""
    u, s, _ = np.linalg.svd(rows, full_matrices=False)
    columns = u[:, :d] * s[:d] / np.sqrt(s[:d] / np.sqrt(len(rows)))
    return columns @ columns.T


def test_what_looks_like_words():
    half = np.array([[1.0, 0.0], [0.0, 2.0]])
    assert looks_like_words(half)
    assert looks_like_words(sp.csr_array(half))
    assert looks_like_words(np.zeros((3, 2)))
    assert looks_like_words(sp.csr_array((3, 2)))
    assert not looks_like_words(np.array([[1.0, 1.0], [0.0, 2.0]])), "more than half"
    assert not looks_like_words(np.array([[1.0, 0.0], [0.0, -2.0]])), "negative"


@pytest.mark.parametrize("sparse", [False, True])
def test_words_that_are_there_or_not_are_weighted_by_inverse_document_frequency(sparse):
    x = words()
    found = FeatureMap.fit(sp.csr_array(x) if sparse else x, 24)
    count = x.sum(0)
    idf = np.log((1 + 40) / (1 + count)) + 1
    np.testing.assert_allclose(found.weight, idf, rtol=1e-6)
    assert found.offset is None
    columns = found.transform(sp.csr_array(x) if sparse else x)
    np.testing.assert_allclose(columns @ columns.T, half_whitened(unit(x * idf), 24), atol=1e-4)


def test_counts_of_words_are_taken_as_they_are():
    x = words(binary=False)
    found = FeatureMap.fit(x, 24)
    assert found.words
    assert found.weight is None
    columns = found.transform(x)
    np.testing.assert_allclose(columns @ columns.T, half_whitened(unit(x), 24), atol=1e-4)


@pytest.mark.parametrize("f", [5, 15, 16, 20])
def test_measurements_are_standardised_and_many_of_them_are_directions(f):
    x = measurements(f=f)
    found = FeatureMap.fit(x, 64)
    np.testing.assert_allclose(found.offset, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.weight, 1 / x.std(0), rtol=1e-5)
    rows = (x - x.mean(0)) / x.std(0)
    columns = found.transform(x)
    wanted = half_whitened(unit(rows) if f >= 16 else rows, f)
    np.testing.assert_allclose(columns @ columns.T, wanted, atol=2e-3)


def test_columns_without_deviation_do_not_count():
    x = measurements(f=5)
    x[:, 2] = 3.0
    found = FeatureMap.fit(x)
    assert found.weight[2] == 0
    np.testing.assert_allclose(
        np.abs(found.transform(x)),
        np.abs(FeatureMap.fit(np.delete(x, 2, 1)).transform(np.delete(x, 2, 1))),
        atol=1e-4,
    )


def test_fewer_components_are_the_leading_ones():
    x = measurements(n=60, f=8) * np.arange(1, 9)
    x[:, 1] += 4 * x[:, 0]
    rows = (x - x.mean(0)) / x.std(0)
    columns = FeatureMap.fit(x, 3).transform(x)
    assert columns.shape == (60, 3)
    np.testing.assert_allclose(columns @ columns.T, half_whitened(rows, 3), atol=5e-2)


def test_a_graph_with_other_features_is_refused():
    with pytest.raises(sc.SoftcutError, match="has 4 features but the model was fitted with 5"):
        FeatureMap.fit(measurements()).transform(measurements(f=4))


def propagation(graph: sc.Graph) -> np.ndarray:
    a = graph.adjacency.toarray().astype(float) + np.eye(graph.num_nodes)
    scale = 1 / np.sqrt(a.sum(1))
    return scale[:, None] * a * scale


def weighted(n: int = 40, seed: int = 0) -> sc.Graph:
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) < 0.15, 1) * rng.uniform(0.5, 3, (n, n))
    a[-1] = a[:, -1] = 0  # a node without edges
    return sc.Graph.from_scipy(sp.csr_array(a + a.T))


def encoded_by_hand(
    graph: sc.Graph, x: np.ndarray, hops: tuple[int, ...], directions: bool
) -> list[np.ndarray]:
    """Z of every scale: propagated, centred at the median, long rows shortened, unit variance per column."""
    found, p = [], propagation(graph)
    for h in hops:
        z = np.linalg.matrix_power(p, h) @ x.astype(float)
        z = unit(z) if directions else z
        z = z - np.sort(z, axis=0)[(len(z) - 1) // 2]  # the lower median
        length = np.linalg.norm(z, axis=1)
        real = np.sort(length[length > 1e-9 * length.max()])
        limit = 2 * real[(len(real) - 1) // 2]
        z = z * np.minimum(1, limit / np.maximum(length, 1e-300))[:, None]
        found.append(z * np.sqrt(z.shape[1] / (z**2).sum(1).mean()))
    return found


@pytest.mark.parametrize("f", [5, 20])
def test_the_encoder_is_its_formula(f):
    graph = weighted().with_features(measurements(f=f) ** 3)
    encoder, encoded = Encoder.fit(graph)
    assert encoder.hops == (0, 1, 2, 4, 8, 16)
    assert encoder.directions == (f >= 16)
    x = encoder.features.transform(graph.x)
    np.testing.assert_array_equal(encoded.x.numpy(), x)
    wanted = encoded_by_hand(graph, x, encoder.hops, f >= 16)
    for got, z in zip(encoded.z.numpy(), wanted, strict=True):
        np.testing.assert_allclose(got, z, atol=1e-3, rtol=1e-4)
    again = encoder.encode(graph, torch.device("cpu"))
    torch.testing.assert_close(again.z, encoded.z)
    torch.testing.assert_close(encoded.rows[3], encoded.z[:, 3])


def test_positions_are_propagated_less_and_are_directions():
    graph = weighted().with_features(measurements(f=4))
    encoder, encoded = Encoder.fit(graph, positions=True)
    assert encoder.hops == (0, 1, 2)
    assert encoder.directions
    wanted = encoded_by_hand(graph, encoder.features.transform(graph.x), encoder.hops, True)
    np.testing.assert_allclose(encoded.z.numpy(), np.stack(wanted), atol=1e-3, rtol=1e-4)


def test_a_number_of_hops_is_one_scale():
    graph = weighted().with_features(measurements(f=4))
    encoder, encoded = Encoder.fit(graph, hops=3)
    assert encoder.hops == (3,)
    wanted = encoded_by_hand(graph, encoder.features.transform(graph.x), (3,), False)
    np.testing.assert_allclose(encoded.z.numpy(), np.stack(wanted), atol=1e-3, rtol=1e-4)


def test_an_unseen_graph_is_encoded_with_what_the_first_one_taught():
    graph, other = (
        weighted().with_features(measurements()),
        weighted(seed=1).with_features(measurements(seed=1)),
    )
    encoder, _ = Encoder.fit(graph, hops=1)
    z = propagation(other) @ encoder.features.transform(other.x).astype(float) - encoder.centre.numpy()[0]
    length = np.linalg.norm(z, axis=1, keepdims=True)
    z = z * np.minimum(1, float(encoder.limit[0]) / length) * float(encoder.scale[0])
    np.testing.assert_allclose(encoder.encode(other, torch.device("cpu")).z[0].numpy(), z, atol=1e-4)


def test_the_encoder_of_the_paper_learns_nothing():
    graph = weighted().with_features(words())
    encoder, encoded = Encoder.fit(graph, paper=True)
    assert encoder.paper
    assert encoder.hops == (0,)
    assert encoder.tensors() == {}
    assert encoded.z.shape == (1, 40, 0)
    assert encoded.inputs.terms == 2


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_divided_by_their_sum_of_absolute_values(sparse):
    x = np.array([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    graph = sc.Graph.from_edges([[0, 1], [1, 2]], x=sp.csr_array(x) if sparse else x)
    rows = rows_that_sum_to_one(graph)
    rows = rows.toarray() if sparse else rows
    np.testing.assert_allclose(rows, [[0.25, -0.75], [0, 0], [0.5, 0.5]])


def test_local_structure_is_the_degree_over_growing_neighbourhoods():
    graph = weighted()
    degree = np.log1p(graph.adjacency.toarray().sum(1))
    p = propagation(graph)
    wanted = np.stack([np.linalg.matrix_power(p, h) @ degree for h in (0, 1, 2, 4, 8)], axis=1)
    np.testing.assert_allclose(structural_features(graph, local=True), wanted, rtol=1e-4, atol=1e-5)


def test_positions_are_eigenvectors_weighted_by_squared_eigenvalues():
    """Full width, so that subspace iteration is exact: inner products of rows need no signs."""
    graph = weighted(n=12)
    a = graph.adjacency.toarray()
    degree = a.sum(1)
    scale = 1 / np.sqrt(degree + degree.mean() / 2)
    values, vectors = np.linalg.eigh(scale[:, None] * a * scale)
    wanted = vectors * np.maximum(values, 0) ** 2
    wanted = np.where(degree[:, None] > 0, unit(wanted), 0)
    found = structural_features(graph, n_components=12)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=2e-3)


def test_where_all_nodes_stand_alike_there_are_no_positions():
    complete = sc.Graph.from_scipy(sp.csr_array(np.ones((6, 6)) - np.eye(6)))
    assert (structural_features(complete) == 0).all()
    nothing = sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=3)
    assert (structural_features(nothing) == 0).all()
    assert module.MANY_COLUMNS == 16


# --------------------------------------------------------------------------------------- the feature graph


def test_neighbours_are_the_most_similar_rows():
    z = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cosine = torch.nn.functional.cosine_similarity(z[:, None], z[None], dim=-1)
    cosine.fill_diagonal_(-2)
    similarity, index = exact_neighbours(z, 4)
    wanted = cosine.sort(1, descending=True)
    torch.testing.assert_close(similarity, wanted.values[:, :4])
    assert torch.equal(index, wanted.indices[:, :4])
    assert exact_neighbours(z, 50)[1].shape == (20, 19)


def test_rows_in_opposite_directions_are_not_joined():
    dense = feature_graph(torch.tensor([[1.0, 0.0], [-1.0, 0.1], [0.0, -1.0]]), 2).to_dense()
    assert (dense == 0).all()


def test_a_graph_with_one_node_or_no_column_joins_nothing():
    z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [1.0, 0.2]])
    dense = feature_graph(z, 2, ptr=[0, 1, 3]).to_dense()
    assert (dense[0] == 0).all() and (dense[:, 0] == 0).all()
    assert dense[1, 2] > 0.99
    assert feature_graph(torch.zeros(3, 0), 2).to_dense().sum() == 0


def test_structural_encodings_name_themselves():
    graph = attributed_communities(60, 2, seed=0)
    for structural in (False, True):
        encoder, _ = Encoder.fit(graph, structural=structural)
        assert encoder.meta()["structural"] is structural
        again = Encoder.restore(encoder.meta(), encoder.tensors())
        torch.testing.assert_close(
            again.encode(graph, torch.device("cpu")).z, encoder.encode(graph, torch.device("cpu")).z
        )
