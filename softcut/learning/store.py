"""Graphs on a device, and batches gathered from them by index: no loop over graphs, no question to the device.

A batch holds the mini-batches of R replicas side by side. Each replica has B places for graphs, and one more graph
of isolated nodes at its end that fills it up to the largest replica, so that node tensors have R * N rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from softcut.graph.collection import GraphCollection, pointer
from softcut.ops import CSR, CSRPattern, Segments
from softcut.ops.batching import Chunks
from softcut.ops.spmm import PIECE, constants


class SymmetricPattern(CSRPattern):
    """The pattern of a symmetric matrix: it is its own transpose, values included.

    `total_pieces`: into how many pieces of at most 64 entries a GPU cuts its rows (0: all rows are short).
    """

    lasting = False  # it belongs to one batch

    def __init__(self, rowptr: Tensor, col: Tensor, shape: tuple[int, int], total_pieces: int) -> None:
        super().__init__(rowptr, col, shape)
        self.total_pieces = total_pieces

    @cached_property
    def pieces(self) -> tuple[Tensor, Tensor, Tensor] | None:
        return self.cut_rows(self.total_pieces) if self.total_pieces else None

    @cached_property
    def transpose(self) -> tuple[CSRPattern, Tensor]:
        return self, torch.arange(self.nnz, device=self.col.device)

    @cached_property
    def symmetric(self) -> bool:
        return True


def send(array: NDArray[Any], device: torch.device) -> Tensor:
    """A small array to the device, without waiting for it."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type != "cuda":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


