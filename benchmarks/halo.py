"""How many neighbours are on the other side when a graph is divided: METIS against random parts.

Writes ``results/halo.json``; the table is that of docs/distributed.md.

    python benchmarks/halo.py [--parts 8]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softcut import Graph
from softcut.datasets import load, planted_graph
from softcut.files import atomic_json
from softcut.graph.partition import crossing_share, partition_nodes
from softcut.provenance import origin

GRAPHS: dict[str, Callable[[], Graph]] = {
    "Cora": lambda: load("cora"),
    "PubMed": lambda: load("pubmed"),
    "Amazon Photo": lambda: load("photo"),
    "Amazon Computers": lambda: load("computers"),
    "planted partition, half of the edges at random": lambda: planted_graph(20_000, 200_000, 8, 0),
}


def halo_rows(graph: Graph, owner: np.ndarray) -> float:
    """Distinct neighbours in other parts, summed over the parts, per node."""
    edges = graph.adjacency.tocoo()
    crossing = owner[edges.row] != owner[edges.col]
    needed = np.unique(owner[edges.row[crossing]] * graph.num_nodes + edges.col[crossing])
    return len(needed) / graph.num_nodes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("results/halo.json"))
    given = parser.parse_args()
    rows = []
    for name, make in GRAPHS.items():
        graph = make()
        row: dict[str, Any] = {"graph": name, "nodes": graph.num_nodes, "degree": graph.average_degree}
        for method in ("metis", "random"):
            owner, _ = partition_nodes(graph.adjacency, given.parts, method)  # type: ignore[arg-type]
            row[method] = {
                "halo_rows_per_node": halo_rows(graph, owner),
                "crossing_share": crossing_share(graph.adjacency, owner),
            }
        rows.append(row)
        print(row, flush=True)
    atomic_json(given.out, {"parts": given.parts, "rows": rows, **origin()})


if __name__ == "__main__":
    main()
