"""Time and memory of communities beside igraph's and leidenalg's Leiden and scikit-network's Louvain.

A process of its own per method; they take turns on each graph, with one thread, from a Graph in memory. Seconds are
those of the processor, which other programs on the machine hardly change. What peers need before they begin (igraph's
graph) is made outside of the time. softcut: "one scale" is resolution 1, "all scales"
the search over resolutions with verdict and levels, "K = 20" a fit with that number, with ``--before`` beside that of
an earlier checkout. Writes ``results/communities.json`` after each graph and prints a table. Graphs that are not run
stay in that file.

    python benchmarks/communities.py [--only NAME ...] [--before CHECKOUT] [--rounds N]

``us_counties`` (labelled), ``PGPgiantcompo``, ``ca-AstroPh``, ``mdual`` (edgelists) and the data set Photo are read
from ``$SOFTCUT_DATA``; ``planted`` is made: communities of 50 to 2,000 nodes, degrees with a heavy tail, a third of the
edges between communities.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
GRAPHS = ("us_counties", "PGPgiantcompo", "photo", "ca-AstroPh", "mdual", "planted")
LARGE = 400_000  # edges from which on a graph is measured three times, and a process serves one turn only
METHODS = ("igraph", "one scale", "all scales", "K = 20", "K = 20 before", "leidenalg", "scikit-network")
ASKED = {"one scale": 2.0, "all scales": 60.0}  # times igraph's time, at most
ASKED_LARGEST = {"one scale": 3.0}
ASKED_BEFORE = 0.5  # of the time that K = 20 took before


def planted(nodes: int, edges: int, seed: int = 0, mixing: float = 1 / 3) -> sp.csr_array:
    """Communities of 50 to 2,000 nodes, heavy-tailed degrees, and a share of the edges between communities."""
    rng = np.random.default_rng(seed)
    largest = min(2000, nodes // 4)
    sizes = np.minimum(50 * (1 - rng.random(nodes // 50 + 1)) ** -1.0, largest).astype(np.int64)
    ends = np.minimum(np.cumsum(sizes), nodes)
    ends = ends[: int(np.searchsorted(ends, nodes)) + 1]
    starts = np.concatenate([[0], ends[:-1]])
    worth = np.minimum((1 - rng.random(nodes)) ** (-1 / 1.8), 50.0)
    total = np.concatenate([[0.0], np.cumsum(worth)])
    source = np.searchsorted(total, rng.random(edges) * total[-1], side="right") - 1
    own = np.searchsorted(ends, source, side="right")
    inside = rng.random(edges) >= mixing
    low = np.where(inside, total[starts[own]], 0.0)
    high = np.where(inside, total[ends[own]], total[-1])
    target = np.searchsorted(total, low + rng.random(edges) * (high - low), side="right") - 1
    kept = source != target
    order = rng.permutation(nodes)  # numbers tell nothing
    pair = (order[np.minimum(source, nodes - 1)[kept]], order[np.minimum(target, nodes - 1)[kept]])
    one_way = sp.coo_array((np.ones(len(pair[0]), np.float32), pair), shape=(nodes, nodes)).tocsr()
    matrix = sp.csr_array(one_way + one_way.T)
    matrix.data[:] = 1
    matrix.sort_indices()
    return matrix


def edge_list(path: Path) -> sp.csr_array:
    """The graph of a file with ``num_nodes`` and ``edges`` (2 x E, each edge once)."""
    with np.load(path) as file:
        n, (source, target) = int(file["num_nodes"]), file["edges"]
    one_way = sp.coo_array((np.ones(len(source), np.float32), (source, target)), shape=(n, n)).tocsr()
    return sp.csr_array(one_way.maximum(one_way.T))


def adjacency(name: str, data: Path, nodes: int, edges: int) -> sp.csr_array:
    """The graph of a name."""
    if name == "planted":
        return planted(nodes, edges)
    if name == "photo":
        from softcut.datasets import load

        return load("photo").adjacency
    if name == "us_counties":
        from unknown_numbers import read

        return read(data / "labelled" / f"{name}.npz").adjacency
    return edge_list(data / "edgelists" / f"{name}.npz")


# ------------------------------------------------------------------------------------- methods, in their own process


def one_scale(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    from softcut.communities.engine import communities
    from softcut.communities.network import Network

    return lambda seed: communities(Network(matrix), 1.0, seed)


def all_scales(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    from softcut.clustering.recipe import DEFAULT
    from softcut.communities.network import Network
    from softcut.communities.random_graphs import rewired
    from softcut.communities.scales import Search

    def run(seed: int) -> np.ndarray:
        network = Network(matrix)
        search = Search(network, lambda which: rewired(network, which), seed)
        scales = search.scales()
        levels, chosen, _ = search.levels(scales)
        search.compared(DEFAULT.clear_deviations)
        return levels[chosen]

    return run


def given_number(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    from softcut import Graph, GraphClustering

    graph = Graph.from_scipy(matrix)
    k = min(20, graph.num_nodes // 2)

    def run(seed: int) -> np.ndarray:
        return GraphClustering(k, random_state=seed, device="cpu").fit(graph).labels_

    return run


def by_igraph(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    import random

    import igraph

    graph = _igraph(matrix)

    def run(seed: int) -> np.ndarray:
        igraph.set_random_number_generator(random.Random(seed))
        return np.asarray(graph.community_leiden("modularity", n_iterations=2).membership)

    return run


def by_leidenalg(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    import leidenalg

    graph, kind = _igraph(matrix), leidenalg.ModularityVertexPartition
    return lambda seed: np.asarray(
        leidenalg.find_partition(graph, kind, n_iterations=2, seed=seed).membership
    )


def by_louvain(matrix: sp.csr_array) -> Callable[[int], np.ndarray]:
    from sknetwork.clustering import Louvain

    plain = sp.csr_matrix(matrix)
    return lambda seed: Louvain(random_state=seed).fit_predict(plain)


def _igraph(matrix: sp.csr_array) -> Any:
    import igraph

    upper = sp.coo_array(sp.triu(matrix, 1))
    return igraph.Graph(n=matrix.shape[0], edges=np.stack([upper.row, upper.col], axis=1))


MAKERS = {
    "igraph": by_igraph,
    "one scale": one_scale,
    "all scales": all_scales,
    "K = 20": given_number,
    "K = 20 before": given_number,
    "leidenalg": by_leidenalg,
    "scikit-network": by_louvain,
}


def modularity(matrix: sp.csr_array, labels: np.ndarray) -> float:
    """At resolution 1, of an unweighted graph."""
    rows = np.repeat(np.arange(len(labels)), np.diff(matrix.indptr))
    inside = float((labels[rows] == labels[matrix.indices]).mean())
    share = np.bincount(labels, np.diff(matrix.indptr)) / len(rows)
    return inside - float((share**2).sum())


def status(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 where /proc does not exist."""
    try:
        text = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(name))


