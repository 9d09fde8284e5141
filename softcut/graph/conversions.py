"""Graphs of other libraries: networkx and PyTorch Geometric, as arguments of ``Graph.from_edges`` and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, require
from softcut.graph.arrays import as_array, to_dense

__all__ = ["edges_of_networkx", "edges_of_pyg", "networkx_of", "pyg_of"]


def edges_of_networkx(
    graph: Any, weight: str | None = "weight", features: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a networkx graph, nodes in its own order.

    >>> import networkx as nx
    >>> edges_of_networkx(nx.path_graph(["ann", "bob"]))["node_names"]
    ['ann', 'bob']
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
    return {
        "edge_index": np.stack([source, target]),
        "x": _networkx_features(graph, nodes, features),
        "edge_weight": weights,
        "num_nodes": len(nodes),
        "node_names": names,
        "directed": directed,
    }


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
        column = as_array([graph.nodes[node][key] for node in nodes], f"features ({key!r})")
        if column.dtype.kind not in "biuf" or column.ndim > 2:
            raise GraphError(f"features names {key!r}, which is not a number at every node.")
        columns.append(column.reshape(len(nodes), -1).astype(np.float64))
    return np.concatenate(columns, axis=1)


def edges_of_pyg(data: Any) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a PyTorch Geometric ``Data`` or ``Batch``.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges_of_pyg(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))["num_nodes"]
    2
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
        weight = as_array(weight, "edge_weight").reshape(-1)
    x = getattr(data, "x", None)
    if x is not None and x.ndim == 2 and x.shape[1] == 0:
        x = None
    if x is not None and x.ndim == 1:
        x = x.reshape(-1, 1)
    y = getattr(data, "y", None)
    if y is not None:
        y = as_array(y, "y")
        node_level = y.dtype.kind in "iub" and y.shape in ((num_nodes,), (num_nodes, 1))
        y = y if node_level else None
    ptr = getattr(data, "ptr", None)
    batch = getattr(data, "batch", None)
    if ptr is None and batch is not None:
        member = as_array(batch, "batch")
        if member.shape != (num_nodes,) or member.dtype.kind not in "iu" or np.any(np.diff(member) < 0):
            raise GraphError("data.batch must hold one non-decreasing graph index per node.")
        if member.size and (member[0] != 0 or member[-1] >= num_nodes):
            raise GraphError("data.batch must number the graphs from 0, without gaps.")
        ptr = np.concatenate([[0], np.cumsum(np.bincount(member))])
    return {
        "edge_index": edge_index,
        "x": x,
        "edge_weight": weight,
        "num_nodes": int(num_nodes),
        "y": y,
        "ptr": ptr,
    }


def networkx_of(
    adjacency: sp.csr_array,
    weighted: bool,
    node_names: Sequence[str] | None = None,
    y: np.ndarray | None = None,
    name: str | None = None,
) -> Any:
    """A ``networkx.Graph``: nodes called by their names, or by their indices without unique names.

    >>> import scipy.sparse as sp
    >>> networkx_of(sp.csr_array([[0, 1], [1, 0]]), weighted=False).number_of_edges()
    1
    """
    nx = require("networkx", "all", "Graph.to_networkx")
    nodes: Sequence[Any] = range(adjacency.shape[0])
    if node_names is not None and len(set(node_names)) == len(node_names):
        nodes = node_names
    graph = nx.Graph(name=name or "")
    if y is None:
        graph.add_nodes_from(nodes)
    else:
        graph.add_nodes_from((n, {"y": int(v)}) for n, v in zip(nodes, y, strict=True))
    upper = sp.triu(adjacency, format="coo")
    pairs = ((nodes[u], nodes[v]) for u, v in zip(upper.row.tolist(), upper.col.tolist(), strict=True))
    if weighted:
        graph.add_weighted_edges_from((u, v, w) for (u, v), w in zip(pairs, upper.data.tolist(), strict=True))
    else:
        graph.add_edges_from(pairs)
    return graph


def pyg_of(
    edge_index: np.ndarray, weight: np.ndarray | None, num_nodes: int, x: Any, y: np.ndarray | None
) -> Any:
    """A PyTorch Geometric ``Data``; sparse features become dense.

    >>> import numpy as np
    >>> pyg_of(np.array([[0, 1], [1, 0]]), None, 2, None, None)
    Data(edge_index=[2, 2], num_nodes=2)
    """
    pyg = require("torch_geometric.data", "pyg", "Graph.to_pyg")
    torch = require("torch", "pyg", "Graph.to_pyg")
    data = pyg.Data(edge_index=torch.from_numpy(edge_index), num_nodes=num_nodes)
    if weight is not None:
        data.edge_weight = torch.as_tensor(weight, dtype=torch.float32)
    if x is not None:
        data.x = torch.as_tensor(np.ascontiguousarray(to_dense(x)))
    if y is not None:
        data.y = torch.as_tensor(y)
    return data
