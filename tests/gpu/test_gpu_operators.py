"""Operators, losses and pooling layers on a GPU: the numbers of the CPU, the same ones every time."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from softcut.nn import DiffPool, MinCutPool, TopKPool
from softcut.ops import CSR, Dense, Sum, mincut_loss, orthogonality_loss


def random_adjacency(n, edges, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, n, (2, edges))
    values = rng.random(edges) + 0.1 if weighted else np.ones(edges)
    upper = sp.coo_array((values, (rows, columns)), shape=(n, n)).tocsr()
    upper.setdiag(0)
    upper.eliminate_zeros()
    matrix = upper.maximum(upper.T)
    if not weighted:
        matrix.data[:] = 1
    return sp.coo_array(matrix)


def with_hubs(n=3000):
    """Rows of 1, 63, 64, 65, 128, 129 and n - 1 entries among short ones: pieces of 64 begin and end there."""
    rows, columns = [], []
    for hub, size in enumerate((63, 64, 65, 128, 129, n - 1)):
        others = np.delete(np.arange(n), hub)[:size]
        rows += [hub] * size
        columns += others.tolist()
    half = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)).tocsr()
    matrix = half.maximum(half.T)
    matrix.data[:] = 1
    return sp.coo_array(matrix)


def operator(matrix, weighted=False, **kwargs):
    edges = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    weight = torch.from_numpy(matrix.data) if weighted else None
    return CSR.from_edge_index(edges, weight, num_nodes=matrix.shape[0], **kwargs)


def operators():
    binary = operator(random_adjacency(60, 200))
    weighted = operator(random_adjacency(60, 200, seed=1, weighted=True), weighted=True)
    two = sp.block_diag([random_adjacency(20, 60, seed=2), random_adjacency(40, 100, seed=3)], format="coo")
    batched = operator(sp.coo_array(two), batch=torch.repeat_interleave(torch.tensor([20, 40])))
    dense = Dense(torch.from_numpy(random_adjacency(60, 200, seed=4).toarray()).unsqueeze(0))
    both = Sum([binary.normalise(), weighted.normalise()], [1.0, 0.5])
    return {"binary": binary, "weighted": weighted, "batched": batched, "dense": dense, "sum": both}


@pytest.mark.parametrize("kind", operators())
@pytest.mark.parametrize("normalise", [False, True])
def test_an_operator_moves_and_comes_back(kind, normalise):
    op = operators()[kind]
    op = op.normalise() if normalise else op
    there = op.to("cuda")
    back = there.to("cpu")
    shape = (1, 60, 4) if kind == "dense" else (60, 4)
    s = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert (there @ s.cuda()).is_cuda
    torch.testing.assert_close((there @ s.cuda()).cpu(), op @ s, rtol=1e-12, atol=1e-12)
    assert torch.equal(back @ s, op @ s)
    torch.testing.assert_close(there.degree.cpu(), op.degree, rtol=1e-12, atol=1e-12)
    assert torch.equal(back.degree, op.degree)
    assert (back.symmetric, back.normalised) == (op.symmetric, op.normalised)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_long_rows_are_cut_into_pieces(dtype, weighted):
    matrix = with_hubs()
    if weighted:
        pairs = np.minimum(matrix.row, matrix.col) * 7 + np.maximum(matrix.row, matrix.col)
        matrix.data = 1 + (pairs % 11) / 10  # symmetric weights
    op = operator(matrix, weighted).to("cuda")
    assert op.pattern.pieces is not None
    s = torch.rand(matrix.shape[0], 16, dtype=dtype, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(matrix @ s.double().numpy())
    product = op @ s.cuda()
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(product.cpu().double(), expected, rtol=tolerance, atol=tolerance)
    for _ in range(5):
        assert torch.equal(op @ s.cuda(), product)


def losses_and_gradient(matrix, s):
    s = s.clone().requires_grad_()
    op = operator(matrix).to(s.device)
    cut, ortho = mincut_loss(s, op), orthogonality_loss(s)
    (cut + ortho).backward()
    return cut.detach(), ortho.detach(), s.grad


@pytest.mark.parametrize("make", [with_hubs, lambda: random_adjacency(500, 3000)])
def test_losses_are_those_of_the_cpu_and_repeat_to_the_bit(make):
    matrix = make()
    s = torch.rand(matrix.shape[0], 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    s = s.softmax(-1)
    here = losses_and_gradient(matrix, s)
    there = losses_and_gradient(matrix, s.cuda())
    for a, b in zip(here, there, strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-9, atol=1e-12)
    first, again = (losses_and_gradient(matrix, s.float().cuda()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


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