def forget_peak() -> None:
    """Give freed memory back, and start VmHWM anew (Linux only)."""
    gc.collect()
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except (OSError, AttributeError):
        return


def serve(method: str, path: str) -> None:
    """Set a method up, then run it for each seed that is read; a small graph first, which loads what is compiled."""
    warnings.simplefilter("ignore")
    make = MAKERS[method]
    small = sp.csr_array(sp.block_diag([np.ones((8, 8)) - np.eye(8)] * 6).astype(np.float32))
    make(small)(0)
    matrix = sp.csr_array(sp.load_npz(path))
    run = make(matrix)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        forget_peak()
        base = status("VmRSS")
        began, wall = time.process_time(), time.perf_counter()
        labels = run(int(line))
        seconds, wall = time.process_time() - began, time.perf_counter() - wall
        peak = status("VmHWM")
        count = len(np.unique(labels[labels >= 0]))  # -1: a node without edges
        labels = np.unique(labels, return_inverse=True)[1].reshape(-1)
        answer = {
            "seconds": seconds,
            "wall": wall,
            "mib": max(0, peak - base) / 2**20,
            "modularity": modularity(matrix, labels),
            "clusters": count,
        }
        print(json.dumps(answer), flush=True)


# ------------------------------------------------------------------------------------------------------ in turns


class Method:
    """A process that serves one method on one graph."""

    def __init__(self, name: str, path: Path, checkout: Path) -> None:
        threads = {f"{each}_NUM_THREADS": "1" for each in ("OMP", "NUMBA", "MKL", "OPENBLAS")}
        before = os.environ.get("PYTHONPATH", "")
        places = os.pathsep.join([str(checkout), *([before] if before else [])])
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **threads, "PYTHONPATH": places},
        )
        self._answer()

    def _answer(self) -> Row:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process ended with {self.process.wait()}")
        return json.loads(line)

    def run(self, seed: int) -> Row:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def turns(path: Path, methods: dict[str, Path], rounds: int, held: bool) -> dict[str, list[Row]]:
    """What each method answers, round by round; processes are held where the graph is small."""
    runs: dict[str, list[Row]] = {name: [] for name in methods}
    open_ones: dict[str, Method] = {}
    for seed in range(rounds):
        for name, checkout in methods.items():
            try:
                method = open_ones.get(name) or Method(name, path, checkout)
                runs[name].append(method.run(seed))
            except RuntimeError as error:
                print(f"  {name}: {error}", flush=True)
                continue
            if held:
                open_ones[name] = method
            else:
                method.end()
            last = runs[name][-1]
            print(
                f"  {name}: {last['seconds']:.3f} s, {last['mib']:.0f} MiB, {last['modularity']:.4f}",
                flush=True,
            )
    for method in open_ones.values():
        method.end()
    return runs


