"""Dividing the nodes of a graph into parts of about one size, with few edges between them."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from softcut.errors import DependencyError, ParameterError, require

PartitionMethod = Literal["auto", "metis", "contiguous", "random"]
_METHODS = get_args(PartitionMethod)


def partition_nodes(
    adjacency: sp.csr_array, parts: int, method: PartitionMethod = "auto", seed: int = 0
) -> tuple[np.ndarray, str]:
    """The part of every node [N], from 0 to `parts` - 1, none of them empty; and the method that was used.

    METIS (package pymetis) keeps neighbours together; "contiguous" cuts the order of the nodes into ranges, for graphs
    whose neighbours have near numbers; "random" spreads the nodes evenly. "auto": METIS where it is installed, else
    ranges. Edge weights are not looked at.

    >>> import numpy as np
    >>> from softcut import Graph
    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]])
    >>> partition_nodes(path.adjacency, 2, "contiguous")
    (array([0, 0, 1, 1]), 'contiguous')
    """
    n = adjacency.shape[0]
    if isinstance(parts, bool) or not isinstance(parts, (int, np.integer)) or not 1 <= parts <= n:
        raise ParameterError(
            f"parts must be a whole number from 1 to the number of nodes, {n}, got {parts!r}.",
            argument="parts",
        )
    if method not in _METHODS:
        raise ParameterError(
            f"method must be one of {', '.join(_METHODS)}, got {method!r}.", argument="method"
        )
    ranges = (np.arange(n) * parts) // n
    if parts == 1 or method == "contiguous":
        return ranges, "contiguous"
    if method == "random":
        return np.random.default_rng(seed).permutation(ranges), "random"
    try:
        metis = require("pymetis", "parts", "METIS")
    except DependencyError:
        if method == "metis":
            raise
        return ranges, "contiguous"
    loops = sp.diags_array(adjacency.diagonal())
    plain = sp.csr_array(adjacency - loops) if loops.nnz else adjacency
    _, owner = metis.part_graph(
        int(parts), metis.CSRAdjacency(plain.indptr, plain.indices), options=metis.Options(seed=seed)
    )
    return _without_empty(np.asarray(owner, dtype=np.int64), int(parts)), "metis"


def _without_empty(owner: np.ndarray, parts: int) -> np.ndarray:
    """METIS may leave parts of tiny graphs empty: each takes a node of the largest one."""
    sizes = np.bincount(owner, minlength=parts)
    for part in np.flatnonzero(sizes == 0):
        giver = int(sizes.argmax())
        owner[np.flatnonzero(owner == giver)[0]] = part
        sizes[giver] -= 1
        sizes[part] = 1
    return owner


def crossing_share(adjacency: sp.csr_array, owner: np.ndarray) -> float:
    """The share of edges between two parts."""
    if not adjacency.nnz:
        return 0.0
    rows = np.repeat(owner, np.diff(adjacency.indptr))
    return float(np.mean(rows != owner[adjacency.indices]))
