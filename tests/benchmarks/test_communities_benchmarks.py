"""What the benchmarks of communities make and count: planted graphs, changes, shares, tables."""

import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from softcut import Graph

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for name in ("changing_graphs", "communities", "unknown_numbers", "verdicts"):
        sys.modules.pop(name, None)


def test_lfr_graphs_have_the_mixing_that_was_asked_for():
    from unknown_numbers import between, lfr

    shares = []
    for mixing in (0.2, 0.4, 0.6):
        graph, y = lfr(mixing, seed=5)
        network = nx.from_scipy_sparse_array(graph.adjacency)
        outside = sum(y[a] != y[b] for a, b in network.edges) / network.number_of_edges()
        assert between(graph, y) == pytest.approx(outside, abs=1e-4)
        shares.append(outside - mixing)
        assert len(np.unique(y)) > 5
        assert (lfr(mixing, seed=5)[1] == y).all()
    assert min(shares) > 0 and max(shares) < 0.25  # networkx draws more edges outside than was asked for


def test_nested_blocks_are_denser_the_deeper_two_nodes_share_one():
    from unknown_numbers import nested

    graph, coarse, fine = nested(3)
    dense = graph.adjacency.toarray()
    same = fine[:, None] == fine
    near = (coarse[:, None] == coarse) & ~same
    assert dense[same].mean() > 2 * dense[near].mean() > 4 * dense[coarse[:, None] != coarse].mean()
    assert all(len(np.unique(coarse[fine == each])) == 1 for each in np.unique(fine))


def test_scores_are_of_nodes_with_an_edge_and_a_label(tmp_path):
    from unknown_numbers import ami, lines, measure, read, scored_nodes

    edges = np.array(nx.connected_caveman_graph(3, 6).edges).T
    labels = np.append(np.repeat(np.arange(3), 6), [0, 1])  # the last two nodes have no edge
    np.savez(tmp_path / "g.npz", num_nodes=20, row=edges[0], col=edges[1], y=labels)
    graph = read(tmp_path / "g.npz")
    assert scored_nodes(graph).tolist() == [True] * 18 + [False] * 2
    found = np.append(np.repeat([4, 2, 0], 6), [-1, -1])
    assert ami(graph, found) == 1.0
    row = measure("caves", graph)
    assert row["by_edges"]["score"] == row["leiden"]["score"] == 1.0 and row["both"] is None
    assert "| caves | 3 | 1.000 | 1.000 | 1.000 |" in lines([row])


def test_graphs_behind_leiden_are_named():
    from unknown_numbers import behind, mean

    rows = [
        {"graph": "a", "leiden": {"score": 0.5}, "by_edges": {"score": 0.4, "best": 0.48}, "both": None},
        {
            "graph": "b",
            "leiden": {"score": 0.5},
            "by_edges": {"score": 0.0, "best": 0.6},
            "both": {"score": 0.5},
        },
    ]
    assert behind(rows, "edges") == ["a 0.100", "b 0.500"]
    assert behind(rows, "best level") == behind(rows, "both") == []
    assert mean(rows, "edges") == pytest.approx(0.2) and mean(rows, "its best") is None


def test_a_change_keeps_the_number_of_edges_and_where_they_lie():
    from changing_graphs import changed

    network = nx.planted_partition_graph(4, 50, 0.3, 0.02, seed=1)
    matrix = sp.csr_array(nx.to_scipy_sparse_array(network, dtype=np.float32))
    labels = np.repeat(np.arange(4), 50)

    def inside(each):
        rows = np.repeat(np.arange(200), np.diff(each.indptr))
        return int((labels[rows] == labels[each.indices]).sum())

    alike = changed(matrix, labels, np.random.default_rng(0))
    anywhere = changed(matrix, None, np.random.default_rng(0))
    for new in (alike, anywhere):
        assert new.nnz == matrix.nnz and new.diagonal().sum() == 0 and abs(new - new.T).nnz == 0
        differ = abs(new - matrix).nnz // 2  # an edge that went, and one that came
        assert differ == 2 * round(0.01 * matrix.nnz / 2)
    assert inside(alike) == inside(matrix) > inside(anywhere)


def test_ids_do_not_count_as_moves():
    from changing_graphs import moved

    before = np.array([0, 0, 0, 1, 1, 1, -1])
    own, share = moved(np.array([1, 1, 1, 0, 0, 1, 0]), before)
    assert own[:6].tolist() == [0, 0, 0, 1, 1, 0] and share == pytest.approx(1 / 6)


def test_the_large_graph_is_simple_and_has_its_share_of_edges_between():
    from communities import modularity, planted

    matrix = planted(5000, 40_000, seed=2)
    assert matrix.shape == (5000, 5000) and 30_000 < matrix.nnz / 2 <= 40_000
    assert (
        set(matrix.data.tolist()) == {1.0}
        and matrix.diagonal().sum() == 0
        and abs(matrix - matrix.T).nnz == 0
    )
    network = nx.from_scipy_sparse_array(matrix)
    labels = np.arange(5000) % 7
    parts = [set(np.flatnonzero(labels == each).tolist()) for each in range(7)]
    assert modularity(matrix, labels) == pytest.approx(nx.community.modularity(network, parts))
    assert nx.community.modularity(network, nx.community.louvain_communities(network, seed=0)) > 0.5


def test_ratios_are_medians_over_the_rounds():
    from communities import required, summary

    def runs(*seconds):
        return [{"seconds": s, "mib": 1.0, "modularity": 0.5, "clusters": 3} for s in seconds]

    measured = {"igraph": runs(1, 2, 4), "one scale": runs(2, 2, 4), "K = 20": runs(3, 3, 3), "leidenalg": []}
    found = summary({**measured, "K = 20 before": runs(6, 12, 4)})
    assert found["one scale"]["times"] == 1.0 and found["K = 20"]["times_before"] == 0.5
    assert "leidenalg" not in found
    assert required({"edges": 100, "methods": found}, "K = 20") == (0.5, 0.5)
    assert required({"edges": 10**7, "methods": found}, "one scale") == (1.0, 3.0)


def test_rewired_graphs_keep_degrees_and_weights():
    pytest.importorskip("igraph")
    from verdicts import swapped

    graph = Graph.from_any(nx.les_miserables_graph())
    other = swapped(graph, 4)
    degrees = [np.diff(each.adjacency.indptr) for each in (graph, other)]
    assert (degrees[0] == degrees[1]).all() and (other.adjacency != graph.adjacency).nnz
    assert sorted(other.adjacency.data.tolist()) == sorted(graph.adjacency.data.tolist())


def test_random_graphs_of_all_kinds_and_sizes(tmp_path):
    from verdicts import random_graphs, tables_of_noise

    cases = list(random_graphs(tmp_path, 3, 4))
    assert {case.wanted for case in cases} == {"none"}
    assert {case.graph.num_nodes for case in cases} >= {10, 5000}
    kinds = [case.name.partition(",")[0] for case in cases]
    assert [kinds.count(kind) for kind in ("random", "preferential", "regular", "trees")] == [4] * 4
    assert all(case.graph.neighbors for case in tables_of_noise(tmp_path, 3, 2))
