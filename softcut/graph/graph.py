"""The graph every part of softcut works on, and the only place where a graph is validated.

A :class:`Graph` holds a symmetric, non-negative, sparse adjacency matrix and, optionally, node features,
labels (used for scoring only), node names and the node ranges of a batch. Whatever reaches the mathematics
has passed through here: no NaN, no negative weight, no duplicate, no explicit zero, sorted indices.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, ParameterError, require

__all__ = ["Graph"]

SelfLoops = Literal["drop", "keep"]

# An inferred node count far above the edge count is a wrong id, not a graph: 800 MB of row pointers.
_MAX_INFERRED_NODES = 100_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
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

    adjacency: sp.csr_array
    x: np.ndarray | sp.csr_array | None = None
    y: np.ndarray | None = None
    node_names: list[str] | None = None
    ptr: np.ndarray | None = None
    name: str | None = None
    weighted: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        adjacency = _canonical(self.adjacency, "adjacency")
        transposed = adjacency.T.tocsr()
        if not (_same_pattern(adjacency, transposed) and np.array_equal(adjacency.data, transposed.data)):
            raise GraphError(
                "adjacency is not symmetric: use Graph.from_scipy, which symmetrises a directed graph, "
                "or pass A.maximum(A.T)."
            )
        self._fill(adjacency, self.x, self.y, self.node_names, self.ptr, self.name)

    # ------------------------------------------------------------------ construction

    def _fill(
        self,
        adjacency: sp.csr_array,
        x: Any,
        y: Any,
        node_names: Any,
        ptr: Any,
        name: str | None,
    ) -> None:
        """Check everything that hangs on a canonical symmetric adjacency, and store it."""
        n = adjacency.shape[0]
        if n == 0:
            raise GraphError("the graph has no nodes: pass at least one edge, or num_nodes of 1 or more.")
        weighted = not bool(np.all(adjacency.data == 1))
        if weighted:
            with np.errstate(over="ignore"):
                degree = np.asarray(adjacency.sum(axis=1)).ravel()
            if not np.isfinite(degree).all():
                bad = int(np.flatnonzero(~np.isfinite(degree))[0])
                raise GraphError(
                    f"edge_weight is too large: the weights at node {bad} sum to more than "
                    f"{adjacency.dtype} can hold; divide all weights by a common factor."
                )
        self._set(
            adjacency=adjacency,
            x=_check_features(x, n),
            y=_check_labels(y, n),
            node_names=node_names,
            ptr=_check_ptr(ptr, adjacency),
            name=None if name is None else str(name),
            weighted=weighted,
        )
        # Names come last: in a batch they need only be unique within a graph.
        self._set(node_names=_check_names(node_names, n, self.ptr))

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)  # the dataclass is frozen

    @classmethod
    def _build(
        cls,
        adjacency: sp.csr_array,
        x: Any = None,
        y: Any = None,
        node_names: Any = None,
        ptr: Any = None,
        name: str | None = None,
    ) -> Graph:
        """A graph from an adjacency already known to be canonical and symmetric."""
        graph = object.__new__(cls)
        graph._fill(adjacency, x, y, node_names, ptr, name)
        return graph

    def _replace(self, **values: Any) -> Graph:
        """A copy with some already validated attributes exchanged; nothing is checked again."""
        graph = object.__new__(type(self))
        graph._set(**{**self.__dict__, **values})
        return graph

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
        source, target = _check_edge_index(edge_index)
        weight = _check_weights(edge_weight, source.size, "edge_weight")
        n, origin = _node_count(num_nodes, x, y, node_names, source, target)
        if source.size:
            for row, ends in enumerate((source, target)):
                if ends.max() >= n:
                    at = int(np.flatnonzero(ends >= n)[0])
                    raise GraphError(
                        f"edge_index has node index {int(ends[at])} (row {row}, edge {at}), out of range for "
                        f"{n} nodes ({origin}): number the nodes 0 to {n - 1} or correct num_nodes."
                    )
        adjacency = _from_pairs(source, target, weight, n, self_loops, directed)
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
        matrix = _canonical(adjacency, "adjacency")
        matrix = _without_loops(matrix, self_loops)
        return cls._build(
            _symmetrised(matrix, True, "adjacency"), x=x, y=y, node_names=node_names, ptr=ptr, name=name
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
        dense = _as_array(adjacency, "adjacency")
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise GraphError(
                f"adjacency has shape {_shape(dense)}, which is not square: pass an N x N matrix, "
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
        nodes = list(graph.nodes())
        if not nodes:
            raise GraphError("graph has no nodes: add nodes to the networkx graph first.")
        position = {node: i for i, node in enumerate(nodes)}
        count = graph.number_of_edges()
        source = np.empty(count, dtype=np.int64)
        target = np.empty(count, dtype=np.int64)
        values: list[Any] = []
        for i, (u, v, value) in enumerate(graph.edges(data=weight if weight is not None else "")):
            source[i], target[i] = position[u], position[v]
            values.append(value)
        weights: np.ndarray | None = None
        if weight is not None and any(value is not None for value in values):
            weights = np.empty(count, dtype=np.float64)
            for i, value in enumerate(values):
                try:
                    weights[i] = 1.0 if value is None else float(value)
                except (TypeError, ValueError, OverflowError):
                    raise GraphError(
                        f"graph has an edge whose {weight!r} is {value!r}, not a number: correct it, "
                        "or pass weight=None."
                    ) from None
        directed = bool(graph.is_directed())
        if not directed:
            # One orientation makes the parallel edges of a multigraph duplicates, not reverses.
            source, target = np.minimum(source, target), np.maximum(source, target)
        names = None
        if nodes != list(range(len(nodes))):
            names = [str(node) for node in nodes]
            if len(set(names)) < len(names):  # 1 and "1" are two nodes
                names = [repr(node) for node in nodes]
        return cls.from_edges(
            np.stack([source, target]),
            x=_networkx_features(graph, nodes, features),
            edge_weight=weights,
            num_nodes=len(nodes),
            self_loops=self_loops,
            node_names=names,
            directed=directed,
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
        edge_index = getattr(data, "edge_index", None)
        if edge_index is None:
            raise GraphError("data has no edge_index: softcut reads Data and Batch objects that have one.")
        num_nodes = data.num_nodes
        if num_nodes is None:
            raise GraphError("data has neither x nor num_nodes: set data.num_nodes.")
        weight = getattr(data, "edge_weight", None)
        if weight is None:
            attribute = getattr(data, "edge_attr", None)
            if attribute is not None and (
                attribute.ndim == 1 or (attribute.ndim == 2 and attribute.shape[1] == 1)
            ):
                weight = attribute
        if weight is not None:
            weight = _as_array(weight, "edge_weight").reshape(-1)
        x = getattr(data, "x", None)
        if x is not None and x.ndim == 2 and x.shape[1] == 0:
            x = None
        if x is not None and x.ndim == 1:
            x = x.reshape(-1, 1)
        y = getattr(data, "y", None)
        if y is not None:
            y = _as_array(y, "y")
            node_level = y.dtype.kind in "iub" and y.shape in ((num_nodes,), (num_nodes, 1))
            y = y if node_level else None
        ptr = getattr(data, "ptr", None)
        batch = getattr(data, "batch", None)
        if ptr is None and batch is not None:
            member = _as_array(batch, "batch")
            if member.shape != (num_nodes,) or member.dtype.kind not in "iu" or np.any(np.diff(member) < 0):
                raise GraphError("data.batch must hold one non-decreasing graph index per node.")
            if member.size and (member[0] != 0 or member[-1] >= num_nodes):
                raise GraphError("data.batch must number the graphs from 0, without gaps.")
            ptr = np.concatenate([[0], np.cumsum(np.bincount(member))])
        return cls.from_edges(
            edge_index,
            x=x,
            edge_weight=weight,
            num_nodes=int(num_nodes),
            self_loops=self_loops,
            y=y,
            ptr=ptr,
            name=name,
        )

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
        if _is_torch_sparse(obj):
            return cls.from_scipy(_torch_sparse_to_scipy(obj), x=x)
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
            array = _as_array(obj, "graph")
            if array.ndim == 2 and array.shape[0] == array.shape[1]:
                return cls.from_dense(array, x=x)
            if array.ndim == 2 and array.shape[0] == 2 and array.dtype.kind in "iu":
                return cls.from_edges(array, x=x)
            raise GraphError(
                f"the graph is an array of shape {_shape(array)}: pass a square adjacency matrix, "
                "or integer edges of shape (2, E)."
            )
        return None

    # ------------------------------------------------------------------ what it is

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[0])

    @property
    def num_edges(self) -> int:
        """Number of undirected edges; a self-loop counts once."""
        return (int(self.adjacency.nnz) + self._num_loops) // 2

    @property
    def _num_loops(self) -> int:
        return int(np.count_nonzero(self.adjacency.diagonal()))

    @property
    def has_self_loops(self) -> bool:
        """Whether any node is connected with itself."""
        return self._num_loops > 0

    @property
    def num_features(self) -> int:
        """Number of feature columns; 0 without features."""
        return 0 if self.x is None else int(self.x.shape[1])

    @property
    def num_graphs(self) -> int:
        """Number of graphs of the batch; 1 for a single graph."""
        return 1 if self.ptr is None else len(self.ptr) - 1

    @property
    def average_degree(self) -> float:
        """Mean number of neighbours of a node (weights not counted)."""
        return float(self.adjacency.nnz) / self.num_nodes

    def __repr__(self) -> str:
        parts = [_plural(self.num_nodes, "node"), _plural(self.num_edges, "edge")]
        if self.num_graphs > 1:
            parts.insert(0, _plural(self.num_graphs, "graph"))
        if self.weighted:
            parts.append("weighted")
        if self.has_self_loops:
            parts.append(_plural(self._num_loops, "self-loop"))
        if self.x is not None:
            parts.append(("sparse " if sp.issparse(self.x) else "") + _plural(self.num_features, "feature"))
        if self.y is not None:
            parts.append(_plural(len(np.unique(self.y)), "label"))
        if self.node_names is not None:
            parts.append("named nodes")
        title = f"{self.name!r}: " if self.name else ""
        return f"Graph({title}{', '.join(parts)})"

    # ------------------------------------------------------------------ what can be made of it

    def with_features(self, x: Any) -> Graph:
        """The same graph with other features (None removes them); the adjacency is shared.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]]).with_features([[1.0], [2.0]])
        Graph(2 nodes, 1 edge, 1 feature)
        """
        return self._replace(x=_check_features(x, self.num_nodes))

    def subgraph(self, nodes: Any) -> Graph:
        """The graph among some of the nodes, in the order given; a batch becomes a single graph.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1, 2], [1, 2, 3]]).subgraph([3, 2]).adjacency.toarray()
        array([[0., 1.],
               [1., 0.]])

        Parameters
        ----------
        nodes
            Node indices without repetition, or a boolean mask of length N.
        """
        index = _as_array(nodes, "nodes")
        if index.dtype == bool:
            if index.shape != (self.num_nodes,):
                raise GraphError(
                    f"nodes is a mask of shape {_shape(index)}: pass one value per node ({self.num_nodes})."
                )
            index = np.flatnonzero(index)
        if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
            raise GraphError("nodes must be a non-empty list of node indices or a boolean mask.")
        if index.min() < 0 or index.max() >= self.num_nodes:
            bad = int(index[(index < 0) | (index >= self.num_nodes)][0])
            raise GraphError(f"nodes has index {bad}, out of range for {self.num_nodes} nodes.")
        index = index.astype(np.int64)
        if np.unique(index).size < index.size:
            values, counts = np.unique(index, return_counts=True)
            raise GraphError(f"nodes lists node {int(values[counts > 1][0])} more than once.")
        names = None if self.node_names is None else [self.node_names[i] for i in index]
        if names is not None and len(set(names)) < len(names):  # two graphs of a batch may share names
            names = None
        return self._build(
            self._rows_and_columns(index),
            x=None if self.x is None else self.x[index],
            y=None if self.y is None else self.y[index],
            node_names=names,
            name=self.name,
        )

    def _rows_and_columns(self, index: np.ndarray) -> sp.csr_array:
        matrix = sp.csr_array(self.adjacency[index][:, index])
        matrix.sort_indices()
        return matrix

    def split(self) -> list[Graph]:
        """The graphs of a batch, as a list; a single graph gives a list of itself.

        >>> from softcut.graph import Graph
        >>> pair = Graph.from_edges([[0], [1]])
        >>> Graph.batch([pair, pair]).split()
        [Graph(2 nodes, 1 edge), Graph(2 nodes, 1 edge)]
        """
        if self.ptr is None:
            return [self]
        a, graphs = self.adjacency, []
        for start, end in zip(self.ptr[:-1], self.ptr[1:], strict=True):
            first, last = a.indptr[start], a.indptr[end]
            block = _csr(
                a.data[first:last].copy(),
                a.indices[first:last] - a.indices.dtype.type(start),
                a.indptr[start : end + 1] - first,
                int(end - start),
            )
            graphs.append(
                self._replace(
                    adjacency=block,
                    x=None if self.x is None else self.x[start:end],
                    y=None if self.y is None else self.y[start:end],
                    node_names=None if self.node_names is None else self.node_names[start:end],
                    ptr=None,
                    name=None,
                    weighted=not bool(np.all(block.data == 1)),
                )
            )
        return graphs

    @classmethod
    def batch(cls, graphs: Iterable[Graph], name: str | None = None) -> Graph:
        """Several graphs as one block-diagonal graph with a pointer; :meth:`split` undoes it.

        >>> from softcut.graph import Graph
        >>> g = Graph.batch([Graph.from_edges([[0], [1]]), Graph.from_edges([[0, 1], [1, 2]])])
        >>> g, g.ptr
        (Graph(2 graphs, 5 nodes, 3 edges), array([0, 2, 5]))

        Parameters
        ----------
        graphs
            Graphs (or batches) that all have features of one width, or all have none. Labels and names are
            kept when every graph has them.
        name
            Name of the batch.
        """
        items = list(graphs)
        if not items:
            raise GraphError("graphs is empty: a batch needs at least one graph.")
        for i, item in enumerate(items):
            if not isinstance(item, Graph):
                raise GraphError(f"graphs[{i}] is a {type(item).__name__}: pass softcut.Graph objects.")
            if item.num_features != items[0].num_features:
                raise GraphError(
                    f"graphs[{i}] has {item.num_features} features but graphs[0] has "
                    f"{items[0].num_features}: give all graphs the same features."
                )
        sizes = np.array([item.num_nodes for item in items], dtype=np.int64)
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.concatenate([[0], np.cumsum([item.adjacency.nnz for item in items])]).astype(np.int64)
        dtype = np.int32 if max(start[-1], entries[-1]) < 2**31 else np.int64
        parts = [item.adjacency for item in items]
        adjacency = _csr(
            np.concatenate([a.data for a in parts]),
            np.concatenate([a.indices.astype(dtype) + dtype(s) for a, s in zip(parts, start, strict=False)]),
            np.concatenate(
                [np.zeros(1, dtype)]
                + [a.indptr[1:].astype(dtype) + dtype(e) for a, e in zip(parts, entries, strict=False)]
            ),
            int(start[-1]),
        )
        pointers = [
            (item.ptr[1:] if item.ptr is not None else sizes[i : i + 1]) + start[i]
            for i, item in enumerate(items)
        ]
        x: Any = None
        if items[0].x is not None:
            features = [item.x for item in items if item.x is not None]
            if all(sp.issparse(f) for f in features):
                x = sp.csr_array(sp.vstack(features, format="csr"))
            else:
                x = np.concatenate([_dense(f) for f in features])
        labels = [item.y for item in items if item.y is not None]
        names = [item.node_names for item in items if item.node_names is not None]
        result = object.__new__(cls)
        result._set(
            adjacency=adjacency,
            x=x,
            y=np.concatenate(labels) if len(labels) == len(items) else None,
            node_names=[n for part in names for n in part] if len(names) == len(items) else None,
            ptr=np.concatenate([np.zeros(1, np.int64), *pointers]).astype(np.int64),
            name=name,
            weighted=any(item.weighted for item in items),
        )
        return result

    def edge_index(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Both directions of every edge as an int64 array [2, E], and their weights (None when unweighted).

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]]).edge_index()
        (array([[0, 1],
           [1, 0]]), None)
        """
        a = self.adjacency
        rows = np.repeat(np.arange(self.num_nodes, dtype=np.int64), np.diff(a.indptr))
        return np.stack([rows, a.indices.astype(np.int64)]), (a.data if self.weighted else None)

    def to_networkx(self) -> Any:
        """The graph as a ``networkx.Graph``: ``weight`` on edges when weighted, ``y`` on nodes when known.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [1, 2]]).to_networkx().number_of_edges()
        2

        Nodes are called by their names, or by their indices when they have none (or names repeat in a batch).
        """
        nx = require("networkx", "all", "Graph.to_networkx")
        names: Sequence[Any] = range(self.num_nodes)
        if self.node_names is not None and len(set(self.node_names)) == self.num_nodes:
            names = self.node_names
        graph = nx.Graph(name=self.name or "")
        if self.y is None:
            graph.add_nodes_from(names)
        else:
            graph.add_nodes_from((n, {"y": int(v)}) for n, v in zip(names, self.y, strict=True))
        upper = sp.triu(self.adjacency, format="coo")
        pairs = ((names[u], names[v]) for u, v in zip(upper.row.tolist(), upper.col.tolist(), strict=True))
        if self.weighted:
            graph.add_weighted_edges_from(
                (u, v, w) for (u, v), w in zip(pairs, upper.data.tolist(), strict=True)
            )
        else:
            graph.add_edges_from(pairs)
        return graph

    def to_pyg(self) -> Any:
        """The graph as a PyTorch Geometric ``Data`` (a ``Batch`` for a batch); sparse features become dense.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]], x=[[1.0], [2.0]]).to_pyg()
        Data(edge_index=[2, 2], num_nodes=2, x=[2, 1])
        """
        pyg = require("torch_geometric.data", "pyg", "Graph.to_pyg")
        if self.ptr is not None:
            # All parts of a Batch need the same keys: weights for all of them when one has weights.
            parts = [graph._replace(weighted=self.weighted) for graph in self.split()]
            return pyg.Batch.from_data_list([part.to_pyg() for part in parts])
        torch = require("torch", "pyg", "Graph.to_pyg")
        edges, weight = self.edge_index()
        data = pyg.Data(edge_index=torch.from_numpy(edges), num_nodes=self.num_nodes)
        if weight is not None:
            data.edge_weight = torch.as_tensor(weight, dtype=torch.float32)
        if self.x is not None:
            data.x = torch.as_tensor(np.ascontiguousarray(_dense(self.x)))
        if self.y is not None:
            data.y = torch.as_tensor(self.y)
        return data


