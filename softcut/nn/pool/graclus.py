"""Graclus pooling (Dhillon et al., 2007): merge pairs of nodes that a normalised cut would keep together."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softcut.coarsening import Graclus, Level
from softcut.errors import ParameterError
from softcut.nn.number_checks import check_size
from softcut.nn.pool.selection import Selection
from softcut.nn.pool.topological import PrecomputedPool
from softcut.ops import Operator, Segments
from softcut.ops.spmm import constants
from softcut.ops.triplets import cluster_graph

__all__ = ["ClusterSelection", "GraclusPool"]

REDUCTIONS = ("max", "mean", "sum")
_TABLE = 16  # nodes of a cluster up to which its maximum is taken member by member


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


class GraclusPool(PrecomputedPool[Graclus]):
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

    def __init__(
        self,
        reduction: str = "max",
        levels: int = 1,
        seed: int = 0,
        cache: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(Graclus(check_size(seed, "seed", least=0)), levels, cache)
        if reduction not in REDUCTIONS:
            raise ParameterError(f"reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}.")
        self.reduction = reduction

    def selection(self, levels: list[Level], x: Tensor, layout: Segments) -> ClusterSelection:
        cluster = levels[0].index
        for level in levels[1:]:
            cluster = level.index[cluster]
        last = levels[-1]
        ptr = None if layout.ptr is None else torch.as_tensor(last.ptr, device=x.device)
        return ClusterSelection(
            torch.as_tensor(cluster, device=x.device), last.adjacency.shape[0], layout, self.reduction, ptr
        )

    def check(self, selection: Selection) -> Tensor | None:
        if not isinstance(selection, ClusterSelection):
            raise ParameterError(f"selection must be a ClusterSelection, got {type(selection).__name__}.")
        return selection.batch

    def connect_level(self, op: Operator, selection: Selection) -> Operator:
        assert isinstance(selection, ClusterSelection)
        if selection.adj is not None:
            return selection.adj

        known = self._joined.get(op)
        if known is not None and known[0] is selection:
            return known[1]
        if op.requires_grad:  # the coarse weights are learned too
            return cluster_graph(op, selection.cluster, selection.ptr, selection.num_clusters)
        with constants():
            graph = cluster_graph(op, selection.cluster, selection.ptr, selection.num_clusters)
        self._joined[op] = selection, graph
        return graph

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}, levels={self.levels}, seed={self.coarsening.seed}"
