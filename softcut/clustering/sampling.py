"""From which size on a graph is large: what is learned about all nodes is then learned from some of them."""

from __future__ import annotations

import torch

__all__ = ["LARGE", "sample_rows"]

# Nodes above which a graph is large. A few thousand numbers (centres, a regression, medians) are learned from this
# many nodes as well as from all, features are projected and propagated in single precision, and training stops as
# soon as losses hardly improve. Smaller graphs take seconds, and nothing is saved.
LARGE = 50_000


def sample_rows(
    n: int, most: int | None = None, *, random_state: int = 0, device: torch.device | None = None
) -> torch.Tensor:
    """Different row numbers below `n` in random order: `most` of them, or all where there are not more.

    >>> sorted(sample_rows(4, 10).tolist()), len(sample_rows(100, 10))
    ([0, 1, 2, 3], 10)

    Parameters
    ----------
    n : int
        Rows there are.
    most : int, optional
        Rows wanted; :data:`LARGE` by default.
    random_state : int
        Seed; drawn on the CPU, so every device sees the same rows.
    device : torch.device, optional
        Where the numbers are needed.
    """
    generator = torch.Generator().manual_seed(random_state)
    return torch.randperm(n, generator=generator)[: LARGE if most is None else most].to(device)
