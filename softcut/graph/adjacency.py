"""Adjacency matrices: canonical CSR, self-loops, symmetry, blocks of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from softcut.errors import Argument, GraphError, Note, Sentence
from softcut.graph.checks import check_count, check_self_loops, check_weight_values, tidied
from softcut.tables.arrays import plural, shape_of, warn_caller


def adjacency_of_edges(
    source: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    n: int,
    self_loops: str,
    directed: bool | None,
    notes: list[str],
    weighted: bool = True,
) -> sp.csr_array:
    """The symmetric adjacency of validated edges; what was dropped and merged is added to ``notes``.

    Edges that are given several times add up, without weights each of them counts 1; unless ``weighted`` is False:
    then an edge is there or not.
    """
    check_self_loops(self_loops)
    dtype = np.int32 if 2 * source.size < 2**31 else np.int64
    source, target = source.astype(dtype, copy=False), target.astype(dtype, copy=False)
    if self_loops == "drop":
        loops = source == target
        count = int(np.count_nonzero(loops))
        if count:
            _warn_loops(count, notes)
            keep = np.logical_not(loops, out=loops)
            source, target = source[keep], target[keep]
            weight = None if weight is None else weight[keep]
    if weight is not None and not weight.all():
        keep = weight != 0
        zeros = int(weight.size - np.count_nonzero(keep))
        notes.append(
            Note("zero_weights_dropped", f"{plural(zeros, 'edge')} of weight 0 dropped", count=zeros)
        )
        source, target, weight = source[keep], target[keep], weight[keep]
    # Booleans are merged with "or" and take an eighth of the memory: enough where no edge is given twice.
    data = np.ones(source.size, dtype=bool) if weight is None or not weighted else weight
    matrix = _summed(data, source, target, n)
    _check_overflow(matrix, "edge_weight")
    merged = int(source.size - matrix.nnz)
    if merged:
        if weight is None and weighted:
            matrix = _summed(np.ones(source.size, dtype=np.int32), source, target, n)
        notes.append(_note_of_repeats(merged, weight is not None, weighted))
    matrix = symmetrised(matrix, directed, "edge_index", notes, weighted)
    return matrix if weight is not None and weighted else matrix.astype(np.float64)


def _summed(data: np.ndarray, source: np.ndarray, target: np.ndarray, n: int) -> sp.csr_array:
    with np.errstate(over="ignore"):
        return sp.csr_array(sp.coo_array((data, (source, target)), shape=(n, n)))


def _note_of_repeats(count: int, has_weights: bool, weighted: bool) -> Note:
    edges = plural(count, "repeated edge")
    if not weighted:
        return Note("edges_merged", f"{edges} merged", count=count)
    if has_weights:
        return Note("edges_merged", f"{edges} merged, their weights summed", count=count)
    how = (" counted as weight (", Argument("weighted", False), ": every edge weighs 1)")
    return Note("edges_counted", edges, *how, count=count)


def canonical_csr(adjacency: Any, argument: str) -> sp.csr_array:
    """A sorted, merged, checked float CSR copy (or view, when nothing had to change) of a sparse matrix."""
    if not sp.issparse(adjacency):
        raise GraphError(f"{argument} is a {type(adjacency).__name__}: pass a scipy sparse matrix.")
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise GraphError(f"{argument} has shape {shape_of(adjacency)}: pass a square, N x N matrix.")
    if adjacency.shape[0] == 0:
        raise GraphError(f"{argument} has no nodes: pass a matrix of at least 1 x 1.")
    check_count(adjacency.shape[0], "the number of nodes")
    if adjacency.dtype.kind not in "biuf":
        raise GraphError(f"{argument} has dtype {adjacency.dtype}: pass non-negative numbers.")
    try:
        if adjacency.format in ("csr", "csc", "coo", "bsr"):
            # Duplicates are summed on conversion, which may hide a negative weight: look before.
            check_weight_values(adjacency.data.ravel(), f"{argument}.data")
        if adjacency.format in ("csr", "csc", "bsr"):
            adjacency.check_format(full_check=True)
        if adjacency.dtype.kind in "iu":
            # Before repeated entries are summed on conversion: in uint8, 200 + 100 is 44.
            adjacency = adjacency.astype(np.float64)
        with np.errstate(over="ignore"):
            matrix = sp.csr_array(adjacency)
            if adjacency.format == "coo":
                _check_overflow(matrix, f"{argument}.data")
            data = check_weight_values(matrix.data, f"{argument}.data")
            # The flags are looked up on a fresh object: the caller may have edited the arrays behind them.
            fresh = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
            matrix = tidied(fresh, adjacency.dtype == bool)
    except (ValueError, IndexError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{argument} is not a valid sparse matrix: {error}.") from None
    _check_overflow(matrix, f"{argument}.data")
    return matrix


def without_self_loops(matrix: sp.csr_array, self_loops: str, notes: list[str]) -> sp.csr_array:
    """The matrix without its diagonal, unless ``self_loops`` is "keep"; the count is added to ``notes``."""
    check_self_loops(self_loops)
    if self_loops == "keep":
        return matrix
    count = int(np.count_nonzero(matrix.diagonal()))
    if not count:
        return matrix
    _warn_loops(count, notes)
    entries = matrix.tocoo()
    keep = entries.row != entries.col
    return sp.csr_array((entries.data[keep], (entries.row[keep], entries.col[keep])), shape=matrix.shape)


def symmetrised(
    matrix: sp.csr_array, directed: bool | None, argument: str, notes: list[str], weighted: bool = True
) -> sp.csr_array:
    """An exactly symmetric matrix: A itself where A = A', else A + A', with one warning when the two differ in earnest.

    ``directed=None`` reads a matrix without a single reversed pair as a list that gives every edge once. Where
    ``weighted`` is False, an edge is there or not.
    """
    transposed = matrix.T.tocsr()
    if same_pattern(matrix, transposed):
        if matrix.dtype == bool or np.array_equal(matrix.data, transposed.data):
            return matrix
        # Sums taken in different orders differ in the last bits: no warning for that.
        tolerance = 1e-5 if matrix.dtype == np.float32 else 1e-12
        larger, smaller = np.maximum(matrix.data, transposed.data), np.minimum(matrix.data, transposed.data)
        unequal = int(np.count_nonzero(larger - smaller > tolerance * larger)) // 2
        if not unequal:
            return sp.csr_array((larger, matrix.indices, matrix.indptr), shape=matrix.shape)
        if directed is not False:
            edges = plural(unequal, "edge")
            notes.append(Note("directed", f"{edges} directed, both directions summed", count=unequal))
            warn_caller(
                f"{argument} is directed: {edges} out of {matrix.nnz // 2} "
                f"{'has' if unequal == 1 else 'have'} another weight in the other direction; "
                "the weights of the two directions are summed."
            )
        return _both_directions(matrix, transposed, argument)
    both = _both_directions(matrix, transposed, argument) if weighted else matrix.maximum(transposed)
    loops = int(np.count_nonzero(matrix.diagonal()))
    edges = matrix.nnz - loops
    reversed_too = 2 * edges - (both.nnz - loops)  # entries whose reverse is an entry as well
    if directed or (directed is None and reversed_too > 0):
        one_way = edges - reversed_too
        summed = ", both directions summed" if weighted and reversed_too else ", read without direction"
        said = f"directed ({one_way} of {edges} edges without a reverse){summed}"
        notes.append(Note("directed", said, count=one_way))
        done = (
            "the weights of the two directions are summed"
            if weighted
            else "an edge in either direction counts"
        )
        warn_caller(
            f"{argument} is directed: {one_way} of {edges} edges {'has' if one_way == 1 else 'have'} no edge "
            f"in the other direction; {done}."
        )
    return sp.csr_array(both)


def _both_directions(matrix: sp.csr_array, transposed: sp.csr_array, argument: str) -> sp.csr_array:
    """A + A', in a type that holds the sum; a self-loop has no other direction and stays as it is."""
    if matrix.dtype == bool:
        matrix, transposed = matrix.astype(np.int8), transposed.astype(np.int8)
    with np.errstate(over="ignore"):
        both = sp.csr_array(matrix + transposed)
    both.sort_indices()
    if matrix.diagonal().any():
        rows = np.repeat(np.arange(both.shape[0]), np.diff(both.indptr))
        at = np.flatnonzero(rows == both.indices)
        both.data[at] = matrix.diagonal()[rows[at]]
    _check_overflow(both, argument)
    return both


def same_pattern(a: sp.csr_array, b: sp.csr_array) -> bool:
    """Whether two canonical matrices have entries in the same places."""
    return np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)


def _check_overflow(matrix: sp.csr_array, argument: str) -> None:
    if matrix.dtype != bool and matrix.nnz and not np.isfinite(matrix.data.max()):
        at = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        raise GraphError(
            f"{argument} is too large: the repeated edge ({row}, {int(matrix.indices[at])}) sums to more "
            f"than {matrix.dtype} can hold; divide all weights by a common factor."
        )


def _warn_loops(count: int, notes: list[str]) -> None:
    said, them = f"{plural(count, 'self-loop')} dropped", "it" if count == 1 else "them"
    notes.append(Note("self_loops_dropped", said, count=count))
    warn_caller(Sentence(f"{said}; pass ", Argument("self_loops", "keep"), f" to keep {them}."))
