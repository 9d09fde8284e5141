"""Graphs on a device, and batches gathered from them by index: no loop over graphs, no question to the device.

A batch holds the mini-batches of R replicas side by side. Each replica has B places for graphs, and one more graph
of isolated nodes at its end that fills it up to the largest replica: rows of node tensors are then [R * N], and a
layer with one weight matrix per replica is a batched product on the view [R, N, ...].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softcut.classification.collection import GraphCollection, pointer
from softcut.ops import CSR, CSRPattern, Segments
from softcut.ops.batching import Chunks
from softcut.ops.spmm import constants

__all__ = ["BatchPlan", "BlockStore", "Gathered", "GraphStore", "KnownSegments", "SymmetricPattern"]


_PIECE = 64  # entries of a row that one thread of a GPU sums


class SymmetricPattern(CSRPattern):
    """The pattern of a symmetric matrix: it is its own transpose, values included.

    `total_pieces` says into how many pieces of at most 64 entries its rows are cut on a GPU (0: all rows are short),
    so that the device need not be asked.
    """

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int], total_pieces: int) -> None:
        super().__init__(rowptr, col, shape)
        self.total_pieces = total_pieces

    @cached_property
    def pieces(self) -> tuple[Tensor, Tensor, Tensor] | None:
        if not self.total_pieces:
            return None
        length = self.rowptr[1:] - self.rowptr[:-1]
        count = torch.clamp((length + _PIECE - 1) // _PIECE, min=1).long()
        second = torch.zeros_like(self.rowptr)
        second[1:] = count.cumsum(0)
        place = torch.arange(self.total_pieces, device=count.device)
        rows = torch.arange(len(count), device=count.device)
        owner = torch.repeat_interleave(rows, count, output_size=self.total_pieces)
        start = self.rowptr[:-1][owner] + (place - second[:-1][owner]) * _PIECE
        first = torch.cat([start.to(self.rowptr.dtype), self.rowptr[-1:]])
        return first, place.to(self.col.dtype), second

    @cached_property
    def transpose(self) -> tuple[CSRPattern, Tensor]:
        return self, torch.arange(self.nnz, device=self.col.device)

    @cached_property
    def symmetric(self) -> bool:
        return True


class KnownSegments(Segments):
    """Graphs one after another whose sizes are known on the CPU as well: the device is not asked for them."""

    def __init__(self, sizes: NDArray[np.int64], ptr: Tensor, batch: Tensor) -> None:
        super().__init__(len(batch), ptr)
        self.sizes = sizes
        self.__dict__["batch"] = batch
        self.known: dict[int, Chunks] = {}

    def chunk_size(self, k: int) -> int:
        return min(256, max(16, 1 << (k - 1).bit_length()))

    def chunks(self, size: int) -> Chunks:
        if size not in self.known:
            with constants():
                self.known[size] = self._cut(size)
        return self.known[size]

    def _cut(self, size: int) -> Chunks:
        assert self.ptr is not None
        device, count = self.ptr.device, int((-(-self.sizes // size)).sum())
        per_graph = (self.ptr[1:] - self.ptr[:-1] + size - 1) // size
        number = torch.arange(self.num_graphs, device=device)
        owner = torch.repeat_interleave(number, per_graph, output_size=count)
        bounds = torch.cat([per_graph.new_zeros(1), per_graph.cumsum(0)])
        place = torch.arange(self.num_rows, device=device) + (bounds[:-1] * size - self.ptr[:-1])[self.batch]
        return Chunks(owner, place, bounds)


@dataclass(frozen=True)
class BatchPlan:
    """Which graphs a batch holds and where their rows go; small arrays on the CPU.

    Attributes
    ----------
    graphs : ndarray
        [R, B] graph numbers; -1 for a place that stays empty.
    rows : int
        Rows of each replica, padding included.
    sizes : ndarray
        [R * (B + 1)] rows of every graph of the batch, the padding graph after each replica's own.
    """

    graphs: NDArray[np.int64]
    rows: int
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, graphs: NDArray[np.int64], counts: NDArray[np.int64], rows: int | None = None) -> BatchPlan:
        """`counts` has the rows of every graph of the store; `rows` may ask for more padding than needed."""
        real = np.where(graphs < 0, 0, counts[graphs])
        total = real.sum(1)
        rows = max(int(total.max()), 1) if rows is None else rows
        return cls(graphs, rows, np.column_stack([real, rows - total]).ravel())

    @property
    def replicas(self) -> int:
        return len(self.graphs)

    @property
    def total(self) -> int:
        return self.replicas * self.rows


class Gathered(NamedTuple):
    """A batch's graphs: the operator, and of every row its place in the store, its graph and whether it is padding.

    Rows of padding are the store's `num_rows`: whoever stores something per row keeps one more for them.
    """

    op: CSR
    row: Tensor
    graph: Tensor
    first: Tensor  # [G]: the first row of every graph
    padding: Tensor


class BlockStore:
    """The adjacency of many graphs on a device.

    Parameters
    ----------
    ptr, rowptr, col, weight
        As in :class:`~softcut.classification.GraphCollection`.
    normalised : bool
        Whether the weights are those of D^-1/2 A D^-1/2 already.
    """

    def __init__(
        self,
        ptr: NDArray[np.int64],
        rowptr: NDArray[np.int64],
        col: NDArray[np.int32],
        weight: NDArray[Any] | None,
        device: torch.device,
        dtype: torch.dtype,
        normalised: bool = False,
    ) -> None:
        self.device, self.dtype, self.normalised = device, dtype, normalised
        self.counts, self.starts = np.diff(ptr), ptr[:-1]
        entries = rowptr[ptr]
        self.entry_counts, self.entry_starts = np.diff(entries), entries[:-1]
        self.num_rows = int(ptr[-1])
        # Pieces that a GPU cuts every graph's rows into; None where all rows are short.
        self.piece_counts: NDArray[np.int64] | None = None
        lengths = np.diff(rowptr)
        if lengths.max(initial=0) > _PIECE:
            pieces = pointer(np.maximum(-(-lengths // _PIECE), 1))
            self.piece_counts = np.diff(pieces[ptr])
        self.rowptr = torch.from_numpy(rowptr).to(device)
        self.col = torch.from_numpy(col).to(device)
        self.weight = None if weight is None else torch.from_numpy(weight).to(device, dtype)

    def on_device(self, array: NDArray[Any]) -> Tensor:
        """A small array, without waiting for the device."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def gather(self, plan: BatchPlan) -> Gathered:
        """The block-diagonal operator of a batch, and where its rows come from."""
        replicas, places = plan.graphs.shape
        graphs = plan.sizes.size
        chosen = np.full((replicas, places + 1), -1)
        chosen[:, :places] = plan.graphs
        chosen = chosen.ravel()
        real = chosen >= 0
        begins = pointer(plan.sizes)
        entries = np.where(real, self.entry_counts[chosen], 0)
        entry_begins = pointer(entries)
        nnz = int(entry_begins[-1])
        # One copy to the device for all that is known per graph.
        numbers = self.on_device(
            np.stack(
                [
                    begins[1:],
                    begins[:-1],
                    np.where(real, self.starts[chosen], 0) - begins[:-1],
                    np.where(real, 0, self.num_rows),
                    entries,
                    np.where(real, self.entry_starts[chosen], 0) - entry_begins[:-1],
                ]
            )
        )
        ends, first, shift, padding, entries_of, entry_shift = numbers
        number = torch.arange(graphs, device=self.device)
        of_row = torch.repeat_interleave(number, ends - first, output_size=plan.total)
        of_entry = torch.repeat_interleave(number, entries_of, output_size=nnz)
        place = torch.arange(plan.total, device=self.device)
        is_padding = padding[of_row] > 0
        row = torch.where(is_padding, self.num_rows, place + shift[of_row])
        source = torch.arange(nnz, device=self.device) + entry_shift[of_entry]
        col = self.col[source] + first[of_entry].to(torch.int32)
        rowptr = self.rowptr[row] - entry_shift[of_row]
        # A row of padding begins where the entries of the graphs before it end.
        before = entries_of.cumsum(0)
        rowptr = torch.where(is_padding, before[of_row], rowptr)
        rowptr = torch.cat([rowptr, before[-1:]]).to(torch.int32)
        pieces = 0
        if self.piece_counts is not None:
            pieces = int(np.where(real, self.piece_counts[chosen], plan.sizes).sum())
        pattern = SymmetricPattern(rowptr, col, (plan.total, plan.total), pieces)
        ptr = torch.cat([first[:1] * 0, ends])
        val = None if self.weight is None else self.weight[source]
        layout = KnownSegments(plan.sizes, ptr, of_row)
        op = CSR(pattern, val, layout=layout, symmetric=True, normalised=self.normalised)
        return Gathered(op, row, of_row, first, is_padding)


