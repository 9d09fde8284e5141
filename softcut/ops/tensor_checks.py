"""Checks of arguments that every operator and loss shares."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import is_wrapped


def check_tensor(value: Any, name: str, what: str) -> Tensor:
    """`value` itself, or a sentence where it is not an ordinary (strided) tensor."""
    if not isinstance(value, Tensor):
        raise GraphError(
            f"{name} must be a tensor of {what}, got {type(value).__name__}; convert it with torch.as_tensor."
        )
    if value.layout != torch.strided:
        raise GraphError(f"{name} must be a dense tensor of {what}, got a sparse one; call to_dense() first.")
    return value


def check_assignments(s: Any) -> Tensor:
    """`s` itself, or a sentence where it cannot be a matrix of assignments."""
    if not isinstance(s, Tensor) or not s.is_floating_point() or s.dim() < 2:
        got = f"{s.dtype} of shape {list(s.shape)}" if isinstance(s, Tensor) else type(s).__name__
        raise GraphError(f"s must be a floating-point tensor of assignments, [N, K] or [B, N, K], got {got}.")
    return check_tensor(s, "s", "assignments")


def can_be_read(t: Tensor) -> bool:
    """Whether the values of a tensor may be looked at now: not while operations are recorded or transformed."""
    if torch.compiler.is_compiling() or is_wrapped(t):
        return False
    return not (t.is_cuda and torch.cuda.is_current_stream_capturing())


def extremes(values: Tensor) -> tuple[float, float]:
    """The smallest and the largest of some values, in one pass; both are NaN where one value is."""
    low, high = torch.stack(values.detach().aminmax()).tolist()
    return low, high


def check_finite(values: Tensor, name: str) -> None:
    """A sentence where a value is NaN or infinite: it would spread without a word.

    Values that cannot be looked at pass, and those on a GPU, where every call would wait for the device.
    """
    if values.is_cuda or not can_be_read(values) or not values.numel():
        return
    low, high = extremes(values)
    if -math.inf < low and high < math.inf:
        return
    at = (~values.detach().isfinite()).nonzero()[0].tolist()
    place = at[0] if len(at) == 1 else tuple(at)
    raise GraphError(
        f"{name} must hold finite numbers, got {values[tuple(at)].item():g} at position {place}; "
        "correct or drop those edges."
    )
