"""What every pooling layer shares: select -> reduce -> connect -> lift, one call, one output."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.foreign_modules import reset
from softcut.nn.layers import MLP, check_size, graph_input
from softcut.nn.pool.selection import DenseSelection, Selection, edges_of
from softcut.ops import Dense, Operator, pooled_adjacency
from softcut.ops.activations import Activation
from softcut.ops.coarsen import PooledProducts, pooled_products
from softcut.ops.convert import entries, to_ragged
from softcut.ops.numerics import (
    can_be_read,
    check_assignments,
    full_precision,
    mean_of_graphs,
    no_autocast,
    zero_padding,
)


class PoolOutput:
    """What a pooling layer returns.

    >>> import torch
    >>> from softcut.nn import MinCutPool
    >>> out = MinCutPool(3, 2)(torch.rand(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
    >>> out
    PoolOutput(x=[1, 2, 3], adj=Dense([1, 2, 2]), selection=DenseSelection, losses=[cut, ortho])
    >>> x, adj, *rest = out
    >>> x.shape, adj
    (torch.Size([1, 2, 3]), Dense([1, 2, 2]))

    Unpacks into x, adj, batch, mask, selection and losses, in this order.

    Attributes
    ----------
    x : Tensor
        Pooled features: [B, K, F] from a dense pooler, [N', F] from one that keeps nodes.
    adj : Operator or Tensor
        The pooled graphs; goes straight into the next layer. Some poolers connect them when `adj` is first read. A
        tensor where the pooler was called with ``dense=True``.
    batch, mask : Tensor or None
        Graph number of each row (ragged), or which rows are real (padded); None if neither applies.
    selection : Selection
        How nodes were chosen; pass it to ``pool.lift``.
    losses, graph_losses : dict
        Auxiliary losses, weighted: mean over the graphs that have nodes (add the sum to the task's loss), and one
        value per graph.
    raw_losses, weights : dict
        The losses of every graph before they are weighted, and their weights (1 where none is named): numbers, or
        one per graph.
    """

    def __init__(
        self,
        x: Tensor,
        adj: Operator | Callable[[], Operator],
        selection: Selection,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        raw_losses: dict[str, Tensor] | None = None,
        weights: Mapping[str, float | Tensor] | None = None,
    ) -> None:
        self.dense = False  # whether `adj` is a tensor
        self.x, self.selection, self.batch, self.mask = x, selection, batch, mask
        self.raw_losses, self.weights = raw_losses or {}, weights or {}
        weighted = ((name, self.weights.get(name, 1.0), values) for name, values in self.raw_losses.items())
        self.graph_losses = {
            name: values if isinstance(weight, float) and weight == 1 else weight * values
            for name, weight, values in weighted
        }
        # One graph of operations cannot return a function.
        self._adj = adj() if torch.compiler.is_compiling() and callable(adj) else adj
        self._losses = self._means() if torch.compiler.is_compiling() else None

    @property
    def losses(self) -> dict[str, Tensor]:
        """The weighted losses, means over the graphs that have nodes; computed when they are first read."""
        if self._losses is None:
            self._losses = self._means()
        return self._losses

    def _means(self) -> dict[str, Tensor]:
        occupied = self.selection.layout.occupied if isinstance(self.selection, DenseSelection) else None
        return {name: mean_of_graphs(values, occupied) for name, values in self.graph_losses.items()}

    @property
    def operator(self) -> Operator:
        """The pooled graphs as an operator, whatever `adj` is."""
        if not isinstance(self._adj, Operator):
            self._adj = self._adj()
        return self._adj

    @property
    def adj(self) -> Any:
        return self.operator.to_dense() if self.dense else self.operator

    @property
    def s(self) -> Tensor:
        """The assignment matrix."""
        return self.selection.s

    @property
    def loss(self) -> Tensor:
        """Sum of the auxiliary losses (0 where there are none)."""
        return sum(self.losses.values(), self.x.new_zeros(()))

    def __iter__(self) -> Iterator[Any]:
        return iter((self.x, self.adj, self.batch, self.mask, self.selection, self.losses))

    def __repr__(self) -> str:
        adj: Any = self._adj if isinstance(self._adj, Operator) else "connected when it is read"
        adj = list(self.adj.shape) if self.dense else adj
        rows = {"batch": self.batch, "mask": self.mask}
        shapes = "".join(f"{name}={list(t.shape)}, " for name, t in rows.items() if t is not None)
        return (
            f"PoolOutput(x={list(self.x.shape)}, adj={adj}, {shapes}selection={type(self.selection).__name__}, "
            f"losses=[{', '.join(self.losses)}])"
        )

    def to_pyg(self, dense: bool = False) -> tuple[Tensor, ...]:
        """(x, edge_index, edge_weight, batch) for layers of PyTorch Geometric; padding is left out.

        With ``dense=True`` what ``dense_mincut_pool`` returns there: (x, adj, *losses), all of them tensors.

        >>> import torch
        >>> from softcut.nn import MinCutPool
        >>> out = MinCutPool(3, 2)(torch.rand(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
        >>> x, adj, cut, ortho = out.to_pyg(dense=True)
        >>> adj.shape
        torch.Size([1, 2, 2])
        """
        if dense:
            return self.x, self.operator.to_dense(), *self.losses.values()
        x, adj, batch = self.x, self.operator, self.batch
        if isinstance(adj, Dense):
            adj, real = to_ragged(adj)
            x, batch = x[real], real.nonzero()[:, 0]
        elif batch is None:
            batch = x.new_zeros(x.shape[0], dtype=torch.long)
        row, col, _ = triplets = entries(adj)
        return x, torch.stack([row, col]), triplets.values(x.dtype).to(x.dtype), batch


class Pool(nn.Module, ABC):
    """Base class of the pooling layers.

    Called as ``pool(x, adj, edge_weight=None, batch=None, mask=None, selection=None, dense=False)``: `adj` is an
    operator, a Graph, an edge_index [2, E], or a dense batch [B, N, N]; `selection` is a precomputed one. With
    ``dense=True`` the pooled graphs are a tensor, as layers of PyTorch Geometric such as ``DenseGCNConv`` take them.
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
        *,
        dense: bool = False,
    ) -> PoolOutput:
        x, op = graph_input(x, adj, edge_weight, batch, mask, getattr(self, "in_channels", None))
        if selection is None:
            selection = self.selected(x, op)
        elif isinstance(selection, Selection):
            selection.check(op)
        else:
            raise ParameterError(
                f"selection must be a Selection, such as out.selection of another call, got "
                f"{type(selection).__name__}; softcut.nn.mincut_pool and diff_pool take a matrix S.",
                argument="selection",
            )
        out = self.pool(x, op, selection)
        out.dense = dense
        return out

    def selected(self, x: Tensor, op: Operator) -> Selection:
        """A selection that knows the graph it was made for."""
        selection = self.select(x, op)
        if selection.edges is None and not torch.compiler.is_compiling():
            selection.edges = edges_of(op)
        return selection

    def reset_parameters(self) -> None:
        """Draw all weights again."""
        for module in self.children():
            reset(module)

    def lift(self, x_pool: Tensor, selection: Selection, pinv: bool = False) -> Tensor:
        """Pooled features back to the nodes they came from (`pinv`: by the pseudo-inverse)."""
        if not isinstance(selection, Selection):
            raise ParameterError(
                f"selection must be out.selection of the call that pooled, got {type(selection).__name__}.",
                argument="selection",
            )
        return selection.lift(x_pool, pinv)


class DensePool(Pool):
    """A pooler with a soft assignment matrix: S comes from `logits`, everything else from S."""

    temperature: float = 1.0

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        """Scores [.., N, K] before the softmax; a subclass says what they are."""
        raise NotImplementedError(f"{type(self).__name__} has no logits")

    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        """Losses from S, S'AS and S'S before they are weighted, one value per graph: [B] each."""
        return {}

    def weights(self, x: Tensor, op: Operator) -> Mapping[str, float | Tensor]:
        """Weights of the losses by name, numbers or one per graph; 1 for those that are not named."""
        return {}

    def features(self, x: Tensor, op: Operator) -> Tensor:
        """What is pooled: the features themselves unless a subclass embeds them first."""
        return x

    def operator(self, op: Operator) -> Operator:
        """The operator whose quadratic form is pooled: A-tilde unless a subclass says otherwise."""
        return op.normalise()

    def activate(self, x_pool: Tensor) -> Tensor:
        """What becomes of S'X."""
        return x_pool

    def connect(self, op: Operator, quadratic: Tensor) -> Dense:
        """From S' A S to the adjacency of the next layer."""
        return pooled_adjacency(quadratic, symmetric=op.symmetric)

    def select(self, x: Tensor, op: Operator) -> DenseSelection:
        logits = full_precision(self.logits(x, op))
        s = torch.softmax(logits if self.temperature == 1 else logits / self.temperature, dim=-1)
        return DenseSelection(zero_padding(s, op.mask), op.layout)

    def pool(self, x: Tensor, op: Operator, selection: Selection) -> PoolOutput:
        if not isinstance(selection, DenseSelection):
            raise ParameterError(
                f"selection must be a DenseSelection here, got {type(selection).__name__}.",
                argument="selection",
            )
        s = selection.s
        op.check_rows(s, "selection.s")
        features = self.features(x, op)
        with no_autocast(s):
            op = self.operator(op)
            pooled, adj, losses = self.coarse(op, s, features.to(s.dtype))
            return PoolOutput(
                x=self.activate(pooled).to(features.dtype),
                adj=adj,
                selection=selection,
                raw_losses=losses,
                weights=self.weights(x, op),
            )

    def coarse(self, op: Operator, s: Tensor, x: Tensor) -> tuple[Tensor, Dense, dict[str, Tensor]]:
        """S'X, the pooled graphs, and the losses of every graph."""
        products = pooled_products(op, s, x)  # the only product with A
        return products.x, self.connect(op, products.quadratic), self.auxiliary(op, s, products)

    def pool_by(self, s: Tensor, x: Tensor, op: Operator) -> PoolOutput:
        """Pool with an assignment matrix that was made elsewhere; scores before a softmax are refused."""
        s = full_precision(check_assignments(s))
        s = s.unsqueeze(0) if isinstance(op, Dense) and s.dim() == 2 else s
        op.check_rows(s, "s")
        s = zero_padding(s, op.mask)
        if can_be_read(s) and bool((s < 0).any()):
            raise ParameterError(
                f"s must hold assignments, which are not negative, got {s.min().item():g}; apply a softmax to scores "
                "first.",
                argument="s",
            )
        return self.pool(x, op, DenseSelection(s, op.layout))


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
        self.k, self.temperature = check_clusters(k, temperature)
        self.in_channels = check_size(in_channels, "in_channels")
        self.mlp = MLP(self.in_channels, hidden, self.k, act)

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        return self.mlp(x)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, k={self.k}, temperature={self.temperature}"


def check_clusters(k: int, temperature: float = 1.0) -> tuple[int, float]:
    """Refuse a number of clusters or a temperature that no assignment can have."""
    k = check_size(k, "k")
    # inf is refused as well: all clusters would be the same.
    if isinstance(temperature, bool) or not isinstance(temperature, Real) or not 0 < temperature < math.inf:
        raise ParameterError(
            f"temperature must be positive and finite, got {temperature!r}.", argument="temperature"
        )
    return k, float(temperature)


def nodes_per_graph(op: Operator, like: Tensor) -> Tensor:
    """Node count of every graph [B], at least 1, in the type of `like`, which has the rows of the graphs."""
    ones = like.new_ones(like.shape[: op.layout.rows]) if op.mask is None else op.mask.to(like.dtype)
    return op.layout.total(ones).clamp(min=1)
