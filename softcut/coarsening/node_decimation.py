"""Node decimation, NDP (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron reduction."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache as remember
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components, dijkstra
from threadpoolctl import threadpool_limits

from softcut.coarsening.levels import Level, clean, graph_index, local_index, node_hash
from softcut.errors import GraphError, ParameterError, require

_DENSE = 300  # components up to this size: all eigenvectors, exactly
_COLUMNS = 512  # right-hand sides solved at a time
_TOGETHER = 2_000  # dropped nodes of small groups that are solved for together
_WALK_STEPS = 5_000  # with more steps than this in a kept node's walks, on average, groups are solved for
_DIRECT = 2_000  # dropped neighbours of dropped nodes in a graph, up to which it is solved for exactly
_PURPOSE = "NDP pooling of a graph this large"


@dataclass(frozen=True)
class NodeDecimation:
    """Coarsening by node decimation: about half of the nodes stay.

    Edges lighter than `delta` times the heaviest edge are dropped after the reduction; `seed` is that of random splits.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> level = NodeDecimation()(path)
    >>> level.index.tolist(), level.adjacency.toarray().tolist()
    ([1, 3], [[0.0, 0.5], [0.5, 0.0]])
    """

    delta: float = 1e-2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.delta < 1:
            raise ParameterError(f"delta must be at least 0 and below 1, got {self.delta}.", argument="delta")

    @property
    def recipe(self) -> str:
        """Everything besides the graph that decides the coarsening."""
        return f"ndp2|seed={self.seed}|delta={self.delta!r}"  # 2: walks in large graphs

    def __call__(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> Level:
        """One level."""
        ptr = np.array([0, adjacency.shape[0]]) if ptr is None else ptr
        # Many small BLAS calls: threads would spend their time waiting for each other.
        with threadpool_limits(1, user_api="blas"):
            keep = max_cut_split(adjacency, ptr, self.seed)
            index = np.flatnonzero(keep)
            coarse = kron_reduction(adjacency, keep, self.delta, ptr)
        # To float32 and back: the next level then sees the same numbers whether it is computed at once
        # or from a float32 operator, and ties are broken in the same way.
        coarse.data = coarse.data.astype(np.float32).astype(np.float64)
        coarse.eliminate_zeros()
        return Level(index, coarse, np.searchsorted(index, ptr))


def _top_eigenvector(adjacency: sp.csr_array, degree: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Eigenvector of the largest eigenvalue of I - D^-1/2 A D^-1/2; zeros where it was not found."""
    scale = sp.diags_array(1 / np.sqrt(degree))
    normalised, n = scale @ adjacency @ scale, len(degree)
    if n <= _DENSE:
        return np.linalg.eigh(-normalised.toarray())[1][:, -1]
    try:
        return spla.eigsh(-normalised, k=1, which="LA", v0=start, tol=1e-6, maxiter=20 * n)[1][:, 0]
    except spla.ArpackError:
        return np.zeros(n)


def _is_cut(adjacency: sp.csr_array, side: np.ndarray) -> np.ndarray:
    """Which of the edges run between the two sides."""
    return np.repeat(side, np.diff(adjacency.indptr)) != side[adjacency.indices]


