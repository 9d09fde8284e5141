"""The checks every graph passes: each raises one sentence naming the argument and the first wrong value."""

from __future__ import annotations

import operator
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import GraphError, ParameterError
from softcut.tables.arrays import (
    are_whole,
    as_array,
    is_torch_sparse,
    refuse_masked,
    shape_of,
    to_dense,
    torch_sparse_to_scipy,
    warn_caller,
)

# An inferred node count far above the edge count is a wrong id, not a graph: 800 MB of row pointers.
_MAX_INFERRED_NODES = 100_000_000


def check_edge_index(edge_index: Any) -> tuple[np.ndarray, np.ndarray]:
    """Source and target arrays, int64, non-negative."""
    if isinstance(edge_index, (list, tuple)) and len(edge_index) == 2 and hasattr(edge_index[0], "detach"):
        edge_index = [as_array(part, "edge_index") for part in edge_index]
    elif not hasattr(edge_index, "__array__") and not isinstance(edge_index, (list, tuple)):
        try:
            edge_index = list(edge_index)
        except TypeError:
            raise GraphError(
                f"edge_index is a {type(edge_index).__name__}: pass integers of shape [2, E] or pairs."
            ) from None
    # Tuples are edges, however few: networkx gives G.edges this way.
    tuples = isinstance(edge_index, list) and all(isinstance(edge, tuple) for edge in edge_index)
    if tuples and any(len(edge) == 3 for edge in edge_index):
        raise GraphError(
            "edge_index has edges of three values: pass pairs, and the third values as edge_weight."
        )
    array = as_array(edge_index, "edge_index")
    if array.size == 0 and array.ndim <= 2:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty
    if array.ndim != 2 or 2 not in array.shape:
        raise GraphError(
            f"edge_index has shape {shape_of(array)}: pass integers of shape [2, E] or a list of pairs."
        )
    pairs = (tuples and array.shape[1] == 2) or array.shape[0] != 2
    if array.dtype.kind == "f":
        # Ids that went through a float table are fine as long as they are whole numbers.
        wrong = ~are_whole(array)
        if wrong.any():
            at = _first(wrong)
            raise GraphError(
                f"edge_index has {array[at]} at position {at}, which is not an integer node index: "
                "number the nodes 0 to N-1."
            )
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise GraphError(
            f"edge_index has dtype {array.dtype}: pass integer node indices (0 to N-1), and names as "
            "node_names."
        )
    if array.min() < 0:
        at = _first(array < 0)
        raise GraphError(
            f"edge_index has the negative index {int(array[at])} at position {at}: number the nodes from 0."
        )
    if pairs:
        array = array.T
    return array[0], array[1]


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def check_range(source: np.ndarray, target: np.ndarray, n: int, origin: str) -> None:
    """Every end of an edge is one of n nodes."""
    for row, ends in enumerate((source, target)):
        if ends.size and ends.max() >= n:
            at = int(np.flatnonzero(ends >= n)[0])
            raise GraphError(
                f"edge_index has node index {int(ends[at])} (row {row}, edge {at}), out of range for "
                f"{n} nodes ({origin}): number the nodes 0 to {n - 1} or correct num_nodes."
            )


def check_weights(weight: Any, count: int, argument: str) -> np.ndarray | None:
    """Float32/float64 weights, finite and non-negative."""
    if weight is None:
        return None
    array = as_array(weight, argument)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (count,) and not (count == 0 and array.size == 0):
        raise GraphError(
            f"{argument} has shape {shape_of(array)} but there are {count} edges: pass one weight per edge."
        )
    return check_weight_values(array, argument)


def check_weight_values(array: np.ndarray, argument: str) -> np.ndarray:
    """Weights that are finite and non-negative, as float32 or float64."""
    if array.dtype.kind not in "biuf":
        raise GraphError(f"{argument} has dtype {array.dtype}: pass numbers.")
    if array.size:
        # One reduction finds NaN, infinity and negatives without a temporary: min and max propagate NaN.
        low, high = array.min(), array.max()
        if not (low >= 0 and np.isfinite(high)):
            bad = (array < 0) | ~np.isfinite(array)
            at = int(np.flatnonzero(bad)[0])
            kind = "negative" if array[at] < 0 and np.isfinite(array[at]) else "not finite"
            raise GraphError(
                f"{argument} is {kind} at position {at} ({array[at]}): weights must be non-negative, finite "
                "similarities; remove or transform such edges."
            )
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    return array.astype(dtype, copy=False)


def check_count(value: Any, argument: str) -> int:
    """A number of nodes."""
    try:
        count = operator.index(value)
    except TypeError:
        raise GraphError(f"{argument} is {value!r}: pass a whole number.") from None
    if count < 0:
        raise GraphError(f"{argument} is {count}: pass a non-negative number.")
    if count >= 2**31 - 1:
        raise GraphError(f"{argument} is {count}: graphs of 2**31 or more nodes are not supported.")
    return count


