"""A symmetric CSR pattern from edges that come in chunks: the memory is that of the result and of one chunk."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from softcut.ops import CSRPattern

__all__ = ["pattern_of_chunks"]

# Entries that are sorted at a time while repeated ones are looked for.
_BLOCK = {"cpu": 1 << 23, "cuda": 1 << 26}


def pattern_of_chunks(chunks: Iterable[tuple[Tensor, Tensor]], nodes: int) -> CSRPattern:
    """Where the adjacency has entries: both directions of every edge, repeated edges and self-loops left out.

    >>> import torch
    >>> ends = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2])
    >>> pattern = pattern_of_chunks([ends], nodes=3)
    >>> pattern.rowptr.tolist(), pattern.col.tolist()
    ([0, 1, 3, 4], [1, 0, 2, 1])

    Parameters
    ----------
    chunks : iterable of pairs of tensors
        The two ends of some edges each, whole numbers on one device. Read twice (to count and to place), so it
        must give the same edges every time.
    nodes : int
        N.
    """
    first = next(iter(chunks), None)
    device = torch.device("cpu") if first is None else first[0].device
    del first
    count = torch.zeros(nodes, dtype=torch.long, device=device)
    for chunk in chunks:
        for end in _without_loops(*chunk):
            count += torch.bincount(end, minlength=nodes)
    rowptr = torch.zeros(nodes + 1, dtype=torch.long, device=device)
    torch.cumsum(count, 0, out=rowptr[1:])
    index = torch.int32 if max(nodes, int(rowptr[-1])) < 2**31 else torch.int64
    col = torch.empty(int(rowptr[-1]), dtype=index, device=device)
    _place(chunks, rowptr[:-1].clone(), col)
    rowptr, total = _compact(rowptr, col, nodes)
    return CSRPattern(rowptr.to(index), col[:total], (nodes, nodes))


def _without_loops(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    u, v = u.long(), v.long()
    loop = u == v
    return (u[~loop], v[~loop]) if bool(loop.any()) else (u, v)


def _place(chunks: Iterable[tuple[Tensor, Tensor]], free: Tensor, col: Tensor) -> None:
    """Write the columns of every chunk to where their rows have room; `free` is the next place of every row."""
    nodes = len(free)
    for chunk in chunks:
        u, v = _without_loops(*chunk)
        for row, other in ((u, v), (v, u)):
            row, order = torch.sort(row)
            count = torch.bincount(row, minlength=nodes)
            # The first of a row's entries goes to its next free place, the second one behind it, ...
            shift = free - (count.cumsum(0) - count)
            place = shift[row] + torch.arange(len(row), device=row.device)
            col[place] = other[order].to(col.dtype)
            free += count


def _compact(rowptr: Tensor, col: Tensor, nodes: int) -> tuple[Tensor, int]:
    """Sort every row and drop repeated columns, block by block and in place; the new pointer and its end."""
    limit = _BLOCK.get(col.device.type, _BLOCK["cpu"])
    counts = torch.empty(nodes, dtype=torch.long, device=col.device)
    begin, written = 0, 0
    while begin < nodes:
        start = int(rowptr[begin])
        end = int(torch.searchsorted(rowptr, start + limit, right=True)) - 1
        end = min(nodes, max(end, begin + 1))
        own = rowptr[begin : end + 1] - start
        row = torch.repeat_interleave(
            torch.arange(end - begin, device=col.device), own[1:] - own[:-1], output_size=int(own[-1])
        )
        key = torch.sort(row * nodes + col[start : start + len(row)]).values
        fresh = torch.ones(len(key), dtype=torch.bool, device=col.device)
        fresh[1:] = key[1:] != key[:-1]
        key = key[fresh]
        counts[begin:end] = torch.bincount(key // nodes, minlength=end - begin)
        col[written : written + len(key)] = (key % nodes).to(col.dtype)
        written += len(key)
        begin = end
    compact = torch.zeros_like(rowptr)
    torch.cumsum(counts, 0, out=compact[1:])
    return compact, written
