"""Generated graphs of any size: degrees, mixing, features, seeds, and the pattern built from chunks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.datasets import generate, generators_csr, generators_edges, planted_graph, power_law_graph
from softcut.datasets.generators_csr import pattern_of_chunks
from softcut.errors import ParameterError


def oracle(chunks: list[tuple[list[int], list[int]]], n: int) -> sp.csr_array:
    """The binary symmetric adjacency without loops, by scipy."""
    u, v = (np.array([i for chunk in chunks for i in chunk[end]], dtype=np.int64) for end in (0, 1))
    matrix = sp.csr_array((np.ones(2 * len(u)), (np.r_[u, v], np.r_[v, u])), shape=(n, n))
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), min_size=1, max_size=4),
    st.sampled_from([1, 4, 1 << 20]),
)
def test_pattern_of_chunks_is_the_merged_symmetric_pattern(
    pairs: list[list[tuple[int, int]]], block: int
) -> None:
    chunks = [([u for u, _ in part], [v for _, v in part]) for part in pairs]
    tensors = [(torch.tensor(u, dtype=torch.long), torch.tensor(v, dtype=torch.long)) for u, v in chunks]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(generators_csr._BLOCK, "cpu", block)
        found = pattern_of_chunks(tensors, 7)
    wanted = oracle(chunks, 7)
    assert found.rowptr.tolist() == wanted.indptr.tolist()
    assert found.col.tolist() == wanted.indices.tolist()
    assert found.col.dtype == torch.int32


def mixing(graph) -> float:  # type: ignore[no-untyped-def]
    """The share of edges that stay in their community."""
    (u, v), _ = graph.edge_index()
    return float((graph.y[u] == graph.y[v]).mean())


@pytest.mark.parametrize("make", [planted_graph, power_law_graph])
@pytest.mark.parametrize("signal", [0.0, 0.6, 1.0])
def test_edges_stay_in_their_community_as_often_as_asked(make, signal: float) -> None:  # type: ignore[no-untyped-def]
    graph = make(20_000, 40_000, clusters=5, features=0, edge_signal=signal, seed=3)
    # Repeated edges, which are dropped, are more often inside: hence the wider limit for hubs.
    limit = 0.02 if make is planted_graph else 0.05
    assert abs(mixing(graph) - (signal + (1 - signal) / 5)) < limit
    assert np.bincount(graph.y).tolist() == [4000] * 5
    assert (
        make(20_000, 40_000, 5, 0).y[:100] != graph.y[:100]
    ).any()  # an order that does not tell communities


def test_degrees_of_a_planted_graph_are_poisson_and_those_of_a_power_law_graph_are_not() -> None:
    planted = planted_graph(20_000, 100_000, clusters=4, features=0, seed=0)
    degree = np.diff(planted.adjacency.indptr)
    assert planted.num_edges > 0.999 * 100_000
    assert abs(degree.mean() - 10) < 0.05 and abs(degree.var() / degree.mean() - 1) < 0.05
    hubs = np.diff(power_law_graph(20_000, 100_000, clusters=4, features=0, seed=0).adjacency.indptr)
    assert hubs.max() > 20 * hubs.mean() and np.median(hubs) < 0.6 * hubs.mean()
    # On a doubly logarithmic scale the number of nodes above a degree falls along a line.
    at = 2.0 ** np.arange(4, 9)
    above = np.log2([(hubs >= d).mean() for d in at])
    fit = np.polyfit(np.log2(at), above, 1)
    assert -2.5 < fit[0] < -0.7 and np.abs(np.polyval(fit, np.log2(at)) - above).max() < 0.6


def test_dense_features_have_the_asked_signal() -> None:
    graph = planted_graph(20_000, 0, clusters=4, features=32, feature_signal=0.5, seed=1)
    centre = np.stack([graph.x[graph.y == c].mean(0) for c in range(4)])
    noise = graph.x - centre[graph.y]
    assert abs(noise.std() - 1) < 0.01
    assert abs(centre.std() - 0.5) < 0.1
    assert np.abs(planted_graph(20_000, 0, 4, 8, feature_signal=0.0).x.mean(0)).max() < 0.05


def test_words_are_binary_and_depend_on_the_community_only_through_the_signal() -> None:
    graph = planted_graph(5_000, 0, clusters=2, features=50, words_per_node=8, feature_signal=0.9, seed=1)
    assert sp.issparse(graph.x) and set(graph.x.data.tolist()) == {1.0}
    counts = np.diff(graph.x.indptr)
    assert counts.min() >= 1 and 4 < counts.mean() < 8  # distinct ones among eight
    share = [np.asarray(graph.x[graph.y == c].mean(axis=0)).ravel() for c in range(2)]
    none = planted_graph(5_000, 0, 2, 50, words_per_node=8, feature_signal=0.0, seed=1)
    same = [np.asarray(none.x[none.y == c].mean(axis=0)).ravel() for c in range(2)]
    assert np.abs(share[0] - share[1]).max() > 0.3 and np.abs(same[0] - same[1]).max() < 0.06


@pytest.mark.parametrize("kind", ["planted", "power_law"])
def test_a_seed_gives_one_graph_and_chunks_are_no_repetitions(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(generators_edges._CHUNK, "cpu", 700)
    first, again, other = (generate(kind, 3000, 2000, 3, 4, seed=seed, device="cpu") for seed in (5, 5, 6))
    assert first.op.pattern.same_as(again.op.pattern) and torch.equal(first.x, again.x)
    assert torch.equal(first.y, again.y)
    assert not first.op.pattern.same_as(other.op.pattern) and not torch.equal(first.x, other.x)
    # Three chunks of different edges: hardly any of them is repeated.
    assert first.op.pattern.nnz > 2 * 2000 * (0.99 if kind == "planted" else 0.8)
    assert first.op.pattern.symmetric


def test_features_in_the_asked_precision_and_none() -> None:
    assert generate("planted", 10, 10, 2, 4, device="cpu", dtype=torch.bfloat16).x.dtype == torch.bfloat16
    assert generate("planted", 10, 10, 2, 0, device="cpu").x is None


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"kind": "grid"}, "kind"),
        ({"clusters": 0}, "clusters"),
        ({"clusters": 11}, "clusters"),
        ({"edges": -1}, "edges"),
        ({"features": -1}, "features"),
        ({"edge_signal": 1.5}, "edge_signal"),
        ({"feature_signal": -0.1}, "feature_signal"),
        ({"words_per_node": 5, "feature_signal": 1.5}, "feature_signal"),
        ({"words_per_node": 0}, "words_per_node"),
        ({"corners": (0.25, 0.25, 0.25, 0.25)}, "corners"),
        ({"kind": "power_law", "corners": (0.5, 0.5, 0.5, 0.5)}, "corners"),
    ],
)
def test_wrong_arguments_are_named(changes: dict, name: str) -> None:  # type: ignore[type-arg]
    arguments = {"kind": "planted", "nodes": 10, "edges": 20, "clusters": 2, **changes}
    with pytest.raises(ParameterError, match=f"^{name} "):
        generate(**arguments, device="cpu")


def test_corners_change_the_skew() -> None:
    flat = power_law_graph(4000, 20_000, 2, 0, corners=(0.25, 0.25, 0.25, 0.25), seed=0)
    steep = power_law_graph(4000, 20_000, 2, 0, seed=0)
    assert np.diff(steep.adjacency.indptr).max() > 4 * np.diff(flat.adjacency.indptr).max()
