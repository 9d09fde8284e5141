"""One replica on a generated graph of 31M nodes and 10^9 stored entries, from an edge list in memory, on one GPU.

    full      everything on the device, all nodes at every step
    batches   features and CSR in main memory, a sixteenth of the nodes at every step, at most --limit GiB of the device

Both: CSR from the edge list, features propagated twice, a network with random weights trained on the paper's loss
(Adam, float32). Seconds of each phase, peak memory of the device, and NMI to the planted communities are
written to results/billion.json (what is there for the other mode is kept). Drawing the graph is not counted.

    python benchmarks/billion.py                                        # both, for one H200: minutes
    python benchmarks/billion.py --mode batches --limit 16
    python benchmarks/billion.py --nodes 20000 --edges 300000 --device cpu --out /tmp/tiny.json     # a rehearsal
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from streams import product_in_blocks, propagate_in_blocks
from torch import Tensor

from softcut.clustering.kmeans import assign, kmeans
from softcut.datasets.generators import RandomEdges, generator_of, pattern_of_chunks
from softcut.files import atomic_json
from softcut.ops import CSR, CSRPattern
from softcut.ops.numerics import inverse_sqrt
from softcut.provenance import origin
from softcut.training import (
    DenseInput,
    PartedOperator,
    Parts,
    ReplicaNet,
    TrainSettings,
    assign_in_chunks,
    train,
    train_in_batches,
)

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = 50_000


@dataclass(frozen=True)
class EdgeList:
    """Chunks of edges in main memory, copied to the device when their turn comes."""

    chunks: list[tuple[Tensor, Tensor]]
    device: torch.device

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for u, v in self.chunks:
            yield u.to(self.device), v.to(self.device)


def draw(arguments: argparse.Namespace, device: torch.device) -> tuple[EdgeList, Tensor, Tensor]:
    """The edge list, the features and the communities, in main memory."""
    drawn = RandomEdges.draw(
        arguments.nodes, arguments.clusters, arguments.edges, arguments.edge_signal, device, arguments.seed
    )
    chunks = [(u.to(torch.int32).cpu(), v.to(torch.int32).cpu()) for u, v in drawn]
    y = drawn.labels()
    centre = arguments.feature_signal * torch.randn(
        arguments.clusters,
        arguments.features,
        generator=generator_of(device, arguments.seed, 2),
        device=device,
    )
    x = torch.empty(arguments.nodes, arguments.features)
    for i, begin in enumerate(range(0, arguments.nodes, 1 << 20)):
        own = y[begin : begin + (1 << 20)]
        noise = torch.randn(
            len(own), arguments.features, generator=generator_of(device, arguments.seed, 3, i), device=device
        )
        x[begin : begin + len(own)] = noise.add_(centre[own]).cpu()
    return EdgeList(chunks, device), x, y.cpu()


class Clock:
    """Seconds of phases."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds = device, {}  # type: torch.device, dict[str, float]

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.seconds[phase] = round(time.perf_counter() - began, 2)
        print(
            f"  {phase:22s} {self.seconds[phase]:8.2f} s   {memory(self.device):7.2f} GiB at most", flush=True
        )


def memory(device: torch.device) -> float:
    """Peak of the device's memory so far, GiB, with what the allocator holds."""
    return torch.cuda.max_memory_reserved() / 2**30 if device.type == "cuda" else float("nan")


def nmi(y: Tensor, labels: Tensor, k: int) -> float:
    """Normalised mutual information (arithmetic mean) from one table of counts."""
    table = torch.bincount(y * k + labels.to(y.device), minlength=k * k).view(k, k).double()
    p = table / table.sum()
    rows, columns = p.sum(1), p.sum(0)
    mutual = (p * (p.clamp(min=1e-300) / torch.outer(rows, columns).clamp(min=1e-300)).log()).sum()
    entropy = [-(q * q.clamp(min=1e-300).log()).sum() for q in (rows, columns)]
    return float(2 * mutual / (entropy[0] + entropy[1]).clamp(min=1e-12))


