"""What every pooling layer shares: select -> reduce -> connect -> lift, one call, one output."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.layers import MLP, graph_input
from softcut.nn.number_checks import check_size
from softcut.nn.pool.output import PoolOutput
from softcut.nn.pool.selection import DenseSelection, Selection, edges_of
from softcut.ops import Dense, Operator, pooled_adjacency
from softcut.ops.numerics import full_precision, no_autocast, zero_padding
from softcut.ops.products import PooledProducts, pooled_products
from softcut.ops.tensor_checks import can_be_read, check_assignments

__all__ = [
    "DensePool",
    "MLPPool",
    "Pool",
    "check_clusters",
    "dense_output",
    "given_selection",
    "nodes_per_graph",
]


class Pool(nn.Module, ABC):
    """Base class of the pooling layers.

    Called as ``pool(x, adj, edge_weight=None, batch=None, mask=None, selection=None)``: `adj` is an
    operator, a Graph, an edge_index [2, E], or a dense batch [B, N, N]; `selection` is a precomputed one.
    """

    @abstractmethod
    def select(self, x: Tensor, op: Operator) -> Selection:
        """Choose clusters or nodes."""

    @abstractmethod
    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        """Reduce the features and connect what was chosen."""

    def forward(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        selection: Selection | None = None,
    ) -> PoolOutput:
        x, op = graph_input(x, adj, edge_weight, batch, mask, getattr(self, "in_channels", None))
        if selection is None:
            selection = self.select(x, op)
            if selection.edges is None and not torch.compiler.is_compiling():
                selection.edges = edges_of(op)
        else:
            if not isinstance(selection, Selection):
                raise ParameterError(
                    f"selection must be a Selection, such as out.selection of another call, got "
                    f"{type(selection).__name__}; softcut.nn.mincut_pool and diff_pool take a matrix S."
                )
            selection.check(op)
        return self.pool(x, op, selection)

    def lift(self, x_pool: Tensor, selection: Selection, pinv: bool = False) -> Tensor:
        """Pooled features back to the nodes they came from (`pinv`: by the pseudo-inverse)."""
        if not isinstance(selection, Selection):
            raise ParameterError(
                f"selection must be out.selection of the call that pooled, got {type(selection).__name__}."
            )
        return selection.lift(x_pool, pinv)


class DensePool(Pool):
    """A pooler with a soft assignment matrix: S comes from `logits`, everything else from S."""

    temperature: float = 1.0

    @abstractmethod
    def logits(self, x: Tensor, op: Operator) -> Tensor:
        """Scores [.., N, K] before the softmax."""

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        """Losses from S, S'AS and S'S before they are weighted, one value per graph: [B] each."""
        return {}

    def weights(self) -> dict[str, float]:
        """Weights of the losses by name; 1 for those that are not named."""
        return {}

    def features(self, x: Tensor, op: Operator) -> Tensor:
        """What is pooled: the features themselves unless a subclass embeds them first."""
        return x

    def operator(self, op: Operator) -> Operator:
        """The operator whose quadratic form is pooled: A-tilde unless a subclass says otherwise."""
        return op.normalise()

    def activate(self, x_pool: Tensor) -> Tensor:
        """What becomes of S'X: itself unless a subclass says otherwise."""
        return x_pool

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        """From S' A S to the adjacency of the next layer."""
        return pooled_adjacency(quadratic, symmetric=op.symmetric)

    def select(self, x: Tensor, op: Operator) -> DenseSelection:
        s = torch.softmax(full_precision(self.logits(x, op)) / self.temperature, dim=-1)
        return DenseSelection(zero_padding(s, op.mask), op.layout)

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, DenseSelection):
            raise ParameterError(f"selection must be a DenseSelection here, got {type(selection).__name__}.")
        op.check_rows(selection.s, "selection.s")
        features = self.features(x, op)
        with no_autocast(selection.s):
            op = self.operator(op)
        return dense_output(
            features, op, selection, self.auxiliary, self.connect, self.activate, self.weights()
        )


def dense_output(
    x: Tensor,
    op: Operator,
    selection: DenseSelection,
    auxiliary: Callable[[Operator, Tensor, PooledProducts], dict[str, Tensor]],
    connect: Callable[[Operator, Tensor], Dense],
    activate: Callable[[Tensor], Tensor] | None = None,
    weights: dict[str, float] | None = None,
) -> PoolOutput:
    """S'X, the graph that `connect` makes of S'AS, and the losses, from one product with A."""
    s = selection.s
    with no_autocast(s):
        products = pooled_products(op, s, x.to(s.dtype))  # the only product with A
        return PoolOutput(
            x=(products.x if activate is None else activate(products.x)).to(x.dtype),
            adj=connect(op, products.quadratic),
            selection=selection,
            raw_losses=auxiliary(op, s, products),
            weights=weights,
        )


def given_selection(s: Tensor, op: Operator) -> DenseSelection:
    """The selection of an assignment matrix that was made elsewhere; scores before a softmax are refused."""
    s = full_precision(check_assignments(s))
    s = s.unsqueeze(0) if isinstance(op, Dense) and s.dim() == 2 else s
    op.check_rows(s, "s")
    s = zero_padding(s, op.mask)
    if can_be_read(s) and bool((s < 0).any()):
        raise ParameterError(
            f"s must hold assignments, which are not negative, got {s.min().item():g}; apply a softmax to scores first."
        )
    return DenseSelection(s, op.layout)


class MLPPool(DensePool):
    r"""A dense pooler whose assignments come from the features alone: S = softmax(MLP(X) / tau)."""

    def __init__(
        self,
        in_channels: int,
        k: int,
        hidden: int | Sequence[int] | None,
        act: Activation,
        temperature: float,
    ) -> None:
        super().__init__()
        check_clusters(k, temperature)
        in_channels, k = check_size(in_channels, "in_channels"), int(k)
        self.in_channels, self.k, self.temperature = in_channels, k, float(temperature)
        self.mlp = MLP(in_channels, hidden, k, act)

    def reset_parameters(self) -> None:
        self.mlp.reset_parameters()

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        return self.mlp(x)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, k={self.k}, temperature={self.temperature}"


def check_clusters(k: int, temperature: float = 1.0) -> None:
    """Refuse a number of clusters or a temperature that no assignment can have."""
    check_size(k, "k")
    # inf is refused as well: all clusters would be the same.
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise ParameterError(f"temperature must be positive and finite, got {temperature!r}.")


def nodes_per_graph(op: Operator, like: Tensor) -> Tensor:
    """Node count of every graph [B], at least 1, in the type of `like`, which has the rows of the graphs."""
    ones = like.new_ones(like.shape[: op.layout.rows]) if op.mask is None else op.mask.to(like.dtype)
    return op.layout.total(ones).clamp(min=1)
