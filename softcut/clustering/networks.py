"""The second step of a fit: networks with K clusters, all trained at once, and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softcut.clustering.prepare import Prepared, Tell
from softcut.clustering.recipe import Recipe
from softcut.clustering.starts import Start, Starts, even_scales
from softcut.device import memory_of
from softcut.errors import Detail, Note, ParameterError
from softcut.graph import Graph
from softcut.metrics import Evidence
from softcut.metrics.features import presence
from softcut.ops import Words, get_objective
from softcut.tables.arrays import plural
from softcut.training import (
    Parts,
    Progress,
    ReplicaNet,
    TrainResult,
    assign_in_chunks,
    replica_losses,
    replica_seeds,
    train,
    train_in_batches,
)

_COPIES = 10  # of its assignments and tables that the training holds at a time, as measured
_ROWS = 50_000  # rows that agreements are counted on
_NO_WEIGHT = 1e-3  # a network with less is left out


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


# From the networks and their start to their losses at every iteration; the networks are changed in place.
Trainer = Callable[[ReplicaNet, Start | None], TrainResult]


def train_networks(
    prepared: Prepared,
    k: int,
    recipe: Recipe,
    seed: int,
    tell: Tell,
    callback: Callable[[Progress], None] | None = None,
    *,
    batches: Batches | None = None,
    trainer: Trainer | None = None,
    starts: Starts | None = None,
) -> Networks:
    """Train networks with K clusters, from their starts.

    A step trains on some parts of the graph (`batches`) or on all of it; a `trainer` takes the place of both.
    `starts` know what several trainings share.
    """
    count = _affordable(prepared, k, recipe, tell, batches)
    scales = even_scales(len(recipe.distances), count)
    start = None
    if recipe.start == "clusters":
        start = (starts or Starts(prepared, recipe, seed))(k, scales)
    inputs, op, dtype = prepared.encoded.inputs, prepared.encoded.op, prepared.encoded.x.dtype
    seeds = replica_seeds(seed, count)
    net = ReplicaNet(inputs.in_channels, k, seeds, recipe.hidden, inputs.terms, scales=scales, dtype=dtype)
    net = net.to(prepared.device)
    settings = recipe.training(prepared.device if batches is None else batches.device)
    options: dict[str, Any] = {"adjacency": prepared.adjacency}
    options |= {} if start is None else {"start": start.labels, "sizes": start.sizes}
    if trainer is not None:
        result = trainer(net, start)
    elif batches is not None:
        options |= {"words": batches.words, "device": batches.device}
        result = train_in_batches(net, inputs, op, batches.parts, settings, callback, **options)
    else:
        result = train(net, inputs, op, settings, callback, words=prepared.words, **options)
    if result.iterations == 0:
        raise KeyboardInterrupt  # nothing was learnt that could be kept
    if batches is not None:
        s = assign_in_chunks(net, inputs, recipe.temperature, batches.parts.largest_batch, batches.device)
    else:
        s = net.assign(inputs, recipe.temperature)
    return _judged(prepared, net, result, s, seeds, recipe)


def _judged(
    prepared: Prepared, net: ReplicaNet, result: TrainResult, s: Tensor, seeds: list[int], recipe: Recipe
) -> Networks:
    """Networks with the evidence of their labels, their losses, and how well they agree."""
    hard, objective = s.max(-1).indices, recipe.objective
    evidence = prepared.judge(hard, net.k)
    sizes = torch.stack([torch.bincount(column, minlength=net.k) for column in hard.mT])
    used = (prepared.nodes.total(sizes) > 0).sum(1)
    # With equal sizes in L_o, so that networks that are held to different ones can be compared.
    op = prepared.encoded.op.normalise() if get_objective(objective).normalised else prepared.adjacency
    losses = replica_losses(op, s, objective, words=prepared.words, num_edges=prepared.judge.edges)
    columns = (each.tolist() for each in (*losses, evidence.value, used, used < net.k))
    hops = [recipe.distances[scale] for scale in net.scales]
    replicas = [Replica(first, objective, *rest) for first, *rest in zip(seeds, *columns, hops, strict=True)]
    ari = agreement(prepared.nodes.sample(hard, recipe.large), net.k)
    return Networks(net, result, s, evidence, ari, replicas)


def _affordable(prepared: Prepared, k: int, recipe: Recipe, tell: Tell, batches: Batches | None) -> int:
    """As many networks as the budget allows, and at least four (or as many as were asked for)."""
    n = max(1, prepared.nodes.here // (1 if batches is None else batches.parts.steps))
    device = prepared.device if batches is None else batches.device
    budget = recipe.budget(device)
    # Many nodes take time; many clusters take tables of K^2 numbers, too, and there may be one network only.
    least = min(recipe.least_networks, max(1, budget // (4 * k * k)))
    most = max(least, budget // (n * (recipe.hidden + k)))
    if most < recipe.networks:
        each = "" if batches is None else " per step"
        each = each if prepared.nodes.here == prepared.nodes.count else " per process"
        said = (
            f"{plural(most, 'network')} instead of {recipe.networks}: {n:,} nodes{each} in {k:,} clusters, "
        )
        kind = Note if most < min(recipe.least_networks, recipe.networks) else Detail
        tell(
            kind(
                "fewer_networks",
                said + "to stay within memory and time.",
                networks=most,
                wanted=recipe.networks,
            )
        )
    count = min(recipe.networks, most)
    refuse_too_many(k, n, numbers_of_training(n, k, count, recipe), device)
    return count


def numbers_of_training(nodes: int, k: int, networks: int, recipe: Recipe) -> int:
    """About how many numbers a training holds at most: assignments and tables of clusters, with their gradients."""
    return networks * (_COPIES * nodes * (recipe.hidden + k) + _COPIES * k * k)


def refuse_too_many(k: int, nodes: int, numbers: int, device: torch.device) -> None:
    """Refuse more clusters than the memory of the device can hold, before the training."""
    needed, there = 4 * numbers, memory_of(device)
    if needed > there:
        raise ParameterError(
            f"n_clusters is {k:,}, which takes about {needed / 2**30:.3g} GiB with {nodes:,} nodes, and there are "
            f"{there / 2**30:.3g} GiB of memory; ask for fewer clusters.",
            argument="n_clusters",
        )


# ------------------------------------------------------------------------------------------------ mini-batches


@dataclass(frozen=True)
class Batches:
    """How networks are trained on a few parts of a graph at a time; all other steps are computed on the CPU."""

    parts: Parts  # the parts of the graph
    words: list[Words] | None  # what the evidence counts besides edges, part by part
    device: torch.device  # where batches are computed


def nodes_per_step(
    graph: Graph,
    batch_size: int | str | None,
    most_clusters: int,
    recipe: Recipe,
    device: torch.device,
    tell: Tell,
) -> int | None:
    """Nodes of a batch; None where all of the graph is trained at once."""
    if batch_size is None:
        return None
    if graph.num_graphs > 1:
        raise ParameterError(
            f"batch_size is for a single graph, not for {graph.num_graphs}; leave it out, or fit one graph.",
            argument="batch_size",
        )
    wanted = batch_size
    if isinstance(wanted, str):
        numbers = recipe.networks * (recipe.hidden + most_clusters)
        wanted = max(recipe.least_batch, recipe.budget(device) // numbers)
    if wanted < graph.num_nodes:
        return wanted
    if batch_size != "auto":
        said = f"batch_size has no effect: the graph has only {graph.num_nodes:,} nodes."
        tell(Note("batch_size_unused", said, nodes=graph.num_nodes))
    return None


def make_batches(
    prepared: Prepared, nodes: int | None, recipe: Recipe, seed: int, device: torch.device, tell: Tell
) -> Batches | None:
    """Parts of the graph for batches of that many nodes, and how networks are trained on them; None for all at once."""
    if nodes is None:
        return None
    graph, each = prepared.encoded.graph, recipe.parts_per_step
    assert graph is not None
    count = each * -(-graph.num_nodes // nodes)
    if recipe.batch_parts == "metis":
        kind, parts = "parts found by METIS", Parts.metis(graph.adjacency, count, each, seed)
    else:
        kind, parts = "random parts", Parts.random(graph.num_nodes, count, each, seed)
    said = f"trained on about {nodes:,} of {graph.num_nodes:,} nodes per step: {each} of {count:,} {kind}."
    tell(Detail("trained_in_batches", said, nodes=nodes, parts=count))
    words = None
    if prepared.words is not None:
        assert parts.order is not None
        present = presence(graph.x, graph.kinds)[parts.order.numpy()]
        words = [Words(present[parts.rows(p)]) for p in range(count)]
    return Batches(parts, words, device)


# ------------------------------------------------------------------------------------------------ judging


def agreement(hard: Tensor, k: int) -> Tensor:
    """Adjusted Rand index [R, R] of every pair of clusterings, whose labels are `hard` [N, R]."""
    hard = hard[:: max(1, hard.shape[0] // _ROWS)]
    n, r = hard.shape
    indicator = torch.zeros(n, r, k, device=hard.device).scatter_(2, hard.unsqueeze(-1), 1.0)

    def pairs(count: Tensor) -> Tensor:
        count = count.double()
        return count * (count - 1) / 2

    # One clustering with all, in turn: all with all at once would take (R K)^2 numbers.
    flat = indicator.view(n, r * k)
    together = torch.stack([pairs(each.mT @ flat).view(k, r, k).sum((0, 2)) for each in indicator.unbind(1)])
    own = pairs(indicator.sum(0)).sum(1)
    expected = torch.outer(own, own) / pairs(torch.tensor(max(2.0, float(n))))
    most = (own.unsqueeze(0) + own.unsqueeze(1)) / 2
    room = most - expected
    differs = room.abs() > 1e-9
    return torch.where(differs, (together - expected) / torch.where(differs, room, 1.0), 1.0)


def mean_agreement(ari: Tensor) -> float:
    """The mean of agreements [R, R] over pairs of different clusterings; 1 where there is only one."""
    r = len(ari)
    return 1.0 if r == 1 else float((ari.sum() - ari.diagonal().sum()) / (r * (r - 1)))


def evidence_weights(evidence: Evidence, width: float) -> Tensor:
    """Weights [R] that sum to one: in proportion to exp(-((e_max - e) / (width e_max))^2), e the evidence of a network.

    All are equal where none explains more than it costs.
    """
    value = evidence.value.double()
    most = value.max()
    behind = torch.where(most > 0, (most - value) / (width * most), 0.0)
    weight = torch.exp(-behind.square())
    weight = torch.where(weight < _NO_WEIGHT, 0.0, weight)
    return (weight / weight.sum()).float()
