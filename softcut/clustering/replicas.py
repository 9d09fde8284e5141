"""The second step of a fit: replicas with K clusters, trained and judged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.batches import Batches
from softcut.clustering.consensus import agreement
from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.prepare import Note, Prepared, budget
from softcut.clustering.sampling import LARGE, sample_rows
from softcut.clustering.settings import Settings
from softcut.ops import Operator, get_objective
from softcut.ops.objectives import edge_count
from softcut.ops.orthogonality import orthogonality, self_gram
from softcut.training import (
    DenseInput,
    FirstLayer,
    Progress,
    ReplicaNet,
    TrainResult,
    TrainSettings,
    replica_losses,
    replica_seeds,
    train,
)

__all__ = ["LEAST", "Replica", "Trained", "train_replicas"]

# The smallest cluster a replica starts with or is held to, as a share of the mean size.
LEAST = 0.25
# L_o beside the evidence, as a share of its weight beside the cut: enough to keep most clusters from being given up,
# and for those replicas that lost one nevertheless.
_HOLD, _FIRM_HOLD = 0.1, 2.0
# A replica of a large graph stops when so many iterations improved its loss by less than so many times the tolerance,
# as a share of the loss.
_PATIENCE, _TIMES = 10, 2.0
# k-means per start of a large graph, of which the best is taken, and nodes that each is found on: replicas are few,
# and a sample costs little.
_TRIES, _START_ROWS = 5, 20_000


@dataclass(frozen=True)
class Replica:
    """How one restart ended: its losses, its evidence, how many clusters it uses, whether it was left out.

    `cut` and `ortho` are the two terms of its own objective: L_c and L_o for the cuts. `hops` is how often the
    features it reads were propagated.
    """

    seed: int
    objective: str
    cut: float
    ortho: float
    evidence: float
    clusters_used: int
    collapsed: bool
    hops: int = 0

    @property
    def loss(self) -> float:
        """L_c + L_o, or the loss of another objective."""
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
        Score by number of clusters, where several were compared; see :mod:`softcut.clustering.number`.
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
    batches: Batches | None = None,
) -> Trained:
    """Train replicas with K clusters, as many for each objective, from the same starts.

    Parameters
    ----------
    wanted : int, optional
        How many; the settings' number by default, fewer where the budget does not allow them.
    batches : Batches, optional
        The parts that a step trains on; by default all of the graph at once.
    """
    count = _affordable(prepared, k, settings, wanted or settings.n_init, note, batches)
    seeds, distances = replica_seeds(settings.seed, count), len(prepared.encoder.hops)
    objectives = settings.objectives[:count]
    share = -(-count // len(objectives))
    start = (
        _start(prepared.encoded.inputs, _scales(distances, share), k, settings.seed)
        if settings.warm
        else None
    )
    parts: list[_Part] = []
    for i, objective in enumerate(objectives):
        own = seeds[i :: len(objectives)]
        part = _train(
            prepared, k, settings, objective, own, _scales(distances, len(own)), start, callback, batches
        )
        if part.result.iterations > 0:
            parts.append(part)
        if part.result.interrupted:
            break
    if not parts:
        raise KeyboardInterrupt  # nothing was learnt that could be kept
    return _judged(prepared, parts, settings, batches)


@dataclass(frozen=True)
class _Part:
    """Replicas of one objective."""

    net: ReplicaNet
    result: TrainResult
    seeds: list[int]
    objective: str


def _train(
    prepared: Prepared,
    k: int,
    settings: Settings,
    objective: str,
    seeds: list[int],
    scales: list[int],
    start: _Start | None,
    callback: Callable[[Progress], None] | None,
    batches: Batches | None,
) -> _Part:
    given = None if start is None else start.of(scales)

    def trained(members: list[int], hold: float) -> tuple[ReplicaNet, TrainResult]:
        inputs = prepared.encoded.inputs
        net = ReplicaNet(
            in_channels=inputs.in_channels,
            k=k,
            seeds=[seeds[r] for r in members],
            hidden=settings.hidden,
            terms=inputs.terms,
            scales=[scales[r] for r in members],
        ).to(prepared.device)
        labels, sizes = (None, None) if given is None else (given.labels[members], given.sizes[members])
        if batches is not None:
            firm = hold if objective == "evidence" and sizes is not None else 0.0
            return net, batches.train(
                net, prepared, settings.training(objective), callback, start=labels, sizes=sizes, hold=firm
            )
        # The evidence alone lets go of a cluster that its distance does not show.
        loss = _HeldEvidence(prepared, sizes, hold) if objective == "evidence" and sizes is not None else None
        result = train(
            net,
            inputs,
            prepared.op,
            _schedule(prepared, settings, objective),
            callback,
            start=labels,
            sizes=sizes,
            loss=loss,
            adjacency=prepared.adjacency,
            words=prepared.words,
        )
        return net, result

    net, result = trained(list(range(len(seeds))), _HOLD)
    if objective == "evidence" and given is not None and not result.interrupted:
        hard = _assigned(net, prepared, settings, batches).argmax(-1)
        lost = [r for r, used in enumerate(_clusters_used(hard, k)) if used < k]
        if lost:
            net, result = _replaced(net, result, lost, *trained(lost, _FIRM_HOLD))
    return _Part(net, result, seeds, objective)


def _schedule(prepared: Prepared, settings: Settings, objective: str) -> TrainSettings:
    """How replicas of one objective are trained; those of a large graph stop one by one."""
    chosen = settings.training(objective)
    if prepared.encoded.graph.num_nodes <= LARGE or chosen.tolerance is None:
        return chosen
    # A GPU records the step again whenever replicas have left: rarely.
    every = 20 if prepared.device.type == "cuda" else 5
    tolerance = _TIMES * chosen.tolerance
    return replace(chosen, tolerance=tolerance, patience=_PATIENCE, check_every=every, one_by_one=True)


def _clusters_used(hard: Tensor, k: int) -> list[int]:
    """How many clusters each replica [N, R] uses."""
    return [int((torch.bincount(column, minlength=k) > 0).sum()) for column in hard.mT]


def _replaced(
    net: ReplicaNet, result: TrainResult, members: list[int], new: ReplicaNet, new_result: TrainResult
) -> tuple[ReplicaNet, TrainResult]:
    """Some of the replicas in the form of a second training, each where the first one stood."""
    if new_result.interrupted:  # half a second training is worth less than a whole first one
        return net, replace(result, interrupted=True)
    place = {r: len(net.scales) + i for i, r in enumerate(members)}
    order = [place.get(r, r) for r in range(len(net.scales))]
    first, second = net.state_dict(), new.state_dict()
    state = {name: torch.cat([first[name], second[name]])[order].cpu() for name in first}
    restored = ReplicaNet.restore(net.meta(), state).to(next(net.parameters()).device)
    return restored, _joined_results([result, new_result], order)


class _HeldEvidence:
    """Minus the evidence, and the L_o that holds clusters to the sizes of the start."""

    def __init__(self, prepared: Prepared, sizes: Tensor, hold: float) -> None:
        self.adjacency, self.words = prepared.adjacency, prepared.words
        self.edges = edge_count(self.adjacency)
        self.all = self.sizes = sizes
        self.hold = hold

    def __call__(self, op: Operator, s: Tensor) -> tuple[Tensor, Tensor]:
        found, _ = replica_losses(self.adjacency, s, "evidence", words=self.words, num_edges=self.edges)
        return found, self.hold * orthogonality(self_gram(op.layout, s), self.sizes).mean(0)

    def select(self, active: Tensor) -> None:
        """Some of the replicas only."""
        self.sizes = self.all[active]


def _assigned(net: ReplicaNet, prepared: Prepared, settings: Settings, batches: Batches | None) -> Tensor:
    if batches is not None:
        return batches.assign(net, prepared, settings.temperature)
    return net.assign(prepared.encoded.inputs, settings.temperature)


def _judged(prepared: Prepared, parts: list[_Part], settings: Settings, batches: Batches | None) -> Trained:
    net, order = _joined_nets([part.net for part in parts])
    net = net.to(prepared.device)
    s = _assigned(net, prepared, settings, batches)
    hard = s.argmax(-1)
    nmi, ari = agreement(hard, net.k)
    evidence = prepared.judge(hard, net.k).value.tolist()
    seeds = [seed for part in parts for seed in part.seeds]
    family = [part.objective for part in parts for _ in part.seeds]
    family, seeds = [family[i] for i in order], [seeds[i] for i in order]
    cut, ortho = _losses(prepared, s, family)
    used = _clusters_used(hard, net.k)
    hops = [prepared.encoder.hops[scale] for scale in net.scales]
    replicas = [
        Replica(seeds[r], family[r], cut[r], ortho[r], evidence[r], used[r], used[r] < net.k, hops[r])
        for r in range(net.replicas)
    ]
    return Trained(net, _joined_results([part.result for part in parts], order), s, nmi, ari, replicas)


def _losses(prepared: Prepared, s: Tensor, family: list[str]) -> tuple[list[float], list[float]]:
    """The two terms of every replica's own objective.

    With equal sizes in L_o, so that replicas that are held to different ones can be compared.
    """
    cut, ortho = [0.0] * len(family), [0.0] * len(family)
    for objective in set(family):
        members = [r for r, name in enumerate(family) if name == objective]
        op = prepared.op if get_objective(objective).normalised else prepared.adjacency
        found = replica_losses(op, s[:, members], objective, words=prepared.words)
        for r, first, second in zip(members, *(terms.tolist() for terms in found), strict=True):
            cut[r], ortho[r] = first, second
    return cut, ortho


def _joined_nets(nets: list[ReplicaNet]) -> tuple[ReplicaNet, list[int]]:
    """The replicas of all, in rising order of their scales, and that order."""
    scales = [scale for net in nets for scale in net.scales]
    order = sorted(range(len(scales)), key=lambda r: scales[r])
    if len(nets) == 1:
        return nets[0], order
    states = [net.state_dict() for net in nets]
    state = {name: torch.cat([s[name] for s in states])[order].cpu() for name in states[0]}
    return ReplicaNet.restore({**nets[0].meta(), "scales": [scales[r] for r in order]}, state), order


def _joined_results(results: list[TrainResult], order: list[int]) -> TrainResult:
    """Histories side by side; the shorter ones hold their last value."""
    most = max(result.iterations for result in results)

    def stretch(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, np.repeat(values[-1:], most - len(values), axis=0)])

    return TrainResult(
        np.concatenate([stretch(result.cut) for result in results], axis=1)[:, order],
        np.concatenate([stretch(result.ortho) for result in results], axis=1)[:, order],
        most,
        all(result.converged for result in results),
        any(result.interrupted for result in results),
    )


def _affordable(
    prepared: Prepared, k: int, settings: Settings, wanted: int, note: Note, batches: Batches | None = None
) -> int:
    """As many replicas as the budget allows, and at least four (or as many as were asked for)."""
    n = max(1, prepared.encoded.graph.num_nodes // (1 if batches is None else batches.parts.steps))
    device = prepared.device if batches is None else batches.device
    most = max(4, budget(device)[0] // (n * (settings.hidden + k)))
    if most < wanted:
        each = "" if batches is None else " per step"
        note(f"{most} replicas instead of {wanted}: {n:,} nodes{each}, to stay within memory and time.")
    return min(wanted, most)


def _scales(distances: int, replicas: int) -> list[int]:
    """As many replicas for each distance; where there are few, they read the middle ones."""
    order = sorted(range(distances), key=lambda i: abs(i - distances / 2))
    return sorted(order[i % distances] for i in range(replicas))


@dataclass(frozen=True)
class _Start:
    """Where replicas begin: labels [R, N] at rising scales, and the cluster sizes [R, K] that L_o holds them to."""

    scales: list[int]
    labels: Tensor
    sizes: Tensor

    def of(self, scales: list[int]) -> _Start:
        """As many of them at each scale as asked for."""
        places = [self.scales.index(scale) + scales[:i].count(scale) for i, scale in enumerate(scales)]
        return _Start(scales, self.labels[places], self.sizes[places])


def _start(inputs: FirstLayer, scales: list[int], k: int, seed: int) -> _Start:
    """For each replica a k-means of the features at its own scale."""
    assert isinstance(inputs, DenseInput)
    labels = []
    n = inputs.z.shape[1]
    tries = 2 if n <= LARGE else _TRIES
    for scale, members in itertools.groupby(scales):
        count = len(list(members))
        every = inputs.z[scale]
        z = (
            every
            if n <= LARGE
            else every[sample_rows(n, _START_ROWS, random_state=seed, device=every.device)]
        )
        found, centres = kmeans_restarts(
            z, k, tries * count, max_iter=30, least=LEAST * len(z) / k, random_state=seed + scale
        )
        own = centres.gather(1, found.unsqueeze(-1).expand(-1, -1, z.shape[1]))
        error = (z - own).square().sum((1, 2))
        better = error.view(count, tries).argmin(1) + tries * torch.arange(count, device=z.device)
        labels.append(found[better] if z is every else assign(every, centres[better]))
    start = torch.cat(labels)
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).to(z.dtype)
    return _Start(scales, start, sizes.clamp(min=LEAST * n / k))
