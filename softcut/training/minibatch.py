r"""Training on a part of the graph at a time: sums of the whole graph estimated from a few of its parts.

An objective is a function f of a few sums over nodes and entries of A (Tr S'AS, Tr S'DS, S'S, ...). Its gradient
f'(T) dT needs the sums T of the whole graph, which are small and change slowly, and their gradients dT, which are
large. A step takes q of P parts at random. With T^ the sum over these parts,

    a node          times P / q
    an entry of A   times P / q where both ends are in one part, P (P - 1) / (q (q - 1)) where they are in two

is an unbiased estimate of T, and dT^ one of dT. T itself is followed from step to step (:class:`RunningSums`).
docs/mini-batches.md has the derivation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.ops import ClusterTables, Operator, Words, get_objective
from softcut.ops.information import word_price
from softcut.ops.objectives import edge_count
from softcut.training.inputs import DenseInput, FirstLayer
from softcut.training.mincut import Progress, TrainResult, TrainSettings, run_task
from softcut.training.net import ReplicaNet
from softcut.training.parts import PartedOperator, Parts
from softcut.training.task import Task

__all__ = ["BatchTables", "RunningSums", "assign_in_chunks", "train_in_batches"]

# Passes through the graph that sums are averaged over.
_PASSES = 3


class RunningSums:
    """Sums of the whole graph, followed from batch to batch, with the gradient of the newest batch.

    An estimate from one batch alone is noisy, and a running mean of estimates lags behind the parameters, which makes
    clusters swing. Here the mean is moved along: with T^(w) the estimate of this batch at parameters w,

        T = T^(w) + (1 - a) (T_before - T^(w_before))

    is as new as the parameters, and its noise is that of the mean (Cutkosky and Orabona, 2019, for gradients).

    >>> import torch
    >>> sums = RunningSums(memory=4)
    >>> sums.begin()
    >>> sums("gram", torch.tensor(2.0)).item()
    2.0
    >>> with sums.before():                              # the second batch, at the parameters of the first
    ...     _ = sums("gram", torch.tensor(5.0))
    >>> sums.begin()
    >>> new = torch.tensor(6.0, requires_grad=True)
    >>> value = sums("gram", new)                        # the mean of 2 and 5, and 1 more because parameters moved
    >>> value.backward()
    >>> value.item(), new.grad.item()
    (4.5, 1.0)

    Parameters
    ----------
    memory : int
        Steps that the mean is taken over.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self.seen = memory, 0
        self.means: dict[str, Tensor] = {}
        self.older: dict[str, Tensor] | None = None

    def begin(self) -> None:
        """Before every step."""
        self.seen += 1

    @contextmanager
    def before(self) -> Iterator[None]:
        """What is estimated in here is from the batch of the next step, at the parameters of the last one."""
        self.older = {}
        try:
            with torch.no_grad():
                yield
        finally:
            self._kept, self.older = self.older, None

    def __call__(self, name: str, estimate: Tensor) -> Tensor:
        """The sum of the whole graph, with the gradient of `estimate`."""
        new = estimate.detach()
        if self.older is not None:
            self.older[name] = new
            return new
        weight = 1 / min(self.seen, self.memory)
        mean = new
        if weight < 1:
            old = self.means[name]
            mean = (old - self._kept.pop(name)).mul_(1 - weight).add_(new)
            # These sums are positive: where noise is as large as what is summed, none becomes 0 or less.
            mean = torch.maximum(mean, old.div_(2), out=mean)
        self.means[name] = mean
        return mean + (estimate - new)


@dataclass(frozen=True)
class BatchTables(ClusterTables):
    """The tables of the whole graph, estimated from the batch that `op` and `s` belong to.

    `sums` maps the name of a table and its estimate to the value that is used; `factor` is the weight of a node, P / q.
    """

    sums: Callable[[str, Tensor], Tensor] = field(default=lambda name, estimate: estimate)
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


