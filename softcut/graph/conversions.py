"""What an object is that somebody passes as a graph; graphs of other libraries to graphs and back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import Argument, GraphError, Note, require
from softcut.graph.base import BaseGraph
from softcut.tables.arrays import as_array, is_torch_sparse, listed, shape_of, to_dense
from softcut.tables.edge_columns import WEIGHT_NAMES
from softcut.tables.frames import is_frame


def kind_of_graph(obj: Any) -> str:
    """What kind of graph an object is; GraphError when it is none, or could be two things.

    The kinds are those of :meth:`softcut.graph.Graph.from_any`: "graph", "graphs", "graph and features", "scipy" (also
    sparse tensors of torch), "dense", "edges", "named pairs", "frame", "networkx", "igraph", "pyg", "dgl" and
    "anndata".

    >>> kind_of_graph([(0, 1), (1, 2), (2, 0)]), kind_of_graph(np.eye(3))
    ('edges', 'dense')
    """
    kind = _kind_of_object(obj)
    if kind is not None:
        return kind
    if isinstance(obj, (list, tuple)):
        if not obj:
            raise GraphError("the graph is an empty list: give edges, or at least one graph.")
        if all(isinstance(item, BaseGraph) for item in obj):
            return "graphs"
        pair = isinstance(obj, tuple) and len(obj) == 2
        if pair and (_is_graph_like(obj[0]) or _is_nested(obj[0])):
            # Only a graph is no feature matrix.
            both = _kind_of_object(obj[1]) in ("graph", "networkx", "igraph", "pyg", "dgl", "anndata")
            return "graphs" if both else "graph and features"
        if all(
            _is_graph_like(item[0] if isinstance(item, tuple) and len(item) == 2 else item) for item in obj
        ):
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
        if len(obj) > 1 and all(isinstance(item, (list, tuple)) and len(item) == 3 for item in obj):
            _refuse_weighted_edges(obj)
    if isinstance(obj, (list, tuple)) or hasattr(obj, "__array__"):
        return _kind_of_array(as_array(obj, "graph"))
    if isinstance(obj, (str, bytes)) or hasattr(obj, "__fspath__"):
        raise GraphError(f"the graph is a path, {obj!r}: read it with softcut.read_graph first.")
    raise GraphError(
        f"cannot make a graph of {type(obj).__name__!r}: pass a softcut.Graph, a scipy sparse "
        "matrix, a square array, a list of edges, a data frame, a graph of networkx, igraph or DGL, a PyTorch "
        "Geometric Data, an AnnData, or (adjacency, X)."
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
    # Objects of these three are known by what they have: importing PyTorch Geometric takes seconds.
    marks = {
        "pyg": ("edge_index", "num_nodes"),
        "dgl": ("edges", "num_nodes", "ndata", "edata"),
        "anndata": ("obsp", "obsm", "obs_names", "X"),
    }
    return next((kind for kind, names in marks.items() if all(hasattr(obj, name) for name in names)), None)


def _refuse_weighted_edges(rows: list[Any] | tuple[Any, ...]) -> None:
    """Rows of source, target and weight; three of them are square, two have the shape of three edges."""
    if len(rows) == 2:
        raise GraphError(
            "the graph is a nested list of shape (2, 3), which may be three edges or two with weights: call "
            "Graph.from_edges, for the latter with pairs and edge_weight=."
        )
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


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, (list, tuple)) for row in value)


# ---------------------------------------------------------------------- from other libraries


def edges_of_networkx(
    graph: Any, weight: str | None = "weight", features: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a networkx graph, nodes in its own order."""
    nodes = list(graph.nodes())
    if not nodes:
        raise GraphError("graph has no nodes: add nodes to the networkx graph first.")
    position = {node: i for i, node in enumerate(nodes)}
    count = graph.number_of_edges()
    ends = np.empty((2, count), dtype=np.int64)
    values: list[Any] = []
    for i, (u, v, value) in enumerate(graph.edges(data=weight if weight is not None else "")):
        ends[0, i], ends[1, i] = position[u], position[v]
        values.append(value)
    attributes = [graph.nodes[node] for node in nodes]
    weights = None if weight is None else _attribute_weights(values, weight)
    return {**_parts(graph, ends, weights, nodes, attributes, features), "weighted": weight is not None}


