"""The report of one clustering."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.clustering import GraphClustering
from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.metrics import conductance, evaluate
from softcut.report.clustering_files import VERDICTS, verdict_of
from softcut.report.html_clustering import (
    cluster_rows,
    clustering_page,
    feature_profiles,
    typical_nodes,
    uncertain_nodes,
)


@pytest.fixture(scope="module")
def case():
    graph = attributed_communities(90, 3, n_features=12, seed=0)
    return graph, np.random.default_rng(0).dirichlet(np.ones(3), 90)


def test_the_rows_are_the_scores_of_the_clusters(case):
    graph, soft = case
    labels = soft.argmax(1)
    columns, rows = cluster_rows(graph, soft)
    shown = {name: [row[i] if i == 0 else row[i].text for row in rows] for i, name in enumerate(columns)}
    assert shown["nodes"] == [str(n) for n in np.bincount(labels)]
    cut = []
    for c in range(3):
        inside = labels == c
        volume = graph.adjacency[inside].sum()
        cut.append(1 - graph.adjacency[inside][:, inside].sum() / volume)
    assert shown["cut"] == [f"{value:.0%}" for value in cut]
    mean = np.mean([float(text.rstrip("%")) for text in shown["conductance"]])
    assert mean == pytest.approx(100 * conductance(graph, labels), abs=0.6)
    assert shown["certainty"] == [f"{soft[labels == c, c].mean():.2f}" for c in range(3)]


def test_small_tables_to_the_number():
    _, rows = cluster_rows(grid_graph(3, 3), np.eye(2)[np.arange(9) // 5])
    assert [[cell.text for cell in row[1:6]] for row in rows] == [
        ["5", "56%", "29%", "40%", "1.00"],
        ["4", "44%", "40%", "40%", "1.00"],
    ]
    x = np.array([[1.0, 5], [1, 5], [0, 5], [0, 5]])
    graph = Graph.from_edges([[0, 1], [2, 3]], x=x, feature_names=["a", "b"])
    profiles = feature_profiles(graph, np.array([0, 0, 1, 1]))
    assert profiles == {0: [("a", 1.0, 0.5, 1.0)], 1: [("a", 0.0, 0.5, -1.0)]}


def test_typical_and_uncertain_nodes(case):
    _, soft = case
    labels = soft.argmax(1)
    for c in range(3):
        own = typical_nodes(soft, c, 4)
        assert (labels[own] == c).all()
        assert soft[own, c].min() >= np.sort(soft[labels == c, c])[-4]
    gap = -np.diff(-np.sort(-soft, axis=1)[:, :2], axis=1).ravel()
    assert uncertain_nodes(soft, 10).tolist() == np.argsort(gap, kind="stable")[:10].tolist()
    assert uncertain_nodes(np.ones((4, 1))).size == 0


@pytest.mark.parametrize("sparse", [False, True])
def test_profiles_are_standardised_differences(case, sparse):
    graph, soft = case
    labels = soft.argmax(1)
    x = np.asarray(graph.x.toarray() if sp.issparse(graph.x) else graph.x, dtype=float)
    made = Graph.from_scipy(graph.adjacency, x=sp.csr_array(x) if sparse else x)
    for cluster, profile in feature_profiles(made, labels, most=3).items():
        apart = (x[labels == cluster].mean(0) - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), np.inf)
        wanted = np.argsort(-np.abs(apart), kind="stable")[:3]
        assert [int(name) for name, *_ in profile] == wanted.tolist()
        np.testing.assert_allclose([d for *_, d in profile], apart[wanted], rtol=1e-9)


def test_a_single_feature_has_a_profile_too():
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], x=[[0.0], [0.0], [2.0], [2.0]])
    profiles = feature_profiles(graph, np.array([0, 0, 1, 1]))
    assert profiles == {0: [("0", 0.0, 1.0, -1.0)], 1: [("0", 2.0, 1.0, 1.0)]}
    assert feature_profiles(graph.with_features(None), np.array([0, 0, 1, 1])) == {}


def test_names_from_a_users_file_are_shown_as_text(case):
    graph, soft = case
    evil = [f"<script>alert({i})</script>" for i in range(90)]
    words = [f"</script><b>{j}" for j in range(graph.num_features)]
    made = Graph.from_scipy(graph.adjacency, x=graph.x, node_names=evil, feature_names=words, name="<i>x")
    metrics = {"graph": "<i>x", "notes": ["<u>note</u>"], **evaluate(made, soft.argmax(1))}
    page = clustering_page(made, soft, metrics, command="softcut <cluster>")
    assert "<script>alert" not in page
    for text in ("<i>x", "<u>", "<b>0", "softcut <cluster>"):
        assert text not in page
    assert "&lt;script&gt;alert(" in page  # the table of uncertain nodes
    assert "\\u003cscript\\u003ealert(" in page  # the data of the view
    assert "Training" not in page  # there was none


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_verdict_comes_first(case, verdict):
    graph, soft = case
    metrics = {"graph": "g", "n_clusters": 3, "verdict": verdict, "structure": 1.2345, "clusters_used": 3}
    page = clustering_page(graph, soft, metrics)
    said, *later = (page.index(text) for text in (VERDICTS[verdict], "structure (nats", "clusters used"))
    assert [said, *later] == sorted([said, *later])
    assert "1.234" in page
    assert sum(sentence in page for sentence in VERDICTS.values()) == 1


def test_a_single_cluster_and_a_prediction_have_no_clusters_to_judge():
    assert verdict_of({"verdict": "none", "n_clusters": 1}) == "All nodes are in one cluster."
    assert verdict_of({"graph": "g", "n_clusters": 3}) == ""


def test_a_clustering_without_networks_has_no_training_to_show():
    graph = attributed_communities(90, 3, n_features=0, edge_signal=0.9, seed=0)
    est = GraphClustering(range(2, 5), random_state=0).fit(graph)
    assert est.replicas_ == []
    assert {key: value.shape for key, value in est.history_.items()} == {"cut": (0, 0), "ortho": (0, 0)}
    metrics = {
        "graph": "g",
        "n_clusters": est.n_clusters_,
        "structure": est.structure_,
        "verdict": est.verdict_,
        "candidates": {str(k): found for k, found in est.candidates_.items()},
        "agreement_of_replicas": est.agreement_,
        "replicas": 0,
        "replicas_collapsed": 0,
        "iterations": est.n_iter_,
        "converged": est.converged_,
        **evaluate(graph, est.labels_),
    }
    page = clustering_page(graph, est.soft_, metrics, history=est.history_, replicas=est.replicas_)
    for absent in (">Training<", ">networks<", ">iterations<", ">converged<", "Evidence of each distance"):
        assert absent not in page
    assert VERDICTS[est.verdict_] in page
    assert "agreement of restarts" in page
    assert f"{est.n_clusters_} (chosen)" in page
    for k in (2, 3, 4):
        assert f">{k}<" in page or f">{k} (chosen)<" in page