def node_count(
    num_nodes: Any, x: Any, y: Any, node_names: Any, source: np.ndarray, target: np.ndarray
) -> tuple[int, str]:
    """The number of nodes and, for messages, where it was taken from."""
    if num_nodes is not None:
        return check_count(num_nodes, "num_nodes"), "num_nodes"
    for value, origin in ((x, "the rows of x"), (y, "the length of y"), (node_names, "node_names")):
        if value is not None:
            try:
                return (int(value.shape[0]) if hasattr(value, "shape") else len(value)), origin
            except (TypeError, IndexError):
                argument = origin.split()[-1]
                raise GraphError(f"{argument} is {value!r}: pass one entry per node.") from None
    if source.size == 0:
        raise GraphError("the graph has no edges and num_nodes is not given: pass num_nodes.")
    n = int(max(source.max(), target.max())) + 1
    if n > max(_MAX_INFERRED_NODES, 100 * source.size) or n >= 2**31 - 1:
        raise GraphError(
            f"edge_index has node index {n - 1} in a graph of {source.size} edges: number the nodes 0 to N-1 "
            "(np.unique(edge_index, return_inverse=True)), or pass num_nodes if this is meant."
        )
    return n, "the largest index"


def check_features(x: Any, n: int) -> np.ndarray | sp.csr_array | None:
    """Features as float32, dense or CSR as they came."""
    if x is None:
        return None
    if is_torch_sparse(x):
        x = torch_sparse_to_scipy(x)
    sparse = sp.issparse(x)
    if not sparse:
        x = as_array(x, "x")
    if x.ndim != 2:
        raise GraphError(
            f"x has shape {shape_of(x)}: pass one row per node (x.reshape(-1, 1) for a single feature)."
        )
    if x.shape[0] != n:
        raise GraphError(f"x has {x.shape[0]} rows but the graph has {n} nodes: pass one row per node.")
    if x.shape[1] == 0:
        raise GraphError("x has no columns: pass x=None for a graph without features.")
    if x.dtype.kind not in "biuf":
        raise GraphError(f"x has dtype {x.dtype}: pass numbers; encode categories as columns of 0 and 1.")
    if sparse and x.format in ("csr", "csc", "bsr"):
        try:
            x.check_format(full_check=True)  # a wrong index must not reach compiled code
        except (ValueError, IndexError) as error:
            raise GraphError(f"x is not a valid sparse matrix: {error}.") from None
    with np.errstate(over="ignore"):
        if sparse:
            result = tidied(sp.csr_array(x, dtype=np.float32), x.dtype == bool)
            values = result.data
        else:
            result = values = x.astype(np.float32, copy=False)
    if values.size and not (np.isfinite(values.min()) and np.isfinite(values.max())):
        entries = sp.coo_array(result)
        at = np.isfinite(entries.data).argmin()
        row, column = entries.row[at], entries.col[at]
        original = (sp.csr_array(x) if sparse else x)[row, column]
        problem = "does not fit in float32" if np.isfinite(original) else "is not finite"
        raise GraphError(
            f"x[{row}, {column}] is {original}, which {problem}: replace or rescale such values first."
        )
    if x.dtype.itemsize > 4 and values.size:
        _check_scale(sp.csr_array(x) if sparse else x, result)
    return result


def _check_scale(x: Any, kept: Any) -> None:
    """Columns of `x` that differ from row to row, but no longer as they are `kept` in float32."""
    low, high, least, most = (
        to_dense(each).ravel().astype(np.float64)
        for each in (x.min(axis=0), x.max(axis=0), kept.min(axis=0), kept.max(axis=0))
    )
    size = np.maximum(np.abs(low), np.abs(high))
    small = (size > 0) & (size < np.finfo(np.float32).tiny)
    if small.any():
        j = int(small.argmax())
        raise GraphError(
            f"x has no value above {size[j]:.3g} in column {j}, too small for float32: multiply that column by a "
            "constant first."
        )
    spread = high - low
    # Rounding makes constant columns differ by less than this.
    lost = (spread > 1e-12 * size) & (most - least <= 1e-6 * size)
    if lost.any():
        j = int(lost.argmax())
        warn_caller(
            f"column {j} of x differs by {spread[j]:.3g} around {low[j]:.6g}, which float32 cannot hold: it counts as "
            "constant; subtract its mean first."
        )


def tidied(matrix: sp.csr_array, boolean: bool) -> sp.csr_array:
    """Without repeated entries and zeros, with 32-bit indices where they fit; the caller's matrix is left alone."""
    if not (matrix.has_canonical_format and matrix.data.all()):
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if boolean:
            matrix.data[:] = 1  # a repeated entry of a binary matrix counts once
    if matrix.indices.dtype != np.int32 and max(matrix.nnz, *matrix.shape) < 2**31:
        # scikit-learn takes no 64-bit indices.
        indices, indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        matrix = sp.csr_array((matrix.data, indices, indptr), shape=matrix.shape)
    return matrix


