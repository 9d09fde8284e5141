"""Calling a module of any origin on a graph: layers of softcut, of PyTorch, of PyTorch Geometric, or one's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.ops import Dense, Operator
from softcut.ops.numerics import zero_padding
from softcut.ops.triplets import entries, to_ragged

__all__ = ["ModuleLike", "call_on_graph", "check_channels", "how_to_call", "make_module", "reset"]

# A module, or what makes one from (in_channels, out_channels), such as the class of a layer.
ModuleLike = nn.Module | Callable[[int, int], nn.Module]


def make_module(given: ModuleLike, in_channels: int, out_channels: int, name: str) -> nn.Module:
    """The module itself, or the one that a class or function makes."""
    made = given if isinstance(given, nn.Module) else given(in_channels, out_channels)
    if not isinstance(made, nn.Module):
        raise ParameterError(f"{name} must be or make a torch.nn.Module, got {type(made).__name__}.")
    return made


def how_to_call(module: nn.Module) -> str:
    """What a module is called with, read off the names of its arguments.

    ``"features"``: x alone. ``"edge_index"``: x, edge_index and, where there are any and the module takes them,
    edge_weight. ``"dense"``: x, the dense adjacency and the mask, as the dense layers of PyTorch Geometric.
    ``"operator"``: x and the operator, as the layers of softcut.

    >>> from softcut.nn import GCNConv
    >>> how_to_call(nn.Linear(3, 2)), how_to_call(GCNConv(3, 2))
    ('features', 'operator')
    """
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


def call_on_graph(module: nn.Module, how: str, x: Tensor, op: Operator) -> Tensor:
    """The module's output for the nodes of a graph, called in the way that :func:`how_to_call` found."""
    if how == "features":
        return zero_padding(module(x), op.mask)
    if how == "operator":
        return module(x, op)
    if how == "dense":
        if not isinstance(op, Dense):
            raise ParameterError(
                f"{type(module).__name__} needs a dense adjacency [B, N, N], but adj is sparse; use its form that "
                "takes edge_index."
            )
        return zero_padding(module(x, op.data.to(x.dtype), op.mask), op.mask)
    if isinstance(op, Dense):  # nodes one after another and back
        sparse, real = to_ragged(op)
        rows = _with_edges(module, x[real], sparse)
        return rows.new_zeros(*real.shape, rows.shape[-1]).masked_scatter(real.unsqueeze(-1), rows)
    return _with_edges(module, x, op)


def _with_edges(module: nn.Module, x: Tensor, op: Operator) -> Tensor:
    row, col, weight = entries(op)
    edge_index = torch.stack([row, col])
    if weight is None or "edge_weight" not in inspect.signature(module.forward).parameters:
        return module(x, edge_index)
    return module(x, edge_index, edge_weight=weight.to(x.dtype))


def check_channels(out: Tensor, x: Tensor, channels: int | None, name: str) -> Tensor:
    """The output of a module as [rows, channels], or a sentence; None: any number of channels."""
    if isinstance(out, Tensor) and channels == 1 and out.shape == x.shape[:-1]:
        out = out.unsqueeze(-1)
    rows = list(x.shape[:-1])
    right = isinstance(out, Tensor) and list(out.shape[:-1]) == rows and channels in (None, out.shape[-1])
    if not right:
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        shape = ", ".join(map(str, [*rows, "any" if channels is None else channels]))
        raise ParameterError(f"{name} must return a tensor of shape [{shape}], got {got}.")
    return out


def reset(module: nn.Module) -> None:
    """Draw the parameters of a module again, wherever it has a ``reset_parameters``."""
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
        return
    for child in module.children():
        reset(child)
