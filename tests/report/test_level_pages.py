"""Nested levels in files, pictures and pages."""

import json
import re

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from pyarrow import parquet

import softcut as sc
from softcut.errors import ParameterError
from softcut.metrics.summary import judged, summarise
from softcut.report.clustering_files import (
    clustering_metrics,
    level_columns,
    levels_of,
    most_probable,
    write_labels,
    write_parquet,
)
from softcut.report.communities_file import communities, level_summaries
from softcut.report.html_clustering import clustering_page, graph_view
from softcut.report.html_levels import shown_levels
from softcut.report.html_page import plain
from softcut.report.level_plot import levels_figure, plot_levels


@pytest.fixture(scope="module")
def books():
    return sc.GraphClustering().fit(nx.les_miserables_graph())


@pytest.fixture(scope="module")
def many():
    """Three hundred communities of five nodes."""
    cliques = nx.connected_caveman_graph(300, 5)
    return sc.GraphClustering(scale="fine").fit(cliques)


def test_labels_of_every_level_are_columns(books, tmp_path):
    graph, levels = books._graph, levels_of(books)
    assert len(levels) > 1
    write_labels(tmp_path / "labels.csv", graph, books.soft_, books.labels_, levels)
    titles, first, *_ = (tmp_path / "labels.csv").read_text().splitlines()
    nested = [f"level_{depth}" for depth in range(len(levels))]
    assert titles.split(",") == ["node", "cluster", "probability", *nested]
    assert first.split(",")[3:] == [str(labels[0]) for labels in levels]
    write_parquet(tmp_path / "labels.parquet", graph, books.soft_, books.labels_, levels)
    table = parquet.read_table(tmp_path / "labels.parquet")
    chances = [f"p{j}" for j in range(books.n_clusters_)]
    assert table.column_names == ["node", "cluster", "probability", *nested, *chances]
    for depth, labels in enumerate(levels):
        assert table[f"level_{depth}"].to_pylist() == labels.tolist() == books.labels_at(depth).tolist()
    frame = books.to_frame()
    assert frame.columns.tolist() == ["cluster", "probability", *nested]
    assert frame[f"level_{books.level_}"].tolist() == frame["cluster"].tolist()
    assert level_columns(levels[:1]) == level_columns(None) == {}
    given = sc.GraphClustering(2).fit(graph)  # one level: no further columns
    assert given.to_frame().columns.tolist() == ["cluster", "probability"]


def test_a_node_in_no_cluster_is_in_none_of_any_level(tmp_path):
    graph = sc.Graph.from_edges([[0, 1], [1, 2]], num_nodes=4, node_names=list("abcd"))
    levels = np.array([[0, 0, 0, -1], [0, 0, 1, -1]])
    soft = sp.csr_array(np.array([[1, 0], [1, 0], [0.25, 0.75], [0, 0]]))
    write_labels(tmp_path / "labels.csv", graph, soft, levels[1], levels)
    *_, third, last = (tmp_path / "labels.csv").read_text().splitlines()
    assert (third, last) == ("c,1,0.750000,0,1", "d,,,,")
    write_parquet(tmp_path / "labels.parquet", graph, soft, levels[1], levels)
    table = parquet.read_table(tmp_path / "labels.parquet")
    assert table.column_names[3:] == ["level_0", "level_1"]  # of a table that is sparse no p0, p1, ...
    assert table["level_0"].to_pylist() == [0, 0, 0, None]
    assert most_probable(soft).tolist()[:3] == [0, 0, 1]


def test_the_tree_for_programs(books):
    graph = books._graph
    summaries = level_summaries(graph, books)
    made = json.loads(json.dumps(plain(communities("books", graph, books, summaries)), allow_nan=False))
    assert (made["graph"], made["nodes"], made["verdict"]) == ("books", 77, "clear")
    assert made["level"] == books.level_
    counts = [each["clusters"] for each in made["levels"]]
    assert counts == [len(summary) for summary in summaries] == sorted(counts)
    assert [each["resolution"] for each in made["levels"]] == list(books.levels_.marks)
    place = {(each["level"], each["id"]): each for each in made["communities"]}
    assert len(place) == len(books.tree_) == sum(counts)
    names = graph.node_names
    for (level, number), each in place.items():
        own = np.flatnonzero(books.labels_at(level) == number)
        assert each["members"] == [names[i] for i in own] and each["size"] == len(own)
        assert set(each["typical"]) <= set(each["members"]) and each["typical"]
        assert 0 <= each["by_chance"] < each["inside"] <= 1
        assert [bridge["to"] for bridge in each["bridges"]] != [number]
        if level == 0:
            assert each["parent"] is None
        else:
            above = place[level - 1, each["parent"]]
            assert number in above["children"] and set(each["members"]) <= set(above["members"])
        inside = [name for child in each["children"] for name in place[level + 1, child]["members"]]
        assert not each["children"] or sorted(inside) == sorted(each["members"])


