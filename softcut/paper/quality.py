"""Beyond the paper: how good the default clustering is, and what each part of it gains.

One set of defaults for all data sets; labels only score. Every baseline stands beside it. The eight data sets
were used while the defaults were developed, so their scores are those of tuning sets, not of a test. PolBlogs,
which has no features, is scored on its nodes with edges: nothing is known about the others.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.baselines import dmon_replicas
from softcut.clustering import GraphClustering, MinCutClustering, Recipe
from softcut.clustering.consensus import refine
from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.prepare import prepare, silence_rule, silent_nodes, without
from softcut.clustering.recipe import DEFAULT
from softcut.datasets import load
from softcut.graph import Graph
from softcut.ops import CSR, dmon_loss
from softcut.paper import commands
from softcut.paper.runs import (
    RunSession,
    Tell,
    baseline,
    cells,
    check_names,
    classes_of,
    estimator_settings,
    keyword_settings,
    quiet,
)
from softcut.report.tables import pivot
from softcut.training import replica_seeds

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "blogcatalog", "physics", "polblogs")
BASELINE_METHODS = ("sc", "kmeans", "kmeans_raw", "leiden", "dmon")

# What is changed from the default, one thing at a time: fields of the recipe.
ABLATIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "no starts from the edges": {"edge_starts": 0.0},
    "starts from the edges only": {"edge_starts": 1.0},
    "random starts": {"start": "random"},
    "features from 2 hops only": {"distances": (2,)},
    "features from 8 hops only": {"distances": (8,)},
    "equal weights": {"width": 1e6},
    "best network instead of consensus": {"select": "best"},
    "no fusion": {"fusion": 0.0},
    "no refinement": {"refine": False},
    "the cut in place of the evidence": {"objective": "mincut"},
    "8 networks": {"networks": 8},
    "96 networks": {"networks": 96},
}
_PAPER = "the paper's model"
_LEIDEN_OWN = "leiden, its own number of clusters"
# Everything of the default but its networks; DMoN in their place, as many, of which its own loss chooses one.
_KMEANS, _KMEANS_REFINED = "k-means on softcut's features", "k-means on softcut's features, refined"
_DMON = "dmon on softcut's features, restarted"
_ON_FEATURES = (_KMEANS, _KMEANS_REFINED, _DMON)
METHODS = (*BASELINE_METHODS, _LEIDEN_OWN, *_ON_FEATURES, _PAPER, *ABLATIONS)
# Methods that read features only, or cannot do without.
_NEED_FEATURES = (
    *("kmeans", "kmeans_raw", "dmon", *_ON_FEATURES, _PAPER),
    *(name for name in ABLATIONS if name != "default"),
)


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] | None = None,
    runs: int = 5,
    device: torch.device | str = "cpu",
    tell: Tell = quiet,
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Run what is missing; writes ``quality.json`` (cells) and ``quality_runs.json`` (runs).

    A run counts as finished only where all its settings are those asked for.
    """
    check_names(datasets, DATASETS, "datasets")
    check_names(methods or (), METHODS, "methods")
    session = RunSession(out, device, tell=tell)
    made: list[dict[str, Any]] = []
    for name in datasets:
        graph = load(name, root=data)
        # Without features, nothing is known about nodes without edges.
        known = (np.diff(graph.adjacency.indptr) > 0) | bool(graph.num_features)
        classes = np.where(known, classes_of(graph), -1)
        for method in methods or METHODS:
            if graph.num_features == 0 and method in _NEED_FEATURES:
                continue
            words = [
                "softcut",
                "reproduce",
                "quality",
                "--dataset",
                name,
                "--method",
                method,
                "--runs",
                str(runs),
            ]
            cells_of = partial(cells, metrics=("nmi", "acc", "ari"), paper={}, command=shlex.join(words))
            settings, labels_of = settings_of(method), partial(_labels, method, graph, session.device)
            train = partial(session.cluster, "quality", method, settings, classes, labels_of, 1)
            made += session.fill("quality", method, [name], runs, settings, train, cells_of)
    return made


def _estimator(method: str, k: int | str, seed: int, device: torch.device | str) -> GraphClustering | None:
    """The estimator of a method; None for those that are none."""
    if method == _PAPER:
        return MinCutClustering(k, random_state=seed, device=str(device))
    if method not in ABLATIONS:
        return None
    return GraphClustering(k, random_state=seed, device=str(device), recipe=Recipe(**ABLATIONS[method]))


