"""Training graph classifiers side by side, one replica per fold: batches, losses, validation, the test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softcut.graph.splits import Split
from softcut.learning.hierarchy import HierarchyStore
from softcut.learning.store import BatchPlan, GraphStore
from softcut.nn.models import GraphClassifier, ModelOutput
from softcut.nn.pool import DenseSelection, PoolOutput, Selection
from softcut.ops import Operator, Segments
from softcut.training import Task

__all__ = ["Batch", "BatchOrder", "FoldTask"]

_AHEAD = 32  # steps whose batches are planned, and sent to the device, at once


class BatchOrder:
    """An endless order of training graphs: one random permutation after another, cut into batches.

    Every batch is full; one that reaches the end of a permutation goes on with the next. Batch t depends on the
    seed and on t alone.

    >>> order = BatchOrder(np.array([3, 5, 7]), batch=2, seed=[0])
    >>> sorted(np.concatenate([order(t) for t in range(3)]).tolist())
    [3, 3, 5, 5, 7, 7]
    """

    def __init__(self, graphs: NDArray[np.int64], batch: int, seed: Sequence[int]) -> None:
        self.graphs, self.batch, self.seed = graphs, batch, tuple(seed)
        self._epochs: dict[int, NDArray[np.int64]] = {}

    def _epoch(self, number: int) -> NDArray[np.int64]:
        if number not in self._epochs:
            rng = np.random.default_rng([*self.seed, number])
            if len(self._epochs) > 3:
                self._epochs.clear()
            self._epochs[number] = rng.permutation(self.graphs)
        return self._epochs[number]

    def __call__(self, t: int) -> NDArray[np.int64]:
        number, start = divmod(t * self.batch, len(self.graphs))
        found = self._epoch(number)[start : start + self.batch]
        while len(found) < self.batch:
            number += 1
            found = np.concatenate([found, self._epoch(number)[: self.batch - len(found)]])
        return found


@dataclass(frozen=True)
class Batch:
    """Mini-batches of all active replicas, ready for the network.

    Attributes
    ----------
    x, op, selections
        What the network reads.
    y, weight : Tensor
        [R, B] classes, and 1 for places that hold a graph.
    """

    x: Tensor
    op: Operator
    selections: list[Selection] | None
    y: Tensor
    weight: Tensor | None

    def per_graph(self, values: Tensor) -> Tensor:
        """[R * (B + 1), ...] to [R, B, ...]: without the padding graphs."""
        replicas, places = self.y.shape
        return values.view(replicas, places + 1, *values.shape[1:])[:, :places]

    def mean(self, values: Tensor) -> Tensor:
        """Mean over each replica's graphs [R]."""
        if self.weight is None:
            return values.mean(1)
        return (values * self.weight).sum(1) / self.weight.sum(1).clamp(min=1)


