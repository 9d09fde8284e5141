"""Sparse operators: one graph, or a block-diagonal batch of graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops._torch import is_exporting, is_wrapped, version
from softcut.ops.batching import RecordedSegments, Segments, batch_to_ptr
from softcut.ops.numerics import check_tensor, inverse_sqrt, sum_type
from softcut.ops.operator import Operator, learned
from softcut.ops.spmm import (
    CSRPattern,
    Product,
    RecordedPattern,
    constants,
    on_kernels,
    row_products,
    spmm,
    unwrapped,
)


class SparseOperator(Operator):
    """A pattern, its values (None: all 1) and a diagonal that is applied on both sides (None: not any)."""

    pattern: CSRPattern
    val: Tensor | None
    scale: Tensor | None

    def _in(self, dtype: torch.dtype, name: str) -> Tensor | None:
        """The values or the scale in the precision of a product; the original keeps its own."""
        t: Tensor | None = getattr(self, name)
        return t if t is None or t.dtype == dtype else self._kept(f"{name} {dtype}", lambda: t.to(dtype))

    def _at_columns(self, rows: Tensor) -> Tensor:
        """Rows of the nodes to the columns of the matrix."""
        return rows

    def _unscaled(self, inner: Tensor) -> Tensor:
        """The product without the diagonal."""
        return spmm(self.pattern, self._in(inner.dtype, "val"), self._at_columns(inner))

    def matmul(self, s: Tensor) -> Tensor:
        scale = self._in(s.dtype, "scale")
        if scale is None:
            return self._unscaled(s)
        scale = scale.unsqueeze(-1)
        return scale * self._unscaled(scale * s)

    @property
    def degree(self) -> Tensor:
        dtype = torch.get_default_dtype() if self.val is None else self.val.dtype
        return self.degree_like(torch.empty(0, dtype=dtype))

    def degree_like(self, s: Tensor) -> Tensor:
        exact = self._exact_degree
        return exact if exact.dtype == s.dtype else self._kept(f"degree {s.dtype}", lambda: exact.to(s.dtype))

    @property
    def _exact_degree(self) -> Tensor:
        """Row sums in the best precision there is."""
        return self._kept("exact degree", self._own_degree)

    @abstractmethod
    def _own_degree(self) -> Tensor:
        """Row sums, computed."""

    def factors(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        scale = self._in(s.dtype, "scale")
        if scale is None:
            return super().factors(s)
        inner = scale.unsqueeze(-1) * s.flatten(1)
        return inner.view(s.shape), self._unscaled(inner).view(s.shape), scale

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        return self._in(dtype, "scale")

    def to_dense(self) -> Tensor:
        row, col, val = self.pattern.rows, self.pattern.col.long(), self.val
        if val is None:
            val = torch.ones(self.pattern.nnz, dtype=torch.get_default_dtype(), device=col.device)
        if self.scale is not None:
            val = val * self.scale[row] * self._at_columns(self.scale.unsqueeze(-1)).squeeze(-1)[col]
        dense = torch.zeros(self.pattern.shape, dtype=val.dtype, device=val.device)
        return dense.index_put((row, col), val, accumulate=True)

    @property
    def _numbers(self) -> tuple[Tensor | None, ...]:
        return self.val, self.scale

    @property
    def num_rows(self) -> int:
        return self.pattern.shape[0]


class CSR(SparseOperator):
    """A sparse matrix; of one graph or, with `ptr`, of a block-diagonal batch.

    A binary matrix stores no edge values: A-tilde S = D^-1/2 (A (D^-1/2 S)) is two row scalings
    around the product with the bare pattern.

    >>> import torch
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> (op @ torch.ones(3, 1)).flatten().tolist()
    [1.0, 2.0, 1.0]
    >>> op.normalise().normalise() is op.normalise()
    True

    `pattern` says where the entries are, `val` their values (None for a binary matrix); `scale` is a diagonal applied
    on both sides, and `ptr` [B + 1] says where each graph's rows begin (or `layout`, which was made from it). Where
    `symmetric` is None, the matrix is compared with its transpose.
    """

    layout: Segments

    def __init__(
        self,
        pattern: CSRPattern,
        val: Tensor | None = None,
        *,
        scale: Tensor | None = None,
        ptr: Tensor | None = None,
        layout: Segments | None = None,
        symmetric: bool | None = None,
        normalised: bool = False,
    ) -> None:
        self.pattern, self.val, self.scale = pattern, val, scale
        self.layout = layout if layout is not None else Segments(pattern.shape[0], ptr)
        self.symmetric = self._compare_with_transpose() if symmetric is None else symmetric
        self.normalised = normalised

    def _compare_with_transpose(self) -> bool:
        if self.val is None or not self.pattern.symmetric:
            return self.pattern.symmetric
        if is_wrapped(self.val):
            return False  # not known inside a transform; the plain path is right for any matrix
        return bool(torch.equal(self.val.detach(), self.val.detach()[self.pattern.transpose[1]]))

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        num_nodes: int | None = None,
        *,
        batch: Tensor | None = None,
        ptr: Tensor | None = None,
        symmetric: bool | None = None,
    ) -> CSR:
        """From the format of PyTorch Geometric: [2, E] with A[edge_index[0], edge_index[1]] = weight.

        The sorted pattern, the graphs of a `batch` and, where there are no weights, the operator are kept for
        as long as the tensors `edge_index` and `batch` live, so a training loop that passes the same ones at
        every step sorts and checks them once. Changes in place are seen, as long as PyTorch sees them (not
        those made through ``.data`` or a NumPy view).

        An undirected edge is given in both directions; `edge_weight` is [E] or [E, 1], None for a binary matrix.
        `num_nodes` is by default one more than the largest node. `batch` is the graph number of every node, sorted, or
        `ptr` [B + 1] says where each graph's nodes begin; an edge between two graphs is an error.
        """
        edge_index = unwrapped(edge_index, "edge_index")
        if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
            raise GraphError(f"edge_index must hold whole numbers, got {edge_index.dtype}.")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise GraphError(
                f"edge_index must have shape [2, E], got {list(edge_index.shape)}; pass sources in the "
                "first row and targets in the second (a dense adjacency must be floating-point)."
            )
        edge_weight = _one_per_edge(edge_weight, edge_index.shape[1])
        if num_nodes is None:
            num_nodes = int(edge_index.max()) + 1 if edge_index.numel() else 0
        if is_exporting():  # values cannot be read here: checks that need them are left out
            pattern = RecordedPattern(edge_index[0], edge_index[1], (num_nodes, num_nodes))
            graphs = Segments(num_nodes, ptr) if batch is None else RecordedSegments(batch)
            if edge_weight is not None:
                edge_weight = edge_weight.to(sum_type(edge_weight))
            return cls(pattern, edge_weight, layout=graphs, symmetric=False)
        known = _recall(edge_index, num_nodes)
        layout, operators = known.graphs(edge_index, batch, ptr)
        if edge_weight is None and symmetric is None:
            # Nothing but the tensors of indices decides: the whole operator is kept, with its degrees.
            if not operators:
                operators.append(cls(known.pattern, layout=layout))
            return operators[0]
        if edge_weight is not None:  # whole numbers and half precision become float32
            edge_weight = edge_weight.to(sum_type(edge_weight))[known.order]
        return cls(known.pattern, edge_weight, layout=layout, symmetric=symmetric)

    @classmethod
    def from_graph(
        cls,
        graph: Graph,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> CSR:
        """The adjacency operator of a :class:`softcut.Graph` (symmetric by construction).

        >>> from softcut import Graph
        >>> CSR.from_graph(Graph.from_edges([[0, 1], [1, 2]]))
        CSR(3 rows, 4 entries, 1 graph(s))
        """
        matrix = graph.adjacency
        pattern = CSRPattern.from_scipy(matrix)
        val = None
        if graph.weighted:
            data = np.asarray(matrix.data, dtype=np.float64)
            # A-tilde does not change when A is divided by a number: keep sums of weights in range.
            if data.size and data.max() > 1e-8 * torch.finfo(dtype).max:
                data = data / data.max()
            val = torch.from_numpy(data).to(dtype)
        ptr = None if graph.ptr is None else torch.as_tensor(graph.ptr, dtype=torch.long)
        op = cls(pattern, val, ptr=ptr, symmetric=True)
        return op if device is None else op.to(device)

    def matmul(self, s: Tensor) -> Tensor:
        if learned(self.scale):
            return super().matmul(s)
        scale = self._in(sum_type(s) if on_kernels(self.pattern, s) else s.dtype, "scale")
        return spmm(self.pattern, self._in(s.dtype, "val"), s, scale)

    def row_products(self, blocks: Sequence[slice], dtype: torch.dtype) -> list[Product]:
        """For each block of rows of A, without its diagonal, what multiplies these by S [N, C], outside autograd."""
        return row_products(self.pattern, self._in(dtype, "val"), blocks)

    def _own_degree(self) -> Tensor:
        """In the precision of the values, and in float64 for a binary matrix, which has none."""
        if self.scale is None:
            return self.pattern.counts.double() if self.val is None else self._sum_entries(self.val)
        dtype = self.scale.dtype if self.val is None else self.val.dtype
        return self.row_sums(torch.ones(self.num_rows, dtype=dtype, device=self.scale.device))

    def row_sums(self, v: Tensor) -> Tensor:
        # Sums over entries: a product with one column would cost more than a pass over the values.
        val, scale = self._in(v.dtype, "val"), self._in(v.dtype, "scale")
        inner = (v if scale is None else scale * v).index_select(0, self.pattern.col)
        total = self._sum_entries(inner if val is None else val * inner)
        return total if scale is None else scale * total

    def _sum_entries(self, values: Tensor) -> Tensor:
        if isinstance(self.pattern, RecordedPattern):
            return self.pattern.sums(values)
        return Segments(self.pattern.nnz, self.pattern.rowptr.long()).total(values)

    def _normal_form(self) -> CSR:
        self.refuse_negative()
        outer, val, scale = inverse_sqrt(self._exact_degree), self.val, self.scale
        if val is None:
            scale = outer if scale is None else outer * scale
        else:
            # Values exist anyway: fold the diagonal in. Two steps, so that huge weights stay finite.
            val = val * outer[self.pattern.rows] * outer[self.pattern.col.long()]
        return CSR(
            self.pattern, val, scale=scale, layout=self.layout, symmetric=self.symmetric, normalised=True
        )

    def fuses_cut(self, s: Tensor) -> bool:
        one_replica = s.shape[1:-1].numel() == 1
        return one_replica and self.layout.single and not self.requires_grad and on_kernels(self.pattern, s)

    def cut_sums(self, s: Tensor, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from softcut.ops.kernels.product import cut_sums  # imports Triton, which takes a while

        val, scale = (self._in(sum_type(s), name) for name in ("val", "scale"))
        pattern, rows = self.pattern, s.flatten(1).detach()
        num, den, y = cut_sums(pattern.col, val, rows, scale, degree, plan=pattern.plan)
        shape = (1, *s.shape[1:-1])
        return num.view(shape), den.view(shape), y.view(s.shape)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> CSR:
        pattern = self.pattern if device is None else self.pattern.to(device)
        val, scale = (t if t is None else t.to(device=device, dtype=dtype) for t in (self.val, self.scale))
        return CSR(
            pattern,
            val,
            scale=scale,
            layout=self.layout if device is None else self.layout.to(device),
            symmetric=self.symmetric,
            normalised=self.normalised,
        )

    def __repr__(self) -> str:
        return f"CSR({self.num_rows} rows, {self.pattern.nnz} entries, {self.num_graphs} graph(s))"


def _one_per_edge(edge_weight: Tensor | None, count: int) -> Tensor | None:
    """Edge weights as a vector; a single column is one."""
    if edge_weight is None:
        return None
    edge_weight = check_tensor(edge_weight, "edge_weight", "one number per edge")
    if edge_weight.shape == (count, 1):
        edge_weight = edge_weight.squeeze(-1)
    if edge_weight.shape != (count,):
        raise GraphError(
            f"edge_weight must have one value for each of the {count} edges, got shape "
            f"{list(edge_weight.shape)}."
        )
    if edge_weight.is_complex():
        raise GraphError(f"edge_weight must hold real numbers, got {edge_weight.dtype}.")
    return edge_weight


class _Recalled:
    """What was found out about an `edge_index`: its pattern, and the graphs of the batches it came with."""

    def __init__(self, edge_index: Tensor, n: int) -> None:
        self.version, self.num_nodes = version(edge_index), n
        with constants():
            self.pattern, self.order = CSRPattern.from_coo(edge_index[0], edge_index[1], (n, n))
        self.alone: tuple[Segments, list[CSR]] = Segments(n), []
        self.batches: Any = WeakTensorKeyDictionary()  # batch -> (version, layout, operators)

    def graphs(
        self, edge_index: Tensor, batch: Tensor | None, ptr: Tensor | None
    ) -> tuple[Segments, list[CSR]]:
        """Which nodes belong to which graph, checked, and the binary operator of it once there is one."""
        state = None
        if ptr is None:
            if batch is None:
                return self.alone
            batch = unwrapped(batch, "batch")
            state, known = version(batch), self.batches.get(batch)
            if known is not None and state is not None and known[0] == state:
                return known[1:]
            ptr = batch_to_ptr(batch, self.num_nodes)
        layout, operators = Segments(self.num_nodes, ptr), list[CSR]()
        _refuse_crossing_edges(edge_index, layout)
        if state is not None:
            self.batches[batch] = (state, layout, operators)
        return layout, operators


_recalled: Any = WeakTensorKeyDictionary()  # edge_index -> _Recalled


def _recall(edge_index: Tensor, n: int) -> _Recalled:
    known = _recalled.get(edge_index)
    if known is not None and (known.version, known.num_nodes) == (version(edge_index), n):
        return known
    if edge_index.numel():
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= n:
            raise GraphError(
                f"edge_index names node {low if low < 0 else high}, but there are {n} nodes (0 to {n - 1})."
            )
    known = _Recalled(edge_index, n)
    if known.version is not None:  # None under inference_mode: changes are not counted, so nothing is kept
        _recalled[edge_index] = known
    return known


def _refuse_crossing_edges(edge_index: Tensor, layout: Segments) -> None:
    """Losses are computed graph by graph: an edge between two graphs would count for one and not the other."""
    if layout.single:
        return
    with constants():
        ends = layout.batch[edge_index.long()]
        crossing = ends[0] != ends[1]
        if not bool(crossing.any()):
            return
        at = int(crossing.nonzero()[0])
        (i, j), (a, b) = edge_index[:, at].tolist(), ends[:, at].tolist()
    raise GraphError(
        f"edge_index must join nodes of one graph only, but edge {at} goes from node {i} of graph {a} to "
        f"node {j} of graph {b} by batch; correct batch, or leave it out for a single graph."
    )
