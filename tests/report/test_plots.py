"""Pictures: what is drawn for which size, colours people can tell apart, and the demo."""

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.kept import check_kept
from matplotlib.colors import to_hex, to_rgb
from PIL import Image

from softcut.colours import cluster_colours
from softcut.datasets import attributed_communities, grid_graph
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.metrics.summary import summarise
from softcut.report import demo, plots
from softcut.report.plots import (
    cluster_marks,
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
    styles = line_styles([str(i) for i in range(43)])
    chosen = [styles[i] for i in ("0", "6", "7", "14", "21", "42")]
    assert [style["colour"] for style in chosen] == [cluster_colours(7)[i] for i in (0, 6, 0, 0, 0, 0)]
    assert [style["dash"] for style in chosen] == ["none", "none", "7 3", "2 3", "none", "none"]
    assert cluster_colours(25)[:7] == cluster_colours(7)
    assert cluster_colours(25)[20] == cluster_colours(1)[0]


def drawn(draw, graph, labels):
    _, ax = figure()
    at = [np.random.default_rng(0).random((graph.num_nodes, 2))] if draw is draw_partition else []
    draw(ax, graph, labels, *at, "title")
    return ax


def colours_of(colours):
    return [to_hex(colour, keep_alpha=True) for colour in colours]


def described(fig):
    """Everything in a figure that was chosen for it, a line each."""

    def rounded(values):
        return np.round(np.asarray(values, dtype=float), 4).tolist()

    yield f"{fig.get_size_inches().tolist()} {fig.get_suptitle()}"
    for ax in fig.axes:
        yield f"panel {ax.get_title()!r}: {ax.get_xlabel()!r}, {ax.get_ylabel()!r}, {ax.get_aspect()}"
        if not ax.get_autoscalex_on():
            yield f"limits {rounded([ax.get_xlim(), ax.get_ylim()])}"
        for lines in ax.collections:
            kind = type(lines).__name__
            places = lines.get_segments() if kind == "LineCollection" else lines.get_offsets()
            colours = lines.get_colors() if kind == "LineCollection" else lines.get_facecolors()
            yield f"{kind} {rounded(lines.get_linewidths())} {rounded(places)} {colours_of(colours)}"
            yield f"sizes {rounded(lines.get_sizes())}" if kind == "PathCollection" else ""
        for line in ax.lines:
            chosen = [line.get_linewidth(), line.get_alpha(), line.get_zorder()]
            yield f"line {rounded(line.get_xydata())} {rounded(chosen)} {line.get_color()}"
        for text in ax.texts:
            at = (*text.get_position(), *getattr(text, "xy", ()), text.get_fontsize(), text.get_zorder())
            box = rounded([text.get_bbox_patch().get_alpha()]) if text.get_bbox_patch() else ""
            chosen = f"{text.get_parse_math()} {text.get_clip_on()} {text.get_fontweight()}"
            yield f"text {text.get_text()!r} {rounded(at)} {chosen} {box}"
        for box in ax.patches:
            yield f"box {rounded(box.get_bbox().bounds)} {box.get_fill()} {colours_of([box.get_edgecolor()])}"
        for image in ax.images:
            scale = rounded([image.norm.vmin, image.norm.vmax])
            yield f"image {image.get_extent()} {scale} {image.get_array().round(4).tolist()}"
    for legend in (*fig.legends, *(ax.get_legend() for ax in fig.axes if ax.get_legend())):
        colours = colours_of(handle.get_color() for handle in legend.legend_handles)
        marks = [text.get_text() for text in legend.get_texts()]
        yield f"legend {legend.get_title().get_text()!r} {legend._ncols} {legend.get_frame_on()} {colours} {marks}"


@pytest.fixture
def figures(monkeypatch):
    """Figures, as they would be saved."""
    kept = []
    for module in (plots, demo):
        monkeypatch.setattr(module, "save_figure", lambda fig, path: kept.append(fig))
    return kept


def test_whole_pictures(figures, monkeypatch):
    # Two triangles and a single node: one edge between the triangles, weight 5.25 to the single node.
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (5, 6)]
    places = np.array([[0, 0], [1, 0], [0, 1], [3, 0], [3, 1], [4, 0.5], [9, 9]])
    names = ["ann", "bob", "x" * 30, "$d$", "e" * 18, "f", "g"]
    graph = Graph.from_edges(np.array(edges).T, edge_weight=[1.0] * 7 + [5.25], x=places, node_names=names)
    labels = np.array([0, 0, 0, 1, 1, 1, 4])  # two clusters are empty
    plot_clustering("a.png", graph, labels, title="people", position=(0, 1))
    plot_clustering("a.png", Graph.from_edges(np.zeros((2, 0), int), x=[[1.0, 2.0]]), np.zeros(1, int))
    # More clusters than can be followed: 22, of two nodes and of one, and weights of many sizes.
    first, second = np.triu_indices(41, 1)
    heavy = 1.0 + (first * second) % 97 * (first < 20)
    dense = Graph.from_edges([first, second], edge_weight=heavy, x=np.stack([np.arange(41)] * 2, 1))
    for labels in (np.minimum(np.arange(41) // 2, 21), np.arange(41) // 6, np.arange(41) // 7):
        figures.append(drawn(draw_groups, dense, labels).figure)
        figures[-1].legend(handles=cluster_marks(dense, labels))
    monkeypatch.setattr(plots, "_BINS", 7)  # a large matrix is counted in squares
    graph = grid_graph(10, 5)
    by_method = {"other": np.arange(50) % 2, "softcut (default)": np.arange(50) // 25}
    for few, nmi in ((300, 0.75), (49, None)):  # a large graph has more panels
        monkeypatch.setattr(plots, "FEW_NODES", few)
        monkeypatch.setattr(demo, "FEW_NODES", few)
        row = {"k": 2, "normalised_cut": 0.5, "nmi": nmi}
        demo.draw_methods("a.png", graph, by_method, [row] * 2)
    text = "\n".join(line for fig in figures for line in described(fig))
    check_kept(Path(__file__).parent / "kept" / "pictures.txt", text, atol=1e-3)


def test_many_nodes_have_no_edges():
    def one_edge(n):
        return drawn(draw_partition, Graph.from_edges([[0], [1]], num_nodes=n), np.zeros(n, int))

    few, more = one_edge(300), one_edge(301)
    assert [len(ax.collections) for ax in (few, more)] == [2, 1]  # edges, and dots
    assert [ax.get_aspect() for ax in (few, more)] == [1, "auto"]
    low, high = np.percentile(np.random.default_rng(0).random((301, 2)), [0.5, 99.5], axis=0)
    room = 0.05 * (high - low)
    np.testing.assert_allclose([more.get_xlim(), more.get_ylim()], np.transpose([low - room, high + room]))
    names = [len(drawn(draw_partition, grid_graph(1, n), np.zeros(n, int)).texts) for n in (40, 41)]
    assert names == [40, 1]  # beyond, the numbers of clusters
    for n, shown, size in ((400, 400, 15), (20_000, 20_000, 3), (20_001, 20_000, 3)):
        dots = one_edge(n).collections[0]
        assert (len(dots.get_offsets()), dots.get_sizes().tolist()) == (shown, [size])
    for n, low in ((400, 0.1), (401, (400 / 401) ** 2)):
        image = drawn(draw_adjacency, grid_graph(1, n), np.zeros(n, int)).images[0]
        assert image.get_array().shape == (400, 400) and image.norm.vmin == pytest.approx(low)


def test_axes_have_whole_numbers():
    ax = drawn(draw_adjacency, grid_graph(1, 3), np.array([0, 0, 1]))
    ax.figure.canvas.draw()
    for ticks in (ax.get_xticks(), ax.get_yticks()):
        assert (ticks == np.round(ticks)).all()


@pytest.mark.parametrize("nodes", [1, 2, 150, 400])
@pytest.mark.parametrize("features", [True, False])
def test_a_picture_of_any_graph(tmp_path, nodes, features):
    graph = attributed_communities(max(nodes, 3), 3, average_degree=2, seed=0).subgraph(np.arange(nodes))
    graph = graph if features else graph.with_features(None)
    path = plot_clustering(tmp_path / "a.png", graph, graph.y)
    with Image.open(path) as image:
        assert (image.format, image.size) == ("PNG", (2080, 702))  # 16 x 5.4 inches
    empty = Graph.from_edges(np.zeros((2, 0), dtype=int), num_nodes=nodes)
    assert plot_clustering(tmp_path / "b.pdf", empty, graph.y).read_bytes()[:4] == b"%PDF"


@pytest.mark.parametrize("names", [["$a_{", "$b$", "c$$"], ["日本", "б", "a\nb"]])
def test_names_are_drawn_as_they_are(tmp_path, names):
    graph = Graph.from_edges([[0, 1], [1, 2]], node_names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plot_clustering(tmp_path / "a.png", graph, np.array([0, 1, 1]), title=names[2]).exists()


# ----------------------------------------------------------------------------- where nodes stand


def test_small_graphs_stand_as_networkx_places_them():
    nx = pytest.importorskip("networkx", minversion="3.5")  # places nodes in other steps before
    karate = nx.karate_club_graph()
    layout = nx.spring_layout(karate, weight=None, seed=0, iterations=100)
    positions, _ = node_positions(Graph.from_networkx(karate))
    theirs = np.array([layout[node] for node in karate])
    theirs = np.sqrt(34) * (1 + theirs / np.abs(theirs).max())
    np.testing.assert_allclose(positions, theirs, atol=1e-6)


@pytest.mark.parametrize("nodes", [300, 1000])
@pytest.mark.parametrize("features", [True, False])
def test_neighbours_stand_near_each_other(nodes, features):
    graph = attributed_communities(nodes, 3, edge_signal=0.95, seed=0)
    graph = graph if features else graph.with_features(None)
    positions, what = node_positions(graph)
    np.testing.assert_array_equal(positions, node_positions(graph)[0])  # the same every time
    kind = "features" if features else "adjacency"
    assert ("layout" if nodes == 300 else kind) in what
    assert positions.shape == (nodes, 2)
    first, second = graph.edge_index()[0]
    near = np.linalg.norm(positions[first] - positions[second], axis=1).mean()
    others = positions[np.random.default_rng(0).permutation(nodes)]
    assert near < 0.75 * np.linalg.norm(positions - others, axis=1).mean()


@pytest.mark.parametrize("words", [3, 4, 6])
def test_few_words_have_two_directions_of_their_own(words):
    x = (np.random.default_rng(0).random((400, words)) < 0.3).astype(float)
    graph = grid_graph(20, 20).with_features(sp.csr_array(x))
    smooth = graph.adjacency.toarray() + np.eye(400)
    smooth /= smooth.sum(1, keepdims=True)
    rows = smooth @ smooth @ x
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(rows, full_matrices=False)
    last = min(3, words - 1)  # the first is close to the mean, where there is another
    wanted = (left * size)[:, last - 2 : last]
    np.testing.assert_allclose(np.abs(node_positions(graph)[0]), np.abs(wanted), atol=1e-6)


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


def test_labels_that_match_get_the_same_number():
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 5, 200)
    renamed = np.array([3, 9, 0, 7, 1])[reference]
    np.testing.assert_array_equal(demo.numbered_like(renamed, reference), reference)
    split = np.where(np.arange(200) < 150, renamed, 20)  # one more cluster than the reference
    again = demo.numbered_like(split, reference)
    assert len(np.unique(again)) == 6
    assert (again == reference)[:150].all()


def test_groups_show_sizes_and_cuts():
    # Two triangles and a single node, as in the whole pictures: areas and widths by their formulas.
    edges = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (5, 6)]
    graph = Graph.from_edges(np.array(edges).T, edge_weight=[1.0] * 7 + [5.0])
    ax = drawn(draw_groups, graph, np.array([0, 0, 0, 1, 1, 1, 4]))  # an empty cluster is not drawn
    sizes = ax.collections[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes.max(), [1, 1, 1 / 3])
    assert [text.get_text() for text in ax.texts] == ["1", "5", "0", "1", "4"]  # two cuts, three clusters
    drawn_as = [(line.get_linewidth(), line.get_alpha()) for line in ax.lines]
    np.testing.assert_allclose(drawn_as, [(0.4 + 7 / 5, 0.2 + 0.5 / 5), (7.4, 0.7)])
    between = 0.58 * np.array([0, 1]) + 0.42 * np.array([0.75**0.5, -0.5])  # discs clockwise, from the top
    np.testing.assert_allclose(ax.texts[0].get_position(), between, atol=1e-12)
    graph = attributed_communities(600, 20, edge_signal=0.1, seed=0)  # dense: only the largest cuts are drawn
    assert len(drawn(draw_groups, graph, graph.y).lines) <= 45


def test_the_matrix_is_sorted_by_cluster(monkeypatch):
    graph = Graph.from_edges([[0, 1, 0], [2, 3, 1]])  # 0-2 and 1-3 inside, 0-1 between
    ax = drawn(draw_adjacency, graph, np.array([0, 1, 0, 1]))
    image = ax.images[0].get_array().filled(0) > 0
    expected = np.zeros((4, 4), dtype=bool)  # rows in the order 0, 2, 1, 3
    for a, b in ((0, 1), (2, 3), (0, 2)):
        expected[a, b] = expected[b, a] = True
    assert (image == expected).all()
    assert [box.get_bbox().bounds for box in ax.patches] == [(0, 0, 2, 2), (2, 2, 2, 2)]
    monkeypatch.setattr(plots, "_BINS", 7)  # a large one is counted in squares
    graph = attributed_communities(100, 3, seed=0)
    ax = drawn(draw_adjacency, graph, graph.y)
    image = ax.images[0].get_array().filled(0)
    assert image.shape == (7, 7)
    np.testing.assert_allclose(image.sum() * (100 / 7) ** 2, graph.adjacency.nnz)
    monkeypatch.setattr(plots, "_BINS", 4)  # squares of one or two nodes: one that is full is black
    ax = drawn(draw_adjacency, Graph.from_edges([[0, 0, 1, 1], [3, 4, 3, 4]], num_nodes=6), np.zeros(6, int))
    assert ax.images[0].to_rgba(ax.images[0].get_array())[0, 2].tolist() == [0, 0, 0, 1]


def test_the_legend_names_sizes_and_cuts(figures):
    plot_clustering("unused.png", Graph.from_edges([[0, 1, 2], [1, 2, 3]]), np.array([0, 0, 0, 2]))
    plot_clustering("unused.png", grid_graph(5, 6), np.arange(30))
    said, long = ([text.get_text() for text in fig.legends[0].get_texts()] for fig in figures)
    assert said == ["0: 3 nodes, 20 % cut", "2: 1 node, 100 % cut"]
    colours = [mark.get_color() for mark in figures[0].legends[0].legend_handles]
    assert colours == cluster_colours(3)[::2]
    assert figures[0].axes[0].get_xlabel() == "layout: neighbours attract each other"
    assert long[19:] == ["19: 1 node, 100 % cut", "and 10 more; colours repeat"]
    labels = np.arange(60) // 30
    graph = grid_graph(6, 10).with_features(np.eye(2)[labels], feature_names=["$" + "h" * 40, "other"])
    first, _ = (mark.get_label() for mark in cluster_marks(graph, labels, summarise(graph, labels)))
    assert first.splitlines()[1] == r"\$" + "h" * 34 + "…"


@pytest.mark.parametrize("nodes", [300, 3000])
def test_a_single_edge_between_clusters_can_be_seen(nodes):
    # Dense inside one cluster, one edge to the other: its pixel must not be white.
    block = itertools.combinations(range(30), 2)
    graph = Graph.from_edges(np.array([*block, (0, nodes - 1)]).T, num_nodes=nodes)
    ax = drawn(draw_adjacency, graph, (np.arange(nodes) >= nodes // 2).astype(int))
    pixels = ax.images[0].to_rgba(ax.images[0].get_array())
    assert pixels[0, -1, 3] == 1 and (pixels[0, -1, :3] < 0.75).all()
    assert pixels[-1, -1, 3] == 0


@pytest.mark.parametrize(("nodes", "height"), [(60, 1), (400, 3)])
def test_every_method_has_a_legend_and_large_graphs_more_panels(figures, nodes, height):
    graph = attributed_communities(nodes, 2, seed=0)
    by_method = {"other": 1 - graph.y, "softcut (default)": graph.y}  # matched: the same numbers
    demo.draw_methods("a.png", graph, by_method, [{"k": 2, "normalised_cut": 0.5, "nmi": 1.0}] * 2)
    panels = figures[0].axes
    assert len(panels) == 2 * height
    assert [ax.get_title() for ax in panels[:2]] == [f"{m}\ncut 0.50, NMI 1.00" for m in by_method]
    sizes = np.bincount(graph.y)
    for ax in panels[-2:]:
        said = [text.get_text() for text in ax.get_legend().get_texts()]
        assert [text.split(",")[0] for text in said] == [f"{i}: {size} nodes" for i, size in enumerate(sizes)]


@pytest.mark.parametrize("nodes", [100, 400])
@pytest.mark.parametrize(
    "columns",
    [["age"], ["salary", "age"], ["salary", "age", "height"], ["lat", "age"], ["flag", "other flag"]],
)
def test_features_are_no_coordinates_and_nodes_stand_on_no_line(nodes, columns):
    rng = np.random.default_rng(0)
    x = rng.normal([41_000, 40, 1.7][: len(columns)], [9_000, 10, 0.1][: len(columns)], (nodes, len(columns)))
    x = rng.integers(2, size=x.shape) if "flag" in columns else x
    graph = attributed_communities(nodes, 3, seed=0).with_features(x, feature_names=columns)
    positions, what = node_positions(graph)
    assert positions.shape == (nodes, 2) and np.isfinite(positions).all()
    assert not what.startswith("coordinates")
    spread = np.linalg.svd(positions - positions.mean(0), compute_uv=False)
    assert spread[1] > 0.1 * spread[0], "on one line"


@pytest.mark.parametrize(
    ("names", "across", "up"),
    [
        (["x", "y"], "x", "y"),
        (["age", "Latitude", " LONGITUDE "], " LONGITUDE ", "Latitude"),
        (["pos_y", "pos_x", "salary"], "pos_x", "pos_y"),
        (["lat", "lng"], "lng", "lat"),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_columns_named_as_coordinates_are_the_places_of_nodes(names, across, up, sparse):
    x = np.random.default_rng(0).random((400, len(names))).astype(np.float32)
    graph = grid_graph(20, 20).with_features(sp.csr_array(x) if sparse else x, feature_names=names)
    positions, what = node_positions(graph)
    np.testing.assert_array_equal(positions, x[:, [names.index(across), names.index(up)]])
    assert what == f"coordinates: {across} and {up}"


def test_columns_that_are_asked_for_are_the_places_of_nodes():
    x = np.random.default_rng(0).random((9, 3)).astype(np.float32)
    grid = grid_graph(3, 3)
    graph = grid.with_features(x, feature_names=["x", "y", "0"])
    for asked, columns in ((["y", "x"], [1, 0]), (("0", 1), [2, 1]), (["0", "0"], [2, 2])):
        np.testing.assert_array_equal(node_positions(graph, asked)[0], x[:, columns])
    assert node_positions(grid.with_features(x), ["2", "0"])[1] == "coordinates: feature 2 and feature 0"
    for asked, said in (
        (["x", "z"], "got 'z'; there are 'x', 'y', '0'"),
        (["x"], "two columns"),
        ([0, 3], "got 3"),
    ):
        with pytest.raises(ParameterError, match=said):
            node_positions(graph, asked)
    with pytest.raises(ParameterError, match="there are 0, without titles"):
        node_positions(grid.with_features(None), [0, 1])


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
        plots.plot_clustering(tmp_path / "p.png", graph, np.array([-1] * 6))
    (part, shown), (_, all_of_it) = drawn_graphs
    assert part.num_nodes == 4
    assert shown.tolist() == [0, 0, 1, 1]
    assert all_of_it.tolist() == [0] * 6  # where none has a cluster, all are shown as one
