"""Training graphs per second of table 2's network with MinCutPool, all folds together, beside its peers.

``python benchmarks/classification.py [--dataset PROTEINS DD REDDIT-BINARY] [--device cuda] [--data DIR] [--out FILE]``

Four ways to train the same ten folds, 32 graphs per fold and step:

- ``softcut``: all folds in one step (on a CPU: in the groups that the runner makes of large graphs);
- ``softcut, one by one``: the same code, one fold per step;
- ``PyG``: the network from PyTorch Geometric's dense parts (DenseGraphConv, ``dense_mincut_pool`` twice, batches from
  ``to_dense_batch`` and ``to_dense_adj``), one fold after another;
- ``tgp``: GraphConv and torch-geometric-pool's MinCutPooling, one fold after another (only where it is installed).

All see the same graphs in the same batches; making the batch is part of a step, as it is in training. Memory is the
peak during the steps, less what was in use before the data were loaded: allocated by PyTorch on a GPU, of the process
on a CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softcut.datasets.collections import load_graphs
from softcut.device import choose_device
from softcut.files import atomic_json
from softcut.graph.collection import GraphCollection, folds
from softcut.learning.experiment import ClassifierSettings, build_task, cluster_sizes, folds_at_once
from softcut.learning.fold_task import BatchOrder
from softcut.provenance import device_name, origin

DATASETS = ("PROTEINS", "DD", "REDDIT-BINARY")
Step = Callable[[], None]


# ------------------------------------------------------------------------------------------------------ the peers


class DenseNetwork(nn.Module):
    """MP - pool - MP - pool - MP - mean - linear with PyTorch Geometric's dense layers."""

    def __init__(self, features: int, classes: int, k: tuple[int, ...], hidden: int = 32) -> None:
        super().__init__()
        from torch_geometric.nn import DenseGraphConv

        self.convs = nn.ModuleList(DenseGraphConv(f, hidden) for f in (features, hidden, hidden))
        self.scores = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, size)) for size in k
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, data: Any) -> tuple[Tensor, Tensor]:
        from torch_geometric.nn import dense_mincut_pool
        from torch_geometric.utils import to_dense_adj, to_dense_batch

        adjacency = to_dense_adj(data.edge_index, data.batch)
        x, mask = to_dense_batch(x, data.batch)
        loss = x.new_zeros(())
        given: Tensor | None = mask
        for conv, score in zip(self.convs, self.scores, strict=False):
            x = conv(x, adjacency, given).relu()
            x, adjacency, cut, ortho = dense_mincut_pool(x, adjacency, score(x), given)
            loss, given = loss + cut + ortho, None
        x = self.convs[-1](x, adjacency).relu()
        return self.head(x.mean(1)), loss


class SparseNetwork(nn.Module):
    """The same with GraphConv and torch-geometric-pool's MinCutPooling on sparse graphs."""

    def __init__(self, features: int, classes: int, k: tuple[int, ...], hidden: int = 32) -> None:
        super().__init__()
        from tgp.poolers import MinCutPooling
        from torch_geometric.nn import GraphConv

        self.convs = nn.ModuleList(GraphConv(f, hidden) for f in (features, hidden, hidden))
        self.pools = nn.ModuleList(
            MinCutPooling([hidden, 16], size, batched=False, sparse_output=True) for size in k
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, data: Any) -> tuple[Tensor, Tensor]:
        from torch_geometric.nn import global_mean_pool

        edges, weight, batch = data.edge_index, None, data.batch
        loss = x.new_zeros(())
        for conv, pool in zip(self.convs, self.pools, strict=False):
            x = conv(x, edges, weight).relu()
            out = pool(x=x, adj=edges, edge_weight=weight, batch=batch)
            x, edges, weight, batch = out.x, out.edge_index, out.edge_weight, out.batch
            loss = loss + sum(out.loss.values())
        x = self.convs[-1](x, edges, weight).relu()
        return self.head(global_mean_pool(x, batch)), loss


def peer_step(network: type[nn.Module], graphs: GraphCollection, device: torch.device, batch: int) -> Step:
    """A step of one fold, with the batch built as PyTorch Geometric's loader does it."""
    from torch_geometric.data import Batch, Data

    y, index = torch.from_numpy(graphs.y), torch.from_numpy(graphs.index.astype(np.int64))
    value, entries = torch.from_numpy(graphs.value), graphs.entries_ptr
    rows = np.repeat(np.arange(graphs.num_nodes), graphs.degree)
    items = []
    for i, (low, high) in enumerate(zip(graphs.ptr[:-1], graphs.ptr[1:], strict=True)):
        part = slice(entries[i], entries[i + 1])
        edges = torch.from_numpy(np.stack([rows[part] - low, graphs.col[part]]).astype(np.int64))
        items.append(Data(number=index[low:high], x=value[low:high], edge_index=edges, y=y[i : i + 1]))
    order = BatchOrder(folds(graphs)[0].train, batch, [0])
    net = network(graphs.num_features, len(graphs.classes), cluster_sizes(graphs)).to(device)
    optimiser = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)
    done = iter(range(10**9))

    def step() -> None:
        data = Batch.from_data_list([items[i] for i in order(next(done))]).to(device)
        # One-hot features are written out on the device: on REDDIT-BINARY they would fill 10 GB.
        x = torch.zeros(data.num_nodes, graphs.num_features, device=device)
        x.scatter_(1, data.number, 1.0)
        if data.x.shape[1]:
            x[:, -data.x.shape[1] :] = data.x
        logits, auxiliary = net(x, data)
        optimiser.zero_grad()
        (nn.functional.cross_entropy(logits, data.y) + auxiliary).backward()
        optimiser.step()

    return step


