"""NDP, node decimation pooling (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache as remember
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch
from scipy.sparse.csgraph import connected_components, dijkstra
from threadpoolctl import threadpool_limits
from torch import Tensor

from softcut.errors import ParameterError, require
from softcut.nn.pool.base import Selection
from softcut.nn.pool.node_selection import KeepSelection
from softcut.nn.pool.topological import Level, PrecomputedPool, clean, local_index, node_hash
from softcut.ops import Operator, Segments

__all__ = ["NDPPool", "kron_reduction", "max_cut_split"]

_DENSE = 300  # components up to this size: all eigenvectors, exactly
_COLUMNS = 512  # right-hand sides solved at a time
_TOGETHER = 2_000  # dropped nodes of small groups that are solved for together
_WALK_STEPS = 5_000  # steps of a kept node's walks, on average, past which groups are solved for after all
_DIRECT = 2_000  # dropped neighbours of dropped nodes in a graph, up to which it is solved for exactly


def _two_colouring(adjacency: sp.csr_array) -> np.ndarray | None:
    """Sides of a connected bipartite graph, or None. They are the wanted eigenvector's signs exactly."""
    steps = dijkstra(adjacency, unweighted=True, indices=0)
    side = steps.astype(np.int64) % 2 == 0
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return side if bool((side[row] != side[adjacency.indices]).all()) else None


def _top_eigenvector(adjacency: sp.csr_array, start: np.ndarray) -> np.ndarray | None:
    """Eigenvector of the largest eigenvalue of I - D^-1/2 A D^-1/2; None where it was not found."""
    scale = 1 / np.sqrt(np.asarray(adjacency.sum(axis=1)).ravel())
    n = adjacency.shape[0]
    normalised = sp.diags_array(scale) @ adjacency @ sp.diags_array(scale)
    if n <= _DENSE:
        return np.linalg.eigh(-normalised.toarray())[1][:, -1]
    try:
        return spla.eigsh(-normalised, k=1, which="LA", v0=start, tol=1e-6, maxiter=20 * n)[1][:, 0]
    except spla.ArpackError:
        return None


def _cut_share(adjacency: sp.csr_array, side: np.ndarray) -> float:
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return float(adjacency.data[side[row] != side[adjacency.indices]].sum() / adjacency.data.sum())


