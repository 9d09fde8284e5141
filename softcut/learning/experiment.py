"""Folds of a data set trained side by side: settings, the models, the loop, and one result per fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from softcut.device import threads_for
from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection, Split, folds
from softcut.learning.fold_task import FoldTask, NumbersTask
from softcut.learning.hierarchy import HIERARCHIES, Hierarchy, HierarchyStore, coarsen_collection
from softcut.learning.replica_net import replica_net
from softcut.learning.store import GraphStore
from softcut.nn.models import GraphClassifier, ReadoutNet
from softcut.training import Checkpoint, Loop, LoopProgress, LoopResult, LoopSettings, Patience
from softcut.training.task import check_numbers

_POOLERS = ("mincut", "diffpool", "topk", "sagpool", "graclus", "ndp", "nopool")
# Names of methods to poolers. "dense" is the network without a pooler on graphs without edges; "default" is no network
# of the paper but a ReadoutNet.
METHODS = {name: name for name in (*_POOLERS, "dense", "random", "dmon", "justbalance", "default")} | {
    "dense": "nopool",
    "default": "nopool",
}
_STOP_ON = ("loss", "task", "error")


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is trained; the defaults are the paper's, but for the batch."""

    batch: int = 32  # graphs of each fold in a step (the paper's code: 8, and 1 for the dense poolers)
    lr: float = 5e-4  # Adam's step size
    epochs: int = 500  # the most
    patience: int = 50  # epochs without a better value of `stop_on`
    l2: float = 1e-4  # weight of the sum of squares of the kernels of message passing and poolers
    hidden: int = 32  # width of every layer
    levels: int = 2  # poolers in a row, each of which halves the number of nodes
    k: tuple[int, ...] | None = None  # clusters at each level; None: see `cluster_sizes`
    pool_args: Mapping[str, Any] = field(default_factory=dict)  # further options of the poolers
    # What decides the best epoch on the validation graphs: the loss with the auxiliary ones (the paper's), the cross
    # entropy alone ("task"), or the share of wrong classes ("error").
    stop_on: str = "loss"

    def __post_init__(self) -> None:
        if self.stop_on not in _STOP_ON:
            raise ParameterError(
                f"stop_on must be one of {', '.join(_STOP_ON)}, not {self.stop_on!r}.", argument="stop_on"
            )
        check_numbers(self, ("batch", "lr", "epochs", "patience", "hidden", "levels"), ("l2",))


@dataclass(frozen=True)
class FoldResult:
    """What one fold came to, measured on its test graphs with the parameters of its best epoch."""

    fold: int
    accuracy: float  # share of the test graphs that were classified correctly
    best_epoch: int  # when the watched validation loss was lowest
    epochs: int  # how many were run
    validation_loss: float  # the watched loss at the best epoch, as the next two
    validation_task: float  # cross entropy
    validation_accuracy: float
    details: dict[str, float]  # test loss, the poolers' losses and the clusters used at each level


