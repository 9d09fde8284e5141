"""Communities of a graph that changes: how many nodes move to another one, with ``start=``, without, and by Leiden.

One percent of the edges is removed and as many are added, ten times in a row: between nodes drawn by their degrees,
"alike" inside communities as often as edges lie inside those of the first graph, "anywhere" without looking. All
methods are run at the resolution of the first fit; ids of communities are matched by their largest overlap. Modularity
at each step is compared with that of a fresh fit. Then graphs are renumbered: labels must follow the nodes; nodes that
colour refinement cannot tell apart do not count. Writes ``results/changing_graphs.json`` and prints tables.

    python benchmarks/changing_graphs.py [--steps 10] [--orders 8] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from communities import edge_list, planted
from unknown_numbers import leiden, read
from verdicts import of

from softcut import Graph, GraphClustering
from softcut.clustering.earlier import with_earlier_ids
from softcut.communities.engine import adjusted_rand, quality
from softcut.communities.network import Network
from softcut.datasets import load
from softcut.files import atomic_json
from softcut.provenance import origin
from softcut.report.tables import markdown_table

Row = dict[str, Any]
SHARE = 0.01  # of the edges that change in a step
WAYS = ("start", "without", "leiden")
LEAST_BEHIND = 0.005  # that modularity may lie below a fresh fit
ASKED = 1 / 3  # of Leiden's changes, at most
CHANGING = (
    "football",
    "school_high_2013",
    "fb_reed",
    "top_email",
    "us_counties",
    "openflights",
    "yeast",
    "planted",
)
RENUMBERED = (
    *(
        "karate",
        "les miserables",
        "football",
        "polbooks",
        "school_high_2011",
        "school_high_2013",
        "us_counties",
    ),
    *(
        "openflights",
        "yeast",
        "fb_reed",
        "top_email",
        "wisconsin",
        "texas",
        "dblp_authors",
        "coil20",
        "pbmc_pca",
    ),
    *("polblogs", "cora", "PGPgiantcompo", "planted"),
)


def graph_of(name: str, data: Path) -> Graph:
    """A graph by its edges alone."""
    if name == "karate":
        return of(nx.karate_club_graph(), "weight")
    if name == "les miserables":
        return of(nx.les_miserables_graph(), "weight")
    if name == "planted":
        return Graph.from_scipy(planted(3000, 20_000))
    if name in ("polblogs", "cora"):
        return load(name).with_features(None)
    if name == "PGPgiantcompo":
        return Graph.from_scipy(edge_list(data / "edgelists" / f"{name}.npz"))
    return read(data / "labelled" / f"{name}.npz").with_features(None)


def changed(matrix: sp.csr_array, labels: np.ndarray | None, rng: np.random.Generator) -> sp.csr_array:
    """One percent of the edges removed, as many added; their weights go to the new ones.

    With labels a new edge lies inside a community where the one that it takes the place of did.
    """
    upper = sp.coo_array(sp.triu(matrix, 1))
    n, m = matrix.shape[0], len(upper.data)
    count = max(1, round(SHARE * m))
    gone = rng.choice(m, count, replace=False)
    kept = np.ones(m, dtype=bool)
    kept[gone] = False
    taken = set(zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    ends = np.concatenate([upper.row, upper.col])  # a draw from these is a draw by degree
    added: list[tuple[int, int]] = []
    for e in gone.tolist():
        inside = labels is not None and labels[upper.row[e]] == labels[upper.col[e]]
        for _ in range(10_000):
            a, b = (int(each) for each in ends[rng.integers(len(ends), size=2)])
            pair = (min(a, b), max(a, b))
            if a != b and pair not in taken and (labels is None or (labels[a] == labels[b]) == inside):
                break
        else:
            pair = (int(upper.row[e]), int(upper.col[e]))  # there is no room for another one
        taken.add(pair)
        added.append(pair)
    new = np.array(added).T
    row, col = np.concatenate([upper.row[kept], new[0]]), np.concatenate([upper.col[kept], new[1]])
    weight = np.concatenate([upper.data[kept], upper.data[gone]])
    one_way = sp.coo_array((weight, (row, col)), shape=(n, n)).tocsr()
    return sp.csr_array(one_way + one_way.T)


def moved(labels: np.ndarray, before: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels with the ids of the communities that persist, and the share of nodes whose id is another one."""
    both = (labels >= 0) & (before >= 0)
    own = with_earlier_ids(labels, before)[0]
    return own, float((own != before)[both].mean())


def fit(graph: Graph, start: GraphClustering | None = None, scale: float | None = None) -> GraphClustering:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GraphClustering(random_state=0, device="cpu", scale=scale).fit(graph, start=start)


