"""DMoN (Tsitsulin et al., 2023) with softcut's operators: modularity instead of the normalised cut.

    L = - Tr(S' B S) / 2m  +  sqrt(K)/N ||sum_i S_i||_F - 1,   B = A - d d'/2m

on the same network as the paper's clusterer (eq. 1 and a softmax layer) with SELU and 64 hidden units, as
its authors use; B is never built, Tr(S' d d' S) = ||S' d||^2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.baselines.base import check_n_clusters
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.graph import Graph
from softcut.ops import CSR
from softcut.training import ConvInput, ReplicaNet, TrainSettings, replica_seeds, train

__all__ = ["dmon", "dmon_replicas"]


def dmon_replicas(
    graph: Graph,
    n_clusters: int,
    seeds: Sequence[int],
    *,
    max_iter: int = 1000,
    learning_rate: float = 1e-3,
    hidden: int = 64,
    device: torch.device | str = "cpu",
) -> Tensor:
    """S [N, R, K] of one DMoN clusterer per seed, trained together; Ctrl-C raises KeyboardInterrupt.

    >>> from softcut.datasets import attributed_communities
    >>> dmon_replicas(attributed_communities(60, 3, seed=0), 3, seeds=[0, 1], max_iter=5).shape
    torch.Size([60, 2, 3])
    """
    x = rows_that_sum_to_one(graph)
    op = CSR.from_graph(graph, device=device)
    inputs = ConvInput(op, x, columns=len(seeds) * hidden, device=device)
    net = ReplicaNet(x.shape[1], n_clusters, seeds, hidden=hidden, terms=2, act=torch.nn.functional.selu).to(
        device
    )
    settings = TrainSettings(iterations=max_iter, lr=learning_rate, tolerance=None, objective="dmon")
    if train(net, inputs, op, settings).interrupted:
        raise KeyboardInterrupt
    return net.assign(inputs)


def dmon(
    graph: Graph, n_clusters: int, random_state: int = 0, *, max_iter: int = 1000, learning_rate: float = 1e-3
) -> NDArray[np.int64]:
    """Cluster with DMoN's objective.

    >>> from softcut.baselines import dmon
    >>> from softcut.datasets import attributed_communities
    >>> dmon(attributed_communities(100, 2, seed=0), 2, max_iter=20).shape
    (100,)
    """
    k = check_n_clusters(graph, n_clusters)
    s = dmon_replicas(
        graph, k, replica_seeds(random_state, 1), max_iter=max_iter, learning_rate=learning_rate
    )
    return s[:, 0].argmax(-1).cpu().numpy()
