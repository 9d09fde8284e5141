"""Clusters as a data frame, alone or beside what a table says about the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, require
from softcut.tables.arrays import plural
from softcut.tables.frames import is_frame, rows_by_name


def frame_of_clusters(
    names: Sequence[str] | None,
    labels: np.ndarray,
    soft: Any,
    nodes: Any = None,
    levels: np.ndarray | None = None,
) -> Any:
    """A pandas frame of cluster and probability per node, behind the columns of `nodes` where they are given.

    The clusters of nested `levels` [L, N] follow, where there are several.

    >>> frame_of_clusters(["ann", "bob"], np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]))
          cluster  probability
    node
    ann         0          0.9
    bob         1          0.8
    """
    pandas = require("pandas", "tables", "to_frame")
    index = pandas.RangeIndex(len(labels), name="node") if names is None else pandas.Index(names, name="node")
    highest = soft.max(axis=1)
    columns = {"cluster": labels, "probability": highest.toarray() if sp.issparse(highest) else highest}
    if levels is not None and len(levels) > 1:
        columns |= {f"level_{depth}": each for depth, each in enumerate(levels)}
    clusters = pandas.DataFrame(columns, index=index)
    if nodes is None:
        return clusters
    if not is_frame(nodes):
        raise GraphError(f"nodes is a {type(nodes).__name__}: pass a data frame with one row per node.")
    table = nodes if isinstance(nodes, pandas.DataFrame) else pandas.DataFrame(nodes.to_dict(as_series=False))
    taken = [title for title in columns if title in table.columns]
    if taken:
        raise GraphError(f"nodes has a column {taken[0]!r} already: rename it, or drop it.")
    rows = rows_by_name(table, None if names is None else list(names), len(labels))
    if rows is None:
        have = plural(len(table), "row")
        raise GraphError(
            f"nodes has {have}, and {len(labels)} nodes have no numbers in its index: pass one row per node."
            if names is None
            else "nodes has the name of no node, neither in its index nor in a column: set its index to the names."
        )
    selected = table.take(np.where(rows >= 0, rows, 0)).set_axis(index)
    selected = selected.where(pandas.Series(rows >= 0, index=index), axis=0) if (rows < 0).any() else selected
    return pandas.concat([selected, clusters], axis=1)
