"""NDP, node decimation pooling (Bianchi et al., 2019): keep one side of a maximum cut, reconnect by Kron."""

from __future__ import annotations

import os

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
import torch
from scipy.sparse.csgraph import connected_components, dijkstra
from threadpoolctl import threadpool_limits
from torch import Tensor

from softcut.errors import ParameterError
from softcut.nn.pool.base import Selection
from softcut.nn.pool.keep import KeepSelection
from softcut.nn.pool.precomputed import Level, PrecomputedPool, clean, local_index, node_hash
from softcut.ops import Operator, Segments

__all__ = ["NDPPool", "kron_reduction", "max_cut_split"]

_DENSE = 300  # components up to this size: all eigenvectors, exactly
_COLUMNS = 512  # right-hand sides solved at a time
_TOGETHER = 2_000  # dropped nodes of small groups that are solved for together
_DIRECT = 10_000  # dropped nodes of one group up to which it is solved for exactly
_SERIES = 200  # terms of the series for more than that


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
    before the next. Past ten thousand nodes in one group, and where `delta` drops light edges anyway, a series
    of sparse products takes its place, exact to about a hundredth of what is dropped.
    """
    limit = delta * _heaviest(adjacency, ptr)  # of every node
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
        total = total + _through_groups(inside, between, degree[rest], ~lonely, limit[kept])
    total = clean(sp.csr_array(total))
    total.data[total.data < np.repeat(limit[kept], np.diff(total.indptr))] = 0
    total.eliminate_zeros()
    return total


def _heaviest(adjacency: sp.csr_array, ptr: np.ndarray | None) -> np.ndarray:
    """The heaviest edge of its graph, for every node."""
    n = adjacency.shape[0]
    if ptr is None:
        return np.full(n, adjacency.data.max(initial=0.0))
    graph = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    heaviest = np.zeros(len(ptr) - 1)
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
    if len(degree) > _DIRECT and (tiny > 0).all():
        series = _sparse_series(w, b, degree, tiny)
        if series is not None:
            return sp.csr_array(b.T @ series)
    solve = spla.splu(sp.csc_array(sp.diags_array(degree) - w)).solve
    columns, left = sp.csc_array(b), sp.csr_array(b.T)
    blocks = []
    for i in range(0, b.shape[1], _COLUMNS):
        block = left @ solve(columns[:, i : i + _COLUMNS].toarray())
        block[block < tiny[i : i + _COLUMNS]] = 0
        blocks.append(sp.csc_array(block))
    return sp.csr_array(sp.hstack(blocks))


def _sparse_series(
    w: sp.csr_array, b: sp.csr_array, degree: np.ndarray, tiny: np.ndarray
) -> sp.csr_array | None:
    """(D - W)^-1 B by X <- D^-1 (B + W X), entries below `tiny` dropped; None where that is too slow."""
    scale = sp.diags_array(1 / degree)
    step, first = sp.csr_array(scale @ w), sp.csr_array(scale @ b)
    x = first
    for _ in range(_SERIES):
        new = sp.csr_array(first + step @ x)
        new.data[new.data < tiny[new.indices]] = 0
        new.eliminate_zeros()
        change = sp.csr_array(abs(new - x))
        x = new
        if bool((change.data < tiny[change.indices]).all()):
            return x
    return None


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
        return f"ndp|seed={self.seed}|delta={self.delta!r}"

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
