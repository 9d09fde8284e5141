"""Training steps per second of table 3's networks: 90 replicas in one step against one training alone, times 90.

``python benchmarks/regression.py [--method mincut] [--steps 1500] [--compile] [--device cuda] [--data DIR] [--out F]``

Every way trains the same network on batches of 32 molecules that lie on the device, as the runner of the table does,
without validation:

- ``together``: folds x properties replicas in one step (on a GPU: one CUDA graph per step);
- ``alone``: the same code with one replica, its own CUDA graph too;
- ``plain loop``: one module, ``torch.optim.Adam``, ordinary PyTorch calls.

The ratio is the time of as many steps of one training alone as there are replicas, over the time of one step together.
With ``--compile`` the first two are also measured with a step compiled by ``torch.compile``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from softcut.datasets.qm9 import Molecules, load_molecules
from softcut.device import choose_device
from softcut.files import atomic_json
from softcut.paper.comparison import FOLDS
from softcut.paper.regression import METHODS, PROPERTIES, RegressionSettings, build_task, squared_error
from softcut.paper.runs import Pair
from softcut.provenance import origin
from softcut.report.tables import markdown_table
from softcut.training import Loop, LoopProgress, LoopSettings

SETTINGS = RegressionSettings()
MINIMISE = {"mse": 1.0, "auxiliary": 1.0}


def loop_seconds(
    molecules: Molecules,
    method: str,
    pairs: list[Pair],
    steps: int,
    device: torch.device,
    compiled: bool = False,
) -> tuple[float, float]:
    """Seconds per step by the shared loop, and seconds before the first of the measured steps."""
    if compiled:
        torch.compiler.reset()  # a limited number of shapes is compiled per function
    began = time.perf_counter()
    task = build_task(molecules, method, pairs, SETTINGS, device=device, compiled=compiled)
    if 2 * steps > task.steps:
        raise SystemExit(f"--steps must be at most {task.steps // 2}: both halves are one epoch.")
    task.validates = False
    times: list[float] = []

    def clock(state: LoopProgress) -> None:  # called after the numbers of this step have reached the host
        times.append(time.perf_counter())

    settings = LoopSettings(2 * steps, SETTINGS.lr, minimise=MINIMISE, check_every=steps, record_every=steps)
    Loop(task, settings).run(clock)
    return (times[1] - times[0]) / steps, times[0] - began


def plain_seconds(molecules: Molecules, method: str, steps: int, device: torch.device) -> float:
    """Seconds per step of one module in an ordinary loop."""
    task = build_task(molecules, method, [(PROPERTIES[0], 0)], SETTINGS, device=device)
    model = task.model.to(device)
    targets = task.targets[0]
    optimiser = torch.optim.Adam(model.parameters(), lr=SETTINGS.lr, fused=True)
    rows = task.order(0, 0).view(-1, SETTINGS.batch)[:steps]
    times = []
    for batches in (rows[:50], rows):  # the first ones warm up
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            losses = squared_error(model(*(x[batch] for x in task.inputs)), targets[batch])
            optimiser.zero_grad()
            sum(loss.mean() for loss in losses.values()).backward()  # type: ignore[union-attr]
            optimiser.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / len(batches))
    return times[-1]


def measure(
    molecules: Molecules, method: str, pairs: list[Pair], steps: int, device: torch.device, compile_too: bool
) -> list[dict[str, Any]]:
    """All ways of one method."""
    ways = []
    for compiled in (False, True) if compile_too else (False,):
        name = ", compiled" if compiled else ""
        for way, chosen in (("together", pairs), ("alone", pairs[:1])):
            seconds, ready = loop_seconds(molecules, method, chosen, steps, device, compiled)
            ways.append({"way": way + name, "replicas": len(chosen), "step_s": seconds, "ready_s": ready})
    plain = plain_seconds(molecules, method, min(steps, 500), device)
    ways.append({"way": "plain loop", "replicas": 1, "step_s": plain, "ready_s": 0.0})
    for row in ways:
        row["method"] = method
        row["replica_steps_per_s"] = row["replicas"] / row["step_s"]
    best = min((row for row in ways if row["replicas"] > 1), key=lambda row: row["step_s"], default=None)
    for row in ways:
        if best is not None:
            row["ratio"] = row["step_s"] / row["replicas"] * best["replicas"] / best["step_s"]
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data")
    parser.add_argument("--out")
    given = parser.parse_args()
    device = choose_device(given.device)
    molecules = load_molecules(given.data)
    pairs = [(name, fold) for name in PROPERTIES for fold in range(given.folds)]
    rows: list[dict[str, Any]] = []
    for method in given.method:
        rows += measure(molecules, method, pairs, given.steps, device, given.compile)
        print(f"{method}: measured", flush=True)
    columns = [
        "method",
        "way",
        "replicas",
        "ms per step",
        "replica steps per s",
        "ready after s",
        "times faster",
    ]
    lines = [
        [
            row["method"],
            row["way"],
            str(row["replicas"]),
            f"{1e3 * row['step_s']:.3f}",
            f"{row['replica_steps_per_s']:.0f}",
            f"{row['ready_s']:.1f}",
            f"{row['ratio']:.1f}" if "ratio" in row else "-",
        ]
        for row in rows
    ]
    print(markdown_table(columns, lines))
    print("times faster: the fastest way with all replicas against this one, per replica and step")
    if given.out:
        atomic_json(
            given.out, {**origin(device), "torch": torch.__version__, "steps": given.steps, "rows": rows}
        )


if __name__ == "__main__":
    main()
