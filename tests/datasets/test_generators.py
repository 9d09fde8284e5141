"""Generated graphs of any size: degrees, mixing, features, seeds, and the pattern built from chunks."""

import hashlib

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.datasets import (
    attributed_communities,
    community_graph,
    generate,
    generators,
    grid_graph,
    planted_graph,
    power_law_graph,
    ring_graph,
)
from softcut.datasets.generators import pattern_of_chunks
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
        patch.setitem(generators._SORTED_AT_ONCE, "cpu", block)
        pattern = pattern_of_chunks(tensors, 7)
    wanted = oracle(chunks, 7)
    assert pattern.rowptr.tolist() == wanted.indptr.tolist()
    assert pattern.col.tolist() == wanted.indices.tolist()
    assert pattern.col.dtype == torch.int32


DENSE = {"n_nodes": 30, "n_clusters": 3, "average_degree": 20, "n_features": 4, "edge_signal": 1.0, "seed": 2}
NO_CORNERS = ((0.5, 0.5, 0.5, 0.5), (0.5, 0.5, 0.5, -0.5), (0.5, 0.25, 0.25), (0.25, 0.25, 0.25, 0.25001))
PLANTED = {"nodes": 500, "edges": 1500, "clusters": 4}
WORDS = {"nodes": 500, "edges": 1500, "clusters": 7, "features": 30, "words_per_node": 5}


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
    assert (np.diff(graph.y[:100]) != 0).any()  # the order does not tell communities


def test_ring_and_grid_equal_networkx() -> None:
    ring = ring_graph(9)
    assert np.array_equal(ring.adjacency.toarray(), nx.to_numpy_array(nx.cycle_graph(9)))
    assert np.allclose(np.linalg.norm(ring.x, axis=1), 1)
    grid = grid_graph(5, 3)
    expected = nx.to_numpy_array(nx.grid_2d_graph(5, 3))  # nodes in the order (0, 0), (0, 1), ...
    assert np.array_equal(grid.adjacency.toarray(), expected)
    rows, columns = grid.adjacency.nonzero()
    assert np.allclose(np.linalg.norm(grid.x[rows] - grid.x[columns], axis=1), 0.25)


@pytest.mark.parametrize(
    ("degree", "features", "signal"), [(4.0, 16, 0.7), (20.0, 2000, 0.0), (100.0, 16, 1.0)]
)
def test_attributed_communities(degree: float, features: int, signal: float) -> None:
    graph = attributed_communities(1000, 5, degree, features, edge_signal=signal, seed=3)
    assert graph.num_edges == round(1000 * degree / 2)
    assert graph.x.shape == (1000, features)
    assert set(np.unique(graph.x.data)) == {1.0}
    assert np.diff(graph.x.indptr).min() >= 1
    assert mixing(graph) == pytest.approx(signal + (1 - signal) / 5, abs=0.06 if signal < 1 else 0)
    assert attributed_communities(1000, 4, 10, 0).x is None


