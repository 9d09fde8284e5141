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

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import is_wrapped
from softcut.ops.batching import Layout
from softcut.ops.numerics import can_be_read, check_tensor, extremes, inverse_sqrt, narrower
from softcut.ops.spmm import constants

_T = TypeVar("_T")


def learned(t: Tensor | None) -> bool:
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

    def row_sums(self, v: Tensor) -> Tensor:
        """Sums over the entries of every row, each times the value of its column in `v`: A v."""
        return self.matmul(v.unsqueeze(-1)).squeeze(-1)

    def normalise(self) -> Self:
        """A-tilde = D^-1/2 A D^-1/2; an operator that is normalised already returns itself."""
        return self if self.normalised else self._kept("normal", self._normal_form)

    def _normal_form(self) -> Self:
        """A-tilde, computed."""
        raise NotImplementedError

    @abstractmethod
    def to_dense(self) -> Tensor:
        """The whole matrix, for small graphs and tests: [N, N] or [B, N, N]."""

    @abstractmethod
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """A copy on another device or in another precision."""

    @property
    def _numbers(self) -> tuple[Tensor | None, ...]:
        """The values of the entries and, where there is one, the diagonal on both sides."""
        return ()

    @property
    def requires_grad(self) -> bool:
        """Whether the operator's own entries are being learned."""
        return any(map(learned, self._numbers))

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """Rows of the matrix (of one graph of the batch, for a dense one)."""

    def degree_like(self, s: Tensor) -> Tensor:
        """Row sums in the precision of `s`."""
        return self.degree.to(s.dtype)

    def refuse_negative(self) -> None:
        """An error where an entry is negative or no finite number: D^-1/2 may not exist, and 0 would replace it.

        A learned entry may pass below 0 on its way, as long as no degree does. Values that cannot be looked at (inside
        ``torch.compile`` or a CUDA graph) pass.
        """
        if self.requires_grad:
            _refuse_negative_degree(self.degree.detach())
        elif self._numbers and self._numbers[0] is not None:
            values = self._numbers[0]
            self._kept("no negative entry", lambda: _refuse_negative(values))

    def promoted(self, dtype: torch.dtype) -> Self:
        """The same operator with entries of at least this precision; itself where they have it."""
        if any(narrower(t, dtype) for t in self._numbers):
            return self._kept(f"promoted {dtype}", lambda: self.to(dtype=dtype))
        return self

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

    def fuses_cut(self, s: Tensor) -> bool:
        """Whether one GPU kernel makes the product with `s` and both sums of the cut loss."""
        return False

    def cut_sums(self, s: Tensor, degree: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """sum(s * op s), sum(degree * s * s) and the y of :meth:`factors`, where :meth:`fuses_cut` says so."""
        raise NotImplementedError

    def row_scale(self, dtype: torch.dtype) -> Tensor | None:
        """The scale that :meth:`factors` leaves out."""
        return None

    def __matmul__(self, s: Tensor) -> Tensor:
        return self.product(s)

    def product(self, s: Tensor) -> Tensor:
        """``op @ s``, in a form that ``torch.compile`` can follow too.

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
        check_tensor(s, name, "floating-point numbers")
        if not s.is_floating_point():
            raise GraphError(f"{name} must hold floating-point numbers, got {s.dtype}.")
        if s.dim() not in (len(rows) + 1, len(rows) + 2) or s.shape[: len(rows)] != rows:
            raise GraphError(
                f"{name} must have the rows of adj, {list(rows)}, and then columns; got {list(s.shape)}."
            )


def _refuse_negative(values: Tensor) -> None:
    if not can_be_read(values) or not values.numel():
        return
    low, high = extremes(values)
    if low < 0:
        raise GraphError(
            f"edge_weight must not be negative where the adjacency is normalised, got {low:g}; "
            "shift or drop those edges, or use a layer that does not normalise."
        )
    if not high < math.inf:
        raise GraphError(f"edge_weight must hold finite numbers, got {high:g}; correct or drop those edges.")


def _refuse_negative_degree(degree: Tensor) -> None:
    """On a GPU these pass, too: every step would wait for the device."""
    if can_be_read(degree) and not degree.is_cuda and bool((degree < 0).any()):
        raise GraphError(
            "edge_weight must not add up to less than 0 at a node where the adjacency is normalised, got "
            f"{degree.min().item():g}; keep learned weights positive, for example with softplus."
        )


class Sum(Operator):
    """A weighted sum of operators on the same rows, optionally scaled by a diagonal on both sides.

    >>> import torch
    >>> from softcut.ops import CSR
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
        return self._combined(s, lambda part, inner: part.matmul(inner))

    def row_sums(self, v: Tensor) -> Tensor:
        return self._combined(v, lambda part, inner: part.row_sums(inner))

    def _combined(self, v: Tensor, product: Callable[[Operator, Tensor], Tensor]) -> Tensor:
        """The weighted sum of the products of the parts with `v`, the diagonal applied before and after."""
        scale = None if self.scale is None else self.scale.to(v.dtype)
        if scale is not None:
            scale = scale if scale.dim() == v.dim() else scale.unsqueeze(-1)
            v = scale * v
        terms = (product(part, v) for part in self.parts)
        weighted = (t if w == 1.0 else w * t for w, t in zip(self.weights, terms, strict=True))
        total = functools.reduce(torch.add, weighted)
        return total if scale is None else scale * total

    @property
    def degree(self) -> Tensor:
        degrees = [p.degree for p in self.parts]
        return self.degree_like(max(degrees, key=lambda d: torch.finfo(d.dtype).bits))

    def degree_like(self, s: Tensor) -> Tensor:
        return self._kept(f"degree {s.dtype}", lambda: self._own_degree(s.dtype, s.device))

    def _own_degree(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self.scale is not None:
            return self.row_sums(torch.ones_like(self.scale, dtype=dtype))
        like = torch.empty(0, dtype=dtype, device=device)
        terms = [w * p.degree_like(like) for w, p in zip(self.weights, self.parts, strict=True)]
        return torch.stack(terms).sum(0)

    def refuse_negative(self) -> None:
        if min(self.weights) < 0:
            raise GraphError(
                f"weights must not be negative where the sum is normalised, got {min(self.weights):g}."
            )
        for part in self.parts:
            part.refuse_negative()

    def promoted(self, dtype: torch.dtype) -> Sum:
        parts = [part.promoted(dtype) for part in self.parts]
        if all(new is old for new, old in zip(parts, self.parts, strict=True)):
            return self
        return self._kept(
            f"promoted {dtype}",
            lambda: Sum(parts, self.weights, scale=self.scale, normalised=self.normalised),
        )

    def _normal_form(self) -> Sum:
        self.refuse_negative()
        scale = inverse_sqrt(self._own_degree(torch.float64, self.parts[0].degree.device))
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
        scale = None if self.scale is None else self.scale.to(device=device, dtype=dtype)
        return Sum(parts, self.weights, scale=scale, normalised=self.normalised)

    @property
    def requires_grad(self) -> bool:
        return learned(self.scale) or any(p.requires_grad for p in self.parts)

    @property
    def num_rows(self) -> int:
        return self.parts[0].num_rows

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.parts))})"
