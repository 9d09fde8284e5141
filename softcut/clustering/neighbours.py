"""The feature graph: each node joined to the nodes with the most similar features.

All pairs are compared where there are few. Of many nodes, each is compared with the nodes of its own cell (a k-means of
the rows) and of the cells nearest to it, some thousands of candidates: one matrix product per cell, on any device.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from softcut.clustering.features import unit_rows
from softcut.clustering.kmeans import group_sums
from softcut.clustering.sampling import LARGE
from softcut.ops import CSR, CSRPattern
from softcut.ops.batching import Segments

__all__ = ["CANDIDATES", "cell_neighbours", "exact_neighbours", "feature_graph"]

# Rows that each row is compared with in an approximate search.
CANDIDATES = {"cpu": 1 << 13, "cuda": 1 << 16}

_BLOCK = 1 << 24  # similarities held at a time, on a CPU; a GPU takes larger blocks
_GROUP = 32  # columns of which the largest is found first
_ROWS_PER_CELL = 32  # rows that the centre of a cell is learned from
_ROUNDS = 8  # of that k-means


def exact_neighbours(z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k most similar other rows by cosine, in blocks so that no N x N matrix exists.

    >>> import torch
    >>> similarity, index = exact_neighbours(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]), 1)
    >>> index.flatten().tolist()
    [1, 0, 1]
    """
    z = unit_rows(z)
    n = z.shape[0]
    k = min(k, n - 1)
    step = max(1, _block(z) // max(1, n))
    values, indices = [], []
    for start in range(0, n, step):
        block = z[start : start + step] @ z.mT
        rows = torch.arange(block.shape[0], device=z.device)
        block[rows, rows + start] = -torch.inf
        value, index = block.topk(k, dim=1) if n <= LARGE else _largest(block, k)
        values.append(value)
        indices.append(index)
    return torch.cat(values), torch.cat(indices)


def _block(z: Tensor) -> int:
    return 16 * _BLOCK if z.is_cuda else _BLOCK


def _largest(block: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row and their columns.

    Long rows in two steps: the k groups of columns with the largest maxima hold the k largest numbers.
    """
    rows, columns = block.shape
    groups = columns // _GROUP
    if groups < 4 * k:
        found = block.topk(k, dim=1)
        return found.values, found.indices
    even = groups * _GROUP
    best = block[:, :even].view(rows, groups, _GROUP).amax(2).topk(k, dim=1, sorted=False).indices
    inside = torch.arange(_GROUP, device=block.device)
    rest = torch.arange(even, columns, device=block.device).expand(rows, -1)
    place = torch.cat([(best.unsqueeze(-1) * _GROUP + inside).flatten(1), rest], dim=1)
    found = block.gather(1, place).topk(k, dim=1)
    return found.values, place.gather(1, found.indices)


def cell_neighbours(
    z: Tensor, k: int, *, candidates: int | None = None, random_state: int = 0
) -> tuple[Tensor, Tensor]:
    """The k most similar other rows by cosine, among those in the nearest cells: most of the true ones.

    >>> import torch
    >>> z = torch.randn(2000, 4, generator=torch.Generator().manual_seed(0))
    >>> _, found = cell_neighbours(z, 5, candidates=500)
    >>> _, exact = exact_neighbours(z, 5)
    >>> shared = sum(len(set(a) & set(b)) for a, b in zip(found.tolist(), exact.tolist()))
    >>> shared / exact.numel() > 0.95
    True

    Parameters
    ----------
    z : Tensor
        [N, F].
    k : int
        Neighbours of each row.
    candidates : int, optional
        About how many rows each one is compared with; :data:`CANDIDATES` by default. All rows are compared where
        there are no more than that.
    random_state : int
        Seed of the cells.
    """
    n = z.shape[0]
    wanted = CANDIDATES.get(z.device.type, CANDIDATES["cpu"]) if candidates is None else candidates
    wanted = max(wanted, 4 * k)
    if n <= wanted:
        return exact_neighbours(z, k)
    z = unit_rows(z)
    cells = _Cells(z, min(n, 2 * math.isqrt(n)), random_state)
    sorted_rows = z[cells.order]
    value = z.new_empty(n, k)
    index = torch.empty(n, k, dtype=torch.long, device=z.device)
    for start, end, near in cells.searches(wanted):
        step = max(1, _block(z) // near.numel())
        others = sorted_rows[near].mT
        for first in range(start, end, step):
            last = min(end, first + step)
            block = sorted_rows[first:last] @ others
            rows = torch.arange(last - first, device=z.device)
            block[rows, rows + first - start] = -torch.inf  # a cell is the first one near itself
            found, place = _largest(block, k)
            value[first:last], index[first:last] = found, cells.order[near[place]]
    back = torch.argsort(cells.order)
    return value[back], index[back]


class _Cells:
    """Rows sorted by the nearest of some centres; a cell with many rows is cut into several.

    Attributes
    ----------
    order : Tensor
        [N], the rows cell by cell.
    starts, sizes : Tensor
        [cells], where each begins in that order and how many rows it has; on the CPU.
    centres : Tensor
        [cells, F].
    """

    def __init__(self, z: Tensor, count: int, random_state: int) -> None:
        n = z.shape[0]
        generator = torch.Generator().manual_seed(random_state)
        sample = z[torch.randperm(n, generator=generator)[: _ROWS_PER_CELL * count].to(z.device)]
        centres = sample[:count].clone()
        for _ in range(_ROUNDS):
            counts, sums = group_sums(sample, _nearest(sample, centres), count)
            centres = torch.where(counts.unsqueeze(1) > 0, unit_rows(sums), centres)
        label = _nearest(z, centres)
        self.order = torch.argsort(label, stable=True)
        sizes = torch.bincount(label, minlength=count).cpu()
        pieces = -(-sizes // (2 * -(-n // count)))  # of at most twice the mean size
        own = torch.repeat_interleave(torch.arange(count), pieces)
        number = torch.arange(len(own)) - torch.repeat_interleave(pieces.cumsum(0) - pieces, pieces)
        first = (sizes.cumsum(0) - sizes)[own]
        self.starts = first + number * sizes[own] // pieces[own]
        self.sizes = first + (number + 1) * sizes[own] // pieces[own] - self.starts
        self.centres = centres[own.to(z.device)]

    def searches(self, wanted: int) -> Iterator[tuple[int, int, Tensor]]:
        """For each cell where it begins and ends, and the places of about `wanted` rows near it, its own first."""
        count = len(self.starts)
        device = self.order.device
        mean = self.order.numel() / count
        similar = self.centres @ self.centres.mT
        similar.fill_diagonal_(torch.inf)
        near = similar.topk(min(count, math.ceil(wanted / mean)), dim=1).indices
        totals = self.sizes[near.cpu()].sum(1).tolist()
        starts, sizes = self.starts.to(device), self.sizes.to(device)
        for i, (first, size) in enumerate(zip(self.starts.tolist(), self.sizes.tolist(), strict=True)):
            length = sizes[near[i]]
            shift = starts[near[i]] - (length.cumsum(0) - length)
            place = torch.repeat_interleave(shift, length, output_size=totals[i])
            yield first, first + size, place + torch.arange(totals[i], device=device)


def _nearest(z: Tensor, centres: Tensor) -> Tensor:
    step = max(1, _block(z) // centres.shape[0])
    return torch.cat([(part @ centres.mT).argmax(1) for part in z.split(step)])


def feature_graph(
    z: Tensor,
    k: int = 15,
    *,
    ptr: Sequence[int] | None = None,
    approximate: bool = False,
    random_state: int = 0,
) -> CSR:
    """The k-nearest-neighbour graph of the rows of Z: cosine weights clipped at 0, symmetrised with max.

    >>> import torch
    >>> z = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    >>> feature_graph(z, k=1).symmetric
    True
    >>> feature_graph(z, k=3, ptr=[0, 2, 4]).to_dense()[:2, 2:].any().item()   # graphs of a batch stay apart
    False

    Parameters
    ----------
    z : Tensor
        [N, F].
    k : int
        Neighbours of each node.
    ptr : sequence of int, optional
        Where each graph of a batch begins: neighbours are searched within a node's own graph.
    approximate : bool
        Compare each node with those of the nearest cells (:func:`cell_neighbours`) instead of with all.
    random_state : int
        Seed of the cells.
    """
    n = z.shape[0]
    none = torch.zeros(0, dtype=torch.long, device=z.device)
    rows, columns, weights = [none], [none], [z.new_zeros(0)]
    for start, end in itertools.pairwise([0, n] if ptr is None else ptr):
        part = z[start:end]
        if part.shape[0] < 2 or part.shape[1] == 0:
            continue
        if approximate:
            similarity, index = cell_neighbours(part, k, random_state=random_state)
        else:
            similarity, index = exact_neighbours(part, k)
        rows.append(torch.arange(start, end, device=z.device).repeat_interleave(index.shape[1]))
        columns.append(index.flatten() + start)
        weights.append(similarity.clamp(min=0).flatten())
    pattern, val = _symmetric(torch.cat(rows), torch.cat(columns), torch.cat(weights), n)
    layout = Segments(n, None if ptr is None else torch.as_tensor(ptr, dtype=torch.long))
    return CSR(pattern, val, layout=layout.to(z.device), symmetric=True)


def _symmetric(row: Tensor, column: Tensor, weight: Tensor, n: int) -> tuple[CSRPattern, Tensor]:
    """max(W, W') of entries that occur once each, without its zeros."""
    kept = weight > 0
    row, column, weight = row[kept], column[kept], weight[kept]
    place, order = torch.sort(torch.cat([row * n + column, column * n + row]), stable=True)
    weight = torch.cat([weight, weight])[order]
    if place.numel():
        twice = place[1:] == place[:-1]  # the entry was found from both of its ends
        weight[:-1] = torch.where(twice, torch.maximum(weight[:-1], weight[1:]), weight[:-1])
        first = torch.cat([twice.new_ones(1), ~twice])
        place, weight = place[first], weight[first]
    pattern, _ = CSRPattern.from_coo(place // n, place % n, (n, n))
    return pattern, weight
