"""Graphs as the files that users have."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from softcut.graph import Graph


def write_csv(graph: Graph, edges: Path, features: Path | None = None, name: str = "{}") -> list[str]:
    """Write an edge list, and features joined by name in another order; the names of the nodes."""
    names = [name.format(i) for i in range(graph.num_nodes)]
    pairs = sp.coo_array(sp.triu(graph.adjacency))
    lines = [f"{names[a]},{names[b]}" for a, b in zip(pairs.row, pairs.col, strict=True)]
    edges.write_text("\n".join(["source,target", *lines]) + "\n")
    if features is not None:
        x = graph.x.toarray() if sp.issparse(graph.x) else graph.x
        rows = [",".join([names[i], *map(str, x[i].tolist())]) for i in range(len(names))]
        header = ",".join(["id", *(f"w{j}" for j in range(x.shape[1]))])
        mixed = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
        features.write_text("\n".join([header, *mixed]) + "\n")
    return names
