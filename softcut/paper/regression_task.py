"""How the networks of table 3 are trained: settings, folds, standardised targets, the task for the training loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold

from softcut.datasets.qm9 import Molecules
from softcut.errors import ParameterError
from softcut.graph.splits import Split, hold_out
from softcut.paper.regression_net import padded_inputs, regressor, squared_error
from softcut.paper.supervised import Pair
from softcut.paper.table3 import FOLDS, PROPERTIES
from softcut.training import DenseBatchTask, LoopSettings

__all__ = [
    "QUICK",
    "VALIDATION",
    "RegressionSettings",
    "build_task",
    "folds_of",
    "label_of",
    "loop_settings",
    "table_of",
]

VALIDATION = 0.1  # share of each training part


# Also part of what runs are known by; trials with other values are in results/.
_FIXED: Mapping[str, Any] = {"bond_orders": False, "readout": "mean"}
_ORDER = ("batch", "lr", "epochs", "hidden", "k", *_FIXED, "unmasked", "molecules", "pool_args")


@dataclass(frozen=True)
class RegressionSettings:
    """How a regressor is trained; the defaults are the paper's.

    >>> RegressionSettings().epochs
    50

    Attributes
    ----------
    batch : int
        Molecules of each replica in a step.
    lr : float
        Adam's step size.
    epochs : int
        All of them are run; the test error is taken at the one with the lowest validation error.
    hidden : int
        Width of every layer.
    k : int
        Clusters (half of the mean number of heavy atoms, rounded up to 9, is 4).
    unmasked : bool
        Padding counts as atoms: every molecule is a graph of 9 nodes, some of them isolated and without features. They
        pass through biases, poolers and readout as the others do.
    molecules : int or None
        Use a random choice of so many; None: all 130,831.
    pool_args : mapping
        Further options of the poolers.
    """

    batch: int = 32
    lr: float = 5e-4
    epochs: int = 50
    hidden: int = 32
    k: int = 4
    unmasked: bool = False
    molecules: int | None = None
    pool_args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("batch", "lr", "epochs", "hidden", "k"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive, got {getattr(self, name)}.")
        if self.molecules is not None and self.molecules < 10 * FOLDS:
            raise ParameterError(f"molecules must be at least {10 * FOLDS}, got {self.molecules}.")

    @property
    def known(self) -> dict[str, Any]:
        """What a run is known by, besides its folds and seed."""
        return {**asdict(self), "pool_args": dict(self.pool_args), **_FIXED}

    def changed(self) -> dict[str, Any]:
        """What differs from the paper's settings.

        >>> RegressionSettings(k=3).changed()
        {'k': 3}
        """
        return _changed(self.known)


QUICK: Mapping[str, Any] = {"molecules": 2000, "epochs": 10}  # a trial on a CPU: minutes, not the table


def _changed(known: Mapping[str, Any]) -> dict[str, Any]:
    default = RegressionSettings().known
    return {name: known[name] for name in _ORDER if known.get(name, default[name]) != default[name]}


def table_of(settings: RegressionSettings) -> str:
    """The name of the files for cells and runs: trials with other settings stand in files of their own."""
    return "table3_trials" if settings.changed() else "table3"


def label_of(method: str, known: Mapping[str, Any]) -> str:
    """The method's name, and in brackets what differs from the paper's settings in those that a run is known by.

    >>> label_of("mincut", {"k": 4}), label_of("mincut", {"k": 5, "unmasked": True, "pool_args": {"hidden": 8}})
    ('mincut', 'mincut (k 5, unmasked, pool hidden 8)')
    """
    parts = []
    for name, value in _changed(known).items():
        pairs = {f"pool {n}": v for n, v in value.items()} if name == "pool_args" else {name: value}
        parts += [n.replace("_", " ") + ("" if v is True else f" {v}") for n, v in pairs.items()]
    return f"{method} ({', '.join(parts)})" if parts else method


def folds_of(count: int, seed: int = 0) -> list[Split]:
    """Ten shuffled folds of so many molecules; a tenth of each training part is for validation."""
    parts = []
    every = KFold(FOLDS, shuffle=True, random_state=seed).split(np.arange(count))
    for number, (rest, test) in enumerate(every):
        own = hold_out(np.zeros(len(rest), np.int64), VALIDATION, seed=1000 * seed + number)
        parts.append(Split(rest[own.train], rest[own.validation], test))
    return parts


def _seed(pair: Pair, seed: int) -> int:
    """Of a replica's weights and order: another one for every property and fold."""
    name, fold = pair
    return 1000 * seed + 100 * PROPERTIES.index(name) + fold


def build_task(
    molecules: Molecules,
    method: str,
    pairs: Sequence[Pair],
    settings: RegressionSettings,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    compiled: bool = False,
) -> DenseBatchTask:
    """Models, molecules on the device, standardised targets and orders for some properties and folds.

    Targets are standardised by the mean and standard deviation of each replica's own training molecules.
    """
    device = torch.device(device)
    adjacency, mask = molecules.dense_adjacency()
    given = (molecules.dense_features(), adjacency, np.ones_like(mask) if settings.unmasked else mask)
    x, adjacency_, mask_ = (torch.from_numpy(array).to(device, dtype) for array in given)
    parts = folds_of(len(molecules), seed)
    targets = torch.empty(len(pairs), len(molecules), dtype=dtype)
    for row, (name, fold) in enumerate(pairs):
        values = molecules.targets[:, PROPERTIES.index(name)].astype(np.float64)
        train = values[parts[fold].train]
        targets[row] = torch.from_numpy((values - train.mean()) / train.std())
    options = (settings.hidden, settings.k, settings.pool_args)
    models = [regressor(method, x.shape[-1], _seed(pair, seed), *options).to(dtype) for pair in pairs]
    return DenseBatchTask(
        models,
        padded_inputs(method, x, adjacency_, mask_),
        targets.to(device),
        [parts[fold] for _, fold in pairs],
        squared_error,
        [_seed(pair, seed) for pair in pairs],
        settings.batch,
        evaluation_batch=1024 if device.type == "cuda" else 128,
        compiled=compiled,
    )


def loop_settings(task: DenseBatchTask, settings: RegressionSettings) -> LoopSettings:
    """For the loop. The best epoch is that of the lowest validation MSE; the poolers' losses do not count in it."""
    return task.settings(settings.epochs, settings.lr, {"mse": 1.0, "auxiliary": 1.0}, watch="mse")
