"""Activation functions by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError

Activation = str | Callable[[Tensor], Tensor] | None

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "elu": nn.functional.elu,
    "relu": nn.functional.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": nn.functional.gelu,
    "silu": nn.functional.silu,
    "leaky_relu": nn.functional.leaky_relu,
}


def get_activation(act: Activation) -> Callable[[Tensor], Tensor] | None:
    """The function for a name; None and callables pass through."""
    if act is None or callable(act):
        return act
    if act not in ACTIVATIONS:
        raise ParameterError(
            f"act must be one of {', '.join(sorted(ACTIVATIONS))} or a function, got {act!r}.", argument="act"
        )
    return ACTIVATIONS[act]