class GraphStore(BlockStore):
    """A collection on a device, with node features and classes.

    >>> import numpy as np, torch
    >>> from softcut import Graph
    >>> from softcut.classification import from_graphs
    >>> graphs = from_graphs([Graph.from_edges([[0], [1]], x=[[1.0], [2.0]])] * 3, y=[0, 1, 0])
    >>> store = GraphStore(graphs, torch.device("cpu"))
    >>> plan = BatchPlan.of(np.array([[0, 1], [2, -1]]), store.counts)
    >>> found = store.gather(plan)
    >>> found.op, store.x[found.row].flatten().tolist()
    (CSR(8 rows, 6 entries, 6 graph(s)), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0, 0.0])

    Attributes
    ----------
    x : Tensor
        [N + 1, J + D]: the feature numbers of the one-hot blocks, then the numbers; a row of zeros for padding.
    y : Tensor
        Class of every graph, and one more for places that stay empty.
    """

    def __init__(
        self, graphs: GraphCollection, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(graphs.ptr, graphs.rowptr, graphs.col, graphs.weight, device, dtype)
        columns = np.concatenate([graphs.index, graphs.value], axis=1, dtype=np.float64)
        columns = np.concatenate([columns, np.zeros((1, columns.shape[1]))])
        self.x = torch.from_numpy(columns).to(device, dtype)
        self.one_hot, self.num_features = graphs.index.shape[1], graphs.num_features
        y = np.zeros(len(graphs), np.int64) if graphs.y is None else graphs.y
        self.y = torch.from_numpy(np.append(y, 0)).to(device)
