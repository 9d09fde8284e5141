"""Pictures of clusterings: the same colour for a cluster in every panel, no drawing of edges nobody can follow."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.clustering.feature_map import FeatureMap
from softcut.colours import PALETTE, colour_of
from softcut.errors import Argument, ParameterError, require
from softcut.files import atomic_write
from softcut.graph import Graph
from softcut.imports import importing
from softcut.metrics.summary import Summary
from softcut.tables.arrays import listed, to_dense
from softcut.tables.display_text import percent, readable, shortened
from softcut.tables.kinds import WORD

FEW_NODES = 300  # up to here the edges of a drawing can be followed by eye
_LINES = 7  # colours of the palette that can be seen as thin lines on white and on black
_NAMED_NODES = 40  # names are written beside nodes up to here
_DOTS = 20_000  # a scatter of more is one blot
_DPI = 130  # of pictures
_DISCS = 30  # clusters of the drawing of clusters
_NUMBERED = 30  # clusters whose numbers are written among the nodes
_TRAIT = 36  # characters of what sets a cluster apart
_BINS = 400  # rows and columns of the image of the adjacency matrix
# Titles of the two columns, across and up, that say where a node is.
_COORDINATES = (("x", "y"), ("lon", "lat"), ("lng", "lat"), ("longitude", "latitude"), ("pos_x", "pos_y"))


def line_styles(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """A colour and a dash pattern per line, by name: Okabe and Ito's seven colours, then the same with dashes."""
    dashes = ("none", "7 3", "2 3")
    return {
        name: {"colour": PALETTE[i % _LINES], "dash": dashes[i // _LINES % len(dashes)]}
        for i, name in enumerate(names)
    }


def figure(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """``matplotlib.pyplot.subplots`` without a window."""
    with importing():
        canvas = require("matplotlib.backends.backend_agg", "report", "a picture").FigureCanvasAgg
        from matplotlib.figure import Figure

    class Shown(Figure):
        """A figure that notebooks show without pyplot."""

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png", dpi=_DPI)
            return file.getvalue()

    fig = Shown(figsize=kwargs.pop("figsize", None), layout="constrained")
    canvas(fig)
    return fig, fig.subplots(*args, **kwargs)


def save_figure(fig: Any, path: str | Path, dpi: int = _DPI) -> Path:
    """Write a figure as PNG (or what the ending says), never half of one."""
    path = Path(path)
    kind = path.suffix.lstrip(".") or "png"
    with warnings.catch_warnings():
        # A letter that the font does not have is drawn as a box; a warning would add nothing.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        return atomic_write(path, lambda file: fig.savefig(file, format=kind, dpi=dpi))


def plot_clustering(
    path: str | Path,
    graph: Graph,
    labels: np.ndarray,
    title: str = "Clusters",
    position: Sequence[str | int] | None = None,
    summary: Summary | None = None,
) -> Path:
    """Write :func:`clustering_figure`."""
    return save_figure(clustering_figure(graph, labels, title, position, summary), path)


def clustering_figure(
    graph: Graph,
    labels: np.ndarray,
    title: str = "Clusters",
    position: Sequence[str | int] | None = None,
    summary: Summary | None = None,
) -> Any:
    """Three panels: the nodes, the clusters with the cuts between them, and the sorted adjacency matrix.

    `position` is that of :func:`coordinate_columns`. With a `summary`, the legend says what sets each cluster apart
    most. Nodes without a cluster (label -1) are not drawn.
    """
    labels = np.asarray(labels)
    placed, every = labels >= 0, graph.num_nodes
    if not placed.all():
        graph, labels = (graph.subgraph(placed), labels[placed]) if placed.any() else (graph, labels + 1)
    positions, positions_are = node_positions(graph, position)
    used = len(np.unique(labels))
    fig, (nodes, groups, matrix) = figure(1, 3, figsize=(16, 5.4))
    noun = "cluster" if used == 1 else "clusters"
    heading = f"{title}: {every:,} nodes, {graph.num_edges:,} edges, {used} {noun}"
    if not placed.all():
        heading += f", {np.count_nonzero(~placed):,} nodes in no cluster"
    fig.suptitle(heading, parse_math=False)  # a $ in a name is a $, not the start of a formula
    draw_partition(nodes, graph, labels, positions, "Nodes")
    nodes.set_xlabel(positions_are, parse_math=False)
    draw_groups(groups, graph, labels, "Clusters and the cuts between them")
    draw_adjacency(matrix, graph, labels, "Adjacency matrix, sorted by cluster")
    fig.legend(
        handles=cluster_marks(graph, labels, summary),
        loc="outside right upper",
        title="Cluster: size,\nshare of its edges that leave"
        + (
            ",\nwhat sets it apart (elsewhere)" if summary and any(c.traits for c in summary.clusters) else ""
        ),
        frameon=False,
    )
    return fig


def draw_partition(ax: Any, graph: Graph, labels: np.ndarray, positions: np.ndarray, title: str) -> None:
    """Nodes coloured by cluster; edges up to 300 nodes, names up to 40."""
    from matplotlib.collections import LineCollection

    labels = np.asarray(labels)
    n, colours = graph.num_nodes, np.array([colour_of(c) for c in labels])
    if n <= FEW_NODES:
        upper = sp.coo_array(sp.triu(graph.adjacency, k=1))
        segments = positions[np.stack([upper.row, upper.col], axis=1)]
        inside = labels[upper.row] == labels[upper.col]
        # Edges inside a cluster have its colour; the more edges, the fainter.
        faint = float(np.clip(200 / max(1, upper.nnz), 0.25, 0.8))
        lines = np.where(inside, colours[upper.row], "#999999")
        ax.add_collection(LineCollection(segments, colors=lines, linewidths=0.8, alpha=faint, zorder=1))
    # Drawn in a mixed order, so that no cluster covers the others only because its number is high.
    shown = np.random.default_rng(0).permutation(n)[:_DOTS]
    size = float(np.clip(6000 / max(1, n), 3, 60))
    ax.scatter(*positions[shown].T, c=colours[shown], s=size, linewidths=0, zorder=2)
    if n <= _NAMED_NODES:
        names = graph.node_names or [str(i) for i in range(n)]
        style = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": 7, "parse_math": False}
        for name, place in zip(names, positions, strict=True):
            ax.annotate(shortened(name, 18), place, zorder=3, **style)
    else:
        groups, sizes = np.unique(labels, return_counts=True)
        for c in groups[np.argsort(-sizes, kind="stable")[:_NUMBERED]]:
            _number(ax, c, np.median(positions[labels == c], axis=0))
    ax.set_title(title)
    if n <= FEW_NODES:
        ax.set_aspect("equal", adjustable="datalim")
    else:  # a few far nodes must not squeeze all others
        low, high = frame(positions)
        ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    ax.set(xticks=[], yticks=[])


def draw_groups(ax: Any, graph: Graph, labels: np.ndarray, title: str) -> None:
    """The graph of clusters: a disc per cluster with its size as area, a line per cut with its weight as width."""
    groups, sizes, flow, _ = cluster_flow(graph, labels, _DISCS)
    used, every = len(groups), len(np.unique(labels))
    angle = np.pi / 2 - 2 * np.pi * np.arange(used) / used
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1) if used > 1 else np.zeros((1, 2))
    cut = np.triu(flow, 1)
    widest = float(cut.max(initial=0.0))
    # Where there are many clusters only the largest cuts are drawn: two lines per cluster can still be followed.
    most = np.sort(cut, axis=None)[-min(cut.size, max(2 * used, 15))]
    width = 7 * min(1.0, 8 / used)
    paper = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    lines = np.argwhere((cut > 0) & (cut >= most))
    if used < every:  # many may be equally large
        lines = lines[np.argsort(-cut[tuple(lines.T)], kind="stable")[: 2 * used]]
    for a, b in lines:
        share = cut[a, b] / widest
        ax.plot(*places[[a, b]].T, color="#666666", lw=0.4 + width * share, alpha=0.2 + 0.5 * share, zorder=1)
        if used <= 6:
            middle = places[a] + 0.42 * (places[b] - places[a])  # off the middle, where lines cross
            ax.text(*middle, _amount(cut[a, b]), ha="center", va="center", fontsize=8, zorder=3, bbox=paper)
    inches = ax.get_window_extent().width / ax.get_figure().dpi
    # In points; leaves room for neighbours on the circle.
    largest = min(70.0, 480 / used) * min(1.0, inches / 4)
    ax.scatter(
        *places.T, s=largest**2 * sizes / sizes.max(), c=[*map(colour_of, groups)], linewidths=0, zorder=2
    )
    for group, place in zip(groups, places, strict=True):
        _number(ax, group, place)
    ax.set_title(title if used == every else f"The {used} largest of {every:,} clusters, their cuts")
    if used > 1:
        said = f"widest line: edges of weight {_amount(widest)}"
        ax.set_xlabel(said if widest else "no edges between clusters")
    ax.set_aspect("equal")
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), xticks=[], yticks=[])


