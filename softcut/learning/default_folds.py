"""Folds of a data set by the default of GraphClassification, all networks of all folds side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from softcut.device import threads_for
from softcut.errors import ParameterError
from softcut.graph.collection import GraphCollection, Split, folds, hold_out
from softcut.learning.experiment import ClassifierSettings, build_task, loop_settings, numbers_of_step
from softcut.learning.graph_estimator import MOST_DEGREE, PRESETS
from softcut.learning.structure_features import NodeInputs
from softcut.learning.subtrees import SubtreeClassifier, best_share, describe_graphs, features_are_labels
from softcut.training import Checkpoint, Loop, LoopProgress, LoopResult

MEMBERS = int(PRESETS["default"]["n_init"])  # networks of a fold
_VALIDATION = 0.1


def default_settings() -> ClassifierSettings:
    """The settings of the default network on data sets of the size of table 2's.

    >>> default_settings().hidden
    64
    """
    preset = PRESETS["default"]
    return ClassifierSettings(
        lr=preset["learning_rate"],
        epochs=preset["max_iter"],
        patience=preset["patience"],
        l2=preset["l2"],
        hidden=preset["hidden"],
        levels=preset["levels"],
    )


@dataclass(frozen=True)
class DefaultFold:
    """What one fold came to: members are networks with their models of subtrees."""

    fold: int
    accuracy: float  # share of the test graphs that the mean of all members classified correctly
    best_epoch: float  # mean over the networks, as the next three
    epochs: float
    validation_loss: float  # of the networks alone
    validation_accuracy: (
        float  # of a network and its model of subtrees, on the graphs that stopped the network
    )
    subtree_share: float


def train_default_folds(
    graphs: GraphCollection,
    numbers: Sequence[int] = range(10),
    seed: int = 0,
    settings: ClassifierSettings | None = None,
    *,
    members: int = MEMBERS,
    coefficients: NDArray[np.float32] | None = None,
    device: torch.device | str = "cpu",
    callback: Callable[[LoopProgress], None] | None = None,
    checkpoint: str | Path | None = None,
    time_limit: float | None = None,
) -> tuple[list[DefaultFold], LoopResult]:
    """Train some of ten folds and test each one; what a fold is not tested on is its training part.

    The same as a ``GraphClassification`` fitted to each training part, but for the scale of node features, which is
    that of all graphs, and the random numbers. `graphs` are without structural features; `coefficients` are their
    clustering coefficients, where they are known. For `checkpoint` and `time_limit` see
    :func:`softcut.learning.train_folds`.
    """
    settings, y = default_settings() if settings is None else settings, graphs.y
    if y is None:
        raise ParameterError("graphs must have classes y.", argument="graphs")
    given = graphs.num_features > 0
    inputs = NodeInputs.fit(
        graphs, given=given, structure=not given, scaled=True, most=MOST_DEGREE, coefficients=coefficients
    )
    read, parts = inputs.transform(graphs, coefficients), folds(graphs, 10, seed)
    splits = []
    for number in numbers:
        rest = np.sort(np.concatenate([parts[number].train, parts[number].validation]))
        for i in range(members):
            train, stop, _ = hold_out(y[rest], _VALIDATION, [seed, number, i])
            splits.append(Split(rest[train], rest[stop], parts[number].test))
    seeds = [1000 * seed + members * number + i for number in numbers for i in range(members)]
    task = build_task(read, "default", splits, seeds, settings, device)
    loop = loop_settings(splits, settings)
    identity = {"dataset": graphs.name, "method": "default", "folds": list(numbers), "seed": seed}
    saved = None if checkpoint is None else Checkpoint(checkpoint, {**identity, "members": members})
    with threads_for(len(splits) * numbers_of_step(read, settings), task.store.device):
        result = Loop(task, loop).run(callback, saved, time_limit)
    stopped = result.timed_out or result.interrupted
    best, ran = result.best_iteration, result.ran
    if (stopped and checkpoint is not None) or result.best_loss is None or best is None or ran is None:
        return [], result

    columns = describe_graphs(graphs, given and features_are_labels(graphs))
    classes = len(graphs.classes)

    def chances(part: str) -> list[NDArray[np.float64]]:
        """Probabilities by every network of its own graphs."""
        places = [getattr(split, part) for split in splits]
        rows = task.outputs(places).softmax(-1).double().cpu().numpy()
        return [row[: len(place)] for row, place in zip(rows, places, strict=True)]

    models = [SubtreeClassifier.fit(columns[split.train], y[split.train], classes) for split in splits]
    held, tested = chances("validation"), chances("test")
    said = [model.predict(columns[split.validation]) for model, split in zip(models, splits, strict=True)]
    results = []
    for place, number in enumerate(numbers):
        own = range(place * members, (place + 1) * members)
        truth = [y[splits[i].validation] for i in own]
        share = best_share([held[i] for i in own], [said[i] for i in own], truth)
        mixed = [((1 - share) * held[i] + share * said[i]).argmax(1) for i in own]
        hits = np.concatenate(mixed) == np.concatenate(truth)
        test = parts[number].test
        votes = sum((1 - share) * tested[i] + share * models[i].predict(columns[test]) for i in own)
        results.append(
            DefaultFold(
                fold=int(number),
                accuracy=float((np.asarray(votes).argmax(1) == y[test]).mean()),
                best_epoch=float(best[list(own)].mean() / loop.check_every),
                epochs=float(ran[list(own)].mean() / loop.check_every),
                validation_loss=float(result.best_loss[list(own)].mean()),
                validation_accuracy=float(hits.mean()),
                subtree_share=share,
            )
        )
    return results, result
