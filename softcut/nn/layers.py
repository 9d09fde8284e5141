"""Layers: checked arguments, linear pieces, an MLP, and message passing (the paper's, GCN, GraphConv)."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import GraphError, ParameterError
from softcut.ops import Dense, Operator, as_operator
from softcut.ops.activations import Activation, get_activation
from softcut.ops.numerics import check_tensor, inverse_sqrt, zero_padding


def check_size(value: Any, name: str, least: int = 1) -> int:
    """A whole number that is large enough, as an ``int``; NumPy's are accepted."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(f"{name} must be a whole number, got {value!r}.", argument=name)
    if value < least:
        raise ParameterError(f"{name} must be at least {least}, got {value}.", argument=name)
    return int(value)


def check_number(value: Any, name: str) -> float:
    """A finite number, as a ``float``."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ParameterError(f"{name} must be a finite number, got {value!r}.", argument=name)
    return float(value)


def graph_input(
    x: Tensor,
    adj: Any,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    mask: Tensor | None = None,
    channels: int | None = None,
    name: str = "x",
) -> tuple[Tensor, Operator]:
    """Features and an operator that belong together, from any of the formats a layer accepts."""
    if not isinstance(x, Tensor) or x.dim() not in (2, 3):
        got = f"shape {list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise GraphError(f"{name} must be a tensor of node features, [N, F] or [B, N, F], got {got}.")
    check_tensor(x, name, "node features")
    if not x.is_floating_point():
        raise GraphError(f"{name} must hold floating-point numbers, got {x.dtype}.")
    if channels is not None and x.shape[-1] != channels:
        raise GraphError(
            f"{name} has {x.shape[-1]} features, but the layer was made for in_channels={channels}."
        )
    op = as_operator(
        adj, edge_weight, num_nodes=x.shape[0], batch=batch, mask=mask, dtype=x.dtype, device=x.device
    )
    if isinstance(op, Dense) and x.dim() == 2:
        x = x.unsqueeze(0)
    rows = (op.num_graphs, op.num_rows) if op.layout.rows == 2 else (op.num_rows,)
    if x.shape[:-1] != rows:
        raise GraphError(f"{name} has {list(x.shape[:-1])} nodes but adj has {list(rows)}; they must agree.")
    return zero_padding(x, op.mask), op


def accept_keys(module: nn.Module, peer_keys: dict[str, str]) -> None:
    """Let ``load_state_dict`` of a module take parameters under the names PyTorch Geometric has for them."""
    module.register_load_state_dict_pre_hook(functools.partial(_rename_keys, peer_keys))


def _rename_keys(names: dict[str, str], _: nn.Module, state: dict[str, Any], prefix: str, *__: Any) -> None:
    for peer, own in names.items():
        if prefix + peer in state:
            state[prefix + own] = state.pop(prefix + peer)


class Bias(nn.Module):
    """Add a learned vector: the bias of a linear layer, where something comes between the two."""

    def __init__(self, channels: int, fan_in: int) -> None:
        super().__init__()
        self.bound = 1 / math.sqrt(fan_in)
        self.bias = nn.Parameter(torch.empty(channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.bias, -self.bound, self.bound)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class UnitLinear(nn.Module):
    """X p / ||p||: the projection on a learned direction, whatever the length of p."""

    def __init__(self, in_channels: int) -> None:
        super().__init__()
        self.bound = 1 / math.sqrt(in_channels)
        self.weight = nn.Parameter(torch.empty(1, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.weight, -self.bound, self.bound)

    @staticmethod
    def unit(weight: Tensor) -> Tensor:
        """The directions of the rows of `weight`; a zero row stays zero."""
        length = torch.linalg.vector_norm(weight, dim=-1, keepdim=True)
        return weight / length.clamp(min=torch.finfo(weight.dtype).tiny)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.unit(self.weight))


class MLP(nn.Module):
    """Linear layers with an activation between them.

    >>> import torch
    >>> MLP(8, [16], 4)(torch.zeros(2, 8)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int | Sequence[int] | None,
        out_channels: int,
        act: Activation = "relu",
    ) -> None:
        super().__init__()
        sizes = [] if hidden is None else list(hidden) if isinstance(hidden, Sequence) else [hidden]
        if any(isinstance(size, bool) or not isinstance(size, Integral) or size < 1 for size in sizes):
            raise ParameterError(
                f"hidden must hold sizes of at least 1 (or be None), got {hidden!r}.", argument="hidden"
            )
        first, last = check_size(in_channels, "in_channels"), check_size(out_channels, "out_channels")
        widths = [first, *map(int, sizes), last]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.act = get_activation(act)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for layer in self.layers:
            nn.init.xavier_uniform_(layer.weight)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def hidden(self, x: Tensor) -> Tensor:
        """What the last layer reads."""
        for layer in self.layers[:-1]:
            x = layer(x) if self.act is None else self.act(layer(x))
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.layers[-1](self.hidden(x))


