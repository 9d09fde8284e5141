"""Large random graphs with planted communities and features, for tests of scale: to 10^9 edges, on CPU or GPU.

>>> from softcut.datasets import planted_graph, power_law_graph
>>> graph = planted_graph(1000, 5000, clusters=4, features=8, seed=0)
>>> graph.num_nodes, graph.x.shape, len(set(graph.y.tolist()))
(1000, (1000, 8), 4)
>>> hubs = power_law_graph(1000, 5000, clusters=4, features=0, seed=0)
>>> bool(hubs.adjacency.sum(axis=1).max() > 3 * graph.adjacency.sum(axis=1).max())
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.datasets.generators_csr import pattern_of_chunks
from softcut.datasets.generators_edges import Communities, PlantedEdges, RMatEdges, generator_of
from softcut.device import choose_device
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.ops import CSR

__all__ = ["GENERATORS", "GeneratedGraph", "generate", "planted_graph", "power_law_graph"]

GENERATORS = {"planted": PlantedEdges, "power_law": RMatEdges}
# Numbers drawn at a time for the features.
_BLOCK = 1 << 26


@dataclass(frozen=True)
class GeneratedGraph:
    """A generated graph as tensors on one device.

    Attributes
    ----------
    op : CSR
        The adjacency, binary and symmetric.
    x : Tensor, scipy sparse array or None
        [N, F] features; sparse words are on the CPU.
    y : Tensor
        [N], the planted communities.
    kind : str
        Which generator made it.
    """

    op: CSR
    x: Tensor | sp.csr_array | None
    y: Tensor
    kind: str

    def to_graph(self) -> Graph:
        """As a :class:`softcut.Graph`, on the CPU."""
        pattern = self.op.pattern
        ones = np.ones(pattern.nnz, dtype=np.float32)
        parts = (pattern.col.cpu().numpy(), pattern.rowptr.cpu().numpy())
        adjacency = sp.csr_array((ones, *parts), shape=pattern.shape)
        x = self.x.cpu().numpy() if isinstance(self.x, Tensor) else self.x
        name = self.kind.replace("_", " ") + " graph"
        return Graph.from_scipy(adjacency, x=x, y=self.y.cpu().numpy(), name=name)


def planted_graph(
    nodes: int,
    edges: int,
    clusters: int,
    features: int = 64,
    *,
    edge_signal: float = 0.5,
    feature_signal: float = 0.2,
    words_per_node: float | None = None,
    seed: int = 0,
) -> Graph:
    """A planted partition: communities of equal sizes, degrees that hardly differ.

    Both ends of an edge are drawn at random, the second one from the community of the first with probability
    `edge_signal`. Repeated edges and edges of a node with itself are left out, so a sparse graph has hardly, and a
    dense one clearly, fewer edges than asked for. :attr:`Graph.y` holds the communities.

    >>> from softcut.datasets import planted_graph
    >>> graph = planted_graph(10_000, 50_000, clusters=5, features=200, words_per_node=10, seed=0)
    >>> graph.num_nodes, 49_800 < graph.num_edges <= 50_000, graph.x.shape, float(graph.x.max())
    (10000, True, (10000, 200), 1.0)

    Parameters
    ----------
    nodes, edges, clusters : int
        How many; edges are undirected.
    features : int
        Columns of X, 0 for none. Dense by default: a centre per community (normal numbers), times
        `feature_signal`, plus noise of unit variance.
    edge_signal : float
        Between 0 (edges do not depend on communities) and 1 (no edge leaves its community).
    feature_signal : float
        Of dense features: distance of the centres in units of the noise. Of words: the share that a node draws
        from the words of its community, between 0 and 1.
    words_per_node : float, optional
        Sparse features instead, 0 and 1: the distinct words among so many that each node draws, from the Zipf
        distribution of its community or from a common one.
    seed : int
        The same seed gives the same graph; a GPU draws other random numbers than a CPU.
    """
    return generate(
        "planted",
        nodes,
        edges,
        clusters,
        features,
        edge_signal=edge_signal,
        feature_signal=feature_signal,
        words_per_node=words_per_node,
        seed=seed,
        device="cpu",
    ).to_graph()


def power_law_graph(
    nodes: int,
    edges: int,
    clusters: int,
    features: int = 64,
    *,
    edge_signal: float = 0.5,
    feature_signal: float = 0.2,
    words_per_node: float | None = None,
    corners: tuple[float, float, float, float] = (0.57, 0.19, 0.19, 0.05),
    seed: int = 0,
) -> Graph:
    """An R-MAT graph with planted communities: hubs, and many nodes with few edges or none.

    Every community is an R-MAT graph (Chakrabarti et al., 2004), and so is the graph between them. Hubs meet
    often: of the edges asked for, a tenth or more may be repeated, and these are left out.

    >>> from softcut.datasets import power_law_graph
    >>> graph = power_law_graph(4096, 40_000, clusters=4, features=16, seed=0)
    >>> graph.num_nodes, graph.x.shape
    (4096, (4096, 16))

    Parameters
    ----------
    nodes, edges, clusters, features, edge_signal, feature_signal, words_per_node, seed
        As for :func:`planted_graph`.
    corners : tuple of float
        Probabilities of the four quarters of the adjacency matrix at every level, summing to one.
    """
    return generate(
        "power_law",
        nodes,
        edges,
        clusters,
        features,
        edge_signal=edge_signal,
        feature_signal=feature_signal,
        words_per_node=words_per_node,
        corners=corners,
        seed=seed,
        device="cpu",
    ).to_graph()


def generate(
    kind: str,
    nodes: int,
    edges: int,
    clusters: int,
    features: int = 64,
    *,
    edge_signal: float = 0.5,
    feature_signal: float = 0.2,
    words_per_node: float | None = None,
    corners: tuple[float, float, float, float] | None = None,
    seed: int = 0,
    device: str = "auto",
    dtype: torch.dtype = torch.float32,
) -> GeneratedGraph:
    """A generated graph as an operator and tensors, made where it is needed; to 10^9 edges.

    Edges are drawn in chunks, once to count and once to place them: the memory is that of the result and of one
    chunk. Indices are int32 while they fit.

    >>> from softcut.datasets import generate
    >>> made = generate("planted", 1000, 8000, clusters=4, features=8, device="cpu")
    >>> made.op.pattern.col.dtype, made.x.shape
    (torch.int32, torch.Size([1000, 8]))

    Parameters
    ----------
    kind : {"planted", "power_law"}
        As :func:`planted_graph`, or as :func:`power_law_graph`.
    nodes, edges, clusters, features, edge_signal, feature_signal, words_per_node, corners, seed
        As for these.
    device : str
        "auto" (a GPU where there is one), "cpu", "cuda", ...
    dtype : torch.dtype
        Of dense features.
    """
    _check(kind, nodes, edges, clusters, features, edge_signal, feature_signal, words_per_node, corners)
    where = choose_device(device)
    communities = Communities.draw(nodes, clusters, where, seed)
    more: dict[str, Any] = {} if corners is None else {"corners": tuple(corners)}
    drawn = GENERATORS[kind](communities, edges, edge_signal, seed, **more)
    y = communities.labels()
    pattern = pattern_of_chunks(drawn, nodes)
    x: Tensor | sp.csr_array | None = None
    if features and words_per_node is not None:
        x = _words(y, clusters, features, words_per_node, feature_signal, seed)
    elif features:
        x = _dense(y, clusters, features, feature_signal, seed, dtype)
    return GeneratedGraph(CSR(pattern, symmetric=True), x, y, kind)


def _dense(y: Tensor, clusters: int, features: int, signal: float, seed: int, dtype: torch.dtype) -> Tensor:
    device = y.device
    centre = signal * torch.randn(
        clusters, features, generator=generator_of(device, seed, 2), device=device, dtype=torch.float32
    )
    x = torch.empty(len(y), features, dtype=dtype, device=device)
    step = max(1, _BLOCK // features)
    for i, begin in enumerate(range(0, len(y), step)):
        own = y[begin : begin + step]
        noise = torch.randn(
            len(own), features, generator=generator_of(device, seed, 3, i), device=device, dtype=torch.float32
        )
        x[begin : begin + step] = noise.add_(centre[own])
    return x


def _words(y: Tensor, clusters: int, features: int, words: float, signal: float, seed: int) -> sp.csr_array:
    """Distinct words of every node, from the Zipf distribution of its community or a common one."""
    cpu = torch.device("cpu")
    order = torch.argsort(torch.rand(clusters, features, generator=generator_of(cpu, seed, 2)), dim=1).numpy()
    zipf = np.cumsum(1.0 / np.arange(1, features + 1))
    step = max(1, int(_BLOCK // (8 * max(1.0, words))))
    labels, parts = y.cpu().numpy(), []
    for i, begin in enumerate(range(0, len(labels), step)):
        rng = np.random.default_rng([seed, 3, i])
        own = labels[begin : begin + step]
        node = np.repeat(np.arange(len(own)), np.maximum(rng.poisson(words, len(own)), 1))
        rank = np.searchsorted(zipf, rng.random(len(node)) * zipf[-1], side="right").clip(max=features - 1)
        word = np.where(rng.random(len(node)) < signal, order[own[node], rank], rank)
        part = sp.csr_array((np.ones(len(node), np.float32), (node, word)), shape=(len(own), features))
        part.data[:] = 1.0
        parts.append(part)
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _check(
    kind: str,
    nodes: int,
    edges: int,
    clusters: int,
    features: int,
    edge_signal: float,
    feature_signal: float,
    words_per_node: float | None,
    corners: tuple[float, float, float, float] | None,
) -> None:
    if kind not in GENERATORS:
        raise ParameterError(f"kind must be one of {', '.join(map(repr, GENERATORS))}, got {kind!r}.")
    if not 1 <= clusters <= nodes:
        raise ParameterError(f"clusters must lie between 1 and nodes={nodes}, got {clusters}.")
    for name, value in (("edges", edges), ("features", features)):
        if value < 0:
            raise ParameterError(f"{name} must not be negative, got {value}.")
    if not 0 <= edge_signal <= 1:
        raise ParameterError(f"edge_signal must lie between 0 and 1, got {edge_signal}.")
    if words_per_node is None and feature_signal < 0:
        raise ParameterError(f"feature_signal must not be negative, got {feature_signal}.")
    if words_per_node is not None:
        if not words_per_node > 0:
            raise ParameterError(f"words_per_node must be positive, got {words_per_node}.")
        if not 0 <= feature_signal <= 1:
            raise ParameterError(f"feature_signal must lie between 0 and 1 for words, got {feature_signal}.")
    if corners is not None:
        if kind != "power_law":
            raise ParameterError("corners is for kind='power_law' only; leave it out.")
        good = len(corners) == 4 and min(corners) >= 0 and abs(sum(corners) - 1) < 1e-6
        if not good:
            raise ParameterError(f"corners must be four probabilities that sum to one, got {corners}.")
