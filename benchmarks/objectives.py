"""Every objective of the family from the same start: single replicas at each distance, judged by evidence.

For each data set and seed, replicas of the default network read features propagated over 0 to 16 hops, learn the same
k-means of these features, and then minimise one objective for 200 iterations. No consensus and no refinement. Writes
``objectives.json`` (cells) and ``objectives_runs.json`` (runs) and prints tables; finished runs are not repeated.

    python benchmarks/objectives.py [--data DIR] [--out results] [--device cuda] [--dataset cora ...] [--seeds 5]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr

from softcut.clustering import Recipe
from softcut.clustering.kmeans import kmeans_restarts
from softcut.clustering.prepare import Prepared, prepare, silence_rule, silent_nodes, without
from softcut.datasets import load
from softcut.device import choose_device
from softcut.graph import Graph
from softcut.metrics import nmi
from softcut.metrics.features import presence
from softcut.metrics.judge import Judge
from softcut.ops import OBJECTIVES, Words
from softcut.paper.runs import Records, cells, merge_cells
from softcut.provenance import origin
from softcut.training import ReplicaNet, TrainSettings, replica_seeds, train

DATASETS = ("cora", "citeseer", "pubmed", "photo", "computers", "blogcatalog", "physics", "polblogs")
START = "k-means"  # the start itself, as it is
RECORDED = {"mincut": "trace_ratio"}  # what the paper's objective was called when it was measured
METHODS = (START, *(RECORDED.get(name, name) for name in OBJECTIVES))
METRICS = ("nmi_by_evidence", "nmi_best", "nmi_mean", "rank_correlation")
ITERATIONS, LEARNING_RATE, ORTHO_WEIGHT = 200, 1e-2, 2.0


class Problem(NamedTuple):
    """A graph ready for training and judging."""

    graph: Graph
    k: int
    prepared: Prepared
    words: Words | None
    judge: Judge


def problem(name: str, device: torch.device) -> Problem:
    """A data set without the nodes that have neither edges nor features, encoded as the default does."""
    graph = load(name)
    assert graph.y is not None
    silent = silent_nodes(graph, silence_rule(graph))
    graph = without(graph, silent) if silent.any() else graph
    k = len(np.unique(graph.y))
    prepared = prepare(graph, Recipe(), device, lambda text: print(f"{name}: {text}", flush=True))
    words = None if graph.x is None else Words(presence(graph.x), device=device)
    return Problem(graph, k, prepared, words, Judge(graph.adjacency, graph.x, device))


def least(it: Problem) -> float:
    """The smallest cluster of a start: a quarter of the mean size, as the default has it."""
    return 0.25 * it.graph.num_nodes / it.k


def starts(it: Problem, scales: list[int], seed: int) -> torch.Tensor:
    """One k-means of the features at its own distance for each replica: [R, N]."""
    z = it.prepared.encoded.inputs.z  # type: ignore[attr-defined]
    outcome = []
    for scale in sorted(set(scales)):
        count = scales.count(scale)
        labels, _ = kmeans_restarts(
            z[scale], it.k, count, max_iter=30, least=least(it), random_state=1000 * seed + scale
        )
        outcome.append(labels)
    return torch.cat(outcome)


def labels_of(it: Problem, method: str, start: torch.Tensor, scales: list[int], seed: int) -> torch.Tensor:
    """Hard clusters of every replica, [N, R]."""
    if method == START:
        return start.T
    objective = {old: new for new, old in RECORDED.items()}.get(method, method)
    prepared, inputs = it.prepared, it.prepared.encoded.inputs
    net = ReplicaNet(inputs.in_channels, it.k, replica_seeds(seed, len(scales)), scales=scales)
    net = net.to(prepared.device)
    sizes = torch.stack([torch.bincount(row, minlength=it.k) for row in start]).float()
    result = train(
        net,
        inputs,
        prepared.encoded.op,
        TrainSettings(
            ITERATIONS, LEARNING_RATE, objective=objective, ortho_weight=ORTHO_WEIGHT, tolerance=None
        ),
        start=start,
        # The evidence as it is, without the term that holds clusters to sizes.
        sizes=None if objective == "evidence" else sizes.clamp(min=least(it)),
        adjacency=prepared.adjacency,
        words=it.words,
    )
    if result.interrupted:
        raise KeyboardInterrupt
    return net.assign(inputs).argmax(-1)


def run(it: Problem, method: str, replicas: int, seed: int) -> dict[str, Any]:
    """Scores of one objective's replicas, `replicas` for each distance."""
    hops = it.prepared.encoder.recipe.distances
    scales = sorted(list(range(len(hops))) * replicas)
    start = starts(it, scales, seed)
    begin = time.perf_counter()
    hard = labels_of(it, method, start, scales, seed)
    explained = it.judge(hard, it.k).value.cpu().numpy()
    seconds = time.perf_counter() - begin
    labels = hard.cpu().numpy()
    scores = np.array([nmi(it.graph.y, column) for column in labels.T])  # type: ignore[arg-type]
    return {
        "nmi_by_evidence": float(scores[explained.argmax()]),
        "nmi_best": float(scores.max()),
        "nmi_mean": float(scores.mean()),
        "rank_correlation": float(spearmanr(explained, scores).statistic),
        "hops": [hops[scale] for scale in scales],
        "nmi": [round(float(v), 4) for v in scores],
        "evidence": [round(float(v), 4) for v in explained],
        "clusters_used": [len(np.unique(column)) for column in labels.T],
        "seconds": seconds,
    }


