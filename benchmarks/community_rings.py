"""Who tells one ring of communities from two: poolers in the network of table 2, on graphs made for it.

``python benchmarks/community_rings.py [--runs 3] [--method NAME ...] [--out FILE]``

Networks differ in the pooler alone; K is the number of communities at both levels, the ratio of the others 0.5. They
train side by side, one per seed, on 700 graphs with communities of 8 to 16 nodes, stop by the cross entropy of 100
others, and are tested on 200 graphs of these sizes and on 200 with communities of 24 to 48 nodes. Methods that were
measured before stay in the file.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.datasets import community_rings
from softcut.device import choose_device
from softcut.files import atomic_json
from softcut.graph.collection import folds
from softcut.learning.experiment import ClassifierSettings, build_task, loop_settings
from softcut.provenance import origin
from softcut.training import Loop

LEAVING = {"ortho_weight": "auto", "standardise": True, "temperature": 0.3}
# What is said of a method, its network, and options of its pooler.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "no pooling": ("nopool", {}),
    "random": ("random", {}),
    "topk": ("topk", {}),
    "graclus": ("graclus", {}),
    "diffpool": ("diffpool", {}),
    "mincut, weights 1": ("mincut", {"ortho_weight": 1.0}),
    "mincut, standardise": ("mincut", {**LEAVING, "ortho_weight": 1.0}),
    "mincut, auto and standardise": ("mincut", LEAVING),
}
SETTINGS = ClassifierSettings(lr=2e-3, epochs=200, patience=40, k=(6, 6), stop_on="task")


def measure(
    method: str, runs: int, device: torch.device, settings: ClassifierSettings = SETTINGS
) -> dict[str, Any]:
    """Test accuracy in percent and what the poolers did, mean over the runs."""
    network, options = METHODS[method]
    near, far = community_rings(), community_rings(test_sizes=(24, 48))
    settings = replace(settings, pool_args=options)
    task = build_task(near, network, folds(near)[:runs], range(runs), settings, device)
    start = time.perf_counter()
    loop = Loop(task, loop_settings(task.splits, settings)).run()
    cell: dict[str, Any] = {
        "method": method,
        "n": runs,
        "epochs": int(np.max(loop.ran)) // loop_settings(task.splits, settings).check_every,
    }
    cell["seconds"] = round(time.perf_counter() - start, 1)
    larger = build_task(far, network, folds(far)[:runs], range(runs), settings, device, net=task.net)
    for name, each in (("", task.evaluate()), ("larger_", larger.evaluate())):
        hits = 100 * each["accuracy"].cpu().numpy()
        cell[f"{name}mean"], cell[f"{name}std"] = round(float(hits.mean()), 2), round(float(hits.std()), 2)
        for key in ("ortho1", "ortho2", "clusters1", "clusters2"):
            if key in each:
                cell[name + key] = round(float(each[key].mean()), 4)
    return {**cell, **origin(device)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS, metavar="NAME")
    parser.add_argument("--epochs", type=int, default=SETTINGS.epochs)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("results/community_rings.json"))
    given = parser.parse_args()
    settings = replace(SETTINGS, epochs=given.epochs)
    for method in given.method:
        measured = json.loads(given.out.read_text()) if given.out.exists() else []
        cell = measure(method, given.runs, choose_device(given.device), settings)
        kept = [each for each in measured if each["method"] != method]
        order = list(METHODS)
        atomic_json(given.out, sorted([*kept, cell], key=lambda each: order.index(each["method"])))
        print(
            {name: cell[name] for name in ("method", "mean", "std", "larger_mean", "larger_std", "seconds")},
            flush=True,
        )


if __name__ == "__main__":
    main()