@dataclass(frozen=True)
class _Batch:
    """Some parts of the graph on the device that computes."""

    chosen: list[int]
    inputs: FirstLayer
    op: Operator
    words: list[Words] | None


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
    net, settings, callback
        As for :func:`softcut.training.train`.
    inputs : DenseInput
        The constant features of all nodes. They may be on another device than the one that computes, as may
        `op`, `adjacency` and `start`: a batch is copied to it.
    op : Operator or PartedOperator
        The graph whose cut is minimised: a single graph, not a batch of several. Or, made from it already, what the
        objective reads, part by part.
    parts : Parts
        The parts, and how many of them a step takes.
    start, sizes, adjacency
        As for :func:`softcut.training.train`.
    words : sequence of Words, optional
        What the evidence counts besides the edges: those of every part.
    device : torch.device, optional
        Where to compute; by default where the inputs are.
    """
    # Losses of batches are too noisy for replicas to stop one by one.
    settings = replace(settings or TrainSettings(), one_by_one=False)
    if settings.objective == "ratio_trace":
        raise ParameterError(
            "objective 'ratio_trace' cannot be trained in batches: it needs more than sums over nodes and edges; "
            "use 'mincut', or leave batch out."
        )
    if not isinstance(inputs, DenseInput):
        raise ParameterError("inputs must be dense features of every node for training in batches.")
    if isinstance(op, PartedOperator):
        parted = op
    else:
        read = _read(op, settings, adjacency)
        # Degrees of a graph without weights are in single precision, unless asked for in another.
        wide = inputs.z.dtype == torch.float64
        parted = PartedOperator(read, parts, read.degree_like(inputs.z.new_empty(0)) if wide else None)
    where = inputs.z.device if device is None else torch.device(device)
    loss = _Loss(settings.objective, sizes, words, parted.op, parts, where)
    task = _BatchTask(net.to(where), inputs, parted, parts, settings, loss, start)
    try:
        return run_task(task, net, settings, callback, rows=parts.largest_batch, warm=start is not None)
    finally:
        net.to(inputs.z.device)


def _read(op: Operator, settings: TrainSettings, adjacency: Operator | None) -> Operator:
    """What an objective reads: A~, or A as it is."""
    if op.num_graphs > 1:
        raise ParameterError(f"op holds {op.num_graphs} graphs: training in batches is for a single one.")
    if get_objective(settings.objective).normalised:
        return op.normalise()
    op = op if adjacency is None else adjacency
    op.refuse_negative()
    return op


class _Loss:
    """The two terms of an objective from a batch; the sums behind them are followed over the steps."""

    def __init__(
        self,
        name: str,
        sizes: Tensor | None,
        words: Sequence[Words] | None,
        op: Operator,
        parts: Parts,
        device: torch.device,
    ) -> None:
        self.name, self.factor = name, parts.node_weight
        self.losses, self.words = get_objective(name).losses, words
        self.target = None if sizes is None else sizes.to(device)
        self.lengths = (parts.bounds[1:] - parts.bounds[:-1]).tolist()
        self.sums = RunningSums(_PASSES * parts.steps if parts.steps > 1 else 1)
        self.evidence = name == "evidence"
        self.num_edges = float(edge_count(op)) if self.evidence else None
        self.num_words = float(sum(part.count for part in words)) if words is not None else 0.0
        self.counts = (
            None if words is None else torch.stack([p.counts.cpu() for p in words]).sum(0).to(device)
        )
        self.price: Tensor | None = None

    def __call__(self, batch: _Batch, s: Tensor) -> tuple[Tensor, Tensor]:
        if self.counts is not None and self.price is None:
            self.price = word_price(s.shape[-1], self.counts)
        tables = BatchTables(
            batch.op,
            s,
            words=self._words(batch, s),
            num_edges=self.num_edges,
            num_words=self.num_words,
            words_price=self.price,
            target=self.target,
            sums=self.sums,
            factor=self.factor,
        )
        first, *rest = (loss.mean(0) for loss in self.losses(tables))
        return first, rest[0] if rest else torch.zeros_like(first)

    def _words(self, batch: _Batch, s: Tensor) -> Tensor | None:
        if batch.words is None or not self.evidence:
            return None
        pieces = s.split([self.lengths[p] for p in batch.chosen])
        total = batch.words[0].table(pieces[0])
        for part, piece in zip(batch.words[1:], pieces[1:], strict=True):
            total = total + part.table(piece)  # one by one: tables of many words are large
        return self.sums("words", self.factor * total.unsqueeze(0))


class _BatchTask(Task):
    def __init__(
        self,
        net: ReplicaNet,
        inputs: DenseInput,
        op: PartedOperator,
        parts: Parts,
        settings: TrainSettings,
        loss: _Loss,
        start: Tensor | None,
    ) -> None:
        self.net, self.op, self.parts, self.settings, self.loss = net, op, parts, settings, loss
        self.z, self.start = inputs.z, start
        self.parameters = dict(net.named_parameters())
        self.before = copy.deepcopy(net)  # with the parameters of the last step
        self.batches = self._batches()

    def _batches(self) -> Iterator[_Batch]:
        device = self.net.bias.device
        words = self.loss.words
        for chosen in self.parts.batches():
            z = {
                scale: self.parts.of(self.z[scale], chosen, device) for scale in sorted(set(self.net.scales))
            }
            own = None if words is None else [words[p].to(device) for p in chosen]
            yield _Batch(chosen, DenseInput(z), self.op.take(chosen, device), own)

    def step(self) -> dict[str, Tensor]:
        batch, sums, temperature = next(self.batches), self.loss.sums, self.settings.temperature
        if sums.seen and sums.memory > 1:
            with sums.before():
                self.loss(batch, self.before.soft(batch.inputs, temperature))
        sums.begin()
        cut, ortho = self.loss(batch, self.net.soft(batch.inputs, temperature))
        with torch.no_grad():
            for old, new in zip(self.before.parameters(), self.net.parameters(), strict=True):
                old.copy_(new)
        return {"cut": cut, "ortho": ortho}

    def warm_up(self) -> Tensor:
        assert self.start is not None
        batch = next(self.batches)
        logits = self.net(batch.inputs)
        wanted = self.parts.of(self.start.mT, batch.chosen, logits.device).mT
        return nn.functional.cross_entropy(logits, wanted, reduction="none").mean(1)


@torch.no_grad()
def assign_in_chunks(
    net: ReplicaNet,
    inputs: FirstLayer,
    temperature: float = 1.0,
    rows: int = 1 << 16,
    device: torch.device | str | None = None,
) -> Tensor:
    """S of every replica, [N, R, K], where the inputs are; so many rows at a time are computed on `device`.

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
