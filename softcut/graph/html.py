"""A graph as notebooks show it: its counts, its first nodes and what was understood when it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from softcut.graph.base import BaseGraph
from softcut.tables.arrays import plural, to_dense
from softcut.tables.display_text import shortened

_NODES, _FEATURES = 5, 6  # shown of each
_LONGEST = 40  # characters of a name


def html_of(graph: BaseGraph) -> str:
    """The graph as a piece of HTML; names are escaped.

    >>> from softcut.graph import Graph
    >>> "2 nodes, 1 edge" in html_of(Graph.from_edges([[0], [1]]))
    True
    """
    parts = [f"<p><strong>{escape(repr(graph))}</strong></p>", _table(["", "value"], _facts(graph))]
    shown = min(_NODES, graph.num_nodes)
    columns = ["node", "neighbours"]
    rows: list[list[str]] = [
        [str(i) if graph.node_names is None else graph.node_names[i], str(int(count))]
        for i, count in enumerate(np.diff(graph.adjacency.indptr[: shown + 1]))
    ]
    if graph.x is not None:
        names = graph.feature_names or [f"feature {j}" for j in range(graph.num_features)]
        columns += names[:_FEATURES]
        for row, values in zip(rows, to_dense(graph.x[:shown, :_FEATURES]), strict=True):
            row += [f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}" for value in values]
    said = f"The first {plural(shown, 'node')}" if shown < graph.num_nodes else "The nodes"
    if graph.num_features > _FEATURES:
        said += f" and {_FEATURES} of {graph.num_features:,} features"
    parts.append(_table(columns, rows, said))
    if graph.notes:
        notes = "".join(f"<li>{escape(str(note))}</li>" for note in graph.notes)
        parts.append(
            f"<details><summary>{plural(len(graph.notes), 'note')}</summary><ul>{notes}</ul></details>"
        )
    return f"<div>{''.join(parts)}</div>"


def _facts(graph: BaseGraph) -> Iterable[Sequence[str]]:
    yield "nodes", f"{graph.num_nodes:,}"
    yield "edges", f"{graph.num_edges:,}" + (", weighted" if graph.weighted else "")
    yield "neighbours of a node, mean", f"{graph.average_degree:.1f}"
    alone = int((np.diff(graph.adjacency.indptr) == 0).sum())
    if alone:
        yield "nodes without edges", f"{alone:,}"
    if graph.x is not None:
        yield "features", f"{graph.num_features:,}"
    if graph.y is not None:
        yield "labels", f"{len(np.unique(graph.y)):,}"
    if graph.num_graphs > 1:
        yield "graphs", f"{graph.num_graphs:,}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    head = "".join(f"<th>{_cell(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return escape(shortened(text, _LONGEST))