# ---------------------------------------------------------------------- arguments


def _as_array(value: Any, argument: str) -> np.ndarray:
    """A NumPy array of an array, list or torch tensor, or a GraphError that names the argument."""
    if hasattr(value, "detach"):  # torch, without importing it
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise GraphError(
            f"{argument} has rows of different lengths, or values that are not numbers: pass a full array."
        ) from None


def _dense(x: Any) -> np.ndarray:
    return x.toarray() if sp.issparse(x) else x


def _is_torch_sparse(value: Any) -> bool:
    return hasattr(value, "detach") and str(getattr(value, "layout", "")) in (
        "torch.sparse_coo",
        "torch.sparse_csr",
        "torch.sparse_csc",
    )


def _torch_sparse_to_scipy(value: Any) -> sp.csr_array:
    coo = value.detach().cpu().to_sparse_coo().coalesce()
    index = coo.indices().numpy()
    return sp.csr_array(sp.coo_array((coo.values().numpy(), (index[0], index[1])), shape=tuple(coo.shape)))


def _is_graph_like(value: Any) -> bool:
    """Whether a value is a graph or a matrix rather than one row of numbers."""
    if isinstance(value, Graph) or sp.issparse(value) or hasattr(value, "edge_index"):
        return True
    networkx = sys.modules.get("networkx")
    if networkx is not None and isinstance(value, networkx.Graph):
        return True
    return hasattr(value, "ndim") and value.ndim == 2


