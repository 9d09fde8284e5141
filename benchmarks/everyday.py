"""What people wait for, here and in another checkout: fits, the command line, first calls, a busy machine.

    python benchmarks/everyday.py --against CHECKOUT [--what fits ...] [--graph 300 cora ...] [--runs 5]

Both checkouts run in turns, every run in a process of its own; medians over the runs. A checkout without its history
is known by the name of its folder. A graph is a data set, or a
number of nodes of a generated one (from 100,000 on, those of ``benchmarks/large.py``). Ratios are what counts: seconds
depend on the machine and on what else it does. Results are merged into ``results/everyday.json``.

- ``fits``: the default estimator, first and second fit of a process, peak memory of the first, NMI
- ``peers``: Leiden (leidenalg and igraph) and Louvain (scikit-network), which see the edges alone, in turns with a
  default fit
- ``busy``: fits beside two processes that keep two cores busy, in turns with fits by themselves (here only)
- ``auto``: 2 to 12 clusters compared in one fit, beside one fit of the number it chooses; and the number that is chosen
  where networks are trained for all of them (here only; run by run with another ``random_state``)
- ``command``: ``softcut --help``, a wrong option, ``softcut cluster`` of examples/friends.csv, and imports
- ``million``: ``softcut cluster`` of a million nodes and ten million edges, from files
- ``classify``: ``GraphClassification`` (the paper's network, and here its default) on PROTEINS, half of the graphs
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from large import generate

from softcut.files import atomic_json
from softcut.provenance import origin

ROOT = Path(__file__).resolve().parents[1]
WHAT = ("fits", "peers", "busy", "auto", "command", "million", "classify")
GRAPHS = ("300", "cora", "photo", "10000", "100000")
FROM_FILES = 100_000  # from this many nodes on, generated graphs are those of large.py

GRAPH = """
import json, resource, sys, time, warnings
from pathlib import Path
import numpy as np
import scipy.sparse as sp
import softcut

warnings.simplefilter("ignore")


def graph_of(name, folder):
    from softcut.datasets import attributed_communities, load

    if not name.isdigit():
        return load(name)
    if folder:
        x, y = sp.load_npz(Path(folder, "x.npz")), np.load(Path(folder, "y.npy"))
        return softcut.Graph.from_scipy(sp.load_npz(Path(folder, "graph.npz")), x=x, y=y)
    return attributed_communities(int(name), 3 if int(name) < 1000 else 8, seed=0)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""
