"""The cost of a batch of graphs that was not seen before: MinCutPool and the paper's classifier, a training step.

    python benchmarks/new_batch.py                       # this checkout
    python benchmarks/new_batch.py --against ../other    # and another one, in turns, with the ratio

64 generated graphs of 80 to 120 nodes with about 4 edges per node, 32 features, one thread; the median CPU time of
forward and backward with new tensors at every step, and of several processes in turns the least.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

GRAPHS, FEATURES, BATCHES, REPEAT = 64, 32, 10, 8


def make_batch(seed: int, weighted: bool) -> tuple[Any, Any, Any, Any]:
    """x, edge_index, edge_weight, batch."""
    import numpy as np
    import torch

    rng = np.random.default_rng(seed)
    edges, sizes = [], rng.integers(80, 121, GRAPHS)
    for start, n in zip(np.r_[0, sizes.cumsum()], sizes, strict=False):
        row, col = np.nonzero(np.triu(rng.random((n, n)) < 4 / n, 1))
        both = np.stack([np.r_[row, col], np.r_[col, row]])
        edges.append(both[:, np.lexsort((both[1], both[0]))] + start)
    edge_index = torch.from_numpy(np.concatenate(edges, 1))
    weight = None
    if weighted:
        weight = (edge_index.amin(0) * 7 + edge_index.amax(0)) % 97 / 97 + 0.1
    x = torch.from_numpy(rng.standard_normal((int(sizes.sum()), FEATURES), dtype=np.float32))
    return x, edge_index, weight, torch.from_numpy(np.repeat(np.arange(GRAPHS), sizes))


def measure() -> dict[str, float]:
    """Milliseconds of a step by what was measured."""
    import torch

    from softcut.nn import GraphClassifier, MinCutPool

    torch.set_num_threads(1)
    models = {
        "MinCutPool, K = 16": lambda: MinCutPool(FEATURES, 16, 16),
        "MinCutPool, K = 50": lambda: MinCutPool(FEATURES, 50, 16),
        "classifier, K = 50 and 25": lambda: GraphClassifier(FEATURES, 2, k=(50, 25)),
    }
    medians = {}
    for weighted in (False, True):
        batches = [make_batch(seed, weighted) for seed in range(BATCHES)]
        for name, make in models.items():
            torch.manual_seed(0)
            model, times = make(), []
            for _ in range(REPEAT):
                for x, edge_index, weight, batch in batches:
                    given = x.clone().requires_grad_(), edge_index.clone(), weight, batch.clone()
                    begin = time.thread_time()
                    out = model(*given)
                    loss = out.loss + (out.y if hasattr(out, "y") else out.x).sum()
                    loss.backward()
                    times.append(time.thread_time() - begin)
            medians[f"{name}{', weighted' if weighted else ''}"] = 1e3 * statistics.median(times)
    return medians


def in_process(checkout: Path) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="another checkout of softcut")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="measure in this process, print JSON")
    given = parser.parse_args()
    if given.json:
        print(json.dumps(measure()))
        return
    checkouts = {"here": Path(__file__).resolve().parents[1]}
    if given.against is not None:
        checkouts["there"] = given.against.resolve()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(given.turns):
        for name, checkout in checkouts.items():
            runs[name].append(in_process(checkout))
    for what in runs["here"][0]:
        least = {name: min(run[what] for run in each) for name, each in runs.items()}
        line = f"{what:40s} {least['here']:7.2f} ms"
        if "there" in least:
            line += f"   there {least['there']:7.2f} ms   there / here {least['there'] / least['here']:.2f}"
        print(line)


if __name__ == "__main__":
    main()