def standardise(z: Tensor, rows: int = 1 << 20) -> None:
    """Centred columns, unit variance on average; in place, from a sample of the rows."""
    sample = z[:: max(1, len(z) // 200_000)]
    centre = sample.mean(0)
    scale = 1 / (sample - centre).square().mean().sqrt().clamp(min=1e-12)
    for begin in range(0, len(z), rows):
        z[begin : begin + rows].sub_(centre).mul_(scale)


def labels_of(net: ReplicaNet, z: Tensor, device: torch.device, rows: int = 1 << 21) -> Tensor:
    """Labels [N] in main memory, computed a few rows at a time."""
    parts = [
        assign_in_chunks(net, DenseInput(z[i : i + rows]), device=device, rows=rows)[:, 0].argmax(1).cpu()
        for i in range(0, len(z), rows)
    ]
    return torch.cat(parts)


def start_of(
    z: Tensor,
    k: int,
    device: torch.device,
    arguments: argparse.Namespace,
    net: ReplicaNet,
    rows: int = 1 << 20,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Labels before the training, and what it is given to start from: nothing, or labels and sizes of clusters."""
    if arguments.start == "random":
        return labels_of(net, z, device), {}
    sample = z[:: max(1, len(z) // SAMPLE)][:SAMPLE].to(device)
    centres = kmeans(sample, k, n_init=4, max_iter=50, random_state=arguments.seed).centres
    parts = [
        assign(z[i : i + rows].to(device), centres[None])[0].to(z.device) for i in range(0, len(z), rows)
    ]
    labels = torch.cat(parts)
    sizes = torch.bincount(labels, minlength=k).to(z.dtype).clamp(min=0.25 * len(z) / k)
    return labels.cpu(), {"start": labels.unsqueeze(0), "sizes": sizes.unsqueeze(0)}


def settings_of(arguments: argparse.Namespace) -> TrainSettings:
    return TrainSettings(iterations=arguments.iterations, lr=1e-2, ortho_weight=2.0, tolerance=1e-3, start=40)


def full(
    arguments: argparse.Namespace, edges: EdgeList, x: Tensor, clock: Clock
) -> tuple[Tensor, Tensor, Any]:
    """Labels of the start and of the training, everything on the device."""
    device, k = clock.device, arguments.clusters
    with clock("edge list to CSR"):
        pattern = pattern_of_chunks(edges, arguments.nodes)
        op = CSR(pattern, symmetric=True)
    with clock("features propagated"):
        z = x.to(device)
        scale = (pattern.counts.to(z.dtype) + 1).rsqrt().unsqueeze(1)
        for first in range(0, z.shape[1], 16):
            block = z[:, first : first + 16].contiguous()
            for _ in range(arguments.hops):
                inner = scale * block
                block = (op @ inner).add_(inner).mul_(scale)
            z[:, first : first + 16] = block
        del block, inner, scale
        standardise(z)
    net = ReplicaNet(in_channels=z.shape[1], k=k, seeds=[arguments.seed], hidden=16).to(device)
    with clock("start"):
        before, given = start_of(z, k, device, arguments, net)
    with clock("training"):
        result = train(net, DenseInput(z), op, settings_of(arguments), **given)
    with clock("labels"):
        labels = labels_of(net, z, device)
    return before, labels.cpu(), result


def batches(
    arguments: argparse.Namespace, edges: EdgeList, x: Tensor, clock: Clock
) -> tuple[Tensor, Tensor, Any]:
    """The same with features and CSR in main memory; a step sees one of `arguments.steps` parts of the nodes."""
    device, k, n = clock.device, arguments.clusters, arguments.nodes
    with clock("edge list to CSR"):
        made = pattern_of_chunks(edges, n)
        pattern = CSRPattern(made.rowptr.cpu(), made.col.cpu(), made.shape)
        del made
        empty_cache(device)
    with clock("features propagated"):
        z = propagate_in_blocks(pattern, x, arguments.hops, device)
        standardise(z)
        empty_cache(device)
    net = ReplicaNet(in_channels=z.shape[1], k=k, seeds=[arguments.seed], hidden=16)
    with clock("start"):
        before, given = start_of(z, k, device, arguments, net)
    with clock("degrees"):
        scale = inverse_sqrt(pattern.counts.to(device).float())
        degree = (scale * product_in_blocks(pattern, scale.unsqueeze(1))[:, 0]).cpu()
        op = CSR(pattern, scale=scale.cpu(), symmetric=True, normalised=True)
        del scale
        empty_cache(device)
    # The order of the nodes says nothing about communities: ranges of it are random parts.
    parts = Parts.ranges(n, 8 * arguments.steps, 8, arguments.seed)
    with clock("training"):
        result = train_in_batches(
            net,
            DenseInput(z),
            PartedOperator(op, parts, degree),
            parts,
            settings_of(arguments),
            device=device,
            **given,
        )
    with clock("labels"):
        labels = labels_of(net, z, device)
    return before, labels, result


def empty_cache(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def measure(mode: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    device = torch.device(arguments.device)
    print(f"{mode}: drawing {arguments.nodes:,} nodes and {arguments.edges:,} edges", flush=True)
    edges, x, y = draw(arguments, device)
    empty_cache(device)
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory / 2**30
        limit = arguments.limit if mode == "batches" else 100.0
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total))
        torch.cuda.reset_peak_memory_stats()
    clock, began = Clock(device), time.perf_counter()
    before, after, result = (full if mode == "full" else batches)(arguments, edges, x, clock)
    seconds = time.perf_counter() - began
    k = arguments.clusters
    row = {
        "mode": mode,
        "nodes": arguments.nodes,
        "edges_drawn": arguments.edges,
        "features": arguments.features,
        "clusters": k,
        "edge_signal": arguments.edge_signal,
        "feature_signal": arguments.feature_signal,
        "hops": arguments.hops,
        "start": arguments.start,
        "steps_per_pass": arguments.steps if mode == "batches" else 1,
        "iterations": result.iterations,
        "nmi_of_start": round(nmi(y, before, k), 4),
        "nmi": round(nmi(y, after, k), 4),
        "seconds": round(seconds, 2),
        "phases": clock.seconds,
        "peak_reserved_gib": round(memory(device), 2),
        "peak_allocated_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)
        if device.type == "cuda"
        else None,
        **origin(device),
    }
    print(
        f"{mode}: NMI {row['nmi']} (start {row['nmi_of_start']}), {row['seconds']} s, "
        f"{row['peak_reserved_gib']} GiB, {row['iterations']} iterations",
        flush=True,
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("full", "batches", "both"), default="both")
    parser.add_argument("--nodes", type=int, default=31_000_000)
    parser.add_argument("--edges", type=int, default=500_000_000)
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--edge-signal", type=float, default=0.5)
    parser.add_argument("--feature-signal", type=float, default=0.2)
    parser.add_argument(
        "--start",
        choices=("kmeans", "random"),
        default="random",
        help="random weights as in the paper, or a k-means of the features learned first",
    )
    parser.add_argument("--hops", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument(
        "--steps", type=int, default=16, help="steps of one pass through the graph, in batches"
    )
    parser.add_argument("--limit", type=float, default=16.0, help="GiB of the device that batches may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=ROOT / "results/billion.json")
    arguments = parser.parse_args()
    if arguments.mode == "both":  # a process each: nothing of the first is left on the device
        for mode in ("full", "batches"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--mode", mode], check=True)
        return
    new = measure(arguments.mode, arguments)
    rows = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else []
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    atomic_json(arguments.out, {"runs": [row for row in rows if row["mode"] != arguments.mode] + [new]})


if __name__ == "__main__":
    main()
