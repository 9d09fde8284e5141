"""Where the default clustering works and where not, beside what one would use instead.

Tables of scikit-learn as nearest-neighbour graphs, Zachary's karate club, and generated graphs of many kinds: signal in
the edges, in the features, in both; classes of unequal size, many classes, dense graphs, no features at all.
Writes ``results/regimes.json`` after each row and prints a table of NMI. Rows and methods that are not run stay in
that file as they were, each with the commit, device and command that measured it.

    python benchmarks/regimes.py [--states 3] [--only NAME ...] [--method NAME ...]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
from sklearn import datasets as tables
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from softcut import Graph, GraphClustering
from softcut.baselines import BASELINES
from softcut.datasets import attributed_communities
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.provenance import origin


def table(load: Callable[..., tuple[np.ndarray, np.ndarray]], neighbours: int = 10) -> Graph:
    """Rows as nodes, joined to their nearest neighbours."""
    x, y = load(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    near = kneighbors_graph(x, neighbours)
    return Graph.from_scipy(near.maximum(near.T), x=x.astype(np.float32), y=y)


def karate() -> Graph:
    club = nx.karate_club_graph()
    y = np.array([club.nodes[i]["club"] == "Officer" for i in club], dtype=int)
    return Graph.from_scipy(nx.to_scipy_sparse_array(club, weight=None, dtype=np.float32), y=y)


def gaussian(graph: Graph, separation: float, width: int = 64, seed: int = 0) -> Graph:
    """The same graph with normal features around class means `separation` standard deviations from the centre."""
    rng = np.random.default_rng(seed)
    assert graph.y is not None
    mean = rng.standard_normal((graph.y.max() + 1, width))
    mean *= separation / np.linalg.norm(mean, axis=1, keepdims=True)
    x = mean[graph.y] + rng.standard_normal((graph.num_nodes, width))
    return Graph.from_scipy(graph.adjacency, x=x.astype(np.float32), y=graph.y)


def made(*, k: int = 6, degree: float = 10, separation: float | None = None, **options: float) -> Graph:
    words = options.pop("n_features", 300 if separation is None else 0)
    graph = attributed_communities(2000, k, degree, int(words), seed=7, **options)  # type: ignore[arg-type]
    return graph if separation is None else gaussian(graph, separation)


DATA: dict[str, Callable[[], Graph]] = {
    "digits": lambda: table(tables.load_digits),
    "breast cancer": lambda: table(tables.load_breast_cancer),
    "wine": lambda: table(tables.load_wine),
    "iris": lambda: table(tables.load_iris),
    "karate club": karate,
    "edges only": lambda: made(edge_signal=0.6, feature_signal=0.0),
    "edges only, normal": lambda: made(edge_signal=0.6, separation=0.0),
    "no features": lambda: made(edge_signal=0.6, n_features=0),
    "features only": lambda: made(edge_signal=0.0, feature_signal=0.5),
    "features only, normal": lambda: made(edge_signal=0.0, separation=4.0),
    "both weak": lambda: made(edge_signal=0.35, feature_signal=0.15),
    "both weak, normal": lambda: made(edge_signal=0.35, separation=1.5),
    "both strong": lambda: made(edge_signal=0.6, feature_signal=0.4),
    "unequal classes": lambda: made(edge_signal=0.5, feature_signal=0.3, size_spread=1.0),
    "unequal, normal": lambda: made(edge_signal=0.5, separation=2.0, size_spread=1.0),
    "30 classes": lambda: made(k=30, edge_signal=0.6, feature_signal=0.4),
    "degree 60": lambda: made(degree=60, edge_signal=0.3, feature_signal=0.3),
    "degree 3, hubs": lambda: made(degree=3, edge_signal=0.6, feature_signal=0.3, degree_spread=1.5),
}
METHODS = ("softcut", "kmeans", "kmeans_propagated", "leiden")


def labels(method: str, graph: Graph, k: int, state: int) -> np.ndarray:
    if method == "softcut":
        return GraphClustering(k, random_state=state, device="cpu").fit(graph).soft_.argmax(1)
    return BASELINES[method](graph, k, random_state=state)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--states", type=int, default=3, help="values of random_state")
    parser.add_argument("--only", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("results/regimes.json"))
    given = parser.parse_args()
    kept = json.loads(given.out.read_text(encoding="utf-8"))["rows"] if given.out.exists() else []
    rows = {row["data"]: row for row in kept}
    print("| NMI | " + " | ".join(METHODS) + " |\n|" + "---|" * (len(METHODS) + 1))
    for name in given.only:
        graph = DATA[name]()
        assert graph.y is not None
        k = len(np.unique(graph.y))
        measured = rows[name]["methods"] if name in rows else {}
        measured = {
            method: measured[method] for method in METHODS if method in measured
        }  # of methods that are left
        for method in given.method:
            if graph.x is None and method.startswith("kmeans"):
                continue
            start = time.perf_counter()
            scores = [nmi(graph.y, labels(method, graph, k, state)) for state in range(given.states)]
            measured[method] = {
                "nmi": scores,
                "mean": float(np.mean(scores)),
                "seconds": (time.perf_counter() - start) / given.states,
                **origin(),
            }
        rows[name] = {"data": name, "nodes": graph.num_nodes, "classes": k, "methods": measured}
        cells = [f"{measured[m]['mean']:.3f}" if m in measured else "-" for m in METHODS]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        atomic_json(given.out, {"rows": [rows[data] for data in DATA if data in rows]})


if __name__ == "__main__":
    main()
