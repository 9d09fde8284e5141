"""Random edges with planted communities, drawn in chunks, and the CSR pattern that is made of such chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softcut.ops import CSRPattern

# Edges drawn at a time, and entries that are sorted at a time while repeated ones are looked for.
_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}
_BLOCK = {"cpu": 1 << 23, "cuda": 1 << 26}


def generator_of(device: torch.device, *words: int) -> torch.Generator:
    """A generator of random numbers that depends on all of `words`."""
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


@dataclass(frozen=True)
class Communities:
    """Nodes in communities of equal sizes (up to one node): `order` [N] has the nodes community by community.

    Community c begins at place ``bounds[c]`` of `order`; bounds is [K + 1].
    """

    order: Tensor
    bounds: Tensor

    @classmethod
    def draw(cls, nodes: int, clusters: int, device: torch.device, seed: int) -> Communities:
        """Communities at random."""
        order = torch.randperm(nodes, generator=generator_of(device, seed, 0), device=device)
        part = torch.arange(clusters + 1, device=device)
        bounds = part * (nodes // clusters) + part.clamp(max=nodes % clusters)
        return cls(order.to(torch.int32) if nodes < 2**31 else order, bounds)

    def labels(self) -> Tensor:
        """The community of every node, [N]."""
        y = torch.empty(len(self.order), dtype=torch.long, device=self.order.device)
        y[self.order.long()] = torch.repeat_interleave(self.bounds.diff(), output_size=len(y))
        return y

    def member(self, community: Tensor, share: Tensor) -> Tensor:
        """The node at `share` (from 0 to 1) of the way through each of these communities."""
        low = self.bounds[community]
        size = self.bounds[community + 1] - low
        place = low + torch.minimum((share * size).long(), size - 1)
        return self.order[place].long()


@dataclass(frozen=True)
class RandomEdges:
    """Edges in chunks, pairs of tensors: the same ones every time they are iterated over.

    The first end is any node; the second one is a node of the same community with probability `inside`, else any
    node. With `corners` every community is an R-MAT graph (Chakrabarti et al., 2004): it is bisected, and at every
    level the pair falls into one of the four quarters of its adjacency matrix with these probabilities. Edges that
    leave a community draw the community of the second end anew.
    """

    communities: Communities
    edges: int
    inside: float
    seed: int
    corners: tuple[float, float, float, float] | None = None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = self.communities.order.device
        step = _CHUNK.get(device.type, _CHUNK["cpu"])
        for i, begin in enumerate(range(0, self.edges, step)):
            yield self._draw(min(step, self.edges - begin), generator_of(device, self.seed, 1, i))

    def _draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        bounds = self.communities.bounds

        def uniform() -> Tensor:  # float64, so that every node of a large community can be drawn
            return torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)

        def community() -> Tensor:  # of a node drawn at random
            place = (uniform() * len(self.communities.order)).long()
            return torch.searchsorted(bounds, place, right=True) - 1

        # How far through their communities the two ends lie.
        first = torch.zeros(count, dtype=torch.float64, device=generator.device)
        second = torch.zeros_like(first)
        width = 1.0
        if self.corners is not None:
            a, b, c, _ = self.corners
            for _ in range(max(1, math.ceil(math.log2(max(2, int(bounds.diff().max())))))):
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
        return self.communities.member(own, first), self.communities.member(other, second)


def pattern_of_chunks(chunks: Iterable[tuple[Tensor, Tensor]], nodes: int) -> CSRPattern:
    """Where the adjacency has entries: both directions of every edge, repeated edges and self-loops left out.

    `chunks` are the two ends of some edges each. They are read twice (to count and to place), so they must be the
    same every time; the memory is that of the result and of one chunk.

    >>> import torch
    >>> ends = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2])
    >>> pattern = pattern_of_chunks([ends], nodes=3)
    >>> pattern.rowptr.tolist(), pattern.col.tolist()
    ([0, 1, 3, 4], [1, 0, 2, 1])
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
    limit = _BLOCK.get(col.device.type, _BLOCK["cpu"])
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
