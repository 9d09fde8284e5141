"""The clustering of a graph in parts, one process per part: the same recipe, from the same functions.

    softcut partition GRAPH --features X --parts 4 --out PARTS
    torchrun --nproc-per-node 4 -m softcut.clustering.distributed PARTS -k 16

Each process opens one part, keeps its rows of the graph, of the features and of S, and exchanges the rows of its halo
in each product (:class:`softcut.ops.halo.Halo`). Samples of nodes, the sums of the loss and the gradients are added up
over all processes, so every process makes the same step as a single process with the whole graph would: parameters
agree up to rounding. See docs/distributed.md for what a step costs.
"""

from softcut.clustering.distributed.group import JobError, JobGroup, ProcessError, process_group
from softcut.clustering.distributed.job import DistributedSettings, train_part
from softcut.clustering.distributed.part import partition

__all__ = [
    "DistributedSettings",
    "JobError",
    "JobGroup",
    "ProcessError",
    "partition",
    "process_group",
    "train_part",
]