def test_features_describe_the_communities_of_every_level():
    graph = sc.Graph.from_edges(
        np.array([(a + s, b + s) for s in (0, 12) for a in range(12) for b in range(a)] + [(0, 12)]).T,
        x=np.eye(2)[[0] * 12 + [1] * 12],
        feature_names=["chess", "tennis"],
    )
    est = sc.GraphClustering(2, use="edges").fit(graph)
    made = communities("g", graph, est, level_summaries(graph, est))
    said = [trait["text"] for trait in made["communities"][0]["differs_by"]]
    assert sorted(said) == sorted(
        ["chess 100 % (0 % elsewhere)", "tennis 0 % (100 % elsewhere)"]
        if est.labels_[0] == 0
        else ["tennis 100 % (0 % elsewhere)", "chess 0 % (100 % elsewhere)"]
    )


def test_every_level_is_summarised(books):
    graph = books._graph
    for level in range(len(books.levels_.labels)):
        summary = books.summary(level=level)
        counts = ", ".join(str(int(labels.max()) + 1) for labels in books.levels_.labels)
        said = "The clusters are clear." if level == books.level_ else "The graph has clear clusters."
        assert summary.heading == (
            f"{said} 77 nodes in {len(summary)} clusters (level {level} of 0 to "
            f"{len(books.levels_.labels) - 1}: {counts} clusters)."
        )
        again = books.summary(graph, level=level)
        assert repr(again) == repr(summary)
    assert repr(books.summary(level=-1)) == repr(summary)
    assert books.plot(level=0).get_suptitle().endswith(f"{len(books.summary(level=0))} clusters")
    with pytest.raises(ParameterError, match="level must be a whole number from 0"):
        books.summary(level=9)


@pytest.mark.filterwarnings("ignore:No communities", "ignore:The graph may have no")
def test_one_rule_says_what_clusters_are_worth(books):
    graph = books._graph
    asked = sc.GraphClustering(60).fit(graph)  # far too many
    assert judged(asked)["verdict"] == "clear" and judged(asked)["of_graph"]
    assert asked.summary().said == "The graph has clear clusters."
    coarse = sc.GraphClustering(scale="coarse").fit(graph)
    assert coarse.summary().said == "The graph has clear clusters."
    star = sc.GraphClustering().fit(nx.star_graph(9))
    assert star.summary().heading == "No communities: all nodes are in one cluster. 10 nodes in 1 cluster."
    halves = sc.GraphClustering(2).fit(nx.star_graph(9)).summary()
    assert halves.heading == "The graph may have no clusters: do not rely on these. 10 nodes in 2 clusters."
    assert all(cluster.heading.endswith("by chance): no community") for cluster in halves.clusters)
    sides = nx.complete_bipartite_graph(6, 7)
    any_pattern = sc.GraphClustering(2, pattern="any").fit(sides).summary()
    assert not any("no community" in cluster.heading for cluster in any_pattern.clusters)
    stopped = sc.GraphClustering().fit(graph)
    stopped.interrupted_, stopped.verdict_ = True, "unknown"  # before it was compared with random graphs
    assert stopped.summary().said == "" and clustering_metrics("g", graph, stopped)["verdict"] == "unknown"


def test_scales_and_levels_in_metrics(books):
    metrics = clustering_metrics("g", books._graph, books)
    assert metrics["deviations"] == books.deviations_ and metrics["surplus"] == books.surplus_
    assert metrics["level"] == books.level_ and len(metrics["scales"]) == len(books.scales_)
    best = max(metrics["scales"], key=lambda row: row["score"])
    assert best["score"] == books.scales_.score.max()
    adjacency = nx.to_scipy_sparse_array(nx.les_miserables_graph(), weight="weight")
    assert metrics["modularity"] == pytest.approx(sc.metrics.modularity(adjacency, books.labels_))


