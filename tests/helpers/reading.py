"""What the tests of readers share: files written for a test, and reading that must not warn."""

import gzip
import io
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp
from helpers import graph_checks

from softcut.graph import Graph
from softcut.io import read_graph


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def quiet(*args: Any, **kwargs: Any) -> Graph:
    return graph_checks.quiet(read_graph, *args, **kwargs)


def line_of(g: Graph) -> str:
    """What was understood, as the command line says it."""
    return "; ".join(g.notes)


def named_edges(g: Graph) -> set[tuple[str, str, float]]:
    names = g.node_names or [str(i) for i in range(g.num_nodes)]
    upper = sp.triu(g.adjacency, format="coo")
    return {
        (*sorted((names[u], names[v])), float(w))
        for u, v, w in zip(upper.row, upper.col, upper.data, strict=True)
    }


MTX = "%%MatrixMarket matrix coordinate real general\n"
PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]], float)


def weighted_graph() -> nx.Graph:
    graph = nx.Graph()
    graph.add_node("ann", age=31, height=1.7, word="x")
    graph.add_node("bob", age=45, height=1.8, word="y")
    graph.add_node("Zoë", age=28, height=1.6, word="z")
    graph.add_edge("ann", "bob", weight=2.5)
    graph.add_edge("bob", "Zoë", weight=1.0)
    return graph


def node_link(graph: nx.Graph, edges: str) -> dict[str, Any]:
    """What ``networkx.node_link_data`` gives; how it is told the name of the edges changed."""
    nodes = [{**values, "id": node} for node, values in graph.nodes(data=True)]
    links = [{**values, "source": u, "target": v} for u, v, values in graph.edges(data=True)]
    return {"directed": False, "multigraph": False, "graph": {}, "nodes": nodes, edges: links}


def saved(save: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()
