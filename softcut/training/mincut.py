"""Training a clustering network: L_c + w L_o, or another objective of the family, for all replicas in one pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softcut.device import threads_for
from softcut.errors import ParameterError
from softcut.ops import CSR, ClusterTables, Operator, Words, get_objective
from softcut.ops.information import edge_price
from softcut.ops.numerics import mean_of_graphs
from softcut.ops.objectives import edge_count, word_table
from softcut.training.evidence_step import EvidenceStep, evidence_step_of
from softcut.training.groups import groups_pay, train_in_groups
from softcut.training.loop import Loop
from softcut.training.net import DenseInput, FirstLayer, ReplicaNet, softmax_of
from softcut.training.task import (
    Checkpoint,
    LoopProgress,
    LoopSettings,
    Patience,
    Plateau,
    Progress,
    Task,
    TrainResult,
    check_numbers,
    held,
)

# From (op, S [N, R, K]) to the two terms of an objective, one number per replica each.
Loss = Callable[[Operator, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class TrainSettings:
    """How replicas are trained."""

    iterations: int = 700  # the largest number
    lr: float = 2e-3  # Adam's step size
    temperature: float = 1.0  # of the softmax
    objective: str = "mincut"  # one of softcut.ops.OBJECTIVES; see softcut.ops.objectives
    # Weight of the term that keeps clusters apart: L_o, or DMoN's collapse term. "just_balance" has none,
    # and "evidence" only where it is given sizes to hold on to (see `train`).
    ortho_weight: float = 1.0
    start: int = 40  # iterations spent on learning the given start (see `train`) before the cut is minimised
    # A replica has converged when its best loss improved by less than this over `patience` iterations; training stops
    # when all have. None: never stops early.
    tolerance: float | None = 1e-4
    patience: int = 50
    check_every: int = 25  # iterations between two checks of the tolerance (and calls of the callback)
    # Each replica stops on its own and leaves the computation, when its loss improved by less than `tolerance` times
    # itself over `patience` iterations; its parameters are those of its last improvement.
    one_by_one: bool = False

    def __post_init__(self) -> None:
        get_objective(self.objective)
        positive = ("iterations", "lr", "temperature", "patience", "check_every")
        check_numbers(self, positive, ("ortho_weight", "start"))


def replica_losses(
    op: Operator,
    s: Tensor,
    objective: str = "mincut",
    sizes: Tensor | None = None,
    *,
    words: Words | None = None,
    num_edges: Tensor | float | None = None,
    edges_price: Tensor | None = None,
    words_price: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """L_c and L_o of every replica, or the two terms of another objective: two vectors [R].

    They are means over the graphs, except the evidence: a clustering network gives the clusters of all graphs the
    same meaning, so edges and words of all of them are counted in one table. `op` is A~, or for "dmon" and "evidence" A
    itself, and S is [N, R, K]; the number of edges and the prices of both tables need not be computed where they are
    known. The rest is as for :func:`train`.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2).normalise()
    >>> cut, ortho = replica_losses(op, torch.eye(2).unsqueeze(1))
    >>> cut.tolist(), ortho.tolist()
    ([-0.0], [0.0])
    """
    known: dict[str, Any] = {}
    if objective == "evidence":
        op = _one_graph(op)
        table, count = word_table(op, s, words)
        num_edges = edge_count(op) if num_edges is None else num_edges
        known = {"words": table, "num_edges": num_edges, "num_words": count}
        known |= {"edges_price": edges_price, "words_price": words_price}
    return two_terms(objective, ClusterTables(op, s, target=sizes, **known))


def two_terms(objective: str, tables: ClusterTables) -> tuple[Tensor, Tensor]:
    """The terms of an objective, [R] each: means over the graphs. The second is 0 where it has one only."""
    first, *rest = (
        mean_of_graphs(loss, tables.op.layout.occupied) for loss in get_objective(objective).losses(tables)
    )
    return first, rest[0] if rest else torch.zeros_like(first)


def _one_graph(op: Operator) -> Operator:
    """A batch of graphs as one graph of several components."""
    if op.num_graphs == 1 or not isinstance(op, CSR):
        return op
    return CSR(op.pattern, op.val, scale=op.scale, symmetric=op.symmetric, normalised=op.normalised)


def read_operator(op: Operator, objective: str, adjacency: Operator | None) -> Operator:
    """What an objective reads: A~, or A as it is (`adjacency` in place of `op`, where it is given)."""
    if get_objective(objective).normalised:
        return op.normalise()
    op = op if adjacency is None else adjacency
    if op.normalised:
        raise ParameterError(
            f"adjacency must be the graph as it is for objective={objective!r}, which counts edges, "
            "got a normalised one.",
            argument="adjacency",
        )
    op.refuse_negative()
    return op


def train(
    net: ReplicaNet,
    inputs: FirstLayer,
    op: Operator,
    settings: TrainSettings | None = None,
    callback: Callable[[Progress], None] | None = None,
    *,
    start: Tensor | None = None,
    sizes: Tensor | None = None,
    loss: Loss | None = None,
    adjacency: Operator | None = None,
    words: Words | None = None,
) -> TrainResult:
    """Minimise L_c + w L_o, or another objective, for all replicas at once; `net` is changed in place.

    On dense graphs with weak features a random network can slide into a single cluster. With `start`, each replica
    first learns a given assignment (k-means on its own features, say) by cross-entropy, and minimises the cut from
    there. Pressing Ctrl-C, or raising KeyboardInterrupt in `callback`, ends training and keeps what was learnt.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), num_nodes=4)
    >>> net = ReplicaNet(in_channels=4, k=2, seeds=[0, 1, 2])
    >>> result = train(net, DenseInput(torch.eye(4)), op, TrainSettings(iterations=20, tolerance=None))
    >>> result.cut.shape
    (20, 3)

    Parameters
    ----------
    net, inputs : ReplicaNet, and DenseInput or ConvInput
        The replicas, and their constant features.
    op : Operator
        The graph whose cut is minimised (normalised here where the objective reads A~).
    settings, callback : TrainSettings and callable, optional
        How to train; what is called with a :class:`Progress` every ``settings.check_every`` iterations.
    start : Tensor, optional
        [R, N] cluster numbers each replica learns first, for ``settings.start`` iterations.
    sizes : Tensor, optional
        [R, K] cluster sizes for L_o to hold on to, in place of equal ones.
    loss : callable, optional
        An objective of your own: from (op, S [N, R, K]) to its two terms, [R] each; `op` is then used as it is.
    adjacency : Operator, optional
        A as it is, in place of `op`, for the objectives that count edges ("dmon" and "evidence").
    words : Words, optional
        What "evidence" counts besides the edges.
    """
    settings = settings or TrainSettings()

    def train_some(some: ReplicaNet, members: slice, tell: Callable[[Progress], None] | None) -> TrainResult:
        known = {"start": start, "sizes": sizes}
        own = {name: None if value is None else value[members] for name, value in known.items()}
        task = ClusteringTask(some, inputs, op, settings, loss=loss, adjacency=adjacency, words=words, **own)
        return run_task(task, some, settings, tell, rows=op.num_rows, warm=start is not None)

    if loss is None and groups_pay(net, op.num_rows):  # a loss of one's own may know of all replicas
        return train_in_groups(net, train_some, callback)
    return train_some(net, slice(None), callback)


def run_task(
    task: Task,
    net: ReplicaNet,
    settings: TrainSettings,
    callback: Callable[[Progress], None] | None,
    *,
    rows: int,
    warm: bool,
    checkpoint: Checkpoint | None = None,
) -> TrainResult:
    """Run the loop for a task whose steps give the losses "cut" and "ortho" of every replica of `net`.

    A step computes `rows` rows; `warm`: the task has a start to learn first.
    """
    stop: Plateau | Patience | None = None
    if settings.tolerance is not None:
        stop = Plateau(settings.tolerance, settings.patience)
        if settings.one_by_one:
            stop = Patience(settings.patience, settings.tolerance, relative=True)
    loop_settings = LoopSettings(
        iterations=settings.iterations,
        lr=settings.lr,
        minimise={"cut": 1.0, "ortho": settings.ortho_weight},
        warm_up=settings.start if warm else 0,
        check_every=settings.check_every,
        stop=stop,
        drop_finished=isinstance(stop, Patience) and (rows > _FEW_ROWS or not net.bias.is_cuda),
    )
    last = {name: np.full(net.replicas, np.nan) for name in ("cut", "ortho")}
    began = time.perf_counter()

    def tell(progress: LoopProgress) -> None:
        assert callback is not None
        for name, values in last.items():
            values[list(progress.active)] = progress.losses[name]
        cut, ortho = (values.copy() for values in last.values())
        each = (time.perf_counter() - began) / progress.iteration
        left = each * (progress.iterations - progress.iteration)
        callback(Progress(progress.iteration, progress.iterations, cut, ortho, left, progress.active, net))

    with threads_for(rows * net.replicas * (net.hidden + net.k), net.bias.device):
        result = Loop(task, loop_settings).run(None if callback is None else tell, checkpoint)
    nothing = np.zeros((0, net.replicas))
    cut, ortho = (held(result.history.get(name, nothing)) for name in ("cut", "ortho"))
    return TrainResult(cut, ortho, result.iterations, result.converged, result.interrupted)


_FEW_ROWS = (
    50_000  # with fewer, a GPU takes longer to record its step again than replicas that stopped cost it
)
_START_ROWS = 50_000  # rows of a large graph that a start is learned from


def start_rows(nodes: int) -> range:
    """The rows that a start is learned from: all, or evenly spread ones where there are many."""
    return range(0, nodes, max(1, -(-nodes // _START_ROWS)))


class ClusteringTask(Task):
    """The step of :func:`train`; its arguments are described there.

    `num_edges` is the number of edges that "evidence" counts, where it is known already.
    """

    def __init__(
        self,
        net: ReplicaNet,
        inputs: FirstLayer,
        op: Operator,
        settings: TrainSettings,
        *,
        start: Tensor | None = None,
        sizes: Tensor | None = None,
        loss: Loss | None = None,
        adjacency: Operator | None = None,
        words: Words | None = None,
        num_edges: Tensor | None = None,
    ) -> None:
        self.net, self.inputs, self.settings, self.loss = net, inputs, settings, loss
        self.start, self.start_inputs = start, inputs
        self.all_sizes = self.sizes = sizes
        self.op = op if loss is not None else read_operator(op, settings.objective, adjacency)
        self.known: dict[str, Any] = {}  # what the evidence needs and is the same in every step
        if loss is None and settings.objective == "evidence":
            self.op = _one_graph(self.op)
            edges = edge_count(self.op) if num_edges is None else num_edges
            self.known |= {"num_edges": edges, "edges_price": edge_price(net.k, edges)}
            if words is not None:
                self.known |= {"words": words, "words_price": words.price(net.k)}
        if start is not None and start.shape[1] > _START_ROWS and isinstance(inputs, DenseInput):
            self.learn_from(torch.tensor(start_rows(start.shape[1]), device=start.device))
        self.scales = list(net.scales)
        self.parameters = dict(net.named_parameters())
        self.written_out: EvidenceStep | None = None
        if self.known and settings.temperature == 1:
            self.written_out = evidence_step_of(net, inputs, self.op, self.known)
        # The solver inside the ratio-trace objective cannot be captured.
        self.capturable = settings.objective != "ratio_trace"

    def learn_from(self, rows: Tensor) -> None:
        """Learn the start from some rows only."""
        assert self.start is not None
        assert isinstance(self.inputs, DenseInput)
        self.start, self.start_inputs = self.start[:, rows], DenseInput(self.inputs.z[:, rows])

    def step(self) -> dict[str, Tensor]:
        if self.written_out is not None:
            cut, ortho = self.written_out.losses(self.sizes)
            return {"cut": cut, "ortho": ortho}
        settings = self.settings
        s = softmax_of(self.logits(self.inputs), settings.temperature)
        if self.loss is not None:
            cut, ortho = self.loss(self.op, s)
        else:
            cut, ortho = replica_losses(self.op, s, settings.objective, self.sizes, **self.known)
        return {"cut": cut, "ortho": ortho}

    def backward(self, total: Tensor, weights: Mapping[str, float]) -> None:
        if self.written_out is None:
            super().backward(total, weights)
        else:
            self.written_out.set_gradients(weights)

    def logits(self, inputs: FirstLayer) -> Tensor:
        return self.net(inputs)

    def warm_up(self) -> Tensor:
        assert self.start is not None
        logits = self.logits(self.start_inputs)
        return nn.functional.cross_entropy(logits, self.start, reduction="none").mean(1)

    def select(self, active: Tensor) -> None:
        self.net.scales = [self.scales[r] for r in active.tolist()]
        self.net.replicas = len(self.net.scales)
        self.sizes = None if self.all_sizes is None else self.all_sizes[active]