def test_bars_stand_below_the_cluster_that_holds_them(books, tmp_path):
    tree, labels, chosen = books.tree_, books.levels_.labels, books.level_
    made = levels_figure(tree, labels, chosen, "a $ title")
    (axes,) = made.axes
    said = [text.get_text() for text in axes.get_yticklabels()]
    assert said[chosen].endswith("clusters (chosen)") and len(said) == len(labels)
    assert axes.get_xlabel().endswith(f"colours: clusters of level {chosen}")
    widths = sorted(path.get_extents().width for path in axes.collections[chosen].get_paths())
    assert widths == sorted(np.bincount(books.labels_).tolist())
    assert plot_levels(tmp_path / "levels.png", tree, labels, chosen).stat().st_size > 1000


def test_hundreds_of_clusters_are_shown_in_part(many, tmp_path):
    count = many.n_clusters_
    assert count > 120
    graph = many._graph
    many.plot(tmp_path / "many.png")
    figure = levels_figure(many.tree_, many.levels_.labels, many.level_)
    assert "repeated after 20" in figure.axes[0].get_xlabel()
    summary = many.summary()
    page = clustering_page(
        graph, many.soft_, clustering_metrics("g", graph, many), clusters=many.labels_, summary=summary,
        levels=shown_levels(graph, many, summary),
    )  # fmt: skip
    assert f"The 100 largest of {count} clusters" in page and 'data-view="heat"' not in page
    assert len(page) < 3_000_000
    assert len(repr(summary)) < 20_000


def test_sparse_soft_clusters_are_summarised_as_dense_ones(many):
    graph, labels = many._graph, many.labels_
    dense = np.asarray(many.soft_, dtype=np.float32)
    known = summarise(graph, labels, dense)
    assert repr(summarise(graph, labels, sp.csr_array(dense))) == repr(known)
    assert summarise(graph, labels, sp.csr_array(dense)).clusters == known.clusters
    view, again = (graph_view(graph, soft).data for soft in (dense, sp.csr_array(dense)))
    assert view == again


def test_a_page_switches_between_levels(books):
    graph, summary = books._graph, books.summary()
    metrics = clustering_metrics("g", graph, books)
    levels = shown_levels(graph, books, summary)
    page = clustering_page(
        graph, books.soft_, metrics, clusters=books.labels_, summary=summary, levels=levels
    )
    assert ">Levels</h2>" in page and page.count("<img ") == 1
    # A cluster that is the same at several levels has one row.
    assert re.search(r">\s*0\.\d+ = 1\.\d+ = 2\.\d+", page)
    others = re.findall(r"<summary>Level (\d+): (\d+) clusters</summary>", page)
    assert [int(level) for level, _ in others] == [
        level for level in range(len(levels.labels)) if level != books.level_
    ]
    data = graph_view(graph, books.soft_, levels=levels.labels).data
    assert [each["shown"] for each in data["levels"]].index(True) == books.level_
    assert data["levels"][0]["labels"] == books.labels_at(0).tolist()
    assert "levels" not in graph_view(graph, books.soft_, levels=levels.labels[:1]).data
    given = sc.GraphClustering(2).fit(graph)
    assert shown_levels(graph, given, given.summary()) is None


def test_the_picture_of_the_scales(books, tmp_path):
    made = books.scales_.plot(tmp_path / "scales.png")
    above, below, *_ = made.axes
    assert above.get_xscale() == "log" and (tmp_path / "scales.png").exists()
    said = [text.get_text() for text in above.get_legend().get_texts()]
    chosen = books.scales_.chosen
    number = books.scales_.number[chosen]
    assert said[-1] == f"chosen: {books.scales_.resolution[chosen]:.3g} ({number} communities)"
    drawn = {line.get_label(): line.get_ydata() for axes in (above, below) for line in axes.lines}
    np.testing.assert_array_equal(drawn["this graph"], books.scales_.modularity)
    np.testing.assert_array_equal(drawn["surplus x agreement"], books.scales_.score)