def _check_edge_index(edge_index: Any) -> tuple[np.ndarray, np.ndarray]:
    """Source and target arrays, int64, non-negative."""
    if isinstance(edge_index, (list, tuple)) and len(edge_index) == 2 and hasattr(edge_index[0], "detach"):
        edge_index = [_as_array(part, "edge_index") for part in edge_index]
    elif not hasattr(edge_index, "__array__") and not isinstance(edge_index, (list, tuple)):
        try:
            edge_index = list(edge_index)
        except TypeError:
            raise GraphError(
                f"edge_index is a {type(edge_index).__name__}: pass integers of shape [2, E] or pairs."
            ) from None
    array = _as_array(edge_index, "edge_index")
    if array.size == 0 and array.ndim <= 2:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty
    if array.ndim != 2 or 2 not in array.shape:
        raise GraphError(
            f"edge_index has shape {_shape(array)}: pass integers of shape [2, E] or a list of pairs."
        )
    pairs = array.shape[0] != 2
    if array.dtype.kind == "f":
        # Ids that went through a float table are fine as long as they are whole numbers.
        with np.errstate(invalid="ignore"):
            wrong = ~(np.isfinite(array) & (array == np.floor(array)) & (np.abs(array) < 2**53))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise GraphError(
                f"edge_index has {array[at]} at position {at}, which is not an integer node index: "
                "number the nodes 0 to N-1."
            )
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise GraphError(
            f"edge_index has dtype {array.dtype}: pass integer node indices (0 to N-1), and names as "
            "node_names."
        )
    if array.min() < 0:
        at = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise GraphError(
            f"edge_index has the negative index {int(array[at])} at position {at}: number the nodes from 0."
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise GraphError(
            f"edge_index has node index {int(array.max())}, too large: number the nodes 0 to N-1."
        )
    if pairs:
        array = array.T
    return array[0], array[1]


def _check_weights(weight: Any, count: int, argument: str) -> np.ndarray | None:
    """Float32/float64 weights, finite and non-negative."""
    if weight is None:
        return None
    array = _as_array(weight, argument)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (count,) and not (count == 0 and array.size == 0):
        raise GraphError(
            f"{argument} has shape {_shape(array)} but there are {count} edges: pass one weight per edge."
        )
    return _check_weight_values(array, argument)


def _check_weight_values(array: np.ndarray, argument: str) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise GraphError(f"{argument} has dtype {array.dtype}: pass numbers.")
    if array.size:
        # One reduction finds NaN, infinity and negatives without a temporary: min and max propagate NaN.
        low, high = array.min(), array.max()
        if not (low >= 0 and np.isfinite(high)):
            bad = (array < 0) | ~np.isfinite(array)
            at = int(np.flatnonzero(bad)[0])
            kind = "negative" if array[at] < 0 and np.isfinite(array[at]) else "not finite"
            raise GraphError(
                f"{argument} is {kind} at position {at} ({array[at]}): weights must be non-negative, finite "
                "similarities; remove or transform such edges."
            )
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return array.astype(dtype, copy=False)


def _check_count(value: Any, argument: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise GraphError(f"{argument} is {value!r}: pass a whole number.") from None
    if count < 0:
        raise GraphError(f"{argument} is {count}: pass a non-negative number.")
    if count >= 2**31 - 1:
        raise GraphError(f"{argument} is {count}: graphs of 2**31 or more nodes are not supported.")
    return count


def _node_count(
    num_nodes: Any, x: Any, y: Any, node_names: Any, source: np.ndarray, target: np.ndarray
) -> tuple[int, str]:
    """The number of nodes and, for messages, where it was taken from."""
    if num_nodes is not None:
        return _check_count(num_nodes, "num_nodes"), "num_nodes"
    for value, origin in ((x, "the rows of x"), (y, "the length of y"), (node_names, "node_names")):
        if value is not None:
            try:
                return (int(value.shape[0]) if hasattr(value, "shape") else len(value)), origin
            except (TypeError, IndexError):
                argument = origin.split()[-1]
                raise GraphError(f"{argument} is {value!r}: pass one entry per node.") from None
    if source.size == 0:
        raise GraphError("the graph has no edges and num_nodes is not given: pass num_nodes.")
    n = int(max(source.max(), target.max())) + 1
    if n > max(_MAX_INFERRED_NODES, 100 * source.size) or n >= 2**31 - 1:
        raise GraphError(
            f"edge_index has node index {n - 1} in a graph of {source.size} edges: number the nodes 0 to N-1 "
            "(np.unique(edge_index, return_inverse=True)), or pass num_nodes if this is meant."
        )
    return n, "the largest index"


def _check_features(x: Any, n: int) -> np.ndarray | sp.csr_array | None:
    """Features as float32, dense or CSR as they came."""
    if x is None:
        return None
    if _is_torch_sparse(x):
        x = _torch_sparse_to_scipy(x)
    sparse = sp.issparse(x)
    if not sparse:
        x = _as_array(x, "x")
    if x.ndim != 2:
        raise GraphError(
            f"x has shape {_shape(x)}: pass one row per node (x.reshape(-1, 1) for a single feature)."
        )
    if x.shape[0] != n:
        raise GraphError(f"x has {x.shape[0]} rows but the graph has {n} nodes: pass one row per node.")
    if x.shape[1] == 0:
        raise GraphError("x has no columns: pass x=None for a graph without features.")
    if x.dtype.kind not in "biuf":
        raise GraphError(f"x has dtype {x.dtype}: pass numbers; encode categories as columns of 0 and 1.")
    if sparse and x.format in ("csr", "csc", "bsr"):
        try:
            x.check_format(full_check=True)  # a wrong index must not reach compiled code
        except (ValueError, IndexError) as error:
            raise GraphError(f"x is not a valid sparse matrix: {error}.") from None
    with np.errstate(over="ignore"):
        if sparse:
            result = sp.csr_array(x, dtype=np.float32)
            if not (result.has_canonical_format and result.data.all()):
                result = result.copy()  # do not tidy the caller's matrix in place
                result.sum_duplicates()
                result.eliminate_zeros()
            values = result.data
        else:
            result = values = x.astype(np.float32, copy=False)
    if values.size and not (np.isfinite(values.min()) and np.isfinite(values.max())):
        at = int(np.flatnonzero(~np.isfinite(values.ravel()))[0])
        if sparse:
            row = int(np.searchsorted(result.indptr, at, side="right")) - 1
            column = int(result.indices[at])
            original = sp.csr_array(x)[row, column]
        else:
            row, column = divmod(at, x.shape[1])
            original = x[row, column]
        problem = "does not fit in float32" if np.isfinite(original) else "is not finite"
        raise GraphError(
            f"x[{row}, {column}] is {original}, which {problem}: replace or rescale such values first."
        )
    return result


def _check_labels(y: Any, n: int) -> np.ndarray | None:
    if y is None:
        return None
    array = _as_array(y, "y")
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.ndim != 1 or array.shape[0] != n:
        raise GraphError(f"y has shape {_shape(array)} but the graph has {n} nodes: pass one label per node.")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise GraphError(
            f"y has dtype {array.dtype}: pass integers (np.unique(y, return_inverse=True)[1] makes them)."
        )
    return array.astype(np.int64, copy=False)


def _check_names(names: Any, n: int, ptr: np.ndarray | None) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, (str, bytes)):
        raise GraphError("node_names is a single string: pass a list with one name per node.")
    try:
        result = [str(name) for name in names]
    except TypeError:
        raise GraphError(f"node_names is {names!r}: pass a list with one name per node.") from None
    if len(result) != n:
        raise GraphError(f"node_names has {len(result)} names but the graph has {n} nodes.")
    bounds = [0, n] if ptr is None else ptr.tolist()
    for start, end in pairwise(bounds):
        if len(set(result[start:end])) < end - start:
            seen: set[str] = set()
            for name in result[start:end]:
                if name in seen:
                    raise GraphError(f"node_names has {name!r} more than once: names must be unique.")
                seen.add(name)
    return result


def _check_ptr(ptr: Any, adjacency: sp.csr_array) -> np.ndarray | None:
    if ptr is None:
        return None
    array = _as_array(ptr, "ptr")
    n = adjacency.shape[0]
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "iu":
        raise GraphError("ptr must be a list of integers: 0, and the node count up to each graph.")
    array = array.astype(np.int64)
    if array[0] != 0 or array[-1] != n:
        raise GraphError(
            f"ptr runs from {array[0]} to {array[-1]}: it must start at 0 and end at {n} (nodes)."
        )
    if np.any(np.diff(array) <= 0):
        at = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise GraphError(f"ptr gives graph {at} no nodes: every graph of a batch needs at least one.")
    rows = np.flatnonzero(np.diff(adjacency.indptr))
    if rows.size:
        block = np.searchsorted(array, rows, side="right") - 1
        # Indices are sorted, so the first and last neighbour of a row bound all others.
        first = adjacency.indices[adjacency.indptr[rows]]
        last = adjacency.indices[adjacency.indptr[rows + 1] - 1]
        crossing = (first < array[block]) | (last >= array[block + 1])
        if crossing.any():
            row = int(rows[crossing][0])
            raise GraphError(f"ptr cuts an edge: node {row} has a neighbour in another graph of the batch.")
    return array


def _networkx_features(
    graph: Any, nodes: list[Any], features: str | Sequence[str] | None
) -> np.ndarray | None:
    if features is None:
        return None
    if isinstance(features, str) and features == "attributes":
        first = graph.nodes[nodes[0]]
        keys = [
            key
            for key in first
            if all(
                isinstance(graph.nodes[n].get(key), (int, float, np.number))
                and not isinstance(graph.nodes[n].get(key), bool)
                for n in nodes
            )
        ]
        if not keys:
            raise GraphError("features='attributes' found no node attribute that is a number at every node.")
    else:
        keys = [features] if isinstance(features, str) else list(features)
        if not keys:
            raise GraphError("features is an empty list: name node attributes, or pass None.")
    columns = []
    for key in keys:
        for node in nodes:
            if key not in graph.nodes[node]:
                raise GraphError(f"features names {key!r}, which node {node!r} does not have.")
        column = _as_array([graph.nodes[node][key] for node in nodes], f"features ({key!r})")
        if column.dtype.kind not in "biuf" or column.ndim > 2:
            raise GraphError(f"features names {key!r}, which is not a number at every node.")
        columns.append(column.reshape(len(nodes), -1).astype(np.float64))
    return np.concatenate(columns, axis=1)


def _check_self_loops(self_loops: str) -> None:
    if self_loops not in ("drop", "keep"):
        raise ParameterError(f"self_loops is {self_loops!r}: choose 'drop' or 'keep'.")


# ---------------------------------------------------------------------- adjacency matrices


def _csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n: int) -> sp.csr_array:
    """A square CSR array of parts known to be canonical."""
    matrix = sp.csr_array((data, indices, indptr), shape=(n, n))
    matrix.has_canonical_format = True
    return matrix