def check_feature_names(names: Any, x: np.ndarray | sp.csr_array | None) -> list[str] | None:
    """One distinct name per column of the features."""
    if names is None:
        return None
    result = _texts(names, "feature_names", "column of x")
    width = 0 if x is None else int(x.shape[1])
    if len(result) != width:
        raise GraphError(
            f"feature_names has {len(result)} names but x has {width} columns: pass one per column."
        )
    _check_distinct(result, "feature_names")
    return result


def _texts(names: Any, argument: str, per: str) -> list[str]:
    refuse_masked(names, argument)
    try:
        if not isinstance(names, (str, bytes)):
            return [str(name) for name in names]
        given = "a single string"
    except TypeError:
        given = repr(names)
    raise GraphError(f"{argument} is {given}: pass a list with one name per {per}.")


def _check_distinct(names: list[str], argument: str) -> None:
    if len(set(names)) < len(names):
        repeated = next(name for name, count in Counter(names).items() if count > 1)
        raise GraphError(f"{argument} has {repeated!r} more than once: names must be unique.")


def check_labels(y: Any, n: int, argument: str = "y") -> np.ndarray | None:
    """One integer per node."""
    if y is None:
        return None
    array = as_array(y, argument)
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.ndim != 1 or array.shape[0] != n:
        raise GraphError(
            f"{argument} has shape {shape_of(array)} but the graph has {n} nodes: pass one label per node."
        )
    if array.dtype.kind == "f" and are_whole(array).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iub" or (array.dtype == np.uint64 and array.max() >= 2**63):
        raise GraphError(
            f"{argument} has dtype {array.dtype}: pass integers "
            f"(np.unique({argument}, return_inverse=True)[1] makes them)."
        )
    return array.astype(np.int64, copy=False)


def check_names(names: Any, n: int, ptr: np.ndarray | None) -> list[str] | None:
    """One name per node, unique within each graph."""
    if names is None:
        return None
    result = _texts(names, "node_names", "node")
    if len(result) != n:
        raise GraphError(f"node_names has {len(result)} names but the graph has {n} nodes.")
    for start, end in pairwise([0, n] if ptr is None else ptr.tolist()):
        _check_distinct(result[start:end], "node_names")
    return result


def check_ptr(ptr: Any, adjacency: sp.csr_array) -> np.ndarray | None:
    """The node ranges of a batch: no graph is empty, no edge leaves its graph."""
    if ptr is None:
        return None
    array = as_array(ptr, "ptr")
    n = adjacency.shape[0]
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "iu":
        raise GraphError("ptr must be a list of integers: 0, and the node count up to each graph.")
    array = array.astype(np.int64)
    if array[0] != 0 or array[-1] != n:
        raise GraphError(
            f"ptr runs from {array[0]} to {array[-1]}: it must start at 0 and end at {n} (nodes)."
        )
    if np.any(np.diff(array) <= 0):
        at = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise GraphError(f"ptr gives graph {at} no nodes: every graph of a batch needs at least one.")
    graph_of_node = np.repeat(np.arange(array.size - 1), np.diff(array))
    crossing = np.repeat(graph_of_node, np.diff(adjacency.indptr)) != graph_of_node[adjacency.indices]
    if crossing.any():
        row = int(np.searchsorted(adjacency.indptr, crossing.argmax(), side="right")) - 1
        raise GraphError(f"ptr cuts an edge: node {row} has a neighbour in another graph of the batch.")
    return array


def check_self_loops(self_loops: str) -> None:
    """What to do about self-loops."""
    if self_loops not in ("drop", "keep"):
        raise ParameterError(f"self_loops is {self_loops!r}: choose 'drop' or 'keep'.", argument="self_loops")


def check_node_selection(nodes: Any, n: int) -> np.ndarray:
    """Node indices, int64, of a list of distinct indices or a boolean mask."""
    index = as_array(nodes, "nodes")
    if index.dtype == bool:
        if index.shape != (n,):
            raise GraphError(f"nodes is a mask of shape {shape_of(index)}: pass one value per node ({n}).")
        index = np.flatnonzero(index)
    if index.ndim != 1 or index.size == 0 or index.dtype.kind not in "iu":
        raise GraphError("nodes must be a non-empty list of node indices or a boolean mask.")
    if index.min() < 0 or index.max() >= n:
        bad = int(index[(index < 0) | (index >= n)][0])
        raise GraphError(f"nodes has index {bad}, out of range for {n} nodes.")
    index = index.astype(np.int64)
    values, counts = np.unique(index, return_counts=True)
    if values.size < index.size:
        raise GraphError(f"nodes lists node {int(values[counts > 1][0])} more than once.")
    return index
