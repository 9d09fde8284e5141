"""Products with a sparse matrix that stays in main memory: rows of it pass through the device in blocks."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from softcut.ops import CSRPattern
from softcut.ops.spmm import sparse_product


def _row_blocks(pattern: CSRPattern, entries: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows with at most `entries` entries each; at least one row."""
    begin, n = 0, pattern.shape[0]
    while begin < n:
        limit = int(pattern.rowptr[begin]) + entries
        end = int(torch.searchsorted(pattern.rowptr, limit, right=True)) - 1
        end = min(n, max(end, begin + 1))
        yield begin, end
        begin = end


@torch.no_grad()
def product_in_blocks(pattern: CSRPattern, s: Tensor, entries: int = 1 << 26) -> Tensor:
    """A S for a binary A, wherever it is, on the device of S.

    Parameters
    ----------
    pattern : CSRPattern
        Where A has entries.
    s : Tensor
        [N, K].
    entries : int
        Entries of A that are on the device at a time.
    """
    out = torch.empty(pattern.shape[0], s.shape[1], dtype=s.dtype, device=s.device)
    for begin, end in _row_blocks(pattern, entries):
        first, last = int(pattern.rowptr[begin]), int(pattern.rowptr[end])
        rowptr = (pattern.rowptr[begin : end + 1] - first).to(s.device)
        block = CSRPattern(rowptr, pattern.col[first:last].to(s.device), (end - begin, pattern.shape[1]))
        out[begin:end] = sparse_product(block, None, s)
    return out


@torch.no_grad()
def propagate_in_blocks(
    pattern: CSRPattern,
    x: Tensor,
    hops: int,
    device: torch.device | str,
    *,
    columns: int = 32,
    entries: int = 1 << 26,
    rows: int = 1 << 20,
) -> Tensor:
    """P^h X with P = sym-norm(A + I), for a binary A and features in main memory; the result is there, too.

    The device holds two blocks of columns of X and a block of rows of A.

    Parameters
    ----------
    pattern : CSRPattern
        Where A has entries.
    x : Tensor
        [N, F].
    hops : int
        h.
    device : torch.device
        What computes.
    columns, entries, rows : int
        Columns of X and entries of A that are on the device at a time; rows of X that are copied at a time.
    """
    n = pattern.shape[0]
    scale = (pattern.counts.to(device).to(x.dtype) + 1).rsqrt().unsqueeze(1)
    out = torch.empty_like(x)
    for first in range(0, x.shape[1], columns):
        wanted = slice(first, first + columns)
        block = torch.empty(n, len(range(x.shape[1])[wanted]), dtype=x.dtype, device=device)
        for begin in range(0, n, rows):
            # Whole rows are copied: picking columns in main memory would take longer.
            block[begin : begin + rows] = x[begin : begin + rows].to(device)[:, wanted]
        for _ in range(hops):
            block *= scale
            block = product_in_blocks(pattern, block, entries).add_(block).mul_(scale)
        for begin in range(0, n, rows):
            out[begin : begin + rows, wanted] = block[begin : begin + rows].to(x.device)
    return out