# --------------------------------------------------------------------------------------------------------- softcut


def own_step(graphs: GraphCollection, count: int, settings: ClassifierSettings, device: torch.device) -> Step:
    """A step of some folds as the runner of table 2 trains them (in groups on a CPU), without validation."""
    parts, size = folds(graphs)[:count], folds_at_once(graphs, settings, device) or count
    tasks = []
    for first in range(0, count, size):
        group = parts[first : first + size]
        task = build_task(graphs, "mincut", group, list(range(first, first + len(group))), settings, device)
        tasks.append((task, torch.optim.Adam(list(task.parameters.values()), lr=settings.lr, fused=True)))

    def step() -> None:
        for task, optimiser in tasks:
            values = task.step()
            task.backward(values["loss"] + settings.l2 * values["l2"], {"loss": 1.0, "l2": settings.l2})
            optimiser.step()
            optimiser.zero_grad()

    return step


# ----------------------------------------------------------------------------------------------------- measuring


def _status(name: str) -> int:
    """VmRSS or VmHWM of this process in bytes; 0 where /proc does not exist."""
    try:
        with open("/proc/self/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))
    except OSError:
        return 0


@contextmanager
def peak_memory(device: torch.device, measured: dict[str, Any]) -> Iterator[None]:
    """Puts the peak of what the block uses into ``measured["memory_bytes"]``."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        yield
        measured["memory_bytes"] = torch.cuda.max_memory_allocated() - before
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)  # freed memory goes back, and the peak is counted anew
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
    before = _status("VmRSS")
    yield
    measured["memory_bytes"] = max(0, _status("VmHWM") - before)


def measure(make: Callable[[], Step], graphs: int, device: torch.device, budget: float) -> dict[str, Any]:
    """Median time of a step (of `graphs` training graphs), after two that do not count, in about `budget` seconds."""
    measured: dict[str, Any] = {}
    times: list[float] = []
    with peak_memory(device, measured):
        step = make()
        started = time.perf_counter()
        while len(times) < 5 or (time.perf_counter() - started < budget and len(times) < 200):
            if times and time.perf_counter() - started > 2 * budget:
                break  # a slow one: fewer steps say enough
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    counted = times[2:] or times[-1:]
    seconds = float(np.median(counted))
    return {"seconds": seconds, "graphs_per_second": graphs / seconds, "steps": len(counted), **measured}


def benchmark(name: str, given: argparse.Namespace, device: torch.device) -> list[dict[str, Any]]:
    """All ways to train on one data set; one row each."""
    graphs, settings = load_graphs(name, given.data), ClassifierSettings()
    batch, count = settings.batch, given.folds
    ways: dict[str, tuple[Callable[[], Step], int]] = {
        "softcut": (lambda: own_step(graphs, count, settings, device), count * batch),
        "softcut, one by one": (lambda: own_step(graphs, 1, settings, device), batch),
        "PyG": (lambda: peer_step(DenseNetwork, graphs, device, batch), batch),
        "tgp": (lambda: peer_step(SparseNetwork, graphs, device, batch), batch),
    }
    needs = {"PyG": "torch_geometric", "tgp": "tgp"}
    rows: list[dict[str, Any]] = []
    for way, (make, trained) in ways.items():
        row: dict[str, Any] = {"dataset": graphs.name, "way": way, "folds": count, "batch": batch}
        if way in needs and importlib.util.find_spec(needs[way]) is None:
            row["missing"] = f"{needs[way]} is not installed"
        else:
            try:
                row |= measure(make, trained, device, given.seconds)
                row["softcut_is_faster_by"] = (
                    rows[0]["graphs_per_second"] / row["graphs_per_second"] if rows else 1.0
                )
            except (RuntimeError, MemoryError) as error:  # a peer that runs out of memory is a result
                row["missing"] = str(error).split("\n", 1)[0][:200]
        rows.append(row)
        print(line(row), flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    start = f"{row['dataset']:14} {row['way']:20} "
    if "missing" in row:
        return start + row["missing"]
    return (
        f"{start}{1e3 * row['seconds']:10.2f} {row['graphs_per_second']:12,.0f} "
        f"{row['softcut_is_faster_by']:10.2f} {row['memory_bytes'] / 2**30:12.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", nargs="+", default=list(DATASETS), metavar="NAME")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0, help="about so long for each measurement")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--out", help="JSON file for the numbers")
    given = parser.parse_args()
    device = choose_device(given.device)
    print(f"{device_name(device)}, torch {torch.__version__}, {given.folds} folds")
    print(
        f"{'data set':14} {'way':20} {'ms a step':>10} {'graphs / s':>12} {'softcut x':>10} {'memory GiB':>12}"
    )
    rows = [row for name in given.dataset for row in benchmark(name, given, device)]
    if given.out:
        atomic_json(given.out, {**origin(device), "torch": torch.__version__, "rows": rows})


if __name__ == "__main__":
    main()