def _split_component(adjacency: sp.csr_array, chance: np.ndarray) -> np.ndarray:
    n = adjacency.shape[0]
    if n == 1:
        return np.ones(1, bool)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    side = _two_colouring(adjacency)
    if side is not None:
        weight = np.sqrt(degree)  # |v_i| of the eigenvector
    else:
        start = chance.astype(np.float64) / 2**63 - 1
        vector = _top_eigenvector(adjacency, start)
        if vector is not None:
            side, weight = vector >= 0, np.abs(vector)
    if side is not None and _cut_share(adjacency, side) >= 0.5:
        # An eigenvector has no sign of its own: the side of its largest entry stays.
        largest = int(np.flatnonzero(weight >= weight.max() * (1 - 1e-6))[0])
        return side if side[largest] else ~side
    side = np.zeros(n, bool)
    side[np.argsort(chance, kind="stable")[: (n + 1) // 2]] = True
    return side


def max_cut_split(adjacency: sp.csr_array, ptr: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Which nodes stay: one side of the spectral maximum cut of every connected component.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0, 1.0], 1) + np.diag([1.0, 1.0, 1.0], -1))
    >>> max_cut_split(path).tolist()
    [False, True, False, True]

    The sides are the signs of the eigenvector of the largest eigenvalue of the normalised Laplacian,
    found by two-colouring where the component is bipartite. Where the cut holds less than half of the
    edge weight, which a random split reaches on average, the split is random.

    Parameters
    ----------
    adjacency : csr_array
        Symmetric, non-negative, without self-loops.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.
    seed : int
        Of the random splits.
    """
    n = adjacency.shape[0]
    ptr = np.array([0, n]) if ptr is None else ptr
    chance = node_hash(local_index(ptr), seed)
    count, label = connected_components(adjacency, directed=False)
    order = np.argsort(label, kind="stable")
    bounds = np.concatenate([[0], np.bincount(label, minlength=count).cumsum()])
    keep = np.zeros(n, bool)
    alone = np.diff(adjacency.indptr) == 0
    keep[alone] = True
    for c in np.unique(label[~alone]):
        nodes = order[bounds[c] : bounds[c + 1]]
        keep[nodes] = _split_component(adjacency[nodes][:, nodes], chance[nodes])
    return keep


def kron_reduction(
    adjacency: sp.csr_array, keep: np.ndarray, delta: float = 0.0, ptr: np.ndarray | None = None
) -> sp.csr_array:
    """The adjacency of the Schur complement L_kk - L_kd L_dd^-1 L_dk of the Laplacian on the kept nodes.

    >>> import numpy as np, scipy.sparse as sp
    >>> path = sp.csr_array(np.diag([1.0, 1.0], 1) + np.diag([1.0, 1.0], -1))
    >>> kron_reduction(path, np.array([True, False, True])).toarray().tolist()     # two resistors in series
    [[0.0, 0.5], [0.5, 0.0]]

    Parameters
    ----------
    adjacency : csr_array
        Symmetric, non-negative, without self-loops.
    keep : ndarray of bool
        The nodes that stay.
    delta : float
        Edges lighter than `delta` times the heaviest edge of their graph are dropped.
    ptr : ndarray, optional
        Where the graphs of a block-diagonal batch begin.

    Notes
    -----
    Nothing of size N x N is inverted or stored. A dropped node without dropped neighbours (nearly all of
    them, behind a good cut) contributes a sparse product. For the others, groups of adjacent dropped
    nodes are solved by a sparse factorisation, a few hundred columns at a time, each block made sparse
    before the next. Past two thousand such nodes in a graph, and where `delta` drops light edges anyway, walks
    from every kept node take its place (this needs numba). A walk is given up when it is a thousandth of `delta`
    or less, so an entry is as exact as walks to the next kept node are short: to a few hundredths of what is
    dropped for the halves NDP keeps. Where kept nodes are too few for that, all is solved for.
    """
    graph = _graph_of(adjacency, ptr)
    limit = delta * _heaviest(adjacency, graph)  # of every node
    kept, rest = np.flatnonzero(keep), np.flatnonzero(~keep)
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    total = sp.csr_array(adjacency[kept][:, kept])
    between = sp.csr_array(adjacency[rest][:, kept])
    inside = sp.csr_array(adjacency[rest][:, rest])
    lonely = np.diff(inside.indptr) == 0
    simple = lonely & (np.diff(between.indptr) > 0)
    if simple.any():
        rows = between[np.flatnonzero(simple)]
        total = total + rows.T @ sp.diags_array(1 / degree[rest[simple]]) @ rows
    if not lonely.all():
        # Few of a graph are solved for exactly; whatever else is in the batch does not change which way.
        many = np.bincount(graph[rest[~lonely]], minlength=graph.max(initial=0) + 1) > _DIRECT
        walked = many[graph[rest]] & (delta > 0)
        if (~lonely & walked).any():
            nodes = np.flatnonzero(~lonely & walked)
            w, b = sp.csr_array(inside[nodes][:, nodes]), sp.csr_array(between[nodes])
            found = _by_walks(w, b, degree[rest[nodes]], 1e-3 * limit[kept], 1e-3 * delta)
            if found is None:  # walks take too long to reach kept nodes
                walked[:] = False
            else:
                total = total + found
        if (~lonely & ~walked).any():
            total = total + _through_groups(inside, between, degree[rest], ~lonely & ~walked, limit[kept])
    total = clean(sp.csr_array(total))
    total.data[total.data < np.repeat(limit[kept], np.diff(total.indptr))] = 0
    total.eliminate_zeros()
    return total


def _graph_of(adjacency: sp.csr_array, ptr: np.ndarray | None) -> np.ndarray:
    """The graph every node belongs to."""
    if ptr is None:
        return np.zeros(adjacency.shape[0], np.int64)
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def _heaviest(adjacency: sp.csr_array, graph: np.ndarray) -> np.ndarray:
    """The heaviest edge of its graph, for every node."""
    heaviest = np.zeros(graph.max(initial=0) + 1)
    np.maximum.at(heaviest, np.repeat(graph, np.diff(adjacency.indptr)), adjacency.data)
    return heaviest[graph]


def _through_groups(
    inside: sp.csr_array, between: sp.csr_array, degree: np.ndarray, members: np.ndarray, limit: np.ndarray
) -> sp.csr_array:
    """B' (D - W)^-1 B over groups of dropped nodes; groups that touch no kept node add nothing."""
    count, label = connected_components(inside, directed=False)
    touches = np.bincount(label, weights=np.diff(between.indptr), minlength=count) > 0
    used = np.flatnonzero(members & touches[label])
    used = used[np.argsort(label[used], kind="stable")]
    first = np.flatnonzero(np.diff(label[used], prepend=-1))  # where each group begins
    sizes = np.diff(first, append=len(used))
    n = between.shape[1]
    parts: list[sp.csr_array] = []
    begin = 0
    for at, size, following in zip(first, sizes, [*sizes[1:], _TOGETHER], strict=True):
        end = at + size
        if end - begin + following <= _TOGETHER:  # small groups are solved together
            continue
        nodes = used[begin:end]
        begin = end
        b = sp.csr_array(between[nodes])
        reached = np.unique(b.indices)
        b = sp.csr_array(b[:, reached])
        w = sp.csr_array(inside[nodes][:, nodes])
        small = sp.coo_array(_through(w, b, degree[nodes], 1e-3 * limit[reached]))
        rows, columns = reached[small.coords[0]], reached[small.coords[1]]
        parts.append(sp.csr_array((small.data, (rows, columns)), shape=(n, n)))
    return sum(parts[1:], parts[0]) if parts else sp.csr_array((n, n))


