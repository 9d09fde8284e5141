"""One fit from graph to labels: networks where nodes have features, the edges alone where they have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.batches import make_batches, nodes_per_step
from softcut.clustering.choose_k import Candidate, candidate, choose
from softcut.clustering.consensus import agreement, mean_agreement
from softcut.clustering.edges import edge_clusters, shares
from softcut.clustering.merge import by_size, merge
from softcut.clustering.model import LearnedModel, PlacedModel, signature, spread
from softcut.clustering.networks import Networks, train_networks
from softcut.clustering.prepare import (
    READS_FEATURES,
    Note,
    at_most_one,
    featureless,
    left_out_of_large,
    prepare,
    silence_rule,
    silent_nodes,
    without,
)
from softcut.clustering.recipe import Recipe
from softcut.graph import Graph
from softcut.metrics import Evidence, Judge
from softcut.ops import CSR
from softcut.training import Progress

__all__ = ["Fitted", "Task", "fit"]


@dataclass(frozen=True)
class Task:
    """What a fit is asked to do."""

    numbers: tuple[int, ...]  # numbers of clusters to compare; one where it is known
    may_be_one: bool  # whether a single cluster may be the answer to several numbers
    recipe: Recipe  # how
    seed: int  # what all random numbers are drawn from
    batch_size: int | str | None  # nodes that a step of the training takes
    device: torch.device  # where to compute
    note: Note  # told what was decided
    callback: Callable[[Progress], None] | None = None  # told how the training goes on


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


def fit(whole: Graph, task: Task) -> Fitted:
    """Cluster a graph, or several as one batch."""
    rule = silence_rule(whole)
    silent = silent_nodes(whole, rule)
    if silent.all():
        silent = np.zeros_like(silent)
    graph = without(whole, silent) if silent.any() else whole
    reason = featureless(graph)
    placed = reason is not None and graph.num_graphs == 1
    from_edges = placed and not task.recipe.paper
    if from_edges:
        task.note(f"clusters found from the edges alone, without networks: {reason}.")
    elif reason is None:
        task.note(READS_FEATURES)
    if silent.any():
        task.note(
            f"{int(silent.sum()):,} of {len(silent):,} nodes have neither edges nor features: they were left out "
            "and get the largest cluster, with the same probability for every cluster."
        )
    fitted = _from_edges(graph, task) if from_edges else _from_networks(graph, rule, task)
    soft = spread(fitted.soft, silent) if silent.any() else fitted.soft
    if not placed:
        return replace(fitted, soft=soft)
    # Positions in a graph mean nothing in another one.
    names = None if whole.node_names is None else [str(name) for name in whole.node_names]
    return replace(fitted, soft=soft, model=PlacedModel(soft, names, signature(whole)))


def _from_edges(graph: Graph, task: Task) -> Fitted:
    """Positions, groups, moves and merges; see :mod:`softcut.clustering.edges`."""
    op = at_most_one(CSR.from_graph(graph, device=task.device))
    judge = Judge(graph.adjacency, device=task.device)
    clusters = edge_clusters(op, task.numbers, task.seed, task.recipe)

    def judged(k: int) -> Candidate:
        labels = clusters[k]

        def structure(r: int) -> float:
            return float(judge(labels[:, r], k).structure)

        return candidate(judge(labels, k), agreement(labels, k), structure, task.recipe.width)

    k, candidates = choose(task.numbers, judged, task.recipe, task.may_be_one, task.note)
    one = torch.zeros(graph.num_nodes, 1, dtype=torch.long, device=task.device)
    labels = clusters.get(k, one)
    order = by_size(torch.bincount(labels[:, 0], minlength=k))
    best = torch.from_numpy(np.argsort(order)).to(task.device)[labels[:, 0]]
    soft = shares(op, best, k, task.recipe).cpu().numpy()
    mean = mean_agreement(agreement(labels, k))
    return Fitted(None, soft, judge(best, k), mean, candidates=candidates)


def _from_networks(graph: Graph, rule: str, task: Task) -> Fitted:
    """Encode, train, merge, refine, number by size."""
    recipe, seed, note = task.recipe, task.seed, task.note
    nodes = nodes_per_step(graph, task.batch_size, max(task.numbers), recipe, task.device, note)
    prepared = prepare(graph, recipe, task.device if nodes is None else torch.device("cpu"), note)
    batches = make_batches(prepared, nodes, recipe, seed, task.device, note)
    if graph.num_nodes > recipe.large and not recipe.paper:
        note(left_out_of_large(recipe))
    edge_labels: dict[int, Tensor] = {}
    if (
        len(task.numbers) > 1
        and recipe.edge_starts > 0
        and prepared.one_graph
        and graph.num_nodes <= recipe.large
    ):
        assert isinstance(prepared.adjacency, CSR)
        every = edge_clusters(prepared.adjacency, task.numbers, seed, recipe, quick=True)
        edge_labels = {k: labels[:, 0] for k, labels in every.items()}
    few = replace(recipe, networks=min(recipe.trial_networks, max(2, recipe.networks)))

    def judged(k: int) -> Candidate:
        """What speaks for K, from a few networks; what they note is not told."""
        trial = train_networks(
            prepared, k, few, seed, lambda text: None, batches=batches, edge_labels=edge_labels.get(k)
        )
        full = trial.full  # networks that lost clusters agree easily: they do not count
        if len(full) < 2:
            return {"score": 0.0, "structure": 0.0, "agreement": 0.0, "description_length": 0.0}

        def structure(r: int) -> float:
            return float(prepared.judge(trial.s[:, full[r]].argmax(-1), k).structure)

        return candidate(trial.evidence[full], trial.ari[full][:, full], structure, recipe.width)

    k, candidates = choose(task.numbers, judged, recipe, task.may_be_one, note)
    networks = train_networks(
        prepared, k, recipe, seed, note, task.callback, batches=batches, edge_labels=edge_labels.get(k)
    )
    merged = merge(prepared, networks, recipe, seed, note)
    labels = merged.soft.argmax(1)
    order = by_size(torch.bincount(labels, minlength=k))
    soft = merged.soft.cpu().numpy()[:, order]
    model = LearnedModel(merged.net, prepared.encoder, merged.consensus, merged.refiner, recipe, order, rule)
    evidence, weights = prepared.judge(labels, k), merged.weights.cpu().numpy()
    return Fitted(model, soft, evidence, networks.agreement, networks, weights, candidates)
