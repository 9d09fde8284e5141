"""Does evidence find the good clusterings? Its rank correlation with NMI over a pool of clusterings of each data set.

The pool: for each of 0, 1, 2, 4, 8 and 16 hops a k-means of the features, a minCUT replica that starts there, and
one that starts at random, each with and without refinement; and a k-means of all distances together. Classes serve
for the NMI alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from softcut.clustering.consensus import Refiner
from softcut.clustering.kmeans import kmeans, kmeans_restarts
from softcut.clustering.networks import agreement
from softcut.clustering.prepare import Prepared, prepare, silence_rule, silent_nodes, without
from softcut.clustering.recipe import Recipe
from softcut.datasets import load
from softcut.graph import Graph
from softcut.metrics import modularity, nmi, normalised_cut
from softcut.paper import commands
from softcut.paper.quality import DATASETS
from softcut.paper.runs import Tell, check_names, classes_of, quiet, rewrite
from softcut.provenance import origin
from softcut.report.tables import Cell, Table
from softcut.training import ReplicaNet, replica_seeds, train

# The cut, trained for as long as it needs.
_RECIPE = Recipe(objective="mincut", iterations=200, learning_rate=0.01, start_iterations=40)

SCORES = ("evidence", "edges", "features", "agreement", "modularity", "normalised cut")


def pool(graph: Graph, k: int, seed: int, device: torch.device) -> tuple[Prepared, dict[str, Tensor]]:
    """The clusterings [N] of a graph whose nodes all have edges or features, by name."""
    prepared = prepare(graph, _RECIPE, device, lambda text: None)
    encoded = prepared.encoded
    hops = prepared.encoder.recipe.distances
    starts = torch.cat([kmeans_restarts(z, k, 1, max_iter=30, random_state=seed)[0] for z in encoded.z])
    families = {
        "k-means": torch.nn.functional.one_hot(starts.T, k).float(),
        "minCUT from k-means": _mincut(prepared, k, seed, starts),
        "minCUT from random": _mincut(prepared, k, seed, None),
    }
    clusterings = {"k-means, all distances": kmeans(encoded.rows.flatten(1), k, random_state=seed).labels}
    for name, s in families.items():
        for r, h in enumerate(hops):
            labels = s[:, r].argmax(1)
            refined = Refiner.fit(encoded.x, labels, k).apply(encoded.x, s[:, r], encoded.op).argmax(1)
            clusterings |= {f"{name}, {h} hops": labels, f"{name}, {h} hops, refined": refined}
    return prepared, clusterings


def _mincut(prepared: Prepared, k: int, seed: int, start: Tensor | None) -> Tensor:
    """One replica for each distance: [N, distances, K]."""
    inputs, count = prepared.encoded.inputs, len(prepared.encoder.recipe.distances)
    options: dict[str, Any] = {"hidden": _RECIPE.hidden, "terms": inputs.terms, "scales": range(count)}
    net = ReplicaNet(inputs.in_channels, k, replica_seeds(seed, count), **options).to(prepared.device)
    sizes = None
    if start is not None:
        sizes = torch.stack([torch.bincount(row, minlength=k) for row in start]).float()
        sizes = sizes.clamp(min=_RECIPE.least * start.shape[1] / k)
    settings = _RECIPE.training(prepared.device)
    train(net, inputs, prepared.encoded.op, settings, start=start, sizes=sizes)
    return net.assign(inputs)


def rank_correlations(values: dict[str, np.ndarray], truth: np.ndarray) -> dict[str, float | None]:
    """Spearman's rank correlation of every score with `truth`; None for a score that is constant."""
    return {
        name: round(float(spearmanr(value, truth).statistic), 3) if np.ptp(value) > 0 else None
        for name, value in values.items()
    }


