"""The declaration of `read_graph`: the command line makes options of it before anything large is imported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from softcut.errors import Note, ParameterError
from softcut.io import options as declared
from softcut.io.options import ReadOptions

if TYPE_CHECKING:
    from softcut.graph import Graph
    from softcut.io.quick_edge_lists import ReadProgress
    from softcut.tables.schema import TableSchema


def read_graph(
    path: Any = None,
    features: declared.Features = None,
    *,
    weighted: declared.Weighted = "auto",
    self_loops: declared.Loops = "drop",
    format: declared.Format = None,
    delimiter: declared.Delimiter = None,
    source: declared.SourceColumn = None,
    target: declared.TargetColumn = None,
    weight: declared.WeightColumn = None,
    directed: declared.Directed = None,
    bipartite: declared.Bipartite = None,
    header: declared.EdgesHeader = None,
    comments: declared.Comments = None,
    ids: declared.Ids = None,
    missing: declared.MissingValues = "error",
    columns: declared.Columns = None,
    drop: declared.Drop = (),
    categories: declared.Categories = (),
    dates: declared.Dates = (),
    features_header: declared.FeaturesHeader = None,
    max_bytes: declared.MaxBytes = None,
    schema: TableSchema | None = None,
    encoding: declared.Encoding = None,
    n_neighbors: declared.Neighbours = None,
    verbose: bool = False,
    progress: ReadProgress | None = None,
) -> Graph:
    """Read a graph, and optionally its node features, from files.

    >>> import pathlib, tempfile
    >>> from softcut import read_graph
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "friends.csv").write_text("source,target,weight\\nann,bob,2\\nbob,cy,1\\n")
    >>> _ = (folder / "x.csv").write_text("id,age\\nann,31\\ncy,28\\nbob,45\\n")
    >>> g = read_graph(folder / "friends.csv", features=folder / "x.csv")
    >>> g
    Graph('friends': 3 nodes, 2 edges, weighted, 1 feature, named nodes)
    >>> g.x.ravel().tolist(), g.node_names, g.feature_names
    ([31.0, 45.0, 28.0], ['ann', 'bob', 'cy'], ['age'])
    >>> g.notes[1]
    "source 'source', target 'target', weight 'weight'"

    Parameters
    ----------
    path
        The file, or "-" for standard input; or a pandas or polars data frame, see
        :meth:`softcut.graph.Graph.from_frame`. The extension says what a file is: ``.csv .tsv .txt .edges .edgelist``,
        one edge per line; ``.graphml``, ``.gexf``, ``.gml``, ``.net`` (Pajek), ``.json`` (nodes and links);
        ``.xlsx``, sheets of edges and of nodes; ``.mtx``, Matrix Market; ``.npz``, a matrix of
        ``scipy.sparse.save_npz``, or the arrays ``edges`` (2 x E), ``num_nodes`` and perhaps ``edge_weight``, ``x``,
        ``y``; ``.npy``, integer ids, 2 x E or E x 2; ``.parquet``, one edge per row; ``.h5ad``, see
        :meth:`softcut.graph.Graph.from_anndata`. Text files and XML may end in ``.gz``. None: there are only
        features, and the graph is that of nearest rows (:meth:`softcut.graph.Graph.from_features`). Plain edge lists
        of more than 1 MiB are read block by block where pyarrow is installed, many times faster.
    features
        Features of the nodes: a file (see :func:`read_features`), a data frame, an array with one row per node;
        for GraphML, GEXF, GML and JSON also ``"attributes"``, the node attributes that are numbers, or a list of
        attributes; for ``.h5ad`` also a key of ``obsm`` (``X`` by default). A sheet called nodes gives the features
        of a workbook.
        Rows are joined by the column whose values are the ids of the nodes: every node of the graph needs a row,
        rows of other nodes add nodes without edges. Without such a column, row i belongs to node i.
    weighted
        ``"auto"`` uses weights where the file has them, else counts how often an edge is given; True insists on
        weights; False: every edge weighs 1.
    self_loops, directed
        See :meth:`softcut.graph.Graph.from_edges`.
    format
        ``"edges"``, ``"graphml"``, ``"gexf"``, ``"gml"``, ``"pajek"``, ``"json"``, ``"xlsx"``, ``"mtx"``,
        ``"npz"``, ``"npy"``, ``"parquet"`` or ``"h5ad"``, where the extension does not tell.
    delimiter
        Column separator of an edge list, for files where the guess is wrong (a space means any white space).
    source, target, weight
        Titles or positions (from 0) of the columns of an edge list; ``weight`` also names an edge attribute. With
        a header, a column is a weight only when it is called weight, w, value, strength, count or similarity, or
        is named here. Without a header, the third of three columns is the weight.
    bipartite
        Whether the two columns of an edge list hold two kinds of nodes, such as users and movies, so that an id in both
        is two nodes; ``graph.node_kinds`` has the kind of each. None decides by titles and values, and says so.
    header, features_header
        Whether the first row of an edge list, or of a text file of features, holds titles; None decides by known
        titles, by types that differ from the rows below, and by names that occur on no other line.
    comments
        Characters that start comment lines; ``""`` for none. None takes ``#`` and ``%``, except where lines
        that begin so are evidently edges.
    ids
        Title or position (from 0) of the column of the features that holds the node ids; False where none does and
        row i belongs to node i.
    missing
        What to do about missing feature values (empty, NA, NaN, null): ``"error"``; ``"zero"`` or ``"mean"`` (of
        the column) to fill them in, also for nodes without a row; ``"drop"`` to leave such columns out.
    columns, drop
        Columns of the features to use, and to leave out: titles or positions (from 0).
    categories, dates
        Columns that are categories (one column of 0 and 1 per value; True: all columns of text) and dates (days since
        1970; ``{"joined": "%d/%m/%Y"}`` or ``["joined=%d/%m/%Y"]`` gives the format). What other columns are is
        decided by their values: see docs/graphs-and-files.md. ``graph.notes`` names the kind of each.
    schema
        What the columns of an earlier table were (``graph.schema``, ``est.schema_``): the features are made alike.
    max_bytes
        The most a compressed file may unpack to; by default 64 MiB, or 100 times its size if that is more.
    encoding
        Encoding of text files. None: UTF-16 and UTF-32 by their byte order marks, else UTF-8, and cp1252 for Western
        text that is not UTF-8.
    n_neighbors
        Neighbours of each row (15), where there are only features.
    verbose
        Print what was understood, ``graph.notes``, as one line on standard error.
    progress
        Called while a large file is read, with the bytes (Parquet: rows) read so far and in all.

    Returns
    -------
    Graph
        Integer ids that fill 0 to N-1 (at least half of them occur), or that stay below the number of feature rows,
        are node indices; ids that fill 1 to N become nodes 0 to N-1 with the ids as names. All other ids are names,
        in the order in which the file mentions them.
    """
    from softcut.graph.checks import check_self_loops
    from softcut.io.encodings import check_encoding
    from softcut.io.readers import GRAPH_FORMATS, graph_of_features, graph_of_file
    from softcut.io.text_files import (
        check_comments,
        check_delimiter,
        check_max_bytes,
        is_standard_input,
        kind_of,
        label_of,
        stem_of,
    )
    from softcut.tables.arrays import plural
    from softcut.tables.columns import FeatureOptions
    from softcut.tables.frames import is_frame

    if weighted != "auto" and not isinstance(weighted, bool):
        raise ParameterError(f"weighted is {weighted!r}: choose 'auto', True or False.", argument="weighted")
    check_self_loops(self_loops)
    kinds = sorted(set(GRAPH_FORMATS.values()))
    if format not in (None, *kinds):
        raise ParameterError(f"format is {format!r}: choose one of {', '.join(kinds)}.", argument="format")
    if is_standard_input(path) and is_standard_input(features):
        raise ParameterError(
            "graph and features cannot both be '-': standard input can be read once.", argument="features"
        )
    if path is None:
        if features is None:
            raise ParameterError("there is neither a graph nor features: name one.", argument="features")
    elif n_neighbors is not None:
        raise ParameterError(
            "n_neighbors has no effect beside a graph: leave it out, or the graph.", argument="n_neighbors"
        )
    frame = is_frame(path)
    options = ReadOptions(
        label="the graph" if frame or path is None else label_of(path),
        name="" if frame or path is None else stem_of(path),
        weighted=weighted,
        self_loops=self_loops,
        source=source,
        target=target,
        weight=weight,
        directed=directed,
        bipartite=bipartite,
        header=header,
        delimiter=check_delimiter(delimiter),
        comments=check_comments(comments),
        max_bytes=check_max_bytes(max_bytes),
        encoding=check_encoding(encoding),
        features=FeatureOptions.checked(ids, missing, columns, drop, categories, dates, schema),
    )
    text = features_header, None, options.comments, options.max_bytes, options.encoding
    if path is None:
        graph = graph_of_features(features, text, options, n_neighbors)
    else:
        kind = "frame" if frame else format or kind_of(path, GRAPH_FORMATS, "graph")
        graph = graph_of_file(path, kind, features, text, options, progress)
    size = {"nodes": graph.num_nodes, "edges": graph.num_edges}
    said = f"{plural(graph.num_nodes, 'node')}, {plural(graph.num_edges, 'edge')}"
    graph = graph.with_notes(Note("size", said, **size))
    if verbose:
        print("; ".join(graph.notes), file=sys.stderr)
    return graph