def followed(name: str, graph: Graph, alike: bool, steps: int, seed: int) -> Row:
    """A graph that changes, and what each method makes of it; Leiden and the fit without `start` keep their seeds."""
    rng = np.random.default_rng(seed)
    first = fit(graph)
    if first.levels_ is None or first.levels_.marks[first.level_] == 0:
        raise SystemExit(f"{name} has no communities to follow.")
    resolution = float(first.levels_.marks[first.level_])
    matrix = sp.csr_array(graph.adjacency)
    known = leiden(graph, 0, resolution) if alike else None
    before = {
        "start": first.labels_,
        "without": first.labels_,
        "leiden": leiden(graph, 0, resolution),
    }
    est, rows, seconds = first, [], dict.fromkeys(WAYS, 0.0)
    for _ in range(steps):
        matrix = changed(matrix, known, rng)
        now = Graph.from_scipy(matrix)
        network = Network(now.adjacency)

        def continued(now: Graph = now) -> np.ndarray:
            nonlocal est
            est = fit(now, start=est)
            return est.labels_

        ways: dict[str, Callable[[], np.ndarray]] = {
            "start": continued,
            "without": lambda now=now: fit(now, scale=resolution).labels_,
            "leiden": lambda now=now: leiden(now, 0, resolution),
        }
        row: Row = {}
        for way, run in ways.items():
            began = time.perf_counter()
            labels = run()
            seconds[way] += time.perf_counter() - began
            whole = np.unique(labels, return_inverse=True)[1].reshape(-1)
            before[way], share = moved(labels, before[way])
            row[way] = {"moved": round(share, 4), "modularity": round(quality(network, whole, resolution), 5)}
            row[way]["clusters"] = int(whole.max()) + 1
        rows.append(row)
    return {
        "graph": name,
        "edges": graph.num_edges,
        "added": "alike" if alike else "anywhere",
        "resolution": resolution,
        "verdict": first.verdict_,
        **{way: round(float(np.mean([row[way]["moved"] for row in rows])), 4) for way in WAYS},
        "behind_fresh": round(
            max(row["without"]["modularity"] - row["start"]["modularity"] for row in rows), 5
        ),
        "behind_leiden": round(
            max(row["leiden"]["modularity"] - row["start"]["modularity"] for row in rows), 5
        ),
        "seconds": {way: round(each / steps, 3) for way, each in seconds.items()},
        "steps": rows,
    }


def renumbered(name: str, graph: Graph, orders: int) -> Row:
    """The least agreement of communities of the same graph with its nodes in other orders."""
    own = fit(graph)
    colours = Network(graph.adjacency).colours
    _, which, count = np.unique(colours, return_inverse=True, return_counts=True)
    told = (count == 1)[which.reshape(-1)]  # nodes that no other one is like
    least = least_all = 1.0
    same = True
    for seed in range(1, orders + 1):
        order = np.random.default_rng(seed).permutation(graph.num_nodes)
        other = fit(Graph.from_scipy(sp.csr_array(graph.adjacency)[order][:, order]))
        labels = np.empty_like(own.labels_)
        labels[order] = other.labels_
        same = same and own.verdict_ == other.verdict_ and own.n_clusters_ == other.n_clusters_
        pairs = [np.unique(each, return_inverse=True)[1].reshape(-1) for each in (own.labels_, labels)]
        least_all = min(least_all, adjusted_rand(*pairs))
        if told.any():
            least = min(least, adjusted_rand(pairs[0][told], pairs[1][told]))
    return {
        "graph": name,
        "nodes": graph.num_nodes,
        "alike": int((~told).sum()),
        "ari": round(least, 4),
        "ari_all": round(least_all, 4),
        "same_number_and_verdict": same,
        "orders": orders,
    }


def tables(record: dict[str, list[Row]]) -> str:
    """Both tables, and how far what was asked for is met."""
    made = []
    if record["changing"]:
        titles = [
            "graph",
            "added",
            "start",
            "without",
            "Leiden",
            "start / Leiden",
            "below a fresh fit, at most",
        ]
        lines = []
        for row in record["changing"]:
            share = row["start"] / row["leiden"] if row["leiden"] else float(row["start"] > 0)
            cells = [f"{row[way]:.4f}" for way in WAYS]
            lines.append([row["graph"], row["added"], *cells, f"{share:.2f}", f"{row['behind_fresh']:.4f}"])
        made.append(markdown_table(titles, lines))
        good = sum(row["start"] <= ASKED * row["leiden"] for row in record["changing"])
        near = sum(row["behind_fresh"] <= LEAST_BEHIND for row in record["changing"])
        total = len(record["changing"])
        made.append(
            f"at most a third of Leiden's: {good} of {total}; at most {LEAST_BEHIND} below: {near} of {total}"
        )
    if record["renumbered"]:
        titles = ["graph", "nodes", "alike", "ari", "ari_all", "same_number_and_verdict"]
        made.append(markdown_table(titles, [[str(row[t]) for t in titles] for row in record["renumbered"]]))
        good = sum(row["ari"] == 1 for row in record["renumbered"])
        made.append(f"ARI 1: {good} of {len(record['renumbered'])}")
    return "\n\n".join(made)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0, help="of the changes")
    parser.add_argument("--only", nargs="*", choices=sorted({*CHANGING, *RENUMBERED}))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SOFTCUT_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path("results/changing_graphs.json"))
    given = parser.parse_args()
    record: dict[str, list[Row]] = {"changing": [], "renumbered": []}
    if given.out.exists():
        record = json.loads(given.out.read_text(encoding="utf-8"))

    def put(part: str, row: Row) -> None:
        key = (row["graph"], row.get("added"))
        record[part] = [each for each in record[part] if (each["graph"], each.get("added")) != key]
        record[part].append({**row, **origin()})
        atomic_json(given.out, record)
        print({k: v for k, v in row.items() if k != "steps"}, flush=True)

    for name in CHANGING if given.only is None else [n for n in CHANGING if n in given.only]:
        graph = graph_of(name, given.data)
        for alike in (True, False):
            put("changing", followed(name, graph, alike, given.steps, given.seed))
    for name in RENUMBERED if given.only is None else [n for n in RENUMBERED if n in given.only]:
        put("renumbered", renumbered(name, graph_of(name, given.data), given.orders))
    print(tables(record))


if __name__ == "__main__":
    main()
