"""Features, the encoder and samples of nodes, against plain formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.utils.extmath import randomized_svd

import softcut as sc
from softcut.clustering import Recipe
from softcut.clustering.feature_map import FeatureMap, FeatureRows, leading_directions, randomised_svd
from softcut.clustering.node_features import (
    Nodes,
    apart_from_constant,
    positions,
    propagate,
    rows_that_sum_to_one,
    sample_rows,
    structural_features,
    unit_rows,
)
from softcut.clustering.prepare import Encoder, scaled_distances
from softcut.datasets import attributed_communities
from softcut.errors import GraphError
from softcut.ops import CSR

CPU = torch.device("cpu")


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


def weighted(n: int = 40, seed: int = 0) -> sc.Graph:
    rng = np.random.default_rng(seed)
    a = np.triu(rng.random((n, n)) < 0.15, 1) * rng.uniform(0.5, 3, (n, n))
    a[-1] = a[:, -1] = 0  # a node without edges
    return sc.Graph.from_scipy(sp.csr_array(a + a.T))


# --------------------------------------------------------------------------------------------- projection


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_words_that_are_there_or_not_are_weighted_by_inverse_document_frequency(binary, kind):
    x = words(binary=binary)
    projection = FeatureMap.fit(kind(x), Recipe(components=24))
    weight = np.log((1 + 40) / (1 + x.sum(0))) + 1 if binary else np.ones(24)  # counts are taken as they are
    assert projection.words and (projection.weight is None) == (not binary)
    columns = projection.transform(kind(x))
    np.testing.assert_allclose(columns @ columns.T, half_whitened(unit(x * weight), 24), atol=1e-4)


@pytest.mark.parametrize("f", [5, 16, 17, 20])
def test_measurements_are_standardised_and_many_of_them_are_directions(f):
    x = measurements(f=f)
    x[:, 2] = 3.0  # a column without deviation does not count
    projection, kept = FeatureMap.fit(x), np.arange(f) != 2
    np.testing.assert_allclose(projection.offset, x.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(projection.weight[kept], 1 / x.std(0)[kept], rtol=1e-5)
    assert projection.weight[2] == 0
    rows = ((x - x.mean(0)) / x.std(0).clip(min=1e-9))[:, kept]
    columns = projection.transform(x)
    wanted = half_whitened(unit(rows) if kept.sum() >= 16 else rows, f - 1)
    np.testing.assert_allclose(columns @ columns.T, wanted, atol=2e-3)


def test_fewer_components_are_the_leading_ones():
    x = measurements(n=60, f=8) * np.arange(1, 9)
    x[:, 1] += 4 * x[:, 0]
    rows = (x - x.mean(0)) / x.std(0)
    columns = FeatureMap.fit(x, Recipe(components=3)).transform(x)
    assert columns.shape == (60, 3)
    np.testing.assert_allclose(columns @ columns.T, half_whitened(rows, 3), atol=5e-2)
    x = words(200, 100)
    rows = unit(x * (np.log(201 / (1 + x.sum(0))) + 1))
    order = np.argsort((rows**2).sum(0))  # the random numbers of a column follow from what it holds
    _, s, vt = randomized_svd(rows[:, order], 64, n_iter=4, power_iteration_normalizer="QR", random_state=0)
    found = FeatureMap.fit(x).matrix[order]
    np.testing.assert_allclose(found, vt.T / np.sqrt(s / np.sqrt(200)), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("x", "d"),
    [
        (words(200, 100), 64),
        (words(30, 90).astype(np.float32), 25),
        (sp.csr_array(words(90, 40)), 7),
        (np.ones((4, 2)), 2),
    ],
)
def test_the_svd_is_that_of_scikit_learn(x, d):
    options = {"n_iter": 4, "power_iteration_normalizer": "QR", "transpose": False, "random_state": 0}
    _, *wanted = randomized_svd(x, d, **options)
    for found, expected in zip(randomised_svd(x, d), wanted, strict=True):
        assert found.dtype == expected.dtype
        # Vectors of singular values that are 0 up to rounding are any.
        large = wanted[0] > 1e-5 * wanted[0][0]
        np.testing.assert_allclose(found[large], expected[large], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("x", [np.zeros((5, 3)), np.ones((5, 3)), np.zeros((5, 0)), sp.csr_array((5, 4))])
def test_features_that_say_nothing(x):
    columns = FeatureMap.fit(x).transform(x)
    assert columns.shape[0] == 5
    assert np.isfinite(columns).all() and not columns.any()


# -------------------------------------------------------------------------------- rows of large graphs


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("length_one", [False, True])
def test_products_with_rows_of_features(sparse, length_one):
    rng = np.random.default_rng(0)
    x = rng.random((30, 7)) * (rng.random((30, 7)) < 0.4)
    weight = rng.random(7).astype(np.float32) + 0.5
    offset = None if sparse else rng.random(7).astype(np.float32)
    plain = (x - (0 if offset is None else offset)) * weight
    plain = unit(plain) if length_one else plain
    rows = FeatureRows(sp.csr_array(x) if sparse else x, weight=weight, offset=offset, unit=length_one)
    v, y = torch.randn(7, 3), torch.randn(30, 3)
    np.testing.assert_allclose(rows.times(v), plain @ v.numpy(), atol=1e-5)
    np.testing.assert_allclose(rows.turned_times(y), plain.T @ y.numpy(), atol=1e-5)
    # Unsorted columns are the same rows.
    x = sp.csr_array((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    np.testing.assert_array_equal(FeatureRows(x).times(torch.eye(3)), x.toarray())


def subspace_iteration(product, width, steps, seed=0, dtype=torch.float64):
    """Ritz vectors and values of a symmetric matrix, largest first, from the same random numbers."""
    block = torch.randn(*width, generator=torch.Generator().manual_seed(seed), dtype=dtype).double().numpy()
    for _ in range(steps):
        block = np.linalg.qr(product(block))[0]
    values, turn = np.linalg.eigh(block.T @ product(block))
    return (block @ turn)[:, ::-1], values[::-1]


@pytest.mark.parametrize("sparse", [False, True])
def test_leading_directions_are_those_of_four_products_with_ten_more(sparse):
    rng = np.random.default_rng(1)
    x = (rng.random((200, 40)) < 0.1) * np.linspace(3, 1, 40)
    found, length = leading_directions(FeatureRows(sp.csr_array(x) if sparse else x), 5)
    vectors, values = subspace_iteration(lambda v: x.T @ (x @ v), (40, 15), 4)
    np.testing.assert_allclose(length, np.sqrt(values[:5]), rtol=1e-5)
    np.testing.assert_allclose(np.abs(vectors[:, :5].T @ found.numpy()), np.eye(5), atol=1e-5)
    np.testing.assert_allclose(length, np.linalg.svd(x)[1][:5], rtol=1e-2)
    few, exact = leading_directions(FeatureRows(x[:, :6]), 6), np.linalg.svd(x[:, :6])
    np.testing.assert_allclose(few[1], exact[1], rtol=1e-4)


@pytest.mark.parametrize("kind", ["binary words", "counts", "measurements", "few measurements"])
def test_features_of_large_graphs_are_projected_as_those_of_small_ones(kind):
    rng = np.random.default_rng(2)
    x = (rng.random((300, 30)) < np.linspace(0.5, 0.05, 30)).astype(np.float32)
    if kind == "counts":
        x *= rng.integers(1, 4, x.shape)
    elif kind != "binary words":
        x = rng.normal(size=(300, 30 if kind == "measurements" else 4)).astype(np.float32)
        x[:, 0] *= 3
    x = sp.csr_array(x) if "words" in kind else x
    small, big = FeatureMap.fit(x), FeatureMap.fit(x, Recipe(large=299))
    found = big.project(x, CPU).numpy()
    np.testing.assert_allclose(found, big.transform(x), atol=1e-4)
    wanted = small.project(x, CPU).numpy()
    # Directions have no sign: distances between nodes are compared.
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=5e-3)
    assert not np.array_equal(big.matrix, small.matrix), "found in another way"
    np.testing.assert_array_equal(FeatureMap.fit(x, Recipe(large=300)).matrix, small.matrix)


# ----------------------------------------------------------------------------------------- samples of nodes


def test_samples_and_sums_of_nodes():
    rows = sample_rows(1000, 100)
    assert len(set(rows.tolist())) == 100 and int(rows.min()) >= 0 and int(rows.max()) < 1000
    assert (rows.diff() > 0).all() and rows[-1] > 900, "drawn from all of them, in order"
    assert torch.equal(rows, sample_rows(1000, 100))
    assert sample_rows(100, 100).tolist() == list(range(100))
    table = torch.arange(3000).view(1000, 3)
    nodes = Nodes(1000)
    assert torch.equal(nodes.sample(table, 100), table[rows])
    assert nodes.sample(table, 1000) is table
    assert torch.equal(nodes.total(table), table) and torch.equal(nodes.agreed(table), table)


# --------------------------------------------------------------------------------------------- propagation


def propagation(graph: sc.Graph) -> np.ndarray:
    a = graph.adjacency.toarray().astype(float) + np.eye(graph.num_nodes)
    scale = 1 / np.sqrt(a.sum(1))
    return scale[:, None] * a * scale


def test_propagate_is_the_power_of_the_normalised_adjacency():
    graph = weighted()
    x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = propagate(CSR.from_graph(graph, dtype=torch.float64), x, 3)
    cubed = np.linalg.matrix_power(propagation(graph), 3)
    np.testing.assert_allclose(found.numpy(), cubed @ x.numpy(), atol=1e-6)
    assert unit_rows(torch.zeros(2, 3)).abs().sum() == 0


def test_single_precision_keeps_the_digits_of_far_hops():
    mixing = attributed_communities(400, 2, average_degree=60, n_features=0, edge_signal=0, seed=0)
    op = CSR.from_graph(mixing, dtype=torch.float64)
    x = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    u, c, rest = apart_from_constant(op, x, Nodes(400))
    assert rest.dtype == torch.float32
    torch.testing.assert_close(propagate(op, u.unsqueeze(1), 1)[:, 0], u)
    exact = propagate(op, x.double(), 16)
    apart = torch.addr(propagate(op, rest, 16).double(), u, c)

    def error(z: torch.Tensor) -> float:
        """Of what differs between nodes, which is a small part of Z."""
        still = exact - u[:, None] * (u @ exact)
        return float((z - u[:, None] * (u @ z) - still).norm() / still.norm())

    assert error(apart) < 1e-5 < 1e-2 < error(propagate(op, x, 16).double())


# ------------------------------------------------------------------------------------------------- encoder


def encoded_by_hand(p, x, hops, directions, longest=2.0, sample=None):
    """Z of every scale: propagated, centred at the median, long rows shortened, unit variance per column."""
    found = []
    for h in hops:
        z = np.linalg.matrix_power(p, h) @ x.astype(float)
        z = unit(z) if directions else z
        seen = z if sample is None else z[sample]
        centre = np.sort(seen, axis=0)[(len(seen) - 1) // 2]  # the lower median
        length = np.linalg.norm(seen - centre, axis=1)
        real = np.sort(length[length > 1e-9 * length.max()])
        limit = longest * real[(len(real) - 1) // 2]

        def short(z, limit=limit):
            return z * np.minimum(1, limit / np.maximum(np.linalg.norm(z, axis=1), 1e-300))[:, None]

        scale = np.sqrt(z.shape[1] / (short(seen - centre) ** 2).sum(1).mean())
        found.append(short(z - centre) * scale)
    return np.stack(found)


OTHER = Recipe(distances=(0, 3), many_columns=5, longest_row=1.2)


@pytest.mark.parametrize(("f", "recipe"), [(5, Recipe()), (20, Recipe()), (5, OTHER)])
def test_the_encoder_is_its_formula(f, recipe):
    x = measurements(f=f) ** 3
    x[: 25 * (recipe is OTHER)] = x[0]  # most nodes are where the centre is
    graph = weighted().with_features(x)
    encoder, encoded = Encoder.fit(graph, recipe)
    directions = f >= recipe.many_columns
    assert encoder.features.directions == directions
    x = encoder.features.transform(graph.x)
    np.testing.assert_array_equal(encoded.x.numpy(), x)
    wanted = encoded_by_hand(propagation(graph), x, recipe.distances, directions, recipe.longest_row)
    np.testing.assert_allclose(encoded.z.numpy(), wanted, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(encoder.encode(graph, CPU).z, encoded.z)
    torch.testing.assert_close(encoded.rows[3], encoded.z[:, 3])
    np.testing.assert_allclose(encoded.op.to_dense().numpy(), graph.adjacency.toarray(), rtol=1e-6)


@pytest.mark.parametrize("large", [199, 120])
def test_distances_of_large_graphs_are_measured_on_a_sample(large):
    graph = attributed_communities(200, 3, average_degree=8, n_features=0, seed=0)
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(1)) + 3
    op = CSR.from_graph(graph, dtype=torch.float64)
    z, measures = scaled_distances(op, x, Nodes(200), Recipe(distances=(0, 2, 9), large=large))
    sample = sample_rows(200, large).numpy()
    wanted = encoded_by_hand(propagation(graph), x.numpy(), (0, 2, 9), False, sample=sample)
    np.testing.assert_allclose(z.numpy(), wanted, atol=2e-3, rtol=1e-3)
    recipe = Recipe(distances=(0, 2, 9), large=large)
    again, same = scaled_distances(op, x, Nodes(200), recipe, known=measures)
    assert torch.equal(again, z) and same == measures


def test_an_unseen_graph_is_encoded_with_what_the_first_one_taught():
    graph, other = (weighted(seed=s).with_features(measurements(seed=s)) for s in (0, 1))
    encoder, _ = Encoder.fit(graph, Recipe(distances=(1,)))
    centre, limit, scale = (measured.numpy() for measured in encoder.measures[0])
    z = propagation(other) @ encoder.features.transform(other.x).astype(float) - centre
    z = z * np.minimum(1, limit / np.linalg.norm(z, axis=1, keepdims=True)) * scale
    np.testing.assert_allclose(encoder.encode(other, CPU).z[0].numpy(), z, atol=1e-4)
    with pytest.raises(GraphError, match="the graph has 4 features but the model was fitted with 5"):
        encoder.encode(other.with_features(measurements(f=4)), CPU)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_divided_by_their_sum_of_absolute_values(sparse):
    x = np.array([[1.0, -3.0], [0.0, 0.0], [2.0, 2.0]])
    graph = sc.Graph.from_edges([[0, 1], [1, 2]], x=sp.csr_array(x) if sparse else x)
    rows = rows_that_sum_to_one(graph)
    rows = rows.toarray() if sparse else rows
    np.testing.assert_allclose(rows, [[0.25, -0.75], [0, 0], [0.5, 0.5]])


# ------------------------------------------------------------------------------------ structural features


def test_local_structure_is_the_degree_over_growing_neighbourhoods():
    graph = weighted()
    degree = np.log1p(graph.adjacency.toarray().sum(1))
    p = propagation(graph)
    wanted = np.stack([np.linalg.matrix_power(p, h) @ degree for h in (0, 1, 2, 4, 8)], axis=1)
    np.testing.assert_allclose(structural_features(graph, local=True), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [None, 4])
def test_positions_are_eigenvectors_weighted_by_squared_eigenvalues(width):
    """As far as eighty products find them; inner products of rows need no signs."""
    graph, options = weighted(n=150), {} if width is None else {"n_components": width, "random_state": 7}
    degree = graph.adjacency.toarray().sum(1)
    scale = 1 / np.sqrt(degree + degree.mean() / 2)
    p = scale[:, None] * graph.adjacency.toarray() * scale
    start = ((150, width or 32), 80, options.get("random_state", 0), torch.float32)
    vectors, halved = subspace_iteration(lambda v: (v + p @ v) / 2, *start)
    wanted = np.where(degree[:, None] > 0, unit(vectors * np.maximum(2 * halved - 1, 0) ** 2), 0)
    found = positions(CSR.from_graph(graph), **options).numpy()
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=2e-5)
    assert structural_features(weighted(n=12)).shape == (12, 12)
    if width is None:
        np.testing.assert_array_equal(structural_features(graph), found)


def test_where_all_nodes_stand_alike_there_are_no_positions():
    complete = sc.Graph.from_scipy(sp.csr_array(np.ones((6, 6)) - np.eye(6)))
    assert not structural_features(complete).any()
    assert not structural_features(sc.Graph.from_edges(np.zeros((2, 0), int), num_nodes=3)).any()
    y = np.repeat([0, 1], 20)
    blocks = np.where(y[:, None] == y, 20.0, 1.0) - 20 * np.eye(40)
    rows = structural_features(sc.Graph.from_dense(blocks))
    assert np.allclose(rows[:20], rows[0], atol=1e-4) and np.abs(rows[0] - rows[20]).max() > 0.5