def _split_component(adjacency: sp.csr_array, chance: np.ndarray) -> np.ndarray:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    # The eigenvector of a bipartite graph is known: signs by the parity of the distance, and |v_i| = sqrt(d_i).
    side = dijkstra(adjacency, unweighted=True, indices=0).astype(np.int64) % 2 == 0
    size = np.sqrt(degree)
    if not _is_cut(adjacency, side).all():
        vector = _top_eigenvector(adjacency, degree, chance.astype(np.float64) / 2**63 - 1)
        side, size = vector >= 0, np.abs(vector)
    if adjacency.data[_is_cut(adjacency, side)].sum() / adjacency.data.sum() >= 0.5:
        # An eigenvector has no sign of its own: the side of its largest entry stays.
        largest = int(np.flatnonzero(size >= size.max() * (1 - 1e-6))[0])
        return side if side[largest] else ~side
    side = np.zeros(len(side), bool)
    side[np.argsort(chance, kind="stable")[: (len(side) + 1) // 2]] = True
    return side


def max_cut_split(adjacency: sp.csr_array, ptr: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Which nodes stay: one side of the spectral maximum cut of every connected component.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> max_cut_split(path).tolist()
    [False, True, False, True]

    The sides are the signs of the eigenvector of the largest eigenvalue of the normalised Laplacian. Where the cut
    holds less than half of the edge weight, which a random split reaches on average, the split is random, by `seed`.
    `adjacency` and `ptr` are those of :func:`~softcut.coarsening.graclus_matching`.
    """
    chance = node_hash(local_index(adjacency.shape[0], ptr), seed)
    label = connected_components(adjacency, directed=False)[1]
    keep = np.diff(adjacency.indptr) == 0  # a node without edges stays
    together = np.flatnonzero(~keep)
    together = together[np.argsort(label[together], kind="stable")]
    for nodes in np.split(together, np.flatnonzero(np.diff(label[together])) + 1):
        if len(nodes):
            keep[nodes] = _split_component(adjacency[nodes][:, nodes], chance[nodes])
    return keep


def kron_reduction(
    adjacency: sp.csr_array, keep: np.ndarray, delta: float = 0.0, ptr: np.ndarray | None = None
) -> sp.csr_array:
    """The adjacency of the Schur complement L_kk - L_kd L_dd^-1 L_dk of the Laplacian on the kept nodes.

    Effective resistances between kept nodes are those of the whole graph.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1))
    >>> kron_reduction(path, np.array([True, False, True])).toarray().tolist()     # two resistors in series
    [[0.0, 0.5], [0.5, 0.0]]

    Parameters
    ----------
    adjacency : csr_array
        Symmetric and non-negative; self-loops do not count.
    keep : ndarray of bool
        The nodes that stay, one value per node; at least one in every connected component.
    delta : float
        At least 0 and below 1. Edges lighter than `delta` times the heaviest edge of their graph are dropped.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.

    Notes
    -----
    Nothing of size N x N is inverted or stored. A dropped node without dropped neighbours contributes a sparse
    product; groups of adjacent dropped nodes are solved by a sparse factorisation, a few hundred columns at a time.
    Past two thousand such nodes in a graph, where `delta` drops light edges anyway, walks from every kept node
    take its place (this needs numba): a walk ends when it is a thousandth of `delta` or less, which is exact to a few
    hundredths of what is dropped for the halves NDP keeps. Where kept nodes are too few for that, all is solved for.
    """
    adjacency, keep = _check_input(adjacency, keep, delta)
    graph = graph_index(adjacency.shape[0], ptr)
    heaviest = np.zeros(graph.max(initial=0) + 1)
    np.maximum.at(heaviest, np.repeat(graph, np.diff(adjacency.indptr)), adjacency.data)
    kept, rest = np.flatnonzero(keep), np.flatnonzero(~keep)
    limit, degree = delta * heaviest[graph[kept]], np.asarray(adjacency.sum(axis=1)).ravel()[rest]
    between, inside = sp.csr_array(adjacency[rest][:, kept]), sp.csr_array(adjacency[rest][:, rest])
    grouped = np.diff(inside.indptr) > 0
    rows = between[~grouped]
    total = sp.csr_array(adjacency[kept][:, kept]) + rows.T @ sp.diags_array(1 / degree[~grouped]) @ rows
    # Few of a graph are solved for exactly; whatever else is in the batch does not change which way.
    many = np.bincount(graph[rest[grouped]], minlength=len(heaviest)) > _DIRECT
    walked = grouped & many[graph[rest]] & (delta > 0)
    if walked.any():
        w, b = inside[walked][:, walked], between[walked]
        by_walks = _by_walks(w, b, degree[walked], 1e-3 * limit, 1e-3 * delta)
        if by_walks is None:  # walks take too long to reach kept nodes
            walked[:] = False
        else:
            total = total + by_walks
    if (grouped & ~walked).any():
        total = total + _by_solving(inside, between, degree, grouped & ~walked, 1e-3 * limit)
    total = clean(sp.csr_array(total))
    total.data[total.data < np.repeat(limit, np.diff(total.indptr))] = 0
    total.eliminate_zeros()
    return total


def _check_input(adjacency: sp.csr_array, keep: np.ndarray, delta: float) -> tuple[sp.csr_array, np.ndarray]:
    if not sp.issparse(adjacency):
        raise GraphError(
            f"adjacency must be a scipy sparse matrix, got {type(adjacency).__name__}; pass scipy.sparse.csr_array(A)."
        )
    adjacency = sp.csr_array(adjacency)
    n = adjacency.shape[0]
    if adjacency.shape != (n, n):
        raise GraphError(f"adjacency must be square, got shape {adjacency.shape}.")
    keep = np.asarray(keep)
    if keep.dtype != bool or keep.shape != (n,):
        raise ParameterError(
            f"keep must hold True or False for each of the {n} nodes, got {keep.dtype} of shape {keep.shape}.",
            argument="keep",
        )
    if not 0 <= delta < 1:
        raise ParameterError(f"delta must be at least 0 and below 1, got {delta}.", argument="delta")
    if adjacency.nnz and not adjacency.data.min() >= 0:  # NaN, too
        raise GraphError(
            f"adjacency must not hold negative weights or NaN to be reduced, got {adjacency.data.min():g}; drop those "
            "edges."
        )
    if adjacency.nnz and abs(adjacency - adjacency.T).max() > 1e-6 * adjacency.data.max():
        raise GraphError(
            "adjacency must be symmetric; softcut.coarsening.clean(A) takes the mean of both directions."
        )
    if adjacency.diagonal().any():
        adjacency = sp.csr_array(adjacency - sp.diags_array(adjacency.diagonal(), format="csr"))
        adjacency.eliminate_zeros()
    count, component = connected_components(adjacency, directed=False)
    lost = np.bincount(component[keep], minlength=count) == 0
    if lost.any() and not keep.any():
        raise ParameterError("keep must be True for at least one node, got none.", argument="keep")
    if lost.any():
        node = int(np.flatnonzero(lost[component])[0])
        raise ParameterError(
            f"keep must be True for at least one node of every connected component, but that of node {node} has none; "
            "remove its nodes from the graph first.",
            argument="keep",
        )
    return adjacency, keep


def _by_solving(
    inside: sp.csr_array, between: sp.csr_array, degree: np.ndarray, members: np.ndarray, tiny: np.ndarray
) -> sp.csr_array:
    """B' (D - W)^-1 B over groups of adjacent dropped nodes, small groups together."""
    label = connected_components(inside, directed=False)[1]
    used = np.flatnonzero(members)
    used = used[np.argsort(label[used], kind="stable")]
    sizes = np.unique(label[used], return_counts=True)[1]
    n, begin, total = between.shape[1], 0, None
    for end, following in zip(sizes.cumsum(), [*sizes[1:], _TOGETHER], strict=True):
        if end - begin + following <= _TOGETHER:
            continue
        nodes = used[begin:end]
        begin = end
        b = sp.csr_array(between[nodes])
        reached = np.unique(b.indices)
        part = sp.coo_array(
            _solved(inside[nodes][:, nodes], sp.csr_array(b[:, reached]), degree[nodes], tiny[reached])
        )
        place = reached[part.coords[0]], reached[part.coords[1]]
        part = sp.csr_array((part.data, place), shape=(n, n))
        total = part if total is None else total + part
    return total


def _solved(w: sp.csr_array, b: sp.csr_array, degree: np.ndarray, tiny: np.ndarray) -> sp.csr_array:
    """B' (D - W)^-1 B; entries below `tiny`, one value per column, may be left out."""
    solve = spla.splu(sp.csc_array(sp.diags_array(degree) - w)).solve
    columns, left = sp.csc_array(b), sp.csr_array(b.T)
    blocks = []
    for i in range(0, b.shape[1], _COLUMNS):
        block = left @ solve(columns[:, i : i + _COLUMNS].toarray())
        block[block < tiny[i : i + _COLUMNS]] = 0
        blocks.append(sp.csc_array(block))
    return sp.csr_array(sp.hstack(blocks))


def _by_walks(
    w: sp.csr_array, b: sp.csr_array, degree: np.ndarray, tiny: np.ndarray, faint: float
) -> sp.csr_array | None:
    """B' (D - W)^-1 B by following, from every kept node, walks through dropped nodes until they are faint.

    A walk that has become lighter than `faint` is not followed further, so a row costs what its
    neighbourhood holds and not what the graph holds; entries below `tiny`, one value per row, are left out.
    None where there are too few kept nodes for that: walks would be long, and what is lost of them much.
    """
    kept, drop, inner = (
        (m.indptr.astype(np.int64), m.indices.astype(np.int64), m.data)
        for m in map(sp.csr_array, (b.T, b, w))
    )
    n = b.shape[1]
    threads = require("numba", None, _PURPOSE).get_num_threads()
    bounds = np.linspace(0, n, threads + 1).astype(np.int64)
    walk = _walk_kernel()

    def rows(begin: int, end: int) -> Any:
        return walk(begin, end, kept, drop, inner, degree, tiny, faint)

    with ThreadPoolExecutor(threads) as pool:
        counts, columns, values = zip(*pool.map(rows, bounds[:-1], bounds[1:]), strict=True)
    if any(len(count) and count[0] < 0 for count in counts):
        return None
    indptr = np.concatenate([[0], np.concatenate(counts).cumsum()])
    return sp.csr_array((np.concatenate(values), np.concatenate(columns), indptr), shape=(n, n))


@remember
def _walk_kernel() -> Callable[..., Any]:
    numba = require("numba", None, _PURPOSE)

    @numba.njit(cache=True, nogil=True)
    def walk(begin, end, kept, drop, inner, degree, tiny, faint):  # type: ignore[no-untyped-def]
        # Of kept node i: solve (D - W) x = B e_i by passing residuals on (a node's residual over its
        # degree joins x, and its neighbours get their share), first come first served; then row i = B' x.
        kept_ptr, (drop_ptr, drop_to, drop_weight) = kept[0], drop
        dropped = len(degree)
        residual, x = np.zeros(dropped), np.zeros(dropped)
        waiting = np.zeros(dropped, np.bool_)
        queue = np.empty(dropped, np.int64)  # circular: a node waits once at most
        touched = np.empty(dropped, np.int64)
        seen = np.zeros(dropped, np.bool_)
        row = np.zeros(len(kept_ptr) - 1)
        listed = np.zeros(len(kept_ptr) - 1, np.bool_)
        patience = _WALK_STEPS * (end - begin)
        reached = np.empty(len(kept_ptr) - 1, np.int64)
        count = np.zeros(end - begin, np.int64)
        columns, values = [np.int64(0)][:0], [0.0][:0]  # empty lists whose type is known
        for i in range(begin, end):
            head, length, touches = 0, 0, 0
            # The first step goes from the kept node to its dropped neighbours, all of which are followed.
            (pointer, to, weight), u, step, least = kept, i, 1.0, -1.0
            while True:
                for e in range(pointer[u], pointer[u + 1]):
                    v = to[e]
                    residual[v] += weight[e] * step
                    if not seen[v]:
                        seen[v] = True
                        touched[touches] = v
                        touches += 1
                    if not waiting[v] and residual[v] > least * degree[v]:
                        waiting[v] = True
                        queue[(head + length) % dropped] = v
                        length += 1
                if length == 0:
                    break
                patience -= 1
                if patience < 0:
                    count[:] = -1
                    return count, np.array(columns), np.array(values)
                u = queue[head]
                head = (head + 1) % dropped
                length -= 1
                waiting[u] = False
                step = residual[u] / degree[u]
                residual[u] = 0.0
                x[u] += step
                (pointer, to, weight), least = inner, faint
            ends = 0
            for t in range(touches):
                u = touched[t]
                if x[u] > 0:
                    for e in range(drop_ptr[u], drop_ptr[u + 1]):
                        j = drop_to[e]
                        if not listed[j]:
                            listed[j] = True
                            reached[ends] = j
                            ends += 1
                        row[j] += drop_weight[e] * x[u]
                residual[u], x[u], seen[u] = 0.0, 0.0, False
            for t in range(ends):
                j = reached[t]
                if row[j] >= tiny[i] and j != i:
                    columns.append(j)
                    values.append(row[j])
                    count[i - begin] += 1
                row[j], listed[j] = 0.0, False
        return count, np.array(columns), np.array(values)

    return walk
