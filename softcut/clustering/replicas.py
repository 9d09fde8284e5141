"""The second step of a fit: replicas with K clusters, trained in one pass and judged; or several K, compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import agreement
from softcut.clustering.kmeans import kmeans_restarts
from softcut.clustering.prepare import Note, Prepared, budget
from softcut.clustering.settings import Settings
from softcut.training import (
    DenseInput,
    FirstLayer,
    Progress,
    ReplicaNet,
    TrainResult,
    replica_losses,
    replica_seeds,
    train,
)

__all__ = ["Replica", "Trained", "choose_k", "train_replicas"]

# Agreements (adjusted Rand index) that differ by less count as equal when numbers of clusters are compared.
_AUTO_MARGIN = 0.015
_AUTO_REPLICAS = 8
# The smallest cluster a replica starts with or is held to, as a share of the mean size.
_LEAST = 0.25


@dataclass(frozen=True)
class Replica:
    """How one restart ended: its losses, how many clusters it uses, whether it was left out."""

    seed: int
    cut: float
    ortho: float
    clusters_used: int
    collapsed: bool

    @property
    def loss(self) -> float:
        """L_c + L_o."""
        return self.cut + self.ortho


@dataclass
class Trained:
    """Replicas after training, with their soft assignments and how they agree.

    Attributes
    ----------
    net : ReplicaNet
        The networks.
    result : TrainResult
        Losses at every iteration.
    s : Tensor
        [N, R, K] soft assignments.
    nmi, ari : Tensor
        [R, R] agreement of each pair.
    replicas : list of Replica
        How each ended.
    candidates : dict
        Agreement by number of clusters, where several were compared.
    """

    net: ReplicaNet
    result: TrainResult
    s: Tensor
    nmi: Tensor
    ari: Tensor
    replicas: list[Replica]
    candidates: dict[int, float] = field(default_factory=dict)

    @property
    def k(self) -> int:
        return self.net.k

    @property
    def full(self) -> list[int]:
        """The replicas that use every cluster."""
        return [r for r, replica in enumerate(self.replicas) if not replica.collapsed]

    def mean_agreement(self, among: Sequence[int] | None = None) -> float:
        """Mean adjusted Rand index over pairs of replicas; 0 if all of them lost clusters."""
        if not self.full:
            return 0.0  # partitions with a single cluster agree without saying anything
        ari = self.ari if among is None else self.ari[list(among)][:, list(among)]
        r = ari.shape[0]
        return 1.0 if r == 1 else float((ari.sum() - ari.diagonal().sum()) / (r * (r - 1)))


def train_replicas(
    prepared: Prepared,
    k: int,
    settings: Settings,
    note: Note,
    callback: Callable[[Progress], None] | None = None,
    wanted: int | None = None,
    more_of: Trained | None = None,
) -> Trained:
    """Train replicas with K clusters.

    Parameters
    ----------
    wanted : int, optional
        How many; the settings' number by default, fewer where the budget does not allow them.
    more_of : Trained, optional
        Replicas with the same K that are trained already: only the missing ones are added.
    """
    count = _affordable(prepared, k, settings, wanted or settings.n_init, note)
    seeds, scales = replica_seeds(settings.seed, count), _scales(len(prepared.encoder.hops), count)
    done = 0 if more_of is None else more_of.net.replicas
    if more_of is not None and done >= count:
        return more_of
    if more_of is not None:
        for scale in more_of.net.scales:
            scales.remove(scale)
    inputs = prepared.encoded.inputs
    net = ReplicaNet(
        in_channels=inputs.in_channels,
        k=k,
        seeds=seeds[done:],
        hidden=settings.hidden,
        terms=inputs.terms,
        scales=scales,
    ).to(prepared.device)
    start, sizes = _start(inputs, net, k, settings.seed + 1000 * done) if settings.warm else (None, None)
    result = train(net, inputs, prepared.op, settings.train, callback, start=start, sizes=sizes)
    if result.iterations == 0:
        raise KeyboardInterrupt  # nothing was learnt that could be kept
    if more_of is not None:
        net, order = _joined_nets(more_of.net, net)
        net = net.to(prepared.device)
        result = _joined_results(more_of.result, result, order)
        seeds = [seeds[i] for i in order]
    return _judged(prepared, net, result, seeds, settings)


def _judged(
    prepared: Prepared, net: ReplicaNet, result: TrainResult, seeds: list[int], settings: Settings
) -> Trained:
    s = net.assign(prepared.encoded.inputs, settings.temperature)
    hard = s.argmax(-1)
    nmi, ari = agreement(hard, net.k)
    # Judged with equal sizes in L_o, so that replicas that are held to different ones can be compared.
    cut, ortho = (loss.tolist() for loss in replica_losses(prepared.op, s, settings.train.objective))
    used = [int(torch.unique(hard[:, r]).numel()) for r in range(net.replicas)]
    replicas = [Replica(seeds[r], cut[r], ortho[r], used[r], used[r] < net.k) for r in range(net.replicas)]
    return Trained(net, result, s, nmi, ari, replicas)


def _joined_nets(first: ReplicaNet, second: ReplicaNet) -> tuple[ReplicaNet, list[int]]:
    """The replicas of both, in rising order of their scales, and that order."""
    scales = [*first.scales, *second.scales]
    order = sorted(range(len(scales)), key=lambda r: scales[r])
    states = first.state_dict(), second.state_dict()
    state = {name: torch.cat([s[name] for s in states])[order].cpu() for name in states[0]}
    return ReplicaNet.restore({**first.meta(), "scales": [scales[r] for r in order]}, state), order


def _joined_results(first: TrainResult, second: TrainResult, order: list[int]) -> TrainResult:
    """Histories side by side; the shorter one holds its last value."""
    most = max(first.iterations, second.iterations)

    def stretch(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.repeat(values[-1:], most - len(values), axis=0)])

    cut = np.concatenate([stretch(first.cut), stretch(second.cut)], axis=1)[:, order]
    ortho = np.concatenate([stretch(first.ortho), stretch(second.ortho)], axis=1)[:, order]
    return TrainResult(
        cut, ortho, most, first.converged and second.converged, first.interrupted or second.interrupted
    )


def _affordable(prepared: Prepared, k: int, settings: Settings, wanted: int, note: Note) -> int:
    """As many replicas as the budget allows, and at least four (or as many as were asked for)."""
    n = max(1, prepared.encoded.graph.num_nodes)
    most = max(4, budget(prepared.device)[0] // (n * (settings.hidden + k)))
    if most < wanted:
        note(f"{most} replicas instead of {wanted}: {n:,} nodes, to stay within memory and time.")
    return min(wanted, most)


def _scales(distances: int, replicas: int) -> list[int]:
    """As many replicas for each distance; where there are few, they read the middle ones."""
    order = sorted(range(distances), key=lambda i: abs(i - distances / 2))
    return sorted(order[i % distances] for i in range(replicas))


def _start(inputs: FirstLayer, net: ReplicaNet, k: int, seed: int) -> tuple[Tensor, Tensor]:
    """Where each replica begins: a k-means of the features at its own scale, and its cluster sizes."""
    assert isinstance(inputs, DenseInput)
    labels = []
    n = inputs.z.shape[1]
    for scale, members in itertools.groupby(net.scales):
        count = len(list(members))
        z = inputs.z[scale]
        found, centres = kmeans_restarts(
            z, k, 2 * count, max_iter=30, least=_LEAST * n / k, random_state=seed + scale
        )
        own = centres.gather(1, found.unsqueeze(-1).expand(-1, -1, z.shape[1]))
        error = (z - own).square().sum((1, 2))
        better = error.view(count, 2).argmin(1) + 2 * torch.arange(count, device=z.device)
        labels.append(found[better])
    start = torch.cat(labels)
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).to(z.dtype)
    return start, sizes.clamp(min=_LEAST * n / k)


def choose_k(
    prepared: Prepared, settings: Settings, note: Note, callback: Callable[[Progress], None] | None
) -> Trained:
    """Train a few replicas for each number of clusters, and the rest of them for the one that is chosen.

    Of the numbers on which restarts agree (almost) best, the largest: it says most about the graph.
    """
    few = min(_AUTO_REPLICAS, max(2, settings.n_init))
    agreements: dict[int, float] = {}
    best: dict[int, Trained] = {}
    for k in settings.candidates:
        trained = train_replicas(prepared, k, settings, lambda text: None, None, wanted=few)
        # Replicas that lost clusters agree easily: they do not count.
        full = trained.full
        agreements[k] = trained.mean_agreement(full) if len(full) > 1 else 0.0
        best[k] = trained
        good = max(agreements.values()) - _AUTO_MARGIN
        best = {c: kept for c, kept in best.items() if agreements[c] >= good}  # only these can be chosen
    if max(agreements.values()) <= 0:
        k = min(agreements)
        note(
            f"n_clusters: no number from {k} to {max(agreements)} is better than another: restarts do not agree on "
            f"any of them; {k} was taken."
        )
        return _with_candidates(train_replicas(prepared, k, settings, note, callback), agreements)
    k = max(best)
    note(
        f"n_clusters: {k} chosen from {min(agreements)} to {max(agreements)}, where restarts agree best "
        f"(adjusted Rand index {agreements[k]:.2f})."
    )
    return _with_candidates(
        train_replicas(prepared, k, settings, note, callback, more_of=best[k]), agreements
    )


def _with_candidates(trained: Trained, agreements: dict[int, float]) -> Trained:
    trained.candidates = agreements
    return trained
