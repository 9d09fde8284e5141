r"""What a step of distributed training costs, by a model: operations, bytes of memory and bytes between processes.

    python benchmarks/distributed_cost.py --nodes 111e6 --entries 3.2e9 -k 16 --parts 8
    python benchmarks/distributed_cost.py --out results/distributed_model.json      the table of docs/distributed.md

With N nodes, E stored entries (two for each undirected edge), F columns that the networks read at d distances, V words,
H hidden units, K clusters, R networks, P parts with h_p halo rows each, and b bytes a number:

    product AS              2 E R K operations       reads E (4 + b R K) + b N R K bytes
    network, both ways      6 N R (F H + H K)        reads b N F twice, b N R (H + K) a few times
    halo rows sent          b R K sum_p h_p          in all; none in backward
    numbers added up        b (R (2 K^2 + K + K V) + parameters),  parameters = R (H F + H + K H + K)

Memory is that of the arrays that are alive at the same time, where their sum is largest (on a graph of more than 50,000
nodes; --check compares with PyTorch's own record of allocations). What does not grow with the graph (samples,
parameters, tables) is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from softcut.clustering import Recipe
from softcut.clustering.distributed import JobGroup
from softcut.clustering.distributed.group import step_traffic
from softcut.clustering.distributed.part import PartJudge, PartTask
from softcut.clustering.prepare import scaled_distances
from softcut.clustering.starts import Start
from softcut.files import atomic_json
from softcut.ops import CSRPattern
from softcut.ops.halo import Exchange, Halo
from softcut.provenance import origin
from softcut.training import DenseInput, ReplicaNet

METIS_SHARE = 1.5  # halo rows per node of a graph that METIS divides well, as Amazon's
STEPS = Recipe().iterations + Recipe().start_iterations


def random_halo_share(parts: int, degree: float) -> float:
    """Halo rows per own row where nodes of one degree are divided at random; less where degrees differ."""
    return (parts - 1) * (1 - (1 - 1 / parts) ** degree)


@dataclass(frozen=True)
class Scale:
    """A job, described by its sizes alone; `halo_share` is halo / rows of a part, as manifest.json says."""

    nodes: float
    entries: float
    columns: int
    k: int
    vocabulary: int = 0
    hidden: int = 16
    replicas: int = 4
    distances: int = 6
    parts: int = 1
    halo_share: float = 0.0
    itemsize: int = 4

    @property
    def rows(self) -> float:
        """Own nodes of a part."""
        return self.nodes / self.parts

    @property
    def halo(self) -> float:
        """Halo rows of a part."""
        return 0.0 if self.parts == 1 else self.halo_share * self.rows

    @property
    def traffic(self) -> float:
        """Bytes of memory read and written in a step of a part, where nothing is found in a cache."""
        width = self.itemsize * self.replicas * self.k
        product = self.entries / self.parts * (4 + width) + width * self.rows
        passes = 2 * self.columns + 8 * self.replicas * (self.hidden + self.k)
        return product + self.itemsize * self.rows * passes

    @property
    def halo_bytes(self) -> float:
        """Rows received by a part in a step."""
        return self.itemsize * self.replicas * self.k * self.halo

    @property
    def reduced_bytes(self) -> float:
        """Numbers added up in a step."""
        return step_traffic(
            0,
            self.k,
            self.columns,
            hidden=self.hidden,
            replicas=self.replicas,
            itemsize=self.itemsize,
            vocabulary=self.vocabulary,
        ).reduced

    @property
    def graph_memory(self) -> float:
        """Bytes of a part's rows of the graph: pointer, columns, rows to send."""
        return 4 * (self.entries / self.parts + self.rows + 2 * self.halo)

    @property
    def feature_memory(self) -> float:
        """Bytes of a part's features, and of those at all distances."""
        return self.itemsize * (1 + self.distances) * self.rows * self.columns

    @property
    def step_memory(self) -> float:
        """Bytes of activations and gradients: in the product, while a large halo arrives, or in the hidden layer."""
        h, k, halo = self.rows * self.hidden, self.rows * self.k, self.halo * self.k
        return self.itemsize * self.replicas * max(2 * h + 4 * k, 2 * h + 2 * k + 2 * halo, 3 * h + k)

    @property
    def judging_memory(self) -> float:
        """Bytes of the evidence after the training: S and labels of all networks, A times the labels of one."""
        during = self.k * (4 * self.rows + self.halo) + self.entries / self.parts
        product = 8 * max(during, 2 * self.k * (self.rows + self.halo))
        return self.rows * (self.replicas * (self.itemsize * self.k + 8) + 24) + product

    @property
    def memory(self) -> float:
        """Bytes of a part in training, or right after it."""
        labels = self.rows * (24 + 8 * self.replicas)
        return self.graph_memory + self.feature_memory + labels + max(self.step_memory, self.judging_memory)

    @property
    def preparation_memory(self) -> float:
        """Bytes of a part while features are propagated; some copies of them in single and in double precision."""
        copies = max(7 * self.rows, 5 * self.rows + 2 * self.halo)
        return self.graph_memory + self.feature_memory + 4 * (self.columns * copies + 9 * self.rows)

    def seconds(self, memory_speed: float, network_speed: float) -> tuple[float, float]:
        """Seconds of a step in memory and in messages; they are not overlapped: a product waits for its halo."""
        ring = 2 * (self.parts - 1) / self.parts * self.reduced_bytes
        return self.traffic / memory_speed, (self.halo_bytes + ring) / network_speed

    def described(self, memory_speed: float, network_speed: float) -> dict[str, Any]:
        """All of it, as plain numbers."""
        names = ("rows", "halo", "memory", "preparation_memory", "traffic", "halo_bytes", "reduced_bytes")
        compute, messages = self.seconds(memory_speed, network_speed)
        measured = {name: getattr(self, name) for name in names}
        return {**asdict(self), **measured, "seconds_memory": compute, "seconds_messages": messages}


