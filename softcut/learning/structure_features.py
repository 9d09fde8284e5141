"""Node features from the structure of a graph: one-hot degree and clustering coefficient."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from softcut.graph.collection import GraphCollection, pointer

_DENSE = 1024  # nodes of a graph up to which triangles are counted by a dense product


def clustering_coefficients(graphs: GraphCollection) -> NDArray[np.float32]:
    """The local clustering coefficient of every node: its triangles over the pairs of its neighbours."""
    out = np.zeros(graphs.num_nodes, np.float32)
    local = graphs.rowptr
    for start, end in zip(graphs.ptr[:-1], graphs.ptr[1:], strict=True):
        n = int(end - start)
        rows = local[start : end + 1] - local[start]
        columns = graphs.col[local[start] : local[end]]
        adjacency = sp.csr_array((np.ones(len(columns), np.float32), columns, rows), shape=(n, n))
        if n <= _DENSE and len(columns) > 8 * n:  # a dense product is faster where there are many edges
            dense = adjacency.toarray()
            closed = ((dense @ dense) * dense).sum(1)
        else:
            closed = np.asarray((adjacency @ adjacency).multiply(adjacency).sum(axis=1)).ravel()
        degree = np.diff(rows)
        out[start:end] = closed / np.maximum(degree * (degree - 1), 1)
    return out


@dataclass(frozen=True)
class StructureFeatures:
    """How structure becomes features: widths and scales, taken from the training graphs.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> paw = from_graphs([Graph.from_edges([[0, 1, 2, 2], [1, 2, 0, 3]])])
    >>> features = StructureFeatures.fit(paw)
    >>> features.max_degree, features.transform(paw).num_features
    (3, 5)
    """

    max_degree: int  # degrees above it count as it
    mean: float  # of the clustering coefficient c over all nodes, which is given as (c - mean) / std
    std: float

    @classmethod
    def fit(
        cls,
        graphs: GraphCollection,
        coefficients: NDArray[np.float32] | None = None,
        most: int | None = None,
    ) -> StructureFeatures:
        """Widths and scales of these graphs; with `most`, degrees above it count as it."""
        c = clustering_coefficients(graphs) if coefficients is None else coefficients
        mean, std = float(c.mean(dtype=np.float64)), float(c.std(dtype=np.float64))
        highest = int(graphs.degree.max(initial=0))
        return cls(highest if most is None else min(highest, most), mean, std if std > 0 else 1.0)

    def transform(
        self, graphs: GraphCollection, coefficients: NDArray[np.float32] | None = None
    ) -> GraphCollection:
        """The graphs with these features before those they have."""
        c = clustering_coefficients(graphs) if coefficients is None else coefficients
        width = self.max_degree + 1
        degree = np.minimum(graphs.degree, self.max_degree)
        scaled = ((c.astype(np.float64) - self.mean) / self.std).astype(np.float32)
        return replace(
            graphs,
            index=np.column_stack([degree, graphs.index + width]).astype(np.int32),
            value=np.column_stack([scaled, graphs.value]).astype(np.float32),
            num_features=graphs.num_features + width + 1,
            feature_names=None,
        )


@dataclass(frozen=True)
class NodeInputs:
    """What a network reads of a node: the features of the graphs, their structure, or both.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> pair = from_graphs([Graph.from_edges([[0], [1]], x=[[1.0], [3.0]])])
    >>> NodeInputs.fit(pair, given=True, structure=True, scaled=True).transform(pair).value.tolist()
    [[0.0, -1.0], [0.0, 1.0]]
    """

    given: bool
    structure: StructureFeatures | None
    scale: tuple[tuple[float, ...], tuple[float, ...]] | None  # mean and deviation of every given number

    @classmethod
    def fit(
        cls,
        graphs: GraphCollection,
        *,
        given: bool,
        structure: bool,
        scaled: bool,
        most: int | None = None,
        coefficients: NDArray[np.float32] | None = None,
    ) -> NodeInputs:
        """Widths and scales of these graphs; `scaled`: numbers are standardised, `most`: see StructureFeatures."""
        scale = None
        if given and scaled and graphs.value.shape[1]:
            mean, deviation = graphs.value.mean(0, dtype=np.float64), graphs.value.std(0, dtype=np.float64)
            scale = (tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist()))
        return cls(given, StructureFeatures.fit(graphs, coefficients, most) if structure else None, scale)

    def transform(
        self, graphs: GraphCollection, coefficients: NDArray[np.float32] | None = None
    ) -> GraphCollection:
        """The graphs with the features that the network reads."""
        if not self.given:
            graphs = replace(graphs, index=graphs.index[:, :0], value=graphs.value[:, :0], num_features=0)
        elif self.scale is not None:
            mean, deviation = (np.asarray(each) for each in self.scale)
            graphs = replace(graphs, value=((graphs.value - mean) / deviation).astype(np.float32))
        return graphs if self.structure is None else self.structure.transform(graphs, coefficients)


def with_structure(
    graphs: GraphCollection, coefficients: NDArray[np.float32] | None = None
) -> GraphCollection:
    """The graphs with one-hot degree and z-scored clustering coefficient before the features they have.

    >>> from softcut import Graph
    >>> from softcut.graph import from_graphs
    >>> path = from_graphs([Graph.from_edges([[0, 1], [1, 2]])])
    >>> with_structure(path).dense_features().tolist()
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    return StructureFeatures.fit(graphs, coefficients).transform(graphs, coefficients)


def one_hot_columns(columns: list[NDArray[np.int64]], nodes: int) -> tuple[NDArray[np.int32], int]:
    """Columns of numbers as one-hot blocks: feature numbers [N, J], and how many features there are."""
    pairs = [np.unique(column, return_inverse=True) for column in columns]
    starts = pointer([len(values) for values, _ in pairs])
    index = np.zeros((nodes, len(pairs)), np.int32)
    for j, (_, number) in enumerate(pairs):
        index[:, j] = number + starts[j]
    return index, int(starts[-1])
