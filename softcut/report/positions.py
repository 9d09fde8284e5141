"""Where nodes stand in a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.preprocessing import normalize

from softcut.graph import Graph

__all__ = ["FEW_NODES", "node_positions"]

# Up to here the edges of a drawing can be followed by eye.
FEW_NODES = 300


def node_positions(graph: Graph) -> tuple[np.ndarray, str]:
    """Two coordinates per node, and what they are.

    Two features are taken as coordinates. Otherwise a graph of up to 300 nodes gets a layout in which neighbours
    attract each other, and a larger one the leading directions of its features, averaged over neighbours (of its
    adjacency matrix, where it has none).
    """
    if graph.x is not None and graph.num_features == 2:
        x: Any = graph.x
        return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=float), "coordinates"
    if graph.num_nodes <= FEW_NODES:
        return _spring(graph), "layout: neighbours attract each other"
    if graph.x is None:
        return _directions(_smooth(graph)), "leading directions of the adjacency matrix"
    smoothed = _smooth(graph) @ (_smooth(graph) @ sp.csr_array(graph.x))
    return _directions(smoothed), "leading directions of the features around each node"


def _spring(graph: Graph) -> np.ndarray:
    import networkx as nx

    whole = nx.from_scipy_sparse_array(graph.adjacency)
    whole.remove_edges_from(list(nx.selfloop_edges(whole)))
    if whole.number_of_nodes() == 1:
        return np.zeros((1, 2))
    # Parts that are not connected would drift away for ever: each gets a layout and a place of its own.
    parts = sorted(nx.connected_components(whole), key=len, reverse=True)
    places = np.zeros((graph.num_nodes, 2))
    corner = np.zeros(2)
    row_height, width = 0.0, 2.2 * np.sqrt(graph.num_nodes)
    for part in parts:
        nodes = sorted(part)
        radius = np.sqrt(len(nodes))
        layout = nx.spring_layout(whole.subgraph(nodes), weight=None, seed=0, iterations=100)
        place = np.array([layout[node] for node in nodes])
        place -= place.mean(axis=0)
        place *= radius / max(np.abs(place).max(), 1e-9) if len(nodes) > 1 else 0.0
        if corner[0] > 0 and corner[0] + 2 * radius > width:
            corner = np.array([0.0, corner[1] + row_height + 1])
            row_height = 0.0
        places[nodes] = place + corner + radius
        corner[0] += 2 * radius + 1
        row_height = max(row_height, 2 * radius)
    return places


def _smooth(graph: Graph) -> sp.csr_array:
    """D^-1 (A + I): the mean over a node and its neighbours."""
    adjacency = sp.csr_array(graph.adjacency, dtype=float) + sp.eye_array(graph.num_nodes, format="csr")
    return sp.csr_array(sp.diags_array(1 / adjacency.sum(axis=1)) @ adjacency)


def _directions(matrix: Any) -> np.ndarray:
    """The second and third singular directions: the first one is close to the mean and shows nothing."""
    wanted = min(3, min(matrix.shape) - 1)
    if wanted < 1:
        dense = np.asarray(matrix.toarray(), dtype=float)[:, :2]
        return np.pad(dense, ((0, 0), (0, 2 - dense.shape[1])))
    flat = TruncatedSVD(wanted, random_state=0).fit_transform(normalize(matrix))[:, -2:]
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
