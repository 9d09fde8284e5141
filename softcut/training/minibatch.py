"""Training on a part of the graph at a time: sums of the whole graph estimated from a few of its parts.

An objective is a function of a few sums T over nodes and entries of A (Tr S'AS, Tr S'DS, S'S, ...). The sums over the
parts of a step, weighted as :class:`Parts` says, are unbiased estimates of T and its gradient; T itself is followed
from step to step (:class:`RunningSums`). docs/mini-batches.md has the derivation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.ops import ClusterTables, Operator, Words
from softcut.ops.information import word_price
from softcut.ops.objectives import edge_count
from softcut.training.mincut import TrainSettings, read_operator, run_task, two_terms
from softcut.training.net import DenseInput, FirstLayer, ReplicaNet
from softcut.training.parts import PartedOperator, Parts
from softcut.training.task import Progress, Task, TrainResult

# Passes through the graph that sums are averaged over.
_PASSES = 3
# From the name of a table and its estimate to the value that is used for it.
Sums = Callable[[str, Tensor], Tensor]


class RunningSums:
    """Sums of the whole graph, followed from batch to batch, with the gradient of the newest batch.

    An estimate from one batch alone is noisy, and a running mean of estimates lags behind the parameters, which makes
    clusters swing. Here the mean is moved along: with T^(w) the estimate of this batch at parameters w,

        T = T^(w) + (1 - a) (T_before - T^(w_before))

    is as new as the parameters, and its noise is that of the mean (Cutkosky and Orabona, 2019, for gradients).
    `memory` is the number of steps that the mean is taken over.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self.seen = memory, 0
        self.means: dict[str, Tensor] = {}

    def begin(self, older: Mapping[str, Tensor]) -> None:
        """Before every step: the estimates from its batch at the parameters of the step before; none: begin anew."""
        self.seen += 1
        self._older = dict(older)

    def __call__(self, name: str, estimate: Tensor) -> Tensor:
        """The sum of the whole graph, with the gradient of `estimate`."""
        mean = new = estimate.detach()
        if self._older:
            weight = 1 / min(self.seen, self.memory)
            old = self.means[name]
            mean = (old - self._older.pop(name)).mul_(1 - weight).add_(new)
            # These sums are positive: where noise is as large as what is summed, none becomes 0 or less.
            mean = torch.maximum(mean, old.div_(2), out=mean)
        self.means[name] = mean
        return mean + (estimate - new)


@dataclass(frozen=True)
class BatchTables(ClusterTables):
    """The tables of the whole graph, estimated from the batch that `op` and `s` belong to.

    `factor` is the weight of a node, P / q.
    """

    sums: Sums = field(default=lambda name, estimate: estimate)
    factor: float = 1.0

    @property
    def edges(self) -> Tensor:
        return self.sums("edges", super().edges)

    @property
    def gram(self) -> Tensor:
        return self.sums("gram", self.factor * super().gram)

    @property
    def sizes(self) -> Tensor:
        return self.sums("sizes", self.factor * super().sizes)

    @property
    def cut_terms(self) -> tuple[Tensor, Tensor]:
        inside, volume = super().cut_terms
        return self.sums("inside", inside), self.sums("volume", volume)


class _Batch(NamedTuple):
    """Some parts of the graph on the device that computes."""

    chosen: list[int]
    inputs: DenseInput
    op: Operator
    words: list[Words]


def train_in_batches(
    net: ReplicaNet,
    inputs: FirstLayer,
    op: Operator | PartedOperator,
    parts: Parts,
    settings: TrainSettings | None = None,
    callback: Callable[[Progress], None] | None = None,
    *,
    start: Tensor | None = None,
    sizes: Tensor | None = None,
    adjacency: Operator | None = None,
    words: Sequence[Words] | None = None,
    device: torch.device | str | None = None,
) -> TrainResult:
    """As :func:`softcut.training.train`, on a few parts of the graph at every step.

    An iteration is one step on one batch. With a single part it is the same training. All replicas stop together.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> from softcut.training import DenseInput, Parts, ReplicaNet, TrainSettings, train_in_batches
    >>> ring = torch.arange(12)
    >>> edges = torch.cat([torch.stack([ring, (ring + 1) % 12]), torch.stack([(ring + 1) % 12, ring])], 1)
    >>> op = CSR.from_edge_index(edges, num_nodes=12)
    >>> net = ReplicaNet(in_channels=12, k=2, seeds=[0, 1])
    >>> parts = Parts.random(12, count=4, per_step=2, seed=0)
    >>> result = train_in_batches(net, DenseInput(torch.eye(12)), op, parts, TrainSettings(iterations=20))
    >>> result.cut.shape
    (20, 2)

    Parameters
    ----------
    net, inputs, op, settings, callback, start, sizes, adjacency
        As for :func:`softcut.training.train`; `inputs` are dense, and `op` is a single graph or, made from it already,
        what the objective reads, part by part.
    parts : Parts
        The parts, and how many of them a step takes.
    words : sequence of Words, optional
        What the evidence counts besides the edges: those of every part.
    device : torch.device, optional
        Where to compute, by default where the inputs are: batches of inputs, graphs and start are copied to it.
    """
    # Losses of batches are too noisy for replicas to stop one by one.
    settings = replace(settings or TrainSettings(), one_by_one=False)
    if settings.objective == "ratio_trace":
        raise ParameterError(
            "objective 'ratio_trace' cannot be trained in batches: it needs more than sums over nodes and edges; "
            "use 'mincut', or leave batch out.",
            argument="objective",
        )
    if not isinstance(inputs, DenseInput):
        raise ParameterError(
            "inputs must be dense features of every node for training in batches.", argument="inputs"
        )
    if isinstance(op, Operator):
        if op.num_graphs > 1:
            raise ParameterError(
                f"op holds {op.num_graphs} graphs: training in batches is for a single one.", argument="op"
            )
        read = read_operator(op, settings.objective, adjacency)
        # Degrees of a graph without weights are in single precision, unless asked for in another.
        wide = inputs.z.dtype == torch.float64
        op = PartedOperator(read, parts, read.degree_like(inputs.z.new_empty(0)) if wide else None)
    net.to(inputs.z.device if device is None else device)
    try:
        task = _BatchTask(net, inputs, op, parts, settings, start, sizes, words)
        return run_task(task, net, settings, callback, rows=parts.largest_batch, warm=start is not None)
    finally:
        net.to(inputs.z.device)


