"""Large random graphs with planted communities and features, for tests of scale: to 10^9 edges, on CPU or GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.datasets.random_edges import Communities, RandomEdges, generator_of, pattern_of_chunks
from softcut.datasets.synthetic import check_rules, draw_words
from softcut.device import choose_device
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.ops import CSR

# The kinds of graphs, with the default of `corners`.
_KINDS = {"planted": None, "power_law": (0.57, 0.19, 0.19, 0.05)}
# Numbers drawn at a time for the features.
_BLOCK = 1 << 26


@dataclass(frozen=True)
class GeneratedGraph:
    """A generated graph as tensors on one device, see :func:`generate`.

    >>> from softcut.datasets import generate
    >>> made = generate("planted", 1000, 8000, clusters=4, features=8, device="cpu")
    >>> made.op.pattern.col.dtype, made.x.shape, made.to_graph().name
    (torch.int32, torch.Size([1000, 8]), 'planted graph')
    """

    op: CSR  # the adjacency, binary and symmetric
    x: Tensor | sp.csr_array | None  # [N, F] features; sparse words are on the CPU
    y: Tensor  # [N], the planted communities
    kind: str  # "planted" or "power_law"

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
    >>> generate("power_law", 1000, 8000, clusters=4, features=8, device="cpu").x.shape
    torch.Size([1000, 8])

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
    words, kinds = words_per_node, ", ".join(map(repr, _KINDS))
    check_rules(
        ("kind", repr(kind), kind in _KINDS, f"be one of {kinds}"),
        ("clusters", clusters, 1 <= clusters <= nodes, f"lie between 1 and nodes={nodes}"),
        ("edges", edges, edges >= 0, "not be negative"),
        ("features", features, features >= 0, "not be negative"),
        ("edge_signal", edge_signal, 0 <= edge_signal <= 1, "lie between 0 and 1"),
        ("words_per_node", words, words is None or words > 0, "be positive"),
        ("feature_signal", feature_signal, feature_signal >= 0, "not be negative"),
        ("feature_signal", feature_signal, words is None or feature_signal <= 1, "be at most 1 for words"),
    )
    if corners is not None and kind != "power_law":
        raise ParameterError("corners is for kind='power_law' only; leave it out.")
    corners = _KINDS[kind] if corners is None else corners
    if corners is not None:
        good = len(corners) == 4 and min(corners) >= 0 and abs(sum(corners) - 1) < 1e-6
        check_rules(("corners", corners, good, "be four probabilities that sum to one"))
    communities = Communities.draw(nodes, clusters, choose_device(device), seed)
    drawn = RandomEdges(communities, edges, edge_signal, seed, corners)
    y = communities.labels()
    pattern = pattern_of_chunks(drawn, nodes)
    x: Tensor | sp.csr_array | None = None
    if features and words_per_node is not None:
        x = _words(y, clusters, features, words_per_node, feature_signal, seed)
    elif features:
        x = _dense(y, clusters, features, feature_signal, seed, dtype)
    return GeneratedGraph(CSR(pattern, symmetric=True), x, y, kind)


def _dense(y: Tensor, clusters: int, features: int, signal: float, seed: int, dtype: torch.dtype) -> Tensor:
    def normal(rows: int, *words: int) -> Tensor:
        generator = generator_of(y.device, seed, *words)
        return torch.randn(rows, features, generator=generator, device=y.device, dtype=torch.float32)

    centre = signal * normal(clusters, 2)
    x = torch.empty(len(y), features, dtype=dtype, device=y.device)
    step = max(1, _BLOCK // features)
    for i, begin in enumerate(range(0, len(y), step)):
        own = y[begin : begin + step]
        x[begin : begin + step] = normal(len(own), 3, i).add_(centre[own])
    return x


def _words(y: Tensor, clusters: int, features: int, words: float, signal: float, seed: int) -> sp.csr_array:
    generator = generator_of(torch.device("cpu"), seed, 2)
    order = torch.argsort(torch.rand(clusters, features, generator=generator), dim=1).numpy()
    step = max(1, int(_BLOCK // (8 * max(1.0, words))))
    labels = y.cpu().numpy()
    parts = [
        draw_words(np.random.default_rng([seed, 3, i]), labels[begin : begin + step], order, words, signal)
        for i, begin in enumerate(range(0, len(labels), step))
    ]
    return sp.csr_array(sp.vstack(parts, format="csr"))
