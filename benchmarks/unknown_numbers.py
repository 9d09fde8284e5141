"""What is found where the number of clusters is not given, beside Leiden at resolution 1.

Scores are AMI with the labels, of the nodes that have an edge and a label. softcut reads the edges alone
(``use="edges"``) and, where nodes have features, both; "best" is the level of its tree that fits the labels best.
Leiden is igraph's, by modularity at resolution 1, the mean of three seeds. With ``--before`` an earlier checkout is
asked for its ``"auto"``, too. Graphs that are recorded are kept (``--again``: measured anew).

    python benchmarks/unknown_numbers.py [--only NAME ...] [--before CHECKOUT] [--again]
    python benchmarks/unknown_numbers.py --test
    python benchmarks/unknown_numbers.py --folder PATH

The first command reads ``$SOFTCUT_DATA/labelled`` and the eight data sets of docs/quality.md and writes
``results/unknown_numbers.json``. ``--test`` makes the test graphs of docs/protocol.md, whose seed is the digest of the
recipe, and writes NMI and verdicts below that digest in ``results/unknown_numbers_test.json``. ``--folder`` scores
any folder of ``.npz`` files with ``num_nodes``, ``row``, ``col``, ``y`` and, where there are some, ``weight`` and the
features ``x_data``, ``x_indices``, ``x_indptr``, ``x_columns``; it writes a file only with ``--out``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut import Graph, GraphClustering
from softcut.clustering.recipe import DEFAULT
from softcut.datasets import attributed_communities, load
from softcut.files import atomic_json
from softcut.metrics import nmi
from softcut.paper.quality import DATASETS
from softcut.provenance import origin
from softcut.report.tables import markdown_table

Row = dict[str, Any]
SEEDS = 3  # of Leiden
BEHIND = 0.05  # a graph is behind Leiden where softcut's score is lower by more than this
_BEFORE = """
import sys, numpy as np, scipy.sparse as sp, warnings
from softcut import Graph, GraphClustering
warnings.simplefilter("ignore")
folder = sys.argv[1]
x = sp.csr_array(sp.load_npz(folder + "/x.npz")) if len(sys.argv) > 2 else None
if x is not None and x.nnz > 0.5 * x.shape[0] * x.shape[1]:
    x = x.toarray()
graph = Graph.from_scipy(sp.load_npz(folder + "/graph.npz"), x=x)
np.save(folder + "/labels.npy", GraphClustering("auto", random_state=0, device="cpu").fit(graph).soft_.argmax(1))
"""


def read(path: Path) -> Graph:
    """The graph of a file in the layout of ``labelled``."""
    with np.load(path) as file:
        n, row, col = int(file["num_nodes"]), file["row"], file["col"]
        weight = file["weight"] if "weight" in file else np.ones(len(row))
        one_way = sp.coo_array((weight.astype(np.float32), (row, col)), shape=(n, n)).tocsr()
        x = None
        if "x_data" in file:
            parts = (file["x_data"].astype(np.float32), file["x_indices"], file["x_indptr"])
            x = sp.csr_array(parts, shape=(n, int(file["x_columns"])))
            if x.nnz > 0.5 * n * x.shape[1]:
                x = x.toarray()
        y = file["y"].astype(np.int64)
    return Graph.from_scipy(one_way.maximum(one_way.T), x=x, y=y)


def graphs(data: Path, only: Iterable[str] | None) -> Iterator[tuple[str, Callable[[], Graph]]]:
    """Names and readers of all graphs of the first command."""
    wanted = set(only or ())
    for path in sorted((data / "labelled").glob("*.npz")):
        if not wanted or path.stem in wanted:
            yield path.stem, lambda path=path: read(path)
    for name in DATASETS:
        if not wanted or name in wanted:
            yield name, lambda name=name: load(name)


def scored_nodes(graph: Graph) -> np.ndarray:
    """Which nodes have an edge and a label [N]."""
    if graph.y is None:
        raise SystemExit("this graph has no labels (y): there is nothing to score.")
    return (np.diff(graph.adjacency.indptr) > 0) & (np.asarray(graph.y) >= 0)


def ami(graph: Graph, labels: np.ndarray) -> float:
    """Adjusted mutual information with the labels of the nodes that count."""
    from sklearn.metrics import adjusted_mutual_info_score

    kept = scored_nodes(graph)
    return round(float(adjusted_mutual_info_score(np.asarray(graph.y)[kept], np.asarray(labels)[kept])), 4)


def igraph_of(graph: Graph) -> tuple[Any, np.ndarray | None]:
    """A graph of igraph, and its weights where they differ."""
    import igraph

    upper = sp.coo_array(sp.triu(graph.adjacency, 1))
    made = igraph.Graph(n=graph.num_nodes, edges=np.stack([upper.row, upper.col], axis=1))
    differ = len(upper.data) > 0 and bool((upper.data != upper.data[0]).any())
    return made, upper.data.astype(np.float64) if differ else None


def leiden(graph: Graph, seed: int, resolution: float = 1.0, made: Any = None) -> np.ndarray:
    """Leiden by modularity, igraph's (Traag et al., 2019)."""
    import igraph

    network, weights = igraph_of(graph) if made is None else made
    igraph.set_random_number_generator(random.Random(seed))
    found = network.community_leiden("modularity", weights=weights, resolution=resolution, n_iterations=2)
    return np.asarray(found.membership)