FIT = """
name, folder, device, seed = sys.argv[1:]
graph = graph_of(name, folder)
clusterer = getattr(softcut, "GraphClustering", softcut.MinCutClustering)
if device == "cuda":  # the start of the device is no part of a fit
    import torch

    torch.zeros(1, device="cuda")


def fit(k):
    began, before = time.perf_counter(), time.process_time()
    est = clusterer(k, random_state=int(seed), device=device).fit(graph)
    return est, time.perf_counter() - began, time.process_time() - before
"""
FITS = """
from softcut.metrics import nmi

k = len(np.unique(graph.y))
est, seconds, cpu_seconds = fit(k)
row = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_mib": peak(), "nodes": graph.num_nodes}
row |= {"nmi": nmi(graph.y, est.soft_.argmax(1)), "second_fit": fit(k)[1]}
print(json.dumps(row))
"""
AUTO = """
from softcut.clustering import fitting
from softcut.metrics import nmi

fit(2)  # loads what all of the following use
est, seconds, _ = fit("auto")
chosen = est.n_clusters_
one = fit(max(2, chosen))[1]
choose = fitting.choose
fitting.choose = lambda task, begun, ended: choose(task, ended, ended)  # networks for every number
every = fit("auto")[0]
row = {"seconds": seconds, "one_fit": one, "fits": seconds / one, "classes": len(np.unique(graph.y))}
for found, end in ((est, ""), (every, "_by_all")):
    of_it = {"chosen": found.n_clusters_, "evidence": found.score(graph), "nmi": nmi(graph.y, found.labels_)}
    row |= {key + end: value for key, value in of_it.items()}
print(json.dumps(row))
"""
PEER = """
name, folder, peer = sys.argv[1:]
graph = graph_of(name, folder)
from sklearn.metrics import normalized_mutual_info_score

adjacency = sp.csr_matrix(graph.adjacency)
began = time.perf_counter()
if peer == "scikit-network Louvain":
    from sknetwork.clustering import Louvain

    began = time.perf_counter()
    labels = Louvain(random_state=0).fit_predict(adjacency)
else:
    import random

    import igraph
    import leidenalg

    random.seed(0)
    began = time.perf_counter()
    entries = sp.coo_array(sp.triu(adjacency, 1))
    edges = igraph.Graph(n=entries.shape[0], edges=np.stack([entries.row, entries.col], axis=1))
    if peer == "leidenalg":
        partition = leidenalg.find_partition(edges, leidenalg.ModularityVertexPartition, seed=0)
    else:
        partition = edges.community_leiden("modularity", n_iterations=2)
    labels = np.asarray(partition.membership)
seconds = time.perf_counter() - began
score = normalized_mutual_info_score(graph.y, labels)
print(json.dumps({"seconds": seconds, "nmi": score, "clusters": len(np.unique(labels)), "peak_mib": peak()}))
"""
PEERS = ("leidenalg", "igraph Leiden", "scikit-network Louvain")
IMPORTS = """
import json, time
import torch
began = time.perf_counter()
import softcut
getattr(softcut, "GraphClustering", softcut.MinCutClustering)
print(json.dumps({"seconds": time.perf_counter() - began}))
"""
CLASSIFY = """
from softcut.datasets import load_graphs

default = sys.argv[1:] == ["default"]
graphs = load_graphs("PROTEINS", **({"structure": False} if default else {}))
y, order = np.asarray(graphs.y), np.random.default_rng(0).permutation(len(graphs))
half = len(order) // 2
train, test = graphs[order[:half]], graphs[order[half:]]
paper = "preset" in __import__("inspect").signature(softcut.GraphClassification).parameters
options = {} if default else {"preset": "paper"} if paper else {"pool": "mincut"}
began, before = time.perf_counter(), time.process_time()
model = softcut.GraphClassification(random_state=0, device="cpu", **options).fit(train, y[order[:half]])
row = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - before, "peak_mib": peak()}
print(json.dumps(row | {"accuracy": float(model.score(test, y[order[half:]]))}))
"""


def run(checkout: Path, code: str, *words: str) -> dict[str, Any]:
    """What a piece of code prints in a process of its own, with the package of a checkout."""
    return json.loads(_done(checkout, ["-c", code, *words]).strip().splitlines()[-1])


def _done(checkout: Path, words: list[str], code: int = 0) -> str:
    root = str(checkout.resolve())
    # Nobody sets variables for threads on a laptop, nor compiles every module again at every start.
    unset = ("OMP_", "MKL_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    done = subprocess.run(
        [sys.executable, *words], cwd=root, env={**clean, "PYTHONPATH": root}, capture_output=True, text=True
    )
    if done.returncode != code:
        raise SystemExit(f"{root}: {done.stderr[-2000:]}")
    return done.stdout


def command(checkout: Path, words: list[str], code: int = 0) -> dict[str, Any]:
    """Seconds of a command of softcut, from the start of the interpreter to its end; {folder} is a new one."""
    with tempfile.TemporaryDirectory() as folder:  # a checkout may refuse to replace the results of another
        words = [word.format(folder=folder) for word in words]
        began = time.perf_counter()
        _done(checkout, ["-m", "softcut", *words], code)
        return {"seconds": time.perf_counter() - began}


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Other processes that never rest."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {key: round(statistics.median(each[key] for each in runs), 4) for key in runs[0]}


Measure = Callable[[Path], dict[str, Any]]


def in_turns(contenders: dict[str, Callable[[], dict[str, Any]]], runs: int) -> dict[str, Any]:
    """Medians of every contender; of two also what the second one's are of the first one's."""
    every: dict[str, list[dict[str, Any]]] = {which: [] for which in contenders}
    for _ in range(runs):  # in turns: what else the machine does is the same for all
        for which, measure in contenders.items():
            every[which].append(measure())
    row: dict[str, Any] = {which: medians(each) for which, each in every.items()}
    if len(row) == 2:
        first, second = row.values()
        compared = ("seconds", "cpu_seconds", "second_fit", "peak_mib")
        row["ratio"] = {key: round(second[key] / first[key], 3) for key in compared if key in second}
    return row | {"runs": runs}


