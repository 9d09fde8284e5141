r"""Why MinCutPool's assignment stays uniform in table 2: when is the uniform S a minimum of L_c + w L_o?

Move the uniform assignment S = 1/K in one direction: S + e x q', with a function x of the nodes (zero mean in each
graph) and a row q (zero sum, \|q\| = 1). To second order in e, with A~ the normalised adjacency, d its row sums and
N nodes,

    L_c = -1         + e^2 K x'(diag(d) - A~)x / sum(d)
    L_o = L_o(1/K)   - e^2 K c(K) x'x / N            c(K) = 1 / sqrt(2 K - 2 sqrt(K))

The cut pulls back, orthogonality pushes away. With the roughness of x,

    r(x) = [x'(diag(d) - A~)x / sum(d)] / [x'x / N]

the uniform assignment is left only along functions of the nodes with r(x) < w c(K). Which functions there are is
decided by what the pooler reads: here the hidden units of the network's first layer with random weights, and all
their linear combinations (of the principal directions with all but a thousandth of their variance). Where the
smoothest of them is rougher than w c(K), the uniform assignment is a local minimum that small steps do not leave,
unless the first layer learns something smoother; w has to be raised or K lowered.

    python -m softcut.paper.uniform_point --out results
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.classification.collection import GraphCollection
from softcut.classification.experiment import cluster_sizes
from softcut.datasets.collections import load_graphs
from softcut.files import atomic_json
from softcut.paper.table2 import DATASETS
from softcut.provenance import commit

__all__ = ["main", "push", "roughness", "uniform_point"]

Array = NDArray[np.float64]
_UNITS = 256
LEFT_OUT = 1e-3  # share of the variance
_FILE = "uniform_point.json"


def push(k: int) -> float:
    """c(K): how strongly L_o, with weight 1, pushes away from the uniform assignment.

    >>> round(push(4), 3), round(push(100), 3)
    (0.5, 0.075)
    """
    return 1.0 / math.sqrt(2 * k - 2 * math.sqrt(k))


def roughness(graphs: GraphCollection, x: Array) -> tuple[Array, Array]:
    """The two quadratic forms of r(x), mean over the graphs, for the columns of x [N, M]: two matrices [M, M].

    Columns are centred in each graph first.
    """
    graph = np.repeat(np.arange(len(graphs)), graphs.sizes)
    x = x - _sums(graph, x, len(graphs))[graph] / graphs.sizes[graph, None]
    normalised = _normalised(graphs)
    degree = normalised.sum(1)
    volume = np.bincount(graph, degree, len(graphs))[graph]
    weight = np.divide(1.0, volume, out=np.zeros_like(volume), where=volume > 0)  # no edges: L_c is 0
    rough = x.T @ (x * (weight * degree)[:, None] - (normalised @ x) * weight[:, None])
    spread = x.T @ (x / graphs.sizes[graph, None])
    return rough / len(graphs), spread / len(graphs)


def uniform_point(graphs: GraphCollection, k: int | None = None, seed: int = 0) -> dict[str, Any]:
    """The roughness of what a random first layer makes of the nodes, and the weight of L_o that leaves S = 1/K."""
    k = cluster_sizes(graphs, 2)[0] if k is None else k
    hidden = _hidden(graphs, seed)
    rough, spread = roughness(graphs, hidden)
    alive = np.diag(spread) > 1e-9 * np.diag(spread).max()
    typical = float(np.median(np.diag(rough)[alive] / np.diag(spread)[alive]))
    # Directions that hardly any node has are left out: their roughness is a ratio of two roundings.
    variance, directions = scipy.linalg.eigh(spread)
    kept = np.cumsum(variance) > LEFT_OUT * variance.sum()
    whitened = directions[:, kept] / np.sqrt(variance[kept])
    smoothest = float(scipy.linalg.eigvalsh(whitened.T @ rough @ whitened)[0])
    return {
        "dataset": graphs.name,
        "k": k,
        "push": push(k),
        "smoothest": smoothest,
        "typical": typical,
        "weight_smoothest": max(smoothest, 0.0) / push(k),
        "weight_typical": typical / push(k),
        "seed": seed,
    }


def _sums(group: NDArray[np.int64], x: Array, count: int) -> Array:
    member = sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(count, len(group)))
    return np.asarray(member @ x)


def _normalised(graphs: GraphCollection) -> sp.csr_array:
    adjacency = graphs.adjacency()
    degree = adjacency.sum(1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_array(sp.diags_array(scale) @ adjacency @ sp.diags_array(scale))


def _hidden(graphs: GraphCollection, seed: int) -> Array:
    """relu(A~ X W + X V) with random W, V: what the pooler reads before anything is learnt."""
    x = _sparse_features(graphs)
    rng = np.random.default_rng(seed)
    w, v = rng.normal(size=(2, graphs.num_features, _UNITS)) / math.sqrt(graphs.num_features)
    return np.maximum(_normalised(graphs) @ (x @ w) + x @ v, 0.0)


def _sparse_features(graphs: GraphCollection) -> sp.csr_array:
    n, hot, numbers = graphs.num_nodes, graphs.index.shape[1], graphs.value.shape[1]
    columns = np.broadcast_to(np.arange(graphs.num_features - numbers, graphs.num_features), (n, numbers))
    column = np.concatenate([graphs.index, columns], axis=1).ravel()
    entry = np.concatenate([np.ones((n, hot)), graphs.value], axis=1).ravel()
    rows = np.arange(n + 1) * (hot + numbers)
    return sp.csr_array((entry, column, rows), shape=(n, graphs.num_features))


def main(arguments: Sequence[str] | None = None) -> None:
    """``python -m softcut.paper.uniform_point``: a table, and ``uniform_point.json``."""
    parser = argparse.ArgumentParser(prog="python -m softcut.paper.uniform_point", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--out", default="results", help="folder of the results (default results)")
    given = parser.parse_args(arguments)
    rows = []
    print("| data | K | c(K) | smoothest | typical unit | L_o weight to leave 1/K | for a typical unit |")
    print("|---|---|---|---|---|---|---|")
    for name in given.dataset:
        row = uniform_point(load_graphs(name, given.data))
        rows.append({**row, "commit": commit(), "command": "python -m softcut.paper.uniform_point"})
        print(
            f"| {name} | {row['k']} | {row['push']:.3f} | {row['smoothest']:.3f} | {row['typical']:.3f} "
            f"| {row['weight_smoothest']:.1f} | {row['weight_typical']:.1f} |",
            flush=True,
        )
    atomic_json(Path(given.out) / _FILE, rows)


if __name__ == "__main__":
    main()
