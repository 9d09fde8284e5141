"""When MinCutPool stays at the uniform assignment, and which weight of L_o leaves it (:mod:`softcut.ops.uniform`).

This module measures the smallest q over all directions that the pooler's hidden layer gives before training.

``python -m tools.uniform --out results`` writes ``table2_uniform.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.datasets.collections import load_graphs
from softcut.files import atomic_json
from softcut.graph.collection import GraphCollection, folds
from softcut.learning.experiment import ClassifierSettings, build_task, cluster_sizes
from softcut.ops import Segments
from softcut.ops.uniform import largest_quotient
from softcut.paper import commands
from softcut.paper.table2 import DATASETS
from softcut.provenance import origin
from softcut.report.tables import Table

FILE = "table2_uniform.json"
_GRAPHS = 64  # of each fold
_VARIANCE = 1e-3  # directions with less of the largest variance are left out: noise would decide them


def smallest_quotient(graphs: GraphCollection, seeds: Sequence[int] = range(10)) -> np.ndarray:
    """The smallest q that the first pooler's hidden features allow, mean over graphs; one number per seed."""
    parts = folds(graphs)[: len(seeds)]
    task = build_task(graphs, "mincut", parts, list(seeds), ClassifierSettings())
    seen: dict[str, Any] = {}
    pool: Any = task.net.pools[0]
    handles = [
        pool.register_forward_pre_hook(lambda _, given: seen.update(op=given[1])),
        pool.mlp.layers[-1].register_forward_pre_hook(lambda _, given: seen.update(hidden=given[0])),
    ]
    try:
        with torch.no_grad():
            chosen = np.stack([part.train[:_GRAPHS] for part in parts])
            task.forward(task.gather(task.plan(chosen[None]), full=True)[0])
    finally:
        for handle in handles:
            handle.remove()
    return _quotients(seen["op"].normalise(), seen["hidden"].double(), len(parts))


def most_clusters(graphs: GraphCollection, k: int) -> float:
    """How many of K clusters can be the first choice of a node, at most; mean over the graphs.

    A graph has no more of them than nodes that one layer of message passing can tell apart: leaves of one hub, say,
    have the same features whatever its weights.
    """
    table = np.random.default_rng(0).standard_normal((graphs.num_features, 2))
    x = table[graphs.index].sum(1) + graphs.value @ table[graphs.num_features - graphs.value.shape[1] :]
    adjacency = graphs.adjacency()
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1e-12))[:, None]
    seen = np.round(np.column_stack([x, scale * (adjacency @ (scale * x))]), 5)
    owner = np.repeat(np.arange(len(graphs)), graphs.sizes)
    different = np.unique(np.column_stack([owner, seen]), axis=0)[:, 0].astype(int)
    return float(np.minimum(np.bincount(different, minlength=len(graphs)), k).mean())


def _quotients(op: Any, hidden: torch.Tensor, replicas: int) -> np.ndarray:
    """Smallest q of each replica, from the hidden features [R * N, H] of its graphs."""
    layout = op.layout
    assert isinstance(layout, Segments)
    degree, owner = op.degree.double(), layout.batch
    ones = torch.ones_like(degree)

    def per_graph(values: torch.Tensor) -> torch.Tensor:
        shape = (layout.num_graphs, *values.shape[1:])
        return values.new_zeros(shape).index_add_(0, owner, values)

    volume, size = per_graph(degree), per_graph(ones)
    # Graphs without edges, as those that pad a replica, have no cut.
    counted = (volume > 0).double()
    by_volume = (counted / volume.clamp(min=1e-12))[owner].unsqueeze(1)
    by_size = (counted / size.clamp(min=1))[owner].unsqueeze(1)
    centred = hidden - (per_graph(hidden) / size.clamp(min=1).unsqueeze(1))[owner]
    smooth = degree.unsqueeze(1) * hidden - op.matmul(hidden)
    listed = []
    for row in range(replicas):
        mine = slice(row * len(hidden) // replicas, (row + 1) * len(hidden) // replicas)
        cut = (hidden[mine].mT @ (by_volume * smooth)[mine]).numpy()
        spread = (centred[mine].mT @ (by_size * centred)[mine]).numpy()
        variance, directions = np.linalg.eigh(spread)
        kept = variance > _VARIANCE * variance.max()
        whitened = directions[:, kept] / np.sqrt(variance[kept])
        listed.append(np.linalg.eigvalsh(whitened.T @ (cut + cut.T) / 2 @ whitened)[0])
    return np.array(listed)


def run(
    out: str | Path, datasets: Sequence[str] = DATASETS, runs: int = 10, data: str | None = None
) -> list[dict[str, Any]]:
    """Measure every data set and write ``table2_uniform.json``."""
    listed = []
    for name in datasets:
        graphs = load_graphs(name, data)
        k = cluster_sizes(graphs)[0]
        quotients = smallest_quotient(graphs, range(runs))
        listed.append(
            {
                "dataset": name,
                "k": k,
                "smallest": round(float(quotients.mean()), 4),
                "smallest_std": round(float(quotients.std()), 4),
                "largest": round(largest_quotient(k), 4),
                "ortho_weight": round(float(quotients.mean()) / largest_quotient(k), 2),
                "most_clusters": round(most_clusters(graphs, k), 1),
                "n": runs,
                "note": graphs.note,
                **origin(),
            }
        )
    atomic_json(Path(out) / FILE, listed)
    return listed


def table(listed: Sequence[dict[str, Any]]) -> Table:
    """One row per data set."""
    rows = [
        [
            cell["dataset"],
            str(cell["k"]),
            f"{cell['smallest']:.3f} ± {cell['smallest_std']:.3f}",
            f"{cell['largest']:.3f}",
            f"{cell['ortho_weight']:.1f}",
        ]
        for cell in listed
    ]
    return Table(["data", "K", "smallest q", "left below", "weight of L_o that leaves it"], rows)


@commands.command("tools.uniform", commands.choices("--dataset", DATASETS), commands.runs(10), commands.DATA)
def main(given: Any, screen: commands.Screen) -> None:
    """Smoothness of the poolers' features."""
    screen.show(table(run(given.out, given.dataset or DATASETS, given.runs, given.data)))


if __name__ == "__main__":
    main()