def fitted(graph: Graph, score: Callable[[np.ndarray], float], **options: Any) -> Row:
    """One fit without a number: the score of the chosen level and of all."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = GraphClustering(random_state=0, device="cpu", **options).fit(graph)
    seconds = time.perf_counter() - began
    levels = (
        [est.labels_] if est.levels_ is None else [est.labels_at(i) for i in range(len(est.levels_.labels))]
    )
    scores = [score(labels) for labels in levels]
    deviations, surplus = est.deviations_, est.surplus_
    return {
        "score": score(est.labels_),
        "best": max(scores),
        "levels": scores,
        "numbers": [len(np.unique(labels[labels >= 0])) for labels in levels],
        "clusters": int(est.n_clusters_),
        "verdict": est.verdict_,
        "structure": round(est.structure_, 4),
        "deviations": None if deviations is None else round(deviations, 2),
        "surplus": None if surplus is None else round(surplus, 4),
        "seconds": round(seconds, 2),
    }


def by_leiden(graph: Graph, score: Callable[[np.ndarray], float]) -> Row:
    """The mean over three seeds."""
    made = igraph_of(graph)
    linked = np.diff(graph.adjacency.indptr) > 0  # a node without edges is no cluster
    began = time.perf_counter()
    found = [leiden(graph, seed, made=made) for seed in range(SEEDS)]
    return {
        "score": round(float(np.mean([score(labels) for labels in found])), 4),
        "clusters": round(float(np.mean([len(np.unique(labels[linked])) for labels in found])), 1),
        "seconds": round((time.perf_counter() - began) / SEEDS, 3),
    }


def before(graph: Graph, checkout: Path, features: bool, limit: float | None = None) -> Row:
    """What an earlier checkout answers to ``"auto"``."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(f"{folder}/graph.npz", graph.adjacency)
        if features:
            sp.save_npz(f"{folder}/x.npz", sp.csr_array(graph.x))
        words = [sys.executable, "-c", _BEFORE, folder, *(["x"] if features else [])]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        subprocess.run(words, check=True, env=environment, cwd=folder, timeout=limit)
        labels = np.load(f"{folder}/labels.npy")
    return {
        "score": ami(graph, labels),
        "clusters": len(np.unique(labels)),
        "seconds": round(time.perf_counter() - began, 1),
    }


def measure(name: str, graph: Graph) -> Row:
    """All columns but those of the earlier checkout."""

    def score(labels: np.ndarray) -> float:
        return ami(graph, labels)

    own = graph.with_features(None) if graph.num_features else graph
    return {
        "graph": name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "labels": len(np.unique(np.asarray(graph.y)[scored_nodes(graph)])),
        "leiden": by_leiden(graph, score),
        "by_edges": fitted(own, score),
        "both": fitted(graph, score) if graph.num_features else None,
        "recipe": DEFAULT.digest,
        **origin(),
    }


COLUMNS = {
    "Leiden": ("leiden", "score"),
    "edges": ("by_edges", "score"),
    "best level": ("by_edges", "best"),
    "both": ("both", "score"),
    "its best": ("both", "best"),
    "before, edges": ("before_edges", "score"),
    "before, both": ("before_both", "score"),
}


