"""The second step of a fit: networks with K clusters, all trained at once, and judged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softcut.clustering.batches import Batches
from softcut.clustering.consensus import agreement, mean_agreement
from softcut.clustering.edges import edge_clusters
from softcut.clustering.kmeans import assign, kmeans_restarts
from softcut.clustering.prepare import Note, Prepared
from softcut.clustering.recipe import Recipe
from softcut.metrics import Evidence
from softcut.ops import CSR, get_objective
from softcut.training import Progress, ReplicaNet, TrainResult, replica_losses, replica_seeds, train

__all__ = ["Networks", "Replica", "Start", "Trainer", "train_networks"]


@dataclass(frozen=True)
class Replica:
    """How one network ended: its losses, its evidence, how many clusters it uses, whether it was left out.

    `cut` and `ortho` are the two terms of its objective: L_c and L_o for the cut, minus the evidence and L_o for the
    evidence. `hops` is how often the features it reads were propagated.
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


@dataclass(frozen=True)
class Networks:
    """Networks after training, with their soft assignments and what these explain."""

    net: ReplicaNet  # the networks
    result: TrainResult  # losses at every iteration
    s: Tensor  # [N, R, K] soft assignments
    evidence: Evidence  # of the labels of each
    ari: Tensor  # [R, R] agreement of each pair
    replicas: list[Replica]  # how each ended

    @property
    def full(self) -> list[int]:
        """The networks that use every cluster."""
        return [r for r, replica in enumerate(self.replicas) if not replica.collapsed]

    @property
    def agreement(self) -> float:
        """Mean adjusted Rand index over pairs of networks; 0 if all of them lost clusters."""
        # Partitions with a single cluster agree without saying anything.
        return mean_agreement(self.ari) if self.full else 0.0


@dataclass(frozen=True)
class Start:
    """What networks learn first: labels [R, n], and the cluster sizes [R, K] that L_o holds them to."""

    labels: Tensor
    sizes: Tensor


# From the networks and their start to their losses at every iteration; the networks are changed in place.
Trainer = Callable[[ReplicaNet, "Start | None"], TrainResult]


def train_networks(
    prepared: Prepared,
    k: int,
    recipe: Recipe,
    seed: int,
    note: Note,
    callback: Callable[[Progress], None] | None = None,
    *,
    batches: Batches | None = None,
    trainer: Trainer | None = None,
    edge_labels: Tensor | None = None,
) -> Networks:
    """Train networks with K clusters, from their starts.

    A step trains on some parts of the graph (`batches`) or on all of it; a `trainer` takes the place of both.
    `edge_labels` are clusters of the edges that some networks begin from, where they are known already.
    """
    count = _affordable(prepared, k, recipe, note, batches)
    scales = _scales(len(prepared.encoder.hops), count)
    start = _starts(prepared, scales, k, recipe, seed, edge_labels) if recipe.start == "clusters" else None
    inputs = prepared.encoded.inputs
    seeds = replica_seeds(seed, count)
    net = ReplicaNet(
        in_channels=inputs.in_channels,
        k=k,
        seeds=seeds,
        hidden=recipe.hidden,
        terms=inputs.terms,
        scales=scales,
        dtype=prepared.encoded.x.dtype,
    ).to(prepared.device)
    settings = recipe.training(prepared.nodes.count, prepared.device if batches is None else batches.device)
    options: dict[str, Any] = {
        "start": None if start is None else start.labels,
        "sizes": None if start is None else start.sizes,
        "adjacency": prepared.adjacency,
    }
    if trainer is not None:
        result = trainer(net, start)
    elif batches is not None:
        result = batches.train(net, prepared.encoded, settings, callback, **options)
    else:
        op = prepared.encoded.op
        result = train(net, inputs, op, settings, callback, words=prepared.words, **options)
    if result.iterations == 0:
        raise KeyboardInterrupt  # nothing was learnt that could be kept
    if batches is not None:
        s = batches.assign(net, inputs, recipe.temperature)
    else:
        s = net.assign(inputs, recipe.temperature)
    return _judged(prepared, net, result, s, seeds, recipe)


