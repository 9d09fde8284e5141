"""Beyond the paper: how good the default clustering is, and what each part of it gains.

One set of defaults for all data sets; labels only score. Every baseline stands beside it. The eight data sets
were used while the defaults were developed, so their scores are those of tuning sets, not of a test. PolBlogs,
which has no features, is scored on its nodes with edges: nothing is known about the others.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.baselines import BASELINES, dmon_replicas
from softcut.clustering import GraphClustering, MinCutClustering, Recipe
from softcut.clustering.consensus import refine
from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.prepare import prepare, silence_rule, silent_nodes, without
from softcut.clustering.recipe import DEFAULT
from softcut.datasets import load
from softcut.graph import Graph
from softcut.paper.common import (
    Tell,
    check_names,
    estimator_settings,
    experiment_parser,
    keyword_settings,
    quiet,
    run_experiment,
    say,
    scores_of,
)
from softcut.paper.runs import Records, cells, merge_cells
from softcut.report.tables import pivot, to_markdown
from softcut.training import replica_seeds

__all__ = ["ABLATIONS", "BASELINE_METHODS", "DATASETS", "METHODS", "main", "run", "settings_of"]

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
_PAPER, _CHOSEN = "the paper's model", "number of clusters chosen"
# Everything of the default but its networks.
_KMEANS, _KMEANS_REFINED = "k-means on softcut's features", "k-means on softcut's features, refined"
METHODS = (*BASELINE_METHODS, _KMEANS, _KMEANS_REFINED, _PAPER, *ABLATIONS, _CHOSEN)
# Methods that read features only, or cannot do without.
_NEED_FEATURES = (
    *("kmeans", "kmeans_raw", "dmon", _KMEANS, _KMEANS_REFINED, _PAPER),
    *(name for name in ABLATIONS if name != "default"),
)
_BASELINES = {"kmeans": "kmeans_propagated", "kmeans_raw": "kmeans"}  # other names than the baselines' own


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
    out = Path(out)
    records = Records(out / "quality_runs.json")
    found: list[dict[str, Any]] = []
    for name in datasets:
        graph = load(name, root=data)
        assert graph.y is not None
        k = len(np.unique(graph.y))
        scored = (
            np.diff(graph.adjacency.indptr) > 0 if graph.num_features == 0 else np.full(graph.num_nodes, True)
        )
        classes = graph.y[scored]
        for method in methods or METHODS:
            if graph.num_features == 0 and method in _NEED_FEATURES:
                continue
            settings = settings_of(method)
            for seed in records.missing(name, method, range(runs), settings):
                tell(f"{name}: {method}, random_state {seed}")
                start = time.perf_counter()
                labels, said = _labels(method, graph, k, seed, device)
                seconds = time.perf_counter() - start
                scores = {**scores_of(classes, labels[scored]), **said}
                tell(f"{name}: {method}, random_state {seed}: NMI {scores['nmi']:.3f}, {seconds:.2f} s")
                shared = {"dataset": name, "method": method, "seed": seed, "settings": settings}
                records.add([{**shared, **scores, "seconds": seconds}], device)
            command = f"softcut reproduce quality --dataset {name} --runs {runs}"
            done = records.of(name, method, range(runs), settings)
            found += cells(done, ("nmi", "acc", "ari"), {}, command)
            merge_cells(out / "quality.json", found)
    return found


def _estimator(method: str, k: int | str, seed: int, device: torch.device | str) -> GraphClustering | None:
    """The estimator of a method; None for those that are none."""
    if method == _PAPER:
        return MinCutClustering(k, random_state=seed, device=str(device))
    if method == _CHOSEN:
        return GraphClustering("auto", random_state=seed, device=str(device))
    if method not in ABLATIONS:
        return None
    return GraphClustering(k, random_state=seed, device=str(device), recipe=Recipe(**ABLATIONS[method]))


def settings_of(method: str) -> dict[str, Any]:
    """Everything that decides a method's result besides the data set and the seed."""
    estimator = _estimator(method, 2, 0, "cpu")
    if estimator is not None:
        return {**estimator_settings(estimator), "chosen": method == _CHOSEN}
    if method in (_KMEANS, _KMEANS_REFINED):
        names = ("components", "distances", "many_columns", "longest_row", "ridge", "restart", "steps")
        return {name: getattr(DEFAULT, name) for name in names}
    if method == "dmon":
        return keyword_settings(dmon_replicas)
    return keyword_settings(BASELINES[_BASELINES.get(method, method)])


def _labels(
    method: str, graph: Graph, k: int, seed: int, device: torch.device | str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Labels, and what else a fit says."""
    estimator = _estimator(method, k, seed, device)
    if estimator is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say is recorded
            estimator.fit(graph)
        if estimator.interrupted_:  # half a training is no result
            raise KeyboardInterrupt
        collapsed = sum(r.collapsed for r in estimator.replicas_)
        return estimator.labels_, {
            "replicas_collapsed": collapsed,
            "n_clusters": estimator.n_clusters_,
            "structure": estimator.structure_,
            "verdict": estimator.verdict_,
        }
    if method in (_KMEANS, _KMEANS_REFINED):
        return _kmeans_on_features(graph, k, seed, torch.device(device), method == _KMEANS_REFINED), {}
    if method == "dmon":
        s = dmon_replicas(graph, k, replica_seeds(seed, 1), device=device)
        return s[:, 0].argmax(-1).cpu().numpy(), {}
    return BASELINES[_BASELINES.get(method, method)](graph, k, random_state=seed), {}


def _kmeans_on_features(graph: Graph, k: int, seed: int, device: torch.device, refined: bool) -> np.ndarray:
    """What the default does without any network: its features at all distances, k-means, its refinement."""
    silent = silent_nodes(graph, silence_rule(graph))
    inner = without(graph, silent) if silent.any() else graph
    prepared = prepare(inner, DEFAULT, device, lambda text: None)
    z = prepared.encoded.rows.flatten(1)
    found = kmeans(z, k, random_state=seed)
    labels = found.labels
    if refined:
        distance = squared_distances(z, found.centres)
        soft = torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)  # as the consensus does
        labels = refine(prepared, soft, DEFAULT, lambda text: None)[0].argmax(1)
    every = np.zeros(graph.num_nodes, dtype=np.int64)
    every[~silent] = labels.cpu().numpy()
    return every


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.quality --dataset cora --method default --runs 5``."""
    parser = experiment_parser(
        "quality", "The default clustering, its ablations and baselines.", 5, DATASETS, METHODS
    )

    parser.add_argument("--data", help="folder of the data sets (default: $SOFTCUT_DATA, then the cache)")

    def run_it(given: Any) -> str:
        found = run(given.out, given.dataset, given.method, given.runs, given.device, say, given.data)
        return to_markdown(pivot(cell for cell in found if cell["metric"] == "nmi"))

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