class GraphLayer(nn.Module):
    """A message-passing layer, called as ``conv(x, adj, edge_weight=None, batch=None, mask=None)``."""

    def __init__(
        self, in_channels: int, out_channels: int, act: Activation = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.in_channels = check_size(in_channels, "in_channels")
        self.out_channels = check_size(out_channels, "out_channels")
        self.act = get_activation(act)
        self.make_weights(bias)
        self.reset_parameters()

    @abstractmethod
    def make_weights(self, bias: bool) -> None:
        """Make the linear pieces."""

    @abstractmethod
    def reset_parameters(self) -> None: ...

    @abstractmethod
    def messages(self, x: Tensor, op: Operator) -> Tensor:
        """The output before the activation."""

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x, op = graph_input(x, adj, edge_weight, batch, mask, self.in_channels)
        out = self.messages(x, op)
        return zero_padding(out if self.act is None else self.act(out), op.mask)

    def linear(self, bias: bool = False) -> nn.Linear:
        return nn.Linear(self.in_channels, self.out_channels, bias=bias)

    def passed(self, x: Tensor, linear: nn.Module, op: Operator) -> Tensor:
        """A X W: of (A X) W and A (X W) the one with the narrower product."""
        if self.out_channels < self.in_channels:
            return op.product(linear(x))
        return linear(op.product(x))


class SkipConv(GraphLayer):
    r"""The paper's message passing (eq. 1): X' = act(A~ X T_m + X T_s + b), no self-loops.

    >>> import torch
    >>> from softcut.nn import SkipConv
    >>> conv = SkipConv(8, 16, act="elu")
    >>> conv(torch.zeros(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
    torch.Size([3, 16])

    Parameters
    ----------
    in_channels, out_channels : int
        Feature sizes.
    act : str, callable or None
        ``"elu"``, ``"relu"``, ``"tanh"``, ... or any function.
    bias : bool
        Whether b exists.

    Notes
    -----
    Called as ``conv(x, adj, edge_weight=None, batch=None, mask=None)``. `adj` is A in any format (an
    operator, a Graph, an edge_index, a dense batch) and is normalised here, unless it is normalised
    already. Of (A~ X) T and A~ (X T) the one with the narrower product is computed.
    """

    def make_weights(self, bias: bool) -> None:
        self.neighbours, self.itself = self.linear(), self.linear(bias)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.neighbours.weight)
        nn.init.xavier_uniform_(self.itself.weight)
        if self.itself.bias is not None:
            nn.init.zeros_(self.itself.bias)

    def messages(self, x: Tensor, op: Operator) -> Tensor:
        return self.passed(x, self.neighbours, op.normalise()) + self.itself(x)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"


def gcn_scale(op: Operator, x: Tensor) -> Tensor:
    """(D + I)^-1/2 as a column, computed in the precision of `x` and in float32 at least."""
    # The degrees of a binary graph have no precision of their own: float32 would cost half of the digits of float64.
    like = x.new_empty(0, dtype=torch.promote_types(x.dtype, torch.float32))
    return inverse_sqrt(op.degree_like(like) + 1).to(x.dtype).unsqueeze(-1)


class GCNConv(GraphLayer):
    r"""X' = act(D^-1/2 (A + I) D^-1/2 X W + b), with D the degrees of A + I (Kipf and Welling).

    >>> import torch
    >>> from softcut.nn import GCNConv
    >>> GCNConv(8, 4)(torch.zeros(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 4])

    Made and called as :class:`~softcut.nn.SkipConv`; A is not normalised, and negative edge weights are an error.
    ``load_state_dict`` takes the parameters of PyTorch Geometric's layer of the same name.
    """

    def make_weights(self, bias: bool) -> None:
        # The bias stands apart: it comes after the product with A, the matrix before it where it narrows.
        self.lin = self.linear()
        self.bias = Bias(self.out_channels, self.in_channels) if bias else None
        accept_keys(self, {"bias": "bias.bias"})

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.lin.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias.bias)

    def messages(self, x: Tensor, op: Operator) -> Tensor:
        op.refuse_negative()
        scale = gcn_scale(op, x)
        narrow = self.out_channels < self.in_channels
        h = scale * (self.lin(x) if narrow else x)
        h = scale * (op.product(h) + h)
        h = h if narrow else self.lin(h)
        return h if self.bias is None else self.bias(h)


class GraphConv(GraphLayer):
    r"""X' = act(A X W_1 + b + X W_2): sums over neighbours, no normalisation (Morris et al.).

    >>> import torch
    >>> from softcut.nn import GraphConv
    >>> GraphConv(8, 1)(torch.zeros(2, 8), torch.tensor([[0, 1], [1, 0]])).shape
    torch.Size([2, 1])

    Made and called as :class:`~softcut.nn.SkipConv`; negative edge weights are fine.
    ``load_state_dict`` takes the parameters of PyTorch Geometric's layer of the same name.
    """

    def make_weights(self, bias: bool) -> None:
        self.lin_rel = self.linear()
        self.bias = Bias(self.out_channels, self.in_channels) if bias else None
        self.lin_root = self.linear()
        accept_keys(self, {"lin_rel.bias": "bias.bias"})

    def reset_parameters(self) -> None:
        for part in (self.lin_rel, self.bias, self.lin_root):
            if part is not None:
                part.reset_parameters()

    def messages(self, x: Tensor, op: Operator) -> Tensor:
        h = self.passed(x, self.lin_rel, op)
        h = h if self.bias is None else self.bias(h)
        return h + self.lin_root(x)