def table(title: str, rows: dict[str, dict[str, float]], columns: list[str]) -> None:
    """A Markdown table of numbers, rows by name."""
    print(f"\n| {title} | " + " | ".join(columns) + " |\n|---" + "|---" * len(columns) + "|")
    for name, values in rows.items():
        cells_ = [f"{values[c]:.3f}".replace("0.", ".", 1) if c in values else "-" for c in columns]
        print(f"| {name} | " + " | ".join(cells_) + " |")


def report(records: Records, datasets: list[str], seeds: int, settings: dict[str, Any]) -> None:
    """Print what was measured: by data set, and by distance."""
    for metric in METRICS:
        rows: dict[str, dict[str, float]] = {}
        for method in METHODS:
            outcome = {name: records.of(name, method, range(seeds), settings) for name in datasets}
            rows[method] = {
                n: float(np.mean([r[metric] for r in runs])) for n, runs in outcome.items() if runs
            }
        table(metric, rows, datasets)
    for name in datasets:
        rows, columns = {}, []
        for method in METHODS:
            runs = records.of(name, method, range(seeds), settings)
            hops = np.array([h for r in runs for h in r["hops"]])
            scores = np.array([v for r in runs for v in r["nmi"]])
            columns = [f"{h} hops" for h in np.unique(hops)] or columns
            rows[method] = {f"{h} hops": float(scores[hops == h].mean()) for h in np.unique(hops)}
        table(f"{name}: mean NMI of replicas", rows, columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", help="folder of the data sets (default $SOFTCUT_DATA)")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), choices=DATASETS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=4, help="of each distance (default 4)")
    options = parser.parse_args()
    if options.data:
        os.environ["SOFTCUT_DATA"] = options.data
    device = choose_device(options.device)
    settings = {
        "iterations": ITERATIONS,
        "learning_rate": LEARNING_RATE,
        "ortho_weight": ORTHO_WEIGHT,
        "replicas": options.replicas,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    records = Records(options.out / "objectives_runs.json")
    for name in options.dataset:
        wanted = {m: records.missing(name, m, range(options.seeds), settings) for m in METHODS}
        it = problem(name, device) if any(wanted.values()) else None
        for method, missing in wanted.items():
            for seed in missing:
                assert it is not None
                outcome = run(it, method, options.replicas, seed)
                print(
                    f"{name}: {method}, seed {seed}: NMI {outcome['nmi_by_evidence']:.3f} (most evidence), "
                    f"{outcome['nmi_mean']:.3f} (mean), {outcome['seconds']:.1f} s",
                    flush=True,
                )
                key = {"dataset": name, "method": method, "seed": seed, "settings": settings}
                records.add([{**key, **outcome, **origin(device)}])
            command = f"python benchmarks/objectives.py --dataset {name} --seeds {options.seeds}"
            command += f" --replicas {options.replicas}"
            runs = records.of(name, method, range(options.seeds), settings)
            merge_cells(options.out / "objectives.json", cells(runs, METRICS, {}, command))
    report(records, options.dataset, options.seeds, settings)


if __name__ == "__main__":
    main()
