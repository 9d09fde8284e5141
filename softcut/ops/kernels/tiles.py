"""Tile sizes of the kernels: a small table, and measured choices that replace its entries.

The choice depends on the number of columns, the mean number of entries of a row, the precision and the device, and on
nothing that changes from run to run: the order of additions follows from it, so results repeat to the bit.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

__all__ = ["Tiles", "choice_key", "choices_file", "choose", "measured_choices", "table"]

_MOST_COLUMNS = 64


@dataclass(frozen=True)
class Tiles:
    """Sizes of one program of the sparse product.

    Attributes
    ----------
    rows, neighbours, columns : int
        A tile; powers of two.
    warps : int
        Groups of 32 threads that share it.
    along_rows : bool
        Whether the threads of a warp share out rows, or the neighbours of a row.
    stream : bool
        Whether indices are marked as read once, so that rows stay in the cache.
    ahead : bool
        Whether the indices of the next tile are read before this one is added.
    programs : int
        The most programs that keep sums of a loss; with more rows, each does several blocks of them.
    gather_scale : bool
        Whether D^-1/2 is gathered entry by entry; otherwise D^-1/2 S is made first.
    """

    rows: int
    neighbours: int
    columns: int
    warps: int
    along_rows: bool = False
    stream: bool = False
    ahead: bool = False
    programs: int = 1 << 14
    gather_scale: bool = False


def _power(x: float, low: int, high: int) -> int:
    """The power of two at or above x, kept in a range of powers of two."""
    size = low
    while size < x and size < high:
        size *= 2
    return size


def table(k: int, mean: float, dtype: torch.dtype = torch.float32) -> Tiles:
    """The choice for `k` columns and rows of `mean` entries, without measuring.

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
    return measured_choices().get(choice_key(k, mean, dtype, device, uneven)) or table(k, mean, dtype)