def run(
    out: str | Path,
    datasets: Sequence[str] = DATASETS,
    runs: int = 1,
    device: torch.device | str = "cpu",
    tell: Tell = quiet,
    data: str | Path | None = None,
) -> list[dict[str, Any]]:
    """One row per data set and seed; writes ``evidence.json`` after each of them.

    Rows of other data sets and seeds that are in that file stay there.
    """
    check_names(datasets, DATASETS, "datasets")
    path = Path(out) / "evidence.json"
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    asked = [(name, seed) for name in datasets for seed in range(runs)]
    for name, seed in asked:
        whole = load(name, root=data)
        silent = silent_nodes(whole, silence_rule(whole))
        graph = without(whole, silent) if silent.any() else whole
        tell(f"{name}: pool of seed {seed}")
        row = {"dataset": name, **_row(graph, seed, torch.device(device))}
        rows[name, seed] = row
        rewrite(path, partial(_with, row), "rows")
    return [rows[key] for key in asked]


def _with(row: dict[str, Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with one more, in the order of the data sets."""
    kept = [r for r in rows if (r["dataset"], r.get("seed")) != (row["dataset"], row["seed"])]
    order = {name: number for number, name in enumerate(DATASETS)}
    return sorted([*kept, row], key=lambda r: (order.get(r["dataset"], len(order)), r.get("seed", 0)))


def _row(graph: Graph, seed: int, device: torch.device) -> dict[str, Any]:
    """The rank correlations on one graph, and the pool they come from."""
    began = time.perf_counter()
    classes = classes_of(graph)
    k = len(np.unique(classes))
    prepared, clusterings = pool(graph, k, seed, device)
    labels = torch.stack(list(clusterings.values()), dim=1)
    parts = prepared.judge(labels, k)
    hard = labels.cpu().numpy()
    close = agreement(labels, k).fill_diagonal_(0).sum(1)  # times a constant: ranks are the same
    values = {
        "evidence": parts.value.cpu().numpy(),
        "edges": parts.edges.cpu().numpy(),
        "features": parts.features.cpu().numpy(),
        "agreement": close.cpu().numpy(),
        "modularity": np.array([modularity(graph, c) for c in hard.T]),
        "normalised cut": -np.array([normalised_cut(graph, c) for c in hard.T]),
    }
    truth = np.array([nmi(classes, c) for c in hard.T])
    return {
        "seed": seed,
        "rank_correlation": rank_correlations(values, truth),
        "nmi_of_most_evidence": round(float(truth[values["evidence"].argmax()]), 4),
        "best_nmi": round(float(truth.max()), 4),
        "mean_nmi": round(float(truth.mean()), 4),
        "pool": {
            label: {"evidence": round(float(e), 4), "nmi": round(float(t), 4)}
            for label, e, t in zip(clusterings, values["evidence"], truth, strict=True)
        },
        "seconds": round(time.perf_counter() - began, 2),
        **origin(device),
    }


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """One line per data set: the means over its seeds; "-" for a score that was constant."""
    lines: list[list[str | Cell]] = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        own = [row for row in rows if row["dataset"] == name]
        ranks = [row["rank_correlation"] for row in own]
        known = [[rank[score] for rank in ranks if rank[score] is not None] for score in SCORES]
        numbers = [f"{np.mean(values):.2f}" if values else "-" for values in known]
        best = [f"{np.mean([row[key] for row in own]):.3f}" for key in ("nmi_of_most_evidence", "best_nmi")]
        lines.append([name, *map(Cell, [*numbers, *best])])
    return Table(["data", *SCORES, "NMI of most evidence", "best NMI"], lines, "Rank correlation with NMI")


@commands.command(
    "softcut.paper.evidence", commands.choices("--dataset", DATASETS), commands.runs(1), commands.DATA
)
def main(given: Any, screen: commands.Screen) -> None:
    """Beyond the paper: rank correlation of evidence, and of other scores, with NMI over a pool of clusterings."""
    with screen.working() as bar:
        rows = run(given.out, given.dataset or DATASETS, given.runs, given.device, bar.tell, given.data)
    screen.show(table(rows))


if __name__ == "__main__":
    main()
