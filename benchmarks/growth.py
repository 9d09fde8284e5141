"""How time and memory of one training step grow with the edges, on a CPU, beside a plain gather of the same size.

    python benchmarks/growth.py [--edges 10000 100000 1000000 10000000] [--out results/growth_cpu.json]

A step of one replica (64 features, 16 hidden units, 16 clusters, 32 stored entries per node): network, L_c + L_o,
gradient and Adam. Times are the fastest of several; memory is the most that PyTorch holds at a time of what a step
allocates.
``benchmarks/gpu_kernels.py --sections growth`` is the same on a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from minibatch import peak_of

from softcut.files import atomic_json
from softcut.ops import CSR, CSRPattern
from softcut.provenance import origin
from softcut.training import DenseInput, ReplicaNet
from softcut.training.mincut import replica_losses

K = 16


def graph_of(edges: int) -> CSR:
    """Random edges between edges / 16 nodes, in both directions."""
    n = edges // 16
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(0, n, (2, edges), generator=generator, dtype=torch.int32)
    pattern, _ = CSRPattern.from_coo(torch.cat([ends[0], ends[1]]), torch.cat([ends[1], ends[0]]), (n, n))
    return CSR(pattern, symmetric=True).normalise()


def fastest(work: Callable[[], Any], seconds: float = 3.0, least: int = 3) -> float:
    """Milliseconds of the fastest call."""
    work()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < least or time.perf_counter() - began < seconds:
        before = time.perf_counter()
        work()
        times.append(time.perf_counter() - before)
    return 1e3 * min(times)


def measure(edges: int) -> dict[str, float]:
    """One size."""
    op = graph_of(edges)
    n = op.num_rows
    net = ReplicaNet(64, K, [0], hidden=16)
    inputs = DenseInput(torch.randn(n, 64, generator=torch.Generator().manual_seed(1)))
    adam = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        adam.zero_grad()
        cut, ortho = replica_losses(op, net.soft(inputs))
        (cut + ortho).sum().backward()
        adam.step()

    ms = fastest(step)
    _, extra = peak_of(step, torch.device("cpu"))
    x, out = torch.rand(n, K), torch.empty(min(2 * edges, 1 << 22), K)

    def gather() -> None:
        for part in op.pattern.col.split(1 << 22):
            torch.index_select(x, 0, part, out=out[: part.numel()])

    return {"edges": edges, "ms": ms, "extra bytes": extra, "gather ms": fastest(gather)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7]
    parser.add_argument("--edges", type=int, nargs="+", default=sizes)
    parser.add_argument("--out", type=Path, default=Path("results/growth_cpu.json"))
    given = parser.parse_args()
    rows = []
    for edges in given.edges:
        rows.append(measure(edges))
        print(rows[-1], flush=True)
        atomic_json(given.out, {**origin("cpu"), "rows": rows})


if __name__ == "__main__":
    main()