def value(row: Row, column: str) -> float | None:
    """What a column shows, or None."""
    part, key = COLUMNS[column]
    return (row.get(part) or {}).get(key)


def mean(rows: Iterable[Row], column: str) -> float | None:
    """Over the rows that have it; None where there are none."""
    found = [each for row in rows if (each := value(row, column)) is not None]
    return float(np.mean(found)) if found else None


def behind(rows: Iterable[Row], column: str) -> list[str]:
    """Graphs where a column is behind Leiden, and by how much."""
    pairs = [(row["graph"], value(row, column), value(row, "Leiden")) for row in rows]
    return [f"{n} {b - a:.3f}" for n, a, b in pairs if a is not None and b is not None and b - a > BEHIND]


def cell(number: float | None) -> str:
    return "-" if number is None else f"{number:.3f}"


def lines(rows: list[Row]) -> str:
    """One table of all graphs, and means with and without features."""
    names = [name for name in COLUMNS if mean(rows, name) is not None]
    table = []
    for row in rows:
        edges, both = row["by_edges"], row["both"] or {}
        numbers = f"{row['leiden']['clusters']:g} / {edges['clusters']}" + (
            f" / {both['clusters']}" if both else ""
        )
        verdicts = edges["verdict"] + (f" / {both['verdict']}" if both else "")
        times = f"{row['leiden']['seconds']:.2f} / {edges['seconds']:.1f}"
        times += f" / {both['seconds']:.1f}" if both else ""
        scores = [cell(value(row, name)) for name in names]
        table.append([row["graph"], str(row["labels"]), *scores, numbers, verdicts, times])
    groups = {
        "mean of all": rows,
        "mean, no features": [row for row in rows if row["both"] is None],
        "mean, with features": [row for row in rows if row["both"] is not None],
    }
    for title, group in groups.items():
        if group:
            table.append([title, "", *(cell(mean(group, name)) for name in names), "", "", ""])
    made = markdown_table(["AMI", "labels", *names, "clusters", "verdict", "seconds"], table)
    said = [
        f"more than {BEHIND} behind Leiden, {name}: {', '.join(behind(rows, name)) or 'none'}"
        for name in names[1:5]
    ]
    return "\n".join([made, "", *said])


def all_graphs(
    given: argparse.Namespace, out: Path | None, found: Iterable[tuple[str, Callable[[], Graph]]]
) -> None:
    """Measure, and keep what is recorded."""
    kept = json.loads(out.read_text(encoding="utf-8"))["rows"] if out is not None and out.exists() else []
    rows: dict[str, Row] = {row["graph"]: row for row in kept}
    shown = []
    for name, reader in found:
        shown.append(name)
        row = rows.get(name)
        if row is None or given.again or row["recipe"] != DEFAULT.digest:
            graph = reader()
            earlier = {k: v for k, v in (row or {}).items() if k.startswith("before")}
            rows[name] = {**measure(name, graph), **earlier}
        if given.before is not None:
            for key, features in (("before_edges", False), ("before_both", True)):
                if key in rows[name] or (features and rows[name]["both"] is None):
                    continue
                graph = reader()
                try:
                    rows[name][key] = before(graph, given.before, features, given.limit)
                except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                    print(f"{name}, {key}: {type(error).__name__}", flush=True)
        now = rows[name]
        print(name, {title: value(now, title) for title in COLUMNS}, now["by_edges"]["verdict"], flush=True)
        if out is not None:
            atomic_json(out, {"rows": list(rows.values())})
    print(lines([rows[name] for name in shown]))


# --------------------------------------------------------------------------------------------- generated test graphs


@dataclass(frozen=True)
class Planted:
    """A generated graph, and its communities: none, one clustering, or a coarse and a fine one."""

    family: str
    strength: float  # mixing of LFR graphs, else a number that tells graphs of a family apart
    graph: Graph
    truth: tuple[np.ndarray, ...]


