"""Graclus and NDP: poolers whose selection depends on the graph alone, is found on the CPU and remembered."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.coarsening import CoarseningCache, Graclus, Level, NodeDecimation, clean, hierarchy
from softcut.errors import ParameterError
from softcut.nn.layers import check_number, check_size
from softcut.nn.pool.base import Pool, PoolOutput
from softcut.nn.pool.selection import KeepSelection, Selection, same_rows
from softcut.ops import CSR, CSRPattern, Dense, Operator, Segments
from softcut.ops.batching import Padded
from softcut.ops.convert import cluster_graph, entries, to_ragged
from softcut.ops.spmm import constants

REDUCTIONS = ("max", "mean", "sum")
_TABLE = 16  # nodes of a cluster up to which its maximum is taken member by member
_ANOTHER_BATCH = "selection must come from the same padded batch that is pooled"


class _ClusterMax(torch.autograd.Function):
    """Maximum over small clusters; the gradient goes to the first node that has it, by gathering alone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, cluster: Tensor, table: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        out = x.index_select(0, table[:, 0])
        best = torch.zeros_like(out, dtype=torch.int8)
        for j in range(1, table.shape[1]):
            other = x.index_select(0, table[:, j])
            best = torch.where(other > out, j, best)
            out = torch.maximum(out, other)
        return out, best

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        _, cluster, _, column = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(cluster, column, output[1])

    @staticmethod
    def backward(ctx, grad, _):  # type: ignore[no-untyped-def]
        cluster, column, best = ctx.saved_tensors
        mine = best.index_select(0, cluster) == column.unsqueeze(-1)
        return grad.index_select(0, cluster) * mine, None, None, None


@dataclass
class ClusterSelection(Selection):
    """Hard clusters: `cluster` [N] numbers the cluster of every node of a ragged batch.

    >>> import torch
    >>> from softcut.ops import Segments
    >>> pairs = ClusterSelection(torch.tensor([0, 0, 1]), 2, Segments(3))
    >>> pairs.reduce(torch.tensor([[1.0], [5.0], [2.0]])).flatten().tolist()
    [5.0, 2.0]
    >>> pairs.lift(torch.tensor([[5.0], [2.0]])).flatten().tolist()
    [5.0, 5.0, 2.0]

    `lift` gives every node its cluster's value; with `pinv` a sum is divided by the cluster's size first
    (a mean or a maximum is of the size of its members already).
    """

    cluster: Tensor
    num_clusters: int
    layout: Segments
    reduction: str = "max"
    ptr: Tensor | None = None
    adj: Operator | None = None

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return (self.num_clusters,)

    @property
    def batch(self) -> Tensor | None:
        """Graph number of every cluster; None for a single graph."""
        return None if self.ptr is None else Segments(self.num_clusters, self.ptr).batch

    @cached_property
    def size(self) -> Tensor:
        """Nodes of every cluster."""
        with constants():
            return torch.bincount(self.cluster, minlength=self.num_clusters)

    @property
    def s(self) -> Tensor:
        """S as a sparse [N, K] matrix."""
        n = self.cluster.numel()
        place = torch.stack([torch.arange(n, device=self.cluster.device), self.cluster])
        ones = torch.ones(n, device=self.cluster.device)
        return torch.sparse_coo_tensor(place, ones, (n, self.num_clusters), check_invariants=False)

    @cached_property
    def members(self) -> tuple[Tensor, Tensor] | None:
        """Nodes of every cluster [K, M] (short ones repeat their first) and each node's column; None if M is large."""
        with constants():
            size = self.size
            most = int(size.max()) if size.numel() else 0
            if not 0 < most <= _TABLE or bool((size == 0).any()) or size.numel() != self.num_clusters:
                return None
            order = torch.argsort(self.cluster, stable=True)
            first = size.cumsum(0) - size
            column = torch.empty_like(order)
            column[order] = torch.arange(len(order), device=order.device) - first.repeat_interleave(size)
            table = order[first].unsqueeze(1).repeat(1, most)
            table[self.cluster, column] = torch.arange(len(order), device=order.device)
            return table, column.to(torch.int8)

    def reduce(self, x: Tensor) -> Tensor:
        if self.reduction == "max" and self.members is not None:
            return _ClusterMax.apply(x, self.cluster, *self.members)[0]
        zeros = x.new_zeros(self.num_clusters, x.shape[-1])
        if self.reduction == "max":
            where = self.cluster.unsqueeze(-1).expand_as(x)
            return zeros.scatter_reduce(0, where, x, "amax", include_self=False)
        total = zeros.index_add(0, self.cluster, x)
        return total if self.reduction == "sum" else total / self.size.to(x.dtype).unsqueeze(-1)

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        self.check_pooled(x_pool)
        if pinv and self.reduction == "sum":
            x_pool = x_pool / self.size.to(x_pool.dtype).unsqueeze(-1)
        return x_pool.index_select(0, self.cluster)


