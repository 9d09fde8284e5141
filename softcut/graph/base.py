"""The contents of a graph and what can be made of them; the constructors of ``Graph`` are in graph.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError
from softcut.graph.adjacency import canonical_csr, same_pattern
from softcut.graph.checks import (
    check_feature_names,
    check_features,
    check_labels,
    check_names,
    check_node_selection,
    check_ptr,
)
from softcut.tables.arrays import listed, plural, to_dense
from softcut.tables.frames import aligned_series, features_of_frame, is_node_table, reading_options_named
from softcut.tables.kinds import kinds_of_columns
from softcut.tables.schema import TableSchema


@dataclass(frozen=True, eq=False)
class BaseGraph:
    """The contents of a graph, checked when it is made; see :class:`softcut.graph.Graph`."""

    adjacency: sp.csr_array
    x: np.ndarray | sp.csr_array | None = None
    y: np.ndarray | None = None
    node_names: list[str] | None = None
    ptr: np.ndarray | None = None
    name: str | None = None
    feature_names: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    schema: TableSchema | None = None
    weighted: bool = field(init=False)
    node_kinds: list[str] | None = field(init=False, default=None)
    neighbors: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        adjacency = canonical_csr(self.adjacency, "adjacency")
        transposed = adjacency.T.tocsr()
        if not (same_pattern(adjacency, transposed) and np.array_equal(adjacency.data, transposed.data)):
            raise GraphError(
                "adjacency is not symmetric: use Graph.from_scipy, which symmetrises a directed graph, "
                "or pass A + A.T."
            )
        self._fill(**{**vars(self), "adjacency": adjacency})

    # ------------------------------------------------------------------ construction

    def _fill(
        self,
        adjacency: sp.csr_array,
        x: Any,
        y: Any,
        node_names: Any,
        ptr: Any,
        name: str | None,
        feature_names: Any,
        notes: Iterable[str],
        schema: TableSchema | None = None,
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
        pointer = check_ptr(ptr, adjacency)
        names = check_names(node_names, n, pointer)  # in a batch, names need only be unique within a graph
        features, titles, said, schema = _features(x, n, names, feature_names, schema)
        self._set(
            adjacency=adjacency,
            x=features,
            y=check_labels(aligned_series(y, names), n),
            node_names=names,
            ptr=pointer,
            name=None if name is None else str(name),
            feature_names=titles,
            notes=[*notes, *said],
            schema=schema,
            weighted=weighted,
        )

    def _set(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)  # the dataclass is frozen

    @classmethod
    def _build(cls, adjacency: sp.csr_array, *parts: Any) -> Self:
        """A graph from an adjacency already known to be canonical and symmetric; `parts` are those of `_fill`."""
        graph = object.__new__(cls)
        graph._fill(adjacency, *parts)
        return graph

    def _replace(self, **values: Any) -> Self:
        """A copy with some already validated attributes exchanged; nothing is checked again."""
        graph = object.__new__(type(self))
        graph._set(**{**vars(self), **values})
        return graph

    def _part(self, nodes: np.ndarray | slice, adjacency: sp.csr_array, **values: Any) -> Self:
        """The graph of some nodes, whose adjacency is given; other `values` replace those of the whole."""
        rows = {key: part[nodes] for key in ("x", "y") if (part := getattr(self, key)) is not None}
        if self.node_kinds is not None:
            rows["node_kinds"] = np.asarray(self.node_kinds, dtype=object)[nodes].tolist()
        weighted = not bool(np.all(adjacency.data == 1))
        return self._replace(adjacency=adjacency, ptr=None, weighted=weighted, **rows, **values)

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

    @cached_property
    def kinds(self) -> np.ndarray:
        """The kind of each feature column [F]: a word, a number or a value of a category (softcut.tables.kinds)."""
        if self.x is None:
            return np.zeros(0, dtype=np.int64)
        return kinds_of_columns(self.x) if self.schema is None else self.schema.kinds

    @property
    def num_graphs(self) -> int:
        """Number of graphs of the batch; 1 for a single graph."""
        return 1 if self.ptr is None else len(self.ptr) - 1

    @property
    def average_degree(self) -> float:
        """Mean number of neighbours of a node (weights not counted)."""
        return float(self.adjacency.nnz) / self.num_nodes

    def __repr__(self) -> str:
        parts = [plural(self.num_nodes, "node"), plural(self.num_edges, "edge")]
        if self.num_graphs > 1:
            parts.insert(0, plural(self.num_graphs, "graph"))
        if self.weighted:
            parts.append("weighted")
        if self.has_self_loops:
            parts.append(plural(self._num_loops, "self-loop"))
        if self.x is not None:
            parts.append(("sparse " if sp.issparse(self.x) else "") + plural(self.num_features, "feature"))
        if self.y is not None:
            parts.append(plural(len(np.unique(self.y)), "label"))
        if self.node_names is not None:
            parts.append("named nodes")
        if self.node_kinds is not None:
            parts.append(f"{len(set(self.node_kinds) - {''})} kinds of nodes")
        title = f"{self.name!r}: " if self.name else ""
        return f"Graph({title}{', '.join(parts)})"

    # ------------------------------------------------------------------ what can be made of it

    def with_features(
        self, x: Any, feature_names: Sequence[str] | None = None, *, schema: TableSchema | None = None
    ) -> Self:
        """The same graph with other features (None removes them); the adjacency is shared.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]]).with_features([[1.0], [2.0]], feature_names=["age"]).feature_names
        ['age']

        The arguments are those of :class:`Graph`.
        """
        features, titles, said, schema = _features(x, self.num_nodes, self.node_names, feature_names, schema)
        said = [*self.notes, *said]
        graph = self._replace(x=features, feature_names=titles, notes=said, schema=schema, neighbors=None)
        vars(graph).pop("kinds", None)  # those of the features before
        return graph

    def with_node_kinds(self, kinds: Sequence[str] | None) -> Self:
        """The same graph with the kind of each node, such as "user" and "movie"; None removes them.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [2, 2]]).with_node_kinds(["user", "user", "movie"])
        Graph(3 nodes, 2 edges, 2 kinds of nodes)
        """
        if kinds is not None:
            kinds = [str(kind) for kind in kinds]
            if len(kinds) != self.num_nodes:
                raise GraphError(
                    f"node_kinds has {len(kinds)} entries but the graph has {self.num_nodes} nodes: pass one per node."
                )
        return self._replace(node_kinds=kinds)

    def in_mean_weights(self) -> Self:
        """The same graph with weights in units of their mean (that of each graph of a batch).

        They are rounded to 30 bits, so that the same graph in another unit gives the same numbers.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [1, 2]], edge_weight=[10, 30]).in_mean_weights().adjacency.data.tolist()
        [0.5, 0.5, 1.5, 1.5]
        """
        if not self.weighted or not self.adjacency.data.any():
            return self
        weight, ends = self.adjacency.data.astype(np.float64), self.adjacency.indptr
        for first, last in pairwise([0, len(weight)] if self.ptr is None else ends[self.ptr]):
            own = weight[first:last]
            if own.any():
                own /= own.max()  # sums stay finite
                own /= own[own > 0].mean()
        digits, exponent = np.frexp(weight)
        weight = np.ldexp(np.rint(np.ldexp(digits, 30)), exponent - 30)
        adjacency = sp.csr_array((weight, self.adjacency.indices, ends), shape=self.adjacency.shape)
        return self._replace(adjacency=adjacency, weighted=bool((weight != 1).any()))

    def with_root_weights(self) -> Self:
        """The same graph with the square roots of its weights.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1], [1, 2]], edge_weight=[4, 9]).with_root_weights().adjacency.data.tolist()
        [2.0, 2.0, 3.0, 3.0]
        """
        adjacency = self.adjacency
        root = sp.csr_array(
            (np.sqrt(adjacency.data), adjacency.indices, adjacency.indptr), shape=adjacency.shape
        )
        return self._replace(adjacency=root)

    def with_notes(self, *notes: str) -> Self:
        """The same graph with more notes.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0], [1]]).with_notes("a pair").notes
        ['a pair']
        """
        return self._replace(notes=[*self.notes, *notes])

    @property
    def shape(self) -> tuple[int, int]:
        """That of the adjacency matrix: a search of scikit-learn asks for it."""
        return self.num_nodes, self.num_nodes

    def __getitem__(self, nodes: Any) -> Self:
        """The graph among some nodes, as :meth:`subgraph`; ``graph[np.ix_(nodes, nodes)]`` as for a matrix, too.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1, 2], [1, 2, 3]])[[3, 2]]
        Graph(2 nodes, 1 edge)
        """
        if isinstance(nodes, tuple):
            first, *others = map(np.ravel, nodes)
            if len(others) != 1 or not np.array_equal(first, others[0]):
                raise GraphError(
                    "nodes must be the same in rows and columns: use graph[nodes], or graph.adjacency."
                )
            nodes = first
        return self.subgraph(nodes)

    def subgraph(self, nodes: Any) -> Self:
        """The graph among some nodes (indices in any order, or a mask [N]); a batch becomes a single graph.

        >>> from softcut.graph import Graph
        >>> Graph.from_edges([[0, 1, 2], [1, 2, 3]]).subgraph([3, 2]).adjacency.toarray().tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        index = check_node_selection(nodes, self.num_nodes)
        names = None if self.node_names is None else [self.node_names[i] for i in index]
        if names is not None and len(set(names)) < len(names):  # two graphs of a batch may share names
            names = None
        adjacency = sp.csr_array(self.adjacency[index][:, index])
        adjacency.sort_indices()
        return self._part(index, adjacency, node_names=names)

    def split(self) -> list[Self]:
        """The graphs of a batch, as a list; a single graph gives a list of itself.

        >>> from softcut.graph import Graph
        >>> pair = Graph.from_edges([[0], [1]])
        >>> Graph.batch([pair, pair]).split()
        [Graph(2 nodes, 1 edge), Graph(2 nodes, 1 edge)]
        """
        if self.ptr is None:
            return [self]
        graphs = []
        for start, end in pairwise(self.ptr.tolist()):
            names = None if self.node_names is None else self.node_names[start:end]
            block = self.adjacency[start:end, start:end]
            graphs.append(self._part(slice(start, end), block, node_names=names, name=None))
        return graphs

    @classmethod
    def batch(cls, graphs: Iterable[BaseGraph], name: str | None = None) -> Self:
        """Several graphs as one block-diagonal graph with a pointer; :meth:`split` undoes it.

        >>> from softcut.graph import Graph
        >>> g = Graph.batch([Graph.from_edges([[0], [1]]), Graph.from_edges([[0, 1], [1, 2]])])
        >>> g, g.ptr
        (Graph(2 graphs, 5 nodes, 3 edges), array([0, 2, 5]))

        All graphs (or batches) have features of one width, or none; labels and names are kept when every graph
        has them.
        """
        items = list(graphs)
        if not items:
            raise GraphError("graphs is empty: a batch needs at least one graph.")
        for i, item in enumerate(items):
            if not isinstance(item, BaseGraph):
                raise GraphError(f"graphs[{i}] is a {type(item).__name__}: pass softcut.Graph objects.")
            if item.num_features != items[0].num_features:
                like = " (tables: read the others with schema=graphs[0].schema)" if item.schema else ""
                raise GraphError(
                    f"graphs[{i}] has {item.num_features} features but graphs[0] has "
                    f"{items[0].num_features}: give all graphs the same features{like}."
                )
            if item.feature_names != items[0].feature_names and item.feature_names and items[0].feature_names:
                raise GraphError(
                    f"graphs[{i}] has the features {listed(item.feature_names)} but graphs[0] has "
                    f"{listed(items[0].feature_names)}: give all graphs the same features in the same order."
                )
        # A batch of batches is flat.
        sizes = [[item.num_nodes] if item.ptr is None else np.diff(item.ptr) for item in items]
        x: Any = None
        if items[0].x is not None:
            features = [item.x for item in items if item.x is not None]
            if all(sp.issparse(f) for f in features):
                x = sp.csr_array(sp.vstack(features, format="csr"))
            else:
                x = np.concatenate([to_dense(f) for f in features])
        labels = [item.y for item in items if item.y is not None]
        names = [item.node_names for item in items if item.node_names is not None]
        kinds = [item.node_kinds for item in items if item.node_kinds is not None]
        batch = object.__new__(cls)
        batch._set(
            adjacency=sp.csr_array(sp.block_diag([item.adjacency for item in items], format="csr")),
            x=x,
            y=np.concatenate(labels) if len(labels) == len(items) else None,
            node_names=[n for part in names for n in part] if len(names) == len(items) else None,
            ptr=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64),
            name=name,
            feature_names=next((item.feature_names for item in items if item.feature_names), None),
            notes=list(dict.fromkeys(note for item in items for note in item.notes)),
            schema=items[0].schema if all(item.schema == items[0].schema for item in items) else None,
            weighted=any(item.weighted for item in items),
            node_kinds=[k for part in kinds for k in part] if len(kinds) == len(items) else None,
            neighbors=items[0].neighbors if len({item.neighbors for item in items}) == 1 else None,
        )
        return batch

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


def _features(
    x: Any, n: int, node_names: list[str] | None, feature_names: Any, schema: TableSchema | None
) -> tuple[np.ndarray | sp.csr_array | None, list[str] | None, Sequence[str], TableSchema | None]:
    """Features as stored, their names, what to say about a data frame, and what its columns are."""
    said: Sequence[str] = ()
    if is_node_table(x):
        with reading_options_named(of=x):
            x, titles, said, schema = features_of_frame(x, n, node_names)
        feature_names = titles if feature_names is None else feature_names
    features = check_features(x, n)
    if schema is not None and (features is None or len(schema.kinds) != features.shape[1]):
        raise GraphError("schema is that of other features: pass the one they were made with, or None.")
    return features, check_feature_names(feature_names, features), said, schema
