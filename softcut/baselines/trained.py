"""Baselines that train the networks of the paper's clusterer with another objective: DiffPool and DMoN."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.baselines.scikit import check_n_clusters
from softcut.clustering.node_features import rows_that_sum_to_one
from softcut.graph import Graph
from softcut.ops import CSR, Operator, cut_terms
from softcut.ops.cut import self_gram
from softcut.training import ConvInput, Progress, ReplicaNet, TrainResult, TrainSettings, replica_seeds, train


def diffpool_losses(op: Operator, s: Tensor, squared: float) -> tuple[Tensor, Tensor]:
    """Link loss and entropy of every replica, [R] each, from S [N, R, K]; `squared` is ||A||_F^2."""
    # ||A - SS'||^2 = ||A||^2 - 2 Tr(S'AS) + ||S'S||^2: no N x N matrix.
    inside, _ = cut_terms(op, s)
    gram = self_gram(op.layout, s).square().sum((-1, -2))
    link = (squared - 2 * inside + gram)[0].clamp(min=1e-12).sqrt()
    entropy = -(s * torch.log(s + 1e-15)).sum(-1).mean(0)
    return link, entropy


def diffpool_replicas(
    graph: Graph,
    n_clusters: int,
    seeds: Sequence[int],
    *,
    x: Any = None,
    max_iter: int = 10_000,
    learning_rate: float = 5e-4,
    device: torch.device | str = "cpu",
    callback: Callable[[Progress], None] | None = None,
) -> tuple[Tensor, ConvInput, TrainResult]:
    """One DiffPool clusterer per seed, trained together by its two auxiliary losses alone (E3 of the paper).

    S = softmax(P X W + b) with P the normalised A + I; link loss ||A - S S'||_F, undivided; mean entropy of the rows
    of S. Returns S [N, R, K], the constant input (rows of X that sum to one, unless `x` is given) and the losses.
    Ctrl-C raises KeyboardInterrupt.

    >>> from softcut.datasets import attributed_communities
    >>> s, _, result = diffpool_replicas(attributed_communities(60, 3, seed=0), 3, seeds=[0, 1], max_iter=5)
    >>> s.shape, result.iterations
    (torch.Size([60, 2, 3]), 5)
    """
    x = rows_that_sum_to_one(graph) if x is None else x
    # A + I: a diagonal entry that is there already counts as the self-loop.
    looped = Graph.from_scipy(
        sp.csr_array(graph.adjacency.maximum(sp.eye_array(graph.num_nodes, format="csr"))), self_loops="keep"
    )
    op = CSR.from_graph(graph, device=device)
    inputs = ConvInput(
        CSR.from_graph(looped, device=device), x, columns=len(seeds) * n_clusters, skip=False, device=device
    )
    net = ReplicaNet(x.shape[1], n_clusters, seeds, hidden=0, terms=1).to(device)
    squared = float((graph.adjacency.data.astype(np.float64) ** 2).sum())
    settings = TrainSettings(iterations=max_iter, lr=learning_rate, tolerance=None)
    result = train(net, inputs, op, settings, callback, loss=lambda op, s: diffpool_losses(op, s, squared))
    if result.interrupted:
        raise KeyboardInterrupt
    return net.assign(inputs), inputs, result


def diffpool(
    graph: Graph,
    n_clusters: int,
    random_state: int = 0,
    *,
    max_iter: int = 10_000,
    learning_rate: float = 5e-4,
) -> NDArray[np.int64]:
    """Cluster with DiffPool's auxiliary losses.

    >>> from softcut.baselines import diffpool
    >>> from softcut.datasets import attributed_communities
    >>> diffpool(attributed_communities(100, 2, seed=0), 2, max_iter=20).shape
    (100,)
    """
    k, seeds = check_n_clusters(graph, n_clusters), replica_seeds(random_state, 1)
    s, _, _ = diffpool_replicas(graph, k, seeds, max_iter=max_iter, learning_rate=learning_rate)
    return s[:, 0].argmax(-1).cpu().numpy()


def dmon_replicas(
    graph: Graph,
    n_clusters: int,
    seeds: Sequence[int],
    *,
    x: Any = None,
    max_iter: int = 1000,
    learning_rate: float = 1e-3,
    hidden: int = 64,
    device: torch.device | str = "cpu",
) -> Tensor:
    """S [N, R, K] of one DMoN clusterer (Tsitsulin et al., 2023) per seed, trained together.

    L = - Tr(S' B S) / 2m + sqrt(K)/N ||sum_i S_i||_F - 1 with the modularity matrix B = A - d d'/2m, on the network of
    the paper's clusterer with SELU and 64 hidden units, as its authors use; it reads rows of X that sum to one, unless
    `x` is given. Ctrl-C raises KeyboardInterrupt.

    >>> from softcut.datasets import attributed_communities
    >>> dmon_replicas(attributed_communities(60, 3, seed=0), 3, seeds=[0, 1], max_iter=5).shape
    torch.Size([60, 2, 3])
    """
    x = rows_that_sum_to_one(graph) if x is None else x
    op = CSR.from_graph(graph, device=device)
    inputs = ConvInput(op, x, columns=len(seeds) * hidden, device=device)
    selu = torch.nn.functional.selu
    net = ReplicaNet(x.shape[1], n_clusters, seeds, hidden=hidden, terms=2, act=selu).to(device)
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
    k, seeds = check_n_clusters(graph, n_clusters), replica_seeds(random_state, 1)
    s = dmon_replicas(graph, k, seeds, max_iter=max_iter, learning_rate=learning_rate)
    return s[:, 0].argmax(-1).cpu().numpy()