def cluster_sizes(graphs: GraphCollection, levels: int = 2) -> tuple[int, ...]:
    """Clusters at each level: N // 2, N // 4, ... with N the mean number of nodes, rounded up.

    The mean is over all graphs of the collection, so that every fold has the same network.
    """
    n = math.ceil(graphs.sizes.mean())
    return tuple(max(1, n // 2**level) for level in range(1, levels + 1))


_CPU_ENTRIES = 2_000_000  # of one step's largest assignment matrix that a CPU's caches deal with well


def folds_at_once(
    graphs: GraphCollection, settings: ClassifierSettings, device: torch.device | str = "cpu"
) -> int | None:
    """How many folds should train side by side; None: all of them. The results do not depend on it.

    On a GPU all of them. On a CPU large graphs fill the caches, and folds are then faster in smaller groups.
    """
    if torch.device(device).type != "cpu":
        return None
    return max(1, int(_CPU_ENTRIES // largest_tensor(graphs, settings)))


def numbers_of_step(graphs: GraphCollection, settings: ClassifierSettings) -> float:
    """About how many numbers one fold's step holds: eight tensors of the size of the largest one."""
    return 8 * largest_tensor(graphs, settings)


def largest_tensor(graphs: GraphCollection, settings: ClassifierSettings) -> float:
    """How many numbers the largest tensor of one fold's step has, about."""
    k = (settings.k or cluster_sizes(graphs, settings.levels))[0]
    return settings.batch * float(graphs.sizes.mean()) * max(k, settings.hidden)


def build_models(
    features: int,
    outputs: int,
    method: str,
    k: Sequence[int],
    seeds: Sequence[int],
    settings: ClassifierSettings,
) -> list[Any]:
    """One model per seed, with the weights that this seed draws."""
    if method not in METHODS:
        raise ParameterError(
            f"method must be one of {', '.join(METHODS)}, not {method!r}.", argument="method"
        )
    options: dict[str, Any] = {"levels": settings.levels, "hidden": settings.hidden, "pool": METHODS[method]}
    options |= {"k": tuple(k), "pool_args": settings.pool_args}
    models: list[Any] = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            if method == "default":
                models.append(ReadoutNet(features, outputs, settings.hidden, settings.levels))
            else:
                models.append(GraphClassifier(features, outputs, **options))
    return models


def build_task(
    graphs: GraphCollection,
    method: str,
    splits: Sequence[Split],
    seeds: Sequence[int],
    settings: ClassifierSettings,
    device: torch.device | str = "cpu",
    hierarchy: Hierarchy | None = None,
    net: GraphClassifier | ReadoutNet | None = None,
    targets: NDArray[np.float32] | None = None,
) -> FoldTask:
    """Models (or `net`, which holds them already), graphs and order of training for some folds, on a device.

    With `targets` [G, T] numbers are learnt in place of classes.
    """
    if net is None:
        k = cluster_sizes(graphs, settings.levels) if settings.k is None else settings.k
        outputs = max(len(graphs.classes), 2) if targets is None else targets.shape[1]
        models = build_models(graphs.num_features, outputs, method, k, seeds, settings)
        one_hot = graphs.index.shape[1]
        net = replica_net(models, one_hot, one_hot + graphs.value.shape[1])
    store = GraphStore(graphs.without_edges() if method == "dense" else graphs, torch.device(device))
    levels = None
    if METHODS[method] in HIERARCHIES:
        if hierarchy is None:
            hierarchy = coarsen_collection(graphs, METHODS[method], settings.levels)
        levels = HierarchyStore(hierarchy, graphs, store.device, store.dtype)
    nodes = 1_000_000 if store.device.type == "cuda" else 100_000  # of one piece of an evaluation
    kind = FoldTask
    if targets is not None:
        kind, y = NumbersTask, np.concatenate([targets, np.zeros_like(targets[:1])])
        store.y = torch.from_numpy(y).to(store.device, store.dtype)
    return kind(net.to(device), store, splits, seeds, settings.batch, levels, nodes)


def loop_settings(splits: Sequence[Split], settings: ClassifierSettings) -> LoopSettings:
    """For the shared loop; it checks after every epoch."""
    steps = max(1, math.ceil(max(len(split.train) for split in splits) / settings.batch))
    return LoopSettings(
        iterations=steps * settings.epochs,
        lr=settings.lr,
        minimise={"loss": 1.0, "l2": settings.l2},
        check_every=steps,
        stop=Patience(patience=settings.patience, watch=settings.stop_on),
        drop_finished=True,
    )


def train_folds(
    graphs: GraphCollection,
    method: str = "mincut",
    numbers: Sequence[int] = range(10),
    seed: int = 0,
    settings: ClassifierSettings | None = None,
    *,
    count: int = 10,
    device: torch.device | str = "cpu",
    hierarchy: Hierarchy | None = None,
    callback: Callable[[LoopProgress], None] | None = None,
    checkpoint: str | Path | None = None,
    time_limit: float | None = None,
) -> tuple[list[FoldResult], LoopResult]:
    """Train some folds of a data set side by side and test each one.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> from softcut.learning import ClassifierSettings, train_folds
    >>> ring = Graph.from_edges([[0, 1, 2, 3], [1, 2, 3, 0]], x=[[1.0]] * 4)
    >>> star = Graph.from_edges([[0, 0, 0], [1, 2, 3]], x=[[1.0]] * 4)
    >>> graphs = from_graphs([ring, star] * 20, y=["ring", "star"] * 20)
    >>> results, _ = train_folds(graphs, "nopool", [0, 1], settings=ClassifierSettings(epochs=30, lr=0.01), count=4)
    >>> [result.accuracy for result in results]
    [1.0, 1.0]

    Parameters
    ----------
    graphs : GraphCollection
        With classes.
    method : str
        A pooler (mincut, diffpool, topk, sagpool, graclus, ndp, random, dmon, justbalance), nopool, or dense (no
        graph).
    numbers, count, seed : sequence of int, int, int
        Which folds to train, of how many the data are cut into, and the seed of this cut; the weights and order of
        fold i have the seed ``1000 * seed + i``.
    settings : ClassifierSettings, optional
        The paper's by default.
    hierarchy : Hierarchy, optional
        Precomputed coarse graphs, for Graclus and NDP.
    callback : callable, optional
        Called once per epoch.
    checkpoint, time_limit : path and float, optional
        File to save the training to about once a minute and to resume it from, which the caller removes; seconds after
        which to stop. With a checkpoint there are then no results yet: the same call goes on from it. Without one they
        are those of the best epochs so far.

    Returns one result per fold, and what the training loop says of all of them.
    """
    settings = ClassifierSettings() if settings is None else settings
    parts = folds(graphs, count, seed)
    chosen = [parts[number] for number in numbers]
    seeds = [1000 * seed + number for number in numbers]
    task = build_task(graphs, method, chosen, seeds, settings, device, hierarchy=hierarchy)
    loop = loop_settings(parts, settings)
    identity = {
        "dataset": graphs.name,
        "method": method,
        "folds": list(numbers),
        "seed": seed,
        "count": count,
        "batch": settings.batch,
        "pool_args": str(dict(settings.pool_args)),
    }
    saved = None if checkpoint is None else Checkpoint(checkpoint, identity)
    with threads_for(len(chosen) * numbers_of_step(graphs, settings), task.store.device):
        result = Loop(task, loop).run(callback, saved, time_limit)
    stopped = result.timed_out or result.interrupted
    if (stopped and checkpoint is not None) or result.best_loss is None:
        return [], result
    measured = {name: value.cpu().numpy() for name, value in task.evaluate().items()}
    epochs = [np.asarray(each) / loop.check_every for each in (result.best_iteration, result.ran)]
    results = []
    for i, number in enumerate(numbers):
        best, ran = (round(each[i]) for each in epochs)
        task_loss, hits = (float(result.validation[name][best - 1, i]) for name in ("task", "accuracy"))
        details = {name: float(value[i]) for name, value in measured.items()}
        accuracy, loss = details.pop("accuracy"), float(result.best_loss[i])
        results.append(FoldResult(int(number), accuracy, best, ran, loss, task_loss, hits, details))
    return results, result