def _judged(
    prepared: Prepared, net: ReplicaNet, result: TrainResult, s: Tensor, seeds: list[int], recipe: Recipe
) -> Networks:
    """Networks with the evidence of their labels, their losses, and how well they agree."""
    hard = s.max(-1).indices
    evidence = prepared.judge(hard, net.k)
    sizes = torch.stack([torch.bincount(column, minlength=net.k) for column in hard.mT])
    used = (prepared.nodes.total(sizes) > 0).sum(1).tolist()
    # With equal sizes in L_o, so that networks that are held to different ones can be compared.
    normalised = get_objective(recipe.objective).normalised
    op = prepared.encoded.op.normalise() if normalised else prepared.adjacency
    edges = prepared.judge.edges
    losses = replica_losses(op, s, recipe.objective, words=prepared.words, num_edges=edges)
    cut, ortho = (terms.tolist() for terms in losses)
    hops = [prepared.encoder.hops[scale] for scale in net.scales]
    value = evidence.value.tolist()
    replicas = [
        Replica(seeds[r], recipe.objective, cut[r], ortho[r], value[r], used[r], used[r] < net.k, hops[r])
        for r in range(net.replicas)
    ]
    ari = agreement(prepared.nodes.sample(hard, recipe.large), net.k)
    return Networks(net, result, s, evidence, ari, replicas)


def _affordable(prepared: Prepared, k: int, recipe: Recipe, note: Note, batches: Batches | None) -> int:
    """As many networks as the budget allows, and at least four (or as many as were asked for)."""
    n = max(1, prepared.nodes.here // (1 if batches is None else batches.parts.steps))
    device = prepared.device if batches is None else batches.device
    most = max(recipe.least_networks, recipe.budget(device) // (n * (recipe.hidden + k)))
    if most < recipe.networks:
        each = "" if batches is None else " per step"
        each = each if prepared.nodes.here == prepared.nodes.count else " per process"
        few = f"{most} networks instead of {recipe.networks}"
        note(f"{few}: {n:,} nodes{each}, to stay within memory and time.")
    return min(recipe.networks, most)


def _scales(distances: int, networks: int) -> list[int]:
    """As many networks for each distance; where there are few, they read the middle ones."""
    order = sorted(range(distances), key=lambda i: abs(i - distances / 2))
    return sorted(order[i % distances] for i in range(networks))


def _starts(
    prepared: Prepared, scales: Sequence[int], k: int, recipe: Recipe, seed: int, edge_labels: Tensor | None
) -> Start:
    """For each network a k-means of the features at its own distance; for some the clusters of the edges."""
    z, nodes = prepared.encoded.z, prepared.nodes
    large = nodes.count > recipe.large
    tries = recipe.large_restarts if large else recipe.start_restarts
    share = recipe.edge_starts if not large and k > 1 and prepared.one_graph else 0.0
    if share > 0 and edge_labels is None:
        assert isinstance(prepared.adjacency, CSR)
        edge_labels = edge_clusters(prepared.adjacency, [k], seed, recipe, quick=True)[k][:, 0]
    labels = []
    for scale, members in itertools.groupby(scales):
        each = len(list(members))
        # So many of them begin from their features, the others from the edges: at least one, where there are two.
        count = each - max(round(share * each), int(share > 0 and each > 1))
        if edge_labels is not None:
            labels.append(edge_labels.expand(each - count, -1))
        if count == 0:
            continue
        rows = nodes.sample(z[scale], recipe.start_sample if large else recipe.large)
        least = recipe.least * len(rows) / k
        nearest, centres = kmeans_restarts(
            rows, k, tries * count, max_iter=recipe.start_rounds, least=least, random_state=seed + scale
        )
        own = centres.gather(1, nearest.unsqueeze(-1).expand(-1, -1, rows.shape[1]))
        error = (rows - own).square().sum((1, 2))
        better = error.view(count, tries).argmin(1) + tries * torch.arange(count, device=rows.device)
        labels.append(assign(z[scale], nodes.agreed(centres[better])))
    start = torch.cat(labels)
    sizes = torch.stack([torch.bincount(row, minlength=k) for row in start])
    return Start(start, nodes.total(sizes).to(z.dtype).clamp(min=recipe.least * nodes.count / k))
