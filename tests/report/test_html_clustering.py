"""The page, the sentence and the label file of one clustering."""

import numpy as np
import pytest
import scipy.sparse as sp

from softcut.clustering import GraphClustering
from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.metrics import conductance, evaluate
from softcut.report.clustering_files import VERDICTS, clustering_metrics, verdict_of, write_labels
from softcut.report.html_clustering import cluster_table, clustering_page, feature_table, uncertain_table
from softcut.report.tables import Cell


@pytest.fixture(scope="module")
def case():
    graph = attributed_communities(90, 3, n_features=12, seed=0)
    return graph, np.random.default_rng(0).dirichlet(np.ones(3), 90)


def texts(table):
    return [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in table.rows]


def test_the_rows_are_the_scores_of_the_clusters(case):
    graph, soft = case
    labels = soft.argmax(1)
    table = cluster_table(graph, soft)
    shown = dict(zip(table.columns, zip(*texts(table), strict=True), strict=True))
    mean = np.mean([float(text.rstrip("%")) for text in shown["conductance"]])
    assert mean == pytest.approx(100 * conductance(graph, labels), abs=0.6)
    for c in range(3):
        inside = labels == c
        cut = 1 - graph.adjacency[inside][:, inside].sum() / graph.adjacency[inside].sum()
        certainty = np.where(inside, soft[:, c], 0)
        typical = np.argsort(-certainty)[:5]
        assert [shown[name][c] for name in ("cluster", "nodes", "cut", "certainty", "typical nodes")] == [
            *(str(c), str(inside.sum()), f"{cut:.0%}", f"{certainty[inside].mean():.2f}"),
            ", ".join(map(str, typical)),
        ]


