"""Random edges with planted communities, drawn chunk by chunk from a seed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Communities", "PlantedEdges", "RMatEdges", "generator_of"]

# Edges drawn at a time.
_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 25}


def generator_of(device: torch.device, *words: int) -> torch.Generator:
    """A generator of random numbers that depends on all of `words`."""
    state = np.random.SeedSequence(words).generate_state(1, np.uint64)[0]
    return torch.Generator(device).manual_seed(int(state >> np.uint64(1)))


@dataclass(frozen=True)
class Communities:
    """Nodes in communities of equal sizes (up to one node), in an order that says nothing about them.

    Attributes
    ----------
    order : Tensor
        [N], the nodes community by community.
    bounds : Tensor
        [K + 1], where each community begins in `order`.
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

    @property
    def nodes(self) -> int:
        return len(self.order)

    @property
    def clusters(self) -> int:
        return len(self.bounds) - 1

    def labels(self) -> Tensor:
        """The community of every node, [N]."""
        community = torch.arange(self.clusters, device=self.order.device)
        y = torch.empty(self.nodes, dtype=torch.long, device=self.order.device)
        y[self.order.long()] = torch.repeat_interleave(
            community, self.bounds[1:] - self.bounds[:-1], output_size=self.nodes
        )
        return y

    def member(self, community: Tensor, share: Tensor) -> Tensor:
        """The node at `share` (from 0 to 1) of the way through each of these communities."""
        low = self.bounds[community]
        size = self.bounds[community + 1] - low
        place = low + torch.minimum((share * size).long(), size - 1)
        return self.order[place].long()


@dataclass(frozen=True)
class PlantedEdges:
    """Edges of a planted partition, in chunks: the same ones every time they are iterated over.

    The first end is any node; the second one is a node of the same community with probability `inside`, else
    any node.
    """

    communities: Communities
    edges: int
    inside: float
    seed: int

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = self.communities.order.device
        step = _CHUNK.get(device.type, _CHUNK["cpu"])
        for i, begin in enumerate(range(0, self.edges, step)):
            count = min(step, self.edges - begin)
            yield self.draw(count, generator_of(device, self.seed, 1, i))

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The two ends of so many edges."""
        own, other = self._ends(count, generator)
        community = self._community(count, generator)
        stays = self._uniform(count, generator) < self.inside
        elsewhere = torch.where(stays, community, self._community(count, generator))
        return self.communities.member(community, own), self.communities.member(elsewhere, other)

    def _ends(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """How far through their communities the two ends are: float64, so that the largest have no gaps."""
        return self._uniform(count, generator), self._uniform(count, generator)

    def _uniform(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.rand(count, generator=generator, device=generator.device, dtype=torch.float64)

    def _community(self, count: int, generator: torch.Generator) -> Tensor:
        """That of a node drawn at random."""
        place = (self._uniform(count, generator) * self.communities.nodes).long()
        return torch.searchsorted(self.communities.bounds, place, right=True) - 1


@dataclass(frozen=True)
class RMatEdges(PlantedEdges):
    """Edges of an R-MAT graph (Chakrabarti et al., 2004) with planted communities.

    The ends are found by bisection: at every level the pair falls into one of four quarters of the adjacency
    matrix with probabilities `corners`. What is bisected is a community, so that each has hubs of its own;
    edges that leave a community draw theirs anew for the second end.
    """

    corners: tuple[float, float, float, float] = (0.57, 0.19, 0.19, 0.05)

    def _ends(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        largest = int((self.communities.bounds[1:] - self.communities.bounds[:-1]).max())
        levels = max(1, math.ceil(math.log2(max(2, largest))))
        a, b, c, _ = self.corners
        first = torch.zeros(count, dtype=torch.float64, device=generator.device)
        second = torch.zeros_like(first)
        for level in range(levels):
            width = 0.5 ** (level + 1)
            quarter = self._uniform(count, generator)
            lower = quarter >= a + b  # the last two quarters
            right = ((quarter >= a) & ~lower) | (quarter >= a + b + c)
            first += width * lower
            second += width * right
        # Where a community is no power of two, several nodes share the last level.
        spread = 0.5**levels
        first += spread * self._uniform(count, generator)
        second += spread * self._uniform(count, generator)
        return first, second
