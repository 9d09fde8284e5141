"""Modularity on plain graphs (no features, no classes), beside Leiden with the same number of clusters.

Reads the edge lists in ``$SOFTCUT_DATA/edgelists`` (files ``NAME.npz`` with ``num_nodes`` and ``edges``, 2 x E), the
smallest first. Writes ``results/edgelists.json`` after each graph and prints a table. What is in that file is
replaced for the graphs that are run, and kept for the others.

    python benchmarks/edgelists.py [--only NAME ...] [--clusters 8 32] [--estimator]

softcut is :class:`softcut.communities.fixed_number.FixedNumber`, or with ``--estimator`` a whole fit, which calls it.
The seconds of both methods include what they make of the graph first.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut import Graph, GraphClustering
from softcut.baselines import leiden
from softcut.communities.fixed_number import FixedNumber
from softcut.communities.network import Network
from softcut.files import atomic_json
from softcut.metrics import clusters_used, modularity
from softcut.provenance import origin

NAMES = ("PGPgiantcompo", "4elt", "astro-ph", "ca-AstroPh", "copter2", "wing", "mdual")


def read(path: Path) -> Graph:
    """The graph of one file."""
    with np.load(path) as file:
        n, (source, target) = int(file["num_nodes"]), file["edges"]
    one_way = sp.coo_array((np.ones(len(source), dtype=np.float32), (source, target)), shape=(n, n)).tocsr()
    return Graph.from_scipy(one_way.maximum(one_way.T))


def clusters(graph: Graph, k: int, seed: int, estimator: bool) -> np.ndarray:
    """Labels of the nodes, by softcut."""
    if estimator:
        return GraphClustering(k, random_state=seed, device="cpu").fit(graph).soft_.argmax(1)
    return FixedNumber(Network(graph.adjacency), [k], seed).settled(k)[:, 0]


def measure(name: str, graph: Graph, k: int, seed: int, estimator: bool = False) -> dict[str, Any]:
    """Modularity, clusters and seconds of both methods."""
    row: dict[str, Any] = {"graph": name, "nodes": graph.num_nodes, "clusters": k, "random_state": seed}
    for method in ("softcut", "leiden"):
        began = time.perf_counter()
        if method == "softcut":
            labels = clusters(graph, k, seed, estimator)
        else:
            labels = leiden(graph, k, random_state=seed)
        seconds = time.perf_counter() - began
        row[method] = {
            "modularity": round(modularity(graph, labels), 4),
            "clusters_used": clusters_used(labels),
            "seconds": round(seconds, 1),
        }
    return row | origin()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--clusters", nargs="+", type=int, default=[8, 32])
    parser.add_argument("--state", type=int, default=0, help="random_state")
    parser.add_argument("--estimator", action="store_true", help="a whole fit in place of FixedNumber")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SOFTCUT_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path("results/edgelists.json"))
    given = parser.parse_args()
    rows = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else []
    print("| modularity | K | softcut | Leiden | seconds | seconds of Leiden |\n|---|---|---|---|---|---|")
    for name in given.only:
        graph = read(given.data / "edgelists" / f"{name}.npz")
        for k in given.clusters:
            row = measure(name, graph, k, given.state, given.estimator)
            rows = [old for old in rows if (old["graph"], old["clusters"]) != (name, k)] + [row]
            atomic_json(given.out, sorted(rows, key=lambda r: (r["nodes"], r["clusters"])))
            ours, theirs = row["softcut"], row["leiden"]
            values = f"{ours['modularity']:.3f} | {theirs['modularity']:.3f}"
            print(f"| {name} | {k} | {values} | {ours['seconds']} | {theirs['seconds']} |", flush=True)


if __name__ == "__main__":
    main()
