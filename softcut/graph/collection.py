"""A list of graphs in one piece, from which batches are gathered by index; which of them train, stop and test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.errors import GraphError, ParameterError
from softcut.graph.graph import Graph
from softcut.tables.arrays import listed, to_dense


@dataclass(frozen=True)
class GraphCollection:
    """Graphs one after another, with node features and one class per graph.

    Features are stored in two parts: `index` holds one column per one-hot block, as feature numbers, and `value`
    the columns that are numbers; they are the last ``value.shape[1]`` of the `num_features` features.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> triangle = Graph.from_edges([[0, 1, 2], [1, 2, 0]], x=[[1.0], [2.0], [3.0]])
    >>> pair = Graph.from_edges([[0], [1]], x=[[4.0], [5.0]])
    >>> graphs = from_graphs([triangle, pair], y=["a", "b"])
    >>> len(graphs), graphs.sizes.tolist(), graphs.col.tolist(), graphs.classes
    (2, [3, 2], [1, 2, 0, 2, 0, 1, 1, 0], ('a', 'b'))
    >>> graphs[[1]].dense_features().tolist()
    [[4.0], [5.0]]

    Attributes
    ----------
    ptr : ndarray
        Where each graph's nodes begin [G + 1].
    rowptr, col : ndarray
        The adjacency in CSR form; `col` numbers nodes within their own graph.
    index, value, num_features
        Node features, see above: [N, J] and [N, D]; their width once one-hot blocks are written out.
    feature_names : tuple of str or None
        Names of the features, where they have some.
    y, classes
        Class number of every graph, or None; names of the classes.
    split : ndarray or None
        0, 1, 2 for training, validation and test graphs, where the data set comes with a split of its own.
    weight : ndarray or None
        Edge weights; None for graphs without.
    name, note : str
        What it is, and what one should know about it.
    """

    ptr: NDArray[np.int64]
    rowptr: NDArray[np.int64]
    col: NDArray[np.int32]
    index: NDArray[np.int32]
    value: NDArray[np.float32]
    num_features: int
    y: NDArray[np.int64] | None = None
    classes: tuple[str, ...] = ()
    split: NDArray[np.int8] | None = None
    weight: NDArray[np.float32] | None = None
    name: str = "graphs"
    note: str = ""
    feature_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __repr__(self) -> str:
        return (
            f"GraphCollection({self.name!r}: {len(self)} graphs, {self.num_nodes} nodes, "
            f"{len(self.col) // 2} edges, {self.num_features} features, {len(self.classes)} classes)"
        )

    @property
    def num_nodes(self) -> int:
        """Nodes of all graphs together."""
        return int(self.ptr[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes of every graph."""
        return np.diff(self.ptr)

    @property
    def degree(self) -> NDArray[np.int64]:
        """Neighbours of every node."""
        return np.diff(self.rowptr)

    @property
    def entries_ptr(self) -> NDArray[np.int64]:
        """Where each graph's entries of `col` begin [G + 1]."""
        return self.rowptr[self.ptr]

    def adjacency(self) -> sp.csr_array:
        """All graphs as one block-diagonal matrix."""
        offset = np.repeat(self.ptr[:-1], np.diff(self.entries_ptr))
        data = np.ones(len(self.col)) if self.weight is None else self.weight.astype(np.float64)
        shape = (self.num_nodes, self.num_nodes)
        return sp.csr_array((data, self.col + offset, self.rowptr), shape=shape)

    def dense_features(self) -> NDArray[np.float32]:
        """The node features written out [N, F]."""
        x = np.zeros((self.num_nodes, self.num_features), np.float32)
        np.put_along_axis(x, self.index.astype(np.int64), 1.0, axis=1)
        if self.value.shape[1]:
            x[:, -self.value.shape[1] :] = self.value
        return x

    def without_edges(self) -> GraphCollection:
        """The same nodes and features without edges."""
        empty = np.zeros(0, np.int32)
        return replace(self, rowptr=np.zeros_like(self.rowptr), col=empty, weight=None)

    def __getitem__(self, graphs: Sequence[int] | NDArray[Any] | slice) -> GraphCollection:
        """Some of the graphs, in the order asked for."""
        chosen = np.arange(len(self))[graphs]
        if np.ndim(chosen) != 1:
            raise GraphError("graphs must be a list of graph numbers, a mask or a slice.")
        nodes = ranges(self.ptr[chosen], self.sizes[chosen])
        entries = ranges(self.entries_ptr[chosen], np.diff(self.entries_ptr)[chosen])
        return replace(
            self,
            ptr=pointer(self.sizes[chosen]),
            rowptr=pointer(self.degree[nodes]),
            col=self.col[entries],
            index=self.index[nodes],
            value=self.value[nodes],
            y=None if self.y is None else self.y[chosen],
            split=None if self.split is None else self.split[chosen],
            weight=None if self.weight is None else self.weight[entries],
        )


