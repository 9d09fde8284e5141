"""Folds of a data set trained side by side: settings, the models, the loop, and one result per fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection, Split, folds
from softcut.learning.fold_task import FoldTask
from softcut.learning.hierarchy import HIERARCHIES, Hierarchy, HierarchyStore, coarsen_collection
from softcut.learning.replica_net import replica_net
from softcut.learning.store import GraphStore
from softcut.nn.models import GraphClassifier
from softcut.training import Checkpoint, Loop, LoopProgress, LoopResult, LoopSettings, Patience

_POOLERS = ("mincut", "diffpool", "topk", "sagpool", "graclus", "ndp", "nopool")
# Names of methods to poolers. "dense" is the network without a pooler on graphs without edges.
METHODS = {name: name for name in (*_POOLERS, "dense", "random", "dmon", "justbalance")} | {"dense": "nopool"}
_STOP_ON = ("loss", "task", "error")


@dataclass(frozen=True)
class ClassifierSettings:
    """How a classifier is trained; the defaults are the paper's, but for the batch.

    Attributes
    ----------
    batch : int
        Graphs of each fold in a step (the paper's code: 8, and 1 for the dense poolers).
    lr, l2 : float
        Adam's step size; weight of the sum of squares of the kernels of message passing and poolers.
    epochs, patience : int
        At most so many epochs; stop after so many without a better value of `stop_on`.
    hidden, levels : int
        Width of every layer; poolers in a row, each of which halves the number of nodes.
    k : tuple of int or None
        Clusters at each level, for the poolers with a fixed number; None: from the mean number of nodes, see
        :func:`cluster_sizes`.
    pool_args : mapping
        Further options of the poolers.
    stop_on : {"loss", "task", "error"}
        What decides the best epoch on the validation graphs: the loss with the auxiliary ones (the paper's), the
        cross entropy alone, or the share of wrong classes.
    """

    batch: int = 32
    lr: float = 5e-4
    epochs: int = 500
    patience: int = 50
    l2: float = 1e-4
    hidden: int = 32
    levels: int = 2
    k: tuple[int, ...] | None = None
    pool_args: Mapping[str, Any] = field(default_factory=dict)
    stop_on: str = "loss"

    def __post_init__(self) -> None:
        if self.stop_on not in _STOP_ON:
            raise ParameterError(f"stop_on must be one of {', '.join(_STOP_ON)}, not {self.stop_on!r}.")
        for name in ("batch", "lr", "epochs", "patience", "hidden", "levels"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, not {getattr(self, name)}.")
        if self.l2 < 0:
            raise ParameterError(f"l2 must not be negative, not {self.l2}.")


@dataclass(frozen=True)
class FoldResult:
    """What one fold came to, measured on its test graphs with the parameters of its best epoch.

    Attributes
    ----------
    fold : int
        Its number.
    accuracy : float
        Share of the test graphs that were classified correctly.
    best_epoch, epochs : int
        When the watched validation loss was lowest, and how many epochs were run.
    validation_loss, validation_task, validation_accuracy : float
        At the best epoch: the watched loss, the cross entropy, and the share classified correctly.
    details : dict
        Test loss, the poolers' losses and the clusters used at each level.
    """

    fold: int
    accuracy: float
    best_epoch: int
    epochs: int
    validation_loss: float
    validation_task: float
    validation_accuracy: float
    details: dict[str, float]


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
    k = (settings.k or cluster_sizes(graphs, settings.levels))[0]
    each = settings.batch * float(graphs.sizes.mean()) * max(k, settings.hidden)
    return max(1, int(_CPU_ENTRIES // each))


def build_models(
    features: int,
    classes: int,
    method: str,
    k: Sequence[int],
    seeds: Sequence[int],
    settings: ClassifierSettings,
) -> list[GraphClassifier]:
    """One model per seed, with the weights that this seed draws."""
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}.")
    options: dict[str, Any] = {"levels": settings.levels, "hidden": settings.hidden, "pool": METHODS[method]}
    options |= {"k": tuple(k), "pool_args": settings.pool_args}
    models = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            models.append(GraphClassifier(features, max(classes, 2), **options))
    return models


def build_task(
    graphs: GraphCollection,
    method: str,
    splits: Sequence[Split],
    seeds: Sequence[int],
    settings: ClassifierSettings,
    device: torch.device | str = "cpu",
    hierarchy: Hierarchy | None = None,
) -> FoldTask:
    """Models, graphs and order of training for some folds, on a device."""
    k = cluster_sizes(graphs, settings.levels) if settings.k is None else settings.k
    models = build_models(graphs.num_features, len(graphs.classes), method, k, seeds, settings)
    one_hot = graphs.index.shape[1]
    net = replica_net(models, one_hot, one_hot + graphs.value.shape[1]).to(device)
    return task_of(net, graphs, method, splits, seeds, settings, device, hierarchy)


def task_of(
    net: GraphClassifier,
    graphs: GraphCollection,
    method: str,
    splits: Sequence[Split],
    seeds: Sequence[int],
    settings: ClassifierSettings,
    device: torch.device | str,
    hierarchy: Hierarchy | None = None,
) -> FoldTask:
    """The task of a network that is on the device already."""
    store = GraphStore(graphs.without_edges() if method == "dense" else graphs, torch.device(device))
    levels = None
    if METHODS[method] in HIERARCHIES:
        if hierarchy is None:
            hierarchy = coarsen_collection(graphs, METHODS[method], settings.levels)
        levels = HierarchyStore(hierarchy, graphs, store.device, store.dtype)
    nodes = 1_000_000 if store.device.type == "cuda" else 100_000  # of one piece of an evaluation
    return FoldTask(net, store, splits, seeds, settings.batch, levels, nodes)


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
    numbers, count : sequence of int, int
        Which folds to train, of how many the data are cut into.
    seed : int
        Of the folds; the weights and order of fold i have the seed ``1000 * seed + i``.
    settings : ClassifierSettings, optional
        The paper's by default.
    hierarchy : Hierarchy, optional
        Precomputed coarse graphs, for Graclus and NDP.
    callback : callable, optional
        Called once per epoch.
    checkpoint : path, optional
        File to save the training to about once a minute and to resume it from; the caller removes it.
    time_limit : float, optional
        Seconds after which to stop. With a checkpoint there are then no results yet: the same call goes on from it.
        Without one they are those of the best epochs so far.

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
    result = Loop(task, loop).run(callback, saved, time_limit)
    stopped = result.timed_out or result.interrupted
    if (stopped and checkpoint is not None) or result.best_loss is None:
        return [], result
    measured = {name: value.cpu().numpy() for name, value in task.evaluate().items()}
    assert result.best_iteration is not None
    assert result.ran is not None
    best_epochs, epochs = (
        np.round(n / loop.check_every).astype(int) for n in (result.best_iteration, result.ran)
    )
    results = []
    for i, (number, best) in enumerate(zip(numbers, best_epochs.tolist(), strict=True)):
        results.append(
            FoldResult(
                fold=int(number),
                accuracy=float(measured["accuracy"][i]),
                best_epoch=best,
                epochs=int(epochs[i]),
                validation_loss=float(result.best_loss[i]),
                validation_task=float(result.validation["task"][best - 1, i]),
                validation_accuracy=float(result.validation["accuracy"][best - 1, i]),
                details={name: float(value[i]) for name, value in measured.items() if name != "accuracy"},
            )
        )
    return results, result
