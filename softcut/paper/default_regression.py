"""The column of GraphRegression's default in table 3: one network per fold that learns all nine properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from softcut.datasets.qm9 import PROPERTIES, Molecules
from softcut.graph.collection import Split
from softcut.learning.graph_estimator import PRESETS, default_batch
from softcut.nn.models import ReadoutNet
from softcut.paper.runs import Pair
from softcut.training import DenseBatchTask, LoopResult

# What differs from an estimator: one network instead of three, and 50 epochs, as all methods of the table have.
EPOCHS = 50


def known(molecules: int) -> dict[str, Any]:
    """What a run is known by, besides its folds and seed."""
    preset = PRESETS["default"]
    return {
        "batch": default_batch(molecules),
        "lr": preset["learning_rate"],
        "epochs": EPOCHS,
        "hidden": preset["hidden"],
        "levels": preset["levels"],
        "l2": preset["l2"],
        "bond_orders": True,
        "molecules": molecules,
    }


class PaddedReadout(nn.Module):
    """A :class:`~softcut.nn.ReadoutNet` for padded graphs: ``net(x, adjacency, mask)`` gives [B, 9]."""

    def __init__(self, hidden: int, levels: int) -> None:
        super().__init__()
        self.net = ReadoutNet(4, len(PROPERTIES), hidden, levels)

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers [B, 9], and the sum of squares of the weight matrices."""
        squares = torch.stack([kernel.square().sum() for kernel in self.net.kernels()]).sum()
        return self.net(x, adjacency, mask=mask.bool()).y, squares


def squared_errors(output: tuple[Tensor, Tensor], target: Tensor) -> dict[str, Tensor]:
    """Of every molecule: the mean over the properties, each one's own, and the penalty."""
    errors = (output[0] - target).square()
    own = dict(zip(PROPERTIES, errors.unbind(-1), strict=True))
    return {"mse": errors.mean(-1), "l2": output[1].expand(len(target)), **own}


def build_task(
    molecules: Molecules, folds: Sequence[int], parts: Sequence[Split], seed: int, device: torch.device
) -> DenseBatchTask:
    """One network per fold; targets are standardised by the training molecules of each."""
    settings = known(len(molecules))
    adjacency, mask = molecules.dense_adjacency(bond_orders=True)
    inputs = [
        torch.from_numpy(each).to(device, torch.float32)
        for each in (molecules.dense_features(), adjacency, mask)
    ]
    values = molecules.targets.astype(np.float64)
    targets, models, seeds = [], [], [1000 * seed + fold for fold in folds]
    for fold, own in zip(folds, seeds, strict=True):
        train = values[parts[fold].train]
        targets.append(torch.from_numpy((values - train.mean(0)) / train.std(0)).float())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(own)
            models.append(PaddedReadout(settings["hidden"], settings["levels"]))
    return DenseBatchTask(
        models,
        inputs,
        torch.stack(targets).to(device),
        [parts[fold] for fold in folds],
        squared_errors,
        seeds,
        settings["batch"],
        evaluation_batch=4096 if device.type == "cuda" else 256,
    )


def measured(result: LoopResult, row: int, pair: Pair) -> dict[str, Any]:
    """What the network of one fold came to on one property, at the epoch with the lowest mean error of all nine."""
    name = pair[0]
    values = {key: numbers[:, row] for key, numbers in result.validation.items()}
    best = int(np.argmin(values["mse"]))
    return {
        "mse": round(float(values[f"test_{name}"][best]), 6),
        "mse_last": round(float(values[f"test_{name}"][-1]), 6),
        "best_epoch": best + 1,
        "epochs": len(values["mse"]),
        "validation_mse": round(float(values[name][best]), 6),
        "training_mse": round(float(values[f"training_{name}"][best]), 6),
    }
