"""Does ``n_clusters="auto"`` choose the number of planted clusters, and would networks for every number choose better?

Writes ``results/chosen_numbers.json`` and prints its rows: graphs with planted clusters (words, few and many edges;
edges alone), graphs without clusters, and tables of scikit-learn, whose classes need not be clusters.

    python benchmarks/chosen_numbers.py [--graphs 40] [--seed 100]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import datasets

import softcut as sc
from softcut.clustering import fitting
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.provenance import origin

KINDS = ("few edges", "many edges", "edges alone", "no clusters")
TABLES = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
}
TABLES |= {"digits": datasets.load_digits}


def planted(kind: str, count: int, seed: int) -> Iterator[tuple[int, sc.Graph]]:
    """Graphs of one kind, and how many clusters each has; sizes and signals are drawn."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    for number in range(count):
        k, nodes = int(rng.integers(2, 13)), int(rng.integers(300, 1500))
        sizes = float(rng.choice([0, 0.5, 0.8]))
        options: dict[str, Any] = {"seed": 1000 * seed + number, "size_spread": sizes}
        if kind == "edges alone":
            options |= {
                "average_degree": rng.uniform(5, 25),
                "edge_signal": rng.uniform(0.3, 0.9),
                "n_features": 0,
            }
        elif kind == "many edges":
            options |= {"average_degree": rng.uniform(30, 80), "edge_signal": rng.uniform(0.05, 0.5)}
            options |= {"n_features": int(rng.choice([300, 800])), "words_per_node": rng.uniform(20, 80)}
            options |= {"feature_signal": rng.uniform(0.05, 0.4)}
        else:
            options |= {"average_degree": rng.uniform(4, 16), "n_features": int(rng.choice([50, 300, 800]))}
            signals = {"edge_signal": rng.uniform(0.1, 0.8), "feature_signal": rng.uniform(0.05, 0.6)}
            options |= dict.fromkeys(signals, 0.0) if kind == "no clusters" else signals
        yield 1 if kind == "no clusters" else k, attributed_communities(nodes, k, **options)


def chosen(graph: sc.Graph, seed: int = 0) -> tuple[int, int]:
    """The number that is chosen, and the one that networks, or settled clusters of the edges, choose."""
    choose, numbers = fitting.choose, []
    for every in (False, True):
        if every:
            fitting.choose = lambda task, begun, ended: choose(task, ended, ended)
        try:
            numbers.append(sc.GraphClustering("auto", random_state=seed, device="cpu").fit(graph).n_clusters_)
        finally:
            fitting.choose = choose
    return numbers[0], numbers[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=40, help="of each kind")
    parser.add_argument("--seed", type=int, default=100, help="of the graphs")
    parser.add_argument("--tables", nargs="*", choices=[*TABLES], default=[*TABLES])
    parser.add_argument("--out", type=Path, default=Path("results/chosen_numbers.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # small graphs: more threads only wait
    rows: list[dict[str, Any]] = []
    for kind in KINDS:
        truth, *both = zip(
            *((k, *chosen(g)) for k, g in planted(kind, given.graphs, given.seed)), strict=True
        )
        row: dict[str, Any] = {"kind": kind, "graphs": given.graphs}
        for name, numbers in zip(("auto", "networks"), both, strict=True):
            off = np.abs(np.subtract(numbers, truth))
            row[name] = {"right": int((off == 0).sum()), "mean_distance": round(float(off.mean()), 3)}
        row["same"] = int(np.equal(*both).sum())
        rows.append(row)
        print(row, flush=True)
    for name in given.tables:
        table = TABLES[name]()
        graph = sc.Graph.from_features(table.data)
        auto, networks = zip(*(chosen(graph, seed) for seed in range(3)), strict=True)
        rows.append({"kind": name, "classes": len(table.target_names), "auto": auto, "networks": networks})
        print(rows[-1], flush=True)
    atomic_json(given.out, {"rows": rows, **origin()})


if __name__ == "__main__":
    main()
