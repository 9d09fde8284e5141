"""Pictures: what is drawn for which size, and colours people can tell apart."""

from __future__ import annotations

import itertools
import warnings

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.report import plots
from softcut.report.plots import (
    cluster_colours,
    draw_adjacency,
    draw_groups,
    draw_partition,
    figure,
    line_styles,
    plot_clustering,
)

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SEEN_BY = {
    "everybody": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


def lab(rgb, matrix):
    """CIE Lab of sRGB colours, seen through a matrix on linear RGB."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(linear @ np.asarray(matrix).T, 0, 1)
    xyz = linear @ np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]).T
    f = np.cbrt(xyz / [0.95047, 1, 1.08883])
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


@pytest.mark.parametrize("eyes", SEEN_BY)
def test_twenty_colours_can_be_told_apart(eyes):
    seen = lab(np.array([to_rgb(c) for c in cluster_colours(20)]), SEEN_BY[eyes])
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15
    white = lab(np.ones((1, 3)), SEEN_BY[eyes])
    assert np.linalg.norm(seen - white, axis=1).min() > 15


def test_a_few_clusters_have_the_first_colours():
    styles = line_styles([str(i) for i in range(22)])
    chosen = [styles[i] for i in ("0", "6", "7", "14", "21")]
    assert [style["colour"] for style in chosen] == [cluster_colours(7)[i] for i in (0, 6, 0, 0, 0)]
    assert [style["dash"] for style in chosen] == ["none", "none", "7 3", "2 3", "none"]
    assert cluster_colours(25)[:7] == cluster_colours(7)
    assert cluster_colours(25)[20] == cluster_colours(1)[0]


def lines_of(ax):
    return [c for c in ax.collections if isinstance(c, LineCollection)]


def texts_of(ax):
    return [t.get_text() for t in ax.texts]


def drawn(graph, labels):
    _, ax = figure()
    draw_partition(ax, graph, labels, np.random.default_rng(0).random((graph.num_nodes, 2)), "title")
    return ax


def test_few_nodes_have_names_and_edges():
    graph = Graph.from_networkx(nx.relabel_nodes(nx.path_graph(3), {0: "ann", 1: "bob", 2: "x" * 30}))
    ax = drawn(graph, np.array([0, 1, 1]))
    assert texts_of(ax) == ["ann", "bob", "x" * 17 + "…"]
    assert len(lines_of(ax)[0].get_segments()) == 2


def test_more_nodes_have_edges_and_cluster_numbers():
    graph = grid_graph(10, 10)
    ax = drawn(graph, np.arange(100) // 50)
    assert texts_of(ax) == ["0", "1"]
    assert len(lines_of(ax)[0].get_segments()) == graph.num_edges


def test_many_nodes_have_no_edges(monkeypatch):
    graph = grid_graph(20, 20)
    ax = drawn(graph, np.arange(400) // 200)
    assert not lines_of(ax)
    assert len(ax.collections[0].get_offsets()) == 400
    places = np.random.default_rng(0).random((400, 2))
    low, high = np.percentile(places, [0.5, 99.5], axis=0)
    room = 0.05 * (high - low)
    np.testing.assert_allclose(
        np.array([ax.get_xlim(), ax.get_ylim()]).T, [low - room, high + room], rtol=1e-6
    )
    monkeypatch.setattr(plots, "_DOTS", 100)
    assert len(drawn(graph, np.arange(400) // 200).collections[0].get_offsets()) == 100


def test_groups_show_sizes_and_cuts():
    # Two triangles and a single node: one edge between the triangles, weight 5 to the single node.
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (5, 6)]
    graph = Graph.from_edges(np.array(edges).T, edge_weight=[1.0] * 7 + [5.0])
    labels = np.array([0, 0, 0, 1, 1, 1, 4])  # an empty cluster is not drawn
    _, ax = figure()
    draw_groups(ax, graph, labels, "groups")
    sizes = ax.collections[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes.max(), [1, 1, 1 / 3])
    assert texts_of(ax) == ["1", "5", "0", "1", "4"]  # two cuts, three clusters
    first, second = (line.get_linewidth() for line in ax.lines)
    assert first < second
    assert "weight 5" in ax.get_xlabel()


def test_groups_of_a_dense_clustering_can_be_followed():
    graph = attributed_communities(600, 20, edge_signal=0.1, seed=0)
    _, ax = figure()
    draw_groups(ax, graph, graph.y, "groups")
    assert len(ax.lines) <= 45


def test_the_matrix_is_sorted_by_cluster():
    graph = Graph.from_edges([[0, 1, 0], [2, 3, 1]])  # 0-2 and 1-3 inside, 0-1 between
    _, ax = figure()
    draw_adjacency(ax, graph, np.array([0, 1, 0, 1]), "matrix")
    image = ax.images[0].get_array().filled(0) > 0
    expected = np.zeros((4, 4), dtype=bool)  # rows in the order 0, 2, 1, 3
    for a, b in ((0, 1), (2, 3), (0, 2)):
        expected[a, b] = expected[b, a] = True
    assert (image == expected).all()
    assert [(p.get_x(), p.get_width()) for p in ax.patches] == [(0, 2), (2, 2)]


def test_a_large_matrix_is_counted_in_squares(monkeypatch):
    monkeypatch.setattr(plots, "_BINS", 7)
    graph = attributed_communities(100, 3, seed=0)
    _, ax = figure()
    draw_adjacency(ax, graph, graph.y, "matrix")
    image = ax.images[0].get_array().filled(0)
    assert image.shape == (7, 7)
    np.testing.assert_allclose(image.sum() * (100 / 7) ** 2, graph.adjacency.nnz)


def test_axes_have_whole_numbers():
    fig, ax = figure()
    graph = grid_graph(1, 3)
    draw_adjacency(ax, graph, np.array([0, 0, 1]), "matrix")
    fig.canvas.draw()
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert (ticks == np.round(ticks)).all()


def whole_figure(monkeypatch, graph, labels):
    kept = []
    monkeypatch.setattr(plots, "save_figure", lambda fig, path: kept.append(fig))
    plot_clustering("unused.png", graph, labels, title="people")
    return kept[0]


def test_the_legend_names_sizes_and_cuts(monkeypatch):
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    fig = whole_figure(monkeypatch, graph, np.array([0, 0, 0, 2]))
    said = [t.get_text() for t in fig.legends[0].get_texts()]
    assert said == ["0: 3 nodes, 20% cut", "2: 1 node, 100% cut"]
    colours = [h.get_color() for h in fig.legends[0].legend_handles]
    assert colours == [cluster_colours(3)[0], cluster_colours(3)[2]]
    assert fig.get_suptitle() == "people: 4 nodes, 3 edges, 2 clusters"


def test_a_long_legend_ends(monkeypatch):
    fig = whole_figure(monkeypatch, grid_graph(5, 6), np.arange(30))
    said = [t.get_text() for t in fig.legends[0].get_texts()]
    assert len(said) == 21
    assert said[-1] == "and 10 more"


@pytest.mark.parametrize("nodes", [1, 2, 150, 400])
@pytest.mark.parametrize("features", [True, False])
def test_a_picture_of_any_graph(tmp_path, nodes, features):
    graph = attributed_communities(max(nodes, 3), 3, average_degree=2, seed=0).subgraph(np.arange(nodes))
    graph = graph if features else graph.with_features(None)
    path = plot_clustering(tmp_path / "a.png", graph, graph.y)
    assert path.read_bytes()[:4] == b"\x89PNG"
    empty = Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=nodes)
    assert plot_clustering(tmp_path / "b.png", empty, graph.y).exists()


@pytest.mark.parametrize("names", [["$a_{", "$b$", "c$$"], ["日本", "б", "a\nb"]])
def test_names_are_drawn_as_they_are(tmp_path, names):
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plot_clustering(tmp_path / "a.png", graph, np.array([0, 1, 1]), title=names[2]).exists()


@pytest.mark.parametrize("nodes", [300, 3000])
def test_a_single_edge_between_clusters_can_be_seen(nodes):
    # Dense inside one cluster, one edge to the other: its pixel must not be white.
    block = itertools.combinations(range(30), 2)
    graph = Graph.from_edges(np.array([*block, (0, nodes - 1)]).T, num_nodes=nodes)
    _, ax = figure()
    draw_adjacency(ax, graph, (np.arange(nodes) >= nodes // 2).astype(int), "matrix")
    drawn = ax.images[0].to_rgba(ax.images[0].get_array())
    corner = drawn[0, -1]
    assert corner[3] == 1
    assert (corner[:3] < 0.75).all()
    assert drawn[-1, -1][3] == 0
