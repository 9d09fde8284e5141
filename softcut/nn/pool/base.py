"""What every pooling layer shares: select -> reduce -> connect -> lift, one call, one output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from softcut.errors import ParameterError
from softcut.nn.activations import Activation
from softcut.nn.layers import MLP, graph_input
from softcut.ops import (
    Dense,
    Layout,
    Operator,
    PooledProducts,
    Segments,
    pooled_adjacency,
    pooled_products,
    self_gram,
)
from softcut.ops.cut import full_precision, no_autocast, zero_padding

__all__ = [
    "DensePool",
    "DenseSelection",
    "MLPPool",
    "Pool",
    "PoolOutput",
    "Selection",
    "check_clusters",
    "nodes_per_graph",
    "same_rows",
]


class Selection(ABC):
    """Which nodes go to which cluster; owns the way there (`reduce`) and back (`lift`).

    `s` is the assignment matrix: rows are nodes, columns are clusters or kept nodes.
    """

    if TYPE_CHECKING:  # an attribute in some kinds, a property in others

        @property
        def s(self) -> Tensor: ...

    @property
    def pooled_rows(self) -> tuple[int, ...] | None:
        """Shape of what `lift` takes, without its last axis; None: not known, not checked."""
        return None

    def check(self, op: Operator) -> None:
        """Refuse a graph that this selection was not made for."""
        layout: Layout | None = getattr(self, "layout", None)
        if layout is not None and not same_rows(layout, op.layout):
            raise ParameterError("selection must come from the graphs that are pooled; it has other rows.")

    def check_pooled(self, x_pool: Tensor) -> None:
        """Refuse features that are not those of the clusters."""
        rows = self.pooled_rows
        if rows is not None and x_pool.shape[:-1] != rows:
            raise ParameterError(
                f"x_pool must have the shape {[*rows, 'F']} of the pooled features, got {list(x_pool.shape)}."
            )

    @abstractmethod
    def reduce(self, x: Tensor) -> Tensor:
        """Node features to cluster features."""

    @abstractmethod
    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        """Cluster features back to nodes; with `pinv` through the pseudo-inverse of the way there."""


@dataclass
class DenseSelection(Selection):
    """A soft assignment matrix S: [N, K] for ragged batches, [B, N, K] for padded ones.

    >>> import torch
    >>> from softcut.ops import Segments
    >>> selection = DenseSelection(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), Segments(3))
    >>> pooled = selection.reduce(torch.tensor([[2.0], [4.0], [7.0]]))
    >>> selection.lift(pooled).flatten().tolist()
    [6.0, 6.0, 7.0]
    >>> [round(v, 4) for v in selection.lift(pooled, pinv=True).flatten().tolist()]
    [3.0, 3.0, 7.0]
    """

    s: Tensor  # type: ignore[assignment]
    layout: Layout

    @property
    def pooled_rows(self) -> tuple[int, ...]:
        return (self.layout.num_graphs, *self.s.shape[self.layout.rows :])

    def reduce(self, x: Tensor) -> Tensor:
        x = zero_padding(x, getattr(self.layout, "mask", None))
        return self.layout.gram(self.s, x.to(self.s.dtype)).to(x.dtype)  # S' X

    def lift(self, x_pool: Tensor, pinv: bool = False) -> Tensor:
        self.check_pooled(x_pool)
        coarse = x_pool.to(self.s.dtype)
        if pinv:
            coarse = torch.linalg.pinv(self_gram(self.layout, self.s), hermitian=True) @ coarse
        return self.layout.matmul(self.s, coarse).to(x_pool.dtype)  # S X_pool, or S (S'S)^+ X_pool


class PoolOutput:
    """What a pooling layer returns.

    Attributes
    ----------
    x : Tensor
        Pooled features: [B, K, F] from a dense pooler, [N', F] from one that keeps nodes.
    adj : Operator
        The pooled graphs; goes straight into the next layer. A function that makes it is called when
        `adj` is first read, so that a last layer, or a bottleneck whose decoder keeps the original
        graph, connects nothing.
    batch, mask : Tensor or None
        Graph number of each row (ragged), or which rows are real (padded); None if neither applies.
    selection : Selection
        How nodes were chosen; pass it to ``pool.lift``.
    losses : dict
        Auxiliary losses, weighted, mean over the graphs; add their sum to the task's loss.
    graph_losses : dict
        The same losses before the mean: one value per graph, [B].
    """

    def __init__(
        self,
        x: Tensor,
        adj: Operator | Callable[[], Operator],
        selection: Selection,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        graph_losses: dict[str, Tensor] | None = None,
    ) -> None:
        self.x, self.selection, self.batch, self.mask = x, selection, batch, mask
        self.graph_losses: dict[str, Tensor] = {} if graph_losses is None else graph_losses
        self.losses = {name: values.mean(0) for name, values in self.graph_losses.items()}
        self._adj = adj

    @property
    def adj(self) -> Operator:
        if not isinstance(self._adj, Operator):
            self._adj = self._adj()
        return self._adj

    @property
    def s(self) -> Tensor:
        """The assignment matrix."""
        return self.selection.s

    @property
    def loss(self) -> Tensor:
        """Sum of the auxiliary losses (0 where there are none)."""
        return sum(self.losses.values(), self.x.new_zeros(()))

    def to_pyg(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(x, edge_index, edge_weight, batch) for layers of PyTorch Geometric.

        >>> import torch
        >>> from softcut.nn import MinCutPool
        >>> out = MinCutPool(3, 2)(torch.rand(4, 3), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]))
        >>> x, edge_index, edge_weight, batch = out.to_pyg()
        >>> x.shape, batch.tolist()
        (torch.Size([2, 3]), [0, 0])
        """
        if self.x.dim() == 3:
            graphs, k, _ = self.x.shape
            x = self.x.reshape(graphs * k, -1)
            batch = torch.arange(graphs, device=x.device).repeat_interleave(k)
            dense = self.adj.to_dense()
            graph, row, col = dense.nonzero(as_tuple=True)
            edges, weight = torch.stack([graph * k + row, graph * k + col]), dense[graph, row, col]
            if self.mask is not None:  # padding is no node
                real = self.mask.reshape(-1).bool()
                x, batch, edges = x[real], batch[real], (real.cumsum(0) - 1)[edges]
            return x, edges, weight, batch
        from softcut.ops import CSR

        assert isinstance(self.adj, CSR)
        pattern = self.adj.pattern
        weight = self.adj.val if self.adj.val is not None else pattern.ones(self.x.dtype)
        if self.adj.scale is not None:  # a diagonal on both sides
            scale = self.adj.scale.to(weight.dtype)
            weight = weight * scale[pattern.rows] * scale[pattern.col.long()]
        batch = self.batch if self.batch is not None else self.x.new_zeros(self.x.shape[0], dtype=torch.long)
        return self.x, torch.stack([pattern.rows, pattern.col.long()]), weight, batch


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
        else:
            selection.check(op)
        return self.pool(x, op, selection)

    def lift(self, x_pool: Tensor, selection: Selection, pinv: bool = False) -> Tensor:
        """Pooled features back to the nodes they came from (`pinv`: by the pseudo-inverse)."""
        return selection.lift(x_pool, pinv)


class DensePool(Pool):
    """A pooler with a soft assignment matrix: S comes from `logits`, everything else from S."""

    temperature: float = 1.0

    @abstractmethod
    def logits(self, x: Tensor, op: Operator) -> Tensor:
        """Scores [.., N, K] before the softmax."""

    @abstractmethod
    def auxiliary(self, op: Operator, s: Tensor, products: PooledProducts) -> dict[str, Tensor]:
        """Weighted losses from S, S'AS and S'S, one value per graph: [B] each."""

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
        s = selection.s
        op.check_rows(s, "selection.s")
        features = self.features(x, op)
        with no_autocast(s):
            op = self.operator(op)
            products = pooled_products(op, s, features.to(s.dtype))  # the only product with A
            return PoolOutput(
                x=self.activate(products.x).to(features.dtype),
                adj=self.connect(op, products.quadratic),
                selection=selection,
                graph_losses=self.auxiliary(op, s, products),
            )


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
        self.in_channels, self.k, self.temperature = in_channels, k, float(temperature)
        self.mlp = MLP(in_channels, hidden, k, act)

    def reset_parameters(self) -> None:
        self.mlp.reset_parameters()

    def logits(self, x: Tensor, op: Operator) -> Tensor:
        return self.mlp(x)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, k={self.k}, temperature={self.temperature}"


def same_rows(a: Layout, b: Layout) -> bool:
    """Whether two layouts are of the same graphs, as far as sizes tell."""
    if isinstance(a, Segments) and isinstance(b, Segments):
        if (a.num_rows, a.num_graphs) != (b.num_rows, b.num_graphs):
            return False
        if a.ptr is None or b.ptr is None or a.ptr is b.ptr:
            return True
        # On a GPU the sizes of the single graphs are not compared: that would wait for the device.
        return a.ptr.is_cuda or b.ptr.is_cuda or torch.equal(a.ptr, b.ptr)
    return type(a) is type(b) and a.num_graphs == b.num_graphs


def check_clusters(k: int, temperature: float = 1.0) -> None:
    """Refuse a number of clusters or a temperature that no assignment can have."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise ParameterError(f"k must be a whole number, got {k!r}.")
    if k < 1:
        raise ParameterError(f"k must be at least 1, got {k}.")
    if not temperature > 0:
        raise ParameterError(f"temperature must be positive, got {temperature}.")


def nodes_per_graph(op: Operator, like: Tensor) -> Tensor:
    """Node count of every graph [B], at least 1, in the type of `like`."""
    if op.layout.rows == 2:
        if op.mask is None:
            return like.new_full((op.num_graphs,), float(op.num_rows))
        return op.mask.sum(-1).to(like.dtype).clamp(min=1)
    if op.ptr is None:
        return like.new_full((1,), float(max(op.num_rows, 1)))
    return (op.ptr[1:] - op.ptr[:-1]).to(like.dtype).clamp(min=1)
