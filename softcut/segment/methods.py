"""Clustering the regions of an image: by minCUT, by the normalised cut, by DiffPool.

minCUT here: the networks read the spectral embedding of the region graph beside the features of the regions, start
from k-means of what they read, and minimise the cut of the region graph. Replicas read the embedding at several
weightings, and their consensus is the segmentation.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from softcut.baselines import diffpool_replicas, spectral
from softcut.clustering.consensus import Consensus
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.segment.images import check_choice
from softcut.training import DenseInput, ReplicaNet, TrainSettings, replica_seeds, train

METHODS = ("mincut", "ncut", "diffpool")
_DENSE = 100  # nodes up to which all eigenvectors at once are quicker than a few
# k="auto" counts the ways of cutting the graph that cost at most this much (1 - eigenvalue), within these limits.
_CHEAP_CUT = 0.02
AUTO_SEGMENTS = (2, 12)
_DIFFPOOL_STEPS = 1000


@dataclass(frozen=True)
class MincutSettings:
    """How regions are clustered by minCUT; see also :class:`softcut.training.TrainSettings`.

    >>> from softcut.segment import MincutSettings
    >>> MincutSettings(n_init=4).eigenvectors
    10
    """

    n_init: int = 8  # replicas
    eigenvectors: int = 10  # columns of the spectral embedding
    powers: tuple[float, ...] = (0.5, 1.0)  # p of replicas that read eigenvectors / (1 - eigenvalue)^p
    feature_weight: float = 0.3  # of the features beside the embedding
    max_iter: int = 40
    start: int = 20
    learning_rate: float = 1e-2
    ortho_weight: float = 1.0
    hidden: int = 16
    fusion: float = 1.0  # weight of the networks' inputs beside their outputs, in the consensus


# Rows that the networks read have this mean length: short ones would take many more steps to learn.
_LENGTH = 4.0
_LEAST_GAP = 1e-3


def spectral_coordinates(graph: Graph, columns: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Leading eigenvectors of the random walk on a connected graph but the first, and 1 - their eigenvalues."""
    adjacency = sp.csr_array(graph.adjacency, dtype=np.float64)
    n = adjacency.shape[0]
    columns = min(columns, n - 1)
    scale = 1 / np.sqrt(adjacency.sum(axis=1))
    walk = sp.diags_array(scale) @ adjacency @ sp.diags_array(scale)
    if n <= _DENSE or columns + 1 >= n:
        values, vectors = np.linalg.eigh(walk.toarray())
    else:
        laplacian = sp.csc_array(sp.eye_array(n) - walk)
        first = np.random.default_rng(0).standard_normal(n)
        gaps, vectors = eigsh(laplacian, columns + 1, sigma=-1e-3, which="LM", v0=first)
        values = 1 - gaps
    order = np.argsort(-values, kind="stable")[1 : columns + 1]
    walks = vectors[:, order] * scale[:, None]
    walks *= np.where(walks[np.abs(walks).argmax(axis=0), np.arange(walks.shape[1])] < 0, -1.0, 1.0)
    return walks / np.linalg.norm(walks, axis=0), np.maximum(1 - values[order], 0.0)


def number_of_segments(graph: Graph) -> int:
    """How many segments a region graph falls into: one more than the number of its cheap cuts."""
    _, gaps = spectral_coordinates(graph, AUTO_SEGMENTS[1])
    return int(min(max(1 + (gaps <= _CHEAP_CUT).sum(), AUTO_SEGMENTS[0]), AUTO_SEGMENTS[1], graph.num_nodes))


