"""Exact training of a clustering network on a graph in parts, one process per part.

    softcut partition GRAPH --features X --parts 4 --out PARTS
    torchrun --nproc-per-node 4 -m softcut.training.distributed PARTS -k 16

Each process opens one part, keeps its rows of the graph, of the features and of S, and exchanges the rows of its halo
in each product (:class:`softcut.ops.halo.Halo`). The sums of the loss and the gradients are added up over all
processes, so every process makes the same step as a single process with the whole graph would: parameters agree
up to rounding. See docs/distributed.md for what a step costs.
"""

from softcut.training.distributed.group import JobError, JobGroup, ProcessError, TorchGroup, process_group
from softcut.training.distributed.job import DistributedResult, DistributedSettings, train_part
from softcut.training.distributed.traffic import Traffic, parameter_count, step_traffic

__all__ = [
    "DistributedResult",
    "DistributedSettings",
    "JobError",
    "JobGroup",
    "ProcessError",
    "TorchGroup",
    "Traffic",
    "parameter_count",
    "process_group",
    "step_traffic",
    "train_part",
]
