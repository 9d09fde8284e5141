r"""The Halo operator: the rows of a graph that one process of several owns.

    Y_own = A_own,own S_own + A_own,halo S_halo

A process stores the rows of its own nodes. Their neighbours among the other processes' nodes are its halo: before
a product it receives their rows of S, and sends the rows that others need. Backward, gradients of halo rows go
back to their owners. Sums over nodes (Tr S'AS, Tr S'DS, S'S) are sums over processes: the layout of a Halo
operator adds them up, so the losses, which are written in the operations of a layout, are those of the whole graph.

Every process computes the same loss from the same sums, and its backward pass gives the gradient with respect to
its own rows of S. The gradient of a parameter that all processes share is therefore the sum of the gradients of all
processes; the training loop adds them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from softcut.errors import GraphError
from softcut.ops.batching import Segments
from softcut.ops.csr import SparseOperator
from softcut.ops.numerics import inverse_sqrt
from softcut.ops.spmm import CSRPattern, constants, sparse_product


class Group(Protocol):
    """How processes exchange rows and add up numbers; see :mod:`softcut.clustering.distributed` for the real one."""

    rank: int
    size: int

    def all_reduce(self, values: Tensor) -> Tensor:
        """The sum over all processes of a tensor that each of them has; the same on all."""

    def all_to_all(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Rows for every process, one after another, `send[p]` of them for process p; returns those received."""


class _SharedSum(torch.autograd.Function):
    """Sum over processes. Backward is the identity: each process computes the gradient of its own summand."""

    @staticmethod
    def forward(group: Group, values: Tensor) -> Tensor:
        return group.all_reduce(values.detach().clone(memory_format=torch.contiguous_format))

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        pass

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return None, grad

    @staticmethod
    def vmap(info, in_dims, group, values):  # type: ignore[no-untyped-def]
        return _SharedSum.apply(group, values), in_dims[1]


class _SharedRows(Segments):
    """The rows of one graph, spread over processes: sums over rows are sums over all processes."""

    def __init__(self, num_rows: int, group: Group) -> None:
        super().__init__(num_rows)
        self.group = group

    def over_all(self, values: Tensor) -> Tensor:
        return _SharedSum.apply(self.group, values)

    def total(self, v: Tensor) -> Tensor:
        return self.over_all(super().total(v))

    def gram(self, a: Tensor, b: Tensor) -> Tensor:
        return self.over_all(super().gram(a, b))


class Exchange:
    """Which of its `num_rows` rows this process sends to the others, and how many it receives.

    `send` [m] holds own rows that others need, grouped by who receives them; `send_counts` and `receive_counts` say
    how many go to each process, and come from it.
    """

    def __init__(
        self,
        group: Group,
        num_rows: int,
        send: Tensor,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> None:
        self.group, self.num_rows, self.send = group, num_rows, send.long()
        self.send_counts, self.receive_counts = list(send_counts), list(receive_counts)
        self.num_halo = sum(receive_counts)

    @cached_property
    def _returned(self) -> CSRPattern:
        """Where returned rows are added: a sparse sum, which adds in a fixed order on every device."""
        with constants():
            numbers = torch.arange(self.send.numel(), device=self.send.device)
            return CSRPattern.from_coo(self.send, numbers, (self.num_rows, self.send.numel()))[0]

    def receive(self, s: Tensor) -> Tensor:
        """Rows of the halo [h, C] from the own rows [n, C]."""
        rows = s.detach().index_select(0, self.send)
        return self.group.all_to_all(rows, self.send_counts, self.receive_counts)

    def give_back(self, halo: Tensor) -> Tensor:
        """The adjoint: values of halo rows go to their owners, who add up what they get."""
        back = self.group.all_to_all(halo.detach().contiguous(), self.receive_counts, self.send_counts)
        return sparse_product(self._returned, None, back)

    def to(self, device: torch.device | str) -> Exchange:
        return Exchange(
            self.group, self.num_rows, self.send.to(device), self.send_counts, self.receive_counts
        )


class _Move(torch.autograd.Function):
    """Rows to the processes that need them or, with `back`, their adjoint: each is the gradient of the other."""

    @staticmethod
    def forward(exchange: Exchange, rows: Tensor, back: bool) -> Tensor:
        return exchange.give_back(rows) if back else exchange.receive(rows)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.exchange, _, ctx.back = inputs

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return None, _Move.apply(ctx.exchange, grad, not ctx.back), None

    @staticmethod
    def vmap(info, in_dims, exchange, rows, back):  # type: ignore[no-untyped-def]
        rows = rows.movedim(in_dims[1], 1)  # replicas are columns of one exchange
        moved = _Move.apply(exchange, rows.reshape(rows.shape[0], -1), back)
        return moved.view(moved.shape[0], *rows.shape[1:]), 1


class Halo(SparseOperator):
    """The rows of a symmetric matrix that belong to one process.

    Products, degrees and losses take and give the rows of this process only, and every process must call them
    together, in the same order. With a single process it is the whole graph.

    `pattern` is [n, n + h]: the first n columns are the own nodes, the others the halo, whose rows `exchange` receives.
    `val` None stands for a binary matrix, `scale` [n] for a diagonal on both sides. Whether the whole matrix is
    symmetric cannot be found out from one part.
    """

    layout: _SharedRows

    def __init__(
        self,
        pattern: CSRPattern,
        exchange: Exchange,
        val: Tensor | None = None,
        *,
        scale: Tensor | None = None,
        symmetric: bool = True,
        normalised: bool = False,
    ) -> None:
        rows = pattern.shape[0]
        if exchange.num_rows != rows or pattern.shape[1] != rows + exchange.num_halo:
            raise GraphError(
                f"pattern must have {exchange.num_rows} rows and {exchange.num_rows + exchange.num_halo} columns, the "
                f"own nodes and the halo of the exchange, got {list(pattern.shape)}."
            )
        self.pattern, self.exchange, self.val, self.scale = pattern, exchange, val, scale
        self.layout = _SharedRows(rows, exchange.group)
        self.symmetric, self.normalised = symmetric, normalised

    def _at_columns(self, rows: Tensor) -> Tensor:
        return torch.cat([rows, _Move.apply(self.exchange, rows, False)])

    def _own_degree(self) -> Tensor:
        """In float64."""
        if self.scale is None and self.val is None:
            return self.pattern.counts.double()
        return self.row_sums(torch.ones(self.num_rows, dtype=torch.float64, device=self.pattern.col.device))

    def _normal_form(self) -> Halo:
        self.refuse_negative()
        scale = inverse_sqrt(self._exact_degree)
        if self.scale is not None:
            scale = scale * self.scale
        return Halo(
            self.pattern, self.exchange, self.val, scale=scale, symmetric=self.symmetric, normalised=True
        )

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Halo:
        pattern = self.pattern if device is None else self.pattern.to(device)
        exchange = self.exchange if device is None else self.exchange.to(device)
        val, scale = (t if t is None else t.to(device=device, dtype=dtype) for t in (self.val, self.scale))
        return Halo(pattern, exchange, val, scale=scale, symmetric=self.symmetric, normalised=self.normalised)

    def __repr__(self) -> str:
        own, halo, entries = self.num_rows, self.exchange.num_halo, self.pattern.nnz
        place = f"part {self.layout.group.rank + 1} of {self.layout.group.size}"
        return f"Halo({own} rows, {halo} halo rows, {entries} entries, {place})"
