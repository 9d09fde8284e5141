"""The default estimator on large generated graphs: seconds of each phase, peak memory and NMI, on a CPU or a GPU.

    python benchmarks/large.py --nodes 100000 300000                  # default fits on the CPU
    python benchmarks/large.py --device cuda --nodes 100000 300000 1000000 3000000
    python benchmarks/large.py --nodes 100000 --other CHECKOUT        # beside another version of softcut, in turn
    python benchmarks/large.py --nodes 1000000 --command --peers      # `softcut cluster` from files, Louvain and Leiden

Graphs are planted partitions with ten edges per node, 200 sparse features and 16 communities. Every fit runs in a
process of its own; on a GPU after a small one, which loads the libraries. Phases do not overlap: each second is counted
once. The notes of a fit say which parts of the budget rule it switched on. Writes JSON (``--out``).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
# Functions that make up a phase; what they call is counted with the innermost one that is named.
PHASES = (
    ("features: projection", "softcut.clustering.feature_map", "FeatureMap", "fit"),
    ("features: projection", "softcut.clustering.feature_map", "FeatureMap", "transform"),
    ("features: projection", "softcut.clustering.feature_map", "FeatureMap", "project"),
    ("features: propagation", "softcut.clustering.prepare", "Encoder", "fit"),
    ("tables of the evidence", "softcut.clustering.fitting", "", "prepare"),
    ("starts (k-means)", "softcut.clustering.starts", "Starts", "__call__"),
    ("training", "softcut.clustering.networks", "", "train"),
    ("judging networks", "softcut.clustering.fitting", "", "train_networks"),
    ("consensus", "softcut.clustering.fitting", "", "merge"),
    ("refinement", "softcut.clustering.consensus", "", "refine"),
)


class Phases:
    """Seconds spent in named functions, each second in the innermost of them."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self.finish = finish
        self.seconds: dict[str, float] = defaultdict(float)
        self.names, self.since = ["other"], time.perf_counter()

    def switch(self) -> None:
        self.finish()
        now = time.perf_counter()
        self.seconds[self.names[-1]] += now - self.since
        self.since = now

    def watch(self, phase: str, module: str, owner: str, name: str) -> None:
        try:
            place = importlib.import_module(module)
        except ImportError:
            return  # another version of softcut
        place = getattr(place, owner) if owner else place
        if name not in vars(place):
            return
        measured = vars(place)[name]
        real = measured.__func__ if isinstance(measured, classmethod) else measured

        def watched(*args: Any, **options: Any) -> Any:
            self.switch()
            self.names.append(phase)
            try:
                return real(*args, **options)
            finally:
                self.switch()
                self.names.pop()

        setattr(place, name, classmethod(watched) if isinstance(measured, classmethod) else watched)


def read(folder: Path) -> Any:
    """The graph of a folder as softcut's."""
    from softcut import Graph

    y = np.load(folder / "y.npy")
    return Graph.from_scipy(sp.load_npz(folder / "graph.npz"), x=sp.load_npz(folder / "x.npz"), y=y)


def fit(folder: Path, k: int, device: str, seed: int) -> dict[str, Any]:
    """One default fit, in this process."""
    import torch

    import softcut
    from softcut.datasets import attributed_communities
    from softcut.metrics import nmi

    clusterer = getattr(softcut, "GraphClustering", softcut.MinCutClustering)  # in other versions
    cuda = device == "cuda"
    if cuda:
        clusterer(3, device=device, max_iter=10).fit(attributed_communities(2000, 3))
        torch.cuda.reset_peak_memory_stats()
    graph = read(folder)
    phases = Phases(torch.cuda.synchronize if cuda else lambda: None)
    for row in PHASES:
        phases.watch(*row)
    phases.switch()
    phases.seconds.clear()
    before, began = time.process_time(), time.perf_counter()
    est = clusterer(k, device=device, random_state=seed).fit(graph)
    phases.switch()
    seconds = time.perf_counter() - began
    measured = {
        "seconds": seconds,
        "cpu seconds": time.process_time() - before,
        "nmi": nmi(graph.y, est.soft_.argmax(1)),
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "replicas": len(est.replicas_),
        "iterations": est.n_iter_,
        "phases": dict(phases.seconds),
        "notes": est.notes_,
    }
    if cuda:
        measured["peak GPU GiB"] = torch.cuda.max_memory_allocated() / 2**30
    return measured


def louvain(folder: Path, seed: int) -> np.ndarray:
    from sknetwork.clustering import Louvain

    return Louvain(random_state=seed).fit_predict(sp.csr_matrix(sp.load_npz(folder / "graph.npz")))


def leiden(folder: Path, seed: int) -> np.ndarray:
    import igraph
    import leidenalg

    entries = sp.coo_array(sp.triu(sp.load_npz(folder / "graph.npz"), 1))
    graph = igraph.Graph(n=entries.shape[0], edges=np.stack([entries.row, entries.col], axis=1))
    measured = leidenalg.find_partition(graph, leidenalg.ModularityVertexPartition, seed=seed)
    return np.asarray(measured.membership)