def _through(w: sp.csr_array, b: sp.csr_array, degree: np.ndarray, tiny: np.ndarray) -> sp.csr_array:
    """B' (D - W)^-1 B; entries below `tiny`, one value a column, may be left out."""
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
    neighbourhood holds and not what the graph holds; entries below `tiny`, one value a row, are left out.
    None where there are too few kept nodes for that: walks would be long, and what is lost of them much.
    """
    from_kept = sp.csr_array(b.T)
    arrays = (
        from_kept.indptr,
        from_kept.indices,
        from_kept.data,
        b.indptr,
        b.indices,
        b.data,
        w.indptr,
        w.indices,
        w.data,
        degree,
        tiny,
        faint,
    )
    n = b.shape[1]
    bounds = np.linspace(0, n, torch.get_num_threads() + 1).astype(np.int64)
    walk = _walk_kernel()
    with ThreadPoolExecutor(len(bounds) - 1) as pool:
        parts = list(pool.map(lambda i: walk(bounds[i], bounds[i + 1], *arrays), range(len(bounds) - 1)))
    if any(len(count) and count[0] < 0 for count, _, _ in parts):
        return None
    indptr = np.concatenate([[0], np.concatenate([count for count, _, _ in parts]).cumsum()])
    indices = np.concatenate([columns for _, columns, _ in parts])
    data = np.concatenate([values for _, _, values in parts])
    return sp.csr_array((data, indices, indptr), shape=(n, n))


@remember
def _walk_kernel() -> Callable[..., Any]:
    numba = require("numba", "pool", "NDP pooling of a graph this large")

    @numba.njit(cache=True, nogil=True)
    def walk(  # type: ignore[no-untyped-def]
        begin,
        end,
        kept_ptr,
        kept_to,
        kept_weight,
        drop_ptr,
        drop_to,
        drop_weight,
        in_ptr,
        in_to,
        in_weight,
        degree,
        tiny,
        faint,
    ):
        # Of kept node i: solve (D - W) x = B e_i by passing residuals on (a node's residual over its
        # degree joins x, and its neighbours get their share), first come first served; then row i = B' x.
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
        columns, values = np.empty(1024, np.int64), np.empty(1024)
        filled = 0
        for i in range(begin, end):
            head, length, touches = 0, 0, 0
            for e in range(kept_ptr[i], kept_ptr[i + 1]):
                u = kept_to[e]
                residual[u] += kept_weight[e]
                if not seen[u]:
                    seen[u] = True
                    touched[touches] = u
                    touches += 1
                if not waiting[u]:
                    waiting[u] = True
                    queue[(head + length) % dropped] = u
                    length += 1
            while length > 0:
                patience -= 1
                if patience < 0:
                    count[:] = -1
                    return count, columns[:0], values[:0]
                u = queue[head]
                head = (head + 1) % dropped
                length -= 1
                waiting[u] = False
                step = residual[u] / degree[u]
                residual[u] = 0.0
                x[u] += step
                for e in range(in_ptr[u], in_ptr[u + 1]):
                    v = in_to[e]
                    residual[v] += in_weight[e] * step
                    if not seen[v]:
                        seen[v] = True
                        touched[touches] = v
                        touches += 1
                    if not waiting[v] and residual[v] > faint * degree[v]:
                        waiting[v] = True
                        queue[(head + length) % dropped] = v
                        length += 1
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
            if filled + ends > len(columns):
                size = max(2 * len(columns), filled + ends)
                more_columns, more_values = np.empty(size, np.int64), np.empty(size)
                more_columns[:filled], more_values[:filled] = columns[:filled], values[:filled]
                columns, values = more_columns, more_values
            for t in range(ends):
                j = reached[t]
                if row[j] >= tiny[i] and j != i:
                    columns[filled], values[filled] = j, row[j]
                    filled += 1
                    count[i - begin] += 1
                row[j], listed[j] = 0.0, False
        return count, columns[:filled], values[:filled]

    return walk


class NDPPool(PrecomputedPool):
    """Keep one side of the spectral maximum cut; join the kept nodes by Kron reduction.

    >>> import torch
    >>> from softcut.nn import NDPPool
    >>> pool = NDPPool()
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj.to_dense().tolist()
    (torch.Size([2, 8]), [[0.0, 0.5], [0.5, 0.0]])

    Parameters
    ----------
    levels : int
        Decimations in a row: 1 halves the nodes, 2 leaves a quarter.
    delta : float
        Edges lighter than `delta` times the heaviest edge are dropped after each reduction.
    seed : int
        Of the random splits, used where the spectral cut is worse than a random one.
    cache : path, optional
        Folder where decimations are kept between runs.

    Notes
    -----
    Nothing is learned; the coarse graph is constant (no gradient reaches edge weights through it). The
    split is made in every connected component on its own, so that no component disappears and a node
    without edges stays. Decimation happens on the CPU, once per graph: see
    :class:`~softcut.nn.PreCoarsen` to keep it out of a training loop.
    """

    def __init__(
        self,
        levels: int = 1,
        delta: float = 1e-2,
        seed: int = 0,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(levels, seed, cache)
        if not 0 <= delta < 1:
            raise ParameterError(f"delta must be at least 0 and below 1, got {delta}.")
        self.delta = float(delta)

    def recipe(self) -> str:
        return f"ndp2|seed={self.seed}|delta={self.delta!r}"  # 2: walks in large graphs

    def coarsen(self, adjacency: sp.csr_array, ptr: np.ndarray) -> Level:
        # Many small BLAS calls: threads would spend their time waiting for each other.
        with threadpool_limits(1, user_api="blas"):
            return self._coarsen(adjacency, ptr)

    def _coarsen(self, adjacency: sp.csr_array, ptr: np.ndarray) -> Level:
        keep = max_cut_split(adjacency, ptr, self.seed)
        index = np.flatnonzero(keep)
        coarse_ptr = np.searchsorted(index, ptr)
        coarse = kron_reduction(adjacency, keep, self.delta, ptr)
        # To float32 and back: the next level then sees the same numbers whether it is computed at once
        # or from a float32 operator, and ties are broken in the same way.
        coarse.data = coarse.data.astype(np.float32).astype(np.float64)
        coarse.eliminate_zeros()
        return Level(index, coarse, coarse_ptr)

    def selection(self, levels: list[Level], x: Tensor, layout: Segments) -> KeepSelection:
        index = levels[0].index
        for level in levels[1:]:
            index = index[level.index]
        last = levels[-1]
        batched = layout.ptr is not None
        return KeepSelection(
            torch.as_tensor(index, device=x.device),
            layout,
            ptr=torch.as_tensor(last.ptr, device=x.device) if batched else None,
            adj=last.operator(x.dtype, x.device, keep_ptr=batched),
        )

    def check(self, selection: Selection) -> Tensor | None:
        if not isinstance(selection, KeepSelection) or selection.adj is None:
            raise ParameterError("selection must be a KeepSelection with its coarse graph.")
        return selection.batch

    def connect_level(self, op: Operator, selection: Selection) -> Operator:
        assert isinstance(selection, KeepSelection)
        assert selection.adj is not None
        return selection.adj

    def extra_repr(self) -> str:
        return f"levels={self.levels}, delta={self.delta}, seed={self.seed}"
