"""Graphs and node features from files: edge lists, GraphML, GML, Matrix Market, NumPy and scipy archives.

Every failure is a :class:`~softcut.errors.SoftcutError` whose sentence names the file and, in text, the line.
Nothing in a file is ever executed: archives are opened without pickle, attributes are parsed, not evaluated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from softcut.errors import FileFormatError, GraphError, ParameterError
from softcut.graph import Graph, SelfLoops
from softcut.io.edge_lists import read_edge_list
from softcut.io.feature_files import feature_table_of, raise_missing
from softcut.io.joining import attach_features
from softcut.io.matrix_files import read_mtx, read_npz
from softcut.io.network_files import read_gml, read_graphml
from softcut.io.opening import ReadOptions, kind_of, label_of, read_bytes, stem_of
from softcut.io.text_tables import check_delimiter

__all__ = ["read_features", "read_graph"]

_GRAPH_FORMATS = {
    ".csv": "edges",
    ".tsv": "edges",
    ".txt": "edges",
    ".edges": "edges",
    ".edgelist": "edges",
    ".graphml": "graphml",
    ".gml": "gml",
    ".mtx": "mtx",
    ".npz": "npz",
}


def read_graph(
    path: str | os.PathLike[str],
    features: Any = None,
    *,
    weighted: bool | Literal["auto"] = "auto",
    self_loops: SelfLoops = "drop",
    format: str | None = None,
    delimiter: str | None = None,
) -> Graph:
    """Read a graph, and optionally its node features, from files.

    >>> import pathlib, tempfile
    >>> from softcut.io.readers import read_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "friends.csv").write_text("source,target,weight\\nann,bob,2\\nbob,cy,1\\n")
    >>> _ = (folder / "x.csv").write_text("id,age\\nann,31\\ncy,28\\nbob,45\\n")
    >>> g = read_graph(folder / "friends.csv", features=folder / "x.csv")
    >>> g
    Graph('friends': 3 nodes, 2 edges, weighted, 1 feature, named nodes)
    >>> g.x.ravel().tolist(), g.node_names
    ([31.0, 45.0, 28.0], ['ann', 'bob', 'cy'])

    Parameters
    ----------
    path
        The file; its extension says what it is (add ``.gz`` to any but ``.npz``):

        - ``.csv .tsv .txt .edges .edgelist``: one edge a line, two ids and perhaps a weight. Comma, tab,
          semicolon or spaces, with or without a header; lines that start with ``#`` or ``%`` are comments.
          With more columns, a header must name source, target (and weight).
        - ``.graphml``, ``.gml``: read with networkx.
        - ``.mtx``: Matrix Market.
        - ``.npz``: a matrix of ``scipy.sparse.save_npz``; or the arrays ``edges`` (2 x E), ``num_nodes`` and
          perhaps ``edge_weight``, ``x``, ``y``.
    features
        Features of the nodes: a file (see :func:`read_features`), an array with one row per node, or
        ``"attributes"`` for the numeric node attributes of a GraphML or GML file. A file with ids is joined
        by id: every node of the graph needs a row, rows of other nodes add isolated nodes.
    weighted
        ``"auto"`` uses weights where the file has them, True insists on them, False ignores them.
    self_loops
        ``"drop"`` or ``"keep"``, see :meth:`softcut.graph.Graph.from_edges`.
    format
        ``"edges"``, ``"graphml"``, ``"gml"``, ``"mtx"`` or ``"npz"``, where the extension does not tell.
    delimiter
        Column separator of an edge list, for files where the guess is wrong (a space means any white space).

    Returns
    -------
    Graph
        Integer ids that fill 0 to N-1 (at least half of them occur), or that stay below the number of feature
        rows, are node indices; ids that fill 1 to N become nodes 0 to N-1 with the ids as names. All other
        ids are names, in the order in which the file mentions them.

    Raises
    ------
    FileFormatError, GraphError
        For anything that cannot be read, naming the file and the line.
    """
    if not (weighted == "auto" or isinstance(weighted, (bool, np.bool_))):
        raise ParameterError(f"weighted is {weighted!r}: choose 'auto', True or False.")
    if self_loops not in ("drop", "keep"):
        raise ParameterError(f"self_loops is {self_loops!r}: choose 'drop' or 'keep'.")
    kinds = sorted(set(_GRAPH_FORMATS.values()))
    if format is not None and format not in kinds:
        raise ParameterError(f"format is {format!r}: choose one of {', '.join(kinds)}.")
    separator = check_delimiter(delimiter)
    label = label_of(path)
    kind = format or kind_of(path, _GRAPH_FORMATS, "graph")
    attributes = isinstance(features, str) and features == "attributes"
    if attributes and kind not in ("graphml", "gml"):
        raise ParameterError(
            "features='attributes' needs a GraphML or GML file: pass a features file instead."
        )
    data = read_bytes(path)
    table = None if features is None or attributes else feature_table_of(features)
    options = ReadOptions(label, weighted, self_loops, attributes, stem_of(path))
    try:
        if kind == "edges":
            return read_edge_list(data, separator, table, options)
        reader: Callable[[bytes, ReadOptions], Graph] = {
            "graphml": read_graphml,
            "gml": read_gml,
            "mtx": read_mtx,
            "npz": read_npz,
        }[kind]
        graph = reader(data, options)
        return graph if table is None else attach_features(graph, table, options)
    except GraphError as error:  # the graph's own checks do not know which file they look at
        raise GraphError(f"{label}: {error}") from None


def read_features(
    path: str | os.PathLike[str], node_names: Sequence[str] | None = None
) -> np.ndarray | sp.csr_array:
    """Read node features, one row per node, as float32.

    >>> import pathlib, tempfile
    >>> from softcut.io.readers import read_features
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = file.write_text("id,height,width\\nb,1,2\\na,3,4\\n")
    >>> read_features(file, node_names=["a", "b"])
    array([[3., 4.],
           [1., 2.]], dtype=float32)

    Parameters
    ----------
    path
        ``.csv``, ``.tsv`` or ``.txt`` (also ``.gz``): numbers, perhaps with a header, perhaps with node ids
        in the first column (recognised when they are not numbers, or by a header such as ``id`` or ``node``);
        ``.npy``: one dense array; ``.npz``: one dense array, or a matrix of ``scipy.sparse.save_npz``, which
        stays sparse.
    node_names
        Return the rows of these nodes, in this order. A file without ids must then have one row for each.
    """
    table = feature_table_of(path)
    if node_names is None:
        return table.x
    names = [str(name) for name in node_names]
    if table.ids is None:
        if table.x.shape[0] != len(names):
            raise FileFormatError(
                f"{table.label} has {table.x.shape[0]} rows but there are {len(names)} nodes: "
                "give one row per node, or node ids in the first column."
            )
        return table.x
    position = {name: i for i, name in enumerate(table.ids)}
    missing = [name for name in names if name not in position]
    if missing:
        raise_missing(table.label, missing)
    return table.x[[position[name] for name in names]]