class FlatSelection(Selection):
    """A selection of a ragged batch, `inner`, used for a padded one whose real rows are `real`."""

    def __init__(self, inner: Selection, real: Tensor) -> None:
        self.inner, self.real = inner, real

    @property
    def s(self) -> Tensor:
        return self.inner.s

    @property
    def pooled_rows(self) -> tuple[int, ...] | None:
        return self.inner.pooled_rows

    def check(self, op: Operator) -> None:
        if not isinstance(op, Dense) or self.real.shape != op.data.shape[:2]:
            raise ParameterError(_ANOTHER_BATCH + ".", argument="selection")
        if not same_rows(Padded(len(self.real), self.real), op.layout):
            raise ParameterError(_ANOTHER_BATCH + "; its mask differs.", argument="selection")
        super().check(op)

    def reduce(self, x: Tensor) -> Tensor:
        return self.inner.reduce(x[self.real])

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        rows = self.inner.lift(x_pool, pinv)
        out = rows.new_zeros(*self.real.shape, rows.shape[-1])
        return out.masked_scatter(self.real.unsqueeze(-1), rows)


def to_scipy(op: Operator) -> sp.csr_array:
    """A symmetric scipy matrix without duplicates, zeros or self-loops."""
    row, col, _ = triplets = entries(op)
    values = triplets.values(torch.float64).detach().to("cpu", torch.float64).numpy()
    place = row.cpu().numpy(), col.cpu().numpy()
    matrix = sp.coo_array((values, place), shape=(op.num_rows, op.num_rows)).tocsr()
    return clean(matrix, symmetric=op.symmetric)


