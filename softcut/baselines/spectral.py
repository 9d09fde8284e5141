"""Spectral clustering of the adjacency matrix, by scikit-learn."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import SpectralClustering

from softcut.baselines.base import check_n_clusters
from softcut.errors import ParameterError
from softcut.graph import Graph

__all__ = ["spectral"]

Solver = Literal["auto", "arpack", "lobpcg"]


def spectral(
    graph: Graph, n_clusters: int, random_state: int = 0, *, n_init: int = 10, eigen_solver: Solver = "auto"
) -> NDArray[np.int64]:
    """k-means on the eigenvectors of the normalised Laplacian; node features are ignored.

    This is :class:`sklearn.cluster.SpectralClustering` with the adjacency matrix as affinity. A graph of
    several components is accepted (without scikit-learn's warning), but then the method mostly separates
    small components from the rest.

    Parameters
    ----------
    graph, n_clusters, random_state
        As in every baseline.
    n_init
        Number of k-means starts.
    eigen_solver
        ``"arpack"`` factorises the Laplacian: exact, but slow on large or dense graphs. ``"lobpcg"`` only
        multiplies. ``"auto"`` takes ARPACK up to 50,000 nodes with an average degree of at most 20.

    >>> from softcut.baselines import spectral
    >>> from softcut.datasets import community_graph
    >>> from softcut.metrics import nmi
    >>> graph = community_graph(6, 150, seed=0)
    >>> nmi(graph.y, spectral(graph, 6)) > 0.9
    True
    """
    k = check_n_clusters(graph, n_clusters)
    if eigen_solver not in ("auto", "arpack", "lobpcg"):
        raise ParameterError(f"eigen_solver must be 'auto', 'arpack' or 'lobpcg', not {eigen_solver!r}.")
    n = graph.num_nodes
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    if k == n:
        return np.arange(n, dtype=np.int64)
    if n < 5 * k + 1:
        eigen_solver = "lobpcg"  # scikit-learn solves such small problems densely
    elif eigen_solver == "auto":
        small = n <= 50_000 and graph.adjacency.nnz <= 20 * n
        eigen_solver = "arpack" if small else "lobpcg"
    model = SpectralClustering(
        k, affinity="precomputed", eigen_solver=eigen_solver, n_init=n_init, random_state=random_state
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Graph is not fully connected")
        warnings.filterwarnings("ignore", category=UserWarning, module=r"sklearn|scipy")
        warnings.filterwarnings("ignore", category=FutureWarning, module="sklearn")
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        labels = model.fit_predict(graph.adjacency.astype(np.float64))
    return labels.astype(np.int64)
