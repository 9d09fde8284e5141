"""What one default fit costs, here and in another checkout, side by side.

    python benchmarks/fit_cost.py PATH_OF_ANOTHER_CHECKOUT [--dataset cora ...] [--rounds 3]

For each data set both checkouts fit the default estimator in processes of their own, in turn: how often features were
projected, operators built, features propagated and agreements computed, seconds and peak memory (medians over the
rounds), and the adjusted Rand index between the labels of both. The command line is timed the same way, on an edge list
with features. Ratios are what counts: the times depend on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

# Run in each checkout; the places of the counted functions differ between versions.
FIT = """
import importlib, json, resource, sys, time

import numpy as np
import softcut
from softcut.datasets import load
from softcut.ops import CSR

assert softcut.__file__.startswith(sys.argv[1]), softcut.__file__
counts = dict.fromkeys(("projections", "operators", "propagations", "agreements"), 0)


def count(name, places):
    for module, owner, attribute in places:
        try:
            holder = importlib.import_module(module)
        except ImportError:
            continue
        holder = getattr(holder, owner) if owner else holder
        if not hasattr(holder, attribute):
            continue
        real = getattr(holder, attribute)

        def counted(*args, real=real, **kwargs):
            counts[name] += 1
            return real(*args, **kwargs)

        setattr(holder, attribute, counted)


new, old = "softcut.clustering.", "softcut."
count("projections", [(new + "features", "FeatureMap", "transform"), (old + "features", "FeatureMap", "transform")])
count("propagations", [(new + "encoder", "", "propagate"), (old + "encoder", "", "propagate")])
count("agreements", [(new + "replicas", "", "agreement"), (old + "cluster", "", "agreement")])
make = CSR.from_graph.__func__


def made(cls, *args, **kwargs):
    counts["operators"] += 1
    return make(cls, *args, **kwargs)


CSR.from_graph = classmethod(made)
graph = load(sys.argv[2])
start = time.perf_counter()
est = softcut.MinCutClustering(len(np.unique(graph.y)), random_state=0, device="cpu").fit(graph)
seconds = time.perf_counter() - start
np.save(sys.argv[3], est.labels_)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({**counts, "seconds": seconds, "peak MiB": peak}))
"""

COMMAND = """
import json, resource, sys, time

start = time.perf_counter()
import softcut
from softcut.cli import main

assert softcut.__file__.startswith(sys.argv[1]), softcut.__file__
sys.argv = ["softcut", *sys.argv[2:]]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": time.perf_counter() - start, "peak MiB": peak}))
"""


def run(checkout: Path, script: str, *words: str, folder: str) -> dict[str, Any]:
    """The JSON in the last line of what a script prints with the package of a checkout."""
    root = str(checkout.resolve())
    done = subprocess.run(
        [sys.executable, "-c", script, root, *words],
        env={**os.environ, "PYTHONPATH": root},
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def write_files(folder: Path) -> None:
    """An edge list and a feature table for the command line."""
    import scipy.sparse as sp

    from softcut.datasets import attributed_communities

    graph = attributed_communities(2000, 5, n_features=200, seed=0)
    pairs = sp.coo_array(sp.triu(graph.adjacency))
    lines = [f"n{a},n{b}" for a, b in zip(*pairs.coords, strict=True)]
    (folder / "graph.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    rows = [f"n{i}," + ",".join(f"{v:g}" for v in row) for i, row in enumerate(graph.x.toarray())]
    (folder / "x.csv").write_text(
        "id," + ",".join(f"w{j}" for j in range(200)) + "\n" + "\n".join(rows) + "\n"
    )


def show(name: str, other: list[dict[str, Any]], here: list[dict[str, Any]], note: str = "") -> None:
    for key in here[0]:
        before, after = (statistics.median(row[key] for row in rows) for rows in (other, here))
        ratio = f"  ratio {after / before:.2f}" if key in ("seconds", "peak MiB") else ""
        print(f"{name:12s} {key:13s} other {before:9.4g}   here {after:9.4g}{ratio}")
    if note:
        print(f"{name:12s} {note}")


def main() -> None:
    from sklearn.metrics import adjusted_rand_score

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--dataset", nargs="+", default=["cora"])
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    checkouts = (given.other, Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as folder:
        for dataset in given.dataset:
            rows: tuple[list[dict[str, Any]], ...] = ([], [])
            for _ in range(given.rounds):
                for i, checkout in enumerate(checkouts):
                    path = str(Path(folder, f"{i}.npy"))
                    rows[i].append(run(checkout, FIT, dataset, path, folder=folder))
            labels = [np.load(Path(folder, f"{i}.npy")) for i in range(2)]
            show(dataset, *rows, note=f"adjusted Rand index of the labels {adjusted_rand_score(*labels):.4f}")
        write_files(Path(folder))
        rows = ([], [])
        for number in range(given.rounds):
            for i, checkout in enumerate(checkouts):
                words = ("cluster", "graph.csv", "-f", "x.csv", "-k", "5", "--out", f"out{i}-{number}")
                rows[i].append(run(checkout, COMMAND, *words, folder=folder))
        show("cluster", *rows)


if __name__ == "__main__":
    main()
