"""The graph every part of softcut works on, and the only place where a graph is validated.

A :class:`Graph` holds a symmetric, non-negative, sparse adjacency matrix and, optionally, node features,
labels (used for scoring only), node names and the node ranges of a batch. Whatever reaches the mathematics
has passed through here: no NaN, no negative weight, no duplicate, no explicit zero, sorted indices.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, require
from softcut.graph.adjacency import adjacency_of_edges, canonical_csr, symmetrised, without_self_loops
from softcut.graph.arrays import as_array, is_torch_sparse, shape_of, torch_sparse_to_scipy
from softcut.graph.base import BaseGraph
from softcut.graph.checks import SelfLoops, check_edge_index, check_weights, node_count
from softcut.graph.conversions import edges_of_networkx, edges_of_pyg, networkx_of, pyg_of

__all__ = ["Graph"]


@dataclass(frozen=True, eq=False, repr=False)
class Graph(BaseGraph):
    """An undirected graph: symmetric non-negative adjacency matrix, optional node features.

    >>> from softcut.graph import Graph
    >>> g = Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> g
    Graph(3 nodes, 3 edges, 2 features)
    >>> g.adjacency.toarray()
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])

    Use one of the constructors: :meth:`from_edges`, :meth:`from_scipy`, :meth:`from_dense`,
    :meth:`from_networkx`, :meth:`from_pyg`, :meth:`from_any`, or :func:`softcut.io.readers.read_graph` for
    files. Calling ``Graph(adjacency)`` itself is strict: the matrix must already be symmetric, and its
    self-loops stay.

    Parameters
    ----------
    adjacency
        Sparse symmetric matrix, N x N, non-negative. Stored as a ``scipy.sparse.csr_array`` with sorted
        indices, no duplicates and no explicit zeros, float64 (float32 where the weights came as float32).
    x
        Node features, N x F. Dense stays a dense array, sparse stays a ``csr_array``; stored as float32.
    y
        Integer labels, one per node, for scoring only.
    node_names
        One name per node (unique; within each graph of a batch).
    ptr
        Batch pointer: graph b owns the nodes ``ptr[b]`` to ``ptr[b + 1] - 1``. None for a single graph.
    name
        What to call the graph in reports.

    Attributes
    ----------
    weighted : bool
        False when every stored weight is 1.
    """

    @classmethod
    def from_edges(
        cls,
        edge_index: Any,
        x: Any = None,
        edge_weight: Any = None,
        num_nodes: int | None = None,
        self_loops: SelfLoops = "drop",
        y: Any = None,
        node_names: Sequence[str] | None = None,
        directed: bool | None = None,
        *,
        ptr: Any = None,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from a list of edges.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 0, 1], [1, 2, 2]], edge_weight=[1.0, 2.0, 0.5])
        Graph(3 nodes, 3 edges, weighted)
        >>> Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=5)
        Graph(5 nodes, 3 edges)

        A list that gives every edge once, in one direction, and a list that gives both directions of every
        edge make the same graph. Repeated edges are merged: their weights are summed (without weights the
        edge stays 1). Edges of weight zero are dropped.

        Parameters
        ----------
        edge_index
            Integers of shape [2, E], or pairs of shape [E, 2] (a 2 x 2 array is read as [2, E]): NumPy array,
            list, or torch tensor.
        x, y, node_names, ptr, name
            See :class:`Graph`.
        edge_weight
            E non-negative finite weights; None means all 1.
        num_nodes
            Number of nodes; by default the length of x, y or node_names, else the largest index + 1.
        self_loops
            ``"drop"`` removes self-loops, with a warning that counts them; ``"keep"`` stores them on the
            diagonal.
        directed
            The two directions of an edge are merged with the larger weight of the two. None (default) warns
            when only some edges come with their reverse, or when the directions have different weights. True
            warns about every edge without an equal reverse; False never warns.

        Raises
        ------
        GraphError
            Naming the argument and the first value that is wrong.
        """
        source, target = check_edge_index(edge_index)
        weight = check_weights(edge_weight, source.size, "edge_weight")
        n, origin = node_count(num_nodes, x, y, node_names, source, target)
        if source.size:
            for row, ends in enumerate((source, target)):
                if ends.max() >= n:
                    at = int(np.flatnonzero(ends >= n)[0])
                    raise GraphError(
                        f"edge_index has node index {int(ends[at])} (row {row}, edge {at}), out of range for "
                        f"{n} nodes ({origin}): number the nodes 0 to {n - 1} or correct num_nodes."
                    )
        adjacency = adjacency_of_edges(source, target, weight, n, self_loops, directed)
        return cls._build(adjacency, x=x, y=y, node_names=node_names, ptr=ptr, name=name)

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        x: Any = None,
        self_loops: SelfLoops = "drop",
        y: Any = None,
        node_names: Sequence[str] | None = None,
        *,
        ptr: Any = None,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from a sparse matrix A; an asymmetric one becomes max(A, A'), with a warning.

        >>> import scipy.sparse as sp
        >>> from softcut.graph import Graph
        >>> Graph.from_scipy(sp.csr_array([[0, 2], [2, 0]]))
        Graph(2 nodes, 1 edge, weighted)

        Parameters
        ----------
        adjacency
            Any scipy sparse matrix or array, N x N; it is not modified.
        x, self_loops, y, node_names, ptr, name
            See :meth:`from_edges`.
        """
        matrix = canonical_csr(adjacency, "adjacency")
        matrix = without_self_loops(matrix, self_loops)
        return cls._build(
            symmetrised(matrix, True, "adjacency"), x=x, y=y, node_names=node_names, ptr=ptr, name=name
        )

    @classmethod
    def from_dense(
        cls,
        adjacency: Any,
        x: Any = None,
        self_loops: SelfLoops = "drop",
        y: Any = None,
        node_names: Sequence[str] | None = None,
        *,
        ptr: Any = None,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from a square array of weights, zero meaning no edge.

        >>> from softcut.graph import Graph
        >>> Graph.from_dense([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        Graph(3 nodes, 2 edges)

        Parameters
        ----------
        adjacency
            Array of shape [N, N].
        x, self_loops, y, node_names, ptr, name
            See :meth:`from_edges`.
        """
        dense = as_array(adjacency, "adjacency")
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise GraphError(
                f"adjacency has shape {shape_of(dense)}, which is not square: pass an N x N matrix, "
                "or edges to Graph.from_edges."
            )
        if dense.dtype.kind not in "biuf":
            raise GraphError(f"adjacency has dtype {dense.dtype}: pass a matrix of numbers.")
        if dense.dtype == np.float16:  # scipy has no sparse half precision
            dense = dense.astype(np.float32)
        return cls.from_scipy(
            sp.csr_array(dense), x=x, self_loops=self_loops, y=y, node_names=node_names, ptr=ptr, name=name
        )

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        weight: str | None = "weight",
        features: str | Sequence[str] | None = None,
        self_loops: SelfLoops = "drop",
        *,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from a networkx graph, nodes in its own order.

        >>> import networkx as nx
        >>> from softcut.graph import Graph
        >>> g = Graph.from_networkx(nx.Graph([("ann", "bob"), ("bob", "cy")]))
        >>> g.num_edges, g.node_names
        (2, ['ann', 'bob', 'cy'])

        Parameters
        ----------
        graph
            Any networkx graph. A directed one is symmetrised with a warning; parallel edges are merged.
        weight
            Edge attribute that holds the weight; edges without it weigh 1. None ignores weights.
        features
            Node attribute, or list of them, to use as features (numbers, or vectors of equal length);
            ``"attributes"`` takes every attribute that is a number at every node.
        self_loops, name
            See :meth:`from_edges`.
        """
        return cls.from_edges(
            **edges_of_networkx(graph, weight, features),
            self_loops=self_loops,
            name=name if name is not None else (str(getattr(graph, "name", "")) or None),
        )

    @classmethod
    def from_pyg(cls, data: Any, self_loops: SelfLoops = "drop", *, name: str | None = None) -> Graph:
        """Build a graph from a PyTorch Geometric ``Data`` or ``Batch``.

        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from softcut.graph import Graph
        >>> Graph.from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.eye(2)))
        Graph(2 nodes, 1 edge, 2 features)

        Parameters
        ----------
        data
            Uses ``edge_index``; ``edge_weight``, or ``edge_attr`` when it has one column; ``x``; ``y`` when
            it is one integer per node; ``ptr`` or ``batch``.
        self_loops, name
            See :meth:`from_edges`.
        """
        return cls.from_edges(**edges_of_pyg(data), self_loops=self_loops, name=name)

    @classmethod
    def from_any(cls, obj: Any, x: Any = None) -> Graph:
        """Build a graph from whatever holds one; what the estimator calls on its input.

        >>> import numpy as np
        >>> from softcut.graph import Graph
        >>> Graph.from_any(np.ones((3, 3)) - np.eye(3), x=np.eye(3))
        Graph(3 nodes, 3 edges, 3 features)

        Parameters
        ----------
        obj
            A :class:`Graph`; a scipy sparse matrix; a square array (adjacency matrix); an integer array of
            shape [2, E] (edges); a networkx graph; a PyTorch Geometric ``Data`` or ``Batch``; a torch tensor
            (sparse, square or [2, E]); a pair ``(adjacency, X)`` of any of these and features; or a list of
            graphs, which becomes a batch.
        x
            Node features; they replace those of ``obj``.
        """
        graph = cls._dispatch(obj, x)
        if graph is None:
            if isinstance(obj, (str, bytes)) or hasattr(obj, "__fspath__"):
                raise GraphError(f"the graph is a path, {obj!r}: read it with softcut.read_graph first.")
            raise GraphError(
                f"cannot make a graph of {type(obj).__name__!r}: pass a softcut.Graph, a scipy sparse "
                "matrix, a square array, a networkx graph, a PyTorch Geometric Data, or (adjacency, X)."
            )
        return graph

    @classmethod
    def _dispatch(cls, obj: Any, x: Any) -> Graph | None:
        if isinstance(obj, Graph):
            return obj if x is None else obj.with_features(x)
        if sp.issparse(obj):
            return cls.from_scipy(obj, x=x)
        # A module that was never imported cannot have made the object: no need to import it to find out.
        networkx = sys.modules.get("networkx")
        if networkx is not None and isinstance(obj, networkx.Graph):
            graph = cls.from_networkx(obj)
            return graph if x is None else graph.with_features(x)
        if hasattr(obj, "edge_index") and hasattr(obj, "num_nodes"):
            graph = cls.from_pyg(obj)
            return graph if x is None else graph.with_features(x)
        if is_torch_sparse(obj):
            return cls.from_scipy(torch_sparse_to_scipy(obj), x=x)
        if isinstance(obj, (list, tuple)) and obj:
            if all(isinstance(item, Graph) for item in obj):
                graph = cls.batch(list(obj))
                return graph if x is None else graph.with_features(x)
            if isinstance(obj, tuple) and len(obj) == 2 and _is_graph_like(obj[0]):
                return cls.from_any(obj[0], x=obj[1] if x is None else x)
            if isinstance(obj, list) and all(_is_graph_like(item) for item in obj):
                graph = cls.batch([cls.from_any(item) for item in obj])
                return graph if x is None else graph.with_features(x)
        if isinstance(obj, (np.ndarray, list, tuple)) or hasattr(obj, "__array__"):
            array = as_array(obj, "graph")
            if array.ndim == 2 and array.shape[0] == array.shape[1]:
                return cls.from_dense(array, x=x)
            if array.ndim == 2 and array.shape[0] == 2 and array.dtype.kind in "iu":
                return cls.from_edges(array, x=x)
            raise GraphError(
                f"the graph is an array of shape {shape_of(array)}: pass a square adjacency matrix, "
                "or integer edges of shape (2, E)."
            )
        return None

    # ---- to other libraries

    def to_networkx(self) -> Any:
        """The graph as a ``networkx.Graph``: ``weight`` on edges when weighted, ``y`` on nodes when known.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [1, 2]]).to_networkx().number_of_edges()
        2

        Nodes are called by their names, or by their indices when they have none (or names repeat in a batch).
        """
        return networkx_of(self.adjacency, self.weighted, self.node_names, self.y, self.name)

    def to_pyg(self) -> Any:
        """The graph as a PyTorch Geometric ``Data`` (a ``Batch`` for a batch); sparse features become dense.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]], x=[[1.0], [2.0]]).to_pyg()
        Data(edge_index=[2, 2], num_nodes=2, x=[2, 1])
        """
        if self.ptr is not None:
            # All parts of a Batch need the same keys: weights for all of them when one has weights.
            parts = [graph._replace(weighted=self.weighted) for graph in self.split()]
            pyg = require("torch_geometric.data", "pyg", "Graph.to_pyg")
            return pyg.Batch.from_data_list([part.to_pyg() for part in parts])
        edges, weight = self.edge_index()
        return pyg_of(edges, weight, self.num_nodes, self.x, self.y)


def _is_graph_like(value: Any) -> bool:
    """Whether a value is a graph or a matrix rather than one row of numbers."""
    if isinstance(value, Graph) or sp.issparse(value) or hasattr(value, "edge_index"):
        return True
    networkx = sys.modules.get("networkx")
    if networkx is not None and isinstance(value, networkx.Graph):
        return True
    return hasattr(value, "ndim") and value.ndim == 2
