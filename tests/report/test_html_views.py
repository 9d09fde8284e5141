"""Data of the interactive views."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from softcut.clustering import Replica
from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.report.html_clustering import (
    assignment_view,
    cluster_view,
    evidence_view,
    graph_view,
    loss_view,
    shown_nodes,
)
from softcut.report.plots import cluster_colours


@pytest.fixture(scope="module")
def graph() -> Graph:
    return attributed_communities(120, 3, seed=0)


@pytest.fixture(scope="module")
def soft(graph) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(4), graph.num_nodes)


def test_the_graph_view_holds_the_graph(graph, soft):
    data = graph_view(graph, soft.astype(np.float32)).data
    assert max(len(str(p)) for p in data["probability"]) <= 5
    json.dumps(data, allow_nan=False)
    assert data["labels"] == soft.argmax(1).tolist()
    np.testing.assert_allclose(data["probability"], soft.max(1), atol=1e-3)
    second = np.sort(soft, axis=1)[:, -2]
    np.testing.assert_allclose(data["second_probability"], second, atol=1e-3)
    rows, columns = np.array(data["edges"]).reshape(-1, 2).T
    rebuilt = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=graph.adjacency.shape)
    assert abs(sp.triu(graph.adjacency, 1) - rebuilt).nnz == 0
    members = sorted(i for cluster in data["clusters"] for i in cluster["members"])
    assert members == list(range(graph.num_nodes))
    assert min(data["x"]) >= 0 and max(data["x"]) <= 1


def test_small_views_to_the_number():
    assert shown_nodes(np.array([0] * 90 + [1] * 10), most=10).tolist() == [*range(0, 91, 10)]
    grid, labels = grid_graph(3, 3), np.arange(9) // 5
    data = graph_view(grid, np.eye(2)[labels]).data
    assert (data["labels"], len(data["edges"]) // 2) == (labels.tolist(), 12)
    assert data["x"] == [0, 0.5, 1] * 3 and data["positions"] == "coordinates"
    assert data["y"] == [0] * 3 + [0.5] * 3 + [1] * 3
    assert data["second"] == (1 - labels).tolist()
    members = [list(range(5)), list(range(5, 9))]
    assert data["clusters"] == [
        {"number": c, "size": 5 - c, "colour": cluster_colours(2)[c], "members": members[c]} for c in (0, 1)
    ]
    groups = cluster_view(grid, labels).data
    assert groups["links"] == [{"a": 0, "b": 1, "weight": 4.0}]
    assert [cluster["text"] for cluster in groups["clusters"]] == [
        "Cluster 0: 5 nodes, 29% of its edges leave it",
        "Cluster 1: 4 nodes, 40% of its edges leave it",
    ]
    heat = assignment_view(grid_graph(2, 1), np.array([[0.25, 0.75], [1.0, 0.0]])).data
    assert (heat["values"], heat["names"]) == ([100, 0, 25, 75], ["node 1", "node 0"])
    data = graph_view(grid, np.ones((9, 1))).data  # a single cluster has no second one
    assert data["second"] == data["second_probability"] == [None] * 9
    assert len(data["clusters"]) == 1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(5, 60))
def test_samples_keep_every_cluster_and_its_share(labels, most):
    labels = np.array(labels)
    nodes = shown_nodes(labels, most)
    assert len(np.unique(nodes)) == len(nodes)
    assert set(labels[nodes]) == set(labels)
    assert len(nodes) <= max(len(labels) if len(labels) <= most else 0, most + 5)
    if len(labels) > most:
        for cluster, size in zip(*np.unique(labels, return_counts=True), strict=True):
            assert abs((labels[nodes] == cluster).sum() - most * size / len(labels)) <= 2


def test_a_large_graph_is_sampled_and_says_so(monkeypatch, graph, soft):
    monkeypatch.setattr("softcut.report.html_clustering._EDGES", 20)
    monkeypatch.setattr("softcut.report.html_clustering.shown_nodes", lambda labels: np.arange(0, 120, 2))
    view = graph_view(graph, soft)
    assert "60 of 120 nodes are shown" in view.caption
    assert "20 of" in view.caption
    assert view.data["index"] == list(range(0, 120, 2))
    for a, b in np.array(view.data["edges"]).reshape(-1, 2):  # numbers of what is shown, not of the whole
        assert graph.adjacency[2 * a, 2 * b] != 0
    monkeypatch.setattr("softcut.report.html_clustering._PLACED", 100)  # a very large graph gets no positions
    data = graph_view(graph, soft).data
    assert data["x"] is None and data["y"] is None and data["start_with_discs"] is False


def test_the_graph_of_clusters_adds_up(graph, soft):
    labels = soft.argmax(1)
    data = cluster_view(graph, labels).data
    number = [cluster["number"] for cluster in data["clusters"]]
    for link in data["links"]:
        a, b = labels == number[link["a"]], labels == number[link["b"]]
        assert link["weight"] == graph.adjacency[a][:, b].sum()
    assert sum(cluster["size"] for cluster in data["clusters"]) == 120


def test_the_heat_map_is_sorted_by_cluster_and_certainty(graph, soft, monkeypatch):
    data = assignment_view(graph, soft).data
    values = np.array(data["values"]).reshape(120, 4)
    first = np.sort(soft.argmax(1))
    assert (values[np.arange(120), first] == values.max(1)).all()
    for cluster in range(4):
        assert (np.diff(values[first == cluster, cluster]) <= 0).all()
    monkeypatch.setattr("softcut.report.html_clustering._COLUMNS", 10)
    few = assignment_view(graph, soft)
    np.testing.assert_allclose(
        np.mean(np.reshape(few.data["values"], (10, 4)), 0), 100 * soft.mean(0), atol=1
    )
    assert "about 12 nodes" in few.caption
    monkeypatch.setattr("softcut.report.html_clustering._COLUMNS", 80)  # a column holds one node or two
    first = np.reshape(assignment_view(graph, soft).data["values"], (80, 4)).argmax(1)
    assert np.abs(np.bincount(first, minlength=4) - np.bincount(soft.argmax(1)) * 80 / 120).max() <= 1


def test_losses_are_means_of_an_objective_and_evidence_is_grouped_by_distance():
    replicas = [
        Replica(i, name, 0, 0, float(i), 2, False, hops=hops)
        for i, (name, hops) in enumerate((("mincut", 16), ("evidence", 0), ("mincut", 16), ("evidence", 16)))
    ]
    cut, ortho = np.arange(20.0).reshape(5, 4), np.zeros((5, 4))
    ortho[:, ::2] = 1.0
    panels = loss_view({"cut": cut, "ortho": ortho}, replicas).data["panels"]
    series = [panel["series"][0] for panel in panels]
    assert [(panel["title"], one["name"]) for panel, one in zip(panels, series, strict=True)] == [
        ("L_c (cut)", "minCUT networks"),
        ("second term of minCUT networks (L_o)", "minCUT networks"),
        ("minus the evidence", "evidence networks"),
    ]
    assert [one["colour"] for one in series] == [cluster_colours(2)[i] for i in (0, 0, 1)]
    assert all(one["x"] == [1, 2, 3, 4, 5] for one in series)
    assert series[0]["y"] == cut[:, ::2].mean(1).tolist()
    assert series[2]["y"] == cut[:, 1::2].mean(1).tolist()
    data = evidence_view(replicas).data
    assert data["groups"] == ["0", "16"]
    assert [one["values"] for one in data["series"]] == [[[], [0.0, 2.0]], [[1.0], [3.0]]]
