"""Whether `verdict_` says that there are communities, by the edges alone, where there are some and only there.

Known networks (networkx, igraph, ``$SOFTCUT_DATA/labelled``), shapes, planted partitions, random graphs of five kinds,
tables of noise as nearest-neighbour graphs (``Graph.from_features``), and tables with clusters. Writes
``results/verdicts.json`` after each group and prints tables. The seed of what is drawn is the digest of the recipe, so
that no threshold was chosen on it; for choosing one there are seeds below 1,000 (``--seed``).

    python benchmarks/verdicts.py [--only GROUP ...] [--seed N] [--each 20]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from unknown_numbers import igraph_of, read

from softcut import Graph, GraphClustering
from softcut.clustering.recipe import DEFAULT
from softcut.files import atomic_json
from softcut.provenance import origin
from softcut.report.tables import markdown_table

FAMOUS = (
    "Frucht",
    "Krackhardt_Kite",
    "Meredith",
    "Petersen",
    "Tutte",
    "Walther",
    "Icosahedron",
    "Levi",
    "Zachary",
)
NOISE = ("normal", "uniform", "exponential", "correlated")
TREES = "trees"
RANDOM = ("random", "preferential", "regular", TREES, "rewired")
# Real networks whose edges are exchanged.
REWIRED = (
    "karate",
    "les miserables",
    "football",
    "polbooks",
    "school_high_2011",
    "yeast",
    "top_email",
    "us_counties",
)


@dataclass(frozen=True)
class Case:
    """A graph; `wanted` is "some" or "none" where it is known whether it has communities."""

    name: str
    graph: Graph
    wanted: str | None = None


def of(network: nx.Graph, weight: str | None = None) -> Graph:
    """A graph of networkx, its nodes in their order."""
    return Graph.from_scipy(nx.to_scipy_sparse_array(network, weight=weight, dtype=np.float32))


def renumbered(graph: Graph, seed: int) -> Graph:
    """The same graph with its nodes in another order."""
    order = np.random.default_rng(seed).permutation(graph.num_nodes)
    return Graph.from_scipy(sp.csr_array(graph.adjacency)[order][:, order])


def known(data: Path, seed: int, each: int) -> Iterator[Case]:
    """Networks that networkx and igraph carry."""
    import igraph

    karate, people = nx.karate_club_graph(), nx.les_miserables_graph()
    yield Case("karate", of(karate), "some")
    yield Case("karate, weighted", of(karate, "weight"), "some")
    yield Case("Les Miserables", of(people), "some")
    yield Case("Les Miserables, weighted", of(people, "weight"), "some")
    for i in range(1, 9):
        yield Case(f"Les Miserables, weighted, order {i}", renumbered(of(people, "weight"), i), "some")
    yield Case("Florentine families", of(nx.florentine_families_graph()))
    yield Case("Davis, women and events", of(nx.davis_southern_women_graph()))
    for name in FAMOUS:
        made = igraph.Graph.Famous(name)
        yield Case(f"igraph: {name}", of(nx.Graph(made.get_edgelist())))


def shapes(data: Path, seed: int, each: int) -> Iterator[Case]:
    """Graphs of which one knows by looking; chains, grids and trees can be divided, but nothing says where."""
    yield Case("star, 30", of(nx.star_graph(29)), "none")
    yield Case("complete, 30", of(nx.complete_graph(30)), "none")
    yield Case("ring, 30", of(nx.cycle_graph(30)))
    yield Case("path, 30", of(nx.path_graph(30)))
    yield Case("binary tree, 63", of(nx.balanced_tree(2, 5)))
    yield Case("grid, 10 x 10", of(nx.grid_2d_graph(10, 10)))
    yield Case("caveman, 6 x 6", of(nx.connected_caveman_graph(6, 6)), "some")
    yield Case("complete bipartite, 10 + 10", of(nx.complete_bipartite_graph(10, 10)), "none")
    for outside, wanted in ((0.03, "some"), (0.06, None), (0.09, None)):
        for i in range(3):
            made = nx.planted_partition_graph(4, 60, 0.12, outside, seed=(seed + i) % 2**32)
            yield Case(f"4 x 60, .12 inside, {outside} outside, {i}", of(made), wanted)


def labelled(data: Path, seed: int, each: int) -> Iterator[Case]:
    """The graphs with labels, by their edges."""
    for path in sorted((data / "labelled").glob("*.npz")):
        yield Case(path.stem, read(path).with_features(None))


def swapped(graph: Graph, seed: int) -> Graph:
    """The graph with ends of edges exchanged by igraph, and weights dealt out anew."""
    import igraph

    network, weights = igraph_of(graph)
    igraph.set_random_number_generator(random.Random(seed))
    network.rewire(n=10 * network.ecount())
    ends = np.array(network.get_edgelist()).T
    worth = np.ones(ends.shape[1]) if weights is None else np.random.default_rng(seed).permutation(weights)
    n = graph.num_nodes
    one_way = sp.coo_array((worth.astype(np.float32), (ends[0], ends[1])), shape=(n, n)).tocsr()
    return Graph.from_scipy(one_way + one_way.T)


def real(name: str, data: Path) -> Graph:
    """A network to be rewired."""
    if name == "karate":
        return of(nx.karate_club_graph())
    if name == "les miserables":
        return of(nx.les_miserables_graph(), "weight")
    return read(data / "labelled" / f"{name}.npz").with_features(None)


def random_graphs(data: Path, seed: int, each: int) -> Iterator[Case]:
    """`each` of five kinds, of 10 to 5,000 nodes."""
    for k, kind in enumerate(RANDOM):
        sizes = np.round(np.geomspace(10, 5000, each)).astype(int)
        for i, n in enumerate(sizes.tolist()):
            rng = np.random.default_rng([seed, k, i])
            draw = int(rng.integers(1 << 30))
            degree = min(int(rng.integers(2, 21)), n // 2)
            if kind == "rewired":
                name = REWIRED[i % len(REWIRED)]
                if (
                    name not in ("karate", "les miserables")
                    and not (data / "labelled" / f"{name}.npz").exists()
                ):
                    continue
                yield Case(f"rewired, {name}, {i}", swapped(real(name, data), draw), "none")
                continue
            if kind == "random":
                made = nx.fast_gnp_random_graph(n, degree / (n - 1), seed=draw)
            elif kind == "preferential":
                made = nx.barabasi_albert_graph(n, max(1, degree // 2), seed=draw)
            elif kind == "regular":
                degree = max(3, degree - degree * n % 2)
                made = nx.random_regular_graph(degree + degree * n % 2, n, seed=draw)
            else:
                made = nx.random_labeled_tree(n, seed=draw)
            shown = f", degree {degree}" if kind in ("random", "regular") else ""
            yield Case(f"{kind}, {n} nodes{shown}", of(made), "none")


def noise_rows(kind: str, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Rows without clusters."""
    if kind == "uniform":
        return rng.random((rows, columns))
    if kind == "exponential":
        return rng.exponential(size=(rows, columns))
    x = rng.standard_normal((rows, columns))
    if kind == "correlated":
        few = max(2, columns // 3)
        return x[:, :few] @ rng.standard_normal((few, columns)) + 0.5 * rng.standard_normal((rows, columns))
    return x


def tables_of_noise(data: Path, seed: int, each: int) -> Iterator[Case]:
    """Nearest-neighbour graphs of rows without clusters."""
    for i in range(each):
        rng = np.random.default_rng([seed, 77, i])
        kind = NOISE[i % len(NOISE)]
        rows, columns = int(rng.choice([120, 300, 600, 1500])), int(rng.choice([2, 4, 8, 16, 30]))
        x = noise_rows(kind, rows, columns, rng)
        yield Case(f"{kind}, {rows} x {columns}", Graph.from_features(x.astype(np.float32)), "none")


def tables(data: Path, seed: int, each: int) -> Iterator[Case]:
    """Tables of scikit-learn with clusters."""
    from sklearn import datasets as made

    state = seed % 2**32
    drawn: dict[str, Callable[[], np.ndarray]] = {
        "moons": lambda: made.make_moons(400, noise=0.07, random_state=state)[0],
        "circles": lambda: made.make_circles(400, noise=0.05, factor=0.4, random_state=state)[0],
        "blobs": lambda: made.make_blobs(400, centers=5, n_features=4, random_state=state)[0],
        "iris": lambda: made.load_iris().data,
        "wine": lambda: made.load_wine().data,
        "digits": lambda: made.load_digits().data,
        "breast cancer": lambda: made.load_breast_cancer().data,
    }
    for name, rows in drawn.items():
        yield Case(name, Graph.from_features(rows().astype(np.float32)), "some")


GROUPS: dict[str, Callable[[Path, int, int], Iterator[Case]]] = {
    "known": known,
    "shapes": shapes,
    "labelled": labelled,
    "random": random_graphs,
    "tables of noise": tables_of_noise,
    "tables": tables,
}


def measured(case: Case) -> dict[str, Any]:
    """What a fit without a number says."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there may be no clusters is what is measured
        est = GraphClustering(random_state=0, device="cpu", use="edges").fit(case.graph)
    right = None if case.wanted is None else (est.verdict_ == "none") == (case.wanted == "none")
    return {
        "graph": case.name,
        "nodes": case.graph.num_nodes,
        "edges": case.graph.num_edges,
        "verdict": est.verdict_,
        "deviations": round(est.deviations_ or 0.0, 2),
        "surplus": round(est.surplus_ or 0.0, 4),
        "clusters": int(est.n_clusters_),
        "wanted": case.wanted,
        "right": right,
        "seconds": round(time.perf_counter() - began, 2),
    }


def counts(rows: list[dict[str, Any]]) -> str:
    """How many of those that are known are right, and which are not."""
    told = [row for row in rows if row["right"] is not None]
    wrong = [
        f"{row['graph']} ({row['deviations']:g}, {row['surplus']:g})" for row in told if not row["right"]
    ]
    return f"{len(told) - len(wrong)} of {len(told)} right" + (f"; not {'; '.join(wrong)}" if wrong else "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--seed", type=int, help="of what is drawn; default: the digest of the recipe")
    parser.add_argument("--each", type=int, default=20, help="random graphs of a kind, and tables of noise")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SOFTCUT_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path("results/verdicts.json"))
    given = parser.parse_args()
    seed = int(DEFAULT.digest, 16) % 2**32 if given.seed is None else given.seed
    kept = json.loads(given.out.read_text(encoding="utf-8"))["groups"] if given.out.exists() else []
    groups = {group["group"]: group for group in kept}
    titles = ["graph", "nodes", "edges", "verdict", "deviations", "surplus", "clusters"]
    for name in given.only:
        rows = []
        for case in GROUPS[name](given.data, seed, given.each):
            rows.append(measured(case))
            print(" | ".join(str(rows[-1][title]) for title in titles), flush=True)
        groups[name] = {"group": name, "seed": seed, "recipe": DEFAULT.digest, **origin(), "rows": rows}
        atomic_json(given.out, {"groups": [groups[each] for each in GROUPS if each in groups]})
    for name in given.only:
        rows = groups[name]["rows"]
        if name not in ("random", "tables of noise"):
            print("\n" + markdown_table(titles, [[str(row[title]) for title in titles] for row in rows]))
        seconds = sum(row["seconds"] for row in rows)
        print(f"\n{name}: {counts(rows)}; {seconds:.0f} seconds")


if __name__ == "__main__":
    main()
