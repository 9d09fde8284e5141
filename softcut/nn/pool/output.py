"""What every pooling layer returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from softcut.nn.pool.selection import Selection
from softcut.ops import Operator
from softcut.ops.triplets import entries

__all__ = ["PoolOutput"]


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
    raw_losses, weights : dict
        The losses of every graph before they are weighted, and their weights (1 where none is named).
    """

    def __init__(
        self,
        x: Tensor,
        adj: Operator | Callable[[], Operator],
        selection: Selection,
        batch: Tensor | None = None,
        mask: Tensor | None = None,
        raw_losses: dict[str, Tensor] | None = None,
        weights: dict[str, float] | None = None,
    ) -> None:
        self.x, self.selection, self.batch, self.mask = x, selection, batch, mask
        self.raw_losses, self.weights = raw_losses or {}, weights or {}
        self.graph_losses = {
            name: self.weights[name] * values if name in self.weights else values
            for name, values in self.raw_losses.items()
        }
        self.losses = {name: values.mean(0) for name, values in self.graph_losses.items()}
        # One graph of operations cannot return a function.
        self._adj = adj() if torch.compiler.is_compiling() and callable(adj) else adj

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

    def __iter__(self) -> Iterator[Any]:
        return iter((self.x, self.adj, self.batch, self.mask, self.selection, self.losses))

    def __repr__(self) -> str:
        adj = self._adj if isinstance(self._adj, Operator) else "connected when it is read"
        parts = [f"x={list(self.x.shape)}", f"adj={adj}"]
        parts += [
            f"{name}={list(t.shape)}"
            for name, t in (("batch", self.batch), ("mask", self.mask))
            if t is not None
        ]
        parts += [f"selection={type(self.selection).__name__}", f"losses=[{', '.join(self.losses)}]"]
        return f"PoolOutput({', '.join(parts)})"

    def to_pyg(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(x, edge_index, edge_weight, batch) for layers of PyTorch Geometric; padding is left out.

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
        row, col, _ = triplets = entries(self.adj)
        batch = self.batch if self.batch is not None else self.x.new_zeros(self.x.shape[0], dtype=torch.long)
        weight = triplets.values(self.x.dtype).to(self.x.dtype)
        return self.x, torch.stack([row, col]), weight, batch
