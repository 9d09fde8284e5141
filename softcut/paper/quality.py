"""Beyond the paper: how good the default clustering is, and what each part of it gains.

One set of defaults for all data sets; labels only score. Every baseline stands beside it. The eight data sets
were used while the defaults were developed, so their scores are those of tuning sets, not of a test. PolBlogs,
which has no features, is scored on its nodes with edges: nothing is known about the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.baselines import BASELINES, dmon_replicas
from softcut.clustering import MinCutClustering
from softcut.clustering.fit import refine
from softcut.clustering.kmeans import kmeans, squared_distances
from softcut.clustering.prepare import prepare, silence_rule, silent_nodes, without
from softcut.clustering.settings import resolve
from softcut.datasets import load
from softcut.graph import Graph
from softcut.metrics import ari, clusters_used, completeness, matched_accuracy, nmi
from softcut.paper.common import (
    check_names,
    estimator_settings,
    experiment_parser,
    keyword_settings,
    markdown_cells,
    run_experiment,
)
from softcut.provenance import commit, device_name
from softcut.training import replica_seeds
from softcut.training.runs import Records, cells, merge_cells

__all__ = ["ABLATIONS", "BASELINE_METHODS", "DATASETS", "METHODS", "main", "run", "settings_of"]

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "blogcatalog", "physics", "polblogs")
BASELINE_METHODS = ("sc", "kmeans", "kmeans_raw", "leiden", "dmon")

# What is changed from the defaults, one thing at a time.
ABLATIONS: dict[str, dict[str, Any]] = {
    "consensus": {},
    "minCUT replicas by agreement": {"objective": "trace_ratio", "judge": "agreement", "n_init": 32},
    "weights by agreement": {"judge": "agreement"},
    "no evidence replicas": {"objective": "trace_ratio"},
    "no minCUT replicas": {"objective": "evidence"},
    "the paper's model": {"preset": "paper"},
    "no feature graph": {"feature_graph": False},
    "no fusion": {"fusion": 0.0},
    "no refinement": {"refine": False},
    "random start, equal sizes": {"init": "random"},
    "features from 2 hops only": {"hops": 2},
    "features from 8 hops only": {"hops": 8},
    "best replica instead of consensus": {"select": "best"},
    "ratio trace instead of trace ratio": {"objective": "ratio_trace+evidence"},
    "orthogonality weight 1": {"ortho_weight": 1.0},
    "8 replicas": {"n_init": 8},
    "96 replicas": {"n_init": 96},
    "number of clusters chosen": {"n_clusters": "auto"},
}
# What the minCUT replicas are measured against: everything else of the default, without them.
_EXTRA = "k-means on softcut's features, no minCUT"
_EXTRA_REFINED = "k-means on softcut's features, refined, no minCUT"
METHODS = (*BASELINE_METHODS, _EXTRA, _EXTRA_REFINED, *ABLATIONS)
# Methods that read features only, or cannot do without.
_NEED_FEATURES = ("kmeans", "kmeans_raw", "dmon", "the paper's model")
_BASELINES = {"kmeans": "kmeans_propagated", "kmeans_raw": "kmeans"}  # other names than the baselines' own


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] | None = None,
    runs: int = 5,
    device: torch.device | str = "cpu",
    tell: Callable[[str], None] | None = None,
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """Run what is missing; writes ``quality.json`` (cells) and ``quality_runs.json`` (runs).

    A run counts as finished only where all its settings are those asked for.

    Parameters
    ----------
    out : path
        Folder of the results; finished runs found there are not repeated.
    datasets : sequence of str
        Which data sets.
    methods : sequence of str, optional
        Names from :data:`METHODS`; all by default.
    runs : int
        Values of random_state, from 0.
    device : str
        Where networks are trained.
    tell : callable, optional
        Told what is being done, and what came of it.
    data : path, optional
        Folder of the data sets, as for :func:`softcut.datasets.load`.
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
            np.ones(graph.num_nodes, dtype=bool)
            if graph.num_features
            else np.diff(graph.adjacency.indptr) > 0
        )
        classes = graph.y[scored]
        for method in methods or METHODS:
            if graph.num_features == 0 and method in _NEED_FEATURES:
                continue
            settings = settings_of(method)
            for seed in records.missing(name, method, range(runs), settings):
                if tell is not None:
                    tell(f"{name}: {method}, random_state {seed}")
                start = time.perf_counter()
                labels, collapsed = _labels(method, graph, k, seed, device)
                seconds = time.perf_counter() - start
                labels = labels[scored]
                scores = {
                    "nmi": nmi(classes, labels),
                    "acc": matched_accuracy(classes, labels),
                    "ari": ari(classes, labels),
                    "cs": completeness(classes, labels),
                    "clusters_used": clusters_used(labels),
                    "replicas_collapsed": collapsed,
                }
                if tell is not None:
                    tell(f"{name}: {method}, random_state {seed}: NMI {scores['nmi']:.3f}, {seconds:.2f} s")
                origin = {"device": device_name(device), "commit": commit()}
                records.add(
                    [
                        {
                            "dataset": name,
                            "method": method,
                            "seed": seed,
                            "settings": settings,
                            **scores,
                            "seconds": seconds,
                            **origin,
                        }
                    ]
                )
            command = f"softcut reproduce quality --dataset {name} --runs {runs}"
            found += cells(
                records.of(name, method, range(runs), settings), ("nmi", "acc", "ari"), {}, command
            )
            merge_cells(out / "quality.json", found)
    return found


