"""Dense operators: a padded batch of small graphs, such as dense pooling returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import version
from softcut.ops.batching import Padded
from softcut.ops.numerics import check_tensor, inverse_sqrt
from softcut.ops.operator import Operator

_T = TypeVar("_T")


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
            mask = check_tensor(mask, "mask", "one value per node")
            mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
            if mask.shape != data.shape[:2]:
                raise GraphError(
                    f"mask must have shape {list(data.shape[:2])}, one value per node, got {list(mask.shape)}."
                )
            mask = mask.bool()
            # Whatever stands in the padding must not count in degrees.
            data = data.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0.0)
        self.data = data
        self._kept_for: int | None = None  # the version of `data`
        self.layout = Padded(data.shape[0], mask)
        # Comparing with the transpose costs as much as the product: unknown means the plain path.
        self.symmetric, self.normalised = symmetric, normalised

    @property
    def version(self) -> int | None:
        """How often the entries were changed in place; None where that is not counted."""
        return version(self.data)

    def matmul(self, s: Tensor) -> Tensor:
        return self.data.to(s.dtype) @ s

    @property
    def degree(self) -> Tensor:
        return self._kept("degree", lambda: self.data.sum(-1))

    def _kept(self, name: str, make: Callable[[], _T]) -> _T:
        # `data` is the caller's own tensor: what was kept is void once it changed in place.
        if not torch.compiler.is_compiling():
            state = self.version
            if self._kept_for != state:
                self.__dict__.pop("_cache", None)
                self._kept_for = state
        return super()._kept(name, make)

    def _normal_form(self) -> Dense:
        self.refuse_negative()
        scale = inverse_sqrt(self.degree)
        data = self.data * scale.unsqueeze(-1) * scale.unsqueeze(-2)
        normal = Dense(data, symmetric=self.symmetric, normalised=True)
        normal.layout = self.layout  # with the mask: the padding is zero already
        return normal

    def to_dense(self) -> Tensor:
        return self.data

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Dense:
        mask = self.mask if self.mask is None or device is None else self.mask.to(device)
        data = self.data.to(device=device, dtype=dtype)
        return Dense(data, mask, symmetric=self.symmetric, normalised=self.normalised)

    @property
    def _numbers(self) -> tuple[Tensor | None, ...]:
        return (self.data,)

    @property
    def num_rows(self) -> int:
        return self.data.shape[1]

    def __repr__(self) -> str:
        return f"Dense({list(self.data.shape)})"