class PrecomputedPool(Pool):
    """A pooler whose selection needs the graph only.

    It is found once: for the same operator object, for equal graphs seen again and, with a folder, in later runs.
    """

    kind: type[ClusterSelection | KeepSelection]

    def __init__(self, coarsening: Any, levels: int, cache: str | os.PathLike[str] | None) -> None:
        super().__init__()
        self.coarsening, self.levels = coarsening, check_size(levels, "levels")
        self.cache = CoarseningCache(cache)
        # For an operator: selections by options, and the graph that was connected last ("joined").
        self._seen: WeakKeyDictionary[Operator, dict[Any, Any]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_seen"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._seen = WeakKeyDictionary()

    @abstractmethod
    def selection(self, levels: list[Level], ptr: Tensor | None, layout: Segments, like: Tensor) -> Selection:
        """Levels, one after another, as one selection on the device and in the precision of `like`."""

    def hierarchy(self, adjacency: sp.csr_array, ptr: np.ndarray | None = None) -> list[Level]:
        """All levels of a graph, from the cache where they are known."""
        return hierarchy(self.coarsening, adjacency, self.levels, ptr, self.cache)

    def select(self, x: Tensor, op: Operator) -> Selection:
        known = self._seen.setdefault(op, {})
        state = op.version if isinstance(op, Dense) else None  # the caller's tensor may change in place
        key = (self.coarsening.recipe, self.levels, self.extra_repr(), x.dtype, x.device, state)
        if key not in known:
            with constants():
                known[key] = self._select(torch.empty(0, dtype=x.dtype, device=x.device), op)
        return known[key]

    def _select(self, like: Tensor, op: Operator) -> Selection:
        if isinstance(op, Dense):
            csr, real = to_ragged(op)
            return FlatSelection(self._select(like, csr), real)
        assert isinstance(op.layout, Segments)
        if op.layout.ptr is None:
            return self.selection(self.hierarchy(to_scipy(op)), None, op.layout, like)
        levels = self.hierarchy(to_scipy(op), op.layout.ptr.cpu().numpy())
        return self.selection(levels, torch.as_tensor(levels[-1].ptr, device=like.device), op.layout, like)

    def connect(self, op: Operator, selection: Any) -> Operator:
        """The coarse graph: the one that the selection brings, unless a subclass can make it."""
        return selection.adj

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        inner = selection.inner if isinstance(selection, FlatSelection) else selection
        if isinstance(op.layout, Padded) and inner is selection:
            raise ParameterError(_ANOTHER_BATCH + ".", argument="selection")
        if not isinstance(inner, self.kind):
            raise ParameterError(
                f"selection must be a {self.kind.__name__}, got {type(inner).__name__}.", argument="selection"
            )
        if isinstance(inner, KeepSelection) and inner.adj is None:
            raise ParameterError(
                "selection must be a KeepSelection with its coarse graph.", argument="selection"
            )

        def connect() -> Operator:
            return self.connect(to_ragged(op)[0] if isinstance(op, Dense) else op, inner)

        return PoolOutput(x=selection.reduce(x), adj=connect, selection=selection, batch=inner.batch)


class GraclusPool(PrecomputedPool):
    """Merge pairs of similar neighbours; the number of nodes about halves at every level.

    >>> import torch
    >>> from softcut.nn import GraclusPool
    >>> pool = GraclusPool()
    >>> out = pool(torch.rand(4, 8), torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]))
    >>> out.x.shape, out.adj.to_dense().tolist()
    (torch.Size([2, 8]), [[0.0, 1.0], [1.0, 0.0]])

    Parameters
    ----------
    reduction : {"max", "mean", "sum"}
        How the features of a cluster become one row. A node without a partner keeps its own (what the
        literature calls a fake partner).
    levels : int
        Matchings in a row: 1 halves the nodes, 2 leaves a quarter.
    seed : int
        Decides between nodes of one degree.
    cache : path, optional
        Folder where matchings are kept between runs.

    Notes
    -----
    Nothing is learned. The weight of a pair is w_ij (1/d_i + 1/d_j); edges between clusters add up, those
    inside are dropped. Matching happens on the CPU, once per graph: see
    :class:`~softcut.nn.PreCoarsen` to keep it out of a training loop.
    """

    kind = ClusterSelection

    def __init__(
        self,
        reduction: str = "max",
        levels: int = 1,
        seed: int = 0,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(Graclus(check_size(seed, "seed", least=0)), levels, cache)
        if reduction not in REDUCTIONS:
            raise ParameterError(
                f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}.", argument="reduction"
            )
        self.reduction = reduction

    def selection(self, levels: list[Level], ptr: Tensor | None, layout: Segments, like: Tensor) -> Selection:
        cluster = levels[0].index
        for level in levels[1:]:
            cluster = level.index[cluster]
        number = levels[-1].adjacency.shape[0]
        return ClusterSelection(
            torch.as_tensor(cluster, device=like.device), number, layout, self.reduction, ptr
        )

    def connect(self, op: Operator, selection: Any) -> Operator:
        if selection.adj is not None:
            return selection.adj
        if op.requires_grad:  # the coarse weights are learned too
            return cluster_graph(op, selection.cluster, selection.ptr, selection.num_clusters)
        known = self._seen.setdefault(op, {})
        if "joined" not in known or known["joined"][0] is not selection:
            with constants():
                graph = cluster_graph(op, selection.cluster, selection.ptr, selection.num_clusters)
            known["joined"] = selection, graph
        return known["joined"][1]

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}, levels={self.levels}, seed={self.coarsening.seed}"


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
    levels, cache
        As for :class:`~softcut.nn.GraclusPool`, of decimations in a row.
    delta : float
        Edges lighter than `delta` times the heaviest edge are dropped after each reduction.
    seed : int
        Of the random splits, used where the spectral cut is worse than a random one.

    Notes
    -----
    Nothing is learned; the coarse graph is constant (no gradient reaches edge weights through it). The
    split is made in every connected component on its own, so that no component disappears and a node
    without edges stays.
    """

    kind = KeepSelection

    def __init__(
        self,
        levels: int = 1,
        delta: float = 1e-2,
        seed: int = 0,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            NodeDecimation(check_number(delta, "delta"), check_size(seed, "seed", least=0)), levels, cache
        )

    def selection(self, levels: list[Level], ptr: Tensor | None, layout: Segments, like: Tensor) -> Selection:
        index = levels[0].index
        for level in levels[1:]:
            index = index[level.index]
        a, device = levels[-1].adjacency, like.device
        rows, columns = (torch.as_tensor(t, dtype=torch.int32, device=device) for t in (a.indptr, a.indices))
        weight = torch.as_tensor(a.data, dtype=like.dtype, device=device)
        adj = CSR(CSRPattern(rows, columns, (len(index), len(index))), weight, ptr=ptr, symmetric=True)
        return KeepSelection(torch.as_tensor(index, device=device), layout, ptr=ptr, adj=adj)

    def extra_repr(self) -> str:
        return f"levels={self.levels}, delta={self.coarsening.delta}, seed={self.coarsening.seed}"