def pointer(counts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Counts to the places where each one begins, and the end."""
    ptr = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ptr[1:])
    return ptr


def ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """All numbers of several ranges, one after another."""
    starts, lengths = np.asarray(starts, np.int64), np.asarray(lengths, np.int64)
    return np.arange(int(lengths.sum())) + np.repeat(starts - pointer(lengths)[:-1], lengths)


def from_graphs(graphs: Iterable[Any], y: Any = None, *, name: str = "graphs") -> GraphCollection:
    """A collection from a list of graphs: softcut Graphs, PyTorch Geometric Data, or what Graph.from_any takes.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> path = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor([3]))
    >>> from_graphs([path, path])
    GraphCollection('graphs': 2 graphs, 4 nodes, 2 edges, 2 features, 1 classes)

    Parameters
    ----------
    graphs : iterable
        All with features of one width, or all without (use
        :func:`~softcut.learning.with_structure` then). Features with names are put in the order of the first graph.
    y : sequence, optional
        A class per graph: words, or numbers; by default ``data.y`` of PyTorch Geometric graphs.
    name : str
        A name for tables.
    """
    items = _several(graphs)
    if not items:
        raise GraphError("graphs must hold at least one graph.")
    labels = [_graph_label(item) for item in items]
    if y is None and all(label is not None for label in labels):
        y = labels
    parts = [_plain_graph(item, i) for i, item in enumerate(items)]
    widths = {g.num_features for g in parts}
    if len(widths) > 1:
        raise GraphError(f"graphs must have features of one width, but some have {sorted(widths)}.")
    names = parts[0].feature_names
    numbers, classes = (None, ()) if y is None else class_numbers(y, len(parts))
    matrices = [g.adjacency for g in parts]
    weighted = any(g.weighted for g in parts)
    ptr = pointer([g.num_nodes for g in parts])
    (width,) = widths
    features = [np.zeros((int(ptr[-1]), 0), np.float32)]
    if width:
        places = [places_by_name(names, g.feature_names, f"graphs[{i}]") for i, g in enumerate(parts)]
        features = [to_dense(g.x)[:, place] for g, place in zip(parts, places, strict=True)]
    return GraphCollection(
        ptr=ptr,
        rowptr=pointer(np.concatenate([np.diff(m.indptr) for m in matrices])),
        col=np.concatenate([m.indices for m in matrices]).astype(np.int32),
        index=np.zeros((int(ptr[-1]), 0), np.int32),
        value=np.concatenate(features),
        num_features=width,
        y=numbers,
        classes=classes,
        weight=np.concatenate([m.data for m in matrices]).astype(np.float32) if weighted else None,
        name=name,
        feature_names=None if names is None or not width else tuple(names),
    )


def _several(graphs: Any) -> list[Any]:
    """A list of what was given, which must be several graphs."""
    one = isinstance(graphs, Graph | str | bytes) or sp.issparse(graphs) or hasattr(graphs, "nodes")
    one = one or (hasattr(graphs, "edge_index") and not hasattr(graphs, "indices"))  # Data, but not a Dataset
    one = one or (hasattr(graphs, "dtype") and graphs.dtype != object)  # an array of numbers
    if one or not isinstance(graphs, Iterable):
        raise GraphError(f"graphs must be a list of graphs, got one {type(graphs).__name__}: pass [graph].")
    return list(graphs)


def places_by_name(
    wanted: Sequence[str] | None, given: Sequence[str] | None, whose: str
) -> list[int] | slice:
    """Where the wanted features are among the given ones; an error where these have other names or none.

    >>> places_by_name(["a", "b"], ["b", "a"], "graph")
    [1, 0]
    """
    if given is wanted or (given is not None and wanted is not None and list(given) == list(wanted)):
        return slice(None)
    place = {name: i for i, name in enumerate(given or ())}
    missing = [name for name in wanted or () if name not in place]
    unknown = sorted(place.keys() - set(wanted or ()))
    if missing or unknown:
        words = (("lacks", missing), ("has", unknown))
        differences = " and ".join(f"{word} {listed(names, 3)}" for word, names in words if names)
        raise GraphError(f"{whose} does not have the features of the first graphs by name: it {differences}.")
    return [place[name] for name in wanted or ()]


def class_labels(y: Any, count: int) -> NDArray[Any]:
    """The classes of `count` graphs as an array of words or of numbers, without loss.

    >>> class_labels(["b", "a"], 2).tolist()
    ['b', 'a']
    """
    try:
        values = [value.item() if hasattr(value, "item") else value for value in y]
        labels = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise GraphError(f"y must be a list with one class for each of the {count} graphs.") from None
    if labels.shape != (count,):
        raise GraphError(f"y must have one class for each of the {count} graphs, got {labels.shape}.")
    if any(value is None for value in values) or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        raise GraphError("y must not hold missing values: leave those graphs out.")
    if labels.dtype.kind not in "biufU" or labels.tolist() != values:
        raise GraphError("y must hold words, or numbers, and not both: one kind of value for all graphs.")
    return labels


def class_numbers(y: Any, count: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Class number of every graph, and the names of the classes in sorted order."""
    names, numbers = np.unique(class_labels(y, count), return_inverse=True)
    return numbers.astype(np.int64), tuple(str(name) for name in names.tolist())


