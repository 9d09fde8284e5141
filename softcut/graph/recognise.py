"""What an object is that somebody passes as a graph."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError
from softcut.graph.base import BaseGraph
from softcut.tables.arrays import as_array, is_torch_sparse, shape_of
from softcut.tables.frames import is_frame

__all__ = ["kind_of_graph"]


def kind_of_graph(obj: Any) -> str:
    """What kind of graph an object is; GraphError when it is none, or could be two things.

    The kinds are those of :meth:`softcut.graph.Graph.from_any`: "graph", "graphs", "graph and features", "scipy" (also
    sparse tensors of torch), "dense", "edges", "named pairs", "frame", "networkx", "igraph" and "pyg".

    >>> kind_of_graph([(0, 1), (1, 2), (2, 0)]), kind_of_graph(np.eye(3))
    ('edges', 'dense')
    """
    kind = _kind_of_object(obj)
    if kind is not None:
        return kind
    if isinstance(obj, (list, tuple)) and obj:
        if all(isinstance(item, BaseGraph) for item in obj):
            return "graphs"
        pair = isinstance(obj, tuple) and len(obj) == 2
        if pair and (_is_graph_like(obj[0]) or _is_nested(obj[0])):
            # Only a graph is no feature matrix.
            both = _kind_of_object(obj[1]) in ("graph", "networkx", "igraph", "pyg")
            return "graphs" if both else "graph and features"
        if all(_is_graph_like(item) or _is_graph_with_features(item) for item in obj):
            return "graphs"
        if all(isinstance(item, (list, tuple)) and len(item) == 2 for item in obj):
            if any(isinstance(end, str) for pair in obj for end in pair):
                return "named pairs"
            if len(obj) == 2 and all(isinstance(item, list) for item in obj):
                raise GraphError(
                    "the graph is a nested list of shape (2, 2), which may be a matrix or edges: call "
                    "Graph.from_dense for an adjacency matrix, or Graph.from_edges for edges."
                )
            if all(isinstance(item, tuple) for item in obj):
                return "edges"
        if len(obj) > 2 and all(isinstance(item, (list, tuple)) and len(item) == 3 for item in obj):
            _refuse_weighted_edges(obj)
    if isinstance(obj, (list, tuple)) and not obj:
        raise GraphError("the graph is an empty list: give edges, or at least one graph.")
    if isinstance(obj, (np.ndarray, list, tuple)) or hasattr(obj, "__array__"):
        return _kind_of_array(as_array(obj, "graph"))
    if isinstance(obj, (str, bytes)) or hasattr(obj, "__fspath__"):
        raise GraphError(f"the graph is a path, {obj!r}: read it with softcut.read_graph first.")
    raise GraphError(
        f"cannot make a graph of {type(obj).__name__!r}: pass a softcut.Graph, a scipy sparse "
        "matrix, a square array, a list of edges, a data frame, a networkx or igraph graph, a PyTorch Geometric "
        "Data, or (adjacency, X)."
    )


def _kind_of_object(obj: Any) -> str | None:
    if isinstance(obj, BaseGraph):
        return "graph"
    if sp.issparse(obj) or is_torch_sparse(obj):
        return "scipy"
    for module in ("networkx", "igraph"):
        # A module that was never imported cannot have made the object: no need to import it to find out.
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(obj, loaded.Graph):
            return module
    if is_frame(obj):
        return "frame"
    return "pyg" if hasattr(obj, "edge_index") and hasattr(obj, "num_nodes") else None


def _refuse_weighted_edges(rows: list[Any] | tuple[Any, ...]) -> None:
    """Rows of source, target and weight; three of them are square, and would be read as a matrix."""
    if len(rows) != 3 or any(isinstance(end, str) for row in rows for end in row[:2]):
        raise GraphError(
            "the graph is a list of rows of three values: pass the pairs to Graph.from_edges with the third values "
            "as edge_weight=, or a data frame with the columns source, target and weight."
        )
    matrix = as_array(rows, "graph")
    if not np.array_equal(matrix, matrix.T):
        raise GraphError(
            "the graph is a nested list of shape (3, 3), which may be a matrix or weighted edges: call "
            "Graph.from_dense for an adjacency matrix, or Graph.from_edges with edge_weight= for edges."
        )


def _kind_of_array(array: np.ndarray) -> str:
    if array.ndim == 2:
        whole = array.dtype.kind in "iu"
        if array.shape == (2, 2) and whole and not np.array_equal(array, array.T):
            raise GraphError(
                "the graph is a 2 x 2 array of integers, which may be a matrix or edges: call Graph.from_dense for "
                "an adjacency matrix, or Graph.from_edges for edges."
            )
        if array.shape[0] == array.shape[1]:
            return "dense"
        if whole and 2 in array.shape:
            return "edges"
    raise GraphError(
        f"the graph is an array of shape {shape_of(array)}: pass a square adjacency matrix, "
        "or integer edges of shape (2, E) or (E, 2)."
    )


def _is_graph_like(value: Any) -> bool:
    """Whether a value is a graph or a matrix rather than one row of numbers."""
    return _kind_of_object(value) is not None or (hasattr(value, "ndim") and value.ndim == 2)


def _is_graph_with_features(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and _is_graph_like(value[0])


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, (list, tuple)) for row in value)