# ------------------------------------------------------------------------------- the model against PyTorch


class Echo(JobGroup):
    """A process whose halo is full of zeros: sizes are all that matters here."""

    def deliver(self, rows: torch.Tensor, send: list[int], receive: list[int]) -> torch.Tensor:
        return rows.new_zeros(sum(receive), *rows.shape[1:])


def part_operator(n: int, halo: int, degree: int) -> Halo:
    columns = torch.from_numpy(np.random.default_rng(0).integers(0, n + halo, n * degree))
    pattern, _ = CSRPattern.from_coo(torch.arange(n).repeat_interleave(degree), columns, (n, n + halo))
    exchange = Exchange(Echo(), n, torch.zeros(halo, dtype=torch.long), [halo], [halo])
    return Halo(CSRPattern(pattern.rowptr.int(), pattern.col.int(), pattern.shape), exchange)


def peak_of(work: Callable[[], Any]) -> int:
    """The most bytes that PyTorch held at a time of what `work` allocated."""
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, profile_memory=True) as measured:
        work()
    events = [e for e in measured.profiler.kineto_results.events() if e.name() == "[memory]"]
    return int(np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]).max())


def compared(n: int, halo: int, degree: int, columns: int, k: int, hidden: int, replicas: int) -> None:
    """Measured bytes as a share of the model's, of a step, of the evidence and of the preparation."""
    parts, device, op = 2 if halo else 1, torch.device("cpu"), part_operator(n, halo, degree)
    job = Scale(parts * n, parts * n * degree, columns, k, 0, hidden, replicas, 2, parts, halo / n)
    net = ReplicaNet(columns, k, list(range(replicas)), hidden=hidden)
    prepared: Any = SimpleNamespace(
        encoded=SimpleNamespace(op=op, inputs=DenseInput(torch.randn(1, n, columns))),
        adjacency=op,
        judge=SimpleNamespace(edges=3.0 * n),
        words=None,
        nodes=SimpleNamespace(count=n, sample=lambda rows, most: rows[:64], total=lambda values: values),
        device=device,
    )
    start = Start(torch.zeros(replicas, n, dtype=torch.long), torch.full((replicas, k), n / k))
    task = PartTask(net, prepared, np.arange(n), Recipe().training(device), Echo(), start)

    def step() -> None:
        torch.stack(list(task.step().values())).sum().backward()
        net.zero_grad()

    step()  # what is made once
    part: Any = SimpleNamespace(words=None)
    manifest: Any = SimpleNamespace(nodes=n, edge_worth=1.0)
    judge = PartJudge(part, op, manifest, torch.zeros(0, dtype=torch.float64))
    x, recipe = torch.randn(n, columns), Recipe(large=64, distances=(0, 2), many_columns=columns + 1)
    measured = {
        "step": peak_of(step) / job.step_memory,
        "evidence": peak_of(lambda: judge(torch.rand(n, replicas, k).argmax(-1), k)) / job.judging_memory,
        # The features themselves were there before.
        "preparation": (peak_of(lambda: scaled_distances(op, x, prepared.nodes, recipe)) + 4 * x.numel())
        / (job.preparation_memory - job.graph_memory),
    }
    print(
        f"halo {halo}, H {hidden}, K {k}, R {replicas}:", {name: round(v, 3) for name, v in measured.items()}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=float, default=111e6)
    parser.add_argument("--entries", type=float, default=3.2e9, help="two for each undirected edge")
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--vocabulary", type=int, default=1000)
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--replicas", type=int, default=Recipe().least_networks)
    parser.add_argument("--distances", type=int, default=len(Recipe().distances))
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--memory-speed", type=float, default=3.5e12, help="bytes a second of a device")
    parser.add_argument("--network-speed", type=float, default=5e10, help="bytes a second between devices")
    parser.add_argument("--check", action="store_true", help="compare memory with PyTorch's record")
    parser.add_argument("--out", type=Path, help="write all numbers as JSON")
    given = vars(parser.parse_args())
    speeds = given.pop("memory_speed"), given.pop("network_speed")
    check, out = given.pop("check"), given.pop("out")
    if check:
        for sizes in ((0, 16, 16, 1), (0, 8, 32, 2), (0, 128, 8, 1), (4000, 16, 16, 2), (16000, 16, 16, 1)):
            halo, hidden, k, replicas = sizes
            compared(8000, halo, 6, 32, k, hidden, replicas)
        return
    parts = given.pop("parts")
    whole = Scale(**given)
    chance = random_halo_share(parts, whole.entries / whole.nodes)
    jobs = {
        "1 part": whole,
        f"{parts} parts, METIS, {METIS_SHARE} halo rows per node": replace(
            whole, parts=parts, halo_share=METIS_SHARE
        ),
        f"{parts} parts at random, {chance:.1f}": replace(whole, parts=parts, halo_share=chance),
    }
    measured = {title: {**job.described(*speeds), "steps": STEPS} for title, job in jobs.items()}
    for title, numbers in measured.items():
        print(title, {name: float(f"{value:.4g}") for name, value in numbers.items()}, sep="\n  ")
    if out is not None:
        atomic_json(out, {"jobs": measured, **origin()})


if __name__ == "__main__":
    main()