def draw_adjacency(ax: Any, graph: Graph, labels: np.ndarray, title: str) -> None:
    """The adjacency matrix with nodes sorted by cluster: edges inside clusters form squares on the diagonal."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import MaxNLocator

    labels = np.asarray(labels)
    n = graph.num_nodes
    place = np.argsort(np.argsort(labels, kind="stable"))  # of each node, in the order of the clusters
    bins = min(n, _BINS)
    edges = sp.coo_array(graph.adjacency)
    rows, columns = place[edges.row] * bins // n, place[edges.col] * bins // n
    # Share of the node pairs in each square of the image that are connected.
    count = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(bins, bins)).toarray()
    density = count / (n / bins) ** 2
    seen = density[density > 0]
    # Where every pixel is one pair of nodes all edges are equally dark: the upper end of the scale.
    low = seen.min(initial=1.0) if bins < n else 0.1
    norm = LogNorm(low, max(seen.max(initial=0.0), 1.001 * low))
    # From a grey that can be seen on white, or single edges would vanish, to black.
    greys = LinearSegmentedColormap.from_list("edges", ["#b5b5b5", "#000000"])
    seen_only = np.ma.masked_equal(density, 0)
    ax.imshow(seen_only, cmap=greys, norm=norm, extent=(0, n, n, 0), interpolation="nearest")
    start = 0
    groups, sizes = np.unique(labels, return_counts=True)
    for colour, size in zip(map(colour_of, groups), sizes, strict=True):
        if size * _BINS >= n:  # smaller ones would be smaller than a point
            box = Rectangle((start, start), size, size, fill=False, edgecolor=colour, linewidth=1.6)
            ax.add_patch(box)
        start += size
    ax.set(title=title, xlabel="nodes", ylabel="nodes")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
        axis.set_major_formatter(lambda value, _: f"{int(value):,}")


def cluster_marks(graph: Graph, labels: np.ndarray, summary: Summary | None = None) -> list[Any]:
    """Entries of a legend: number, size and cut of every cluster, in its colour, and what sets it apart most."""
    from matplotlib.lines import Line2D

    groups, sizes, _, leaving = cluster_flow(graph, labels, len(PALETTE))
    traits = {c.cluster: c.traits[0].text("") for c in (summary.clusters if summary else ()) if c.traits}
    marks = []
    each = list(zip(groups, sizes, leaving, map(colour_of, groups), strict=True))
    for group, size, share, colour in each:
        text = f"{group}: {size:,} {'node' if size == 1 else 'nodes'}, {percent(share)} cut"
        if group in traits:
            text += "\n" + shortened(traits[group], _TRAIT).replace("$", r"\$")  # not the start of a formula
        marks.append(Line2D([], [], color=colour, marker="o", linestyle="", label=text))
    more = len(np.unique(labels)) - len(marks)
    if more > 0:
        said = f"and {more:,} more; colours repeat"
        marks.append(Line2D([], [], linestyle="", label=said))
    return marks


def cluster_flow(
    graph: Graph, labels: np.ndarray, most: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The used clusters, their sizes, the weight of the edges between each two, the share of each that leaves it.

    With `most` only the largest ones, that many.
    """
    groups, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    n = len(codes)
    member = sp.csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, len(groups)))
    flow = sp.csr_array(member.T @ graph.adjacency @ member, dtype=float)
    total = np.asarray(flow.sum(axis=1)).ravel()
    leaving = np.divide(total - flow.diagonal(), total, out=np.zeros_like(total), where=total > 0)
    if most is not None and most < len(groups):
        kept = np.sort(np.argsort(-sizes, kind="stable")[:most])
        groups, sizes, flow, leaving = groups[kept], sizes[kept], flow[kept][:, kept], leaving[kept]
    return groups, sizes, np.asarray(flow.toarray()), leaving


