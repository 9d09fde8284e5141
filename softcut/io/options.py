"""The options of reading a graph, each declared once: its type, and how the command line writes and explains it.

`read_graph` and `read_features` take them as arguments; the command line makes its options from the same types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from softcut.tables.choices import Missing, SelfLoops

if TYPE_CHECKING:  # loads numpy, which the declarations do without
    from softcut.tables.columns import FeatureOptions


@dataclass(frozen=True)
class Option:
    """How an argument is written on the command line.

    `flags` are its names, as typer takes them ("--yes/--no" for two opposite ones), `type` is that of what the command
    line gives. `words` maps what the command line writes to the value it means, where the two differ; for a single
    flag, True to the value it sets.
    """

    flags: tuple[str, ...]
    help: str
    type: Any = str
    words: Mapping[Any, Any] = field(default_factory=dict, hash=False)


Column = str | int | None
Header = bool | None

Features = Annotated[
    Any,
    Option(
        ("--features", "-f"),
        "Node features: csv, tsv, xlsx, npy or npz; 'attributes' for those of GraphML, GEXF, GML and JSON.",
    ),
]
Format = Annotated[
    str | None,
    Option(
        ("--format",),
        "edges, graphml, gexf, gml, pajek, json, xlsx, mtx, npy, npz, parquet or h5ad, where the extension does "
        "not tell.",
    ),
]
Delimiter = Annotated[
    str | None,
    Option(("--delimiter", "-d"), "Column separator of the edge list, where the guess is wrong."),
]
SourceColumn = Annotated[Column, Option(("--source",), "Title or position (from 0) of the first node.")]
TargetColumn = Annotated[Column, Option(("--target",), "Title or position (from 0) of the second node.")]
WeightColumn = Annotated[
    Column, Option(("--weight",), "Title or position (from 0) of the weight, or an edge attribute.")
]
Weighted = Annotated[
    bool | Literal["auto"],
    Option(("--weighted/--unweighted",), "Insist on weights, or let every edge weigh 1.", bool),
]
Directed = Annotated[
    bool | None,
    Option(
        ("--directed/--undirected",),
        "Warn about edges without a reverse, or never.",
        bool,
    ),
]
Bipartite = Annotated[
    bool | None,
    Option(
        ("--bipartite/--no-bipartite",),
        "Whether source and target are two kinds of nodes, such as users and movies.",
        bool,
    ),
]
EdgesHeader = Annotated[
    Header, Option(("--header/--no-header",), "Whether the first row of the edge list holds titles.", bool)
]
FeaturesHeader = Annotated[
    Header,
    Option(
        ("--features-header/--no-features-header",),
        "Whether the first row of the features holds titles.",
        bool,
    ),
]
Ids = Annotated[
    str | int | Literal[False] | None,
    Option(
        ("--ids",),
        "Title or position (from 0) of the node ids in the features; 'none': row i is node i.",
        words={"none": False},
    ),
]
MissingValues = Annotated[
    Missing, Option(("--missing",), "Missing feature values: error, zero, mean, or drop such columns.")
]
Columns = Annotated[
    Sequence[str | int] | None,
    Option(
        ("--columns",), "Feature column to use; may be given again, or as a,b,c. Default: all.", list[str]
    ),
]
Drop = Annotated[
    Sequence[str | int],
    Option(("--drop",), "Feature column to leave out; may be given again, or as a,b,c.", list[str]),
]
Categories = Annotated[
    bool | Sequence[str | int],
    Option(
        ("--categories",),
        "Column that is a category, one 0/1 column per value; may be given again; '*': all columns of text.",
        list[str],
        words={"*": True},
    ),
]
Dates = Annotated[
    Sequence[str | int] | Mapping[str, str],
    Option(
        ("--dates",),
        "Column of dates, perhaps with its format: 'joined=%d/%m/%Y'; may be given again. ISO dates are found.",
        list[str],
    ),
]
Comments = Annotated[str | None, Option(("--comments",), "Characters that start comment lines; '' for none.")]
Encoding = Annotated[
    str | None,
    Option(("--encoding",), "Encoding of text files, such as cp1252 or utf-16, where the guess is wrong."),
]
Neighbours = Annotated[
    int | None,
    Option(("--neighbors",), "Neighbours per row, where the graph is made from the features; 15.", int),
]
Loops = Annotated[
    SelfLoops, Option(("--keep-self-loops",), "Keep edges from a node to itself.", bool, {True: "keep"})
]
MaxBytes = Annotated[
    int | None, Option(("--max-bytes",), "The most bytes a compressed file may unpack to.", int)
]


def _all_columns() -> FeatureOptions:
    from softcut.tables.columns import FeatureOptions

    return FeatureOptions()


@dataclass(frozen=True)
class ReadOptions:
    """What `read_graph` was asked for, checked and handed to the reader of each format."""

    label: str
    name: str
    weighted: bool | str = "auto"
    self_loops: SelfLoops = "drop"
    source: Column = None
    target: Column = None
    weight: Column = None
    directed: bool | None = None
    bipartite: bool | None = None
    header: Header = None
    delimiter: str | None = None
    comments: str | None = None
    max_bytes: int | None = None
    encoding: str | None = None
    features: FeatureOptions = field(default_factory=_all_columns)
