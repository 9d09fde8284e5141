"""The graph every part of softcut works on, made from whatever holds one and checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, Note
from softcut.graph.adjacency import adjacency_of_edges, canonical_csr, symmetrised, without_self_loops
from softcut.graph.checks import check_edge_index, check_range, check_weights, node_count
from softcut.graph.conversions import (
    edges_of_igraph,
    edges_of_networkx,
    edges_of_pyg,
    kind_of_graph,
    networkx_of,
    pyg_of,
)
from softcut.graph.html import html_of
from softcut.graph.sources import GraphSources
from softcut.tables.arrays import as_array, is_torch_sparse, shape_of, torch_sparse_to_scipy
from softcut.tables.choices import Missing, SelfLoops
from softcut.tables.columns import FeatureOptions
from softcut.tables.edge_columns import edge_table_of_labels
from softcut.tables.frames import (
    NodeTable,
    edges_of_frame,
    edges_with_features,
    is_frame,
    is_node_table,
    labelled_adjacency,
    reading_options_named,
)
from softcut.tables.schema import TableSchema


@dataclass(frozen=True, eq=False, repr=False)
class Graph(GraphSources):
    """An undirected graph: symmetric non-negative adjacency matrix, optional node features.

    >>> from softcut.graph import Graph
    >>> g = Graph.from_edges([[0, 1], [1, 2]], x=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> g, g.adjacency.toarray().tolist()
    (Graph(3 nodes, 2 edges, 2 features), [[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])

    Use one of the constructors ``from_...``, or :func:`softcut.read_graph` for files. Calling ``Graph(adjacency)``
    itself is strict: the matrix must already be symmetric, and its self-loops stay.

    Parameters
    ----------
    adjacency
        Sparse symmetric matrix, N x N, non-negative. Stored as a ``scipy.sparse.csr_array`` with sorted
        indices, no duplicates and no explicit zeros, float64 (float32 where the weights came as float32).
    x
        Node features, N x F. Dense stays a dense array, sparse stays a ``csr_array``; stored as float32. The rows
        of a data frame are joined by its index, or by a column that holds the names of the nodes.
    y
        Integer labels, one per node, for scoring only.
    node_names
        One name per node (unique; within each graph of a batch).
    ptr
        Batch pointer: graph b owns the nodes ``ptr[b]`` to ``ptr[b + 1] - 1``. None for a single graph.
    name
        What to call the graph in reports.
    feature_names
        One name per feature column; taken from the titles when ``x`` is a data frame.
    notes
        What was understood when it was made: texts with a ``code`` and ``values`` (:class:`softcut.errors.Note`).
    schema
        What the columns of the table were that ``x`` was made of (:class:`softcut.tables.schema.TableSchema`); set
        where ``x`` is a data frame or a file.

    Attributes
    ----------
    weighted : bool
        False when every stored weight is 1.
    node_kinds : list of str or None
        The kind of each node, where there are several, such as "user" and "movie"; see :meth:`with_node_kinds`.
    neighbors : int or None
        How many nearest rows of ``x`` each node was connected with (:meth:`from_features`); None for other graphs.
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
        weighted: bool = True,
        ptr: Any = None,
        name: str | None = None,
        feature_names: Sequence[str] | None = None,
        node_kinds: Sequence[str] | None = None,
        notes: Sequence[str] = (),
        schema: TableSchema | None = None,
    ) -> Graph:
        """Build a graph from a list of edges.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 0, 1], [1, 2, 2]], edge_weight=[1.0, 2.0, 0.5])
        Graph(3 nodes, 3 edges, weighted)
        >>> Graph.from_edges([(0, 1), (1, 2), (2, 3)], num_nodes=5)
        Graph(5 nodes, 3 edges)

        A list that gives every edge once, in one direction, and a list that gives both directions of every
        edge with equal weights make the same graph. Otherwise edges that are given several times add up, in either
        direction, and each of them counts 1 where there are no weights. Edges of weight zero are dropped.

        >>> float(Graph.from_edges([(0, 1), (1, 0), (0, 1), (1, 2)], directed=False).adjacency[0, 1])
        3.0

        Parameters
        ----------
        edge_index
            Integers of shape [2, E], or pairs of shape [E, 2] (a 2 x 2 array is read as [2, E]): NumPy array,
            list, or torch tensor.
        x, y, node_names, ptr, name, feature_names, node_kinds, notes, schema
            See :class:`Graph`.
        edge_weight
            E non-negative finite weights; None means all 1.
        num_nodes
            Number of nodes; by default the length of x, y or node_names, else the largest index + 1.
        self_loops
            ``"drop"`` removes self-loops, with a warning that counts them; ``"keep"`` stores them on the
            diagonal.
        directed
            None (default) warns when only some edges come with their reverse, or when the directions have different
            weights. True warns about every edge without an equal reverse; False never warns.
        weighted
            False: every edge weighs 1, however often it is given and whatever its weight.
        """
        source, target = check_edge_index(edge_index)
        weight = check_weights(edge_weight, source.size, "edge_weight")
        if num_nodes is None and node_names is not None and is_node_table(x):
            num_nodes = len(node_names)  # a frame may have rows of other nodes
        n, origin = node_count(num_nodes, x, y, node_names, source, target)
        check_range(source, target, n, origin)
        said = list(notes)
        adjacency = adjacency_of_edges(source, target, weight, n, self_loops, directed, said, weighted)
        graph = cls._build(adjacency, x, y, node_names, ptr, name, feature_names, said, schema)
        return graph if node_kinds is None else graph.with_node_kinds(node_kinds)

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
        feature_names: Sequence[str] | None = None,
        notes: Sequence[str] = (),
        directed: bool | None = None,
    ) -> Graph:
        """Build a graph from any sparse matrix A [N, N] of scipy; an asymmetric one becomes A + A'.

        >>> import scipy.sparse as sp
        >>> from softcut.graph import Graph
        >>> Graph.from_scipy(sp.csr_array([[0, 2], [2, 0]]))
        Graph(2 nodes, 1 edge, weighted)

        A self-loop has one direction and stays as it is. ``directed=False`` gives no warning; the other arguments are
        those of :meth:`from_edges`.
        """
        matrix = canonical_csr(adjacency, "adjacency")
        said = list(notes)
        matrix = without_self_loops(matrix, self_loops, said)
        matrix = symmetrised(matrix, directed is not False, "adjacency", said)
        return cls._build(matrix, x, y, node_names, ptr, name, feature_names, said)

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
        feature_names: Sequence[str] | None = None,
        notes: Sequence[str] = (),
        directed: bool | None = None,
    ) -> Graph:
        """Build a graph from a square array of weights, zero meaning no edge.

        >>> from softcut.graph import Graph
        >>> Graph.from_dense([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        Graph(3 nodes, 2 edges)

        The labels of a data frame become the names of the nodes; the other arguments are those of :meth:`from_scipy`.
        """
        if is_frame(adjacency):
            square = labelled_adjacency(adjacency, "adjacency")
            if square is None:
                raise GraphError(
                    "adjacency is a data frame whose rows and columns have different labels: label both with the "
                    "nodes, or pass a list of edges to Graph.from_frame."
                )
            adjacency, node_names = square[0], square[1] if node_names is None else node_names
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
        parts = {"ptr": ptr, "name": name, "feature_names": feature_names, "notes": notes}
        matrix = sp.csr_array(dense)
        return cls.from_scipy(matrix, x, self_loops, y, node_names, directed=directed, **parts)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        weight: str | None = "weight",
        features: str | Sequence[str] | None = None,
        self_loops: SelfLoops = "drop",
        *,
        weighted: bool = True,
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
            Any networkx graph. Parallel edges, and the two directions of a directed one, add up.
        weight
            Edge attribute that holds the weight; edges without it weigh 1. None: every edge weighs 1.
        features
            Node attribute, or list of them, to use as features (numbers, or vectors of equal length);
            ``"attributes"`` takes every attribute that is a number at every node.
        self_loops, weighted, name
            See :meth:`from_edges`.
        """
        return cls.from_edges(
            **edges_of_networkx(graph, weight if weighted else None, features),
            self_loops=self_loops,
            name=name if name is not None else (str(getattr(graph, "name", "")) or None),
        )

    @classmethod
    def from_igraph(
        cls,
        graph: Any,
        weight: str | None = "weight",
        features: str | Sequence[str] | None = None,
        self_loops: SelfLoops = "drop",
        *,
        weighted: bool = True,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from an igraph graph; arguments as for :meth:`from_networkx`.

        >>> import igraph
        >>> from softcut.graph import Graph
        >>> Graph.from_igraph(igraph.Graph.Ring(5))
        Graph(5 nodes, 5 edges)
        """
        parts = edges_of_igraph(graph, weight if weighted else None, features)
        return cls.from_edges(**parts, self_loops=self_loops, name=name)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        x: Any = None,
        source: str | int | None = None,
        target: str | int | None = None,
        weight: str | int | None = None,
        self_loops: SelfLoops = "drop",
        directed: bool | None = None,
        *,
        weighted: bool | Literal["auto"] = "auto",
        bipartite: bool | None = None,
        ids: str | int | Literal[False] | None = None,
        columns: Sequence[str | int] | None = None,
        drop: Sequence[str | int] = (),
        categories: bool | Sequence[str | int] = (),
        dates: Sequence[str | int] | Mapping[str, str] = (),
        missing: Missing = "error",
        schema: TableSchema | None = None,
        name: str | None = None,
    ) -> Graph:
        """Build a graph from a pandas or polars data frame: a labelled adjacency matrix, or one edge per row.

        >>> import pandas as pd
        >>> from softcut.graph import Graph
        >>> links = pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cy"], "year": [2019, 2021]})
        >>> g = Graph.from_frame(links)
        >>> g, g.notes[0]
        (Graph(3 nodes, 2 edges, named nodes), "source 'source', target 'target', no weight, ignored 'year'")
        >>> people = pd.DataFrame({"name": ["ann", "bob", "cy"], "age": [31, 45, 28], "city": ["Oslo", "Rome", "Oslo"]})
        >>> g = Graph.from_frame(links, people, categories=["city"])
        >>> g.feature_names, g.notes[-1]
        (['age', 'city=Oslo', 'city=Rome'], "columns: 'name' id, 'age' number, 'city' category (2 values)")

        Parameters
        ----------
        frame
            A square frame whose rows and columns have the same labels is an adjacency matrix, whatever their
            order. Any other frame is a list of edges.
        x
            Node features, usually a frame with one row per node; rows of nodes that no edge mentions add nodes
            without edges.
        source, target, weight
            Titles (or positions) of the columns. By default they are recognised by their titles; a weight is a
            column called weight, w, value, strength, count or similarity.
        weighted
            "auto" uses a column of weights where there is one, else counts how often an edge is given; True insists on
            weights; False: every edge weighs 1.
        bipartite
            Whether the two columns hold two kinds of nodes, such as users and movies, so that an id in both is two
            nodes; `node_kinds` has the kind of each. None decides by titles and values, and says so in `notes`.
        ids, columns, drop, categories, dates, missing, schema
            How to read the table of features; see :func:`softcut.read_graph`.
        self_loops, directed, name
            See :meth:`from_edges`.
        """
        options = FeatureOptions.checked(ids, missing, columns, drop, categories, dates, schema)
        if is_frame(x):
            x = NodeTable(x, options)
        elif not isinstance(x, NodeTable):
            options.check_table("x")
        asked = source is not None or target is not None or weight is not None or bipartite is not None
        square = None if asked else labelled_adjacency(frame, "the graph")
        if square is not None:
            aligned = "" if square[1] is None else ", columns aligned with rows by label"
            made = cls.from_dense(square[0], x=x, self_loops=self_loops, node_names=square[1], name=name)
            return made.with_notes(Note("adjacency_matrix", f"adjacency matrix{aligned}"))
        edges, ends = edges_of_frame(frame, "the graph", source, target, weight, weighted)
        parts = edges_with_features(edges, x, [ends.note()], bipartite)
        parts |= {"self_loops": self_loops, "directed": directed, "weighted": weighted is not False}
        return cls.from_edges(**parts, name=name)

    @classmethod
    def from_pyg(
        cls, data: Any, self_loops: SelfLoops = "drop", *, weighted: bool = True, name: str | None = None
    ) -> Graph:
        """Build a graph from a PyTorch Geometric ``Data`` or ``Batch``.

        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from softcut.graph import Graph
        >>> Graph.from_pyg(Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.eye(2)))
        Graph(2 nodes, 1 edge, 2 features)

        Uses ``edge_index``; ``edge_weight``, or ``edge_attr`` when it is one column of floats; ``x``; ``y`` when it is
        one integer per node; ``ptr`` or ``batch``. The other arguments are those of :meth:`from_edges`.
        """
        return cls.from_edges(**edges_of_pyg(data), self_loops=self_loops, weighted=weighted, name=name)

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
            Anything the other constructors take: a :class:`Graph`, a matrix of scipy, NumPy or torch, integer edges
            [2, E] or [E, 2], pairs of indices or of names, a data frame, a graph of networkx, igraph, DGL or PyTorch
            Geometric, an AnnData; a pair ``(adjacency, X)`` of any of these and features; or a list of graphs, which
            becomes a batch. Four integers, 2 x 2, may be a matrix or edges and are refused as a list.
        x
            Node features; they replace those of ``obj``.
        """
        kind = kind_of_graph(obj)
        if kind == "graph and features":
            return cls.from_any(obj[0], x=obj[1] if x is None else x)
        if is_node_table(x):
            with reading_options_named():
                return cls._from_kind(kind, obj, x)
        return cls._from_kind(kind, obj, x)

    @classmethod
    def _from_kind(cls, kind: str, obj: Any, x: Any) -> Graph:
        if kind == "named pairs":
            edges = edge_table_of_labels(["" if end is None else str(end) for end in pair] for pair in obj)
            return cls.from_edges(**edges_with_features(edges, x))
        takes_features: dict[str, Callable[..., Graph]] = {
            "frame": cls.from_frame,
            "dense": cls.from_dense,
            "edges": cls.from_edges,
            "scipy": cls.from_scipy,
        }
        if kind in takes_features:
            return takes_features[kind](torch_sparse_to_scipy(obj) if is_torch_sparse(obj) else obj, x=x)
        has_features: dict[str, Callable[..., Graph]] = {
            "graph": lambda graph: graph,
            "graphs": lambda graphs: cls.batch([cls.from_any(item) for item in graphs]),
            "networkx": cls.from_networkx,
            "igraph": cls.from_igraph,
            "pyg": cls.from_pyg,
            "dgl": cls.from_dgl,
            "anndata": cls.from_anndata,
        }
        graph = has_features[kind](obj)
        return graph if x is None else graph.with_features(x)

    def _repr_html_(self) -> str:
        return html_of(self)

    def to_networkx(self) -> Any:
        """The graph as a ``networkx.Graph``: ``weight`` on edges when weighted, ``y`` on nodes when known.

        Nodes are called by their names, or by their indices when they have none (or names repeat in a batch).

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [1, 2]]).to_networkx().number_of_edges()
        2
        """
        return networkx_of(self)

    def to_pyg(self) -> Any:
        """The graph as a PyTorch Geometric ``Data`` (a ``Batch`` for a batch); sparse features become dense.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]], x=[[1.0], [2.0]]).to_pyg()
        Data(edge_index=[2, 2], num_nodes=2, x=[2, 1])
        """
        return pyg_of(self, self.weighted)
