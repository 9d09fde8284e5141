"""Methods that divide an image, all on one over-segmentation: minCUT and what it is compared with.

A method gives one segmentation for each value of its scale: the number of segments K, or what it has in place of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError

from softcut.baselines import diffpool_replicas, spectral
from softcut.clustering import GraphClustering
from softcut.errors import require
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.paper.common import estimator_settings, keyword_settings
from softcut.segment import MincutSettings, RegionGraph, as_rgb, mincut_regions, over_segment, region_graph
from softcut.segment.methods import weighted_kmeans
from softcut.segment.region_graph import COLOUR_WIDTH, HISTOGRAM_WIDTH
from softcut.training import DenseInput, ReplicaNet, TrainSettings, replica_losses, replica_seeds, train

__all__ = ["CLUSTERS", "METHODS", "SCALES", "OverSegmented", "labels_of", "paper_mincut", "settings_of"]

# One grid for all methods that are told the number of segments.
CLUSTERS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
# The recursive cut is told how much a cut may cost, felzenszwalb how large regions should be.
_THRESHOLDS = (1e-6, 2e-4, 3e-3, 3e-2, 1e-1, 3e-1)
_FELZENSZWALB = (100, 200, 300, 500, 700, 1000, 1500, 2500)
SCALES: dict[str, Sequence[float]] = {
    "mincut": CLUSTERS,
    "spectral": CLUSTERS,
    "kmeans": CLUSTERS,
    "cut_normalized": _THRESHOLDS,
    "felzenszwalb": _FELZENSZWALB,
    "MinCutPool": CLUSTERS,
    "estimator": CLUSTERS,
}
METHODS = tuple(SCALES)
_RECURSIVE_CUTS = 20  # tries of each cut, as in the paper
_SEEDS = 5  # of a cut whose eigenvectors were not found
# The paper's network takes up to 40,000 steps of 1e-3; on the benchmark's 1,000 graphs fewer and longer ones.
_BENCHMARK_STEPS: dict[str, Any] = {"max_iter": 200, "learning_rate": 2e-2}
_BENCHMARK_SEEDS = 2


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
    order, options = np.arange(image.count), {"num_cuts": _RECURSIVE_CUTS, "in_place": False}
    seed = 0
    while True:
        try:
            found = graphs.cut_normalized(order, image.adjacency, thresh=threshold, rng=seed, **options)
            return np.asarray(found)
        except ArpackError:  # eigenvectors are looked for from a random start, and rarely not found
            seed += 1
            if seed == _SEEDS:
                raise


def _paper(image: OverSegmented, k: float) -> NDArray[np.int64]:
    labels, loss = paper_mincut(
        image.similarity, int(k), replica_seeds(0, _BENCHMARK_SEEDS), **_BENCHMARK_STEPS
    )
    return labels[int(loss.argmin())]


_LABELS: dict[str, Callable[[OverSegmented, float], NDArray[np.int64]]] = {
    "mincut": lambda image, k: mincut_regions(image.graph, int(k), area=image.described.area),
    "spectral": lambda image, k: spectral(image.graph, int(k)),
    # Of the mean colours in Lab; a region counts as many times as it has pixels.
    "kmeans": lambda image, k: weighted_kmeans(image.described.lab, int(k), image.described.area, n_init=10),
    "cut_normalized": recursive_cut,
    "MinCutPool": _paper,
    "estimator": lambda image, k: GraphClustering(int(k), random_state=0, device="cpu").fit_predict(
        image.graph
    ),
}


def labels_of(method: str, image: OverSegmented, scale: float) -> NDArray[np.int64]:
    """Segment of every region [N]; of felzenszwalb, of every pixel [H, W]."""
    if method == "felzenszwalb":
        return over_segment(as_rgb(image.image), scale=scale)
    if scale >= image.count:  # each region a segment of its own
        return np.arange(image.count)
    return _LABELS[method](image, scale)


def settings_of(method: str) -> dict[str, Any]:
    """Everything that decides a method's result besides the image."""
    scales = {"scales": list(SCALES[method])}
    if method == "mincut":
        return scales | _widths() | {"weight": "area"} | asdict(MincutSettings())
    if method == "estimator":
        return scales | _widths() | estimator_settings(GraphClustering())
    if method == "MinCutPool":
        return scales | {"seeds": _BENCHMARK_SEEDS} | keyword_settings(paper_mincut, **_BENCHMARK_STEPS)
    if method == "cut_normalized":
        return scales | {"num_cuts": _RECURSIVE_CUTS}
    if method == "spectral":
        return scales | _widths() | keyword_settings(spectral)
    return scales


def _widths() -> dict[str, float]:
    return {"histogram_width": HISTOGRAM_WIDTH, "colour_width": COLOUR_WIDTH}


def paper_diffpool(graph: Graph, k: int, seeds: Sequence[int], max_iter: int) -> NDArray[np.int64]:
    """DiffPool's auxiliary losses on a region graph, the replica with the lowest loss."""
    s, _, result = diffpool_replicas(
        graph, k, seeds, x=np.asarray(graph.x), max_iter=max_iter, learning_rate=1e-3
    )
    return s[:, int((result.cut[-1] + result.ortho[-1]).argmin())].argmax(-1).cpu().numpy()