@pytest.mark.parametrize(
    ("make", "arguments", "blocks", "told"),
    [
        (ring_graph, {}, False, (200, "c7b343ee", -0.0305)),
        (grid_graph, {}, False, (275, "f25ff663", 371.2143)),
        (community_graph, {}, False, (666, "148eb2eb", -760.2158)),
        (community_graph, {"n_communities": 3, "n_nodes": 13, "seed": 4}, False, (15, "1a6d8750", -98.4029)),
        (attributed_communities, {}, False, (12000, "097bc5f7", 149279)),
        (attributed_communities, DENSE, False, (136, "4a30b6b8", 135)),
        (planted_graph, PLANTED, False, (1481, "2a7133ff", 860.4347)),
        (planted_graph, PLANTED, True, (1477, "c53ef9f1", 699.5718)),
        (planted_graph, WORDS, False, (1472, "7d9c0c01", 6249)),
        (planted_graph, WORDS, True, (1468, "9c037612", 6184)),
        (planted_graph, {**WORDS, "words_per_node": 0.5}, True, (1468, "9c037612", 1606)),
        (planted_graph, {**WORDS, "words_per_node": 200.0}, True, (1468, "9c037612", 43029)),
        (planted_graph, {**PLANTED, "features": 1001}, True, (1477, "c53ef9f1", 4447.1166)),
        (power_law_graph, PLANTED, False, (1307, "42684cdd", 860.4347)),
        (power_law_graph, {**WORDS, "corners": (0.1, 0.2, 0.3, 0.4)}, True, (1427, "69211357", 6184)),
    ],
)
def test_a_seed_gives_the_graph_it_always_gave(make, arguments, blocks, told, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Published results are of these graphs: number of edges, digest of edges and classes, a sum of features."""
    if blocks:  # edges and features are drawn some at a time
        monkeypatch.setitem(generators._CHUNK, "cpu", 100)
        monkeypatch.setattr(generators, "_BLOCK", 1000)
    graph = make(**arguments)
    (u, v), _ = graph.edge_index()
    numbers = np.concatenate([u, v, [] if graph.y is None else graph.y]).astype("<i8")
    x = np.asarray(graph.x.toarray() if sp.issparse(graph.x) else graph.x, dtype=float)
    total = (x * (np.arange(x.size).reshape(x.shape) % 7)).sum()
    digest = hashlib.sha256(numbers.tobytes()).hexdigest()[:8]
    assert (graph.num_edges, digest, total) == (*told[:2], pytest.approx(told[2], rel=1e-5, abs=1e-4))


@pytest.mark.parametrize("make", [planted_graph, power_law_graph])
def test_a_graph_made_where_it_is_needed_is_the_same(make) -> None:  # type: ignore[no-untyped-def]
    kind = make.__name__.removesuffix("_graph")
    here, there = make(**PLANTED), generate(kind, **PLANTED, device="cpu").to_graph()
    assert (here.adjacency != there.adjacency).nnz == 0 and here.x.shape == (500, 64)
    np.testing.assert_array_equal(here.x, there.x)
    np.testing.assert_array_equal(here.y, there.y)


def test_generators_take_extremes() -> None:
    assert generate("planted", 10, 10, 2, 4, device="cpu", dtype=torch.bfloat16).x.dtype == torch.bfloat16
    assert generate("planted", 10, 10, 2, 0, device="cpu").x is None
    assert ring_graph(3).num_edges == 3 and grid_graph(1, 1).x.tolist() == [[0.0, 0.0]]
    assert community_graph(5, 10).num_nodes == 10 and community_graph(1, 2).num_edges == 1
    one = {"words_per_node": 0.1, "feature_signal": 1.0, "edge_signal": 1.0}
    assert planted_graph(6, 0, 6, 3, **one).x.sum() >= 6 and planted_graph(6, 9, 6, 1, **one).num_edges == 0
    assert power_law_graph(64, 300, 1, 0, corners=(1.0, 0.0, 0.0, 5e-7)).num_edges == 0
    spread = {"degree_spread": 5, "size_spread": 5, "edge_signal": 1.0, "feature_signal": 1.0}
    assert attributed_communities(40, 2, 1, 3, **spread).num_nodes == 40
    assert attributed_communities(5, 5, 0, 1).num_edges == 0
    assert attributed_communities(1, 1, 0, 1).num_nodes == 1
    assert attributed_communities(12, 2, 11, 2, edge_signal=0, degree_spread=0).num_edges == 66


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (generate, {"kind": "grid"}, "kind"),
        *((generate, {"clusters": k}, "clusters") for k in (0, 11)),
        (generate, {"edges": -1}, "edges"),
        (generate, {"features": -1}, "features"),
        *((generate, {"edge_signal": wrong}, "edge_signal") for wrong in (1.5, -0.5)),
        (generate, {"feature_signal": -0.1}, "feature_signal"),
        (generate, {"words_per_node": 5, "feature_signal": 1.5}, "feature_signal"),
        (generate, {"words_per_node": 0}, "words_per_node"),
        (generate, {"corners": (0.25, 0.25, 0.25, 0.25)}, "corners"),
        *((generate, {"kind": "power_law", "corners": wrong}, "corners") for wrong in NO_CORNERS),
        (ring_graph, {"n_nodes": 2}, "n_nodes must be at least 3"),
        *((grid_graph, {side: 0}, "height") for side in ("height", "width")),
        *((community_graph, {"n_communities": k, "n_nodes": 11}, "n_nodes") for k in (0, 6)),
        *((attributed_communities, {"n_nodes": 10, "n_clusters": k}, "n_clusters") for k in (0, 11)),
        (attributed_communities, {"n_nodes": 10, "n_clusters": 2, "average_degree": 10}, "average_degree"),
        (attributed_communities, {"n_features": -1}, "n_features"),
        *(
            (attributed_communities, {f"{name}_{kind}": wrong}, f"{name}_{kind}")
            for kind, names, most in (("signal", ("edge", "feature"), 1), ("spread", ("degree", "size"), 5))
            for name in names
            for wrong in (-0.5, most + 0.5)
        ),
    ],
)
def test_wrong_arguments_are_named(make, arguments: dict, words: str) -> None:  # type: ignore[type-arg, no-untyped-def]
    if make is generate:
        arguments = {"kind": "planted", "nodes": 10, "edges": 20, "clusters": 2, **arguments}
    with pytest.raises(ParameterError, match=f"^{words} "):
        make(**arguments)