class Together:
    """Batches that are gathered together: what one of them looks up is looked up for all of them."""

    def __init__(self, row: Tensor, totals: list[int], sizes: list[NDArray[np.int64]]) -> None:
        # `row` has one row more after each batch: the end of its row pointer.
        self.row, self.sizes, self.found = row, sizes, dict[Tensor, Sequence[Tensor]]()
        self.lengths = [length for total in totals for length in (total, 1)]
        self.cuts: dict[int, list[tuple[Chunks, Tensor]]] = {}

    def split(self, values: Tensor) -> Sequence[Tensor]:
        """Values of all rows to those of each batch."""
        return values.split(self.lengths)[::2]

    def look_up(self, table: Tensor, batch: int) -> Tensor:
        """The rows of a table of the store that belong to a batch."""
        if table not in self.found:
            with constants():
                self.found[table] = self.split(table.index_select(0, self.row))
        return self.found[table][batch]

    def cut(self, size: int, batch: int) -> tuple[Chunks, Tensor]:
        """How the rows of a batch on a CPU are cut into chunks, and which row is at each of their places.

        Padding is the row after the last one.
        """
        if size not in self.cuts:
            self.cuts[size] = self._cut_all(size)
        return self.cuts[size][batch]

    def _cut_all(self, size: int) -> list[tuple[Chunks, Tensor]]:
        sizes = np.stack(self.sizes)
        per_graph, begins = -(-sizes // size), _pointers(sizes)
        bounds = _pointers(per_graph)
        rows, chunks = begins[:, -1], bounds[:, -1]
        owner = np.repeat(np.tile(np.arange(sizes.shape[1]), len(sizes)), per_graph.ravel())
        # Within its batch: a row's number, and the place where it goes.
        number = np.arange(rows.sum()) - np.repeat(pointer(rows)[:-1], rows)
        place = number + np.repeat((bounds * size - begins)[:, :-1].ravel(), sizes.ravel())
        source = np.repeat(rows, chunks * size)
        source[place + np.repeat(pointer(chunks * size)[:-1], rows)] = number
        pieces = [(owner, chunks), (place, rows), (source, chunks * size)]
        owners, places, sources = (torch.from_numpy(v).split(n.tolist()) for v, n in pieces)
        return list(zip(map(Chunks, owners, places, torch.from_numpy(bounds)), sources, strict=True))


class StoredCSR(CSR):
    """A batch of binary graphs; its normal form is looked up in the store."""

    def __init__(
        self,
        store: BlockStore,
        together: Together,
        number: int,
        pattern: CSRPattern,
        layout: Segments,
        normalised: bool = False,
    ) -> None:
        self.store, self.together, self.number = store, together, number
        self.known: Tensor | None = None
        scale = None
        if normalised:
            scale, self.known = (together.look_up(table, number) for table in store.normal)
        super().__init__(pattern, scale=scale, layout=layout, symmetric=True, normalised=normalised)

    @cached_property
    def _normal(self) -> StoredCSR:
        return StoredCSR(self.store, self.together, self.number, self.pattern, self.layout, normalised=True)

    def normalise(self) -> StoredCSR:
        return self if self.normalised else self._normal

    def _own_degree(self) -> Tensor:
        return super()._own_degree() if self.known is None else self.known

    def degree_like(self, s: Tensor) -> Tensor:
        if self.known is None or self.known.dtype != s.dtype:
            return super().degree_like(s)
        return self.known


class KnownSegments(Segments):
    """Graphs one after another whose sizes are known on the CPU as well: the device is not asked for them."""

    def __init__(
        self, sizes: NDArray[np.int64], ptr: Tensor, batch: Tensor, together: Together, number: int
    ) -> None:
        super().__init__(len(batch), ptr)
        self.sizes, self.together, self.number = sizes, together, number
        self.__dict__["batch"] = batch

    def chunk_size(self, k: int) -> int:
        return min(256, max(16, 1 << (k - 1).bit_length()))

    def cut(self, pieces: Sequence[Tensor], size: int) -> Tensor:
        if len(pieces) == 1 or pieces[0].device.type != "cpu":
            return super().cut(pieces, size)
        # Rows are put side by side anyway, here with one of zeros at the end: reading from there where padding stands
        # is faster than writing the others to their places.
        width, end = sum(piece.shape[1] for piece in pieces), self.num_rows
        rows = pieces[0].new_empty(end + 1, width)
        torch.cat(list(pieces), 1, out=rows[:end])
        rows[end].zero_()
        return rows.index_select(0, self.together.cut(size, self.number)[1]).view(-1, size, width)

    def chunks(self, size: int) -> Chunks:
        on_cpu = self.batch.device.type == "cpu"
        return self.together.cut(size, self.number)[0] if on_cpu else super().chunks(size)

    def _cut_into(self, size: int) -> Chunks:
        device = self.batch.device
        bounds = pointer(-(-self.sizes // size))
        count = int(bounds[-1])
        shift = bounds * size - pointer(self.sizes)
        first, moved, per_graph = send(np.stack([bounds, shift, np.diff(bounds, append=count)]), device)
        number = torch.arange(self.num_graphs + 1, device=device)
        owner = torch.repeat_interleave(number, per_graph, output_size=count)
        place = torch.arange(self.num_rows, device=device) + moved[self.batch]
        return Chunks(owner, place, first)


@dataclass(frozen=True)
class BatchPlan:
    """Which graphs a batch holds and where their rows go; made by :meth:`BlockStore.plan`."""

    rows: int  # of each replica, padding included
    sizes: NDArray[np.int64]  # [R * (B + 1)] rows of every graph, the padding graph after each replica's own
    entries: int  # of the operator
    pieces: int  # that its rows are cut into on a GPU; 0: all are short
    numbers: Tensor  # [6, R * (B + 1) + 1] on the device: what gather reads, graph by graph
    shape: tuple[int, int]  # replicas R and places B


class Gathered(NamedTuple):
    """A batch's graphs: the operator, and of every row its place in the store and its graph.

    Rows of padding are the store's `num_rows`: whoever stores something per row keeps one more for them.
    """

    op: CSR
    row: Tensor
    graph: Tensor
    first: Tensor  # [G]: the first row of every graph
    chosen: Tensor  # [R, B]: graph numbers; -1 for a place that is empty
    num_rows: int
    together: Together
    number: int  # of the batch among those that were gathered together

    def look_up(self, table: Tensor) -> Tensor:
        """The batch's rows of a table of the store, which has one more for padding."""
        return self.together.look_up(table, self.number)

    @property
    def padding(self) -> Tensor:
        """Which rows are padding."""
        return self.row == self.num_rows


class BlockStore:
    """The adjacency of many graphs on a device; `normalised`: the weights are those of D^-1/2 A D^-1/2 already."""

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
        # One more for places that stay empty: no rows, no entries.
        self.counts, self.starts = np.append(np.diff(ptr), 0), ptr
        self.entry_starts = rowptr[ptr]
        self.entry_counts = np.append(np.diff(self.entry_starts), 0)
        self.num_rows, self.num_entries = int(ptr[-1]), int(rowptr[-1])
        # Pieces that a GPU cuts every graph's rows into; None where all rows are short.
        self.piece_counts: NDArray[np.int64] | None = None
        lengths = np.diff(rowptr)
        if lengths.max(initial=0) > PIECE:
            pieces = pointer(np.maximum(-(-lengths // PIECE), 1))
            self.piece_counts = np.append(np.diff(pieces[ptr]), 0)
        self.rowptr = torch.from_numpy(rowptr).to(device)
        self.col = torch.from_numpy(col).to(device)
        self.weight = None if weight is None else torch.from_numpy(weight).to(device, dtype)

    @cached_property
    def normal(self) -> tuple[Tensor, Tensor]:
        """D^-1/2 of all graphs, and the row sums of D^-1/2 A D^-1/2; one more row for padding."""
        with constants():
            return self._all_normal()

    def _all_normal(self) -> tuple[Tensor, Tensor]:
        starts = torch.from_numpy(np.repeat(self.starts[:-1], self.entry_counts[:-1])).to(self.col)
        pattern = CSRPattern(self.rowptr, self.col + starts, (self.num_rows, self.num_rows))
        op = CSR(pattern, symmetric=True).normalise()
        assert op.scale is not None
        scale, sums = (nn.functional.pad(t, (0, 1)) for t in (op.scale, op.degree_like(op.scale)))
        return scale.to(self.dtype), sums.to(self.dtype)

    def plan(
        self, graphs: NDArray[np.int64], rows: Sequence[int] | NDArray[np.int64] | None = None
    ) -> list[BatchPlan]:
        """Plans of T batches of [T, R, B] graph numbers (-1: the place stays empty), sent to the device in one piece.

        `rows` are the rows of each replica in every batch, where more padding than needed is wanted.
        """
        times, replicas, places = graphs.shape
        used = self.counts[graphs].sum(-1)
        needed = np.maximum(used.max(-1), 1) if rows is None else np.asarray(rows)
        # The padding graph stands after each replica's own.
        chosen = np.concatenate([graphs, np.full((times, replicas, 1), -1)], axis=2).reshape(times, -1)
        sizes = self.counts[chosen].reshape(times, replicas, places + 1)
        sizes[:, :, -1] = needed[:, None] - used
        sizes = sizes.reshape(times, -1)
        real, entries = chosen >= 0, self.entry_counts[chosen]
        begins, entry_begins = _pointers(sizes), _pointers(entries)
        numbers = np.zeros((times, 6, sizes.shape[1] + 1), np.int64)
        numbers[:, 0] = begins
        numbers[:, 1, :-1] = sizes
        numbers[:, 1, -2] += 1  # the end of the row pointer counts as one more row of padding
        # Rows of padding are sent past the last row, from where gather brings them back to it.
        numbers[:, 2, :-1] = np.where(real, self.starts[chosen] - begins[:, :-1], self.num_rows)
        numbers[:, 3, :-1] = entries
        # The row pointer of a row of padding is the store's last, and moved to where the entries before it end.
        source = np.where(real, self.entry_starts[chosen], self.num_entries)
        numbers[:, 4, :-1] = source - entry_begins[:, :-1]
        numbers[:, 5, :-1] = chosen
        pieces = np.zeros(times, np.int64)
        if self.piece_counts is not None:
            pieces = np.where(real, self.piece_counts[chosen], sizes).sum(1)
        sent = send(numbers, self.device)
        shape, total = (replicas, places), entry_begins[:, -1]
        return [
            BatchPlan(int(needed[t]), sizes[t], int(total[t]), int(pieces[t]), sent[t], shape)
            for t in range(times)
        ]

    def gather(self, *plans: BatchPlan) -> list[Gathered]:
        """The block-diagonal operator of every batch, and where its rows come from; one set of operations for all.

        On a CPU ``index_select`` takes a third of the time of an index in brackets.
        """
        (replicas, places), times = plans[0].shape, len(plans)
        totals, entry_totals = [replicas * plan.rows for plan in plans], [plan.entries for plan in plans]
        numbers = plans[0].numbers if times == 1 else torch.cat([plan.numbers for plan in plans], 1)
        ptr, sizes, shift, entries, entry_shift, chosen = numbers
        number = local = torch.arange(len(ptr), device=self.device)
        of_row = torch.repeat_interleave(number, sizes, output_size=sum(totals) + times)
        of_entry = torch.repeat_interleave(number, entries, output_size=sum(entry_totals))
        row, source = (torch.arange(len(owner), device=self.device) for owner in (of_row, of_entry))
        source_shift = entry_shift
        if times > 1:  # rows, entries and graphs count anew in every batch
            graphs = len(ptr) // times
            local = number % graphs
            before = np.stack([pointer(np.array(totals) + 1)[:-1], pointer(np.array(entry_totals))[:-1]])
            row_begins, source_begins = send(np.repeat(before, graphs, axis=1), self.device)
            shift, source_shift = shift - row_begins, entry_shift - source_begins
        row = row.add_(shift.index_select(0, of_row)).clamp_(max=self.num_rows)
        source = source.add_(source_shift.index_select(0, of_entry))
        col = self.col.index_select(0, source).add_(ptr.to(torch.int32).index_select(0, of_entry))
        rowptr = self.rowptr.index_select(0, row).sub_(entry_shift.index_select(0, of_row)).to(torch.int32)
        together = Together(row, totals, [plan.sizes for plan in plans])
        every = zip(
            plans,
            ptr.view(times, -1),
            chosen.view(times, -1)[:, :-1].view(times, replicas, places + 1)[..., :places],
            together.split(row),
            together.split(of_row if times == 1 else local.index_select(0, of_row)),
            rowptr.split([total + 1 for total in totals]),
            col.split(entry_totals),
            [None] * times if self.weight is None else self.weight[source].split(entry_totals),
            strict=True,
        )
        found = []
        for t, (plan, begin, graphs_of, rows, graph, starts, columns, val) in enumerate(every):
            pattern = SymmetricPattern(starts, columns, (totals[t], totals[t]), plan.pieces)
            layout = KnownSegments(plan.sizes, begin, graph, together, t)
            if val is None and not self.normalised:
                op: CSR = StoredCSR(self, together, t, pattern, layout)
            else:
                op = CSR(pattern, val, layout=layout, symmetric=True, normalised=self.normalised)
            found.append(Gathered(op, rows, graph, begin[:-1], graphs_of, self.num_rows, together, t))
        return found


def _pointers(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """:func:`pointer` of every row."""
    ptr = np.zeros((len(counts), counts.shape[1] + 1), np.int64)
    np.cumsum(counts, axis=1, out=ptr[:, 1:])
    return ptr


class GraphStore(BlockStore):
    """A collection on a device, with node features and classes.

    `x` is [N + 1, J + D]: the feature numbers of the one-hot blocks, then the numbers, and a row of zeros for padding.
    `y` is the class of every graph, and one more for places that stay empty.
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
