"""Small products on a GPU, A'B and A M: per graph of a ragged batch, without padding, or per replica of one graph."""

from __future__ import annotations

import torch
from torch import Tensor

from softcut.ops.kernels import programs
from softcut.ops.kernels.product import on_device

__all__ = ["CHUNK", "gram", "matmul", "replica_gram", "replica_matmul"]

# The most rows of a graph that one program goes through; graphs up to this size need no second pass.
CHUNK = 512
_STEP = 32
# Rows of one replica that a program goes through (fewer where that leaves programs idle), and at a time.
_REPLICA_CHUNKS, _REPLICA_STEP = (2048, 256), 64
_MANY_PROGRAMS = 1024


def _block(size: int, most: int = 64) -> int:
    """A tile of a matrix unit: a power of two, 16 at least."""
    return min(most, max(16, 1 << (size - 1).bit_length()))


def gram(a: Tensor, b: Tensor, owner: Tensor, bounds: Tensor | None, ptr: Tensor) -> Tensor:
    """a' b of the rows of every chunk, [chunks, K, F], for contiguous a [N, K] and b [N, F] in float32 or less.

    `owner` is the graph of each chunk, `bounds` the first chunk of each graph (None: each graph is one chunk), and
    `ptr` [B + 1] the first row of each graph.
    """
    k, f, chunks = a.shape[1], b.shape[1], owner.numel()
    out = torch.empty(chunks, k, f, dtype=a.dtype if bounds is None else torch.float32, device=a.device)
    block_k, block_f = _block(k), _block(f)
    with on_device(a):
        programs.gram_chunks[(chunks, -(-k // block_k), -(-f // block_f))](
            out, a, b, owner, bounds, ptr,
            K=k, F=f, LENGTH=CHUNK, STEP=_STEP, BLOCK_K=block_k, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out


def matmul(a: Tensor, m: Tensor, owner: Tensor, bounds: Tensor | None, ptr: Tensor) -> Tensor:
    """Each row of a [N, K] times the matrix of its graph, m [B, K, F]; the rest as for :func:`gram`."""
    k, f = m.shape[1:]
    out = torch.empty(a.shape[0], f, dtype=a.dtype, device=a.device)
    block_k, block_f = 16, _block(f)
    with on_device(a):
        programs.multiply_chunks[(owner.numel(), -(-f // block_f))](
            out, a, m, owner, bounds, ptr,
            K=k, F=f, LENGTH=CHUNK, STEP=_STEP, BLOCK_K=block_k, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out


def replica_gram(a: Tensor, b: Tensor) -> Tensor:
    """a' b of every replica, [R, K, F], for a [N, R, K] and b [N, R, F]; added up in float32, in a fixed order."""
    n, replicas, k = a.shape
    f = b.shape[2]
    length = _REPLICA_CHUNKS[n * replicas < _REPLICA_CHUNKS[0] * _MANY_PROGRAMS]
    chunks = -(-n // length)
    out = torch.empty(chunks, replicas, k, f, dtype=torch.float32, device=a.device)
    block_k, block_f = _block(k), _block(f)
    with on_device(a):
        programs.gram_replicas[(chunks, replicas, -(-k // block_k) * -(-f // block_f))](
            out, a, b, n, *a.stride(), *b.stride(), k, f,
            LENGTH=length, STEP=_REPLICA_STEP, BLOCK_K=block_k, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out.sum(0).to(a.dtype)


def replica_matmul(a: Tensor, m: Tensor) -> Tensor:
    """Each row of a [N, R, K] times m [R, K, F] of its replica, with nodes last in memory where `a` has them last."""
    n, replicas, k = a.shape
    f = m.shape[2]
    if a.stride(0) == 1:
        out = torch.empty(replicas, f, n, dtype=a.dtype, device=a.device).permute(2, 0, 1)
    else:
        out = torch.empty(n, replicas, f, dtype=a.dtype, device=a.device)
    block_f = _block(f)
    with on_device(a):
        programs.multiply_replicas[(-(-n // _REPLICA_STEP), replicas, -(-f // block_f))](
            out, a, m, n, *a.stride(), *out.stride(), k, f,
            STEP=_REPLICA_STEP, BLOCK_K=16, BLOCK_F=block_f, num_warps=4,
        )  # fmt: skip
    return out
