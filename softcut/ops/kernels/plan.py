r"""How the rows of a sparse matrix are shared out to programs.

Rows of about one length are taken as they stand. Otherwise (power laws) rows are grouped by length, so that
those of one program end together, and long ones are cut into pieces: a first pass sums the pieces, a second
one adds up the pieces of each row, in order. No atomic additions: two runs agree to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["PIECE", "LongRows", "RowPlan", "row_plan"]

# Entries of a piece. A longer row is cut.
PIECE = 512
# Rows differ in length where the longest has more than this many times the mean, and this many entries.
_UNEVEN, _SHORT = 4, 64


@dataclass(frozen=True)
class LongRows:
    """The pieces of long rows, and how they are added up.

    Attributes
    ----------
    first, last : Tensor
        [P]: entries of each piece.
    bounds : Tensor
        [L + 1]: pieces of each long row.
    rows : Tensor
        [L]: which rows these are.
    """

    first: Tensor
    last: Tensor
    bounds: Tensor
    rows: Tensor


@dataclass(frozen=True)
class RowPlan:
    """Which entries each sum has, and where it goes.

    Attributes
    ----------
    first, last : Tensor
        [n]: entries of each sum.
    dest : Tensor or None
        [n]: the row of each sum; None: sum i is row i.
    long : LongRows or None
        Rows that are cut into pieces, and missing above.
    mean : float
        Mean number of entries of a row.
    """

    first: Tensor
    last: Tensor
    dest: Tensor | None
    long: LongRows | None
    mean: float


def row_plan(rowptr: Tensor, piece: int = PIECE) -> RowPlan:
    """The plan of a pattern; on a GPU it waits for the device, so it is made once and kept.

    >>> import torch
    >>> plan = row_plan(torch.tensor([0, 2, 4]))
    >>> plan.dest is None, plan.long is None, plan.mean
    (True, True, 2.0)
    >>> plan = row_plan(torch.tensor([0, 1, 101, 102]), piece=64)
    >>> plan.dest.tolist(), plan.long.rows.tolist(), plan.long.first.tolist(), plan.long.last.tolist()
    ([0, 2], [1], [1, 65], [65, 101])

    Parameters
    ----------
    rowptr : Tensor
        [N + 1]: where the entries of each row begin.
    piece : int
        The most entries that are summed in one go.
    """
    first, last = rowptr[:-1], rowptr[1:]
    length = last - first
    entries, longest = int(rowptr[-1]), int(length.max()) if length.numel() else 0
    mean = entries / max(1, length.numel())
    if longest <= min(piece, max(_SHORT, _UNEVEN * mean)):
        return RowPlan(first, last, None, None, mean)
    cut = length > piece
    # Rows of one power of two together, the longest first: they take longest, and the others fill the gaps.
    group = torch.frexp(length.float())[1].to(torch.int8)
    group = torch.where(cut, torch.full_like(group, -1), group)
    order = torch.argsort(group, descending=True, stable=True)
    dest = order[: length.numel() - int(cut.sum())]
    long = _cut_rows(first, last, cut.nonzero().flatten(), piece) if longest > piece else None
    return RowPlan(first[dest], last[dest], dest.to(_row_type(length.numel())), long, mean)


def _row_type(rows: int) -> torch.dtype:
    return torch.int32 if rows < 2**31 else torch.int64


def _cut_rows(first: Tensor, last: Tensor, rows: Tensor, piece: int) -> LongRows:
    begin, end = first[rows], last[rows]
    count = torch.div(end - begin + piece - 1, piece, rounding_mode="floor").long()
    bounds = torch.zeros(rows.numel() + 1, dtype=torch.long, device=rows.device)
    bounds[1:] = count.cumsum(0)
    total = int(bounds[-1])
    owner = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), count, output_size=total)
    number = torch.arange(total, device=rows.device) - bounds[:-1][owner]
    at = (begin[owner] + number * piece).to(first.dtype)
    stop = torch.minimum(at + piece, end[owner])
    return LongRows(at, stop.to(last.dtype), bounds.to(_row_type(total)), rows.to(_row_type(first.numel())))
