"""Graphs to files that other programs read: GraphML, GEXF, node-link JSON and edge lists."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from softcut.colours import cluster_colours
from softcut.errors import GraphError, ParameterError, require
from softcut.files import atomic_write
from softcut.graph import Graph
from softcut.graph.checks import check_labels
from softcut.tables.arrays import to_dense

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_CLUSTER = "#999999"


def write_graph(graph: Any, path: Any, labels: Any = None, *, features: bool = False) -> Path:
    """Write a graph, with a cluster and its colour at every node, to open it in Gephi, Cytoscape or networkx.

    >>> import pathlib, tempfile
    >>> from softcut.graph import Graph
    >>> from softcut.io import read_graph, write_graph
    >>> graph = Graph.from_edges([(0, 1), (1, 2)], node_names=["ann", "bob", "cy"])
    >>> file = write_graph(graph, pathlib.Path(tempfile.mkdtemp()) / "friends.gexf", labels=[0, 0, 1])
    >>> read_graph(file, features=["cluster"]).x.ravel().tolist()
    [0.0, 0.0, 1.0]

    Parameters
    ----------
    graph
        A Graph, or anything :meth:`softcut.graph.Graph.from_any` takes.
    path
        ``.graphml``; ``.gexf``, where colours are those Gephi shows; ``.json``, nodes and links; ``.csv``, the edges
        alone, without labels and without nodes that have no edge.
    labels
        Cluster of each node, such as ``est.labels_``: the attribute ``cluster``, and the colour that reports use.
        A node labelled -1 has no cluster.
    features
        Write the features as attributes of the nodes, too.
    """
    graph = Graph.from_any(graph)
    path = Path(path)
    kind = check_export(path)
    clusters = None if labels is None else check_labels(labels, graph.num_nodes, "labels")
    if kind == "csv":
        if clusters is not None or features:
            raise ParameterError(
                "a .csv file has edges only: leave labels and features out, or write .graphml, .gexf or .json.",
                argument="path",
            )
        text = _edges(graph)
    else:
        text = _TEXTS[kind](_network(graph, clusters, features))
    return atomic_write(path, text)


def check_export(path: Path) -> str:
    """What a file to write is, by its extension."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in (*_TEXTS, "csv"):
        raise ParameterError(
            f"path is {str(path)!r}: name a file .graphml, .gexf, .json or .csv.", argument="path"
        )
    return kind


def _network(graph: Graph, clusters: np.ndarray | None, features: bool) -> Any:
    """The networkx graph with what is written at each node."""
    made = graph.to_networkx()
    nodes = list(made)
    if features and graph.x is not None:
        titles = graph.feature_names or [f"x{j}" for j in range(graph.num_features)]
        for node, row in zip(nodes, to_dense(graph.x).tolist(), strict=True):
            made.nodes[node].update(zip(titles, row, strict=True))
    if clusters is not None:
        colours = [*cluster_colours(int(clusters.max(initial=0)) + 1), _NO_CLUSTER]  # -1: the last
        for node, label in zip(nodes, clusters.tolist(), strict=True):
            made.nodes[node].update({"cluster": label} if label >= 0 else {}, color=colours[max(label, -1)])
    return made


def _graphml(network: Any) -> bytes:
    nx = require("networkx", "tables", "writing GraphML")
    _check_characters(network)
    for _, values in network.nodes(data=True):
        values.update(_red_green_blue(values))  # the names that Gephi reads
    stream = io.BytesIO()
    nx.write_graphml_xml(network, stream)
    return stream.getvalue()


def _gexf(network: Any) -> bytes:
    nx = require("networkx", "tables", "writing GEXF")
    _check_characters(network)
    for _, values in network.nodes(data=True):
        if "color" in values:
            values["viz"] = {"color": {**_red_green_blue(values), "a": 1.0}}
            del values["color"]
    stream = io.BytesIO()
    nx.write_gexf(network, stream)
    return stream.getvalue()


def _node_link(network: Any) -> bytes:
    nodes = [{"id": node, **values} for node, values in network.nodes(data=True)]
    links = [{"source": u, "target": v, **values} for u, v, values in network.edges(data=True)]
    content = {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, "links": links}
    return json.dumps(content, ensure_ascii=False, indent=1).encode()


_TEXTS: dict[str, Callable[[Any], bytes]] = {"graphml": _graphml, "gexf": _gexf, "json": _node_link}


def _edges(graph: Graph) -> bytes:
    network = graph.to_networkx()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["source", "target", *(["weight"] if graph.weighted else [])])
    writer.writerows((u, v, *values.values()) for u, v, values in network.edges(data=True))
    return text.getvalue().encode()


def _red_green_blue(values: dict[str, Any]) -> dict[str, int]:
    colour = values.get("color", "")
    return {sign: int(colour[at : at + 2], 16) for sign, at in zip("rgb", (1, 3, 5), strict=True) if colour}


def _check_characters(network: Any) -> None:
    """XML has no way to write control characters."""
    titles = {title for _, values in network.nodes(data=True) for title in values}
    for text in (*network, *titles):
        if isinstance(text, str) and _NOT_XML.search(text):
            raise GraphError(
                f"the name {text!r} has a character that XML cannot hold: rename it, or write .json."
            )
