"""The two CPU measurements behind the layout of the code: the sparse product, and the softmax.

python benchmarks/kernels.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import torch

from softcut.ops import CSRPattern, spmm


def best(work: Callable[[], object], rounds: int = 7) -> float:
    """Milliseconds of the fastest round."""
    work()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds)


def main() -> None:
    warnings.simplefilter("ignore")
    generator = torch.Generator().manual_seed(0)
    n, entries, k = 200_000, 4_000_000, 16
    row, col = (torch.randint(0, n, (entries,), generator=generator) for _ in range(2))
    pattern, _ = CSRPattern.from_coo(row, col, (n, n))
    s = torch.rand(n, k, generator=generator)
    matrix = torch.sparse_csr_tensor(pattern.rowptr, pattern.col, torch.ones(entries), (n, n))
    ours, theirs = best(lambda: spmm(pattern, None, s)), best(lambda: matrix @ s)
    print(
        f"sparse product, {n:,} x {n:,}, {entries:,} entries, K = {k}: {ours:.1f} ms, torch.sparse {theirs:.1f} ms, "
        f"{theirs / ours:.1f}x"
    )
    rows = torch.randn(2708, 32, 7, generator=generator)
    nodes_last = rows.permute(1, 2, 0).contiguous()
    slow, fast = best(lambda: torch.softmax(rows, -1)), best(lambda: torch.softmax(nodes_last, 1))
    print(
        f"softmax of 7, 32 replicas, 2,708 nodes: rows {slow:.2f} ms, nodes last {fast:.2f} ms, {slow / fast:.1f}x"
    )


if __name__ == "__main__":
    main()
