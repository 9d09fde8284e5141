r"""How the rows of a sparse matrix are shared out to GPU programs, and the tile sizes of these programs.

Rows of about one length are taken as they stand. Otherwise (power laws) rows are grouped by length, so that
those of one program end together, and long ones are cut into pieces: a first pass sums the pieces, a second
one adds up the pieces of each row, in order. No atomic additions: two runs agree to the bit. Tile sizes depend on the
number of columns, the mean number of entries of a row, the precision and the device, and on nothing that changes from
run to run, because the order of additions follows from them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softcut.ops.numerics import counts_to_ptr, index_type

# Entries of a piece. A longer row is cut.
PIECE = 512
# Rows differ in length where the longest has more than this many times the mean, and this many entries.
_UNEVEN, _SHORT = 4, 64
_MOST_COLUMNS = 64


class LongRows(NamedTuple):
    """The pieces of long rows, and how they are added up."""

    first: Tensor  # [P]: entries of each piece
    last: Tensor
    bounds: Tensor  # [L + 1]: pieces of each long row
    rows: Tensor  # [L]: which rows these are


class RowPlan(NamedTuple):
    """Which entries each sum has, and where it goes."""

    first: Tensor  # [n]: entries of each sum
    last: Tensor
    dest: Tensor | None  # [n]: the row of each sum; None: sum i is row i
    long: LongRows | None  # rows that are cut into pieces, and missing above
    mean: float  # entries of a row


def row_plan(rowptr: Tensor, piece: int = PIECE) -> RowPlan:
    """The plan of a pattern, with at most `piece` entries in one sum; made once, since it waits for a GPU."""
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
    return RowPlan(first[dest], last[dest], dest.to(index_type(length.numel())), long, mean)


def _cut_rows(first: Tensor, last: Tensor, rows: Tensor, piece: int) -> LongRows:
    begin, end = first[rows], last[rows]
    count = torch.div(end - begin + piece - 1, piece, rounding_mode="floor").long()
    bounds = counts_to_ptr(count)
    total = int(bounds[-1])
    owner = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), count, output_size=total)
    number = torch.arange(total, device=rows.device) - bounds[:-1][owner]
    at = (begin[owner] + number * piece).to(first.dtype)
    stop = torch.minimum(at + piece, end[owner])
    return LongRows(at, stop.to(last.dtype), bounds.to(index_type(total)), rows.to(index_type(first.numel())))


@dataclass(frozen=True)
class Tiles:
    """Sizes of one program of the sparse product."""

    rows: int  # of a tile, as the next two; powers of two
    neighbours: int
    columns: int
    warps: int  # groups of 32 threads that share a tile
    along_rows: bool = False  # whether the threads of a warp share out rows, or the neighbours of a row
    stream: bool = False  # whether indices are marked as read once, so that rows stay in the cache
    ahead: bool = False  # whether the indices of the next tile are read before this one is added
    programs: int = 1 << 14  # the most that keep sums of a loss; with more rows, each does several blocks
    gather_scale: bool = False  # whether D^-1/2 is gathered entry by entry; otherwise D^-1/2 S is made first


def _power(x: float, low: int, high: int) -> int:
    """The power of two at or above x, kept in a range of powers of two."""
    size = low
    while size < x and size < high:
        size *= 2
    return size


def table(k: int, dtype: torch.dtype = torch.float32) -> Tiles:
    """The choice for `k` columns, without measuring.

    Fastest, or next to it, in the sweep of ``benchmarks/gpu_kernels.py`` on an H200.
    """
    columns = _power(k, 4, _MOST_COLUMNS)
    size = torch.empty(0, dtype=dtype).element_size()
    row = columns * size  # bytes
    if row <= 16:  # few bytes per neighbour: many of them at a time
        return Tiles(8, 16, columns, warps=4, stream=True)
    if row <= 64:  # a thread per row and a few of its neighbours, their indices read ahead
        return Tiles(64 if size == 2 else 32, 4, columns, warps=4, along_rows=True, ahead=True)
    return Tiles(1, 16, columns, warps=1)


def choice_key(k: int, mean: float, dtype: torch.dtype, device: torch.device, uneven: bool) -> str:
    """The name of a choice in the file of measured ones."""
    label = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    columns, entries = _power(k, 1, 1 << 20), _power(mean, 1, 1 << 20)
    name = f"{label} {str(dtype).removeprefix('torch.')} columns {columns} mean {entries}"
    return f"{name} uneven" if uneven else name


def choices_file() -> Path:
    """Where measured choices are kept: ``$XDG_CACHE_HOME/softcut/kernels.json``, by default under ``~/.cache``."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "softcut" / "kernels.json"


@cache
def measured_choices() -> dict[str, Tiles]:
    """Choices that ``benchmarks/gpu_tuning.py`` measured on this machine; an unreadable file counts as none."""
    try:
        known: dict[str, Any] = json.loads(choices_file().read_text(encoding="utf-8"))
        return {key: Tiles(**value) for key, value in known.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


@cache
def choose(k: int, mean: float, dtype: torch.dtype, device: torch.device, uneven: bool = False) -> Tiles:
    """The measured choice for this device where there is one, otherwise the table's.

    `uneven` says whether rows differ much in length.
    """
    return measured_choices().get(choice_key(k, mean, dtype, device, uneven)) or table(k, dtype)