def measured(
    given: argparse.Namespace, what: str, graphs: Path, checkouts: dict[str, Path]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and rows of one kind of measurement."""

    def folder_of(name: str) -> str:
        if not name.isdigit() or int(name) < FROM_FILES:
            return ""
        folder = graphs / name
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, int(name), 20, 16, 0)
        return str(folder)

    def compared(measure: Measure, among: dict[str, Path] = checkouts) -> dict[str, Any]:
        return in_turns({which: partial(measure, checkout) for which, checkout in among.items()}, given.runs)

    here = {"here": ROOT}
    if what == "fits":
        for name in given.graph:
            words = (GRAPH + FIT + FITS, name, folder_of(name), given.device, "0")
            yield name, compared(lambda checkout, w=words: run(checkout, *w))
    elif what == "busy":
        for name in given.graph:
            quiet = partial(run, ROOT, GRAPH + FIT + FITS, name, folder_of(name), given.device, "0")

            def pressed(quiet: Callable[[], dict[str, Any]] = quiet) -> dict[str, Any]:
                with busy(2):
                    return quiet()

            yield name, in_turns({"quiet": quiet, "here": pressed}, given.runs)
    elif what == "auto":
        for name in given.graph:
            words = (GRAPH + FIT + AUTO, name, folder_of(name), given.device)
            seeds = [run(ROOT, *words, str(seed)) for seed in range(given.runs)]
            times = [
                {key: each.pop(key) for key in ("seconds", "one_fit", "fits", "classes")} for each in seeds
            ]
            yield name, {"here": medians(times), "runs": given.runs, "seeds": seeds}
    elif what == "peers":
        for name in given.graph:
            folder = folder_of(name)
            everyone = {peer: partial(run, ROOT, GRAPH + PEER, name, folder, peer) for peer in PEERS}
            everyone["here"] = partial(run, ROOT, GRAPH + FIT + FITS, name, folder, given.device, "0")
            yield name, in_turns(everyone, given.runs)
    elif what == "command":
        files = ["examples/friends.csv", "--features", "examples/hobbies.csv"]
        for name, words, code in (
            ("softcut --help", ["--help"], 0),
            ("softcut cluster --wrong", ["cluster", "--wrong"], 2),
            ("softcut cluster friends.csv", ["cluster", *files, "-k", "3", "--out", "{folder}/out"], 0),
        ):
            yield name, compared(lambda checkout, w=words, e=code: command(checkout, w, e))
        yield "imports after torch", compared(lambda checkout: run(checkout, IMPORTS))
    elif what == "million":
        folder = folder_of("1000000")
        words = [
            str(ROOT / "benchmarks/large.py"),
            "--one",
            "command",
            "--clusters",
            "16",
            "--folder",
            folder,
        ]

        def clustered(checkout: Path) -> dict[str, Any]:
            shutil.rmtree(Path(folder, "clusters"), ignore_errors=True)  # neither replaces the other's
            row = json.loads(_done(checkout, words).strip().splitlines()[-1])
            return {**row, "peak_mib": 1024 * row.pop("peak GiB")}

        yield "softcut cluster, 1000000 nodes", compared(clustered)
    else:
        yield "PROTEINS", compared(lambda checkout: run(checkout, GRAPH + CLASSIFY))
        yield "PROTEINS, default", compared(lambda checkout: run(checkout, GRAPH + CLASSIFY, "default"), here)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="the checkout to compare with")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=["fits", "peers", "busy", "command"])
    parser.add_argument("--graph", nargs="+", default=list(GRAPHS), help="data sets, or numbers of nodes")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--graphs", type=Path, default=ROOT / "out/everyday", help="where large graphs are kept"
    )
    parser.add_argument("--out", type=Path, default=Path("results/everyday.json"))
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    checkouts = {} if given.against is None else {"other": given.against}
    checkouts |= {"here": ROOT}
    about = origin()
    if given.against is not None:
        about["command"] = about["command"].replace(str(given.against), "CHECKOUT")  # its place says nothing
        about["against"] = given.against.resolve().name  # of a copy without its history
        if (given.against / ".git").exists():
            words = ["git", "-C", str(given.against), "rev-parse", "--short=12", "HEAD"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            about["against"] = done.stdout.strip()
    rows = json.loads(given.out.read_text(encoding="utf-8"))["rows"] if given.out.exists() else {}
    for what in given.what:
        for name, row in measured(given, what, given.graphs, checkouts):
            rows[f"{what}, {name}, {given.device}"] = {**row, **about}
            print(f"{what}, {name}: {json.dumps(row)}", flush=True)
            atomic_json(given.out, {"rows": rows})


if __name__ == "__main__":
    main()