def summary(runs: dict[str, list[Row]]) -> dict[str, Row]:
    """Medians of each method, and the median over the rounds of its time as a multiple of igraph's."""
    rows = {}
    for name, own in runs.items():
        if not own:
            continue
        row: Row = {key: float(np.median([run[key] for run in own])) for key in own[0]}
        row["clusters"] = int(row["clusters"])
        for key, other in (("times", "igraph"), ("times_before", "K = 20 before")):
            beside = runs.get(other, [])
            if beside and len(beside) == len(own) and name != other:
                ratios = [a["seconds"] / b["seconds"] for a, b in zip(own, beside, strict=True)]
                row[key] = round(float(np.median(ratios)), 3)
        rows[name] = {key: round(value, 4) for key, value in row.items()}
    return rows


# ------------------------------------------------------------------------------------------------- the first call

_FIRST = """
import time, warnings
warnings.simplefilter("ignore")
import networkx as nx
import softcut as sc
graph = sc.Graph.from_any(nx.les_miserables_graph())
began = time.process_time()
sc.GraphClustering(device="cpu"{k}).fit(graph)
print(time.process_time() - began)
"""


def first_calls() -> dict[str, float]:
    """Seconds of a first fit in a process, with nothing compiled and then with the cache, and of the command."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}

        def timed(words: list[str]) -> tuple[float, str]:
            """Seconds of the processor of a process, and the last line that it prints."""
            began = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [sys.executable, *words],
                env=environment,
                cwd=folder,
                check=True,
                capture_output=True,
                text=True,
            )
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
            return seconds, done.stdout.strip().splitlines()[-1]

        for title, k in (("", ""), (", K = 4", ", n_clusters=4")):
            for when in ("nothing compiled", "compiled before"):
                found[f"first fit{title}, {when}"] = round(float(timed(["-c", _FIRST.format(k=k)])[1]), 2)
        words = ["-m", "softcut", "cluster", str(ROOT / "examples/friends.csv"), "-k", "auto"]
        words += ["--overwrite", "--out", "out"]
        timed(words)
        seconds = [timed(words)[0] for _ in range(3)]
        found["`softcut cluster friends.csv`, compiled before"] = round(float(np.median(seconds)), 2)
    return found


# --------------------------------------------------------------------------------------------------------- tables


def required(row: Row, name: str) -> tuple[float, float] | None:
    """A ratio and what was asked for at most, if anything."""
    method = row["methods"].get(name, {})
    if name == "K = 20" and "times_before" in method:
        return method["times_before"], ASKED_BEFORE
    asked = {**ASKED, **(ASKED_LARGEST if row["edges"] > 5_000_000 else {})}.get(name)
    return None if asked is None or "times" not in method else (method["times"], asked)


def lines(rows: list[Row]) -> Iterator[str]:
    """A Markdown table."""
    yield "| graph | edges | method | seconds | times igraph's | asked | MiB | modularity | clusters |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for row in rows:
        for name, own in row["methods"].items():
            pair = required(row, name)
            asked = "" if pair is None else f"{pair[0]:.2f} of {pair[1]:g}"
            cells = [
                row["graph"],
                f"{row['edges']:,}",
                name,
                f"{own['seconds']:.3f}",
                f"{own.get('times', 1):.2f}",
            ]
            cells += [asked, f"{own['mib']:.0f}", f"{own['modularity']:.4f}", str(int(own["clusters"]))]
            yield "| " + " | ".join(cells) + " |"


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--before", type=Path, help="an earlier checkout, for K = 20")
    parser.add_argument("--rounds", type=int, help="default: 5, and 3 on large graphs")
    parser.add_argument("--nodes", type=int, default=1_000_000, help="of the graph that is made")
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--no-first", action="store_true", help="leave the first call of a process out")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SOFTCUT_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path("results/communities.json"))
    given = parser.parse_args()
    from softcut.files import atomic_json
    from softcut.provenance import origin

    record = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {"rows": []}
    rows = {row["graph"]: row for row in record["rows"]}
    if not given.no_first:
        record["first"] = [{**first_calls(), **origin()}]
        print(record["first"][0], flush=True)
        atomic_json(given.out, record)
    methods = dict.fromkeys(given.methods, ROOT)
    if given.before is None:
        methods.pop("K = 20 before", None)
    elif "K = 20 before" in methods:
        methods["K = 20 before"] = given.before.resolve()
    for name in given.only:
        with tempfile.TemporaryDirectory() as folder:
            matrix = adjacency(name, given.data, given.nodes, given.edges)
            path = Path(folder) / "graph.npz"
            matrix.data = np.ones(len(matrix.data), np.float32)
            sp.save_npz(path, matrix, compressed=False)
            nodes, edges = matrix.shape[0], matrix.nnz // 2
            del matrix
            large = edges >= LARGE
            rounds = given.rounds or (3 if large else 5)
            print(f"{name}: {nodes:,} nodes, {edges:,} edges", flush=True)
            runs = turns(path, methods, rounds, held=not large)
        rows[name] = {"graph": name, "nodes": nodes, "edges": edges, "rounds": rounds, **origin()}
        rows[name]["methods"] = summary(runs)
        atomic_json(given.out, {**record, "rows": [rows[each] for each in GRAPHS if each in rows]})
    print("\n".join(lines([rows[each] for each in GRAPHS if each in rows])))


if __name__ == "__main__":
    main()