def _number(ax: Any, number: int, place: np.ndarray) -> None:
    """The number of a cluster, readable on any colour."""
    from matplotlib import patheffects

    style = {"ha": "center", "va": "center", "weight": "bold", "zorder": 4, "clip_on": True}
    outline = [patheffects.withStroke(linewidth=3, foreground="white")]
    ax.text(*place, str(number), path_effects=outline, **style)


def _amount(value: float) -> str:
    """A weight as people write it."""
    return f"{value:,.0f}" if value == round(value) or value >= 100 else readable(value)


# ---------------------------------------------------------------------------- where nodes stand


def coordinate_columns(graph: Graph, position: Sequence[str | int] | None = None) -> list[int] | None:
    """The two feature columns that say where nodes are, across and up; None where there are none.

    They are those of `position`, two titles or numbers from 0, or columns with the titles of coordinates: x and y, lon
    (or lng) and lat, longitude and latitude, pos_x and pos_y, in any case. Other columns are never taken for a place.

    >>> graph = Graph.from_edges([[0], [1]], x=[[60.2, 24.9], [59.3, 18.1]], feature_names=["Lat", "Lon"])
    >>> coordinate_columns(graph), coordinate_columns(graph, ["Lat", 1])
    ([1, 0], [0, 1])
    """
    names = graph.feature_names or []
    if position is None:
        place = {name.strip().lower(): j for j, name in enumerate(names)}
        known = (pair for pair in _COORDINATES if all(name in place for name in pair))
        return next(([place[across], place[up]] for across, up in known), None)
    if len(position) != 2:
        raise ParameterError(
            Argument("position"), f" must name two columns of the features, got {len(position)}."
        )
    columns = []
    for given in position:
        number = int(given) if str(given).isdecimal() else -1
        if given not in names and not 0 <= number < graph.num_features:
            has = f"there are {listed(names)}" if names else f"there are {graph.num_features}, without titles"
            raise ParameterError(
                Argument("position"), f" must name columns of the features, got {given!r}; {has}."
            )
        columns.append(names.index(str(given)) if given in names else number)
    return columns


