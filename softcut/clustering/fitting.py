"""One fit from graph to labels: networks where nodes have features, the edges alone where they have none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from softcut.clustering.consensus import by_size, merge
from softcut.clustering.edges import EdgeClusters, numbers_of_merges, shares
from softcut.clustering.model import LearnedModel, PlacedModel, signature, spread
from softcut.clustering.networks import (
    Networks,
    agreement,
    evidence_weights,
    make_batches,
    mean_agreement,
    nodes_per_step,
    refuse_too_many,
    train_networks,
)
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
from softcut.errors import Detail, Note
from softcut.graph import Graph
from softcut.metrics import Evidence, Judge
from softcut.ops import CSR
from softcut.ops.kernels import mode, use
from softcut.training import Progress

# What speaks for a number of clusters, and how long the networks were trained that say so (0: there were none).
CANDIDATE = ("score", "structure", "agreement", "description_length", "iterations")
Candidate = dict[str, float]

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
    callback: Callable[[Progress], None] | None = None  # told how the training goes on
    comparing: Callable[[int], None] = lambda k: None  # told which of several numbers is looked at


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
    fitted = replace(fitted, soft=soft, silent=silent)
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

    k, candidates = choose(
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
    k, candidates = choose(task, begun if features else trained, trained)
    networks = train_networks(prepared, k, recipe, seed, tell, task.callback, batches=batches, starts=starts)
    merged = merge(prepared, networks, recipe, seed, tell)
    labels = merged.soft.argmax(1)
    order = by_size(torch.bincount(labels, minlength=k))
    soft = merged.soft.cpu().numpy()[:, order]
    model = LearnedModel(merged.net, prepared.encoder, merged.consensus, merged.refiner, order, rule)
    evidence, weights = prepared.judge(labels, k), merged.weights.cpu().numpy()
    return Fitted(model, soft, evidence, networks.agreement, networks, weights, candidates)


# ------------------------------------------------------------------------------------- the number of clusters


def candidate(
    judge: Judge, labels: Tensor, k: int, evidence: Evidence, ari: Tensor, recipe: Recipe
) -> Candidate:
    """What speaks for K, from clusterings `labels` [N, R] into it, their evidence and their agreement [R, R].

        score(K) = (G_e + G_x) / (N H^1/2) * agreement

    The first factor is what a clustering explains of edges and features, of the part that pays: it rises with K as
    long as there is more to explain. The second, the mean adjusted Rand index between them, falls as soon as there
    are several equally good ways to divide what belongs together. Both are means weighted by evidence: clusterings of a
    distance without signal do not vote. The structure is that of the clustering with most evidence.
    """
    # Where there is much evidence, clusterings of one kind differ by more than a consensus lets pass.
    width = max(recipe.width, recipe.vote_width * float(evidence.value.max()))
    weight = evidence_weights(evidence, width).double().to(ari.device)
    gain = evidence.paid * evidence.entropy.sqrt()
    pairs = torch.outer(weight, weight).fill_diagonal_(0)
    total = float(pairs.sum())
    agreement = float((pairs * ari).sum()) / total if total > 0 else 0.0
    best = int(evidence.value.argmax())
    return {
        "score": max(0.0, float((weight.to(gain.device) * gain).sum())) * max(0.0, agreement),
        "structure": float(judge(labels[:, best].contiguous(), k).structure),
        "agreement": agreement,
        "description_length": float(evidence.description_length[best]),
        "iterations": 0.0,
    }


def choose(
    task: FitTask, begun: Callable[[int], Candidate], ended: Callable[[int], Candidate]
) -> tuple[int, dict[int, Candidate]]:
    """The number with the highest score, and what speaks for each; a single one is not judged.

    `begun` judges clusterings that are cheap to make, `ended` those of a whole fit, which may explain more. If the task
    allows it, the answer is 1 where nothing explains more than it costs.
    """
    if len(task.numbers) == 1:
        return task.numbers[0], {}
    candidates: dict[int, Candidate] = {}
    for number in task.numbers:
        task.comparing(number)
        candidates[number] = begun(number)
    k = max(candidates, key=lambda c: (candidates[c]["score"], -c))
    if task.may_be_one and begun is not ended and not _something_pays(candidates):
        # Before all are given up, the number that is nearest to paying is looked at closely.
        k = max(candidates, key=lambda c: (candidates[c]["structure"], -c))
        candidates[k] = ended(k)
    first, last = min(candidates), max(candidates)
    best = candidates[k]["score"]
    others: list[int] = []
    if task.may_be_one and not _something_pays(candidates):
        k = 1
        said = (
            f"no division into {first} to {last} clusters explains more than it takes to describe: 1 cluster."
        )
    elif best <= 0:
        said = (
            f"no number of clusters from {k} to {last} stands out: each seed would divide the graph in another way. "
            f"{k} was taken; give the number you want."
        )
    else:
        others = [c for c in _peaks(candidates, task.recipe.supported) if c != k]
        also = f"; also plausible: {', '.join(map(str, others))}" if others else ""
        said = f"{k} clusters fit best of {first} to {last}{also}."
    kind = Detail if k == 1 else Note  # that there are none is said with the verdict
    task.tell(kind("number_of_clusters", said, chosen=k, supported=others))
    if best > 0:
        curve = ", ".join(f"{c}: {each['score'] / best:.2f}" for c, each in candidates.items())
        said = (
            f"evidence times agreement of restarts, by number of clusters, relative to the highest: {curve}."
        )
        task.tell(Detail("scores_of_numbers", said))
    return k, candidates


def _something_pays(candidates: Mapping[int, Candidate]) -> bool:
    return max(each["structure"] for each in candidates.values()) >= 1


def _peaks(candidates: Mapping[int, Candidate], share: float) -> list[int]:
    """Numbers whose score is higher than those of the numbers beside them, and not far below the highest."""
    numbers = sorted(candidates)
    scores = [-1.0, *(candidates[k]["score"] for k in numbers), -1.0]
    beside = zip(numbers, scores, scores[1:], scores[2:], strict=False)
    return [k for k, left, own, right in beside if left < own > right and own >= share * max(scores)]
