"""One fit from graph to labels: networks where nodes have features, the edges alone where they have none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from softcut.clustering.batches import make_batches, nodes_per_step
from softcut.clustering.choose_k import Candidate, candidate, choose
from softcut.clustering.consensus import agreement
from softcut.clustering.edges import edge_clusters, shares
from softcut.clustering.merge import by_size, merge
from softcut.clustering.model import LearnedModel, PlacedModel, signature, spread
from softcut.clustering.networks import Networks, train_networks
from softcut.clustering.prepare import (
    Note,
    at_most_one,
    is_constant,
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
    """What a fit is asked to do.

    Attributes
    ----------
    numbers : tuple of int
        Numbers of clusters to compare; one where it is known.
    may_be_one : bool
        Whether a single cluster may be the answer to several numbers.
    recipe : Recipe
        How.
    seed : int
        What all random numbers are drawn from.
    batch_size : int, "auto" or None
        Nodes that a step of the training takes.
    device : torch.device
        Where to compute.
    note : callable
        Told what was decided.
    callback : callable, optional
        Told how the training goes on.
    """

    numbers: tuple[int, ...]
    may_be_one: bool
    recipe: Recipe
    seed: int
    batch_size: int | str | None
    device: torch.device
    note: Note
    callback: Callable[[Progress], None] | None = None


@dataclass(frozen=True)
class Fitted:
    """What a fit found.

    Attributes
    ----------
    model : LearnedModel or PlacedModel
        What predicts.
    soft : array [N, K]
        Soft clusters of all nodes, the largest cluster first.
    evidence : Evidence
        Of the labels of the nodes that took part.
    agreement : float
        Mean adjusted Rand index between networks, or between clusterings from several starts.
    networks : Networks or None
        The networks, where there were any.
    weights : array
        Of those that count in the consensus.
    candidates : dict
        What speaks for each number of clusters, where several were compared.
    """

    model: LearnedModel | PlacedModel
    soft: np.ndarray
    evidence: Evidence
    agreement: float
    networks: Networks | None = None
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    candidates: dict[int, Candidate] = field(default_factory=dict)


def fit(whole: Graph, task: Task) -> Fitted:
    """Cluster a graph, or several as one batch."""
    rule = silence_rule(whole)
    silent = silent_nodes(whole, rule)
    some = bool(silent.any()) and not silent.all()
    graph = without(whole, silent) if some else whole
    featureless = graph.num_features == 0 or is_constant(graph.x)
    placed = featureless and graph.num_graphs == 1
    from_edges = placed and not task.recipe.paper
    if from_edges:
        why = "no features were given" if graph.num_features == 0 else "all nodes have the same features"
        task.note(f"clusters found from the edges alone, without networks: {why}.")
    elif not featureless:
        task.note("clusters found by networks that read the features of nodes and their neighbours.")
    if some:
        task.note(
            f"{int(silent.sum()):,} of {len(silent):,} nodes have neither edges nor features: they were left out "
            "and get the largest cluster, with the same probability for every cluster."
        )
    if from_edges:
        return _from_edges(whole, graph, silent if some else None, task)
    return _from_networks(whole, graph, silent if some else None, rule, placed, task)


def _from_edges(whole: Graph, graph: Graph, silent: np.ndarray | None, task: Task) -> Fitted:
    """Positions, groups, moves and merges; see :mod:`softcut.clustering.edges`."""
    op = at_most_one(CSR.from_graph(graph, device=task.device))
    judge = Judge(graph.adjacency, device=task.device)
    found = edge_clusters(op, task.numbers, task.seed, task.recipe)
    candidates: dict[int, Candidate] = {}
    k = task.numbers[0]
    if len(task.numbers) > 1:

        def judged(k: int) -> Candidate:
            labels = found[k]

            def structure(r: int) -> float:
                return float(judge(labels[:, r], k).structure)

            return candidate(judge(labels, k), agreement(labels, k), structure, task.recipe.width)

        k, candidates = choose(task.numbers, judged, task.recipe, task.may_be_one, task.note)
    labels = found[k] if k in found else torch.zeros(graph.num_nodes, 1, dtype=torch.long, device=task.device)
    order = by_size(torch.bincount(labels[:, 0], minlength=k))
    best = torch.from_numpy(np.argsort(order)).to(task.device)[labels[:, 0]]
    soft = shares(op, best, k, task.recipe).cpu().numpy()
    pairs = agreement(labels, k)
    r = len(pairs)
    mean = 1.0 if r == 1 else float((pairs.sum() - pairs.diagonal().sum()) / (r * (r - 1)))
    every = soft if silent is None else spread(soft, silent)
    model = PlacedModel(every, _names(whole), signature(whole))
    return Fitted(model, every, judge(best, k), mean, candidates=candidates)


def _from_networks(
    whole: Graph, graph: Graph, silent: np.ndarray | None, rule: str, placed: bool, task: Task
) -> Fitted:
    """Encode, train, merge, refine, number by size."""
    recipe, seed, note = task.recipe, task.seed, task.note
    nodes = nodes_per_step(graph, task.batch_size, max(task.numbers), recipe, task.device, note)
    prepared = prepare(graph, recipe, task.device if nodes is None else torch.device("cpu"), note)
    batches = make_batches(prepared, nodes, recipe, seed, task.device, note)
    if graph.num_nodes > recipe.large and not recipe.paper:
        note(
            f"more than {recipe.large:,} nodes: no network begins from clusters of the edges, medians and centres are "
            "those of a sample, and networks stop one by one."
        )
    candidates: dict[int, Candidate] = {}
    k, edge_labels = task.numbers[0], {}
    if len(task.numbers) > 1:
        few = replace(recipe, networks=min(recipe.trial_networks, max(2, recipe.networks)))
        if recipe.edge_starts > 0 and prepared.one_graph and graph.num_nodes <= recipe.large:
            assert isinstance(prepared.adjacency, CSR)
            every = edge_clusters(prepared.adjacency, task.numbers, seed, recipe, quick=True)
            edge_labels = {k: labels[:, 0] for k, labels in every.items()}

        def judged(k: int) -> Candidate:
            trial = train_networks(
                prepared, k, few, seed, _silent, batches=batches, edge_labels=edge_labels.get(k)
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
    whole_soft = soft if silent is None else spread(soft, silent)
    model: LearnedModel | PlacedModel
    if placed:  # the paper's network on positions, which mean nothing in another graph
        model = PlacedModel(whole_soft, _names(whole), signature(whole))
    else:
        model = LearnedModel(
            merged.net, prepared.encoder, merged.consensus, merged.refiner, recipe, order, rule
        )
    evidence = prepared.judge(labels, k)
    weights = merged.weights.cpu().numpy()
    return Fitted(model, whole_soft, evidence, networks.agreement, networks, weights, candidates)


def _names(graph: Graph) -> list[str] | None:
    return None if graph.node_names is None else [str(name) for name in graph.node_names]


def _silent(text: str) -> None:
    """Notes of a trial are not told."""
