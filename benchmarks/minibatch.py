"""Training in batches beside training on the whole graph: NMI, and the peak of memory that the training takes.

The same model with and without ``batch_size``: same features, networks, starts, consensus and refinement; only
the training of the replicas differs. Memory: the most that PyTorch holds at a time of what the training allocates
(CPU: from its own record of allocations, in a fit of a few iterations; GPU: ``max_memory_allocated``, with everything
that is on the device). The peak of the whole process is there, too: features, the graph of neighbours and the
consensus are the same in both. Finished runs are kept in ``results/minibatch.json`` and not repeated.

    python benchmarks/minibatch.py [--only photo pubmed planted] [--seeds 0] [--parts random metis] [--device cpu]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("photo", "pubmed", "planted")
STEPS = 8  # a batch has an eighth of the nodes


def graph_of(name: str, scale: float) -> Any:
    """A data set, or a planted partition of a million edges."""
    from softcut.datasets import load, planted_graph

    if name != "planted":
        return load(name)
    nodes, edges = round(100_000 * scale), round(1_000_000 * scale)
    return planted_graph(nodes, edges, 16, 64, edge_signal=0.5, feature_signal=0.1, seed=0)


def peak_of(train: Callable[[], Any], device: torch.device) -> tuple[Any, int]:
    """What a function returns, and the most bytes it held at a time."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        result = train()
        return result, torch.cuda.max_memory_allocated()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        result = train()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return result, most


def fit(arguments: argparse.Namespace) -> dict[str, Any]:
    """One fit for the NMI, or, with few iterations, for the memory of the training."""
    from softcut import GraphClustering
    from softcut.clustering import Recipe, networks
    from softcut.metrics import nmi

    graph = graph_of(arguments.name, arguments.scale)
    device = torch.device(arguments.device)
    more: dict[str, Any] = {}
    if arguments.parts != "whole":
        more = {
            "batch_size": -(-graph.num_nodes // STEPS),
            "recipe": Recipe(batch_parts=arguments.parts),
        }
    peaks: list[int] = []
    if arguments.memory:
        more |= {"max_iter": 3}

        def watched(train: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any, **named: Any) -> Any:
                result, most = peak_of(lambda: train(*given, **named), device)
                peaks.append(most)
                return result

            return run

        networks.train = watched(networks.train)
        networks.train_in_batches = watched(networks.train_in_batches)
    began = time.perf_counter()
    k = len(set(graph.y.tolist()))
    estimator = GraphClustering(
        k, n_init=arguments.replicas, random_state=arguments.seed, device=arguments.device, **more
    ).fit(graph)
    row = {"nodes": graph.num_nodes, "edges": graph.num_edges, "clusters": k, "batch": more.get("batch_size")}
    if arguments.memory:
        return row | {"training_peak_mib": round(max(peaks) / 2**20, 1)}
    return row | {
        "nmi": round(nmi(graph.y, estimator.soft_.argmax(1)), 4),
        "replicas": len(estimator.replicas_),
        "iterations": estimator.n_iter_,
        "seconds": round(time.perf_counter() - began, 1),
        "process_peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "notes": estimator.notes_,
    }


def run(name: str, parts: str, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Both fits, each in a process of its own."""
    from softcut.provenance import origin

    # The default, and what the budget leaves of it for the whole planted graph on a CPU: the same for both.
    replicas = arguments.replicas or (6 if name == "planted" else 24)
    row: dict[str, Any] = {"dataset": name, "parts": parts, "seed": seed, "n_init": replicas}
    for memory in (False, True):
        command = [sys.executable, "-W", "ignore", __file__, "--child", name, "--child-parts", parts]
        command += ["--child-seed", str(seed), "--replicas", str(replicas), "--scale", str(arguments.scale)]
        command += ["--device", arguments.device, *(["--memory"] if memory else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        row |= json.loads(done.stdout.splitlines()[-1])
    return row | origin(arguments.device)


def show(rows: list[dict[str, Any]]) -> None:
    """A table; ratios and differences to the whole graph."""
    print(f"{'data':9s} {'parts':7s} seed   NMI  difference  training MiB  share  process MiB  seconds")
    for row in rows:
        base = next(
            (
                r
                for r in rows
                if r["parts"] == "whole" and all(r[n] == row[n] for n in ("dataset", "seed", "nodes"))
            ),
            None,
        )
        if base is None:
            continue
        share = row["training_peak_mib"] / base["training_peak_mib"]
        print(
            f"{row['dataset']:9s} {row['parts']:7s} {row['seed']:4d} {row['nmi']:.4f} "
            f"{row['nmi'] - base['nmi']:+10.4f} "
            f"{row['training_peak_mib']:13.1f} {share:6.3f} {row['process_peak_mib']:12d} {row['seconds']:8.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--parts", nargs="+", choices=("random", "metis"), default=["random", "metis"])
    parser.add_argument(
        "--replicas", type=int, help="24 for the data sets and 6 for the planted graph by default"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the planted graph, for a rehearsal")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "results/minibatch.json")
    parser.add_argument("--child", dest="name", help=argparse.SUPPRESS)
    parser.add_argument("--child-parts", help=argparse.SUPPRESS)
    parser.add_argument("--child-seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.name:
        arguments.parts, arguments.seed = arguments.child_parts, arguments.child_seed
        print(json.dumps(fit(arguments)))
        return

    from softcut.files import atomic_json
    from softcut.provenance import device_name

    rows: list[dict[str, Any]] = (
        json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else []
    )
    here = device_name(arguments.device)
    for name in arguments.only:
        for seed in arguments.seeds:
            for parts in ("whole", *arguments.parts):
                if any(
                    (r["dataset"], r["parts"], r["seed"], r["device"]) == (name, parts, seed, here)
                    for r in rows
                ):
                    continue
                rows.append(run(name, parts, seed, arguments))
                arguments.out.parent.mkdir(parents=True, exist_ok=True)
                atomic_json(arguments.out, {"runs": rows})
                print(f"{name}, {parts}, seed {seed}: NMI {rows[-1]['nmi']}", flush=True)
    show(rows)


if __name__ == "__main__":
    main()
