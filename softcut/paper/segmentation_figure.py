"""The figure of E2: a picture, its regions and their graph, and four segments by several methods.

The paper's panels (recursive normalised cut, DiffPool, MinCutPool with its settings), and beside them the default
estimator and what :func:`softcut.segment_image` does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError

from softcut.baselines import diffpool_replicas
from softcut.clustering import GraphClustering
from softcut.colours import cluster_colours
from softcut.datasets.fetching import find_folder, search_roots
from softcut.errors import DataError, ParameterError, require
from softcut.files import atomic_json, atomic_write
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.paper.runs import Tell, quiet
from softcut.provenance import origin
from softcut.report.plots import figure, save_figure
from softcut.segment import RegionGraph, as_rgb, mincut_regions, over_segment, read_image, region_graph
from softcut.training import DenseInput, ReplicaNet, TrainSettings, replica_losses, replica_seeds, train

K = 4
# The paper's picture, and photographs that come with scikit-image.
PICTURES = ("horse", "astronaut", "chelsea", "coffee", "rocket")
PAPER_PICTURE = "horse2.jpeg"
_THRESHOLD = 2e-4
_ITERATIONS = 4000
_SEEDS = 4
RECURSIVE_CUTS = 20  # tries of each cut, as in the paper
_CUT_SEEDS = 5  # of a cut whose eigenvectors were not found


@dataclass(frozen=True)
class OverSegmented:
    """An image, its regions (the paper's over-segmentation), and the graphs that methods read."""

    image: NDArray[np.uint8]

    @cached_property
    def regions(self) -> NDArray[np.int64]:
        """Region of every pixel."""
        return over_segment(as_rgb(self.image))

    @property
    def count(self) -> int:
        """How many regions there are."""
        return int(self.regions.max()) + 1

    @cached_property
    def described(self) -> RegionGraph:
        """Regions joined by how alike their colour and texture are, with colour as features."""
        return region_graph(as_rgb(self.image), self.regions)

    @property
    def graph(self) -> Graph:
        """The graph of :attr:`described`."""
        return self.described.graph

    @cached_property
    def adjacency(self) -> nx.Graph:
        """scikit-image's region adjacency graph with the similarity of mean colours, as in the paper."""
        graphs = require("skimage.graph", "images", "Segmenting images")
        return graphs.rag_mean_color(self.image, self.regions, mode="similarity")

    @cached_property
    def similarity(self) -> Graph:
        """The same as a graph whose features are the paper's: mean and total colour."""
        order = range(self.count)
        matrix = nx.to_scipy_sparse_array(self.adjacency, nodelist=order, weight="weight", format="csr")
        x = region_graph(as_rgb(self.image), self.regions, features=("paper",), weights="adjacency").graph.x
        return Graph.from_scipy(sp.csr_array(matrix), x=x, self_loops="drop")


def paper_mincut(
    graph: Graph,
    k: int,
    seeds: Sequence[int],
    *,
    max_iter: int = 40_000,
    learning_rate: float = 1e-3,
    device: torch.device | str = "cpu",
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The paper's MinCutPool on a region graph: one softmax layer on the features, A not normalised.

    Returns labels [R, N] and the losses L_c + L_o at the end, [R].
    """
    op = CSR.from_graph(graph, device=device)
    inputs = DenseInput(torch.as_tensor(np.asarray(graph.x), dtype=torch.float32, device=device))
    net = ReplicaNet(inputs.in_channels, k, seeds, hidden=0, terms=1).to(device)
    settings = TrainSettings(iterations=max_iter, lr=learning_rate, tolerance=1e-6, patience=1000)
    result = train(net, inputs, op, settings, loss=partial(replica_losses, objective="mincut"))
    if result.interrupted:
        raise KeyboardInterrupt
    return net.assign(inputs).argmax(-1).T.cpu().numpy(), result.cut[-1] + result.ortho[-1]


def recursive_cut(image: OverSegmented, threshold: float) -> NDArray[np.int64]:
    """scikit-image's recursive normalised cut: cuts while one costs less than the threshold."""
    graphs = require("skimage.graph", "images", "Segmenting images")
    order, options = np.arange(image.count), {"num_cuts": RECURSIVE_CUTS, "in_place": False}
    seed = 0
    while True:
        try:
            return np.asarray(
                graphs.cut_normalized(order, image.adjacency, thresh=threshold, rng=seed, **options)
            )
        except ArpackError:  # eigenvectors are looked for from a random start, and rarely not found
            seed += 1
            if seed == _CUT_SEEDS:
                raise


def panels(
    image: NDArray[np.uint8], max_iter: int = _ITERATIONS
) -> tuple[OverSegmented, dict[str, NDArray[np.int64]]]:
    """Segments of every region by each method."""
    parts = OverSegmented(image)
    if parts.count <= K:
        raise ParameterError(
            f"image has only {parts.count} regions; the figure needs more than {K}.", argument="image"
        )
    seeds = replica_seeds(0, _SEEDS)
    paper = parts.similarity
    labels, loss = paper_mincut(paper, K, seeds, max_iter=max_iter, learning_rate=1e-2)
    options: dict[str, Any] = {"x": np.asarray(paper.x), "max_iter": max_iter, "learning_rate": 1e-3}
    s, _, result = diffpool_replicas(paper, K, seeds, **options)
    best = int((result.cut[-1] + result.ortho[-1]).argmin())
    return parts, {
        "Recursive normalised cut": recursive_cut(parts, _THRESHOLD),
        "DiffPool": s[:, best].argmax(-1).cpu().numpy(),
        "MinCutPool, as in the paper": labels[int(loss.argmin())],
        "Default estimator": GraphClustering(K, random_state=0, device="cpu").fit_predict(parts.graph),
        "segment_image": mincut_regions(parts.graph, K, area=parts.described.area),
    }


def draw(
    out: str | Path,
    pictures: Sequence[str] = PICTURES,
    *,
    data: str | Path | None = None,
    tell: Tell = quiet,
    max_iter: int = _ITERATIONS,
) -> list[Path]:
    """One figure per picture, ``segmentation_<picture>.png``, and ``segmentation_figure.json``."""
    out = Path(out)
    written, rows = [], []
    for name in pictures:
        tell(f"figure: {name}")
        try:
            image = picture(name, data)
        except DataError as error:
            tell(str(error))
            continue
        parts, by_method = panels(image, max_iter)
        written.append(_draw(out / f"segmentation_{name}.png", parts, by_method))
        for method, labels in by_method.items():
            segments = len(np.unique(labels))
            rows.append({"picture": name, "method": method, "regions": parts.count, "segments": segments})
    told = origin()
    atomic_json(out / "segmentation_figure.json", [{**row, **told} for row in rows])
    return written


def picture(name: str, data: str | os.PathLike[str] | None = None) -> NDArray[np.uint8]:
    """A picture by name: the paper's, or one of scikit-image's."""
    if name not in PICTURES:
        raise ParameterError(
            f"pictures must be among {', '.join(PICTURES)}, got {name!r}.", argument="pictures"
        )
    if name != "horse":
        return np.asarray(getattr(require("skimage.data", "images", "Segmenting images"), name)())
    folder = find_folder(search_roots(data), ["images"], [PAPER_PICTURE])
    if folder is None:
        raise DataError(
            "The paper's picture is not on this computer: set SOFTCUT_DATA to a folder that holds "
            f"images/{PAPER_PICTURE}."
        )
    return read_image(folder / PAPER_PICTURE)


def _draw(path: Path, parts: OverSegmented, by_method: dict[str, NDArray[np.int64]]) -> Path:
    from matplotlib.colors import to_rgb

    height, width = parts.image.shape[:2]
    fig, axes = figure(2, 4, figsize=(14, 7 * height / width + 0.9))
    shown = list(axes.ravel())
    shown[0].imshow(parts.image)
    shown[0].set_title("Original")
    shown[1].imshow(_with_borders(parts.image, parts.regions))
    shown[1].set_title(f"Over-segmentation: {parts.count} regions")
    _draw_graph(shown[2], parts)
    for ax, (title, labels) in zip(shown[3:], by_method.items(), strict=True):
        numbers = np.unique(labels, return_inverse=True)[1][parts.regions]
        count = int(numbers.max()) + 1
        painted = np.array([to_rgb(colour) for colour in cluster_colours(count)])[numbers] * 255
        ax.imshow(_with_borders((0.35 * parts.image + 0.65 * painted).astype(np.uint8), numbers))
        ax.set_title(f"{title}: {count} segment{'s' * (count != 1)}")
    for ax in shown:
        ax.set(xticks=[], yticks=[])
    save_figure(fig, path)
    # 160 colours are enough for photographs of this size, and a fourth of the bytes.
    images = require("PIL.Image", "images", "Segmenting images")
    with images.open(path) as drawn:
        small = drawn.convert("RGB").quantize(160)
    return atomic_write(path, lambda file: small.save(file, format="PNG", optimize=True))


def _with_borders(image: NDArray[np.uint8], labels: NDArray[np.int64]) -> NDArray[np.uint8]:
    segments = require("skimage.segmentation", "images", "Segmenting images")
    drawn = image.copy()
    drawn[segments.find_boundaries(labels, mode="inner")] = 255
    return drawn


def _draw_graph(ax: Any, parts: OverSegmented) -> None:
    """The region graph over the pale image: nodes in the colour of their region, edges by their weight."""
    from matplotlib.collections import LineCollection

    described = parts.described
    places = described.position * max(parts.image.shape[:2])
    ax.imshow(255 - (255 - parts.image) // 4)
    edges = sp.coo_array(described.graph.adjacency)
    upper = edges.row < edges.col
    ends = np.stack([edges.row[upper], edges.col[upper]], axis=1)
    strength = np.log1p(edges.data[upper])
    widths = 0.2 + 1.8 * strength / max(float(strength.max()), 1e-12)
    ax.add_collection(LineCollection(places[ends], colors="#444444", linewidths=widths, alpha=0.7, zorder=1))
    colours = np.clip(described.rgb, 0, 1)
    ax.scatter(*places.T, s=14, c=colours, edgecolors="black", linewidths=0.4, zorder=2)
    ax.set_title(f"Region graph: {described.graph.num_edges:,} edges")