class _BatchTask(Task):
    """Steps on batches, on the device of `net`; the sums behind the objective are followed over the steps."""

    def __init__(
        self,
        net: ReplicaNet,
        inputs: DenseInput,
        op: PartedOperator,
        parts: Parts,
        settings: TrainSettings,
        start: Tensor | None,
        sizes: Tensor | None,
        words: Sequence[Words] | None,
    ) -> None:
        self.net, self.op, self.parts, self.settings = net, op, parts, settings
        self.z, self.start, self.device = inputs.z, start, net.bias.device
        self.parameters = dict(net.named_parameters())
        self.before = copy.deepcopy(net)  # with the parameters of the last step
        self.sums = RunningSums(_PASSES * parts.steps if parts.steps > 1 else 1)
        self.lengths = (parts.bounds[1:] - parts.bounds[:-1]).tolist()
        # What the tables need besides a batch: the same at every step.
        self.known: dict[str, Any] = {"target": None if sizes is None else sizes.to(self.device)}
        self.words: Sequence[Words] = []
        if settings.objective == "evidence":
            self.known["num_edges"] = float(edge_count(op.op))
        if settings.objective == "evidence" and words is not None:
            self.words = words
            counts = torch.stack([part.counts.cpu() for part in words]).sum(0).to(self.device)
            self.known["num_words"] = float(sum(part.count for part in words))
            self.known["words_price"] = word_price(net.k, counts)
        self.batches = self._batches()

    def _batches(self) -> Iterator[_Batch]:
        scales = sorted(set(self.net.scales))
        for chosen in self.parts.batches():
            z = {scale: self.parts.of(self.z[scale], chosen, self.device) for scale in scales}
            words = [self.words[p].to(self.device) for p in chosen] if self.words else []
            yield _Batch(chosen, DenseInput(z), self.op.take(chosen, self.device), words)

    def step(self) -> dict[str, Tensor]:
        batch, older = next(self.batches), dict[str, Tensor]()
        if self.sums.seen and self.sums.memory > 1:
            with torch.no_grad():
                self._losses(batch, self.before, older.setdefault)
        self.sums.begin(older)
        cut, ortho = self._losses(batch, self.net, self.sums)
        with torch.no_grad():
            for old, new in zip(self.before.parameters(), self.net.parameters(), strict=True):
                old.copy_(new)
        return {"cut": cut, "ortho": ortho}

    def _losses(self, batch: _Batch, net: ReplicaNet, sums: Sums) -> tuple[Tensor, Tensor]:
        s, factor = net.soft(batch.inputs, self.settings.temperature), self.parts.node_weight
        words: Tensor | None = None
        if batch.words:
            pieces = s.split([self.lengths[p] for p in batch.chosen])
            total = batch.words[0].table(pieces[0])
            for part, piece in zip(batch.words[1:], pieces[1:], strict=True):
                total = total + part.table(piece)  # one by one: tables of many words are large
            words = sums("words", factor * total.unsqueeze(0))
        tables = BatchTables(batch.op, s, words=words, sums=sums, factor=factor, **self.known)
        return two_terms(self.settings.objective, tables)

    def warm_up(self) -> Tensor:
        assert self.start is not None
        batch = next(self.batches)
        logits = self.net(batch.inputs)
        wanted = self.parts.of(self.start.mT, batch.chosen, logits.device).mT
        return nn.functional.cross_entropy(logits, wanted, reduction="none").mean(1)


def assign_in_chunks(
    net: ReplicaNet,
    inputs: FirstLayer,
    temperature: float = 1.0,
    rows: int = 1 << 16,
    device: torch.device | str | None = None,
) -> Tensor:
    """S of every replica, [N, R, K], where the inputs are; computed on `device`, `rows` at a time.

    >>> import torch
    >>> from softcut.training import DenseInput, ReplicaNet, assign_in_chunks
    >>> net, inputs = ReplicaNet(in_channels=3, k=2, seeds=[0]), DenseInput(torch.rand(10, 3))
    >>> bool(torch.allclose(assign_in_chunks(net, inputs, rows=4), net.assign(inputs)))
    True
    """
    if not isinstance(inputs, DenseInput):
        return net.assign(inputs, temperature)
    z = inputs.z
    where = z.device if device is None else torch.device(device)
    net = net.to(where)
    out = torch.empty(net.replicas, net.k, z.shape[1], dtype=z.dtype, device=z.device)
    for begin in range(0, z.shape[1], rows):
        part = net.assign(DenseInput(z[:, begin : begin + rows].to(where)), temperature)
        out[:, :, begin : begin + rows] = part.permute(1, 2, 0).to(z.device)
    net.to(z.device)
    return out.permute(2, 0, 1)
