"""Pictures: titles, labelled axes, colours that colour-blind readers can tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.files import atomic_write
from softcut.graph import Graph

__all__ = ["cluster_colours", "draw_partition", "figure", "node_positions", "plot_clustering", "save_figure"]

# Okabe and Ito's palette, then Paul Tol's muted one.
_PALETTE = [
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"),
    *(
        "#332288",
        "#88CCEE",
        "#44AA99",
        "#117733",
        "#999933",
        "#DDCC77",
        "#CC6677",
        "#882255",
        "#AA4499",
        "#999999",
    ),
]


def cluster_colours(k: int) -> list[str]:
    """One colour a cluster; they repeat after 18.

    >>> len(set(cluster_colours(8)))
    8
    """
    return [_PALETTE[i % len(_PALETTE)] for i in range(k)]


def figure(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """``matplotlib.pyplot.subplots`` without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = kwargs.pop("figsize", None)
    fig = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(fig)
    return fig, fig.subplots(*args, **kwargs)


def save_figure(fig: Any, path: str | Path, dpi: int = 130) -> Path:
    """Write a figure as PNG (or what the ending says), never half of one."""
    path = Path(path)
    kind = path.suffix.lstrip(".") or "png"
    return atomic_write(path, lambda file: fig.savefig(file, format=kind, dpi=dpi))


def node_positions(graph: Graph, random_state: int = 0) -> tuple[np.ndarray, str]:
    """Two coordinates a node, and what they are: given ones, or a layout that pulls neighbours together.

    >>> from softcut.datasets import grid_graph
    >>> positions, what = node_positions(grid_graph(3, 3))
    >>> positions.shape, what
    ((9, 2), 'coordinates')
    """
    if graph.x is not None and graph.num_features == 2:
        x: Any = graph.x
        return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=float), "coordinates"
    start = _two_directions(graph, random_state)
    if graph.num_nodes > 20_000:
        return start, "two leading directions"
    return _pull_together(graph, start, random_state), "layout by neighbours"


def _two_directions(graph: Graph, random_state: int) -> np.ndarray:
    """The two leading directions of the propagated features (or of the slow modes of the graph)."""
    import torch

    from softcut.clustering.encoder import Encoder
    from softcut.clustering.features import structural_features

    if graph.num_features == 0:
        graph = graph.with_features(structural_features(graph, random_state=random_state))
    z = Encoder.fit(graph, hops=2)[1].rows
    z = z.flatten(1)
    _, vectors = torch.linalg.eigh(z.mT @ z)
    flat = (z @ vectors[:, -2:]).numpy()
    flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
    return flat / max(1e-9, float(flat.std()))


def _pull_together(graph: Graph, start: np.ndarray, random_state: int, epochs: int = 200) -> np.ndarray:
    """Neighbours attract, random pairs repel, with shrinking steps (the forces of UMAP)."""
    rng = np.random.default_rng(random_state)
    n = graph.num_nodes
    edges = sp.coo_array(graph.adjacency)
    degree = np.maximum(1, np.diff(graph.adjacency.indptr))[:, None]
    position = 5 * start + rng.normal(scale=0.1, size=start.shape)
    for epoch in range(epochs):
        step = 1 - epoch / epochs
        away = position[edges.row] - position[edges.col]
        pull = -2 * away / (1 + (away**2).sum(1, keepdims=True))
        force = np.stack([np.bincount(edges.row, pull[:, c], minlength=n) for c in (0, 1)], axis=1) / degree
        for _ in range(3):
            other = position - position[rng.permutation(n)]
            distance = (other**2).sum(1, keepdims=True)
            force += np.clip(other / ((0.01 + distance) * (1 + distance)), -2, 2)
        position += step * (force - 0.02 * position)  # a weak pull to the middle holds loose nodes
    low, high = np.percentile(position, [0.5, 99.5], axis=0)
    return np.clip(position, low, high)


def draw_partition(ax: Any, graph: Graph, labels: np.ndarray, positions: np.ndarray, title: str) -> None:
    """Nodes coloured by cluster, edges in grey."""
    from matplotlib.collections import LineCollection

    k = int(labels.max(initial=0)) + 1
    if graph.num_edges <= 20_000:
        upper = sp.coo_array(sp.triu(graph.adjacency, k=1))
        segments = positions[np.stack([upper.row, upper.col], axis=1)]
        ax.add_collection(LineCollection(segments, colors="#bbbbbb", linewidths=0.4, zorder=1))
    size = float(np.clip(4000 / max(1, graph.num_nodes), 2, 40))
    colours = np.array(cluster_colours(k))
    ax.scatter(positions[:, 0], positions[:, 1], c=colours[labels], s=size, linewidths=0, zorder=2)
    ax.set_title(title)
    ax.set_aspect("equal", adjustable="datalim")
    ax.set_xticks([])
    ax.set_yticks([])


def plot_clustering(
    path: str | Path,
    graph: Graph,
    labels: np.ndarray,
    title: str = "Clusters",
    positions: np.ndarray | None = None,
    positions_are: str = "",
) -> Path:
    """Three panels: the nodes, the sizes of the clusters, and the share of edges between clusters.

    Parameters
    ----------
    path : path
        Where the picture goes.
    graph, labels
        What to draw.
    positions : array [N, 2], optional
        Where nodes stand; made by :func:`node_positions` otherwise.
    """
    if positions is None:
        positions, positions_are = node_positions(graph)
    k = int(labels.max(initial=0)) + 1
    colours = cluster_colours(k)
    fig, (nodes, sizes, mixing) = figure(1, 3, figsize=(14, 4.6), width_ratios=[1.3, 1, 1])
    draw_partition(nodes, graph, labels, positions, title)
    nodes.set_xlabel(positions_are)

    counts = np.bincount(labels, minlength=k)
    sizes.bar(np.arange(k), counts, color=colours)
    sizes.set(
        title="Nodes in each cluster",
        xlabel="cluster",
        ylabel="nodes",
        xticks=np.arange(k)[:: max(1, k // 12)],
    )

    member = sp.csr_array((np.ones(len(labels)), (np.arange(len(labels)), labels)), shape=(len(labels), k))
    flow = (member.T @ graph.adjacency @ member).toarray()
    share = flow / np.maximum(flow.sum(axis=1, keepdims=True), 1e-300)
    image = mixing.imshow(share, cmap="cividis", vmin=0, vmax=1)
    mixing.set(title="Where each cluster's edges go", xlabel="to cluster", ylabel="from cluster")
    fig.colorbar(image, ax=mixing, label="share of edge weight")
    return save_figure(fig, path)