def _from_pairs(
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    n: int,
    self_loops: str,
    directed: bool | None,
) -> sp.csr_array:
    """The symmetric adjacency of validated edges."""
    _check_self_loops(self_loops)
    dtype = np.int32 if 2 * source.size < 2**31 else np.int64
    source, target = source.astype(dtype, copy=False), target.astype(dtype, copy=False)
    if self_loops == "drop":
        loops = source == target
        count = int(np.count_nonzero(loops))
        if count:
            _warn_loops(count)
            keep = np.logical_not(loops, out=loops)
            source, target = source[keep], target[keep]
            weight = None if weight is None else weight[keep]
    if weight is not None and not weight.all():
        keep = weight != 0
        source, target, weight = source[keep], target[keep], weight[keep]
    # Booleans are merged with "or" and take an eighth of the memory: no weight, no sum.
    data = np.ones(source.size, dtype=bool) if weight is None else weight
    with np.errstate(over="ignore"):
        matrix = sp.csr_array(sp.coo_array((data, (source, target)), shape=(n, n)))
    _check_overflow(matrix, "edge_weight")
    matrix = _symmetrised(matrix, directed, "edge_index")
    if weight is None:
        matrix = _csr(np.ones(matrix.nnz), matrix.indices, matrix.indptr, n)
    return matrix


