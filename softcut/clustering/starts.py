"""What networks begin from: k-means of the features at their own distance, or clusters of the edges."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from softcut.clustering.kmeans import assign, inertias, kmeans_restarts
from softcut.clustering.prepare import Prepared
from softcut.clustering.recipe import Recipe
from softcut.device import shared_threads

if TYPE_CHECKING:  # loads numba, which only starts from the edges need
    from softcut.communities.network import Network

_FEW_NODES = 1500  # with fewer, one start after the other is faster than two at a time
_SAME = 10  # times the rounding unit: sums of squares of the same clusters differ by less


@dataclass(frozen=True)
class Start:
    """What networks learn first: labels [R, n], and the cluster sizes [R, K] that L_o holds them to."""

    labels: Tensor
    sizes: Tensor


def even_scales(distances: int, networks: int) -> list[int]:
    """As many networks for each distance; where there are few, they read the middle ones."""
    order = sorted(range(distances), key=lambda i: abs(i - distances / 2))
    return sorted(order[i % distances] for i in range(networks))


class Starts:
    """The starts of the networks of a fit, for any K; what several trainings share is found once."""

    def __init__(self, prepared: Prepared, recipe: Recipe, seed: int) -> None:
        self._prepared, self._recipe, self._seed = prepared, recipe, seed
        self._large = prepared.nodes.count > recipe.large
        self._known: dict[tuple[int, ...], Tensor] = {}

    @cached_property
    def _network(self) -> Network:
        from softcut.communities.network import Network

        assert self._prepared.encoded.graph is not None
        return Network(self._prepared.encoded.graph.adjacency)

    def _of_edges(self, k: int) -> Tensor:
        """One clustering [N] by the edges, quickly found."""
        from softcut.communities.fixed_number import FixedNumber

        found = FixedNumber(self._network, [k], self._seed, quick=True, pattern="any")
        return torch.from_numpy(found.settled(k)[:, 0].astype("int64"))

    def of_features(self, k: int) -> Tensor:
        """Clusterings [N, R] by k-means of the features at every distance."""
        distances, looks = len(self._recipe.distances), self._recipe.looks
        return self(k, even_scales(distances, max(2, distances, looks)), compare=True).labels.mT.contiguous()

    def __call__(self, k: int, scales: Sequence[int], compare: bool = False) -> Start:
        """A k-means of the features at its distance for each network, for some of them clusters of the edges.

        To `compare` numbers of clusters, all are k-means; as there are many, each is the best of a few tries on a
        sample of many nodes. Where numbers are large each is a single short one on a smaller sample.
        """
        recipe, nodes, z = self._recipe, self._prepared.nodes, self._prepared.encoded.z
        edges = not compare and k > 1 and not self._large and self._prepared.one_graph
        share = recipe.edge_starts if edges else 0.0
        groups = [(scale, len(list(members))) for scale, members in itertools.groupby(scales)]
        # Networks of each distance that begin from their features; the others, at least one of two, from the edges.
        counts = [each - max(round(share * each), int(share > 0 and each > 1)) for _, each in groups]
        quick = compare and k > recipe.few_numbers
        tries = (
            recipe.large_restarts if self._large and not compare else 1 if quick else recipe.start_restarts
        )
        sample = recipe.start_sample if self._large or compare else recipe.large
        sample, rounds = (
            (recipe.quick_sample, recipe.quick_rounds) if quick else (sample, recipe.start_rounds)
        )
        rows = {scale: nodes.sample(z[scale], sample) for scale, _ in groups}  # asks all processes, in order
        # Two at a time: none of them keeps two cores busy, nor a GPU. With few nodes on a CPU, both would wait for
        # Python most of the time.
        jobs_at_once = 1 if nodes.here < _FEW_NODES and z.device.type == "cpu" else 2
        with shared_threads(jobs_at_once), ThreadPoolExecutor(jobs_at_once) as pool:
            if share > 0:
                of_edges = pool.submit(self._of_edges, k)
            jobs = [
                pool.submit(self._centres, rows[scale], scale, k, n, tries, rounds) if n else None
                for (scale, _), n in zip(groups, counts, strict=True)
            ]
        labels = []
        for (scale, each), count, job in zip(groups, counts, jobs, strict=True):
            if share > 0:
                labels.append(of_edges.result().to(z.device).expand(each - count, -1))
            if job is not None:
                labels.append(assign(z[scale], nodes.agreed(job.result())))
        start = torch.cat(labels)
        sizes = torch.stack([torch.bincount(row, minlength=k) for row in start])
        return Start(start, nodes.total(sizes).to(z.dtype).clamp(min=recipe.least * nodes.count / k))

    def _centres(self, rows: Tensor, scale: int, k: int, count: int, tries: int, rounds: int) -> Tensor:
        """Centres [count, K, F] of k-means of the features at one distance, each the best one of a few."""
        key = len(rows), scale, k, count, tries, rounds
        if key not in self._known:
            least = self._recipe.least * len(rows) / k
            _, centres = kmeans_restarts(
                rows, k, tries * count, max_iter=rounds, least=least, random_state=self._seed + scale
            )
            inertia = inertias(rows, centres).view(count, tries)
            # Of restarts that ended in the same clusters the first: rounding, which differs between machines, decides
            # nothing.
            least_one = inertia.amin(1, keepdim=True) * (1 + _SAME * torch.finfo(rows.dtype).eps)
            best = (inertia <= least_one).int().argmax(1)
            self._known[key] = centres[best + tries * torch.arange(count, device=rows.device)]
        return self._known[key]