def settings_of(method: str) -> dict[str, Any]:
    """Everything that decides a method's result besides the data set and the seed.

    >>> settings_of("8 replicas")["n_init"]
    8
    """
    if method in ABLATIONS:
        changed = ABLATIONS[method]
        return {**estimator_settings(**changed), **changed}
    if method in (_EXTRA, _EXTRA_REFINED):
        shared = ("hops", "n_components", *(["refinements"] if method == _EXTRA_REFINED else []))
        return {name: estimator_settings()[name] for name in shared}
    if method == "dmon":
        return keyword_settings(dmon_replicas)
    return keyword_settings(BASELINES[_BASELINES.get(method, method)])


def _labels(
    method: str, graph: Graph, k: int, seed: int, device: torch.device | str
) -> tuple[np.ndarray, int]:
    """Labels, and how many replicas lost a cluster."""
    if method in ABLATIONS:
        arguments = {"n_clusters": k, **ABLATIONS[method]}
        est = MinCutClustering(random_state=seed, device=str(device), **arguments).fit(graph)
        if est.interrupted_:  # half a training is no result
            raise KeyboardInterrupt
        return est.labels_, sum(r.collapsed for r in est.replicas_)
    if method in (_EXTRA, _EXTRA_REFINED):
        return _kmeans_on_features(graph, k, seed, torch.device(device), refined=method == _EXTRA_REFINED), 0
    if method == "dmon":
        s = dmon_replicas(graph, k, replica_seeds(seed, 1), device=device)
        return s[:, 0].argmax(-1).cpu().numpy(), 0
    return BASELINES[_BASELINES.get(method, method)](graph, k, random_state=seed), 0


def _kmeans_on_features(graph: Graph, k: int, seed: int, device: torch.device, refined: bool) -> np.ndarray:
    """What the default does without any replica: its features at all distances, k-means, its refinement."""
    silent = silent_nodes(graph, silence_rule(graph))
    inner = without(graph, silent) if silent.any() else graph
    arguments = MinCutClustering(k, random_state=seed, feature_graph=False).get_params(deep=False)
    settings, _ = resolve(arguments, MinCutClustering.__init__, inner)
    prepared = prepare(inner, settings, device, lambda text: None)
    z = prepared.encoded.rows.flatten(1)
    found = kmeans(z, k, random_state=seed)
    labels = found.labels
    if refined:
        distance = squared_distances(z, found.centres)
        soft = torch.softmax(-distance / (2 * distance.amin(1).mean()), dim=1)  # as the consensus does
        labels = refine(prepared, soft, settings, lambda text: None)[0].argmax(1)
    every = np.zeros(graph.num_nodes, dtype=np.int64)
    every[~silent] = labels.cpu().numpy()
    return every


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.quality --dataset cora --method consensus --runs 5``."""
    parser = experiment_parser(
        "quality", "The default clustering, its ablations and baselines.", 5, DATASETS, METHODS
    )

    parser.add_argument("--data", help="folder of the data sets (default: $SOFTCUT_DATA, then the cache)")

    def run_it(given: Any) -> str:
        def tell(text: str) -> None:
            print(text, flush=True)

        return markdown_cells(
            run(given.out, given.dataset, given.method, given.runs, given.device, tell, given.data)
        )

    run_experiment(parser, run_it, arguments)


if __name__ == "__main__":
    main()
