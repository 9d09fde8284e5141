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
    repeat : int
        Blocks of rows that one program does one after another.
    gather_scale : bool
        Whether D^-1/2 is gathered entry by entry; otherwise D^-1/2 S is made first.
    """

    rows: int
    neighbours: int
    columns: int
    warps: int
    along_rows: bool = False
    stream: bool = True
    repeat: int = 1
    gather_scale: bool = False


def _power(x: float, low: int, high: int) -> int:
    """The power of two at or above x, kept in a range of powers of two."""
    size = low
    while size < x and size < high:
        size *= 2
    return size


def table(k: int, mean: float, dtype: torch.dtype = torch.float32) -> Tiles:
    """The choice for `k` columns and rows of `mean` entries, without measuring.

    >>> import torch
    >>> table(16, 32.0)
    Tiles(rows=4, neighbours=16, columns=16, warps=4, along_rows=False, stream=True, repeat=4, gather_scale=False)

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
    neighbours = _power(mean / 2, 4, 32 if columns < 64 else 16)
    # A warp reads 16 bytes with each thread: so many rows of the tile at once.
    width = 16 // torch.empty(0, dtype=dtype).element_size()
    together = max(1, 32 * width // columns)
    neighbours = max(neighbours, min(together, 16))
    warps = 4
    rows = max(warps, _power(1024 / (neighbours * columns), 1, 32))
    return Tiles(rows, neighbours, columns, warps, repeat=max(1, 16 // rows))


def _key(k: int, mean: float, dtype: torch.dtype, device: str) -> str:
    columns, entries = _power(k, 1, 1 << 20), _power(mean, 1, 1 << 20)
    return f"{device} {str(dtype).removeprefix('torch.')} columns {columns} mean {entries}"


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
def choose(k: int, mean: float, dtype: torch.dtype, device: torch.device) -> Tiles:
    """The measured choice for this device where there is one, otherwise the table's.

    >>> import torch
    >>> choose(16, 32.0, torch.float32, torch.device("cpu")).columns
    16
    """
    return _measured().get(_key(k, mean, dtype, device_label(device))) or table(k, mean, dtype)


def remember(k: int, mean: float, dtype: torch.dtype, device: torch.device, tiles: Tiles) -> Path:
    """Keep a measured choice for later runs of any process."""
    known = {key: asdict(value) for key, value in _measured().items()}
    known[_key(k, mean, dtype, device_label(device))] = asdict(tiles)
    path = atomic_json(choices_file(), dict(sorted(known.items())))
    _measured.cache_clear()
    choose.cache_clear()
    return path
