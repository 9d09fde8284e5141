"""Measuring tile sizes of the GPU kernels, and keeping the best for later runs of softcut on this machine.

from gpu_tuning import tune                             # in this folder
tune(op.pattern.plan, op.pattern.col, k=16)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from softcut.errors import ParameterError
from softcut.files import atomic_json
from softcut.ops.kernels.plan import RowPlan, Tiles, choice_key, choices_file, choose, measured_choices, table

# Numbers of a tile for each warp: 128 registers of every thread.
_MOST_NUMBERS = 4096


def candidates(k: int, mean: float, dtype: torch.dtype = torch.float32) -> Iterator[Tiles]:
    """Tile sizes worth measuring, the table's choice first."""
    first = table(k, dtype)
    tilings = [first]
    for warps, along, rows, neighbours in (
        (1, False, 1, 16), (1, False, 1, 32), (2, False, 2, 32), (4, False, 4, 16), (4, False, 8, 8), (4, False, 8, 16),
        (4, False, 16, 8), (8, False, 16, 8), (2, True, 16, 8), (4, True, 32, 2), (4, True, 32, 4), (4, True, 32, 8),
        (4, True, 64, 4), (4, True, 64, 8), (4, True, 128, 4), (8, True, 64, 4),
    ):  # fmt: skip
        if rows * neighbours * first.columns <= _MOST_NUMBERS * warps:
            tilings.append(Tiles(rows, neighbours, first.columns, warps, along, stream=True))
    tilings += [replace(t, ahead=True) for t in tilings if t.neighbours <= 8 or t == first]
    tilings += [replace(t, stream=False) for t in tilings if t.neighbours <= 4 or t == first]
    tilings.append(replace(first, gather_scale=True))
    yield from dict.fromkeys(tilings)


def fastest(choices: Iterator[Tiles], seconds: Callable[[Tiles], float]) -> tuple[Tiles, dict[Tiles, float]]:
    """The choice that took the least time, and the times of all that could be run."""
    times: dict[Tiles, float] = {}
    for tiles in choices:
        try:
            times[tiles] = seconds(tiles)
        except Exception as error:  # a tile that needs more registers or memory than the device has
            if isinstance(error, torch.cuda.OutOfMemoryError):
                raise
    if not times:
        raise ParameterError("choices: none of the tile sizes could be run on this device.")
    return min(times, key=lambda tiles: times[tiles]), times


def remember(
    k: int, mean: float, dtype: torch.dtype, device: torch.device, tiles: Tiles, uneven: bool = False
) -> Path:
    """Keep a measured choice for later runs of any process."""
    known = {key: asdict(value) for key, value in measured_choices().items()}
    known[choice_key(k, mean, dtype, device, uneven)] = asdict(tiles)
    path = atomic_json(choices_file(), dict(sorted(known.items())))
    measured_choices.cache_clear()
    choose.cache_clear()
    return path


def tune(plan: RowPlan, col: Tensor, k: int, dtype: torch.dtype = torch.float32, rounds: int = 5) -> Tiles:
    """Measure the sparse product of a graph on its GPU with `k` columns, and keep the best tile sizes.

    Later runs of any process use them for graphs of about the same mean degree and number of columns. The choice
    is read when a process first multiplies, so it never changes while one runs.

    Parameters
    ----------
    plan, col : RowPlan, Tensor
        Of the pattern: ``pattern.plan`` and ``pattern.col``.
    k : int
        Columns.
    dtype : torch.dtype
        Of the dense matrix.
    rounds : int
        How often each choice is measured; the fastest round counts.
    """
    if not col.is_cuda:
        raise ParameterError("col must be on a GPU: tile sizes are measured where they are used.")
    from softcut.ops.kernels.product import row_product

    n = int(col.max()) + 1
    x = torch.rand(n, k, device=col.device).to(dtype)
    scale = torch.rand(max(n, plan.first.numel()), device=col.device)

    def seconds(tiles: Tiles) -> float:
        row_product(col, None, x, scale, plan=plan, tiles=tiles)
        times = []
        for _ in range(rounds):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            row_product(col, None, x, scale, plan=plan, tiles=tiles)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        return min(times)

    best, _ = fastest(candidates(k, plan.mean, dtype), seconds)
    remember(k, plan.mean, dtype, col.device, best, plan.dest is not None)
    return best
