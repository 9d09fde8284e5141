"""What the networks read: features propagated over several distances, part by part.

Statistics of all nodes (centre, lengths, a k-means) are those of a sample of nodes that does not depend on how the
graph was divided; graphs of up to 16,384 nodes are their own sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from softcut.io.parts import Part
from softcut.ops.halo import Group, Halo
from softcut.ops.operator import inverse_sqrt

__all__ = [
    "COLUMNS_AT_ONCE",
    "PaperInput",
    "Sample",
    "Start",
    "distances",
    "kmeans_start",
    "replica_scales",
    "shared_centres",
]

SAMPLE = 16_384
# Rows longer than this many times the median are shortened: after many hops isolated nodes would be all one sees.
_CLIP = 2.0
# The smallest cluster that L_o holds a replica to, as a share of the mean size.
_LEAST = 0.25
# Rows of this many columns or more are directions, and get unit length.
_MANY_COLUMNS = 16
# Columns and rows that are propagated and scaled at a time: one copy of the features in float64, and no more.
COLUMNS_AT_ONCE = 16
_ROWS_AT_ONCE = 1 << 16


class Sample:
    """Some rows of all processes, the same on each of them and however the nodes are divided.

    Parameters
    ----------
    part : Part
        The nodes of this process.
    nodes : int
        Nodes of the whole graph.
    group : Group
        The processes.
    """

    def __init__(self, part: Part, nodes: int, group: Group, count: int = SAMPLE) -> None:
        chosen = np.arange(nodes)
        if nodes > count:
            chosen = np.sort(np.random.default_rng(0).choice(nodes, count, replace=False, shuffle=False))
        place = np.searchsorted(chosen, part.nodes)
        mine = np.flatnonzero(chosen[np.minimum(place, len(chosen) - 1)] == part.nodes)
        self.size, self._group = len(chosen), group
        self._rows, self._place = torch.from_numpy(mine), torch.from_numpy(place[mine])

    def __call__(self, values: Tensor) -> Tensor:
        """The sampled rows [size, ...] of a tensor that each process has its own rows of."""
        rows = self._rows.to(values.device)
        out = values.new_zeros(self.size, *values.shape[1:])
        out[self._place.to(values.device)] = values[rows]
        return self._group.all_reduce(out)  # every row is there once: the sum is the row


class PaperInput:
    """A~ X T_m + X T_s, the first layer of the paper's network, with A~ X computed once.

    Parameters
    ----------
    op : Halo
        A (normalised here).
    x : Tensor
        Features of the own nodes, rows that sum to one.
    """

    terms = 2

    def __init__(self, op: Halo, x: Tensor) -> None:
        self.in_channels = x.shape[1]
        self.x = torch.cat([op.normalise() @ x, x], dim=1)

    def __call__(self, weights: list[Tensor], scales: Sequence[int]) -> Tensor:
        replicas, hidden, columns = weights[0].shape
        flat = [w.reshape(-1, columns) for w in weights]
        return (torch.cat(flat, dim=1) @ self.x.mT).view(replicas, hidden, -1)


def distances(op: Halo, x: np.ndarray, hops: Sequence[int], sample: Sample, dtype: torch.dtype) -> Tensor:
    """Z [scales, n, F]: P^h X for each h, P = sym-norm(A + I), centred and scaled as the estimator does.

    Parameters
    ----------
    op : Halo
        A, not normalised.
    x : array
        Features of the own nodes; may be memory-mapped.
    hops : sequence of int
        The distances, rising.
    sample : Sample
        For centre and scale.
    dtype : torch.dtype
        Of the result; computed in float64, because far hops differ in few digits.
    """
    far = torch.from_numpy(np.array(x, dtype=np.float64)).to(op.exchange.send.device)
    scale = inverse_sqrt(op.degree_like(far) + 1).unsqueeze(-1)
    found = torch.empty(len(hops), *far.shape, dtype=dtype, device=far.device)
    for h in range(max(hops) + 1):
        if h:
            for columns in far.split(COLUMNS_AT_ONCE, dim=1):  # views: a few columns at a time, in place
                inner = scale * columns
                columns.copy_(scale * (op @ inner + inner))
        if h in hops:
            _evenly_scaled(far, sample, found[hops.index(h)])
    return found


def _evenly_scaled(far: Tensor, sample: Sample, out: Tensor) -> None:
    """Into `out`: rows of unit length where there are many columns; centred, long rows shortened, unit variance on
    average."""
    tiny = torch.finfo(far.dtype).tiny

    def directed(rows: Tensor) -> Tensor:
        many = rows.shape[1] >= _MANY_COLUMNS
        return rows / rows.norm(dim=1, keepdim=True).clamp(min=tiny) if many else rows

    def clipped(rows: Tensor) -> Tensor:
        return rows * (limit / rows.norm(dim=1, keepdim=True).clamp(min=tiny)).clamp(max=1)

    sampled = directed(sample(far))
    centre = sampled.median(0).values
    length = (sampled - centre).norm(dim=1)
    real = length[length > 1e-9 * length.max()]
    limit = _CLIP * (real.median() if real.numel() else length.sum())
    size = float(clipped(sampled - centre).square().sum(1).mean().sqrt())
    scale = far.shape[1] ** 0.5 / size if size > 1e-12 else 0.0
    for begin in range(0, len(far), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        out[rows] = scale * clipped(directed(far[rows]) - centre)


def replica_scales(scales: int, replicas: int) -> list[int]:
    """Which distance each replica reads: as many replicas for each; few replicas read the middle ones.

    >>> replica_scales(6, 3), replica_scales(2, 4)
    ([2, 3, 4], [0, 0, 1, 1])
    """
    order = sorted(range(scales), key=lambda i: abs(i - scales / 2))
    return sorted(order[i % scales] for i in range(replicas))


@dataclass(frozen=True)
class Start:
    """Where replicas begin: labels [R, n] of the own nodes, and the sizes [R, K] that L_o holds clusters to."""

    labels: Tensor
    sizes: Tensor


def kmeans_start(
    z: Tensor, scales: Sequence[int], k: int, nodes: int, sample: Sample, group: Group, seed: int
) -> Start:
    """A k-means of the sample for each replica, at its own distance; each node goes to its nearest centre."""
    labels = []
    for scale, members in itertools.groupby(scales):
        for member in range(len(list(members))):
            centres = shared_centres(z[scale], k, sample, group, seed + 1000 * member + scale)
            # |z - c|^2 up to |z|^2, which is the same for all centres.
            labels.append((centres.square().sum(1) - 2 * z[scale] @ centres.mT).argmin(1))
    start = torch.stack(labels)
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).to(z.dtype)
    return Start(start, group.all_reduce(sizes).clamp(min=_LEAST * nodes / k))


def shared_centres(
    rows: Tensor, k: int, sample: Sample, group: Group, seed: int, restarts: int = 2
) -> Tensor:
    """Centres [K, C] of the best of some k-means of the sampled rows, the same on every process."""
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    chosen = sample(rows)
    centres = torch.zeros(k, rows.shape[1], dtype=torch.float64, device=rows.device)
    if group.rank == 0:  # the others add zeros: all have the same numbers, on unlike machines too
        with threadpool_limits(1):
            model = KMeans(k, n_init=restarts, max_iter=30, random_state=seed).fit(
                chosen.double().cpu().numpy()
            )
        centres += torch.from_numpy(model.cluster_centers_).to(rows.device)
    return group.all_reduce(centres).to(rows.dtype)
