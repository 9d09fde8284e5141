"""Baselines of scikit-learn: k-means on the node features, alone or propagated, and spectral clustering."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from softcut.errors import GraphError, ParameterError
from softcut.graph import Graph

# Up to this many entries (200 MB) a sparse feature matrix is propagated as a dense one; a larger one is reduced.
MAX_DENSE_ENTRIES = 50_000_000
SVD_COMPONENTS = 256
# Up to this many products per k-means iteration one thread does the work.
SINGLE_THREAD_PRODUCTS = 200_000_000


def check_n_clusters(graph: Graph, n_clusters: int) -> int:
    """The number of clusters as an int, or an error that names the argument."""
    if n_clusters != int(n_clusters) or not 1 <= n_clusters <= graph.num_nodes:
        raise ParameterError(
            f"n_clusters must be a whole number from 1 to the number of nodes ({graph.num_nodes}), "
            f"not {n_clusters}.",
            argument="n_clusters",
        )
    return int(n_clusters)


def kmeans_features(
    graph: Graph, n_clusters: int, random_state: int = 0, *, n_init: int = 10, unit_norm: bool = True
) -> NDArray[np.int64]:
    """k-means++ on the features alone; the edges are ignored.

    ``unit_norm`` scales the rows to unit length first, which suits counts and words; pass False for
    coordinates.

    >>> from softcut.baselines import kmeans_features
    >>> from softcut.datasets import community_graph
    >>> from softcut.metrics import nmi
    >>> graph = community_graph(6, 150, seed=0)
    >>> round(nmi(graph.y, kmeans_features(graph, 6, unit_norm=False)), 2)
    1.0
    """
    k = check_n_clusters(graph, n_clusters)
    x = _features(graph)
    size = x.shape[0] * x.shape[1]
    if sp.issparse(x) and size <= MAX_DENSE_ENTRIES and x.nnz > 0.05 * size:
        x = x.toarray()  # several times faster from there on
    return _kmeans(normalize(x) if unit_norm else x, k, random_state, n_init)


def kmeans_propagated(
    graph: Graph, n_clusters: int, random_state: int = 0, *, hops: int = 2, n_init: int = 10
) -> NDArray[np.int64]:
    """k-means++ on features averaged over the ``hops``-neighbourhood, see :func:`propagate`.

    A plain method that is hard to beat on citation and co-purchase graphs.

    >>> from softcut.baselines import kmeans_features, kmeans_propagated
    >>> from softcut.datasets import attributed_communities
    >>> from softcut.metrics import nmi
    >>> graph = attributed_communities(500, 4, average_degree=10, n_features=100, seed=0)
    >>> nmi(graph.y, kmeans_propagated(graph, 4)) > nmi(graph.y, kmeans_features(graph, 4)) + 0.2
    True
    """
    k = check_n_clusters(graph, n_clusters)
    return _kmeans(propagate(graph, hops, random_state), k, random_state, n_init)


def propagate(graph: Graph, hops: int = 2, random_state: int = 0) -> NDArray[np.float32]:
    r"""Rows of :math:`P^h X` at unit length, :math:`P = D^{-1/2} (A + I) D^{-1/2}`, rows of X at unit length.

    A sparse X with more than 50 million entries and more than 256 columns is first reduced to its 256
    leading singular directions (which keep the inner products of the rows best), so that the dense result
    stays affordable; ``random_state`` seeds that reduction and nothing else.

    >>> import numpy as np
    >>> from softcut.baselines import propagate
    >>> from softcut.datasets import ring_graph
    >>> z = propagate(ring_graph(12), hops=3)
    >>> z.shape, bool(np.allclose(np.linalg.norm(z, axis=1), 1))
    ((12, 2), True)
    """
    if hops < 0:
        raise ParameterError(f"hops must not be negative, it is {hops}.", argument="hops")
    x = normalize(_features(graph))
    if sp.issparse(x):
        if x.shape[0] * x.shape[1] > MAX_DENSE_ENTRIES and x.shape[1] > SVD_COMPONENTS:
            x = TruncatedSVD(SVD_COMPONENTS, random_state=random_state).fit_transform(x)
        else:
            x = x.toarray()
    z = np.asarray(x, dtype=np.float32)
    looped = (graph.adjacency + sp.eye(graph.num_nodes, format="csr")).astype(np.float32)
    scale = 1.0 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel())  # degrees are at least 1
    for _ in range(hops):
        z = scale[:, None] * (looped @ (scale[:, None] * z))
    return normalize(z, copy=False)


def _features(graph: Graph) -> Any:
    if graph.x is None:
        raise GraphError("The graph has no node features (x), which this baseline clusters.")
    return graph.x


def _kmeans(x: Any, k: int, random_state: int, n_init: int) -> NDArray[np.int64]:
    # One thread for all but large problems: an iteration takes milliseconds, and threads that wait for each
    # other on a busy machine made it ten times slower.
    threads = 1 if x.shape[0] * x.shape[1] * k <= SINGLE_THREAD_PRODUCTS else None
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        labels = KMeans(k, n_init=n_init, random_state=random_state).fit_predict(x)
    return labels.astype(np.int64)


def spectral(
    graph: Graph,
    n_clusters: int,
    random_state: int = 0,
    *,
    n_init: int = 10,
    eigen_solver: Literal["auto", "arpack", "lobpcg"] = "auto",
) -> NDArray[np.int64]:
    """k-means on the eigenvectors of the normalised Laplacian; node features are ignored.

    This is :class:`sklearn.cluster.SpectralClustering` with the adjacency matrix as affinity. A graph of
    several components is accepted (without scikit-learn's warning), but then the method mostly separates
    small components from the rest. ``eigen_solver="arpack"`` factorises the Laplacian: exact, but slow on large or
    dense graphs; ``"lobpcg"`` only multiplies; ``"auto"`` takes ARPACK up to 50,000 nodes with an average degree of
    at most 20.

    >>> from softcut.baselines import spectral
    >>> from softcut.datasets import community_graph
    >>> from softcut.metrics import nmi
    >>> graph = community_graph(6, 150, seed=0)
    >>> nmi(graph.y, spectral(graph, 6)) > 0.9
    True
    """
    k = check_n_clusters(graph, n_clusters)
    n = graph.num_nodes
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    if k == n:
        return np.arange(n, dtype=np.int64)
    # scikit-learn solves problems of few nodes densely with LOBPCG.
    if eigen_solver not in ("auto", "arpack", "lobpcg"):
        raise ParameterError(
            f"eigen_solver must be 'auto', 'arpack' or 'lobpcg', not {eigen_solver!r}.",
            argument="eigen_solver",
        )
    if eigen_solver == "auto":
        eigen_solver = "arpack" if n <= 50_000 and graph.adjacency.nnz <= 20 * n else "lobpcg"
    solver = eigen_solver if n > 5 * k else "lobpcg"
    model = SpectralClustering(
        k, affinity="precomputed", eigen_solver=solver, n_init=n_init, random_state=random_state
    )
    with warnings.catch_warnings():
        # Several components, few distinct rows, eigenvectors that are not exact.
        warnings.simplefilter("ignore")
        labels = model.fit_predict(graph.adjacency.astype(np.float64))
    return labels.astype(np.int64)
