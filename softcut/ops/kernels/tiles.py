"""Tile sizes of the kernels: a small table, and measured choices that replace its entries.

The choice depends on the number of columns, the mean number of entries of a row, the precision and the device, and on
nothing that changes from run to run: the order of additions follows from it, so results repeat to the bit.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from softcut.files import atomic_json

__all__ = ["Tiles", "choices_file", "choose", "device_label", "remember", "table"]

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

    >>> import torch
    >>> table(16, 32.0)
    Tiles(rows=32, neighbours=4, columns=16, warps=4, along_rows=True, stream=False, ahead=True, ...)

    Parameters
    ----------
    k : int
        Columns.
    mean : float
        Mean number of entries of a row.
    dtype : torch.dtype
        Of the dense matrix.
    """
    columns = _power(k, 4, _MOST_COLUMNS)
    size = torch.empty(0, dtype=dtype).element_size()
    row = columns * size  # bytes
    if row <= 16:  # few bytes per neighbour: many of them at a time
        return Tiles(8, 16, columns, warps=4, stream=True)
    if row <= 64:  # a thread per row and a few of its neighbours, their indices read ahead
        return Tiles(64 if size == 2 else 32, 4, columns, warps=4, along_rows=True, ahead=True)
    return Tiles(1, 16, columns, warps=1)


def _key(k: int, mean: float, dtype: torch.dtype, device: str, uneven: bool) -> str:
    columns, entries = _power(k, 1, 1 << 20), _power(mean, 1, 1 << 20)
    return f"{device} {str(dtype).removeprefix('torch.')} columns {columns} mean {entries}" + (
        " uneven" if uneven else ""
    )


def choices_file() -> Path:
    """Where measured choices are kept: ``$XDG_CACHE_HOME/softcut/kernels.json``, by default under ``~/.cache``.

    >>> choices_file().name
    'kernels.json'
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (
        (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache")
        / "softcut"
        / "kernels.json"
    )


@cache
def _measured() -> dict[str, Tiles]:
    """Measured choices; an unreadable file counts as none."""
    try:
        found: dict[str, Any] = json.loads(choices_file().read_text(encoding="utf-8"))
        return {key: Tiles(**value) for key, value in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def device_label(device: torch.device) -> str:
    """The name of a device in the file of choices.

    >>> import torch
    >>> device_label(torch.device("cpu"))
    'cpu'
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@cache
def choose(k: int, mean: float, dtype: torch.dtype, device: torch.device, uneven: bool = False) -> Tiles:
    """The measured choice for this device where there is one, otherwise the table's.

    >>> import torch
    >>> choose(16, 32.0, torch.float32, torch.device("cpu")).columns
    16

    Parameters
    ----------
    k, mean, dtype
        As for :func:`table`.
    device : torch.device
        Where the product is made.
    uneven : bool
        Whether rows differ much in length.
    """
    return _measured().get(_key(k, mean, dtype, device_label(device), uneven)) or table(k, mean, dtype)


def remember(
    k: int, mean: float, dtype: torch.dtype, device: torch.device, tiles: Tiles, uneven: bool = False
) -> Path:
    """Keep a measured choice for later runs of any process."""
    known = {key: asdict(value) for key, value in _measured().items()}
    known[_key(k, mean, dtype, device_label(device), uneven)] = asdict(tiles)
    path = atomic_json(choices_file(), dict(sorted(known.items())))
    _measured.cache_clear()
    choose.cache_clear()
    return path