def lfr(mixing: float, seed: int, nodes: int = 1000) -> tuple[Graph, np.ndarray]:
    """An LFR graph (Lancichinetti et al., 2008); a draw that does not succeed is followed by another one."""
    import networkx as nx

    for attempt in range(50):
        try:
            made = nx.LFR_benchmark_graph(
                nodes,
                tau1=2.5,
                tau2=1.5,
                mu=mixing,
                average_degree=15,
                max_degree=50,
                min_community=20,
                max_community=100,
                max_iters=1000,
                seed=(seed + 1009 * attempt) % 2**32,
            )
        except nx.ExceededMaxIterations:
            continue
        made.remove_edges_from(list(nx.selfloop_edges(made)))
        y = np.empty(nodes, dtype=np.int64)
        found = {frozenset(made.nodes[i]["community"]) for i in made}
        for label, members in enumerate(sorted(found, key=min)):
            y[list(members)] = label
        return Graph.from_scipy(
            nx.to_scipy_sparse_array(made, nodelist=range(nodes), dtype=np.float32), y=y
        ), y
    raise SystemExit(f"no LFR graph with mixing {mixing} in 50 draws")


def between(graph: Graph, y: np.ndarray) -> float:
    """The share of the edges that join two communities: networkx's LFR graphs have more than was asked for."""
    rows = np.repeat(np.arange(len(y)), np.diff(graph.adjacency.indptr))
    return round(float((y[rows] != y[graph.adjacency.indices]).mean()), 4)


def nested(seed: int, above: int = 4, below: int = 4, size: int = 40) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Blocks inside blocks: of a node's 16 neighbours about 9 are in its own block, 5 in the one above it."""
    rng = np.random.default_rng(seed)
    fine = np.repeat(np.arange(above * below), size)
    coarse, n = fine // below, above * below * size
    share = np.full((n, n), 2 / (n - below * size))
    share[coarse[:, None] == coarse] = 5 / ((below - 1) * size)
    share[fine[:, None] == fine] = 9 / (size - 1)
    upper = np.triu(rng.random((n, n)) < share, 1)
    return Graph.from_scipy(sp.csr_array((upper | upper.T).astype(np.float32)), y=fine), coarse, fine


