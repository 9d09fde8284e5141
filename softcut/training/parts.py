"""Parts of a graph: which nodes stand together, which parts a step takes, and the operator between these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.graph.partition import partition_nodes
from softcut.ops import CSR, CSRPattern, Operator, Sum


@dataclass(frozen=True)
class Parts:
    """Nodes in parts, of which each step takes a few at random; every pass through the graph takes each once.

    >>> parts = Parts.random(10, count=4, per_step=2, seed=0)
    >>> parts.bounds.tolist(), parts.steps, parts.node_weight, parts.largest_batch
    ([0, 3, 6, 8, 10], 2, 2.0, 6)
    >>> sorted(p for _, batch in zip(range(2), parts.batches()) for p in batch)
    [0, 1, 2, 3]
    """

    order: Tensor | None  # [N], the nodes part by part; None where they stand like that already
    bounds: Tensor  # [P + 1], where each part begins in `order`
    # q, the number of parts a step takes; it divides P. At least two where there are several: with one at a time no
    # edge between parts would ever be seen.
    per_step: int
    seed: int = 0  # of the order in which parts are taken

    def __post_init__(self) -> None:
        if self.per_step < 1 or self.count % self.per_step or (self.per_step == 1 and self.count > 1):
            raise ParameterError(
                f"per_step must divide the number of parts, {self.count}, and be 2 or more, got {self.per_step}.",
                argument="per_step",
            )

    @classmethod
    def ranges(cls, nodes: int, count: int, per_step: int, seed: int = 0) -> Parts:
        """Equal parts of nodes that stand together: for graphs whose order says nothing, or keeps neighbours close."""
        part = torch.arange(count + 1)
        return cls(None, part * (nodes // count) + part.clamp(max=nodes % count), per_step, seed)

    @classmethod
    def random(cls, nodes: int, count: int, per_step: int, seed: int = 0) -> Parts:
        """Equal parts at random: every batch is like the whole graph, with few of its edges."""
        order = torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))
        return cls(order, cls.ranges(nodes, count, per_step).bounds, per_step, seed)

    @classmethod
    def metis(cls, adjacency: sp.csr_array, count: int, per_step: int, seed: int = 0) -> Parts:
        """Parts with few edges between them (METIS): every batch has most of the edges of its nodes."""
        member, _ = partition_nodes(adjacency, count, "metis", seed)
        order = np.argsort(member, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(member, minlength=count))])
        return cls(torch.from_numpy(order), torch.from_numpy(bounds), per_step, seed)

    @property
    def count(self) -> int:
        """P."""
        return len(self.bounds) - 1

    @property
    def steps(self) -> int:
        """Steps of one pass through the graph, P / q."""
        return self.count // self.per_step

    @property
    def node_weight(self) -> float:
        """What a node counts for in a batch, P / q; an entry of A inside a part counts as much."""
        return self.count / self.per_step

    @property
    def pair_weight(self) -> float:
        """What an entry of A between two parts counts for, P (P - 1) / (q (q - 1))."""
        if self.per_step == 1:
            return 1.0
        return self.node_weight * (self.count - 1) / (self.per_step - 1)

    @property
    def largest_batch(self) -> int:
        """Nodes of the largest batch there can be."""
        sizes = (self.bounds[1:] - self.bounds[:-1]).sort().values
        return int(sizes[-self.per_step :].sum())

    def rows(self, part: int) -> slice:
        """Where a part stands."""
        return slice(int(self.bounds[part]), int(self.bounds[part + 1]))

    def batches(self) -> Iterator[list[int]]:
        """Parts of every step, without end."""
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            drawn = torch.randperm(self.count, generator=generator).view(self.steps, self.per_step)
            yield from drawn.sort(dim=1).values.tolist()

    def of(self, values: Tensor, chosen: Sequence[int], device: torch.device | str) -> Tensor:
        """The values [N, ...] of some parts, copied to a device: [n, ...]."""
        rows = [self.rows(p) for p in chosen]
        if self.order is None:
            return torch.cat([values[r].to(device) for r in rows])
        nodes = torch.cat([self.order[r] for r in rows])
        return values.index_select(0, nodes.to(values.device)).to(device)

    def arranged(self, values: Tensor) -> Tensor:
        """Values [N, ...] of all nodes, part by part."""
        return values if self.order is None else values.index_select(0, self.order.to(values.device))


class PartedOperator:
    """An operator whose rows and columns stand part by part, and the operators between some of the parts.

    >>> import torch
    >>> from softcut.ops import CSR
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> parted = PartedOperator(op, Parts.ranges(3, 3, per_step=3))
    >>> parted.take([0, 1, 2], torch.device("cpu")).to_dense().int().tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]

    `op` is a CSR operator or a sum of such, symmetric, its entries not learned; `degree` are its degrees, where they
    are known already.
    """

    def __init__(self, op: Operator, parts: Parts, degree: Tensor | None = None) -> None:
        nodes = int(parts.bounds[-1])
        if op.num_rows != nodes:
            raise ParameterError(
                f"parts are of {nodes} nodes, but the operator has {op.num_rows}.", argument="parts"
            )
        self.parts = parts
        self.op = _arranged(op, parts)
        self.degree = parts.arranged(op.degree if degree is None else degree)

    def take(self, chosen: Sequence[int], device: torch.device) -> BatchOperator:
        """The operator between some of the parts, weighted so that it estimates the whole one."""
        inner = _between(self.op, self.parts, chosen, device)
        degree = torch.cat([self.degree[self.parts.rows(p)].to(device) for p in chosen])
        return BatchOperator(inner, degree * self.parts.node_weight)


class BatchOperator(Sum):
    """What a batch knows of the whole operator: weighted entries, and the weighted degrees of the whole graph."""

    def __init__(self, op: Operator, degree: Tensor) -> None:
        super().__init__([op], normalised=op.normalised)
        self.own_degree = degree

    @property
    def degree(self) -> Tensor:
        return self.own_degree

    def degree_like(self, s: Tensor) -> Tensor:
        return self.own_degree.to(s.dtype)

    def factors(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        return self.parts[0].factors(s)

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        return self.parts[0].row_scale(dtype)


def _arranged(op: Operator, parts: Parts) -> Operator:
    """Rows and columns part by part."""
    if isinstance(op, Sum):
        inner = [_arranged(part, parts) for part in op.parts]
        scale = None if op.scale is None else parts.arranged(op.scale)
        return Sum(inner, op.weights, scale=scale, normalised=op.normalised)
    if not isinstance(op, CSR) or not op.symmetric or op.requires_grad:
        raise ParameterError(
            f"training in batches needs a symmetric sparse operator, got {type(op).__name__}.",
            argument="op",
        )
    if parts.order is None:
        return op
    pattern, order = op.pattern, parts.order.numpy()
    col = pattern.col.cpu().numpy()
    # The values of a binary matrix are not needed: one byte each.
    val = np.ones(pattern.nnz, dtype=np.int8) if op.val is None else op.val.cpu().numpy()
    rows = sp.csr_array((val, col, pattern.rowptr.cpu().numpy()), shape=pattern.shape)[order]
    place = np.empty(len(order), dtype=col.dtype)
    place[order] = np.arange(len(order), dtype=place.dtype)
    rowptr = torch.from_numpy(rows.indptr).to(pattern.rowptr.dtype)
    return CSR(
        CSRPattern(rowptr, torch.from_numpy(place[rows.indices]), pattern.shape),
        None if op.val is None else torch.from_numpy(rows.data),
        scale=None if op.scale is None else parts.arranged(op.scale.cpu()),
        symmetric=True,
        normalised=op.normalised,
    )


def _between(op: Operator, parts: Parts, chosen: Sequence[int], device: torch.device) -> Operator:
    """The rows and columns of some parts; entries weighted by how often they are seen."""
    rows = [parts.rows(p) for p in chosen]

    def own(values: Tensor | None) -> Tensor | None:
        return None if values is None else torch.cat([values[r].to(device) for r in rows])

    if isinstance(op, Sum):
        inner = [_between(part, parts, chosen, device) for part in op.parts]
        return Sum(inner, op.weights, scale=own(op.scale), normalised=op.normalised)
    assert isinstance(op, CSR)
    pattern = op.pattern
    if parts.steps == 1:
        return op if pattern.col.device == device else op.to(device)
    # Where each part begins in the batch, less where it begins in the graph.
    here = torch.zeros(parts.count, dtype=torch.bool, device=device)
    shift = torch.zeros(parts.count, dtype=pattern.col.dtype, device=device)
    begin = 0
    for p, r in zip(chosen, rows, strict=True):
        here[p], shift[p] = True, begin - r.start
        begin += r.stop - r.start
    inner_bounds = parts.bounds[1:-1].to(device)
    counts, cols, values = [], [], []
    for p, r in zip(chosen, rows, strict=True):
        # All entries of the rows are copied to the device, and those that lead to absent parts dropped there.
        first, last = int(pattern.rowptr[r.start]), int(pattern.rowptr[r.stop])
        col = pattern.col[first:last].to(device)
        other = torch.bucketize(col, inner_bounds, right=True, out_int32=True)
        kept = here[other].nonzero().squeeze(1)
        other = other[kept]
        cols.append(col[kept] + shift[other])
        value = torch.where(other == p, parts.node_weight, parts.pair_weight)
        value = value.to(torch.get_default_dtype() if op.val is None else op.val.dtype)
        values.append(value if op.val is None else value * op.val[first:last].to(device)[kept])
        ends = torch.searchsorted(kept, (pattern.rowptr[r.start : r.stop + 1].to(device) - first).long())
        counts.append(ends[1:] - ends[:-1])
    rowptr = torch.zeros(begin + 1, dtype=pattern.rowptr.dtype, device=device)
    rowptr[1:] = torch.cat(counts).cumsum(0)
    return CSR(
        CSRPattern(rowptr, torch.cat(cols), (begin, begin)),
        torch.cat(values),
        scale=own(op.scale),
        symmetric=True,
        normalised=op.normalised,
    )