def _graph_label(item: Any) -> Any:
    """The class of a PyTorch Geometric graph; None for anything else."""
    label = None if isinstance(item, Graph) else getattr(item, "y", None)
    return label.item() if label is not None and getattr(label, "numel", int)() == 1 else None


def _plain_graph(item: Any, number: int) -> Graph:
    """One graph, without the label of the whole graph (a Graph's own `y` has one value per node)."""
    try:
        if hasattr(item, "edge_index") and not isinstance(item, Graph):
            item = item.clone()
            item.y = None
            return Graph.from_pyg(item)
        graph = Graph.from_any(item)
    except GraphError as error:
        raise GraphError(f"graphs[{number}]: {error}") from error
    if graph.ptr is not None:
        raise GraphError(f"graphs[{number}] is a batch of graphs: pass its parts, graph.split().")
    return graph


# ---------------------------------------------------------------------- splits


class Split(NamedTuple):
    """Graph numbers for training, for stopping and for the test."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def folds(graphs: GraphCollection, count: int = 10, seed: int = 0, validation: float = 0.1) -> list[Split]:
    """Stratified folds; a share of every training part is set aside for early stopping.

    A data set that comes with its own split (Bench) has it in every fold: its folds are repeated runs.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> pair = Graph.from_edges([[0], [1]])
    >>> graphs = from_graphs([pair] * 40, y=[0, 1] * 20)
    >>> parts = folds(graphs, 4, validation=0.2)
    >>> [len(part) for part in parts[0]], sorted(sum((p.test.tolist() for p in parts), [])) == list(range(40))
    ([24, 6, 10], True)

    Parameters
    ----------
    graphs : GraphCollection
        With classes.
    count, seed : int
        Number of folds; the same seed gives the same folds.
    validation : float
        Share of each training part that decides when to stop.
    """
    if graphs.split is not None:
        parts = [np.flatnonzero(graphs.split == part) for part in range(3)]
        return [Split(*parts) for _ in range(count)]
    y = graphs.y
    if y is None:
        raise ParameterError("graphs must have classes y to be split.", argument="graphs")
    smallest = np.bincount(y).min(initial=len(y))
    if not 2 <= count <= smallest:
        raise ParameterError(
            f"count must be at least 2 and at most the size of the smallest class, {smallest}, not {count}.",
            argument="count",
        )
    fold = _stratified(y, count, np.random.default_rng(seed))
    splits = []
    for number in range(count):
        rest = np.flatnonzero(fold != number)
        train, stop, _ = hold_out(y[rest], validation, [seed, number])
        splits.append(Split(rest[train], rest[stop], np.flatnonzero(fold == number)))
    return splits


def hold_out(y: NDArray[np.int64], share: float, seed: int | list[int] = 0) -> Split:
    """Graphs for training and a stratified share of them for stopping; no test graphs.

    >>> [len(part) for part in hold_out(np.repeat([0, 1], 20), 0.25)]
    [30, 10, 0]
    """
    # A share of 1/m: one of m stratified parts.
    part = _stratified(y, max(2, round(1 / share)), np.random.default_rng(seed))
    return Split(np.flatnonzero(part > 0), np.flatnonzero(part == 0), np.zeros(0, np.int64))


def _stratified(y: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A part number for every graph: each class is shuffled and dealt out, one class after another.

    Written out here so that the folds of published tables do not change with a library's version.
    """
    order = np.concatenate([rng.permutation(np.flatnonzero(y == c)) for c in range(int(y.max()) + 1)])
    part = np.empty(len(y), np.int64)
    part[order] = np.arange(len(y)) % count
    return part
