"""Large random graphs with planted communities and features, for tests of scale: to 10^9 edges, on CPU or GPU."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.datasets.synthetic import check_rules, draw_words
from softcut.device import choose_device
from softcut.errors import ParameterError
from softcut.graph import Graph
from softcut.ops import CSR, CSRPattern

# The kinds of graphs, with the default of `corners`.
_KINDS = {"planted": None, "power_law": (0.57, 0.19, 0.19, 0.05)}
# Numbers drawn at a time for the features.
_BLOCK = 1 << 26
# Edges drawn at a time, and entries that are sorted at a time while repeated ones are looked for.
_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}
_SORTED_AT_ONCE = {"cpu": 1 << 23, "cuda": 1 << 26}


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
        Sparse features instead, 0 and 1: each node draws this many words from the Zipf distribution of its community
        or from a common one, and words drawn twice count once.
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
    corners: tuple[float, float, float, float] = (0.57, 0.19, 0.19, 0.05),
    **options: Any,
) -> Graph:
    """An R-MAT graph with planted communities: hubs, and many nodes with few edges or none.

    Every community is an R-MAT graph (Chakrabarti et al., 2004), and so is the graph between them: `corners` are the
    probabilities of the four quarters of the adjacency matrix at every level. Hubs meet often: of the edges asked for,
    a tenth or more may be repeated, and these are left out. The other arguments are those of :func:`planted_graph`.

    >>> from softcut.datasets import power_law_graph
    >>> graph = power_law_graph(4096, 40_000, clusters=4, features=16, seed=0)
    >>> graph.num_nodes, graph.x.shape
    (4096, (4096, 16))
    """
    return generate(
        "power_law", nodes, edges, clusters, features, corners=corners, device="cpu", **options
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
        raise ParameterError("corners is for kind='power_law' only; leave it out.", argument="corners")
    corners = _KINDS[kind] if corners is None else corners
    if corners is not None:
        good = len(corners) == 4 and min(corners) >= 0 and abs(sum(corners) - 1) < 1e-6
        check_rules(("corners", corners, good, "be four probabilities that sum to one"))
    drawn = RandomEdges.draw(nodes, clusters, edges, edge_signal, choose_device(device), seed, corners)
    y = drawn.labels()
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


def generator_of(device: torch.device, *words: int) -> torch.Generator:
    """A generator of random numbers that depends on all of `words`."""
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


@dataclass(frozen=True)
class RandomEdges:
    """Edges in chunks, pairs of tensors: the same ones every time they are iterated over.

    `order` [N] has the nodes community by community; community c begins at place ``bounds[c]``, bounds is [K + 1].
    Communities are of one size, up to one node.
    The first end is any node; the second one is a node of the same community with probability `inside`, else any
    node. With `corners` every community is an R-MAT graph (Chakrabarti et al., 2004): it is bisected, and at every
    level the pair falls into one of the four quarters of its adjacency matrix with these probabilities. Edges that
    leave a community draw the community of the second end anew.
    """

    order: Tensor
    bounds: Tensor
    edges: int
    inside: float
    seed: int
    corners: tuple[float, float, float, float] | None = None

    @classmethod
    def draw(
        cls,
        nodes: int,
        clusters: int,
        edges: int,
        inside: float,
        device: torch.device,
        seed: int,
        corners: Any = None,
    ) -> RandomEdges:
        """Communities at random, and the edges among them."""
        order = torch.randperm(nodes, generator=generator_of(device, seed, 0), device=device)
        part = torch.arange(clusters + 1, device=device)
        bounds = part * (nodes // clusters) + part.clamp(max=nodes % clusters)
        return cls(order.to(torch.int32) if nodes < 2**31 else order, bounds, edges, inside, seed, corners)

    def labels(self) -> Tensor:
        """The community of every node, [N]."""
        y = torch.empty(len(self.order), dtype=torch.long, device=self.order.device)
        y[self.order.long()] = torch.repeat_interleave(self.bounds.diff(), output_size=len(y))
        return y

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = self.order.device
        step = _CHUNK.get(device.type, _CHUNK["cpu"])
        for i, begin in enumerate(range(0, self.edges, step)):
            yield self._draw(min(step, self.edges - begin), generator_of(device, self.seed, 1, i))

    def _draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        def uniform() -> Tensor:  # float64, so that every node of a large community can be drawn
            return torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)

        def community() -> Tensor:  # of a node drawn at random
            place = (uniform() * len(self.order)).long()
            return torch.searchsorted(self.bounds, place, right=True) - 1

        # How far through their communities the two ends lie.
        first = torch.zeros(count, dtype=torch.float64, device=generator.device)
        second = torch.zeros_like(first)
        width = 1.0
        if self.corners is not None:
            a, b, c, _ = self.corners
            for _ in range(math.ceil(math.log2(max(2, int(self.bounds.diff().max()))))):
                width /= 2
                quarter = uniform()
                lower = quarter >= a + b  # the last two quarters
                right = ((quarter >= a) & ~lower) | (quarter >= a + b + c)
                first += width * lower
                second += width * right
        # Where a community is no power of two, several nodes share the last level.
        first += width * uniform()
        second += width * uniform()
        own = community()
        stays = uniform() < self.inside
        other = torch.where(stays, own, community())
        return self._member(own, first), self._member(other, second)

    def _member(self, community: Tensor, share: Tensor) -> Tensor:
        """The node at `share` (from 0 to 1) of the way through each of these communities."""
        low = self.bounds[community]
        size = self.bounds[community + 1] - low
        place = low + torch.minimum((share * size).long(), size - 1)
        return self.order[place].long()


def pattern_of_chunks(chunks: Iterable[tuple[Tensor, Tensor]], nodes: int) -> CSRPattern:
    """Where the adjacency has entries: both directions of every edge, repeated edges and self-loops left out.

    `chunks` are the two ends of some edges each. They are read twice (to count and to place), so they must be the
    same every time; the memory is that of the result and of one chunk.
    """
    first = next(iter(chunks), None)
    device = torch.device("cpu") if first is None else first[0].device
    del first
    count = torch.zeros(nodes, dtype=torch.long, device=device)
    for chunk in chunks:
        for end in _without_loops(*chunk):
            count += torch.bincount(end, minlength=nodes)
    rowptr = _pointer(count)
    index = torch.int32 if max(nodes, int(rowptr[-1])) < 2**31 else torch.int64
    col = torch.empty(int(rowptr[-1]), dtype=index, device=device)
    _place(chunks, rowptr[:-1].clone(), col)
    rowptr = _compact(rowptr, col, nodes)
    return CSRPattern(rowptr.to(index), col[: int(rowptr[-1])], (nodes, nodes))


def _pointer(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _without_loops(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    u, v = u.long(), v.long()
    loop = u == v
    return (u[~loop], v[~loop]) if bool(loop.any()) else (u, v)


def _place(chunks: Iterable[tuple[Tensor, Tensor]], free: Tensor, col: Tensor) -> None:
    """Write the columns of every chunk to where their rows have room; `free` is the next place of every row."""
    nodes = len(free)
    for chunk in chunks:
        u, v = _without_loops(*chunk)
        for row, other in ((u, v), (v, u)):
            row, order = torch.sort(row)
            count = torch.bincount(row, minlength=nodes)
            # The first of a row's entries goes to its next free place, the second one behind it, ...
            shift = free - (count.cumsum(0) - count)
            place = shift[row] + torch.arange(len(row), device=row.device)
            col[place] = other[order].to(col.dtype)
            free += count


def _compact(rowptr: Tensor, col: Tensor, nodes: int) -> Tensor:
    """Sort every row and drop repeated columns, block by block and in place; the new pointer."""
    limit = _SORTED_AT_ONCE.get(col.device.type, _SORTED_AT_ONCE["cpu"])
    counts = torch.empty(nodes, dtype=torch.long, device=col.device)
    begin, written = 0, 0
    while begin < nodes:
        start = int(rowptr[begin])
        end = int(torch.searchsorted(rowptr, start + limit, right=True)) - 1
        end = min(nodes, max(end, begin + 1))
        length = int(rowptr[end]) - start
        row = torch.repeat_interleave(rowptr[begin : end + 1].diff(), output_size=length)
        key = torch.unique_consecutive(torch.sort(row * nodes + col[start : start + length]).values)
        counts[begin:end] = torch.bincount(key // nodes, minlength=end - begin)
        col[written : written + len(key)] = (key % nodes).to(col.dtype)
        written += len(key)
        begin = end
    return _pointer(counts)
