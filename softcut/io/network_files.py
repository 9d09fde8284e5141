"""Files of networks as graphs: which edge attribute is the weight, node attributes as a table of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from softcut.errors import Argument, FileFormatError, GraphError, Note, ParameterError
from softcut.graph import Graph
from softcut.graph.conversions import edges_of_networkx
from softcut.io.network_formats import NETWORK_FORMATS, parse_network
from softcut.io.options import ReadOptions
from softcut.tables.arrays import listed
from softcut.tables.columns import FeatureOptions, InputTable, column_of_values
from softcut.tables.edge_columns import WEIGHT_NAMES
from softcut.tables.feature_columns import feature_table


def read_network(
    data: bytes, format: str, options: ReadOptions, attributes: str | Sequence[str] | None
) -> Graph:
    """A graph of a file of `NETWORK_FORMATS`; `attributes` are the node attributes to use as features."""
    network, understood = parse_network(data, format, options.label, options.encoding)
    keys = list(dict.fromkeys(key for *_, values in network.edges(data=True) for key in values))
    weight = next((name for name in WEIGHT_NAMES if name in keys), None)
    if options.weight is not None:
        if options.weight not in keys:
            raise ParameterError(
                f"weight is {options.weight!r}, which no edge of {options.label} has: "
                f"choose from {listed([str(key) for key in keys]) or 'nothing'}.",
                argument="weight",
            )
        weight = str(options.weight)
    if options.weighted is True and weight is None:
        raise FileFormatError(
            f"{options.label}: ", Argument("weighted", True), f" but no edge has {listed(WEIGHT_NAMES)}."
        )
    if options.weighted is False:
        weight = None
    ignored = [str(key) for key in keys if key != weight]
    weights = "no weight" if weight is None else f"weight {weight!r}"
    others = f", ignored {listed(ignored)}" if ignored else ""
    said = [
        Note("format", f"{options.label}: {NETWORK_FORMATS[format]}", format=format),
        *understood,
        Note("edge_columns", weights, others, weight=weight, ignored=tuple(ignored)),
    ]
    parts = edges_of_networkx(network, weight) | {"weighted": options.weighted is not False}
    if parts["node_names"] == [str(i) for i in range(network.number_of_nodes())]:
        parts["node_names"] = None  # numbers of nodes, as in an edge list
    if options.directed is not None:
        parts["directed"] = options.directed
    graph = Graph.from_edges(**parts, self_loops=options.self_loops, name=options.name, notes=said)
    table = _attribute_table(network, options.label)
    if attributes is None and not table.columns:
        return graph
    if attributes is None:
        titles = [column.title for column in table.columns]
        return graph.with_notes(
            Note(
                "attributes_not_used",
                f"node attributes {listed(titles)} not used (",
                Argument("features", "attributes"),
                " uses them)",
                attributes=titles,
            )
        )
    return _with_attributes(graph, table, attributes, options.features, options.label)


def _attribute_table(network: Any, label: str) -> InputTable:
    nodes = [values for _, values in network.nodes(data=True)]
    columns = []
    for key in dict.fromkeys(key for values in nodes for key in values):
        items = np.empty(len(nodes), dtype=object)
        items[:] = [values.get(key) for values in nodes]
        columns.append(column_of_values(str(key), items))
    return InputTable(f"{label}, node attributes", columns)


def _with_attributes(
    graph: Graph, table: InputTable, attributes: str | Sequence[str], options: FeatureOptions, label: str
) -> Graph:
    titles = [column.title for column in table.columns]
    left_out: list[str] = []
    if isinstance(attributes, str):
        chosen: list[str] = []
        for column in table.columns:
            numbers = column.numbers
            gaps = numbers is not None and np.isnan(numbers.astype(float)).any()
            fits = options.missing != "error" or options.schema is not None or not gaps
            (chosen if fits else left_out).append(column.title)
    else:
        chosen = list(attributes)
        unknown = [name for name in chosen if name not in titles]
        if unknown:
            raise ParameterError(
                f"features names {unknown[0]!r}, which no node of {label} has: choose from {listed(titles)}.",
                argument="features",
            )
    if not chosen:
        raise GraphError(
            Argument("features", "attributes"), " found no node attribute with a value at every node."
        )
    used = replace(table, columns=[column for column in table.columns if column.title in chosen])
    # No column is an id here: the attributes belong to their nodes.
    made = feature_table(used, replace(options, ids=False))
    notes = [Note("features", f"features from the node attributes {listed(chosen)}"), *made.notes]
    if left_out:
        said = f"node attributes {listed(left_out)} left out (missing at some nodes)"
        notes.append(Note("attributes_left_out", said, attributes=left_out))
    return graph.with_features(made.x, made.names, schema=made.schema).with_notes(*notes)