def _canonical(adjacency: Any, argument: str) -> sp.csr_array:
    """A sorted, merged, checked float CSR copy (or view, when nothing had to change) of a sparse matrix."""
    if not sp.issparse(adjacency):
        raise GraphError(f"{argument} is a {type(adjacency).__name__}: pass a scipy sparse matrix.")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(f"{argument} has shape {_shape(adjacency)}: pass a square, N x N matrix.")
    if adjacency.shape[0] == 0:
        raise GraphError(f"{argument} has no nodes: pass a matrix of at least 1 x 1.")
    _check_count(adjacency.shape[0], "the number of nodes")
    if adjacency.dtype.kind not in "biuf":
        raise GraphError(f"{argument} has dtype {adjacency.dtype}: pass non-negative numbers.")
    try:
        if adjacency.format in ("csr", "csc", "coo", "bsr"):
            # Duplicates are summed on conversion, which may hide a negative weight: look before.
            _check_weight_values(adjacency.data.ravel(), f"{argument}.data")
        if adjacency.format in ("csr", "csc", "bsr"):
            adjacency.check_format(full_check=True)
        with np.errstate(over="ignore"):
            matrix = sp.csr_array(adjacency)
            data = _check_weight_values(matrix.data, f"{argument}.data")
            # The flags are looked up on a fresh object: the caller may have edited the arrays behind them.
            matrix = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
            if not matrix.has_canonical_format or not data.all():
                matrix = matrix.copy()
                matrix.sum_duplicates()
                matrix.eliminate_zeros()
    except (ValueError, IndexError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{argument} is not a valid sparse matrix: {error}.") from None
    _check_overflow(matrix, f"{argument}.data")
    if matrix.indices.dtype != np.int32 and matrix.nnz < 2**31:
        matrix = _csr(
            matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32), matrix.shape[0]
        )
    return matrix


