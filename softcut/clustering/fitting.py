"""One fit from graph to labels: networks where nodes have features, the edges alone where they have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import Merged, by_size, merge
from softcut.clustering.edges import EdgeClusters, numbers_of_merges, shares
from softcut.clustering.model import LearnedModel, PlacedModel, labels_of, signature, spread
from softcut.clustering.networks import (
    Networks,
    agreement,
    make_batches,
    mean_agreement,
    nodes_per_step,
    refuse_too_many,
    train_networks,
)
from softcut.clustering.numbers import CANDIDATE, Candidate, candidate, choose
from softcut.clustering.prepare import (
    READS_FEATURES,
    Tell,
    at_most_one,
    featureless,
    left_out_of_large,
    prepare,
    silence_rule,
    silent_nodes,
    without,
)
from softcut.clustering.recipe import Recipe
from softcut.clustering.starts import Starts
from softcut.device import threads_for
from softcut.errors import Note
from softcut.graph import Graph
from softcut.metrics import Evidence, Judge
from softcut.ops import CSR
from softcut.ops.kernels import mode, use
from softcut.training import Progress

Told = Callable[[Progress], None] | None
_SMALL = 1 << 22  # numbers (nodes x networks x units) of a training
_FEW_ITERATIONS = 1000


@dataclass(frozen=True)
class FitTask:
    """What a fit is asked to do."""

    numbers: tuple[int, ...]  # numbers of clusters to compare; one where it is known
    may_be_one: bool  # whether a single cluster may be the answer to several numbers
    recipe: Recipe  # how
    seed: int  # what all random numbers are drawn from
    batch_size: int | str | None  # nodes that a step of the training takes
    device: torch.device  # where to compute
    tell: Tell  # told what was decided
    callback: Told = None  # told how the training goes on
    comparing: Callable[[int], None] = lambda k: None  # told which of several numbers is looked at
    levels: bool = (
        False  # whether there is a fit for every level, too, not for the number that is chosen only
    )


@dataclass(frozen=True)
class Level:
    """Clusters of one level: what a fit with its number of clusters finds."""

    k: int
    soft: np.ndarray  # [N, K], of all nodes, the largest cluster first
    evidence: Evidence  # of the labels of the nodes that took part
    labels: np.ndarray  # [N]; -1 for a node that took no part


@dataclass(frozen=True)
class Fitted:
    """What a fit found."""

    model: LearnedModel | PlacedModel | None  # what predicts
    soft: np.ndarray  # [N, K], of all nodes, the largest cluster first
    evidence: Evidence  # of the labels of the nodes that took part
    agreement: float  # mean adjusted Rand index between networks, or between clusterings from several starts
    networks: Networks | None = None  # the networks, where there were any
    # Weights of the networks that count in the consensus, and what speaks for each number of clusters, if several.
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    candidates: dict[int, Candidate] = field(default_factory=dict)
    # Where several numbers were compared and the task asks for it: all levels, the coarsest first.
    levels: list[Level] = field(default_factory=list)
    # Nodes [N] with neither edges nor features, which took no part.
    silent: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))


def fit(whole: Graph, task: FitTask) -> Fitted:
    """Cluster a graph, or several as one batch."""
    recipe, k = task.recipe, max(task.numbers)
    numbers = whole.num_nodes * recipe.networks * (recipe.hidden + k)
    # Seconds pass until a kernel is compiled: in a few iterations on a small graph that is never won back.
    brief = numbers < _SMALL and recipe.iterations <= _FEW_ITERATIONS
    with threads_for(numbers, task.device), use("torch" if brief and mode() == "auto" else mode()):
        return _fit(whole, task)


def _fit(whole: Graph, task: FitTask) -> Fitted:
    whole = (
        whole.in_mean_weights()
    )  # a node counts as one edge beside its neighbours: the unit must not matter
    rule = silence_rule(whole)
    silent = silent_nodes(whole, rule)
    graph = without(whole, silent) if silent.any() and not silent.all() else whole
    reason = featureless(graph)
    placed = reason is not None and graph.num_graphs == 1
    from_edges = placed and not task.recipe.paper
    if from_edges:
        said = f"the clusters come from the edges alone: {reason}."
        task.tell(Note("clusters_from", said, source="edges"))
    elif reason is None:
        task.tell(READS_FEATURES)
    if silent.any():
        count = int(silent.sum())
        said = (
            f"{count:,} of {len(silent):,} nodes have neither edges nor features: they were left out "
            "and get no cluster (label -1)."
        )
        task.tell(Note("silent_nodes", said, count=count))
    fitted = _from_edges(graph, task) if from_edges else _from_networks(graph, rule, task)
    soft = spread(fitted.soft[:0] if silent.all() else fitted.soft, silent)
    levels = [
        replace(each, soft=(wide := spread(each.soft, silent)), labels=labels_of(wide, silent))
        for each in fitted.levels
    ]
    fitted = replace(fitted, soft=soft, silent=silent, levels=levels)
    if not placed:
        return fitted
    # Positions in a graph mean nothing in another one.
    names = None if whole.node_names is None else [str(name) for name in whole.node_names]
    return replace(fitted, model=PlacedModel(soft, silent, names, signature(whole)))


def _from_edges(graph: Graph, task: FitTask) -> Fitted:
    """Positions, groups, moves and merges; see :mod:`softcut.clustering.edges`."""
    most, nodes = max(task.numbers), graph.num_nodes
    refuse_too_many(most, nodes, 4 * nodes * most + numbers_of_merges(nodes, most, task.recipe), task.device)
    op = at_most_one(CSR.from_graph(graph, device=task.device))
    judge = Judge(graph.adjacency, device=task.device)
    found = EdgeClusters(op, task.numbers, task.seed, task.recipe)
    settled = cache(found.settled)  # to judge a number, and to end with it

    def judged(k: int, labels: Tensor) -> Candidate:
        return candidate(judge, labels, k, judge(labels, k), agreement(labels, k), task.recipe)

    k, candidates, _ = choose(
        task, begun=lambda k: judged(k, found.begun(k)), ended=lambda k: judged(k, settled(k))
    )
    one = torch.zeros(graph.num_nodes, 1, dtype=torch.long, device=task.device)
    labels = settled(k) if k > 1 else one
    order = by_size(torch.bincount(labels[:, 0], minlength=k))
    best = torch.from_numpy(np.argsort(order)).to(task.device)[labels[:, 0]]
    soft = shares(op, best, k, task.recipe).cpu().numpy()
    mean = mean_agreement(agreement(labels, k))
    return Fitted(None, soft, judge(best, k), mean, candidates=candidates)


def _from_networks(graph: Graph, rule: str, task: FitTask) -> Fitted:
    """Encode, train, merge, refine, number by size."""
    recipe, seed, tell = task.recipe, task.seed, task.tell
    nodes = nodes_per_step(graph, task.batch_size, max(task.numbers), recipe, task.device, tell)
    prepared = prepare(graph, recipe, task.device if nodes is None else torch.device("cpu"), tell)
    batches = make_batches(prepared, nodes, recipe, seed, task.device, tell)
    if graph.num_nodes > recipe.large and not recipe.paper:
        tell(left_out_of_large(recipe))
    few = replace(recipe, networks=min(recipe.trial_networks, max(2, recipe.networks)))
    starts = Starts(prepared, recipe, seed)

    def judged(
        k: int, labels: Tensor, evidence: Evidence, ari: Tensor, full: list[int], iterations: int
    ) -> Candidate:
        """What speaks for K, from labels [N, R]; those of `full` have K clusters: others agree easily."""
        said = dict.fromkeys(CANDIDATE, 0.0)
        if len(full) > 1:
            said = candidate(prepared.judge, labels[:, full], k, evidence[full], ari[full][:, full], recipe)
        return said | {"iterations": float(iterations)}

    def begun(k: int) -> Candidate:
        """From k-means of the features, what networks begin from: it tells numbers apart as well as networks do."""
        labels = starts.of_features(k)
        full = [r for r, each in enumerate(labels.mT) if len(each.unique()) == k]
        ari = agreement(prepared.nodes.sample(labels, recipe.large), k)
        return judged(k, labels, prepared.judge(labels, k), ari, full, 0)

    def trained(k: int) -> Candidate:
        """From a few networks; what they note is not told."""
        ended = train_networks(prepared, k, few, seed, lambda note: None, batches=batches, starts=starts)
        return judged(k, ended.s.argmax(-1), ended.evidence, ended.ari, ended.full, few.iterations)

    features = prepared.encoded.z.shape[-1] > 0  # that k-means can read; the paper's model has none
    chosen = choose(task, begun if features else trained, trained)

    def finished(
        k: int, recipe: Recipe, tell: Tell, callback: Told = None
    ) -> tuple[Networks, Merged, Level, Any]:
        """Networks for K clusters, merged; the clusters in order of their size, and that order."""
        networks = train_networks(prepared, k, recipe, seed, tell, callback, batches=batches, starts=starts)
        merged = merge(prepared, networks, recipe, seed, tell)
        labels = merged.soft.argmax(1)
        order = by_size(torch.bincount(labels, minlength=k))
        soft = merged.soft.cpu().numpy()[:, order]
        return networks, merged, Level(k, soft, prepared.judge(labels, k), soft.argmax(1)), order

    networks, merged, level, order = finished(chosen.k, recipe, tell, task.callback)
    model = LearnedModel(merged.net, prepared.encoder, merged.consensus, merged.refiner, order, rule)
    fewer = replace(recipe, networks=min(recipe.level_networks, recipe.networks))
    levels = [
        level if k == chosen.k else finished(k, fewer, lambda note: None)[2]
        for k in (chosen.levels if task.levels and chosen.candidates else ())
    ]
    weights = merged.weights.cpu().numpy()
    return Fitted(
        model, level.soft, level.evidence, networks.agreement, networks, weights, chosen.candidates, levels
    )
