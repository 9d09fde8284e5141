"""est.summary, est.report and est.plot: of the graph of the fit, of another one, of a loaded model."""

import sys

import numpy as np
import pytest

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.errors import DependencyError, NotFittedError, ParameterError
from softcut.io import read_model
from softcut.metrics.summary import VERDICTS

GRAPH = attributed_communities(150, 3, n_features=20, edge_signal=0.85, feature_signal=0.6, seed=0)


@pytest.fixture(scope="module")
def est():
    return sc.GraphClustering(3, n_init=4, max_iter=30, random_state=0).fit(GRAPH)


def test_the_summary_is_that_of_the_fit(est):
    summary = est.summary()
    assert (summary.verdict, summary.structure) == (est.verdict_, est.structure_)
    assert repr(summary).startswith(VERDICTS[est.verdict_])
    assert [cluster.size for cluster in summary.clusters] == np.bincount(est.labels_).tolist()
    assert repr(est.summary(GRAPH)) == repr(summary)  # the same clusters: the same verdict


def test_another_graph_is_summarised_without_a_verdict(est):
    other = attributed_communities(90, 3, n_features=20, edge_signal=0.85, feature_signal=0.6, seed=1)
    summary = est.summary(other)
    assert (summary.verdict, summary.nodes) == (None, 90)
    assert repr(summary).startswith("90 nodes in")


def test_a_loaded_model_asks_for_the_graph(est, tmp_path):
    again = sc.GraphClustering.load(est.save(tmp_path / "model"))
    for method in (again.summary, lambda: again.report(tmp_path / "x.html"), again.plot):
        with pytest.raises(ParameterError, match=r"^graph is missing: a model that was loaded does not hold"):
            method()
    assert not (tmp_path / "x.html").exists()
    assert repr(again.summary(GRAPH)) == repr(est.summary())
    tensors, meta = read_model(tmp_path / "model")
    assert not {name for name in (*tensors, *meta) if "graph" in name and name != "graph_sizes"}


def test_the_report_is_written_whole(est, tmp_path):
    path = est.report(tmp_path / "new" / "clusters.html")
    page = path.read_text(encoding="utf-8")
    assert est.summary().heading in page and ">Training<" in page
    other = attributed_communities(90, 3, n_features=20, seed=1)
    page = est.report(path, other).read_text(encoding="utf-8")
    assert "90 nodes" in page and ">Training<" not in page and "The clusters are" not in page
    with pytest.raises(ParameterError, match="is a folder"):
        est.report(tmp_path)


def test_the_picture_names_what_sets_clusters_apart(est, tmp_path):
    figure = est.plot(tmp_path / "clusters.png")
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    for cluster, text in zip(est.summary().clusters, said, strict=True):
        assert text.startswith(f"{cluster.cluster}: {cluster.size} nodes")
        assert not cluster.traits or cluster.traits[0].feature in text
    assert (tmp_path / "clusters.png").read_bytes()[:4] == figure._repr_png_()[:4] == b"\x89PNG"


def test_what_cannot_be_shown(est):
    with pytest.raises(NotFittedError):
        sc.GraphClustering(2).summary()
    with pytest.raises(ParameterError, match="X was given without its graph"):
        est.summary(X=np.eye(3))


def test_several_graphs_and_graphs_without_features():
    plain = attributed_communities(120, 3, n_features=0, edge_signal=0.9, seed=0)
    summary = sc.GraphClustering(3, random_state=0).fit(plain).summary()
    assert all(
        not cluster.traits and cluster.typical and cluster.cohesion > 0.5 for cluster in summary.clusters
    )
    both = sc.GraphClustering(3, n_init=2, max_iter=10, random_state=0).fit([GRAPH, GRAPH])
    assert both.summary().nodes == 300
    assert len(both.summary([GRAPH, GRAPH])) == len(both.summary())


def test_nodes_without_a_cluster_are_counted_apart(tmp_path):
    x = np.zeros((8, 4))
    x[:3, :2] = x[3:6, 2:] = 1
    graph = sc.Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]], x=x)
    with pytest.warns(UserWarning, match="explain less"):
        est = sc.GraphClustering(2, n_init=4, max_iter=50).fit(graph)
    for summary in (est.summary(), est.summary(graph)):
        assert (summary.unplaced, [cluster.size for cluster in summary.clusters]) == (2, [3, 3])
    assert est.summary().heading.startswith("The graph may have no clusters: do not rely on these. 8 nodes")
    assert "8 nodes in 2 clusters, 2 in none." in est.report(tmp_path / "x.html").read_text(encoding="utf-8")
    assert est.plot().get_suptitle().endswith("2 clusters, 2 nodes in no cluster")
    assert est.score(graph) == pytest.approx(est.score(graph.subgraph(range(6))))
    with pytest.warns(UserWarning, match="nothing to cluster by"):
        est.fit(sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=3))
    assert est.summary().heading.endswith("3 nodes in 0 clusters, 3 in none.")
    empty = sc.Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=3)
    assert est.score(empty) == 0
    assert est.report(tmp_path / "y.html").exists()


def test_a_picture_without_matplotlib_says_what_to_install(est, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(DependencyError, match=r"'matplotlib': run pip install 'softcut\[report\]'"):
        est.plot()
