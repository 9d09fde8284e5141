"""One training step of table 2's network, ten folds side by side, against PyTorch Geometric one fold at a time.

``python benchmarks/classification.py [--dataset PROTEINS] [--folds 10] [--device cpu]``

The peer is the same network from PyTorch Geometric's parts: DenseGraphConv, ``dense_mincut_pool`` twice, dense
batches from ``to_dense_batch`` and ``to_dense_adj``, one fold after another. Both see the same graphs in the same
batches; making the batch is part of the step, as it is in training.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from softcut.classification.collection import GraphCollection
from softcut.classification.experiment import ClassifierSettings, build_task, cluster_sizes
from softcut.classification.splits import folds
from softcut.classification.task import BatchOrder
from softcut.datasets import load_graphs
from softcut.device import choose_device
from softcut.files import atomic_json
from softcut.provenance import command_line, commit, device_name


class DenseNetwork(nn.Module):
    """MP - pool - MP - pool - MP - mean - linear with PyTorch Geometric's layers."""

    def __init__(self, features: int, classes: int, k: tuple[int, ...], hidden: int = 32) -> None:
        super().__init__()
        from torch_geometric.nn import DenseGraphConv

        self.convs = nn.ModuleList(DenseGraphConv(f, hidden) for f in (features, hidden, hidden))
        self.scores = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, size)) for size in k
        )
        self.head = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        from torch_geometric.nn import dense_mincut_pool

        loss = x.new_zeros(())
        given: Tensor | None = mask
        for conv, score in zip(self.convs, self.scores, strict=False):
            x = conv(x, adjacency, given).relu()
            x, adjacency, cut, ortho = dense_mincut_pool(x, adjacency, score(x), given)
            loss, given = loss + cut + ortho, None
        x = self.convs[-1](x, adjacency).relu()
        return self.head(x.mean(1)), loss


def peer_step(
    graphs: GraphCollection, parts: list[np.ndarray], batch: int, device: torch.device
) -> Callable[[int], None]:
    """One step of every fold, one after another."""
    from torch_geometric.data import Batch, Data
    from torch_geometric.utils import to_dense_adj, to_dense_batch

    x, adjacency = torch.from_numpy(graphs.dense_features()), graphs.adjacency()
    items = []
    for i in range(len(graphs)):
        low, high = graphs.ptr[i], graphs.ptr[i + 1]
        edges = torch.from_numpy(np.stack(adjacency[low:high, low:high].tocoo().coords).astype(np.int64))
        items.append(Data(x=x[low:high], edge_index=edges, y=torch.tensor([int(graphs.y[i])])))
    orders = [BatchOrder(part, batch, [i]) for i, part in enumerate(parts)]
    k = cluster_sizes(graphs)
    nets = [DenseNetwork(graphs.num_features, len(graphs.classes), k).to(device) for _ in parts]
    optimisers = [torch.optim.Adam(net.parameters(), lr=5e-4) for net in nets]

    def step(t: int) -> None:
        for net, optimiser, order in zip(nets, optimisers, orders, strict=True):
            data = Batch.from_data_list([items[i] for i in order(t)]).to(device)
            x, mask = to_dense_batch(data.x, data.batch)
            y, loss = net(x, to_dense_adj(data.edge_index, data.batch), mask)
            optimiser.zero_grad()
            (nn.functional.cross_entropy(y, data.y) + loss).backward()
            optimiser.step()

    return step


def own_step(
    graphs: GraphCollection, numbers: list[int], settings: ClassifierSettings, device: torch.device
) -> Callable[[int], None]:
    """One step of all folds together."""
    parts = folds(graphs)
    task = build_task(graphs, "mincut", [parts[i] for i in numbers], numbers, settings, device)
    optimiser = torch.optim.Adam(list(task.parameters.values()), lr=5e-4, fused=True)

    def step(t: int) -> None:
        task.step()["loss"].sum().backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def seconds(step: Callable[[int], None], device: torch.device, repeats: int) -> float:
    """Median time of a step, after two that do not count."""
    times = []
    for t in range(repeats + 2):
        start = time.perf_counter()
        step(t)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return float(np.median(times[2:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="PROTEINS")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data", help="folder of the data sets")
    parser.add_argument("--out", help="JSON file for the numbers")
    given = parser.parse_args()
    device = choose_device(given.device)
    graphs = load_graphs(given.dataset, given.data)
    settings, numbers = ClassifierSettings(), list(range(given.folds))
    together = seconds(own_step(graphs, numbers, settings, device), device, given.repeats)
    alone = seconds(own_step(graphs, [0], settings, device), device, given.repeats)
    parts = [folds(graphs)[i].train for i in numbers]
    peer = seconds(peer_step(graphs, parts, settings.batch, device), device, max(3, given.repeats // 4))
    found = {
        "dataset": graphs.name,
        "folds": given.folds,
        "batch": settings.batch,
        "softcut_seconds": together,
        "softcut_one_fold_seconds": alone,
        "pyg_seconds": peer,
        "pyg_over_softcut": peer / together,
        "one_by_one_over_together": given.folds * alone / together,
        "device": device_name(device),
        "commit": commit(),
        "command": command_line(),
    }
    for name, value in found.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")
    if given.out:
        atomic_json(given.out, found)


if __name__ == "__main__":
    main()
