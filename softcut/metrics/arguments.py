"""What every score does to its arguments: labels and adjacency matrices, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from softcut.errors import GraphError, ParameterError

if TYPE_CHECKING:
    from softcut.graph import Graph

__all__ = ["GraphLike", "adjacency_and_codes", "as_labels", "codes"]

GraphLike: TypeAlias = "Graph | sp.spmatrix | sp.sparray | NDArray[Any]"


def as_labels(values: ArrayLike, name: str) -> NDArray[Any]:
    """A one-dimensional, non-empty label array, or an error that names the argument."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ParameterError(f"{name} must be one label per node, but it has shape {array.shape}.")
    if array.size == 0:
        raise ParameterError(f"{name} is empty: there must be at least one node.")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ParameterError(f"{name} holds NaN or infinite values; labels must be comparable.")
        if (array == np.round(array)).all():
            array = array.astype(np.int64)
    return array


def codes(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels renumbered ``0..used-1``."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64).reshape(-1)


def adjacency_and_codes(graph: GraphLike, labels: ArrayLike) -> tuple[sp.csr_matrix, NDArray[np.int64]]:
    """The adjacency matrix, and the labels of its nodes renumbered."""
    adjacency, array = _as_adjacency(graph), as_labels(labels, "labels")
    if len(array) != adjacency.shape[0]:
        raise ParameterError(f"labels has {len(array)} entries but the graph has {adjacency.shape[0]} nodes.")
    return adjacency, codes(array)


def _as_adjacency(graph: GraphLike) -> sp.csr_matrix:
    """The adjacency matrix of a graph, a scipy matrix or a square array, checked unless it is a Graph."""
    adjacency = getattr(graph, "adjacency", None)
    if adjacency is not None:
        return adjacency.tocsr()
    matrix: Any = graph if sp.issparse(graph) else np.asarray(graph)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"The adjacency matrix must be square, but its shape is {matrix.shape}.")
    csr = sp.csr_matrix(matrix)
    if csr.nnz:
        if not np.isfinite(csr.data).all() or csr.data.min() < 0:
            raise GraphError("The adjacency matrix holds negative, NaN or infinite weights.")
        difference = abs(csr - csr.T)
        if difference.nnz and difference.max() > 1e-6 * csr.data.max():
            raise GraphError("The adjacency matrix is not symmetric; pass A + A.T or a Graph.")
    return csr
