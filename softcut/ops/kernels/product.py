"""A S on a GPU, the two sums of the cut loss with it, and their gradient."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from softcut.ops.kernels import programs
from softcut.ops.kernels.plan import RowPlan, row_plan
from softcut.ops.kernels.tiles import Tiles, choose

__all__ = ["cut_gradient", "cut_sums", "on_device", "row_product"]

# The second pass over long rows adds up few rows with many pieces each.
_LAST_PASS = Tiles(1, 32, 16, 4)
# Columns up to which their number is compiled in. Above, replicas make it large and come and go.
_COMPILED = 64
# Numbers of Y that one program of the gradient writes.
_BLOCK = 1024


def on_device(t: Tensor) -> AbstractContextManager[Any]:
    """Launches go to the device of `t`."""
    return torch.cuda.device(t.device) if t.is_cuda else nullcontext()


def _grid(count: int, k: int, tiles: Tiles, limited: bool = True) -> tuple[int, int]:
    """Programs for `count` sums, and for the blocks of their columns."""
    blocks = -(-count // tiles.rows)
    return min(tiles.programs, blocks) if limited else blocks, -(-k // tiles.columns)


class _Pass:
    """The operands that every launch of one product shares."""

    def __init__(self, x: Tensor, out: Tensor, outer: Tensor | None) -> None:
        self.x, self.out, self.outer = x, out, outer
        self.k, self.wide = x.shape[1], x.dtype == torch.float64
        self.s: Tensor | None = None
        self.degree: Tensor | None = None
        self.sums: Tensor | None = None

    def launch(
        self,
        tiles: Tiles,
        first: Tensor,
        last: Tensor,
        dest: Tensor | None,
        *,
        out: Tensor | None = None,
        x: Tensor | None = None,
        col: Tensor | None = None,
        val: Tensor | None = None,
        inner: Tensor | None = None,
        sums_at: int = 0,
    ) -> None:
        partial = out is not None  # pieces: no factor of a row, nothing to add to the sums
        with_sums = self.sums is not None and not partial
        grid = _grid(first.numel(), self.k, tiles, limited=with_sums)
        programs.sum_rows[grid](
            out if out is not None else self.out,
            self.x if x is None else x,
            col,
            val,
            inner,
            first,
            last,
            dest,
            None if partial else self.outer,
            self.s if with_sums else None,
            self.degree if with_sums else None,
            self.sums if with_sums else None,
            sums_at,
            self.sums.shape[1] if with_sums and self.sums is not None else 0,
            first.numel(),
            -(-first.numel() // (tiles.rows * grid[0])),
            self.k,
            K=self.k if self.k <= _COMPILED else 0,
            ROWS=tiles.rows,
            NEIGHBOURS=tiles.neighbours,
            COLUMNS=tiles.columns,
            ALONG_ROWS=tiles.along_rows,
            STREAM=tiles.stream,
            AHEAD=tiles.ahead and col is not None,
            WIDE=self.wide,
            num_warps=tiles.warps,
        )


def _run(
    work: _Pass, plan: RowPlan, col: Tensor, val: Tensor | None, inner: Tensor | None, tiles: Tiles
) -> None:
    rows, long = plan.first.numel(), plan.long
    last_pass = Tiles(_LAST_PASS.rows, _LAST_PASS.neighbours, tiles.columns, _LAST_PASS.warps)
    if work.s is not None:
        used = [_grid(rows, work.k, tiles)] + ([_grid(long.rows.numel(), work.k, last_pass)] if long else [])
        counts = [a * b for a, b in used]
        dtype = torch.float64 if work.wide else torch.float32
        work.sums = torch.empty(2, sum(counts), dtype=dtype, device=work.x.device)
    operands: dict[str, Any] = {"col": col, "val": val, "inner": inner}
    with on_device(work.x):
        if long is not None:
            dtype = torch.float64 if work.wide else torch.float32
            part = torch.empty(long.first.numel(), work.k, dtype=dtype, device=work.x.device)
            work.launch(tiles, long.first, long.last, None, out=part, **operands)
        if rows:
            work.launch(tiles, plan.first, plan.last, plan.dest, **operands)
        if long is not None:
            at = counts[0] if work.s is not None else 0
            work.launch(last_pass, long.bounds[:-1], long.bounds[1:], long.rows, x=part, sums_at=at)


def row_product(
    col: Tensor,
    val: Tensor | None,
    x: Tensor,
    scale: Tensor | None,
    *,
    rowptr: Tensor | None = None,
    plan: RowPlan | None = None,
    tiles: Tiles | None = None,
) -> Tensor:
    """diag(scale) A diag(scale) X for a contiguous X [M, K]; `val` and `scale` None: ones.

    A has its entries in columns `col` and its rows by `rowptr` or by `plan`. Sums are accumulated in float32, or in
    float64 for float64.
    """
    if plan is None:
        assert rowptr is not None
        plan = row_plan(rowptr)
    tiles = tiles or choose(x.shape[1], plan.mean, x.dtype, x.device, plan.dest is not None)
    rows = plan.first.numel() + (0 if plan.long is None else plan.long.rows.numel())
    inner = scale
    if scale is not None and not tiles.gather_scale:
        x, inner = scaled_rows(x, scale), None
    out = torch.empty(rows, x.shape[1], dtype=x.dtype, device=x.device)
    _run(_Pass(x, out, scale), plan, col, val, inner, tiles)
    return out


def scaled_rows(x: Tensor, scale: Tensor) -> Tensor:
    """diag(scale) X in the precision of X, without a temporary of another precision."""
    return torch.mul(x, scale.unsqueeze(-1), out=torch.empty_like(x))


def cut_sums(
    col: Tensor,
    val: Tensor | None,
    s: Tensor,
    scale: Tensor | None,
    degree: Tensor,
    *,
    plan: RowPlan,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """sum(S * A~S), sum(degree * S * S) and Y with A~ S = diag(scale) Y, A~ = diag(scale) A diag(scale), in one pass.

    The sums are float32 (float64 for float64) whatever the precision of S, each a tensor [1].
    """
    tiles = tiles or choose(s.shape[1], plan.mean, s.dtype, s.device, plan.dest is not None)
    x, inner = s, scale
    if scale is not None and not tiles.gather_scale:
        x, inner = scaled_rows(s, scale), None
    out = torch.empty_like(s)
    work = _Pass(x, out, scale)
    work.s, work.degree = s, degree
    _run(work, plan, col, val, inner, tiles)
    assert work.sums is not None
    total = work.sums.sum(1, keepdim=True)
    return total[0], total[1], out


def cut_gradient(
    y: Tensor,
    s: Tensor,
    scale: Tensor | None,
    degree: Tensor,
    g_num: Tensor,
    g_den: Tensor,
    *,
    in_place: bool = False,
) -> Tensor:
    """2 g_num scale Y + 2 g_den degree S of contiguous Y and S [N, K], in one pass; `in_place`: written over `y`."""
    out = y if in_place else torch.empty_like(s)
    n, k = s.shape
    columns = 1 << (k - 1).bit_length()
    rows = max(1, _BLOCK // columns)
    with on_device(s):
        programs.add_scaled[(-(-n // rows),)](
            out, y, s, scale, degree, g_num.contiguous(), g_den.contiguous(), n,
            K=k, ROWS=rows, COLUMNS=columns, WIDE=s.dtype == torch.float64, num_warps=4,
        )  # fmt: skip
    return out
