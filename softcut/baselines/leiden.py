"""Leiden community detection (Traag, Waltman and van Eck 2019), by the package leidenalg."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.baselines.scikit import check_n_clusters
from softcut.errors import ParameterError, require
from softcut.graph import Graph


def leiden(
    graph: Graph,
    n_clusters: int | None = None,
    random_state: int = 0,
    *,
    resolution: float | None = None,
    exact: bool = True,
    n_steps: int = 12,
) -> NDArray[np.int64]:
    """Leiden with the modularity of a resolution; node features are ignored.

    Leiden chooses the number of communities itself. With ``n_clusters`` the resolution is searched by
    bisection until that many communities are sizeable (one percent of the nodes, or a fifth of the average
    ``n / n_clusters`` where that is less), or as near as possible. Small components and leftovers are
    communities of their own; with ``exact`` they are then merged until ``n_clusters`` remain: each into the
    large community it shares most edges with, and those without such edges into the smallest one.

    Parameters
    ----------
    graph, random_state
        As in every baseline.
    n_clusters
        The number of communities wanted, or None for those of the given resolution.
    resolution
        Resolution of the modularity; default 1. Not together with ``n_clusters``.
    exact
        Return at most ``n_clusters`` communities rather than about that many.
    n_steps
        Most runs of Leiden during the search.

    Needs ``pip install 'softcut[leiden]'``.

    >>> from softcut.baselines import leiden
    >>> from softcut.datasets import community_graph
    >>> from softcut.metrics import nmi
    >>> graph = community_graph(6, 150, seed=0)
    >>> nmi(graph.y, leiden(graph, 6)) > 0.9
    True
    """
    if n_clusters is not None and resolution is not None:
        raise ParameterError(
            "Pass n_clusters or resolution, not both: the first is a search for the second.",
            argument="n_clusters",
        )
    if resolution is not None and resolution < 0:
        raise ParameterError(f"resolution must not be negative, it is {resolution}.", argument="resolution")
    run = partial(_leiden, *_igraph(graph), random_state)
    if n_clusters is None:
        return run(1.0 if resolution is None else resolution)
    k = check_n_clusters(graph, n_clusters)
    labels = _search(run, graph.num_nodes, k, n_steps)
    return _merge(graph.adjacency, labels, k) if exact else labels


def _igraph(graph: Graph) -> tuple[Any, list[float]]:
    """The graph of igraph, and its weights."""
    igraph = require("igraph", "leiden", "The Leiden baseline")
    upper = sp.triu(graph.adjacency, format="coo")
    made = igraph.Graph(n=graph.num_nodes, edges=np.column_stack([upper.row, upper.col]))
    return made, upper.data.astype(float).tolist()


def _leiden(graph: Any, weights: list[float], seed: int, resolution: float) -> NDArray[np.int64]:
    leidenalg = require("leidenalg", "leiden", "The Leiden baseline")
    kind = leidenalg.RBConfigurationVertexPartition
    partition = leidenalg.find_partition(
        graph, kind, weights=weights, resolution_parameter=resolution, seed=seed
    )
    return np.asarray(partition.membership, dtype=np.int64)


def _search(run: Callable[[float], NDArray[np.int64]], n: int, k: int, n_steps: int) -> NDArray[np.int64]:
    """The run whose number of sizeable communities is nearest to k; at equal distance the larger number."""
    runs = []
    low, high = -np.inf, np.inf  # logarithms of resolutions known to give too few and too many
    point, stride = 0.0, np.log(2.0)  # resolution 1, near which most answers lie
    for _ in range(max(n_steps, 1)):
        labels = run(float(np.exp(point)))
        count = int(np.count_nonzero(np.bincount(labels) >= min(0.01 * n, 0.2 * n / k)))
        runs.append((abs(count - k), count < k, labels))
        if count == k:
            break
        if count < k:
            low, point = point, point + stride
        else:
            high, point = point, point - stride
        if np.isfinite(high - low):
            point = (low + high) / 2
        else:
            stride *= 2
    return min(runs, key=lambda each: each[:2])[2]


def _merge(adjacency: sp.csr_array, labels: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """At most k communities: those beyond the k largest join the one they share most edge weight with."""
    sizes = np.bincount(labels)
    if len(sizes) <= k:
        return labels
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    labels = rank[labels]
    while (small := labels >= k).any():
        coo = adjacency[small].tocoo()
        source, target = labels[small][coo.row], labels[coo.col]
        outside = target < k
        table = sp.csr_matrix(
            (coo.data[outside], (source[outside] - k, target[outside])), shape=(len(order) - k, k)
        ).toarray()
        goal = np.where(table.any(axis=1), table.argmax(axis=1), -1)
        joined = np.where(small, goal[np.maximum(labels - k, 0)], -1)
        if (joined < 0).all():  # only components of their own are left
            for community in np.unique(labels[small]):
                smallest = int(np.bincount(labels, minlength=k)[:k].argmin())
                labels[labels == community] = smallest
            break
        labels = np.where(joined >= 0, joined, labels)
    return labels
