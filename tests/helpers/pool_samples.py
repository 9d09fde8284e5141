"""Small graphs, batches and features that the tests of poolers share."""

from itertools import pairwise

import torch

from softcut.ops import as_operator

PTR = torch.tensor([0, 4, 5, 9])
BATCH = torch.tensor([0] * 4 + [1] + [2] * 4)


def weighted(n: int = 9, seed: int = 0, ptr=None) -> torch.Tensor:
    """A symmetric weighted adjacency matrix, with edges inside the graphs of `ptr` only."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(n, n, generator=generator, dtype=torch.float64)
    a = torch.triu(a * (a > 0.3), 1)
    a = a + a.T
    for start, end in pairwise(ptr if ptr is not None else [0, n]):
        a[start:end, :start] = a[start:end, end:] = 0
    return a


def sparse(a: torch.Tensor, batch: torch.Tensor | None = None):
    index = a.nonzero().T
    return as_operator(index, a[index[0], index[1]], num_nodes=len(a), batch=batch)


def features(n: int = 9, f: int = 3, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, f, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
