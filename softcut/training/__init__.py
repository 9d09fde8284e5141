"""Training: replicas of a clustering network in one pass."""

from softcut.training.cuda_graph import repeat
from softcut.training.inputs import ConvInput, DenseInput, FirstLayer
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
    "ConvInput",
    "DenseInput",
    "FirstLayer",
    "Progress",
    "ReplicaNet",
    "TrainResult",
    "TrainSettings",
    "repeat",
    "replica_losses",
    "replica_seeds",
    "train",
]
