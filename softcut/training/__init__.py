"""Training: one loop for everything that is trained, with replicas side by side.

:class:`Loop` trains any :class:`Task`; :func:`train` is the loop for clustering networks.
"""

from softcut.training.dense_batches import DenseBatchTask
from softcut.training.loop import Loop, repeat
from softcut.training.mincut import TrainSettings, replica_losses, train
from softcut.training.minibatch import assign_in_chunks, train_in_batches
from softcut.training.net import ConvInput, DenseInput, ReplicaNet, replica_seeds
from softcut.training.parts import PartedOperator, Parts
from softcut.training.task import (
    Checkpoint,
    LoopProgress,
    LoopResult,
    LoopSettings,
    Patience,
    Plateau,
    Progress,
    Task,
    TrainResult,
)

__all__ = [
    "Checkpoint",
    "ConvInput",
    "DenseBatchTask",
    "DenseInput",
    "Loop",
    "LoopProgress",
    "LoopResult",
    "LoopSettings",
    "PartedOperator",
    "Parts",
    "Patience",
    "Plateau",
    "Progress",
    "ReplicaNet",
    "Task",
    "TrainResult",
    "TrainSettings",
    "assign_in_chunks",
    "repeat",
    "replica_losses",
    "replica_seeds",
    "train",
    "train_in_batches",
]