def node_positions(graph: Graph, position: Sequence[str | int] | None = None) -> tuple[np.ndarray, str]:
    """Two coordinates per node, and what they are.

    Coordinates are those of :func:`coordinate_columns`. Without any, a graph of up to 300 nodes gets a layout in which
    neighbours attract each other, and a larger one the leading directions of its features, averaged over neighbours
    (of its adjacency matrix, where it has none).
    """
    columns = coordinate_columns(graph, position)
    if columns is not None and graph.x is not None:
        names = graph.feature_names or [f"feature {j}" for j in range(graph.num_features)]
        titles = " and ".join(shortened(names[j], 30) for j in columns)
        return to_dense(graph.x[:, columns]).astype(float), f"coordinates: {titles}"
    if graph.num_nodes <= FEW_NODES:
        return _spring(graph), "layout: neighbours attract each other"
    walk = _smooth(graph)
    what = "leading directions of the features around each node"
    if graph.x is not None and not (graph.kinds == WORD).all():
        scaled = FeatureMap.fit(graph.x, kinds=graph.kinds, adjacency=graph.adjacency).transform(graph.x)
        if scaled.shape[1] >= 2:
            from sklearn.decomposition import PCA

            return PCA(2, random_state=0).fit_transform(walk @ (walk @ scaled.astype(float))), what
    elif graph.x is not None and graph.num_features > 2:  # fewer words would put all nodes on one line
        return _directions(walk @ (walk @ sp.csr_array(graph.x))), what
    return _directions(walk), "leading directions of the adjacency matrix"