def peer(name: str, folder: Path, seed: int) -> dict[str, Any]:
    """One clustering of another library, in this process; it sees the edges only and finds K itself."""
    from sklearn.metrics import normalized_mutual_info_score

    began = time.perf_counter()
    labels = {"louvain": louvain, "leiden": leiden}[name](folder, seed)
    return {
        "seconds": time.perf_counter() - began,
        "nmi": normalized_mutual_info_score(np.load(folder / "y.npy"), labels),
        "clusters": len(np.unique(labels)),
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def command(folder: Path, k: int, seed: int) -> dict[str, Any]:
    """`softcut cluster` from the first import to the written files, in this process."""
    began = time.perf_counter()
    from softcut.cli import main

    out = folder / "clusters"
    words = ["cluster", str(folder / "graph.npz"), "-f", str(folder / "x.npz"), "-k", str(k)]
    sys.argv = [
        "softcut",
        *words,
        "--seed",
        str(seed),
        "--device",
        "cpu",
        "--no-plot",
        "--out",
        str(out),
        "--overwrite",
    ]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
    seconds = time.perf_counter() - began
    from softcut.metrics import nmi

    labels = np.loadtxt(out / "labels.csv", delimiter=",", skiprows=1, usecols=1, dtype=np.int64)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "nmi": nmi(np.load(folder / "y.npy"), labels), "peak GiB": peak}


def generate(folder: Path, nodes: int, degree: int, k: int, seed: int) -> int:
    """Write a graph's files, unless they are there; the number of its edges."""
    from softcut.datasets import planted_graph

    if (folder / "y.npy").exists():  # the last one that is written
        return sp.load_npz(folder / "graph.npz").nnz // 2
    signals = {"edge_signal": 0.45, "feature_signal": 0.3}
    graph = planted_graph(nodes, nodes * degree // 2, k, 200, words_per_node=20, seed=seed, **signals)
    sp.save_npz(folder / "graph.npz", graph.adjacency, compressed=False)
    sp.save_npz(folder / "x.npz", sp.csr_array(graph.x), compressed=False)
    np.save(folder / "y.npy", graph.y)
    return int(graph.num_edges)


def apart(checkout: Path, *words: str) -> dict[str, Any]:
    """What this file prints in a process of its own, with the softcut of a checkout."""
    done = subprocess.run(
        [sys.executable, __file__, *words],
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        return {"failed": done.returncode}
    return json.loads(done.stdout.strip().splitlines()[-1])


def device_name(device: str) -> str:
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return f"{platform.machine()}, {os.cpu_count()} cores"


def measure(given: argparse.Namespace, nodes: int, folder: Path) -> list[dict[str, Any]]:
    """All that was asked for on one graph."""
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    edges = generate(folder, nodes, given.degree, given.clusters, given.seed)
    print(f"{nodes:,} nodes, {edges:,} edges, generated in {time.perf_counter() - began:.1f} s", flush=True)
    common = ["--folder", str(folder), "--clusters", str(given.clusters), "--device", given.device]
    common += ["--seed", str(given.seed)]
    if given.generate:
        return []
    plan = [("softcut", ROOT, "fit")] * (not given.command)
    plan += [("other", given.other, "fit")] * (given.other is not None)
    plan += [("softcut cluster", ROOT, "command")] * given.command
    plan += [("scikit-network Louvain", ROOT, "louvain"), ("leidenalg", ROOT, "leiden")] * given.peers
    rows = []
    for name, checkout, what in plan * given.rounds:
        measured = apart(checkout, "--one", what, *common)
        rows.append(
            {"what": name, "nodes": nodes, "edges": edges, "clusters asked": given.clusters, **measured}
        )
        shown = {key: round(value, 3) for key, value in measured.items() if isinstance(value, int | float)}
        print(f"  {name}: {shown}", flush=True)
        for phase, seconds in measured.get("phases", {}).items():
            print(f"    {phase:25s} {seconds:8.2f} s")
        for text in measured.get("notes", []):
            print(f"    {text}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[])
    parser.add_argument("--degree", type=int, default=20, help="mean degree")
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--other", type=Path, help="another checkout to fit with as well")
    parser.add_argument("--command", action="store_true", help="`softcut cluster` in place of a fit")
    parser.add_argument("--peers", action="store_true", help="Louvain and Leiden on the same graph")
    parser.add_argument(
        "--graphs", type=Path, help="keep the graphs in this folder, and use those that are there"
    )
    parser.add_argument("--generate", action="store_true", help="only write the graphs")
    parser.add_argument("--out", type=Path, default=Path("results/large.json"))
    parser.add_argument("--one", choices=["fit", "command", "louvain", "leiden"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one == "fit":
        print(json.dumps(fit(given.folder, given.clusters, given.device, given.seed)))
        return
    if given.one is not None:
        measured = (
            command(given.folder, given.clusters, given.seed)
            if given.one == "command"
            else peer(given.one, given.folder, given.seed)
        )
        print(json.dumps(measured))
        return
    from softcut.files import atomic_json
    from softcut.provenance import origin

    rows = []
    words = " ".join(word for word in sys.argv[1:] if word != str(given.other))
    result = {
        **origin(given.device),
        "device": device_name(given.device),
        "command": f"python benchmarks/large.py {words}",
    }
    for nodes in given.nodes:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) if given.graphs is None else given.graphs / str(nodes)
            rows += measure(given, nodes, kept)
        if rows:
            atomic_json(given.out, {**result, "rows": rows})


if __name__ == "__main__":
    main()
