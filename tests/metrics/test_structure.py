"""The verdict: "none" of noise, something else of what was planted."""

import warnings

import networkx as nx
import numpy as np
import pytest
import torch

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.metrics import evidence_parts
from softcut.metrics.features import axes_gain, axes_table, looked_at, normal_scores, principal_axes


def random_graph(nodes, degree, seed=0):
    graph = nx.fast_gnp_random_graph(nodes, degree / (nodes - 1), seed=seed)
    return nx.to_scipy_sparse_array(graph, weight=None, dtype=np.float32)


def verdict(graph, k):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sc.GraphClustering(k, n_init=6, device="cpu").fit(graph).verdict_


def silent(name, nodes=300):
    rng = np.random.default_rng(0)
    if name == "normal":
        return rng.standard_normal((nodes, 16)).astype(np.float32)
    if name == "correlated":  # one cloud of two dimensions, seen in 40 columns
        cloud = rng.standard_normal((nodes, 2)) @ rng.standard_normal((2, 40))
        return (cloud + 0.5 * rng.standard_normal((nodes, 40))).astype(np.float32)
    if name == "skewed":
        return np.exp(rng.standard_normal((nodes, 8))).astype(np.float32)
    if name == "words":
        return attributed_communities(nodes, 1, 0, 500, seed=0).x
    return None


@pytest.mark.parametrize("k", [2, 7])
@pytest.mark.parametrize("features", ["none", "normal", "correlated", "skewed", "words"])
def test_noise_is_called_none(features, k):
    graph = sc.Graph.from_scipy(random_graph(300, 8), x=silent(features))
    assert verdict(graph, k) == "none"


@pytest.mark.parametrize(
    "make", [nx.random_regular_graph, lambda d, n, seed: nx.barabasi_albert_graph(n, d, seed)]
)
def test_other_graphs_without_communities_are_none(make):
    graph = nx.to_scipy_sparse_array(make(4, 500, seed=1), weight=None, dtype=np.float32)
    assert verdict(sc.Graph.from_scipy(graph), 5) == "none"


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        (
            "none",
            {"average_degree": 9, "edge_signal": 0.1, "degree_spread": 0},
        ),  # the limit is 1/3 for 3 clusters
        ("clear", {"average_degree": 12, "edge_signal": 0.7}),
        ("clear", {"average_degree": 5, "n_features": 1000, "edge_signal": 0.0, "feature_signal": 0.6}),
        ("clear", {"average_degree": 12, "n_features": 2000, "edge_signal": 0.7, "feature_signal": 0.0}),
    ],
    ids=["below the limit", "in edges", "in words", "in edges, among words that say nothing"],
)
def test_planted_communities(expected, options):
    assert verdict(attributed_communities(400, 4, **{"n_features": 0, **options}, seed=0), 4) == expected


def test_communities_in_measurements_are_found():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 400)
    x = rng.standard_normal((400, 64)) + rng.standard_normal((6, 64))[y] * 0.7
    assert verdict(sc.Graph.from_scipy(random_graph(400, 5), x=x.astype(np.float32), y=y), 6) != "none"


def test_a_word_that_says_nothing_takes_nothing_from_one_that_does():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    own = np.eye(2)[y]
    other = (rng.random((200, 300)) < 0.1).astype(float)
    adjacency = random_graph(200, 4)
    alone, among = (
        evidence_parts(adjacency, y, x) for x in (np.hstack([own, 0 * own]), np.hstack([own, other]))
    )
    assert among.features < 0 < among.told
    assert among.told > 0.5 * alone.told


def test_columns_count_once_however_often_they_are_given():
    rng = np.random.default_rng(1)
    y = np.arange(120) % 3
    x = rng.standard_normal((120, 4)) + 3 * rng.standard_normal((3, 4))[y]
    adjacency = random_graph(120, 4)
    once, often = (evidence_parts(adjacency, y, np.tile(x, (1, times))).told for times in (1, 9))
    assert once > 0
    assert often == pytest.approx(once, abs=2)


def test_no_order_preserving_change_of_a_column_changes_what_is_told():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((80, 5))
    np.testing.assert_allclose(normal_scores(np.exp(3 * x)), normal_scores(x))


def test_axes_are_white_and_few():
    rng = np.random.default_rng(3)
    for shape in ((50, 90), (200, 100), (30, 1)):
        z = principal_axes(rng.standard_normal(shape))
        assert z.shape[1] == min(shape[0] - 1, shape[1], 64)
        np.testing.assert_allclose(z.T @ z / len(z), np.eye(z.shape[1]), atol=1e-8)
    assert principal_axes(np.ones((7, 3))).shape == (7, 0)
    assert len(looked_at(10**6)) == 20_000


def test_labels_that_say_nothing_have_a_mean_bayes_factor_of_at_most_one():
    rng = np.random.default_rng(4)
    z = torch.from_numpy(principal_axes(rng.standard_normal((60, 3))))
    factors = [
        np.exp(axes_gain(axes_table(z, torch.from_numpy(rng.permutation(60) % 3), 3)).item())
        for _ in range(2000)
    ]
    assert np.mean(factors) < 1
