"""Products on a GPU: A S, with the sums and the gradient of the cut loss; A'B and A M per graph or per replica."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softcut.ops.kernels import programs
from softcut.ops.kernels.plan import RowPlan, Tiles, choose

# The second pass over long rows adds up few rows with many pieces each.
_LAST_PASS = Tiles(1, 32, 16, 4)
# Up to this many columns their number is compiled in; above, it changes with the number of replicas.
_COMPILED = 64
# Numbers of Y that one program of the gradient writes.
_BLOCK = 1024
# The most rows of a graph that one program goes through; graphs up to this size need no second pass.
CHUNK = 512
_STEP = 32
# Rows of one replica that a program goes through (fewer where that leaves programs idle), and at a time.
_REPLICA_CHUNKS, _REPLICA_STEP = (2048, 256), 64
_MANY_PROGRAMS = 1024


def _on_device(t: Tensor) -> AbstractContextManager[Any]:
    """Launches go to the device of `t`."""
    return torch.cuda.device(t.device) if t.is_cuda else nullcontext()


def _grid(count: int, k: int, tiles: Tiles, limited: bool = True) -> tuple[int, int]:
    """Programs for `count` sums, and for the blocks of their columns."""
    blocks = -(-count // tiles.rows)
    return min(tiles.programs, blocks) if limited else blocks, -(-k // tiles.columns)


def _sum_rows(
    tiles: Tiles,
    out: Tensor,
    x: Tensor,
    bounds: tuple[Tensor, Tensor, Tensor | None],
    entries: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None),
    outer: Tensor | None = None,
    loss: tuple[Tensor, Tensor, Tensor] | None = None,
    sums_at: int = 0,
) -> None:
    """One launch of ``programs.sum_rows``, which names the operands; `loss` is its S, degrees and sums."""
    count, k = bounds[0].numel(), x.shape[1]
    grid = _grid(count, k, tiles, limited=loss is not None)
    programs.sum_rows[grid](
        out, x, *entries, *bounds, outer, *(loss or (None, None, None)),
        sums_at, 0 if loss is None else loss[2].shape[1], count, -(-count // (tiles.rows * grid[0])), k,
        K=k if k <= _COMPILED else 0, ROWS=tiles.rows, NEIGHBOURS=tiles.neighbours, COLUMNS=tiles.columns,
        ALONG_ROWS=tiles.along_rows, STREAM=tiles.stream, AHEAD=tiles.ahead and entries[0] is not None,
        WIDE=x.dtype == torch.float64, num_warps=tiles.warps,
    )  # fmt: skip


def row_product(
    col: Tensor,
    val: Tensor | None,
    x: Tensor,
    scale: Tensor | None,
    plan: RowPlan,
    tiles: Tiles | None = None,
    degree: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """diag(scale) A diag(scale) X for a contiguous X [M, K], and None; `val` and `scale` None: ones.

    A has its entries in columns `col` and its rows by `plan`. Sums are accumulated in float32, or in float64 for
    float64. With `degree`: A diag(scale) X, and the two sums of the cut loss of each program [2, .].
    """
    k, long, rows = x.shape[1], plan.long, plan.first.numel()
    tiles = tiles or choose(k, plan.mean, x.dtype, x.device, plan.dest is not None)
    last_pass = replace(_LAST_PASS, columns=tiles.columns)
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    long_rows = 0 if long is None else long.rows.numel()
    out = torch.empty(rows + long_rows, k, dtype=x.dtype, device=x.device)
    loss, sums_at = None, math.prod(_grid(rows, k, tiles))
    if degree is not None:
        programs_used = sums_at + math.prod(_grid(long_rows, k, last_pass))
        loss = x, degree, torch.empty(2, programs_used, dtype=dtype, device=x.device)
    inner = scale
    if scale is not None and not tiles.gather_scale:  # without a temporary of another precision
        x, inner = torch.mul(x, scale.unsqueeze(-1), out=torch.empty_like(x)), None
    with _on_device(x):
        if long is not None:
            part = torch.empty(long.first.numel(), k, dtype=dtype, device=x.device)
            _sum_rows(tiles, part, x, (long.first, long.last, None), (col, val, inner))
        if rows:
            _sum_rows(tiles, out, x, plan[:3], (col, val, inner), scale, loss)
        if long is not None:
            bounds = (long.bounds[:-1], long.bounds[1:], long.rows)
            _sum_rows(last_pass, out, part, bounds, outer=scale, loss=loss, sums_at=sums_at)
    return out, None if loss is None else loss[2]


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
    y, sums = row_product(col, val, s, scale, plan, tiles, degree)
    assert sums is not None
    total = sums.sum(1, keepdim=True)
    return total[0], total[1], y


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
    with _on_device(s):
        programs.add_scaled[(-(-n // rows),)](
            out, y, s, scale, degree, g_num.contiguous(), g_den.contiguous(), n,
            K=k, ROWS=rows, COLUMNS=columns, WIDE=s.dtype == torch.float64, num_warps=4,
        )  # fmt: skip
    return out


def _block(size: int, most: int = 64) -> int:
    """A tile of a matrix unit: a power of two, 16 at least."""
    return min(most, max(16, 1 << (size - 1).bit_length()))


def gram(
    a: Tensor, b: Tensor, owner: Tensor | None = None, bounds: Tensor | None = None, ptr: Tensor | None = None
) -> Tensor:
    """a' b of the rows of every chunk and replica: float32 [chunks, R, K, F] for a [N, R, K] and b [N, R, F].

    `owner` is the graph of each chunk, `bounds` the first chunk of each graph (None: each graph is one chunk), and
    `ptr` [B + 1] the first row of each graph; without them, all rows are one graph. In float32 or less.
    """
    n, replicas, k = a.shape
    f = b.shape[2]
    length, step = CHUNK, _STEP
    if owner is None:
        length, step = _REPLICA_CHUNKS[n * replicas < _REPLICA_CHUNKS[0] * _MANY_PROGRAMS], _REPLICA_STEP
    chunks = -(-n // length) if owner is None else owner.numel()
    out = torch.empty(chunks, replicas, k, f, dtype=torch.float32, device=a.device)
    block_k, block_f = _block(k), _block(f)
    with _on_device(a):
        programs.gram_rows[(chunks, replicas, -(-k // block_k) * -(-f // block_f))](
            out, a, b, owner, bounds, ptr, n, *a.stride(), *b.stride(), k, f,
            LENGTH=length, STEP=step, BLOCK_K=block_k, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out


def matmul(
    a: Tensor, m: Tensor, owner: Tensor | None = None, bounds: Tensor | None = None, ptr: Tensor | None = None
) -> Tensor:
    """Each row of a [N, R, K] times the contiguous m [B, R, K, F] of its graph and replica; the rest as for `gram`.

    Nodes are last in memory where `a` has them last.
    """
    n, replicas, k = a.shape
    f = m.shape[3]
    if owner is None and a.stride(0) == 1:
        out = torch.empty(replicas, f, n, dtype=a.dtype, device=a.device).permute(2, 0, 1)
    else:
        out = torch.empty(n, replicas, f, dtype=a.dtype, device=a.device)
    length, step = (_REPLICA_STEP, _REPLICA_STEP) if owner is None else (CHUNK, _STEP)
    chunks = -(-n // length) if owner is None else owner.numel()
    block_f = _block(f)
    with _on_device(a):
        programs.multiply_rows[(chunks, replicas, -(-f // block_f))](
            out, a, m, owner, bounds, ptr, n, *a.stride(), *out.stride(), k, f,
            LENGTH=length, STEP=step, BLOCK_K=16, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out
