"""One fit from graph to labels: networks where nodes have features, the edges alone where they have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.clustering.arguments import note_without_networks, refuse_with_networks
from softcut.clustering.by_edges import fit_edges
from softcut.clustering.consensus import Merged, by_size, merge
from softcut.clustering.fit_task import FitTask, Fitted, Level, Levels, Told
from softcut.clustering.model import LearnedModel, NearestModel, PlacedModel, at_level, signature, spread
from softcut.clustering.nesting import levels_around
from softcut.clustering.networks import (
    Networks,
    agreement,
    make_batches,
    nodes_per_step,
    train_networks,
)
from softcut.clustering.numbers import CANDIDATE, Candidate, candidate, choose
from softcut.clustering.prepare import (
    READS_FEATURES,
    Tell,
    featureless,
    left_out_of_large,
    prepare,
    silence_rule,
    silent_nodes,
    without,
)
from softcut.clustering.recipe import Recipe
from softcut.clustering.starts import Starts
from softcut.communities.weights import heavy_tailed
from softcut.device import threads_for
from softcut.errors import Argument, Note, Sentence
from softcut.graph import Graph
from softcut.metrics import Evidence
from softcut.ops.kernels import mode, use
from softcut.tables.kinds import NUMBER

_SMALL = 1 << 22  # numbers (nodes x networks x units) of a training
_FEW_ITERATIONS = 1000


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
    by_edges = task.use == "edges" and whole.num_graphs == 1 and not task.recipe.paper
    rule = "isolated" if by_edges else silence_rule(whole)
    silent = silent_nodes(whole, rule)
    graph = without(whole, silent) if silent.any() and not silent.all() else whole
    reason = _edges_alone(graph, task)
    placed = reason is not None and graph.num_graphs == 1
    if reason is None:
        task.tell(READS_FEATURES)
    elif placed and not task.recipe.paper:
        task.tell(
            Note("clusters_from", "the clusters come from the edges alone: ", reason, ".", source="edges")
        )
    if silent.any():
        count = int(silent.sum())
        said = (
            f"{count:,} of {len(silent):,} nodes have neither edges nor features: they were left out "
            "and get no cluster (label -1)."
        )
        task.tell(Note("silent_nodes", said, count=count))
    root = heavy_tailed(graph.adjacency.data) and not task.recipe.paper
    if root:
        graph = graph.with_root_weights()
        said = "the weights of edges differ a lot: each counts by its square root."
        task.tell(Note("weights_square_root", said))
    if placed and not task.recipe.paper:
        note_without_networks(task, task.of_networks)
        return _placed(whole, fit_edges(graph, _among(task, silent)), silent)
    refuse_with_networks(task)
    if graph.num_graphs > 1 and task.open:
        said = "several graphs are clustered by one function for all: there are no nested levels."
        task.tell(Note("no_levels", said))
    fitted = _from_networks(graph, rule, task)
    soft = spread(fitted.soft[:0] if silent.all() else fitted.soft, silent)
    model = fitted.model
    if isinstance(model, LearnedModel):
        model.root = root
    if placed:  # the paper's model of a graph without features
        labels = fitted.soft.argmax(1)
        return _placed(whole, replace(fitted, levels=Levels(labels[None], 0, (0.0,))), silent)
    return replace(fitted, soft=soft, silent=silent, levels=_everywhere(fitted.levels, silent))


def _edges_alone(graph: Graph, task: FitTask) -> str | None:
    """Why the clusters come from the edges alone; None where features count."""
    reason = featureless(graph)
    if reason is not None or task.recipe.paper:
        return reason
    if task.use == "edges":
        return "as asked for"
    if graph.neighbors and task.use is None and graph.num_graphs == 1 and (graph.kinds == NUMBER).all():
        said = "they were made from the features, which describe the clusters ("
        return Sentence(said, Argument("use", "both"), " has networks read both)")
    return None


def _among(task: FitTask, silent: np.ndarray) -> FitTask:
    """The task for the nodes that take part."""
    if task.start is None or silent.all() or not silent.any():
        return task
    return replace(task, start=task.start.of(~silent))


def _everywhere(levels: Levels | None, silent: np.ndarray) -> Levels | None:
    """Levels of all nodes; -1 for those that took no part."""
    if levels is None or not silent.any():
        return levels
    labels = np.full((len(levels.labels), len(silent)), -1, dtype=np.int64)
    if not silent.all():
        labels[:, ~silent] = levels.labels
    return replace(levels, labels=labels)


def _placed(whole: Graph, fitted: Fitted, silent: np.ndarray) -> Fitted:
    """With the model that knows where the nodes of this graph are: positions mean nothing in another one."""
    levels = fitted.levels
    assert levels is not None
    finest = levels.labels[-1]
    above = np.tile(np.arange(fitted.soft.shape[1]), (len(levels.labels), 1))
    above[:, finest] = levels.labels
    names = None if whole.node_names is None else [str(name) for name in whole.node_names]
    count = len(silent) if not silent.all() else 0
    rows = np.flatnonzero(~silent) if count else np.zeros(0, dtype=np.int64)
    place = sp.csr_array(
        (np.ones(len(rows), np.float32), (rows, np.arange(len(rows)))), shape=(len(silent), len(rows))
    )
    soft = sp.csr_array(place @ sp.csr_array(fitted.soft)[: len(rows)])
    model: Any = PlacedModel(soft, above, levels.chosen, names, signature(whole))
    if whole.neighbors and whole.x is not None and (whole.kinds == NUMBER).all():
        model = NearestModel.fit(whole, model)
    return replace(
        fitted,
        model=model,
        soft=at_level(soft, above[levels.chosen])[0],
        silent=silent,
        levels=_everywhere(levels, silent),
    )


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

    k = {"coarse": chosen.levels[0], "fine": chosen.levels[-1]}.get(str(task.scale), chosen.k)
    networks, merged, level, order = finished(k, recipe, tell, task.callback)
    fewer = replace(recipe, networks=min(recipe.level_networks, recipe.networks))
    found = [
        level if each == k else finished(each, fewer, lambda note: None)[2]
        for each in (chosen.levels if task.open and graph.num_graphs == 1 else (k,))
    ]
    levels, above = levels_around(found, k)
    model = LearnedModel(merged.net, prepared.encoder, merged.consensus, merged.refiner, order, rule, above)
    return Fitted(
        model,
        level.soft,
        level.evidence,
        networks.agreement,
        networks,
        merged.weights.cpu().numpy(),
        chosen.candidates,
        levels,
        verdict=recipe.verdict(float(level.evidence.structure)),
        interrupted=networks.result.interrupted,
    )