def _without_loops(matrix: sp.csr_array, self_loops: str) -> sp.csr_array:
    _check_self_loops(self_loops)
    if self_loops == "keep":
        return matrix
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    loops = rows == matrix.indices
    count = int(np.count_nonzero(loops))
    if not count:
        return matrix
    _warn_loops(count)
    per_row = np.bincount(rows[loops], minlength=matrix.shape[0])
    indptr = matrix.indptr - np.concatenate([[0], np.cumsum(per_row)]).astype(matrix.indptr.dtype)
    keep = np.logical_not(loops, out=loops)
    return _csr(matrix.data[keep], matrix.indices[keep], indptr, matrix.shape[0])


def _symmetrised(matrix: sp.csr_array, directed: bool | None, argument: str) -> sp.csr_array:
    """max(A, A'), exactly symmetric, with one warning when the two differ in earnest.

    ``directed=None`` reads a matrix without a single reversed pair as a list that gives every edge once.
    """
    transposed = matrix.T.tocsr()
    if _same_pattern(matrix, transposed):
        if matrix.dtype == bool or np.array_equal(matrix.data, transposed.data):
            return matrix
        # Sums taken in different orders differ in the last bits: not worth a word.
        tolerance = 1e-5 if matrix.dtype == np.float32 else 1e-12
        larger = np.maximum(matrix.data, transposed.data)
        unequal = int(
            np.count_nonzero(larger - np.minimum(matrix.data, transposed.data) > tolerance * larger)
        )
        if unequal and directed is not False:
            _warn(
                f"{argument} is directed: {_plural(unequal // 2, 'edge')} out of {matrix.nnz // 2} "
                f"{'has' if unequal == 2 else 'have'} another weight in the other direction; "
                "symmetrised with the larger of the two."
            )
        return _csr(larger, matrix.indices, matrix.indptr, matrix.shape[0])
    merged = sp.csr_array(matrix.maximum(transposed))
    merged.sort_indices()
    loops = int(np.count_nonzero(matrix.diagonal()))
    edges = matrix.nnz - loops
    reversed_too = 2 * edges - (merged.nnz - loops)  # entries whose reverse is an entry as well
    if directed or (directed is None and reversed_too > 0):
        one_way = edges - reversed_too
        _warn(
            f"{argument} is directed: {one_way} of {edges} edges {'has' if one_way == 1 else 'have'} no edge "
            "in the other direction; symmetrised with the larger weight of the two directions."
        )
    return merged


def _same_pattern(a: sp.csr_array, b: sp.csr_array) -> bool:
    return a.nnz == b.nnz and np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)


def _check_overflow(matrix: sp.csr_array, argument: str) -> None:
    if matrix.dtype != bool and matrix.nnz and not np.isfinite(matrix.data.max()):
        at = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise GraphError(
            f"{argument} is too large: the repeated edge ({row}, {int(matrix.indices[at])}) sums to more "
            f"than {matrix.dtype} can hold; divide all weights by a common factor."
        )


# ---------------------------------------------------------------------- words


def _warn_loops(count: int) -> None:
    _warn(
        f"{_plural(count, 'self-loop')} dropped; pass self_loops='keep' to keep "
        f"{'it' if count == 1 else 'them'}."
    )


def _warn(message: str) -> None:
    """Warn at the first caller outside softcut, however deep the constructor was called from."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("softcut."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _shape(array: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in array.shape)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
