"""Training graph classifiers side by side, one replica per fold: batches, losses, validation, the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softcut.graph.collection import Split
from softcut.learning.hierarchy import HierarchyStore
from softcut.learning.mincut_net import Gradients, WrittenOut, can_be_written_out
from softcut.learning.store import BatchPlan, GraphStore
from softcut.nn import DenseSelection, Selection
from softcut.nn.models import Levels
from softcut.ops import Operator, Segments
from softcut.ops.numerics import add_multiples
from softcut.training import Task

_AHEAD = 32  # steps whose batches are planned, and sent to the device, at once
_GATHERED = 1 << 18  # rows and entries of the batches that are gathered at once on a CPU, about


class BatchOrder:
    """An endless order of training graphs: one random permutation after another, cut into batches.

    Every batch is full; one that reaches the end of a permutation goes on with the next. Batch t depends on the
    seed and on t alone.
    """

    def __init__(self, graphs: NDArray[np.int64], batch: int, seed: Sequence[int]) -> None:
        self.size, self.batch = len(graphs), batch
        self._epoch = lru_cache(maxsize=4)(lambda n: np.random.default_rng([*seed, n]).permutation(graphs))

    def __call__(self, t: int) -> NDArray[np.int64]:
        number, start = divmod(t * self.batch, self.size)
        chosen = self._epoch(number)[start : start + self.batch]
        while len(chosen) < self.batch:
            number += 1
            chosen = np.concatenate([chosen, self._epoch(number)[: self.batch - len(chosen)]])
        return chosen


@dataclass(frozen=True)
class Batch:
    """Mini-batches of all active replicas: what the network reads, and its targets."""

    x: Tensor
    op: Operator
    selections: list[Selection] | None
    y: Tensor  # [R, B] classes, or [R, B, T] numbers
    weight: Tensor | None  # [R, B]: 1 for places that hold a graph; None: all do

    def per_graph(self, values: Tensor) -> Tensor:
        """[R * (B + 1), ...] to [R, B, ...]: without the padding graphs."""
        replicas, places = self.y.shape[:2]
        return values.view(replicas, places + 1, *values.shape[1:])[:, :places]


class FoldTask(Task):
    """R classifiers, each on its own training part, in one step of `batch` graphs each.

    A step gives the mean `loss` of each replica's batch, and `l2`, the sum of squares of its kernels. `seeds` are those
    of each replica's order of graphs; a piece of an evaluation has at most `evaluation_nodes` nodes.
    """

    validates = True

    def __init__(
        self,
        net: Any,  # GraphClassifier or ReadoutNet with replicas
        store: GraphStore,
        splits: Sequence[Split],
        seeds: Sequence[int],
        batch: int = 32,
        hierarchy: HierarchyStore | None = None,
        evaluation_nodes: int = 2_000_000,
    ) -> None:
        self.net = net
        self.store, self.splits, self.hierarchy = store, list(splits), hierarchy
        self.parameters = dict(net.named_parameters())
        self.kernels = list(net.kernels())
        written_out = hierarchy is None and can_be_written_out(net)
        self.written_out = WrittenOut(net) if written_out else None
        self.orders = [BatchOrder(s.train, batch, [seed]) for s, seed in zip(splits, seeds, strict=True)]
        self.active = list(range(len(self.splits)))
        self.steps = 0
        self.evaluation_nodes = evaluation_nodes
        self._validation: list[Batch] | None = None
        # Of the next steps, the nearest last: batches that were gathered already, and after them plans of more.
        self._gathered: list[Batch] = []
        self._planned: list[list[BatchPlan]] = []
        self._pass_back: Callable[[float], Gradients] | None = None  # from the weight of the last step's loss

    @staticmethod
    def loss(batch: Batch, y: Tensor) -> Tensor:
        """The cross entropy of every graph [R, B]."""
        logits = batch.per_graph(y).flatten(0, 1)
        return nn.functional.cross_entropy(logits, batch.y.flatten(), reduction="none").view(batch.y.shape)

    @staticmethod
    def loss_gradient(batch: Batch, y: Tensor) -> Tensor:
        """The gradient of every graph's :meth:`loss` with respect to its logits [R, B, C]."""
        number = batch.y.unsqueeze(-1)
        return (
            batch.per_graph(y).softmax(-1).scatter_add_(-1, number, y.new_full((), -1.0).expand(number.shape))
        )

    def plan(self, graphs: NDArray[np.int64]) -> list[list[BatchPlan]]:
        """Plans of batches, [T, R, B] graph numbers; for each batch one plan per level of the hierarchy."""
        if self.hierarchy is not None:
            return self.hierarchy.plan(self.store, graphs)
        return [[plan] for plan in self.store.plan(graphs)]

    def gather(self, planned: Sequence[Sequence[BatchPlan]], full: bool = False) -> list[Batch]:
        """Batches by their plans, all at once; `full`: no place is empty."""
        store, batches = self.store, []
        for finest, plans in zip(store.gather(*(plans[0] for plans in planned)), planned, strict=True):
            selections = None if self.hierarchy is None else self.hierarchy.selections(finest, plans[1:])
            weight = None if full else (finest.chosen >= 0).to(store.dtype)
            y = store.y[finest.chosen]
            batches.append(Batch(finest.look_up(store.x), finest.op, selections, y, weight))
        return batches

    def _next(self) -> Batch:
        """The batch of the next step."""
        if not self._gathered and not self._planned:
            ahead = range(self.steps, self.steps + _AHEAD)
            graphs = np.stack([[self.orders[r](t) for r in self.active] for t in ahead])
            self._planned = self.plan(graphs)[::-1]
        if not self._gathered:
            count = 1
            if self.hierarchy is None and self.store.device.type == "cpu":
                # Calls cost more there than what they do for small graphs: several batches are gathered at once.
                (nearest,) = self._planned[-1]
                count = max(1, _GATHERED // (nearest.entries + nearest.rows * len(self.active)))
            self._planned, now = self._planned[:-count], self._planned[-count:]
            self._gathered = self.gather(now[::-1], full=True)[::-1]
        self.steps += 1
        return self._gathered.pop()

    def forward(self, batch: Batch) -> tuple[Levels, Tensor]:
        """What the network says, and the cross entropy of every graph [R, B]."""
        out = self.net.levels(batch.x, batch.op, selections=batch.selections)
        return out, self.loss(batch, out.y)

    def losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Logits [R, B, C], the cross entropy of every graph, and with it the sum of its poolers' losses [R, B].

        Autograd sees nothing of a network that is written out (see :meth:`backward`).
        """
        if self.written_out is not None:
            y, auxiliary, _ = self.written_out.predict(batch.x, batch.op)
        else:
            y, pooled = self.net.levels(batch.x, batch.op, selections=batch.selections)
            losses = [value for each in pooled for value in each.graph_losses.values()]
            auxiliary = sum(losses[1:], losses[0]) if losses else y.new_zeros(len(y))
        task = self.loss(batch, y)
        return batch.per_graph(y), task, task + batch.per_graph(auxiliary)

    def step(self) -> Mapping[str, Tensor]:
        if self.written_out is None:
            return {"loss": self.losses(self._next())[2].mean(1), "l2": self._squares()}
        with torch.inference_mode():
            return self._written_out_step(self.written_out, self._next())

    def _squares(self) -> Tensor:
        """The sum of squares of each replica's kernels [R]."""
        return torch.cat([kernel.flatten(1) for kernel in self.kernels], dim=1).square().sum(1)

    def _written_out_step(self, net: WrittenOut, batch: Batch) -> Mapping[str, Tensor]:
        y, auxiliary, network = net.predict(batch.x, batch.op)
        loss = self.loss(batch, y) + batch.per_graph(auxiliary)
        replicas, places = batch.y.shape[:2]

        def pass_back(weight: float) -> Gradients:
            to_y, to_losses = (t.new_zeros(replicas, places + 1, *t.shape[1:]) for t in (y, auxiliary))
            torch.mul(self.loss_gradient(batch, y), weight / places, out=to_y[:, :places])
            to_losses[:, :places] = weight / places  # not the padding graphs
            return network(to_y, to_losses.view(-1))

        self._pass_back = pass_back
        return {"loss": loss.mean(1), "l2": self._squares()}

    def backward(self, total: Tensor, weights: Mapping[str, float]) -> None:
        if self._pass_back is None:
            return super().backward(total, weights)
        with torch.inference_mode():
            gradients, self._pass_back = self._pass_back(weights.get("loss", 0.0)), None
            of_kernels = [gradients[kernel] for kernel in self.kernels]
            add_multiples(of_kernels, self.kernels, 2 * weights.get("l2", 0.0))
            for p, gradient in gradients.items():
                p.grad = gradient

    def select(self, active: Tensor) -> None:
        self.active = active.tolist()
        self._validation, self._planned, self._gathered = None, [], []

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.steps, self._planned, self._gathered = int(state["steps"]), [], []

    def batches(self, parts: Sequence[NDArray[np.int64]]) -> list[Batch]:
        """The graphs of every active replica in pieces of a limited number of nodes."""
        table = np.full((len(parts), max(len(part) for part in parts)), -1)
        for row, part in zip(table, parts, strict=True):
            row[: len(part)] = part
        pieces = max(1, -(-int(self.store.counts[table].sum()) // self.evaluation_nodes))
        split = [piece for piece in np.array_split(table, pieces, axis=1) if piece.size]
        return [self.gather(self.plan(piece[None]), full=bool((piece >= 0).all()))[0] for piece in split]

    @torch.no_grad()
    def validate(self) -> Mapping[str, Tensor]:
        """Loss with auxiliary ones, cross entropy, accuracy and error on each active replica's validation set."""
        if self._validation is None:
            self._validation = self.batches([self.splits[r].validation for r in self.active])
        return _means(self._validation, self._validated)

    def _validated(self, batch: Batch) -> dict[str, Tensor]:
        y, task, loss = self.losses(batch)
        hits = _hits(batch, y)
        return {"loss": loss, "task": task, "accuracy": hits, "error": 1 - hits}

    @torch.no_grad()
    def evaluate(self, part: str = "test") -> dict[str, Tensor]:
        """Accuracy, losses, and the poolers' losses and used clusters on each active replica's graphs.

        The poolers' own losses are those before their weights, so that they can be read where a weight is 0.
        """

        def measured(batch: Batch) -> dict[str, Tensor]:
            out, task = self.forward(batch)
            values = {"accuracy": _hits(batch, batch.per_graph(out.y)), "loss": task, "task": task}
            for level, pooled in enumerate(out.pooled, start=1):
                for name, value in pooled.raw_losses.items():
                    values[f"{name}{level}"] = batch.per_graph(value)
                    values["loss"] = values["loss"] + batch.per_graph(pooled.graph_losses[name])
                if isinstance(pooled.selection, DenseSelection):
                    values[f"clusters{level}"] = batch.per_graph(_clusters_used(pooled.selection))
            return values

        return _means(self.batches([getattr(self.splits[r], part) for r in self.active]), measured)

    def predict(self, graphs: NDArray[np.int64]) -> Tensor:
        """Logits, or numbers, of the same graphs by every active replica: [R, G, C]."""
        return self.outputs([graphs] * len(self.active))

    @torch.no_grad()
    def outputs(self, parts: Sequence[NDArray[np.int64]]) -> Tensor:
        """What every active replica says of graphs of its own [R, G, C]; G is the most that one has."""
        batches = self.batches(parts)
        outputs = [self.net.levels(batch.x, batch.op, selections=batch.selections).y for batch in batches]
        return torch.cat([batch.per_graph(y) for batch, y in zip(batches, outputs, strict=True)], dim=1)


class NumbersTask(FoldTask):
    """The same with numbers to predict, several for each graph: the loss is their mean squared error."""

    @staticmethod
    def loss(batch: Batch, y: Tensor) -> Tensor:
        """The mean squared error of every graph [R, B]."""
        return (batch.per_graph(y) - batch.y).square().mean(-1)

    @staticmethod
    def loss_gradient(batch: Batch, y: Tensor) -> Tensor:
        return (batch.per_graph(y) - batch.y).mul_(2 / y.shape[-1])

    def _validated(self, batch: Batch) -> dict[str, Tensor]:
        _, task, loss = self.losses(batch)
        return {"loss": loss, "task": task}


def _hits(batch: Batch, logits: Tensor) -> Tensor:
    return (logits.argmax(-1) == batch.y).to(logits.dtype)


def _means(batches: Sequence[Batch], values_of: Callable[[Batch], Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Each replica's means [R] over its graphs in all batches, of values [R, B]."""
    total: dict[str, Tensor] = {}
    for batch in batches:
        values = values_of(batch)
        weight = torch.ones_like(values["task"]) if batch.weight is None else batch.weight
        for name, value in {**values, "count": torch.ones_like(weight)}.items():
            new = (value * weight).double().sum(1)
            total[name] = total[name] + new if name in total else new
    count = total.pop("count").clamp(min=1)
    return {name: value / count for name, value in total.items()}


def _clusters_used(selection: DenseSelection) -> Tensor:
    """How many clusters are the first choice of at least one node, per graph."""
    s, layout = selection.s, selection.layout
    choice = s.argmax(-1)
    used = s.new_zeros(layout.num_graphs, s.shape[-1])
    if isinstance(layout, Segments):
        used[layout.batch, choice] = 1.0
    else:
        used.scatter_(1, choice, 1.0)
    return used.sum(1)
