"""Options of every command that reads a graph, and the one function that reads it.

A command takes the options it wants by their types and hands them on::

    def cluster(graph: GraphFile, features: FeatureFile = None, weight: WeightColumn = None) -> None:
        data = read(graph, features, weight=weight)
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from softcut.cli.bars import reading_bar
from softcut.cli.console import err
from softcut.cli.wording import with_options
from softcut.graph import Graph
from softcut.tables.columns import INTEGER_ID, Missing

__all__ = [
    "Comments",
    "Delimiter",
    "Directed",
    "FeatureFile",
    "FeatureIds",
    "FeaturesHeader",
    "FileFormat",
    "GraphFile",
    "Header",
    "KeepSelfLoops",
    "MaxBytes",
    "MissingValues",
    "OneHot",
    "SourceColumn",
    "TargetColumn",
    "WeightColumn",
    "Weighted",
    "read",
]

_PANEL = "Reading"


def _option(*names: str, text: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=_PANEL)


GraphFile = Annotated[
    Path,
    typer.Argument(
        help="Edge list (csv, tsv, txt, .gz, Parquet), GraphML, GML, .mtx, .npy or .npz; '-' is standard input."
    ),
]
FeatureFile = Annotated[
    Path | None,
    _option(
        "--features",
        "-f",
        text="Node features: csv, tsv, npy or npz; 'attributes' for those of GraphML and GML.",
    ),
]
FileFormat = Annotated[
    str | None,
    _option(
        "--format", text="edges, graphml, gml, mtx, npy, npz or parquet, where the extension does not tell."
    ),
]
Delimiter = Annotated[
    str | None,
    _option("--delimiter", "-d", text="Column separator of the edge list, where the guess is wrong."),
]
SourceColumn = Annotated[
    str | None, _option("--source", text="Title or position (from 0) of the first node.")
]
TargetColumn = Annotated[
    str | None, _option("--target", text="Title or position (from 0) of the second node.")
]
WeightColumn = Annotated[
    str | None, _option("--weight", text="Title or position (from 0) of the weight, or an edge attribute.")
]
Weighted = Annotated[
    bool | None, _option("--weighted/--unweighted", text="Insist on weights, or ignore them.")
]
Directed = Annotated[
    bool | None,
    _option(
        "--directed/--undirected", text="Warn about edges without a reverse, or merge directions silently."
    ),
]
Header = Annotated[
    bool | None, _option("--header/--no-header", text="Whether the first row of the edge list holds titles.")
]
FeaturesHeader = Annotated[
    bool | None,
    _option(
        "--features-header/--no-features-header", text="Whether the first row of the features holds titles."
    ),
]
FeatureIds = Annotated[
    str | None,
    _option(
        "--ids", text="Title or position (from 0) of the node ids in the features; 'none': row i is node i."
    ),
]
MissingValues = Annotated[
    str, _option("--missing", text="Missing feature values: error, zero, mean, or drop such columns.")
]
OneHot = Annotated[
    list[str] | None,
    _option("--one-hot", text="Column of text to make 0/1 columns of; may be given again; '*' for all."),
]
Comments = Annotated[
    str | None, _option("--comments", text="Characters that start comment lines; '' for none.")
]
KeepSelfLoops = Annotated[bool, _option("--keep-self-loops", text="Keep edges from a node to itself.")]
MaxBytes = Annotated[
    int | None, _option("--max-bytes", text="The most bytes a compressed file may unpack to.")
]


def read(
    graph: Path | str,
    features: Path | str | None = None,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    weighted: bool | None = None,
    directed: bool | None = None,
    header: bool | None = None,
    features_header: bool | None = None,
    ids: str | None = None,
    missing: str = "error",
    one_hot: list[str] | None = None,
    comments: str | None = None,
    keep_self_loops: bool = False,
    max_bytes: int | None = None,
) -> Graph:
    """The graph of a file, with one line on standard error that says what was understood.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "friends.csv"
    ...     _ = file.write_text("source,target,year\\nann,bob,2019\\nbob,cy,2021\\n")
    ...     read(file)
    Graph('friends': 3 nodes, 2 edges, named nodes)

    Parameters
    ----------
    graph, features
        Files; "-" is standard input, and "attributes" the node attributes of GraphML and GML.
    format, delimiter, source, target, weight, directed, header, features_header, ids, missing, comments, max_bytes
        See :func:`softcut.read_graph`.
    weighted
        True insists on weights, False ignores them.
    one_hot
        Titles of columns; "*" for all columns of text.
    keep_self_loops
        Keep edges from a node to itself.
    """

    from softcut.io import read_graph  # loads torch, which `softcut --help` need not wait for

    with reading_bar(err) as progress:
        made = read_graph(
            graph,
            features=None if features is None else str(features),
            weighted="auto" if weighted is None else weighted,
            self_loops="keep" if keep_self_loops else "drop",
            format=format,
            delimiter=delimiter,
            source=source,
            target=target,
            weight=weight,
            directed=directed,
            header=header,
            features_header=features_header,
            ids=_ids(ids),
            missing=cast(Missing, missing),
            one_hot=True if one_hot and "*" in one_hot else tuple(one_hot or ()),
            comments=comments,
            max_bytes=max_bytes,
            progress=progress,
        )
    typer.echo(with_options("; ".join(made.notes)), err=True)
    return made


def _ids(given: str | None) -> str | int | bool | None:
    if given is not None and given.lower() == "none":
        return False
    return int(given) if given is not None and INTEGER_ID.fullmatch(given) else given