def without_communities(kind: str, seed: int) -> Graph:
    """A random graph of 100 to 2,000 nodes."""
    import networkx as nx

    rng = np.random.default_rng(seed)
    nodes, degree = int(rng.choice([100, 300, 1000, 2000])), int(rng.choice([3, 5, 8, 12]))
    draw = int(rng.integers(1 << 30))
    if kind == "random":
        made = nx.fast_gnp_random_graph(nodes, degree / (nodes - 1), seed=draw)
    elif kind == "preferential":
        made = nx.barabasi_albert_graph(nodes, max(2, degree // 2), seed=draw)
    elif kind == "regular":
        made = nx.random_regular_graph(degree, nodes + nodes * degree % 2, seed=draw)
    else:
        made = nx.random_labeled_tree(nodes, seed=draw)
    return Graph.from_scipy(nx.to_scipy_sparse_array(made, dtype=np.float32))


def test_graphs(seed: int, each: int) -> Iterator[Planted]:
    """All families of docs/protocol.md; `each` graphs of a kind."""
    for tenth in range(1, 9):
        for i in range(each):
            graph, y = lfr(tenth / 10, (seed + 100 * tenth + i) % 2**32)
            yield Planted("LFR", tenth / 10, graph, (y,))
    for i in range(2 * each):
        graph, coarse, fine = nested((seed + 1000 + i) % 2**32)
        yield Planted("nested blocks", i, graph, (coarse, fine))
    for family, signal in (("features say something", 0.4), ("features say nothing", 0.0)):
        for i in range(2 * each):
            rng = np.random.default_rng((seed + 2000 + i) % 2**32)
            graph = attributed_communities(
                1000,
                int(rng.integers(3, 25)),
                float(rng.choice([6, 10, 16])),
                300,
                edge_signal=0.6,
                feature_signal=signal,
                seed=int(rng.integers(1 << 30)),
            )
            yield Planted(family, i, graph, (np.asarray(graph.y),))
    for kind in ("random", "preferential", "regular", "trees"):
        for i in range(each):
            yield Planted(f"none, {kind}", i, without_communities(kind, (seed + 3000 + i) % 2**32), ())


def scored_plant(plant: Planted) -> Row:
    """NMI and verdict of both methods; of several truths the one that is nearest."""

    def score(labels: np.ndarray) -> float:
        kept = labels >= 0
        return max((round(nmi(y[kept], labels[kept]), 4) for y in plant.truth), default=0.0)

    row: Row = {"family": plant.family, "strength": plant.strength, "nodes": plant.graph.num_nodes}
    row["edges"] = plant.graph.num_edges
    row["planted"] = [len(np.unique(y)) for y in plant.truth]
    row["between"] = [between(plant.graph, y) for y in plant.truth]
    row["leiden"] = by_leiden(plant.graph, score)
    row["softcut"] = fitted(plant.graph, score)
    if plant.graph.num_features:
        row["by_edges"] = fitted(plant.graph.with_features(None), score)
    if len(plant.truth) > 1:  # whether some level finds each of them
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est = GraphClustering(random_state=0, device="cpu").fit(plant.graph)
        levels = [est.labels_at(i) for i in range(len(est.levels_.labels))]
        row["found"] = [max(round(nmi(y, labels), 4) for labels in levels) for y in plant.truth]
    return row


def test(out: Path, each: int) -> None:
    """The test families of the digest of the recipe; what earlier digests scored is kept."""
    record = json.loads(out.read_text(encoding="utf-8"))["digests"] if out.exists() else {}
    seed = int(DEFAULT.digest, 16) % 2**32
    rows: list[Row] = []
    for plant in test_graphs(seed, each):
        rows.append(scored_plant(plant))
        row = rows[-1]
        ours, theirs = row["softcut"], row["leiden"]
        print(
            f"{row['family']} {row['strength']:g}: softcut {ours['score']:.3f} (best {ours['best']:.3f}, "
            f"{ours['clusters']} of {row['planted']}, {ours['verdict']}), Leiden {theirs['score']:.3f}"
            + (f", each plant {row['found']}" if "found" in row else ""),
            flush=True,
        )
        record.pop(DEFAULT.digest, None)  # the latest comes last
        record[DEFAULT.digest] = {"seed": seed, **origin(), "rows": rows}
        atomic_json(out, {"digests": record})
    print(families(rows))


def families(rows: list[Row]) -> str:
    """Means of each family."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        title = f"LFR, mixing {row['strength']:g}" if row["family"] == "LFR" else row["family"]
        groups.setdefault(title, []).append(row)
    table = []
    for title, group in groups.items():
        verdicts = [row["softcut"]["verdict"] for row in group]
        told = ", ".join(f"{verdicts.count(v)} {v}" for v in ("none", "weak", "clear") if v in verdicts)

        def over(part: str, key: str, group: list[Row] = group) -> str:
            return cell(float(np.mean([row[part][key] for row in group])) if group[0]["planted"] else None)

        edges = over("by_edges", "score") if "by_edges" in group[0] else "-"
        table.append(
            [title, over("leiden", "score"), over("softcut", "score"), over("softcut", "best"), edges, told]
        )
    return markdown_table(["NMI", "Leiden", "softcut", "best level", "by its edges alone", "verdicts"], table)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", help="names of graphs")
    parser.add_argument(
        "--before", type=Path, help="an earlier checkout, whose answer to 'auto' is scored, too"
    )
    parser.add_argument("--limit", type=float, help="seconds that one fit of it may take")
    parser.add_argument("--again", action="store_true", help="measure what is recorded anew")
    parser.add_argument("--test", action="store_true", help="the generated test graphs of this recipe")
    parser.add_argument("--each", type=int, default=3, help="generated graphs of a kind")
    parser.add_argument("--folder", type=Path, help="a folder of graphs to score")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SOFTCUT_DATA", ".")))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.test:
        test(given.out or Path("results/unknown_numbers_test.json"), given.each)
    elif given.folder is not None:
        wanted = set(given.only or ())
        paths = [path for path in sorted(given.folder.glob("*.npz")) if not wanted or path.stem in wanted]
        if not paths:
            raise SystemExit(f"there are no .npz files in {given.folder}.")
        all_graphs(given, given.out, ((path.stem, lambda path=path: read(path)) for path in paths))
    else:
        all_graphs(given, given.out or Path("results/unknown_numbers.json"), graphs(given.data, given.only))


if __name__ == "__main__":
    main()
