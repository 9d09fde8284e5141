"""Nodes of edges and of features: numbering, and joining by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from softcut.errors import FileFormatError, SoftcutError
from softcut.graph import Graph
from softcut.io.feature_files import FeatureTable, raise_missing
from softcut.io.opening import ReadOptions
from softcut.io.text_tables import INTEGER, shown

__all__ = ["EdgeTable", "attach_features", "graph_by_id", "number_nodes"]


@dataclass(frozen=True)
class EdgeTable:
    """Edges as read. ``ends`` [E, 2] holds integer ids, or positions in ``names``."""

    ends: np.ndarray
    names: list[str] | None
    weight: np.ndarray | None


def _by_name(edges: EdgeTable) -> tuple[np.ndarray, list[str]]:
    """Ends as positions in a list of names, in the order the file mentions them."""
    if edges.names is not None:
        return edges.ends, edges.names
    ids, first, inverse = np.unique(edges.ends.ravel(), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return rank[inverse].reshape(-1, 2), [str(i) for i in ids[order].tolist()]


def number_nodes(
    edges: EdgeTable, table: FeatureTable | None, options: ReadOptions
) -> tuple[np.ndarray, int, list[str] | None]:
    """Node indices, node count and names, for features without ids or none at all."""
    if edges.names is None:
        low, high = int(edges.ends.min()), int(edges.ends.max())
        if table is not None:
            rows = table.x.shape[0]
            if high < rows:
                return edges.ends, rows, None
            one_based = low >= 1 and high == rows
            if not one_based:
                raise FileFormatError(
                    f"{table.label} has {rows} rows but {options.label} has node {high}: give one row per "
                    "node (row i for node i), or node ids in the first column of a csv file."
                )
        else:
            distinct = int(np.unique(edges.ends).size)
            if low == 0 and high < 2 * distinct:
                return edges.ends, high + 1, None
            one_based = low == 1 and high <= 2 * distinct
        if one_based:
            return edges.ends - 1, high, [str(i) for i in range(1, high + 1)]
    elif table is not None:
        raise FileFormatError(
            f"{table.label} has no node ids, but the nodes of {options.label} have names (the first is "
            f"{shown(edges.names[0])}): give a csv file with the names in its first column."
        )
    ends, names = _by_name(edges)
    return ends, len(names), names


def graph_by_id(edges: EdgeTable, table: FeatureTable, options: ReadOptions) -> Graph:
    """Join edges and features by id; nodes that only the features know are isolated."""
    assert table.ids is not None
    ends, names = _by_name(edges)
    ids = table.ids
    if edges.names is None:  # "007" and "7" are the same integer
        ids = [str(int(i)) if INTEGER.fullmatch(i) else i for i in ids]
    row = {name: i for i, name in enumerate(ids)}
    if len(row) < len(ids):
        raise_repeated(table.label, ids)
    missing = [name for name in names if name not in row]
    if missing:
        raise_missing(table.label, missing, options.label)
    known = set(names)
    names = names + [name for name in ids if name not in known]
    n = len(names)
    labels: list[str] | None = names
    if edges.names is None and all(INTEGER.fullmatch(name) for name in names):
        # Ids that fill 0..N-1 or 1..N keep their numerical order, as they would without features.
        values = np.array([int(name) for name in names], dtype=np.int64)
        start = int(values.min())
        if start in (0, 1) and int(values.max()) == n - 1 + start:
            ends = (values - start)[ends]
            names = [str(i) for i in range(start, n + start)]
            labels = None if start == 0 else names
    return Graph.from_edges(
        ends.T,
        x=table.x[[row[name] for name in names]],
        edge_weight=edges.weight,
        num_nodes=n,
        self_loops=options.self_loops,
        node_names=labels,
        name=options.name,
    )


def attach_features(graph: Graph, table: FeatureTable, options: ReadOptions) -> Graph:
    """Features for a graph whose nodes have an order of their own (not an edge list)."""
    n = graph.num_nodes
    if table.ids is None:
        if table.x.shape[0] != n:
            raise FileFormatError(
                f"{table.label} has {table.x.shape[0]} rows but {options.label} has {n} nodes: "
                "give one row per node."
            )
        return graph.with_features(table.x)
    names = graph.node_names
    if names is None:
        # Unnamed nodes are counted from 0, or from 1 where the features do so.
        start = 0 if "0" in table.ids else 1
        names = [str(i) for i in range(start, n + start)]
    row = {name: i for i, name in enumerate(table.ids)}
    missing = [name for name in names if name not in row]
    if missing:
        raise_missing(table.label, missing, options.label)
    known = set(names)
    extra = [name for name in table.ids if name not in known]
    order = [row[name] for name in names + extra]
    if not extra:
        return graph.with_features(table.x[order])
    if graph.node_names is None:
        raise FileFormatError(
            f"{table.label} has node {shown(extra[0])}, which {options.label} with its {n} nodes does not "
            "have."
        )
    larger = graph.adjacency.copy()
    larger.resize((n + len(extra), n + len(extra)))
    return Graph(larger, x=table.x[order], node_names=names + extra, name=graph.name)


def raise_repeated(label: str, ids: list[str]) -> NoReturn:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise FileFormatError(f"{label} has more than one row for node {shown(name)}: keep one.")
        seen.add(name)
    raise SoftcutError(f"{label} has repeated node ids.")
