"""Pooling layers on a GPU: the outputs, losses and gradients of the CPU."""

import copy

import pytest
import torch

from softcut.nn import DiffPool, MinCutPool, TopKPool

POOLS = {
    "mincut": lambda: MinCutPool(5, k=3, hidden=8),
    "diffpool": lambda: DiffPool(5, k=3),
    "topk": lambda: TopKPool(5, ratio=0.5),
}


def batch():
    """Two rings of 12 and 20 nodes with chords."""
    edges = []
    for start, n in ((0, 12), (12, 20)):
        edges += [(start + i, start + (i + step) % n) for i in range(n) for step in (1, 5)]
    forward = torch.tensor(edges).T
    x = torch.rand(32, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return x, torch.cat([forward, forward.flip(0)], dim=1), torch.repeat_interleave(torch.tensor([12, 20]))


def pooled(pool, device):
    x, edge_index, number = (t.to(device) for t in batch())
    x.requires_grad_()
    out = pool(x, edge_index, batch=number)
    total = out.x.square().sum() + sum(out.losses.values(), start=torch.zeros((), device=device))
    total.backward()
    return out.x.detach().cpu(), total.detach().cpu(), x.grad.cpu(), [p.grad.cpu() for p in pool.parameters()]


@pytest.mark.parametrize("name", POOLS)
def test_a_layer_computes_what_the_cpu_does(name):
    torch.manual_seed(0)
    pool = POOLS[name]().double()
    there = copy.deepcopy(pool).cuda()
    for a, b in zip(pooled(pool, "cpu"), pooled(there, "cuda"), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-10)
