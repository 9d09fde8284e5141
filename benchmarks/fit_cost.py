"""What a default fit costs here and in another checkout, side by side: seconds and peak memory.

    python benchmarks/fit_cost.py --against CHECKOUT [--graph cora photo generated] [--runs 5] [--device cuda]

Both checkouts fit their default estimator (GraphClustering, or MinCutClustering before there was one) to the same
graphs, in turns, in a process of their own: a first fit and a second one; medians over the runs. The graphs are data
sets, or "generated", one of 10,000 nodes and 8 communities. Peak memory is that of the process after the first fit.
Ratios are what counts: times depend on the machine and on what else it does. Writes ``results/fit_cost.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from softcut.files import atomic_json
from softcut.provenance import origin

ROOT = Path(__file__).resolve().parents[1]
GRAPHS = ("cora", "photo", "generated")

# Run in a process of each checkout.
FIT = """
import json, resource, sys, time, warnings

import numpy as np
import softcut
from softcut.datasets import attributed_communities, load
from softcut.metrics import nmi

root, name, nodes, device = sys.argv[1:]
assert softcut.__file__.startswith(root), softcut.__file__
warnings.simplefilter("ignore")
graph = attributed_communities(int(nodes), 8, seed=0) if name == "generated" else load(name)
clusterer = getattr(softcut, "GraphClustering", softcut.MinCutClustering)
if device == "cuda":  # the start of the device is no part of a fit
    import torch

    torch.zeros(1, device="cuda")


def fit():
    return clusterer(len(np.unique(graph.y)), random_state=0, device=device).fit(graph)


began, before = time.perf_counter(), time.process_time()
est = fit()
seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - before
peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # of the first fit
began = time.perf_counter()
fit()
print(json.dumps({
    "estimator": clusterer.__name__,
    "seconds": seconds,
    "cpu_seconds": cpu_seconds,
    "second_fit": time.perf_counter() - began,
    "peak_mib": peak_mib,
    "nmi": nmi(graph.y, est.soft_.argmax(1)),
    "nodes": graph.num_nodes,
}))
"""
MEASURED = ("seconds", "cpu_seconds", "second_fit", "peak_mib", "nmi")


def fit(checkout: Path, name: str, nodes: int, device: str) -> dict[str, Any]:
    """One fit with the package of a checkout."""
    root = str(checkout.resolve())
    done = subprocess.run(
        [sys.executable, "-c", FIT, root, name, str(nodes), device],
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{root}: {done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def commit_of(checkout: Path) -> str:
    words = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--against", type=Path, required=True, metavar="CHECKOUT", help="the checkout to compare with"
    )
    parser.add_argument("--graph", nargs="+", default=list(GRAPHS), help="data sets, or 'generated'")
    parser.add_argument("--nodes", type=int, default=10_000, help="of the generated graph")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/fit_cost.json"))
    given = parser.parse_args()
    if given.runs < 1:
        parser.error("--runs must be at least 1")
    checkouts = {"other": given.against, "here": ROOT}
    rows = []
    titles = ("graph", "seconds, other", "here", "ratio", "peak MiB, other", "here", "ratio")
    print("{:12s} {:>14s} {:>8s} {:>6s} {:>16s} {:>8s} {:>6s}".format(*titles))
    for name in given.graph:
        fits: dict[str, list[dict[str, Any]]] = {which: [] for which in checkouts}
        for _ in range(given.runs):  # in turns: what else the machine does is the same for both
            for which, checkout in checkouts.items():
                fits[which].append(fit(checkout, name, given.nodes, given.device))
        row: dict[str, Any] = {"graph": name, "nodes": fits["here"][0]["nodes"], "runs": given.runs}
        for which, runs in fits.items():
            medians = {key: round(statistics.median(run[key] for run in runs), 4) for key in MEASURED}
            row[which] = {"estimator": runs[0]["estimator"], **medians}
        row["ratio"] = {
            key: round(row["here"][key] / row["other"][key], 3)
            for key in ("seconds", "cpu_seconds", "second_fit", "peak_mib")
        }
        rows.append(row)
        other, here, ratio = row["other"], row["here"], row["ratio"]
        print(
            f"{name:12s} {other['seconds']:14.2f} {here['seconds']:8.2f} {ratio['seconds']:6.2f} "
            f"{other['peak_mib']:16.0f} {here['peak_mib']:8.0f} {ratio['peak_mib']:6.2f}",
            flush=True,
        )
        about = origin()
        about["command"] = about["command"].replace(str(given.against), "CHECKOUT")  # its place says nothing
        atomic_json(given.out, {"against": commit_of(given.against), "rows": rows, **about})


if __name__ == "__main__":
    main()
