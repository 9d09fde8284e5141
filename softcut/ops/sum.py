"""Sums of operators, such as A-tilde plus a feature graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops.numerics import inverse_sqrt
from softcut.ops.operator import Operator, learned


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