def test_small_tables_to_the_number():
    names = list("abcdefghi")
    graph = Graph.from_scipy(grid_graph(3, 3).adjacency, node_names=names)
    assert texts(cluster_table(graph, np.eye(2)[np.arange(9) // 5])) == [
        ["0", "5", "56%", "29%", "40%", "1.00", "a, b, c, d, e"],
        ["1", "4", "44%", "40%", "40%", "1.00", "f, g, h, i"],
    ]
    soft = np.array([[0.9, 0.1, 0.0], [0.2, 0.35, 0.45], [0.5, 0.5, 0.0]])
    rows = texts(uncertain_table(Graph.from_edges([[0, 1], [1, 2]], node_names=["x", "y", "z"]), soft))
    assert rows == [
        ["z", "0", "0.5", "1", "0.5"],
        ["y", "2", "0.45", "1", "0.35"],
        ["x", "0", "0.9", "1", "0.1"],
    ]
    x = np.array([[1.0, 5], [1, 5], [0, 5], [0, 5]])
    graph = Graph.from_edges([[0, 1], [2, 3]], x=x, feature_names=["a", "b"])
    rows = texts(feature_table(graph, np.array([0, 0, 1, 1])))  # b is the same everywhere
    assert rows == [["0", "a", "1", "0.5", "+1.00"], ["1", "a", "0", "0.5", "-1.00"]]
    assert "no features" in feature_table(graph.with_features(None), np.zeros(4, int)).markdown
    assert "one cluster" in uncertain_table(graph, np.ones((4, 1))).markdown


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_ranked_by_standardised_differences(case, sparse):
    graph, soft = case
    labels = soft.argmax(1)
    x = np.asarray(graph.x.toarray() if sp.issparse(graph.x) else graph.x, dtype=float)
    rows = texts(feature_table(Graph.from_scipy(graph.adjacency, x=sp.csr_array(x) if sparse else x), labels))
    expected = []
    for c in range(3):
        apart = (x[labels == c].mean(0) - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), np.inf)
        for j in np.argsort(-np.abs(apart), kind="stable")[:8]:
            means = f"{x[labels == c, j].mean():.4g}", f"{x[:, j].mean():.4g}"
            expected.append([str(c), str(j), *means, f"{apart[j]:+.2f}"])
    assert rows == expected


def test_names_from_a_users_file_are_shown_as_text(case):
    graph, soft = case
    evil = [f"<script>alert({i})</script>" for i in range(90)]
    words = [f"</script><b>{j}" for j in range(graph.num_features)]
    made = Graph.from_scipy(graph.adjacency, x=graph.x, node_names=evil, feature_names=words, name="<i>x")
    metrics = {"graph": "<i>x", "notes": ["<u>note</u>"], **evaluate(made, soft.argmax(1))}
    page = clustering_page(made, soft, metrics, command="softcut <cluster>")
    for text in ("<script>alert", "<i>x", "<u>", "<b>0", "softcut <cluster>"):
        assert text not in page
    assert "&lt;script&gt;alert(" in page  # the table of uncertain nodes
    assert "\\u003cscript\\u003ealert(" in page  # the data of the view
    assert "Training" not in page  # there was none


@pytest.mark.parametrize("verdict", VERDICTS)
def test_the_verdict_comes_first(case, verdict):
    metrics = {"graph": "g", "n_clusters": 3, "verdict": verdict, "structure": 1.2345, "clusters_used": 3}
    page = clustering_page(*case, metrics)
    places = [page.index(text) for text in (VERDICTS[verdict], "structure (nats", "clusters used")]
    assert places == sorted(places)
    assert "1.234" in page
    assert sum(sentence in page for sentence in VERDICTS.values()) == 1
    # A single cluster and a prediction have no clusters to judge.
    assert verdict_of({"verdict": "none", "n_clusters": 1}) == "All nodes are in one cluster."
    assert verdict_of({"graph": "g", "n_clusters": 3}) == ""


def test_a_clustering_without_networks_has_no_training_to_show():
    graph = attributed_communities(90, 3, n_features=0, edge_signal=0.9, seed=0)
    est = GraphClustering(range(2, 5), random_state=0).fit(graph)
    metrics = clustering_metrics("g", graph, est, read=0.25)
    assert (metrics["nodes"], metrics["edges"], metrics["features"]) == (90, graph.num_edges, 0)
    assert (metrics["replicas"], metrics["replicas_collapsed"], metrics["seconds"]["read"]) == (0, 0, 0.25)
    assert metrics["modularity"] == evaluate(graph, est.labels_)["modularity"]
    assert [*metrics["candidates"]] == ["2", "3", "4"]
    page = clustering_page(graph, est.soft_, metrics, history=est.history_, replicas=est.replicas_)
    for absent in (">Training<", ">networks<", ">iterations<", ">converged<", "Evidence of each distance"):
        assert absent not in page
    assert VERDICTS[est.verdict_] in page
    assert "agreement of restarts" in page
    for k, described in metrics["candidates"].items():
        name = f"{k} (chosen)" if int(k) == est.n_clusters_ else k
        assert f'<th scope="row">{name}</th><td class="number">{described["score"]:.4g}</td>' in page
    assert '<th scope="row">seconds, read</th><td>0.2</td>' in page


def test_a_line_per_node_and_names_that_no_spreadsheet_takes_for_formulas(tmp_path):
    soft = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5], [0.1, 0.9]])
    names = ["=1+1", "ann,b", "-5", "@x"]
    rows = ["1,0.750000", "0,1.000000", "0,0.500000", "1,0.900000"]
    for given, safe, shown in (
        (names, False, ["=1+1", '"ann,b"', "-5", "@x"]),
        (names, True, ["'=1+1", '"ann,b"', "'-5", "'@x"]),
        (None, False, ["0", "1", "2", "3"]),
    ):
        write_labels(tmp_path / "a.csv", given, soft, spreadsheet_safe=safe)
        expected = ["node,cluster,probability", *map(",".join, zip(shown, rows, strict=True))]
        assert (tmp_path / "a.csv").read_text().splitlines() == expected