def _spring(graph: Graph) -> np.ndarray:
    from scipy.sparse.csgraph import connected_components

    linked = (graph.adjacency != 0).toarray().astype(float)
    np.fill_diagonal(linked, 0)
    # Parts that are not connected would drift away for ever: each gets a layout and a place of its own.
    parts = connected_components(graph.adjacency, directed=False)[1]
    places = np.zeros((graph.num_nodes, 2))
    corner = np.zeros(2)
    row_height, width = 0.0, 2.2 * np.sqrt(graph.num_nodes)
    for part in np.argsort(-np.bincount(parts), kind="stable"):
        nodes = np.flatnonzero(parts == part)
        radius = np.sqrt(len(nodes))
        place = _forces(linked[np.ix_(nodes, nodes)])
        place -= place.mean(axis=0)
        place *= radius / max(np.abs(place).max(), 1e-9) if len(nodes) > 1 else 0.0
        if corner[0] > 0 and corner[0] + 2 * radius > width:
            corner = np.array([0.0, corner[1] + row_height + 1])
            row_height = 0.0
        places[nodes] = place + corner + radius
        corner[0] += 2 * radius + 1
        row_height = max(row_height, 2 * radius)
    return places


def _forces(linked: np.ndarray, iterations: int = 100) -> np.ndarray:
    """Places of nodes by Fruchterman and Reingold's forces, as networkx (slow to import) has them to the last bit."""
    n = len(linked)
    places = np.random.RandomState(0).rand(n, 2)
    apart = np.sqrt(1 / n)
    longest = 0.1 * np.ptp(places, axis=0).max()  # step of a node, shorter after every iteration
    shorter = longest / (iterations + 1)
    for _ in range(iterations):
        between = places[:, None] - places[None]
        distance = np.linalg.norm(between, axis=-1).clip(0.01)
        pull = apart * apart / distance**2 - linked * distance / apart
        force = np.einsum("ijk,ij->ik", between, pull)
        step = force * (longest / np.linalg.norm(force, axis=-1).clip(0.01))[:, None]
        places += step
        longest -= shorter
        if np.linalg.norm(step) / n < 1e-4:
            break
    return places


def frame(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two corners between which nearly all nodes stand: a few far ones must not squeeze all others."""
    low, high = np.percentile(positions, [0.5, 99.5], axis=0)
    room = 0.05 * (high - low) + 1e-9
    return low - room, high + room


def _smooth(graph: Graph) -> sp.csr_array:
    """D^-1 (A + I): the mean over a node and its neighbours."""
    adjacency = sp.csr_array(graph.adjacency, dtype=float) + sp.eye_array(graph.num_nodes, format="csr")
    return sp.csr_array(sp.diags_array(1 / adjacency.sum(axis=1)) @ adjacency)


def _directions(matrix: Any) -> np.ndarray:
    """The second and third singular directions: the first one is close to the mean and shows nothing."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    wanted = min(3, matrix.shape[1] - 1)
    return TruncatedSVD(wanted, random_state=0).fit_transform(normalize(matrix))[:, -2:]
