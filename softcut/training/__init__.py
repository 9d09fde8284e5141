"""Training: replicas of a clustering network in one pass."""

from softcut.training.inputs import DenseInput, FirstLayer, SkipInput
from softcut.training.replicas import (
    Progress,
    ReplicaNet,
    TrainResult,
    TrainSettings,
    replica_losses,
    replica_seeds,
    train,
)

__all__ = [
    "DenseInput",
    "FirstLayer",
    "Progress",
    "ReplicaNet",
    "SkipInput",
    "TrainResult",
    "TrainSettings",
    "replica_losses",
    "replica_seeds",
    "train",
]