def settings_of(method: str) -> dict[str, Any]:
    """Everything that decides a method's result besides the data set and the seed."""
    estimator = _estimator(method, 2, 0, "cpu")
    if estimator is not None:
        return {**estimator_settings(estimator), "chosen": False}  # recorded runs say that K was given
    names = ("components", "distances", "many_columns", "longest_row", "ridge")
    if method in (_KMEANS, _KMEANS_REFINED):
        return {name: getattr(DEFAULT, name) for name in (*names, "restart", "steps")}
    if method == _DMON:
        features = {name: getattr(DEFAULT, name) for name in (*names, "networks")}
        return {**keyword_settings(dmon_replicas), **features}
    if method == _LEIDEN_OWN:
        return keyword_settings(baseline("leiden"))
    return keyword_settings(dmon_replicas if method == "dmon" else baseline(method))


def _labels(
    method: str, graph: Graph, device: torch.device, seeds: list[int]
) -> list[tuple[np.ndarray, dict[str, Any]]]:
    """Labels for one seed, and what else a fit says."""
    (seed,), k = seeds, len(np.unique(classes_of(graph)))
    estimator = _estimator(method, k, seed, device)
    if estimator is None:
        if method in _ON_FEATURES:
            labels = _on_features(graph, k, seed, device, method)
        elif method == _LEIDEN_OWN:
            labels = baseline("leiden")(graph, random_state=seed)
        elif method == "dmon":
            s = dmon_replicas(graph, k, replica_seeds(seed, 1), device=device)
            labels = s[:, 0].argmax(-1).cpu().numpy()
        else:
            labels = baseline(method)(graph, k, random_state=seed)
        return [(labels, {})]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is recorded
        estimator.fit(graph)
    if estimator.interrupted_:  # half a training is no result
        raise KeyboardInterrupt
    said = {
        "replicas_collapsed": sum(replica.collapsed for replica in estimator.replicas_),
        "n_clusters": estimator.n_clusters_,
        "structure": estimator.structure_,
        "verdict": estimator.verdict_,
    }
    # Every node counts, as for the other methods: one without edges and features is in the largest cluster.
    return [(estimator.soft_.argmax(1), said)]


def _on_features(graph: Graph, k: int, seed: int, device: torch.device, method: str) -> np.ndarray:
    """What the default does without its networks: features at all distances, then k-means, its refinement, or DMoN."""
    silent = silent_nodes(graph, silence_rule(graph))
    inner = without(graph, silent) if silent.any() else graph
    prepared = prepare(inner, DEFAULT, device, lambda text: None)
    z = prepared.encoded.rows.flatten(1)
    if method == _DMON:
        s = dmon_replicas(inner, k, replica_seeds(seed, DEFAULT.networks), x=z.cpu().numpy(), device=device)
        op = CSR.from_graph(inner, device=device)
        labels = min(s.unbind(1), key=lambda own: float(dmon_loss(own, op))).argmax(1)
    else:
        clusters = kmeans(z, k, random_state=seed)
        labels = clusters.labels
    if method == _KMEANS_REFINED:
        distance = squared_distances(z, clusters.centres)
        soft = torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)  # as the consensus does
        labels = refine(prepared, soft, DEFAULT, lambda text: None)[0].argmax(1)
    every = np.zeros(graph.num_nodes, dtype=np.int64)
    every[~silent] = labels.cpu().numpy()
    return every


@commands.command(
    "softcut.paper.quality",
    commands.choices("--dataset", DATASETS),
    commands.choices("--method", METHODS),
    commands.runs(5),
    commands.DATA,
)
def main(given: Any, screen: commands.Screen) -> None:
    """Beyond the paper: the default clustering, its ablations and every baseline on eight data sets."""
    chosen = (given.dataset or DATASETS, given.method, given.runs, given.device)
    with screen.working() as bar:
        made = run(given.out, *chosen, bar.tell, given.data)
    title = f"NMI, mean and standard deviation over {given.runs} values of random_state"
    screen.show(pivot([cell for cell in made if cell["metric"] == "nmi"], title))


if __name__ == "__main__":
    main()