def edges_of_igraph(
    graph: Any, weight: str | None = "weight", features: str | Sequence[str] | None = None
) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for an igraph graph; its vertices are called by their ``name``."""
    n = int(graph.vcount())
    if n == 0:
        raise GraphError("graph has no nodes: add vertices to the igraph graph first.")
    ends = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2).T
    weighted = weight is not None and weight in graph.es.attributes()
    weights = _attribute_weights(graph.es[weight], str(weight)) if weighted else None
    keys = [key for key in graph.vs.attributes() if key != "name"] if features is not None else []
    columns = {key: graph.vs[key] for key in keys}
    # A vertex without a value has None where networkx has no key.
    attributes = [{k: v[i] for k, v in columns.items() if v[i] is not None} for i in range(n)]
    nodes = list(graph.vs["name"]) if "name" in graph.vs.attributes() else list(range(n))
    return {**_parts(graph, ends, weights, nodes, attributes, features), "weighted": weight is not None}


def _parts(
    graph: Any,
    ends: np.ndarray,
    weights: np.ndarray | None,
    nodes: list[Any],
    attributes: list[Any],
    features: Any,
) -> dict[str, Any]:
    directed = bool(graph.is_directed())
    x, titles = _attribute_features(attributes, nodes, features)
    names: list[str] | None = [str(node) for node in nodes]
    if nodes == list(range(len(nodes))):
        names = None
    elif len(set(names or ())) < len(nodes):
        names = [repr(node) for node in nodes]  # 1 and "1" are two nodes
    return {
        # One orientation makes the parallel edges of a multigraph duplicates, not reverses.
        "edge_index": ends if directed else np.sort(ends, axis=0),
        "x": x,
        "feature_names": titles,
        "edge_weight": weights,
        "num_nodes": len(nodes),
        "node_names": names,
        "directed": directed,
    }


def _attribute_weights(values: list[Any], weight: str) -> np.ndarray | None:
    """Weights of an edge attribute; an edge without it weighs 1, and without any there are no weights."""
    if all(value is None for value in values):
        return None
    weights = np.empty(len(values), dtype=np.float64)
    for i, value in enumerate(values):
        try:
            weights[i] = 1.0 if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise GraphError(
                f"graph has an edge whose {weight!r} is {value!r}, not a number: correct it, or pass ",
                Argument("weighted", False, text="weight=None"),
                ".",
            ) from None
    return weights


def _attribute_features(
    attributes: list[Any], nodes: list[Any], features: str | Sequence[str] | None
) -> tuple[np.ndarray | None, list[str] | None]:
    """Node attributes as features, and their names."""
    if features is None:
        return None, None
    if isinstance(features, str) and features == "attributes":
        keys = [key for key in attributes[0] if all(_is_number(values.get(key)) for values in attributes)]
        if not keys:
            raise GraphError("features='attributes' found no node attribute that is a number at every node.")
    else:
        keys = [features] if isinstance(features, str) else list(features)
        if not keys:
            raise GraphError("features is an empty list: name node attributes, or pass None.")
    columns: list[np.ndarray] = []
    titles: list[str] = []
    for key in keys:
        for node, values in zip(nodes, attributes, strict=True):
            if key not in values:
                raise GraphError(f"features names {key!r}, which node {node!r} does not have.")
        column = as_array([values[key] for values in attributes], f"features ({key!r})")
        if column.dtype.kind not in "biuf" or column.ndim > 2:
            raise GraphError(f"features names {key!r}, which is not a number at every node.")
        column = column.reshape(len(nodes), -1).astype(np.float64)
        columns.append(column)
        titles += [str(key)] if column.shape[1] == 1 else [f"{key}[{j}]" for j in range(column.shape[1])]
    return np.concatenate(columns, axis=1), titles


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number))


def edges_of_pyg(data: Any) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a PyTorch Geometric ``Data`` or ``Batch``."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise GraphError("data has no edge_index: softcut reads Data and Batch objects that have one.")
    num_nodes = data.num_nodes
    if num_nodes is None:
        raise GraphError("data has neither x nor num_nodes: set data.num_nodes.")
    notes: list[Note] = []
    weight = getattr(data, "edge_weight", None)
    if weight is None:
        attribute = getattr(data, "edge_attr", None)
        one_column = attribute is not None and tuple(attribute.shape[1:]) in ((), (1,))
        if one_column and as_array(attribute, "edge_attr").dtype.kind == "f":
            weight = attribute
        elif attribute is not None:
            taken = "whole numbers, taken for kinds of edges" if one_column else "several columns"
            notes.append(
                Note("edge_attr_not_used", f"edge_attr ({taken}) not used: weights are in edge_weight")
            )
    if weight is not None:
        weight = as_array(weight, "edge_weight").reshape(-1)
    x, y, ptr, batch = (getattr(data, name, None) for name in ("x", "y", "ptr", "batch"))
    if x is not None and x.ndim == 1:
        x = x.reshape(-1, 1)
    if x is not None and x.shape[1:] == (0,):
        x = None
    y = None if y is None else as_array(y, "y")
    if y is not None and (y.dtype.kind not in "iub" or y.shape not in ((num_nodes,), (num_nodes, 1))):
        y = None  # labels of the whole graph, or targets
    if ptr is None and batch is not None:
        member = as_array(batch, "batch")
        rising = (
            member.shape == (num_nodes,) and member.dtype.kind in "iu" and not np.any(np.diff(member) < 0)
        )
        if not rising or (member.size and (member[0] != 0 or member[-1] >= num_nodes)):
            raise GraphError(
                "data.batch must hold one graph index per node: non-decreasing, from 0, without gaps."
            )
        ptr = np.concatenate([[0], np.cumsum(np.bincount(member))])
    parts = {"edge_index": edge_index, "edge_weight": weight, "num_nodes": int(num_nodes)}
    return {**parts, "x": x, "y": y, "ptr": ptr, "notes": notes}


def edges_of_dgl(graph: Any, features: str | None = None, weight: str | None = None) -> dict[str, Any]:
    """The arguments of ``Graph.from_edges`` for a DGL graph, batched or not; None: attributes with usual names."""
    if not getattr(graph, "is_homogeneous", True):
        raise GraphError("graph has several types of nodes or edges: pass dgl.to_homogeneous(graph).")
    source, target = (as_array(ends, "graph.edges()") for ends in graph.edges())
    n, notes = int(graph.num_nodes()), []
    chosen = {
        "features": _column_of(graph.ndata, "ndata", "features", features, ("feat", "x")),
        "weight": _column_of(graph.edata, "edata", "weight", weight, WEIGHT_NAMES),
        "label": _column_of(graph.ndata, "ndata", "", None, ("label", "y")),
    }
    x = None if chosen["features"] is None else as_array(graph.ndata[chosen["features"]], "features")
    weights = None if chosen["weight"] is None else as_array(graph.edata[chosen["weight"]], "weight")
    labels = None if chosen["label"] is None else as_array(graph.ndata[chosen["label"]], "label")
    if labels is not None and (labels.dtype.kind not in "iub" or labels.shape != (n,)):
        labels = None
    used = [
        f"{what} {key!r}" for what, key in chosen.items() if key and (what != "label" or labels is not None)
    ]
    notes.append(Note("attributes", f"DGL graph, {', '.join(used) or 'no features, no weight'}", **chosen))
    ptr = None
    if int(getattr(graph, "batch_size", 1)) > 1:
        ptr = np.concatenate([[0], np.cumsum(as_array(graph.batch_num_nodes(), "graph.batch_num_nodes()"))])
    return {
        "edge_index": np.stack([source, target]),
        "edge_weight": None if weights is None else weights.reshape(-1),
        "num_nodes": n,
        "x": None if x is None else x.reshape(n, -1),
        "y": labels,
        "ptr": ptr,
        "notes": notes,
    }


def _column_of(
    columns: Any, where: str, argument: str, asked: str | None, usual: Sequence[str]
) -> str | None:
    """The attribute that was asked for, or the first with a usual name."""
    if asked is not None and asked not in columns:
        known = listed([str(key) for key in columns]) or "nothing"
        raise GraphError(f"{argument} is {asked!r}, which graph.{where} does not have: choose from {known}.")
    return asked if asked is not None else next((name for name in usual if name in columns), None)


def matrix_of_anndata(
    adata: Any, features: str | None = "X", neighbors: str = "connectivities"
) -> dict[str, Any]:
    """The arguments of ``Graph.from_scipy`` for an AnnData: neighbours of cells, and X or an array of obsm."""
    if neighbors not in adata.obsp:
        known = listed(list(adata.obsp))
        others = f" (it has {known}: pass neighbors=)" if known else ""
        raise GraphError(
            f"adata.obsp has no {neighbors!r}{others}: run scanpy.pp.neighbors(adata) first, or make a graph of "
            "the features with Graph.from_features(adata.X)."
        )
    if features not in (None, "X") and features not in adata.obsm:
        known = listed(["X", *adata.obsm])
        raise GraphError(f"features is {features!r}, which adata does not have: choose from {known} or None.")
    x: Any = None
    titles: list[str] | None = None
    if features == "X" and adata.X is not None:
        x, titles = adata.X, [str(name) for name in adata.var_names]
        titles = titles if len(set(titles)) == len(titles) else None
    elif features in adata.obsm:
        x = adata.obsm[features]
    names = [str(name) for name in adata.obs_names]
    if len(set(names)) < len(names):
        raise GraphError("adata.obs_names repeat: call adata.obs_names_make_unique() first.")
    said = f"AnnData, edges of obsp[{neighbors!r}], " + (
        f"features of {features}" if x is not None else "no features"
    )
    return {
        "adjacency": sp.csr_array(adata.obsp[neighbors]),
        "x": x.to_numpy() if is_frame(x) else x,
        "feature_names": titles,
        "node_names": None if names == [str(i) for i in range(len(names))] else names,
        "notes": [Note("format", said, format="anndata", features=features if x is not None else None)],
    }


# ---------------------------------------------------------------------- to other libraries


def networkx_of(graph: BaseGraph) -> Any:
    """A ``networkx.Graph``: nodes called by their names, or by their indices without unique names."""
    nx = require("networkx", "tables", "Graph.to_networkx")
    nodes: Sequence[Any] = range(graph.num_nodes)
    if graph.node_names is not None and len(set(graph.node_names)) == graph.num_nodes:
        nodes = graph.node_names
    made = nx.Graph(name=graph.name or "")
    made.add_nodes_from(nodes)
    if graph.y is not None:
        nx.set_node_attributes(made, dict(zip(nodes, graph.y.tolist(), strict=True)), "y")
    upper = sp.triu(graph.adjacency, format="coo")
    edges = zip(upper.row.tolist(), upper.col.tolist(), upper.data.tolist(), strict=True)
    if graph.weighted:
        made.add_weighted_edges_from((nodes[u], nodes[v], weight) for u, v, weight in edges)
    else:
        made.add_edges_from((nodes[u], nodes[v]) for u, v, _ in edges)
    return made


def pyg_of(graph: BaseGraph, weighted: bool) -> Any:
    """A PyTorch Geometric ``Data``, a ``Batch`` of a batch; sparse features become dense."""
    pyg = require("torch_geometric.data", "pyg", "Graph.to_pyg")
    torch = require("torch", "pyg", "Graph.to_pyg")
    if graph.ptr is not None:
        # All parts of a Batch need the same keys: weights for all of them when one has weights.
        return pyg.Batch.from_data_list([pyg_of(part, weighted) for part in graph.split()])
    data = pyg.Data(edge_index=torch.from_numpy(graph.edge_index()[0]), num_nodes=graph.num_nodes)
    if weighted:
        data.edge_weight = torch.as_tensor(graph.adjacency.data, dtype=torch.float32)
    if graph.x is not None:
        data.x = torch.as_tensor(np.ascontiguousarray(to_dense(graph.x)))
    if graph.y is not None:
        data.y = torch.as_tensor(graph.y)
    return data
