"""Pictures: what is drawn for which size, colours people can tell apart, and the demo."""

import itertools
import warnings

import networkx as nx
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

from softcut.datasets import attributed_communities, grid_graph
from softcut.graph import Graph
from softcut.report import demo, plots
from softcut.report.plots import (
    cluster_colours,
    draw_adjacency,
    draw_groups,
    draw_partition,
    figure,
    line_styles,
    node_positions,
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


def drawn(draw, graph, labels):
    _, ax = figure()
    at = [np.random.default_rng(0).random((graph.num_nodes, 2))] if draw is draw_partition else []
    draw(ax, graph, labels, *at, "title")
    return ax


def test_few_nodes_have_names_and_edges_and_more_nodes_cluster_numbers():
    graph = Graph.from_networkx(nx.relabel_nodes(nx.path_graph(3), {0: "ann", 1: "bob", 2: "x" * 30}))
    ax = drawn(draw_partition, graph, np.array([0, 1, 1]))
    assert texts_of(ax) == ["ann", "bob", "x" * 17 + "…"]
    places = np.random.default_rng(0).random((3, 2))
    np.testing.assert_allclose([note.xy for note in ax.texts], places)
    (lines,) = lines_of(ax)
    np.testing.assert_allclose(lines.get_segments(), places[[[0, 1], [1, 2]]])
    # Edges between clusters are grey, those inside have the colour of their cluster.
    np.testing.assert_allclose(lines.get_colors()[:, :3], [to_rgb("#999999"), to_rgb(cluster_colours(2)[1])])
    assert (lines.get_alpha(), lines.get_linewidths().tolist()) == (0.8, [0.8])
    dots = ax.collections[1]
    assert dots.get_sizes().tolist() == [60]
    order = [np.flatnonzero((places == at).all(1))[0] for at in dots.get_offsets()]
    wanted = [to_rgb(cluster_colours(2)[c]) for c in (0, 1, 1)]
    np.testing.assert_allclose(dots.get_facecolors()[:, :3], [wanted[node] for node in order])
    graph, labels = grid_graph(10, 10), np.arange(100) // 50
    ax = drawn(draw_partition, graph, labels)
    assert texts_of(ax) == ["0", "1"]
    places = np.random.default_rng(0).random((100, 2))
    np.testing.assert_allclose(ax.texts[1].get_position(), np.median(places[50:], axis=0))
    assert len(lines_of(ax)[0].get_segments()) == graph.num_edges


def test_many_nodes_have_no_edges(monkeypatch):
    graph = grid_graph(20, 20)
    ax = drawn(draw_partition, graph, np.arange(400) // 200)
    assert not lines_of(ax)
    assert len(ax.collections[0].get_offsets()) == 400
    assert ax.collections[0].get_sizes().tolist() == [15]
    places = np.random.default_rng(0).random((400, 2))
    low, high = np.percentile(places, [0.5, 99.5], axis=0)
    room = 0.05 * (high - low)
    np.testing.assert_allclose(
        np.array([ax.get_xlim(), ax.get_ylim()]).T, [low - room, high + room], rtol=1e-6
    )
    monkeypatch.setattr(plots, "_DOTS", 100)
    assert len(drawn(draw_partition, graph, np.arange(400) // 200).collections[0].get_offsets()) == 100


def test_groups_show_sizes_and_cuts():
    # Two triangles and a single node: one edge between the triangles, weight 5 to the single node.
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (5, 6)]
    graph = Graph.from_edges(np.array(edges).T, edge_weight=[1.0] * 7 + [5.0])
    labels = np.array([0, 0, 0, 1, 1, 1, 4])  # an empty cluster is not drawn
    ax = drawn(draw_groups, graph, labels)
    sizes = ax.collections[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes.max(), [1, 1, 1 / 3])
    assert texts_of(ax) == ["1", "5", "0", "1", "4"]  # two cuts, three clusters
    assert [line.get_linewidth() for line in ax.lines] == pytest.approx([0.4 + 7 / 5, 7.4])
    assert [line.get_alpha() for line in ax.lines] == pytest.approx([0.2 + 0.5 / 5, 0.7])
    assert ax.get_xlabel() == "widest line: edges of weight 5"
    assert (ax.get_xlim(), ax.get_ylim()) == ((-1.5, 1.5), (-1.5, 1.5))
    corners = [[0, 1], [0.75**0.5, -0.5], [-(0.75**0.5), -0.5]]  # clockwise, from the top
    np.testing.assert_allclose(ax.collections[0].get_offsets(), corners, atol=1e-12)
    between = 0.58 * np.array(corners[0]) + 0.42 * np.array(corners[1])
    at = [text.get_position() for text in ax.texts[::2]]
    np.testing.assert_allclose(at, [between, corners[0], corners[2]], atol=1e-12)
    graph = attributed_communities(600, 20, edge_signal=0.1, seed=0)  # dense: only the largest cuts are drawn
    ax = drawn(draw_groups, graph, graph.y)
    assert len(ax.lines) <= 45


def test_the_matrix_is_sorted_by_cluster(monkeypatch):
    graph = Graph.from_edges([[0, 1, 0], [2, 3, 1]])  # 0-2 and 1-3 inside, 0-1 between
    ax = drawn(draw_adjacency, graph, np.array([0, 1, 0, 1]))
    image = ax.images[0].get_array().filled(0) > 0
    expected = np.zeros((4, 4), dtype=bool)  # rows in the order 0, 2, 1, 3
    for a, b in ((0, 1), (2, 3), (0, 2)):
        expected[a, b] = expected[b, a] = True
    assert (image == expected).all()
    assert ax.images[0].get_extent() == [0, 4, 4, 0]
    assert (ax.images[0].norm.vmin, ax.images[0].norm.vmax) == (0.1, 1)
    assert [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in ax.patches] == [
        (0, 0, 2, 2),
        (2, 2, 2, 2),
    ]
    monkeypatch.setattr(plots, "_BINS", 7)  # a large one is counted in squares
    graph = attributed_communities(100, 3, seed=0)
    ax = drawn(draw_adjacency, graph, graph.y)
    image = ax.images[0].get_array().filled(0)
    assert image.shape == (7, 7)
    np.testing.assert_allclose(image.sum() * (100 / 7) ** 2, graph.adjacency.nnz)


def test_axes_have_whole_numbers():
    ax = drawn(draw_adjacency, grid_graph(1, 3), np.array([0, 0, 1]))
    ax.figure.canvas.draw()
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert (ticks == np.round(ticks)).all()


def test_the_legend_names_sizes_and_cuts(monkeypatch):
    kept = []
    monkeypatch.setattr(plots, "save_figure", lambda fig, path: kept.append(fig))
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    plot_clustering("unused.png", graph, np.array([0, 0, 0, 2]), title="people")
    plot_clustering("unused.png", grid_graph(5, 6), np.arange(30))
    legend, long = (fig.legends[0] for fig in kept)
    said = [t.get_text() for t in legend.get_texts()]
    assert said == ["0: 3 nodes, 20% cut", "2: 1 node, 100% cut"]
    colours = [h.get_color() for h in legend.legend_handles]
    assert colours == [cluster_colours(3)[0], cluster_colours(3)[2]]
    assert kept[0].get_suptitle() == "people: 4 nodes, 3 edges, 2 clusters"
    assert [ax.get_xlabel() for ax in kept[0].axes] == [
        "layout: neighbours attract each other",
        "widest line: edges of weight 1",
        "nodes",
    ]
    assert [t.get_text() for t in long.get_texts()][19:] == ["19: 1 node, 100% cut", "and 10 more"]


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
    ax = drawn(draw_adjacency, graph, (np.arange(nodes) >= nodes // 2).astype(int))
    pixels = ax.images[0].to_rgba(ax.images[0].get_array())
    assert pixels[0, -1, 3] == 1 and (pixels[0, -1, :3] < 0.75).all()
    assert pixels[-1, -1, 3] == 0


# ----------------------------------------------------------------------------- where nodes stand


@pytest.mark.parametrize("nodes", [250, 1000])
@pytest.mark.parametrize("features", [True, False])
def test_neighbours_stand_near_each_other(nodes, features):
    graph = attributed_communities(nodes, 3, edge_signal=0.95, seed=0)
    graph = graph if features else graph.with_features(None)
    positions, what = node_positions(graph)
    np.testing.assert_array_equal(positions, node_positions(graph)[0])  # the same every time
    kind = "features" if features else "adjacency"
    assert ("layout" if nodes < 300 else kind) in what
    assert positions.shape == (nodes, 2)
    first, second = graph.edge_index()[0]
    near = np.linalg.norm(positions[first] - positions[second], axis=1).mean()
    anywhere = np.linalg.norm(
        positions - positions[np.random.default_rng(0).permutation(nodes)], axis=1
    ).mean()
    assert near < 0.75 * anywhere


def test_parts_that_are_not_connected_do_not_overlap():
    edges = np.array([(a + b, a + (b + 1) % 5) for a in (0, 5, 10) for b in range(5)]).T
    graph = Graph.from_edges(edges, num_nodes=17)  # three rings and two isolated nodes
    positions, _ = node_positions(graph)
    assert np.isfinite(positions).all()
    # In rows of at most 2.2 √17; a part of n nodes has a square of side 2 √n, with 1 between them.
    r = 5**0.5
    for ring, height in enumerate((0, 2 * r + 1, 4 * r + 2)):
        part = positions[5 * ring : 5 * ring + 5]
        np.testing.assert_allclose(part.mean(0), [r, height + r])
        np.testing.assert_allclose(np.abs(part - part.mean(0)).max(), r)
    np.testing.assert_allclose(positions[15:], [[2 * r + 2, 4 * r + 3], [1, 6 * r + 4]])


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_few_features_give_two_coordinates(columns):
    x = np.random.default_rng(0).random((400, columns))
    graph = grid_graph(20, 20).with_features(x)
    positions, what = node_positions(graph)
    assert positions.shape == (400, 2) and np.isfinite(positions).all()
    if columns == 2:
        np.testing.assert_allclose(positions, x, rtol=1e-6)
        assert what == "coordinates"
    if columns == 1:  # the mean over two steps
        walk = graph.adjacency.toarray() + np.eye(400)
        walk /= walk.sum(1, keepdims=True)
        np.testing.assert_allclose(positions, np.hstack([walk @ walk @ x, 0 * x]), rtol=1e-6)


@pytest.mark.parametrize(("nodes", "height"), [(60, 1), (400, 3)])
def test_every_method_has_a_legend_and_large_graphs_more_panels(tmp_path, monkeypatch, nodes, height):
    graph = attributed_communities(nodes, 2, seed=0)
    by_method = {"other": 1 - graph.y, "softcut (default)": graph.y}  # matched: the same numbers
    kept = []
    monkeypatch.setattr(demo, "save_figure", lambda fig, path: kept.append(fig))
    demo.draw_methods(tmp_path / "a.png", graph, by_method, [{"k": 2, "normalised_cut": 0.5, "nmi": 1.0}] * 2)
    assert len(kept[0].axes) == 2 * height
    assert [ax.get_title() for ax in kept[0].axes[:2]] == [f"{m}\ncut 0.50, NMI 1.00" for m in by_method]
    sizes = np.bincount(graph.y)
    for ax in kept[0].axes[-2:]:
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert [text.split(",")[0] for text in said] == [f"{i}: {size} nodes" for i, size in enumerate(sizes)]


def test_labels_that_match_get_the_same_number():
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 5, 200)
    renamed = np.array([3, 9, 0, 7, 1])[reference]
    np.testing.assert_array_equal(demo.numbered_like(renamed, reference), reference)
    split = np.where(np.arange(200) < 150, renamed, 20)  # one more cluster than the reference
    again = demo.numbered_like(split, reference)
    assert len(np.unique(again)) == 6
    assert (again == reference)[:150].all()


def test_nodes_without_a_cluster_are_not_drawn(tmp_path):
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=6)
    for labels in ([0, 0, 1, 1, -1, -1], [-1] * 6):
        path = plots.plot_clustering(tmp_path / "p.png", graph, np.array(labels))
        assert path.stat().st_size > 0
    with pytest.MonkeyPatch.context() as patch:
        drawn_graphs = []
        patch.setattr(
            plots, "draw_groups", lambda ax, graph, labels, title: drawn_graphs.append((graph, labels))
        )
        plots.plot_clustering(tmp_path / "p.png", graph, np.array([0, 0, 1, 1, -1, -1]))
    ((part, shown),) = drawn_graphs
    assert part.num_nodes == 4
    assert shown.tolist() == [0, 0, 1, 1]
