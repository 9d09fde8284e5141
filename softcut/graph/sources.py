"""Graphs of tables of features, and of objects that other libraries know as something else than a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from softcut.errors import Note, ParameterError
from softcut.graph.base import BaseGraph
from softcut.graph.checks import check_features
from softcut.graph.conversions import edges_of_dgl, matrix_of_anndata
from softcut.graph.neighbours import N_NEIGHBORS, check_neighbors, neighbour_graph
from softcut.tables.arrays import as_array, plural
from softcut.tables.choices import Missing, SelfLoops
from softcut.tables.columns import FeatureOptions, FeatureTable
from softcut.tables.feature_columns import feature_table
from softcut.tables.frames import is_frame, table_of_frame
from softcut.tables.schema import TableSchema


class GraphSources(BaseGraph):
    """Constructors of :class:`softcut.graph.Graph` for what holds no list of edges."""

    @classmethod
    def from_features(
        cls,
        X: Any,
        n_neighbors: int = N_NEIGHBORS,
        *,
        ids: str | int | Literal[False] | None = None,
        columns: Sequence[str | int] | None = None,
        drop: Sequence[str | int] = (),
        categories: bool | Sequence[str | int] = (),
        dates: Sequence[str | int] | Mapping[str, str] = (),
        missing: Missing = "error",
        schema: TableSchema | None = None,
        node_names: Any = None,
        feature_names: Any = None,
        y: Any = None,
        name: str | None = None,
    ) -> Self:
        """Build a graph from features alone: each row is connected with its nearest rows.

        >>> import numpy as np
        >>> from softcut.graph import Graph
        >>> Graph.from_features(np.array([[1.0], [1.1], [7.0], [7.2]]), n_neighbors=1)
        Graph(4 nodes, 2 edges, 1 feature)

        Columns are brought to one scale first: numbers are standardised, robustly, a category counts as one column,
        rows of words are compared by their angle. Edges have no weights. The graph remembers how many nearest rows its
        edges were made from (``graph.neighbors``).

        Parameters
        ----------
        X
            One row per node: an array, a sparse matrix, or a data frame, whose index or column of ids names the nodes.
        n_neighbors
            Neighbours per row; an edge of either row is an edge of both.
        ids, columns, drop, categories, dates, missing, schema
            How to read a data frame; see :func:`softcut.read_graph`.
        node_names, feature_names, y, name
            See :class:`Graph`.
        """
        options = FeatureOptions.checked(ids, missing, columns, drop, categories, dates, schema)
        said: list[Note] = []
        if is_frame(X):
            X = feature_table(table_of_frame(X, "X"), options)
        if isinstance(X, FeatureTable):  # what a file or a frame was read as
            schema, said = X.schema, list(X.notes)
            node_names = X.ids if node_names is None else node_names
            feature_names = X.names if feature_names is None else feature_names
            X = X.x
        else:
            options.check_table("X")
            if schema is not None:
                raise ParameterError(
                    "schema is that of a table, but X is none: pass a data frame.", argument="schema"
                )
        rows = X.shape[0] if hasattr(X, "shape") and len(X.shape) == 2 else len(as_array(X, "X"))
        x = check_features(X, rows)
        count = check_neighbors(n_neighbors, rows)
        adjacency = neighbour_graph(x, count, None if schema is None else schema.kinds)
        said.append(Note("neighbours", f"edges to the {plural(count, 'nearest row')}", neighbors=count))
        graph = cls._build(adjacency, x, y, node_names, None, name, feature_names, said, schema)
        return graph._replace(neighbors=count)

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        features: str | None = "X",
        neighbors: str = "connectivities",
        self_loops: SelfLoops = "drop",
        *,
        name: str | None = None,
    ) -> Self:
        """Build a graph from an AnnData: the neighbours of its cells and what was measured.

        >>> import anndata, numpy as np, scipy.sparse as sp
        >>> from softcut.graph import Graph
        >>> adata = anndata.AnnData(np.eye(3, dtype="float32"))
        >>> adata.obsp["connectivities"] = sp.csr_matrix([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> Graph.from_anndata(adata)
        Graph(3 nodes, 2 edges, 3 features)

        Parameters
        ----------
        adata
            The object; softcut does not change it.
        features
            ``"X"``, a key of ``adata.obsm`` such as ``"X_pca"``, or None.
        neighbors
            Key of ``adata.obsp``, as ``scanpy.pp.neighbors`` fills it.
        self_loops, name
            See :meth:`Graph.from_edges`.
        """
        made: Any = cls  # from_scipy is the subclass's
        parts = matrix_of_anndata(adata, features, neighbors)
        return made.from_scipy(**parts, self_loops=self_loops, name=name)

    @classmethod
    def from_dgl(
        cls,
        graph: Any,
        features: str | None = None,
        weight: str | None = None,
        self_loops: SelfLoops = "drop",
        *,
        weighted: bool = True,
        name: str | None = None,
    ) -> Self:
        """Build a graph from a DGL graph, or a batch of them.

        ``Graph.from_dgl(dgl.graph(([0, 1], [1, 2])))`` has three nodes and two edges.

        Parameters
        ----------
        graph
            A graph with one type of nodes and edges.
        features, weight
            Keys of ``graph.ndata`` and ``graph.edata``; None: "feat" or "x", and "weight" or another usual name,
            where they are there. ``ndata["label"]`` becomes the labels.
        self_loops, weighted, name
            See :meth:`Graph.from_edges`.
        """
        made: Any = cls
        parts: dict[str, Any] = {"self_loops": self_loops, "weighted": weighted, "name": name}
        return made.from_edges(**edges_of_dgl(graph, features, weight), **parts)