class FoldTask(Task):
    """R classifiers, each on its own training part, in one step.

    Parameters
    ----------
    net : GraphClassifier
        From :func:`~softcut.learning.replica_net.replica_net`.
    store : GraphStore
        The graphs.
    splits : sequence of Split
        Training, validation and test graphs of each replica.
    seeds : sequence of int
        Of each replica's order of graphs.
    batch : int
        Graphs of each replica in a step.
    l2 : float
        Weight of the sum of squares of the kernels; its gradient is added to theirs.
    hierarchy : HierarchyStore, optional
        For Graclus and NDP.
    """

    validates = True

    def __init__(
        self,
        net: GraphClassifier,
        store: GraphStore,
        splits: Sequence[Split],
        seeds: Sequence[int],
        batch: int = 32,
        l2: float = 0.0,
        hierarchy: HierarchyStore | None = None,
        evaluation_nodes: int = 2_000_000,
    ) -> None:
        self.net, self.store, self.splits, self.hierarchy = net, store, list(splits), hierarchy
        self.parameters = dict(net.named_parameters())
        self.orders = [BatchOrder(s.train, batch, [seed]) for s, seed in zip(splits, seeds, strict=True)]
        self.active = list(range(len(self.splits)))
        self.steps = 0
        self.evaluation_nodes = evaluation_nodes
        self._validation: list[Batch] | None = None
        self._planned: list[list[BatchPlan]] = []  # of the next steps, the nearest last
        if l2:
            for kernel in net.kernels():
                _decay(kernel, l2)

    def plan(self, graphs: NDArray[np.int64]) -> list[list[BatchPlan]]:
        """Plans of batches, [T, R, B] graph numbers; for each batch one plan per level of the hierarchy."""
        if self.hierarchy is not None:
            return self.hierarchy.plan(self.store, graphs)
        return [[plan] for plan in self.store.plan(graphs)]

    def gather(self, plans: Sequence[BatchPlan], full: bool = False) -> Batch:
        """A batch by its plans; `full`: no place is empty."""
        store = self.store
        found = store.gather(plans[0])
        selections = None
        if self.hierarchy is not None:
            selections = self.hierarchy.selections(found, plans[1:])
        weight = None if full else (found.chosen >= 0).to(store.dtype)
        return Batch(store.x[found.row], found.op, selections, store.y[found.chosen], weight)

    def batch(self, graphs: NDArray[np.int64]) -> Batch:
        """Gather a batch: [R, B] graph numbers, -1 for places that stay empty."""
        return self.gather(self.plan(graphs[None])[0], full=bool((graphs >= 0).all()))

    def forward(self, batch: Batch) -> tuple[ModelOutput, Tensor, Tensor]:
        """What the network says, and the loss of every graph: cross entropy and auxiliary losses, [R, B] each."""
        out = self.net(batch.x, batch.op, selections=batch.selections)
        logits = batch.per_graph(out.y)
        task = nn.functional.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), reduction="none")
        auxiliary = sum(
            (v for pooled in out.pooled for v in pooled.graph_losses.values()), logits.new_zeros(())
        )
        if auxiliary.dim():
            auxiliary = batch.per_graph(auxiliary)
        return out, task.view(batch.y.shape), auxiliary

    def step(self) -> Mapping[str, Tensor]:
        if not self._planned:
            ahead = range(self.steps, self.steps + _AHEAD)
            graphs = np.stack([[self.orders[r](t) for r in self.active] for t in ahead])
            self._planned = self.plan(graphs)[::-1]
        self.steps += 1
        batch = self.gather(self._planned.pop(), full=True)
        _, task, auxiliary = self.forward(batch)
        return {"loss": batch.mean(task + auxiliary)}

    def select(self, active: Tensor) -> None:
        self.active = active.tolist()
        self._validation, self._planned = None, []

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.steps, self._planned = int(state["steps"]), []

    def _batches(self, parts: Sequence[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The graphs of every replica in [R, B] pieces of a limited number of nodes, the last ones filled with -1."""
        longest = max(len(part) for part in parts)
        table = np.full((len(parts), longest), -1)
        for row, part in zip(table, parts, strict=True):
            row[: len(part)] = part
        nodes = self.store.counts[table].sum()
        pieces = max(1, -(-int(nodes) // self.evaluation_nodes))
        return [piece for piece in np.array_split(table, pieces, axis=1) if piece.size]

    @torch.no_grad()
    def validate(self) -> Mapping[str, Tensor]:
        """Loss with auxiliary ones, cross entropy, accuracy and error on each active replica's validation set."""
        if self._validation is None:
            pieces = self._batches([self.splits[r].validation for r in self.active])
            made = [self.batch(piece) for piece in pieces]
            self._validation = made
        total: dict[str, Tensor] = {}
        for batch in self._validation:
            out, task, auxiliary = self.forward(batch)
            hits = _hits(batch, out)
            values = {"loss": task + auxiliary, "task": task, "accuracy": hits, "error": 1 - hits}
            _add(total, _sums(batch, values))
        return _means(total)

    @torch.no_grad()
    def evaluate(self, part: str = "test") -> dict[str, Tensor]:
        """Accuracy, losses, and the poolers' losses and used clusters on each active replica's graphs.

        The poolers' own losses are those before their weights, so that they can be read where a weight is 0.
        """
        total: dict[str, Tensor] = {}
        for piece in self._batches([getattr(self.splits[r], part) for r in self.active]):
            batch = self.batch(piece)
            with _unweighted_losses(self.net) as weights:
                out, task, _ = self.forward(batch)
            auxiliary = sum(
                weights.get((level, name), 1.0) * batch.per_graph(value)
                for level, pooled in enumerate(out.pooled)
                for name, value in pooled.graph_losses.items()
            )
            values = {"accuracy": _hits(batch, out), "loss": task + auxiliary, "task": task}
            for level, pooled in enumerate(out.pooled, start=1):
                for name, value in pooled.graph_losses.items():
                    values[f"{name}{level}"] = batch.per_graph(value)
                used = clusters_used(pooled)
                if used is not None:
                    values[f"clusters{level}"] = batch.per_graph(used)
            _add(total, _sums(batch, values))
        return _means(total)

    @torch.no_grad()
    def predict(self, graphs: NDArray[np.int64]) -> Tensor:
        """Class probabilities of the same graphs by every active replica: [R, G, C]."""
        found = []
        for piece in self._batches([graphs] * len(self.active)):
            batch = self.batch(piece)
            out = self.net(batch.x, batch.op, selections=batch.selections)
            found.append(batch.per_graph(out.y).softmax(-1))
        return torch.cat(found, dim=1)


def _decay(kernel: nn.Parameter, l2: float) -> None:
    kernel.register_hook(lambda grad: torch.add(grad, kernel.detach(), alpha=2 * l2))


@contextmanager
def _unweighted_losses(net: GraphClassifier) -> Iterator[dict[tuple[int, str], float]]:
    """Poolers give their losses with weight 1 in the block; the weights by level and name of the loss."""
    found = {
        (level, name.removesuffix("_weight")): value
        for level, pool in enumerate(net.pools)
        for name, value in vars(pool).items()
        if name.endswith("_weight")
    }
    try:
        for level, name in found:
            setattr(net.pools[level], f"{name}_weight", 1.0)
        yield found
    finally:
        for (level, name), weight in found.items():
            setattr(net.pools[level], f"{name}_weight", weight)


def _hits(batch: Batch, out: ModelOutput) -> Tensor:
    return (batch.per_graph(out.y).argmax(-1) == batch.y).to(out.y.dtype)


def _sums(batch: Batch, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    weight = torch.ones_like(values["loss"]) if batch.weight is None else batch.weight
    found = {name: (value * weight).double().sum(1) for name, value in values.items()}
    return {**found, "count": weight.double().sum(1)}


def _add(total: dict[str, Tensor], new: Mapping[str, Tensor]) -> None:
    for name, value in new.items():
        total[name] = total[name] + value if name in total else value


def _means(total: Mapping[str, Tensor]) -> dict[str, Tensor]:
    count = total["count"].clamp(min=1)
    return {name: value / count for name, value in total.items() if name != "count"}


def clusters_used(pooled: PoolOutput) -> Tensor | None:
    """How many clusters are the first choice of at least one node, per graph; None for poolers that keep nodes."""
    selection = pooled.selection
    if not isinstance(selection, DenseSelection):
        return None
    s, layout = selection.s, selection.layout
    choice = s.argmax(-1)
    used = s.new_zeros(layout.num_graphs, s.shape[-1])
    if isinstance(layout, Segments):
        used[layout.batch, choice] = 1.0
    else:
        used.scatter_(1, choice, 1.0)
    return used.sum(1)
