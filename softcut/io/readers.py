"""Graphs and node features from files: edge lists, networks, workbooks, matrices and archives.

Every failure is a :class:`~softcut.errors.SoftcutError` whose sentence names the file and, in text, the line.
Nothing in a file is ever executed: archives are opened without pickle, attributes are parsed, not evaluated.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import Argument, FileFormatError, GraphError, Note, ParameterError
from softcut.graph import Graph
from softcut.io import options as declared
from softcut.io.edge_lists import read_edge_list
from softcut.io.encodings import check_encoding
from softcut.io.feature_files import features_from
from softcut.io.matrix_files import read_mtx, read_npz
from softcut.io.network_files import read_network
from softcut.io.network_formats import NETWORK_FORMATS
from softcut.io.options import ReadOptions
from softcut.io.quick_edge_lists import (
    PLAIN_BYTES,
    ReadProgress,
    read_npy_edges,
    read_parquet_edges,
    read_plain_edges,
)
from softcut.io.table_files import graph_of_rows, read_cells, read_workbook
from softcut.io.text_files import (
    check_comments,
    check_delimiter,
    check_max_bytes,
    errors_of_files,
    file_of,
    is_standard_input,
    read_bytes,
)
from softcut.tables.arrays import shown
from softcut.tables.bipartite import separated
from softcut.tables.columns import FeatureOptions, FeatureTable, InputTable
from softcut.tables.edge_columns import (
    EdgeTable,
    edges_of_table,
    names_of_rows,
    nodes_without_edges,
    rows_of_nodes,
)
from softcut.tables.feature_columns import feature_table
from softcut.tables.frames import edges_of_frame, labelled_adjacency
from softcut.tables.schema import TableSchema

_EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
_OTHER_FORMATS = ("graphml", "gexf", "gml", "json", "mtx", "npz", "npy", "parquet", "xlsx", "h5ad")
GRAPH_FORMATS = dict.fromkeys(_EDGE_LISTS, "edges") | {f".{kind}": kind for kind in _OTHER_FORMATS}
GRAPH_FORMATS[".net"] = "pajek"


def graph_of_file(
    path: Any,
    kind: str,
    features: Any,
    text: tuple[Any, ...],
    options: ReadOptions,
    progress: ReadProgress | None,
) -> Graph:
    """The graph of a file or data frame; `text` says how features in a text file are read."""
    attributes = _attributes(features, kind, options.label)
    edges = _read_edges(path, kind, options, progress)
    if edges is None and kind != "xlsx":
        _check_one_kind(options)
    data = path if kind in ("frame", "h5ad") or edges is not None else read_bytes(path, options.max_bytes)
    table: InputTable | FeatureTable | None = None
    if kind == "xlsx":
        edges, table = read_workbook(data, options, text[0], features is None)
    if features is not None and attributes is None:
        table = features_from(features, *text)
    try:
        if edges is not None:
            return _graph_of_edges(*edges, table, options)
        if kind == "h5ad":
            attributes = attributes or ("X" if features is None else None)
        graph = _graph_of_data(data, kind, attributes, options)
        return graph if table is None else _attach(graph, table, options, kind in NETWORK_FORMATS)
    except GraphError as error:  # the graph's own checks do not know which file they look at
        raise GraphError(f"{options.label}: ", error.sentence) from None


def graph_of_features(
    features: Any, text: tuple[Any, ...], options: ReadOptions, n_neighbors: int | None
) -> Graph:
    """The graph of nearest rows, of features alone."""
    _check_one_kind(options)
    return graph_of_rows(features_from(features, *text), features, options, n_neighbors)


def _check_one_kind(options: ReadOptions) -> None:
    """Only a list of edges can have two kinds of nodes."""
    if options.bipartite:
        raise ParameterError(
            Argument("bipartite", True), f" needs a list of edges, which {options.label} is not."
        )


def _read_edges(
    path: Any, kind: str, options: ReadOptions, progress: ReadProgress | None
) -> tuple[EdgeTable, list[Note]] | None:
    """The edges of an edge list, a NumPy array, a Parquet file or a data frame; None for all other kinds."""
    if kind == "frame":
        asked = options.source, options.target, options.weight
        if asked == (None, None, None) and labelled_adjacency(path, options.label) is not None:
            return None
        table, columns = edges_of_frame(path, options.label, *asked, options.weighted)
        return table, [columns.note("data frame, ")]
    if kind not in ("edges", "npy", "parquet"):
        return None
    if kind != "edges":
        file = file_of(path, kind)
        return read_npy_edges(file, options) if kind == "npy" else read_parquet_edges(file, options, progress)
    file = os.path.expanduser(os.fsdecode(path))
    on_disk = os.path.isfile(file) and not is_standard_input(path) and not file.lower().endswith(".gz")
    data = None if on_disk else read_bytes(path, options.max_bytes)
    size = os.path.getsize(file) if data is None else len(data)
    if size > PLAIN_BYTES:
        # A file that cannot be opened is named below.
        with suppress(OSError), open(file, "rb") if data is None else io.BytesIO(data) as stream:
            plain = read_plain_edges(stream, size, options, progress)
            if plain is not None:
                return plain
    return read_edge_list(read_bytes(path, options.max_bytes) if data is None else data, options)


def _attributes(features: Any, kind: str, label: str) -> str | list[str] | None:
    """Node attributes to use as features: "attributes" or their names; None for features from elsewhere."""
    if kind == "h5ad" and isinstance(features, str) and not os.path.exists(features):
        return features  # X, or a key of obsm
    named = (
        isinstance(features, (list, tuple)) and bool(features) and all(isinstance(f, str) for f in features)
    )
    if not named and not (isinstance(features, str) and features == "attributes"):
        return None
    if kind not in NETWORK_FORMATS:
        raise ParameterError(
            Argument("features", "attributes"),
            f" needs a file of {', '.join(NETWORK_FORMATS.values())}: pass a features file instead.",
        )
    return list(features) if named else "attributes"


def _graph_of_edges(
    edges: EdgeTable, notes: list[Note], table: InputTable | FeatureTable | None, options: ReadOptions
) -> Graph:
    edges, table, features, kinds = separated(edges, options.bipartite, table, options.features)
    with errors_of_files():
        parts = edges_of_table(edges, options.label, table, features)
    parts["notes"] = [*notes, *kinds, *parts["notes"]]
    return Graph.from_edges(
        **parts,
        self_loops=options.self_loops,
        directed=options.directed,
        weighted=options.weighted is not False,
        name=options.name or None,
    )


def _graph_of_data(data: Any, kind: str, attributes: str | list[str] | None, options: ReadOptions) -> Graph:
    """A graph of a labelled matrix (a data frame), or of the bytes of a file that is no list of edges."""
    if kind == "frame":
        return Graph.from_frame(data, self_loops=options.self_loops, directed=options.directed)
    if kind in NETWORK_FORMATS:
        return read_network(data, kind, options, attributes)
    if kind == "h5ad":
        return read_cells(data, attributes, options)
    return (read_mtx if kind == "mtx" else read_npz)(data, options)


def _attach(graph: Graph, features: InputTable | FeatureTable, options: ReadOptions, named: bool) -> Graph:
    """Features for a graph whose nodes have an order of their own (not an edge list), and perhaps ids (`named`)."""
    n = graph.num_nodes
    rows = features.num_rows if isinstance(features, InputTable) else int(features.x.shape[0])
    if n > 100 * max(rows, 1000):  # before a name is made for each node
        raise FileFormatError(f"{features.label} has {rows} rows but {options.label} has {n} nodes.")
    with errors_of_files():
        nodes, named = graph.node_names or [str(i) for i in range(n)], named or graph.node_names is not None
        table = feature_table(features, options.features, nodes, named=named)
    if table.ids is None:
        if table.x.shape[0] != n:
            titles = (" (", Argument("features_header", True), " if row 1 holds titles)")
            raise FileFormatError(
                f"{table.label} has {table.x.shape[0]} rows but {options.label} has {n} nodes: give one row per node",
                *(titles if table.may_begin_with_titles and table.x.shape[0] == n + 1 else ()),
                ".",
            )
        by_position = [] if table.by_position else [Note("joined_by_position", "rows joined by position")]
        notes = [Note("features", f"features of {table.label}"), *by_position, *table.notes]
        return graph.with_features(table.x, table.names, schema=table.schema).with_notes(*notes)
    names = graph.node_names or names_of_rows(n, table)
    among = set(names)
    extra = [name for name in table.ids if name not in among]
    if extra and graph.node_names is None:
        raise FileFormatError(
            f"{table.label} has node {shown(extra[0])}, which {options.label} with its {n} nodes does not have."
        )
    with errors_of_files():
        x, said_how = rows_of_nodes(table, [*names, *extra], options.features.missing, options.label)
    notes = [Note("features", f"features of {table.label} {said_how}"), *table.notes]
    if not extra:
        return graph.with_features(x, table.names, schema=table.schema).with_notes(*notes)
    larger = graph.adjacency.copy()
    larger.resize((n + len(extra), n + len(extra)))
    said = [*graph.notes, *notes, nodes_without_edges(table, extra)]
    return Graph(
        larger,
        x,
        node_names=[*names, *extra],
        name=graph.name,
        feature_names=table.names,
        notes=said,
        schema=table.schema,
    )


def read_features(
    path: Any,
    node_names: Sequence[str] | None = None,
    *,
    ids: declared.Ids = None,
    missing: declared.MissingValues = "error",
    columns: declared.Columns = None,
    drop: declared.Drop = (),
    categories: declared.Categories = (),
    dates: declared.Dates = (),
    header: declared.FeaturesHeader = None,
    delimiter: declared.Delimiter = None,
    comments: declared.Comments = None,
    max_bytes: declared.MaxBytes = None,
    schema: TableSchema | None = None,
    encoding: declared.Encoding = None,
) -> np.ndarray | sp.csr_array:
    """Read node features, one row per node, as float32.

    >>> import pathlib, tempfile
    >>> from softcut import read_features
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "x.csv"
    >>> _ = file.write_text("id,height,width\\nb,1,2\\na,3,4\\n")
    >>> read_features(file, node_names=["a", "b"]).tolist()
    [[3.0, 4.0], [1.0, 2.0]]

    Parameters
    ----------
    path
        ``.csv``, ``.tsv`` or ``.txt`` (also ``.gz``): numbers, dates, categories, perhaps with a header, perhaps with
        a column of node ids; ``.npy``: one dense array; ``.npz``: one dense array, or a matrix of
        ``scipy.sparse.save_npz``, which stays sparse;
        ``.xlsx``: the sheet called nodes, or the first; "-": text from standard input; or a data frame.
    node_names
        Return the rows of these nodes, in this order. A table without ids must then have one row for each.
    ids, missing, columns, drop, categories, dates, header, delimiter, comments, max_bytes, schema, encoding
        See :func:`read_graph`.
    """
    wanted = FeatureOptions.checked(ids, missing, columns, drop, categories, dates, schema)
    checked = (
        *(check_delimiter(delimiter), check_comments(comments)),
        *(check_max_bytes(max_bytes), check_encoding(encoding)),
    )
    names = None if node_names is None else [str(name) for name in node_names]
    with errors_of_files():
        table = feature_table(features_from(path, header, *checked), wanted, names)
    if names is not None and table.ids is not None:
        with errors_of_files():
            return rows_of_nodes(table, names, missing, "node_names")[0]
    if names is not None and table.x.shape[0] != len(names):
        raise FileFormatError(
            f"{table.label} has {table.x.shape[0]} rows but there are {len(names)} nodes: "
            "give one row per node, or node ids in the first column."
        )
    return table.x
