"""Communities of a graph by its edges, compiled by numba; neither importing nor using it loads PyTorch.

:class:`softcut.GraphClustering` adds the choice of the scale, levels, a verdict and prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softcut.communities.tree import Scales, Tree
from softcut.communities.weights import heavy_tailed
from softcut.errors import ParameterError
from softcut.graph import Graph

__all__ = ["Scales", "Tree", "find_communities", "heavy_tailed"]


def find_communities(
    graph: Any,
    resolution: float = 1.0,
    *,
    min_size: int = 1,
    max_size: int | None = None,
    start: Any = None,
    random_state: int = 0,
) -> np.ndarray:
    """Labels [N] of connected communities that raise modularity at a resolution, the largest community first.

    >>> import networkx as nx
    >>> from softcut.communities import find_communities
    >>> int(find_communities(nx.karate_club_graph()).max()) + 1
    4

    Parameters
    ----------
    graph
        Anything that :meth:`softcut.Graph.from_any` takes: a Graph, a sparse matrix, a networkx graph, ... Weights that
        differ a lot (:func:`heavy_tailed`) count by their square root.
    resolution : float
        Higher values give more and smaller communities.
    min_size, max_size : int, optional
        Nodes of a community. Smaller ones join the neighbour with most edges to them that has room.
    start : array [N], optional
        Labels to begin from, -1 for a node on its own.
    random_state : int
        Draws the order in which nodes move.

    Returns
    -------
    array [N]
        -1 for a node without edges.
    """
    from softcut.communities.engine import communities, numbered_by_size
    from softcut.communities.network import Network

    if not resolution > 0:
        raise ParameterError(
            f"resolution must be a positive number, got {resolution!r}.", argument="resolution"
        )
    whole = Graph.from_any(graph).in_mean_weights()
    if heavy_tailed(whole.adjacency.data):
        whole = whole.with_root_weights()
    begin = None if start is None else np.asarray(start, dtype=np.int64)
    if begin is not None and begin.shape != (whole.num_nodes,):
        raise ParameterError(
            f"start must hold one label per node ({whole.num_nodes}), got {begin.shape}.", argument="start"
        )
    network = Network(whole.adjacency)
    found = communities(
        network, float(resolution), random_state, smallest=min_size, largest=max_size, start=begin
    )
    labels, linked = np.full(whole.num_nodes, -1), np.diff(network.indptr) > 0
    if linked.any():
        labels[linked] = numbered_by_size(found[linked])
    return labels
