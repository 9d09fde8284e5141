"""Checks of arguments that every operator and loss shares."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops._torch import is_wrapped

__all__ = ["can_be_read", "check_assignments", "check_tensor"]


def check_tensor(value: Any, name: str, what: str) -> Tensor:
    """`value` itself, or a sentence where it is not an ordinary (strided) tensor.

    >>> import torch
    >>> check_tensor(torch.ones(2), "batch", "graph numbers").shape
    torch.Size([2])
    """
    if not isinstance(value, Tensor):
        raise GraphError(
            f"{name} must be a tensor of {what}, got {type(value).__name__}; convert it with torch.as_tensor."
        )
    if value.layout != torch.strided:
        raise GraphError(f"{name} must be a dense tensor of {what}, got a sparse one; call to_dense() first.")
    return value


def check_assignments(s: Any) -> Tensor:
    """`s` itself, or a sentence where it cannot be a matrix of assignments.

    >>> import torch
    >>> check_assignments(torch.eye(2)).shape
    torch.Size([2, 2])
    """
    if not isinstance(s, Tensor) or not s.is_floating_point() or s.dim() < 2:
        got = f"{s.dtype} of shape {list(s.shape)}" if isinstance(s, Tensor) else type(s).__name__
        raise GraphError(f"s must be a floating-point tensor of assignments, [N, K] or [B, N, K], got {got}.")
    return check_tensor(s, "s", "assignments")


def can_be_read(t: Tensor) -> bool:
    """Whether the values of a tensor may be looked at now: not while operations are recorded or transformed.

    >>> import torch
    >>> can_be_read(torch.ones(2))
    True
    """
    if torch.compiler.is_compiling() or is_wrapped(t):
        return False
    return not (t.is_cuda and torch.cuda.is_current_stream_capturing())