def cluster_regions(
    graph: Graph,
    k: int,
    method: str = "mincut",
    random_state: int = 0,
    device: torch.device | str = "cpu",
    *,
    area: NDArray[np.integer] | None = None,
) -> NDArray[np.int64]:
    """Cluster of every region: `k` clusters of a region graph with features.

    By :func:`mincut_regions`, by spectral clustering (:func:`softcut.baselines.spectral`) or by the auxiliary losses of
    DiffPool (:func:`softcut.baselines.diffpool_replicas`). `random_state` is that of k-means and of the networks, which
    are trained on `device`; `area`, the pixels of every region, is for minCUT.

    >>> from softcut.datasets import community_graph
    >>> cluster_regions(community_graph(4, 80, seed=0), 4, "ncut").shape
    (80,)
    """
    check_choice("method", method, METHODS)
    if k >= graph.num_nodes:
        return np.arange(graph.num_nodes)
    if k == 1:
        return np.zeros(graph.num_nodes, dtype=np.int64)
    if method == "ncut":
        return spectral(graph, k, random_state)
    if method == "mincut":
        return mincut_regions(graph, k, area=area, random_state=random_state, device=device)
    x = np.asarray(graph.x, dtype=np.float64)
    deviation = x.std(axis=0)
    x = ((x - x.mean(axis=0)) / np.where(deviation > 0, deviation, 1)).astype(np.float32)
    seeds = replica_seeds(random_state, 10)
    s, _, result = diffpool_replicas(
        graph, k, seeds, x=x, max_iter=_DIFFPOOL_STEPS, learning_rate=5e-3, device=device
    )
    best = int((result.cut[-1] + result.ortho[-1]).argmin())
    return s[:, best].argmax(-1).cpu().numpy()


def _unit(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """Columns about their means, rows of length 1 on average."""
    centred = np.asarray(x, dtype=np.float64) - x.mean(axis=0)
    length = np.sqrt(np.square(centred).sum(axis=1).mean())
    return centred / length if length > 0 else centred


def mincut_regions(
    graph: Graph,
    k: int,
    settings: MincutSettings | None = None,
    *,
    area: NDArray[np.integer] | None = None,
    random_state: int = 0,
    device: torch.device | str = "cpu",
) -> NDArray[np.int64]:
    """Regions clustered by minCUT: the consensus of replicas that start from k-means of what they read.

    >>> import numpy as np
    >>> from softcut.datasets import community_graph
    >>> from softcut.metrics import nmi
    >>> graph = community_graph(4, 80, seed=0)
    >>> nmi(graph.y, mincut_regions(graph, 4)) > 0.9
    True

    A region counts as many times in k-means, at the start and in the consensus, as it has pixels by `area` [N]; by
    default all regions count the same. There must be fewer clusters than regions. The other arguments are those of
    :func:`cluster_regions`.
    """
    settings = settings or MincutSettings()
    # What the networks read, [scales, N, F].
    vectors, gaps = spectral_coordinates(graph, settings.eigenvectors)
    features = settings.feature_weight * _unit(np.asarray(graph.x))
    parts = [
        np.concatenate([_unit(vectors / (gaps + _LEAST_GAP) ** power), features], axis=1)
        for power in settings.powers
    ]
    z = torch.from_numpy((_LENGTH * np.stack(parts)).astype(np.float32)).to(device)
    per_scale = -(-settings.n_init // len(z))
    starts = [
        weighted_kmeans(rows.cpu().numpy(), k, area, random_state + i) for rows in z for i in range(per_scale)
    ]
    start = torch.from_numpy(np.stack(starts)).to(device)
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).to(z.dtype)
    scales = [scale for scale in range(len(z)) for _ in range(per_scale)]
    inputs = DenseInput(z)
    net = ReplicaNet(
        z.shape[2], k, replica_seeds(random_state, len(scales)), hidden=settings.hidden, scales=scales
    ).to(device)
    training = TrainSettings(
        iterations=settings.max_iter,
        lr=settings.learning_rate,
        ortho_weight=settings.ortho_weight,
        start=settings.start,
        tolerance=None,
    )
    op = CSR.from_graph(graph, device=device)
    result = train(net, inputs, op, training, start=start, sizes=sizes.clamp(min=1.0))
    if result.interrupted:
        raise KeyboardInterrupt
    s, rows = net.assign(inputs), z.transpose(0, 1)
    consensus = Consensus.fit(s, rows, k, scales=scales, fusion=settings.fusion, random_state=random_state)
    together = consensus.transform(s, rows).cpu().numpy()
    return weighted_kmeans(together, k, area, random_state, n_init=10)


def weighted_kmeans(
    x: NDArray[np.floating],
    k: int,
    weight: NDArray[np.integer] | None = None,
    random_state: int = 0,
    n_init: int = 1,
) -> NDArray[np.int64]:
    """k-means of rows that count as often as their weights say."""
    # A few hundred rows: threads that wait for each other would take most of the time.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        fitted = KMeans(k, n_init=n_init, random_state=random_state % 2**32).fit(x, sample_weight=weight)
    return np.asarray(fitted.labels_, dtype=np.int64)
