"""Graphs of workbooks, of .h5ad files, and of tables of features alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from softcut.errors import FileFormatError, Note, require
from softcut.graph import Graph
from softcut.graph.neighbours import N_NEIGHBORS
from softcut.io.edge_lists import read_edge_list
from softcut.io.feature_files import table_of_sheet, without_delimiter
from softcut.io.options import ReadOptions
from softcut.io.text_files import errors_of_files, file_of, reason_of, stem_of
from softcut.io.workbooks import Workbook
from softcut.tables.columns import FeatureTable, InputTable
from softcut.tables.edge_columns import EdgeTable
from softcut.tables.feature_columns import feature_table


def graph_of_rows(
    features: InputTable | FeatureTable, source: Any, options: ReadOptions, n_neighbors: int | None
) -> Graph:
    """The graph of nearest rows of a table."""
    named = isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")
    with errors_of_files():
        table = feature_table(features, options.features)
    count = N_NEIGHBORS if n_neighbors is None else n_neighbors
    return Graph.from_features(table, count, name=stem_of(source) if named else None)


def read_workbook(
    data: bytes, options: ReadOptions, header: bool | None, with_nodes: bool
) -> tuple[tuple[EdgeTable, list[Note]], InputTable | None]:
    """The edges of a workbook, and the table of its nodes where it has a sheet for them with features."""
    book = Workbook(data, options.label, options.max_bytes)
    sheet, nodes = book.edges(), book.nodes() if with_nodes else None
    nodes = None if nodes == sheet else nodes
    plain = replace(options, delimiter=",", comments=options.comments or "", encoding=None)
    edges, notes = read_edge_list(book.sheets[sheet], replace(plain, label=book.place(sheet)))
    table = None if nodes is None else table_of_sheet(book, nodes, header)
    if table is not None and len(table.columns) < 2:
        table, nodes = None, None  # only names
    return (edges, [*without_delimiter(notes), *book.unused(sheet, nodes)]), table


def read_cells(path: Any, features: Any, options: ReadOptions) -> Graph:
    """The graph of an .h5ad file."""
    file = file_of(path, "h5ad")
    anndata = require("anndata", "anndata", "reading .h5ad files")
    try:
        cells = anndata.read_h5ad(file)
    except Exception as error:  # h5py and anndata have their own
        raise FileFormatError(f"{options.label} is not a valid .h5ad file: {reason_of(error)}.") from None
    graph = Graph.from_anndata(cells, features, self_loops=options.self_loops, name=options.name)
    if options.weighted is False:
        pattern = graph.adjacency.copy()
        pattern.data[:] = 1
        graph = graph._replace(adjacency=pattern, weighted=False)
    return graph
