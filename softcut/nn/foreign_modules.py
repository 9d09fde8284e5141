"""Calling a module of any origin on a graph: layers of softcut, of PyTorch, of PyTorch Geometric, or one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.ops import Dense, Operator
from softcut.ops.convert import entries, to_ragged
from softcut.ops.numerics import zero_padding

# A module, or what makes one from (in_channels, out_channels), such as the class of a layer.
ModuleLike = nn.Module | Callable[[int, int], nn.Module]


def make_module(
    given: Any,
    in_channels: int,
    out_channels: int,
    name: str,
    choices: Mapping[str, ModuleLike] | None = None,
) -> tuple[nn.Module, str]:
    """The module that is given, or made by a class, a function or one of the `choices`; and how it is called."""
    named = choices or {}
    if isinstance(given, str) and given in named:
        given = named[given]
    if isinstance(given, str) or not callable(given):
        either = f"one of {', '.join(named)}, " if named else ""
        raise ParameterError(f"{name} must be {either}a module or its class, got {given!r}.", argument=name)
    made = given if isinstance(given, nn.Module) else given(in_channels, out_channels)
    if not isinstance(made, nn.Module):
        raise ParameterError(
            f"{name} must be or make a torch.nn.Module, got {type(made).__name__}.", argument=name
        )
    return made, _how_to_call(made)


def _how_to_call(module: nn.Module) -> str:
    """What a module is called with, read off its arguments: see :func:`call_on_graph`."""
    parameters = list(inspect.signature(module.forward).parameters.values())
    peer = type(module).__module__.startswith("torch_geometric")
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        return "edge_index" if peer else "operator"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return "features"
    second = positional[1]
    if second.name == "edge_index":
        return "edge_index"
    if second.name == "adj":
        return "dense" if peer else "operator"
    return "features" if peer or second.default is not inspect.Parameter.empty else "operator"


def call_on_graph(
    module: nn.Module, how: str, x: Tensor, op: Operator, channels: int | None, name: str
) -> Tensor:
    """The module's output for the nodes of a graph, [rows, channels] (None: any number of them)."""
    if how == "features":  # x alone
        out = zero_padding(module(x), op.mask)
    elif how == "operator":  # as the layers of softcut
        out = module(x, op)
    elif how == "dense":  # as the dense layers of PyTorch Geometric
        if not isinstance(op, Dense):
            raise ParameterError(
                f"{type(module).__name__} needs a dense adjacency [B, N, N], but adj is sparse; use its form that "
                "takes edge_index.",
                argument="adj",
            )
        out = zero_padding(module(x, op.data.to(x.dtype), op.mask), op.mask)
    elif isinstance(op, Dense):  # edge_index: nodes one after another and back
        sparse, real = to_ragged(op)
        rows = _with_edges(module, x[real], sparse)
        out = rows.new_zeros(*real.shape, rows.shape[-1]).masked_scatter(real.unsqueeze(-1), rows)
    else:
        out = _with_edges(module, x, op)
    return _check_channels(out, x, channels, name)


def _with_edges(module: nn.Module, x: Tensor, op: Operator) -> Tensor:
    row, col, weight = entries(op)
    edge_index = torch.stack([row, col])
    if weight is None or "edge_weight" not in inspect.signature(module.forward).parameters:
        return module(x, edge_index)
    return module(x, edge_index, edge_weight=weight.to(x.dtype))


def _check_channels(out: Any, x: Tensor, channels: int | None, name: str) -> Tensor:
    rows = x.shape[:-1]
    if isinstance(out, Tensor):
        if channels == 1 and out.shape == rows:
            return out.unsqueeze(-1)
        if out.shape[:-1] == rows and channels in (None, out.shape[-1]):
            return out
    got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
    shape = ", ".join(map(str, [*rows, "any" if channels is None else channels]))
    raise ParameterError(f"{name} must return a tensor of shape [{shape}], got {got}.", argument=name)


def reset(module: nn.Module) -> None:
    """Draw the parameters of a module again, wherever it has a ``reset_parameters``."""
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
        return
    for child in module.children():
        reset(child)
