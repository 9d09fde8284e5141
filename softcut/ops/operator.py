r"""The adjacency operator: how a graph reaches the mathematics.

    op @ S            the product with a dense matrix, differentiable, with its own vmap rule
    op.degree         row sums
    op.normalised     True once it is A-tilde = D^-1/2 A D^-1/2
    op.symmetric      known at construction; an asymmetric operator takes the plain autograd path
    op.layout         which rows belong to which graph

Kinds: :class:`CSR` (one graph, or a block-diagonal ragged batch), :class:`Dense` ([B, N, N] with a
mask: what dense pooling returns), :class:`Sum` (of several, such as A-tilde plus a feature graph).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.ops.batching import Layout, Padded, Segments
from softcut.ops.spmm import CSRPattern, constants, is_wrapped, spmm, unwrapped

__all__ = ["CSR", "Dense", "Operator", "Sum", "as_operator"]

_T = TypeVar("_T")


def inverse_sqrt(degree: Tensor) -> Tensor:
    """d^-1/2, and 0 where d is 0, with a finite gradient everywhere (why the inner `where`)."""
    positive = degree > 0
    return torch.where(positive, torch.where(positive, degree, 1.0).rsqrt(), 0.0)


def _learned(t: Tensor | None) -> bool:
    """Whether a gradient may flow into a tensor; inside ``torch.func`` any of its tensors counts."""
    return t is not None and (t.requires_grad or is_wrapped(t))


class Operator(ABC):
    """Common face of the kinds; see the module's docstring."""

    layout: Layout
    symmetric: bool
    normalised: bool

    @abstractmethod
    def matmul(self, s: Tensor) -> Tensor:
        """op @ s for s of shape [rows, K]."""

    @property
    @abstractmethod
    def degree(self) -> Tensor:
        """Row sums: [N], or [B, N] for a dense batch."""

    @abstractmethod
    def normalise(self) -> Operator:
        """A-tilde = D^-1/2 A D^-1/2; an operator that is normalised already returns itself."""

    @abstractmethod
    def to_dense(self) -> Tensor:
        """The whole matrix, for small graphs and tests: [N, N] or [B, N, N]."""

    @abstractmethod
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Operator:
        """A copy on another device or in another precision."""

    @property
    @abstractmethod
    def requires_grad(self) -> bool:
        """Whether the operator's own entries are being learned."""

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows of the matrix (of one graph of the batch, for a dense one)."""

    def degree_like(self, s: Tensor) -> Tensor:
        """Row sums in the precision of `s`."""
        return self.degree.to(s.dtype)

    def _kept(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` returns; made once and kept for constant entries, anew for learned ones.

        A result that carries a gradient, or was made while gradients were off, belongs to one step.
        """
        if torch.compiler.is_compiling() or self.requires_grad:
            return make()
        cache: dict[str, Any] = self.__dict__.setdefault("_cache", {})
        if name not in cache:
            with constants():
                cache[name] = make()
        return cache[name]

    @property
    def num_graphs(self) -> int:
        return self.layout.num_graphs

    @property
    def ptr(self) -> Tensor | None:
        return getattr(self.layout, "ptr", None)

    @property
    def mask(self) -> Tensor | None:
        return getattr(self.layout, "mask", None)

    def factors(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """(t, y, scale) with op @ s = scale * y and s' op s = sum(t * y): scaling may wait until it is free."""
        return s, self @ s, None

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        """The scale that :meth:`factors` leaves out."""
        return None

    def __matmul__(self, s: Tensor) -> Tensor:
        return self.product(s)

    def product(self, s: Tensor) -> Tensor:
        """``op @ s``, in a spelling that ``torch.compile`` can follow too.

        A replica axis before the last one becomes columns of the same product.
        """
        rows = self.layout.rows
        self.check_rows(s, "s")
        if s.dim() == rows + 1:
            return self.matmul(s)
        return self.matmul(s.reshape(*s.shape[:rows], -1)).view(s.shape)

    def check_rows(self, s: Tensor, name: str) -> None:
        """Say so if `s` is not a floating-point matrix with a row for each node."""
        rows = (self.num_graphs, self.num_rows) if self.layout.rows == 2 else (self.num_rows,)
        if not s.is_floating_point():
            raise GraphError(f"{name} must hold floating-point numbers, got {s.dtype}.")
        if s.dim() not in (len(rows) + 1, len(rows) + 2) or s.shape[: len(rows)] != rows:
            raise GraphError(
                f"{name} must have the rows of adj, {list(rows)}, and then columns; got {list(s.shape)}."
            )


class CSR(Operator):
    """A sparse matrix; of one graph or, with `ptr`, of a block-diagonal batch.

    A binary matrix stores no edge values: A-tilde S = D^-1/2 (A (D^-1/2 S)) is two row scalings
    around the product with the bare pattern.

    >>> import torch
    >>> op = CSR.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> (op @ torch.ones(3, 1)).flatten().tolist()
    [1.0, 2.0, 1.0]
    >>> op.normalise().normalise() is op.normalise()
    True

    Parameters
    ----------
    pattern : CSRPattern
        Where the entries are.
    val : Tensor, optional
        Values of the entries; None for a binary matrix.
    scale : Tensor, optional
        A diagonal applied on both sides.
    ptr : Tensor, optional
        [B + 1], where each graph's rows begin.
    symmetric : bool, optional
        None: found out by comparing the matrix with its transpose.
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
        if not self.pattern.symmetric:
            return False
        if self.val is None:
            return True
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
        """From PyTorch Geometric's spelling: [2, E] with A[edge_index[0], edge_index[1]] = weight.

        The sorted pattern (and, for one graph without weights, the operator) is kept for as long as the
        `edge_index` tensor lives, so a training loop that passes the same tensor at every step sorts it
        once. Changes in place are seen, as long
        as PyTorch sees them (not those made through ``.data`` or a NumPy view).
        """
        edge_index = unwrapped(edge_index, "edge_index")
        if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
            raise GraphError(f"edge_index must hold whole numbers, got {edge_index.dtype}.")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise GraphError(
                f"edge_index must have shape [2, E], got {list(edge_index.shape)}; pass sources in the "
                "first row and targets in the second (a dense adjacency must be floating-point)."
            )
        if edge_weight is not None and edge_weight.shape != edge_index.shape[1:]:
            raise GraphError(
                f"edge_weight must have one value for each of the {edge_index.shape[1]} edges, got shape "
                f"{list(edge_weight.shape)}."
            )
        n = num_nodes
        if n is None:
            n = int(edge_index.max()) + 1 if edge_index.numel() else 0
        pattern, order, plain = _cached_pattern(edge_index, n)
        if edge_weight is None and batch is None and ptr is None and symmetric is None:
            # One graph without weights: the whole operator is kept, with its degrees.
            key = (cls, torch.get_default_dtype())
            if key not in plain:
                plain[key] = cls(pattern)
            return plain[key]
        if ptr is None and batch is not None:
            ptr = _batch_to_ptr(batch, n)
        val = None
        if edge_weight is not None:  # whole numbers and half precision become float32
            val = edge_weight.to(torch.promote_types(edge_weight.dtype, torch.float32))[order]
        return cls(pattern, val, ptr=ptr, symmetric=symmetric)

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
        fits = max(*matrix.shape, matrix.nnz) < 2**31
        index = np.int32 if fits else np.int64
        pattern = CSRPattern(
            torch.from_numpy(matrix.indptr.astype(index)),
            torch.from_numpy(matrix.indices.astype(index)),
            matrix.shape,
        )
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
        val, scale = self._in(s.dtype, "val"), self._in(s.dtype, "scale")
        if scale is None:
            return spmm(self.pattern, val, s)
        scale = scale.unsqueeze(-1)
        y = spmm(self.pattern, val, scale * s)
        # Fresh and not part of a graph of gradients: scaled where it stands.
        if torch.compiler.is_compiling() or is_wrapped(y) or y.requires_grad or scale.requires_grad:
            return scale * y
        return y.mul_(scale)

    def _in(self, dtype: torch.dtype, name: str) -> Tensor | None:
        """The values or the scale in the precision of a product; the original keeps its own."""
        t: Tensor | None = getattr(self, name)
        return t if t is None or t.dtype == dtype else self._kept(f"{name} {dtype}", lambda: t.to(dtype))

    @property
    def degree(self) -> Tensor:
        exact = self._exact_degree
        return (
            exact
            if self.val is not None
            else self._kept("degree", lambda: exact.to(torch.get_default_dtype()))
        )

    def degree_like(self, s: Tensor) -> Tensor:
        exact = self._exact_degree
        return exact if exact.dtype == s.dtype else self._kept(f"degree {s.dtype}", lambda: exact.to(s.dtype))

    @property
    def _exact_degree(self) -> Tensor:
        """Row sums in the precision of the values, and in float64 for a binary matrix, which has none."""
        return self._kept("exact degree", self._row_sums)

    def _row_sums(self) -> Tensor:
        if self.val is None and self.scale is None:
            return self.pattern.counts.double()
        like = self.scale if self.val is None else self.val
        assert like is not None
        one = torch.ones(self.num_rows, 1, dtype=like.dtype, device=like.device)
        return self.matmul(one).squeeze(-1)

    def _normal_form(self) -> CSR:
        scale = inverse_sqrt(self._exact_degree)
        val = self.val
        if val is not None:
            # Values exist anyway: fold the diagonal in. Two steps, so that huge weights stay finite.
            val = val * scale[self.pattern.rows] * scale[self.pattern.col.long()]
        if self.scale is not None:
            scale = scale * self.scale
        return CSR(
            self.pattern,
            val,
            scale=scale if val is None else self.scale,
            layout=self.layout,
            symmetric=self.symmetric,
            normalised=True,
        )

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        return self._in(dtype, "scale")

    def factors(self, s: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        scale = self._in(s.dtype, "scale")
        if scale is None:
            return super().factors(s)
        inner = scale.unsqueeze(-1) * s.flatten(1)
        return inner.view(s.shape), spmm(self.pattern, self._in(s.dtype, "val"), inner).view(s.shape), scale

    def normalise(self) -> CSR:
        return self if self.normalised else self._kept("normal", self._normal_form)

    def to_dense(self) -> Tensor:
        val = self.pattern.ones(torch.get_default_dtype()) if self.val is None else self.val
        if self.scale is not None:
            val = val * self.scale[self.pattern.rows] * self.scale[self.pattern.col.long()]
        dense = torch.zeros(self.pattern.shape, dtype=val.dtype, device=val.device)
        return dense.index_put((self.pattern.rows, self.pattern.col.long()), val, accumulate=True)

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

    @property
    def requires_grad(self) -> bool:
        return _learned(self.val) or _learned(self.scale)

    @property
    def num_rows(self) -> int:
        return self.pattern.shape[0]

    def __repr__(self) -> str:
        return f"CSR({self.num_rows} rows, {self.pattern.nnz} entries, {self.num_graphs} graph(s))"


class Dense(Operator):
    """A batch of dense matrices [B, N, N]; rows that `mask` leaves out are padding.

    >>> import torch
    >>> op = Dense(torch.ones(1, 2, 2) - torch.eye(2))
    >>> op.normalise().to_dense().tolist()
    [[[0.0, 1.0], [1.0, 0.0]]]
    """

    layout: Padded

    def __init__(
        self,
        data: Tensor,
        mask: Tensor | None = None,
        *,
        symmetric: bool = False,
        normalised: bool = False,
    ) -> None:
        if data.dim() == 2:
            data = data.unsqueeze(0)
        if data.dim() != 3 or data.shape[1] != data.shape[2]:
            raise GraphError(f"adj must have shape [B, N, N] if it is dense, got {list(data.shape)}.")
        if not data.is_floating_point():
            raise GraphError(f"adj must hold floating-point numbers if it is dense, got {data.dtype}.")
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
            if mask.shape != data.shape[:2]:
                raise GraphError(
                    f"mask must have shape {list(data.shape[:2])}, one value a node, got {list(mask.shape)}."
                )
            mask = mask.bool()
        self.data = data
        self.layout = Padded(data.shape[0], mask)
        # Comparing with the transpose costs as much as the product: unknown means the plain path.
        self.symmetric, self.normalised = symmetric, normalised

    def matmul(self, s: Tensor) -> Tensor:
        return self.data.to(s.dtype) @ s

    @property
    def degree(self) -> Tensor:
        return self._kept("degree", lambda: self.data.sum(-1))

    def normalise(self) -> Dense:
        return self if self.normalised else self._kept("normal", self._normal_form)

    def _normal_form(self) -> Dense:
        scale = inverse_sqrt(self.degree)
        data = self.data * scale.unsqueeze(-1) * scale.unsqueeze(-2)
        return Dense(data, self.mask, symmetric=self.symmetric, normalised=True)

    def to_dense(self) -> Tensor:
        return self.data

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Dense:
        mask = self.mask if self.mask is None or device is None else self.mask.to(device)
        data = self.data.to(device=device, dtype=dtype)
        return Dense(data, mask, symmetric=self.symmetric, normalised=self.normalised)

    @property
    def requires_grad(self) -> bool:
        return _learned(self.data)

    @property
    def num_rows(self) -> int:
        return self.data.shape[1]

    def __repr__(self) -> str:
        return f"Dense({list(self.data.shape)})"


class Sum(Operator):
    """A weighted sum of operators on the same rows, optionally scaled by a diagonal on both sides.

    >>> import torch
    >>> a = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    >>> Sum([a, a], [1.0, 0.5]).degree.tolist()
    [1.5, 1.5]
    """

    def __init__(
        self,
        parts: Sequence[Operator],
        weights: Sequence[float] | None = None,
        *,
        scale: Tensor | None = None,
        normalised: bool = False,
    ) -> None:
        if not parts:
            raise GraphError("parts must hold at least one operator.")
        if len({(type(p.layout), p.num_rows, p.num_graphs) for p in parts}) > 1:
            raise GraphError("parts must be operators on the same rows and the same batch of graphs.")
        pointers = [p.ptr for p in parts if p.ptr is not None]
        if any(not torch.equal(pointers[0], ptr) for ptr in pointers[1:]):
            raise GraphError("parts must be operators on the same batch of graphs; their pointers differ.")
        self.parts = list(parts)
        self.weights = [1.0] * len(self.parts) if weights is None else [float(w) for w in weights]
        if len(self.weights) != len(self.parts):
            raise GraphError(f"weights must have one value for each of the {len(self.parts)} parts.")
        self.scale = scale
        self.layout = self.parts[0].layout
        self.symmetric = all(p.symmetric for p in self.parts)
        self.normalised = normalised

    def matmul(self, s: Tensor) -> Tensor:
        scale = None if self.scale is None else self.scale.to(s.dtype).unsqueeze(-1)
        inner = s if scale is None else scale * s
        y: Tensor | None = None
        for part, weight in zip(self.parts, self.weights, strict=True):
            term = part.matmul(inner)
            term = term if weight == 1.0 else weight * term
            y = term if y is None else y + term
        assert y is not None
        return y if scale is None else scale * y

    @property
    def degree(self) -> Tensor:
        degrees = [p.degree for p in self.parts]
        return self.degree_like(max(degrees, key=lambda d: torch.finfo(d.dtype).bits))

    def degree_like(self, s: Tensor) -> Tensor:
        return self._kept(f"degree {s.dtype}", lambda: self._row_sums(s.dtype, s.device))

    def _row_sums(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self.scale is not None:
            return self.matmul(torch.ones_like(self.scale, dtype=dtype).unsqueeze(-1)).squeeze(-1)
        like = torch.empty(0, dtype=dtype, device=device)
        terms = [w * p.degree_like(like) for w, p in zip(self.weights, self.parts, strict=True)]
        return torch.stack(terms).sum(0)

    def normalise(self) -> Sum:
        return self if self.normalised else self._kept("normal", self._normal_form)

    def _normal_form(self) -> Sum:
        scale = inverse_sqrt(self._row_sums(torch.float64, self.parts[0].degree.device))
        if self.scale is not None:
            scale = scale * self.scale
        return Sum(self.parts, self.weights, scale=scale, normalised=True)

    def to_dense(self) -> Tensor:
        total = sum(w * p.to_dense() for w, p in zip(self.weights, self.parts, strict=True))
        assert isinstance(total, Tensor)
        if self.scale is not None:
            total = total * self.scale.unsqueeze(-1) * self.scale.unsqueeze(-2)
        return total

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Sum:
        parts = [p.to(device, dtype) for p in self.parts]
        scale = self.scale
        if scale is not None:
            scale = scale.to(device=device, dtype=dtype)
        return Sum(parts, self.weights, scale=scale, normalised=self.normalised)

    @property
    def requires_grad(self) -> bool:
        return _learned(self.scale) or any(p.requires_grad for p in self.parts)

    @property
    def num_rows(self) -> int:
        return self.parts[0].num_rows

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.parts))})"


# edge_index -> (version, num_nodes, pattern, order, operators): see CSR.from_edge_index.
_patterns: Any = WeakTensorKeyDictionary()


def _cached_pattern(edge_index: Tensor, n: int) -> tuple[CSRPattern, Tensor, dict[Any, Any]]:
    known = _patterns.get(edge_index)
    version = 0 if edge_index.is_inference() else edge_index._version
    # A tensor made under inference_mode does not count its changes: its pattern is not kept.
    if known is not None and known[:2] == (version, n):
        return known[2:]
    if edge_index.numel():
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= n:
            raise GraphError(
                f"edge_index names node {low if low < 0 else high}, but there are {n} nodes (0 to {n - 1})."
            )
    with constants():
        pattern, order = CSRPattern.from_coo(edge_index[0], edge_index[1], (n, n))
    plain: dict[Any, Any] = {}
    if not edge_index.is_inference():
        _patterns[edge_index] = (version, n, pattern, order, plain)
    return pattern, order, plain


def _batch_to_ptr(batch: Tensor, n: int) -> Tensor:
    batch = unwrapped(batch, "batch")
    with constants():
        return _count_batch(batch, n)


def _count_batch(batch: Tensor, n: int) -> Tensor:
    if batch.is_floating_point() or batch.dtype == torch.bool:
        raise GraphError(f"batch must hold whole numbers, got {batch.dtype}.")
    if batch.shape != (n,):
        raise GraphError(
            f"batch must have one graph number for each of the {n} nodes, got {list(batch.shape)}."
        )
    if n and bool((batch[1:] < batch[:-1]).any()):
        raise GraphError("batch must be sorted: the nodes of one graph stand together.")
    if n and int(batch[0]) < 0:
        raise GraphError(f"batch must not be negative, got {int(batch[0])}.")
    counts = torch.bincount(batch, minlength=1)
    ptr = torch.zeros(counts.numel() + 1, dtype=torch.long, device=batch.device)
    ptr[1:] = counts.cumsum(0)
    return ptr


def _check_batch(op: Operator, batch: Tensor | None, mask: Tensor | None) -> Operator:
    """An operator knows its graphs; what is said beside it must not contradict it."""
    if mask is not None:
        if not isinstance(op, Dense):
            raise GraphError("mask belongs to a dense adjacency; a sparse operator has no padding.")
        if op.mask is None:
            return Dense(op.data, mask, symmetric=op.symmetric, normalised=op.normalised)
        if mask.shape != op.mask.shape or not torch.equal(mask.bool(), op.mask):
            raise GraphError("mask differs from the mask that adj has already; pass it once.")
    if batch is not None:
        if not isinstance(op.layout, Segments):
            raise GraphError("batch belongs to an edge_index; a dense adjacency numbers its graphs itself.")
        batch = unwrapped(batch, "batch")
        known = torch.zeros_like(batch) if op.ptr is None else op.layout.batch
        if not torch.equal(batch, known):
            raise GraphError(
                f"batch does not name the {op.num_graphs} graph(s) of adj, which is an operator already; "
                "pass batch where the operator is made."
            )
    return op


def as_operator(
    adj: Any,
    edge_weight: Tensor | None = None,
    *,
    num_nodes: int | None = None,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Operator:
    """Turn what people have into an operator.

    >>> import torch
    >>> as_operator(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    CSR(2 rows, 2 entries, 1 graph(s))
    >>> as_operator(torch.ones(4, 3, 3))
    Dense([4, 3, 3])

    Parameters
    ----------
    adj : Operator, Graph, Tensor
        An operator (returned as it is), a :class:`softcut.Graph`, an integer `edge_index` [2, E], or a
        floating-point dense adjacency [B, N, N] or [N, N].
    edge_weight, num_nodes, batch
        Belong to `edge_index`.
    mask : Tensor, optional
        [B, N], belongs to a dense adjacency: False marks padding.
    dtype, device
        Where a :class:`softcut.Graph` should go. Edge weights of an `edge_index` are promoted to `dtype`.
    """
    if isinstance(adj, Operator | Graph) and edge_weight is not None:
        raise GraphError(
            "edge_weight belongs to an edge_index; an operator or a Graph holds its own weights."
        )
    if isinstance(adj, Operator):
        return _check_batch(adj, batch, mask)
    if isinstance(adj, Graph):
        return _check_batch(
            CSR.from_graph(adj, dtype=dtype or torch.get_default_dtype(), device=device), batch, mask
        )
    if not isinstance(adj, Tensor):
        raise GraphError(
            f"adj must be an operator, a Graph, an edge_index tensor [2, E] or a dense tensor [B, N, N], "
            f"got {type(adj).__name__}."
        )
    if adj.layout == torch.strided and adj.is_floating_point():
        if edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; a dense adjacency holds its own weights.")
        if batch is not None:
            raise GraphError("batch belongs to an edge_index; pass mask with a dense adjacency.")
        return Dense(adj, mask)
    if adj.dtype == torch.bool:
        raise GraphError(
            "adj must be an edge_index of whole numbers or floating-point and dense, got torch.bool."
        )
    if mask is not None:
        raise GraphError("mask belongs to a dense adjacency; pass batch with an edge_index.")
    if adj.layout != torch.strided:
        if edge_weight is not None:
            raise GraphError("edge_weight belongs to an edge_index; a sparse tensor holds its own weights.")
        coo = adj.to_sparse_coo().coalesce()
        return CSR.from_edge_index(coo.indices(), coo.values(), adj.shape[0], batch=batch)
    if edge_weight is not None and dtype is not None:
        edge_weight = edge_weight.to(torch.promote_types(edge_weight.dtype, dtype))
    return CSR.from_edge_index(adj, edge_weight, num_nodes, batch=batch)
