"""The sparse product: gradients, replicas as columns, and what it does not allocate."""

from __future__ import annotations

import importlib

import pytest
import torch
from helpers.graph_strategies import make_sample, samples
from hypothesis import given
from torch.autograd import gradcheck, gradgradcheck

from softcut.ops import CSRPattern, spmm


def pattern_of(sample):
    pattern, order = CSRPattern.from_coo(*sample.edge_index, (sample.n, sample.n))
    return pattern, None if sample.edge_weight is None else sample.edge_weight[order]


@given(samples(directed=None, connected=None, nodes=(1, 9)))
def test_equals_the_dense_product(sample):
    pattern, val = pattern_of(sample)
    s = sample.rand(sample.n, 3)
    torch.testing.assert_close(spmm(pattern, val, s), sample.block() @ s)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck(directed, weighted):
    sample = make_sample((5,), seed=2, directed=directed, weighted=weighted, loops=True)
    pattern, val = pattern_of(sample)
    s = sample.rand(sample.n, 3).requires_grad_()
    if val is None:
        assert gradcheck(lambda s: spmm(pattern, None, s), (s,))
    else:
        val.requires_grad_()
        assert gradcheck(lambda v, s: spmm(pattern, v, s), (val, s))
        assert gradgradcheck(lambda v, s: spmm(pattern, v, s), (val, s))
        assert gradcheck(lambda v: spmm(pattern, v, s.detach()), (val,))


def test_a_rectangular_pattern():
    pattern, _ = CSRPattern.from_coo(torch.tensor([1, 0, 1]), torch.tensor([0, 3, 2]), (2, 4))
    s = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    dense = torch.tensor([[0.0, 0, 0, 1], [1, 0, 1, 0]], dtype=torch.float64)
    torch.testing.assert_close(spmm(pattern, None, s), dense @ s)
    assert gradcheck(lambda s: spmm(pattern, None, s), (s,))


def test_pattern_properties():
    sample = make_sample((6,), seed=4, directed=True)
    pattern, _ = pattern_of(sample)
    assert pattern.rowptr.dtype == pattern.col.dtype == torch.int32
    assert pattern.nnz == sample.edge_index.shape[1]
    transposed, order = pattern.transpose
    assert torch.equal(transposed.rows, pattern.col.long()[order])
    assert torch.equal(transposed.col.long(), pattern.rows[order])
    assert not pattern.symmetric
    row, col = torch.cat([sample.edge_index, sample.edge_index.flip(0)], 1)
    both, _ = CSRPattern.from_coo(row, col, (6, 6))
    assert both.symmetric


def test_the_gradient_of_values_in_slices(monkeypatch):
    sample = make_sample((8,), seed=3, weighted=True)
    pattern, val = pattern_of(sample)
    grad, s = sample.rand(sample.n, 5), sample.rand(sample.n, 5, salt=1)
    val.requires_grad_()
    for limit in (1 << 24, 15):
        monkeypatch.setattr(importlib.import_module("softcut.ops.spmm"), "_GATHER_LIMIT", limit)
        (gradient,) = torch.autograd.grad(spmm(pattern, val, s), val, grad)
        torch.testing.assert_close(gradient, (grad @ s.T)[pattern.rows, pattern.col.long()])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_other_precisions(dtype):
    sample = make_sample((9,), seed=3, weighted=True)
    pattern, val = pattern_of(sample)
    s = sample.rand(sample.n, 4)
    tolerance = 8 * torch.finfo(dtype).eps
    got = spmm(pattern, val.to(dtype), s.to(dtype)).double()
    torch.testing.assert_close(got, sample.block() @ s, atol=10 * tolerance, rtol=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
def test_vmap_equals_a_loop(weighted):
    sample = make_sample((7,), seed=3, weighted=weighted)
    pattern, val = pattern_of(sample)
    s = sample.rand(4, sample.n, 3)
    loop = torch.stack([spmm(pattern, val, each) for each in s])
    torch.testing.assert_close(torch.func.vmap(lambda s: spmm(pattern, val, s))(s), loop)
    last = torch.func.vmap(lambda s: spmm(pattern, val, s), in_dims=-1, out_dims=-1)(s.movedim(0, -1))
    torch.testing.assert_close(last, loop.movedim(0, -1))
    twice = torch.func.vmap(torch.func.vmap(lambda s: spmm(pattern, val, s)))(s.view(2, 2, sample.n, 3))
    torch.testing.assert_close(twice.flatten(0, 1), loop)


def test_vmap_over_values():
    sample = make_sample((7,), seed=3, weighted=True)
    pattern, val = pattern_of(sample)
    values, s = torch.stack([val, val**2, -val]), sample.rand(3, sample.n, 2)

    def gradient(val, s):
        return torch.func.grad(lambda v, s: spmm(pattern, v, s).square().sum(), argnums=(0, 1))(val, s)

    for dims, columns in (((0, 0), s), ((0, None), s[0])):
        many = torch.func.vmap(gradient, in_dims=dims)(values, columns)
        one_by_one = [gradient(v, columns[i] if dims[1] == 0 else columns) for i, v in enumerate(values)]
        for together, alone in zip(many, zip(*one_by_one, strict=True), strict=True):
            torch.testing.assert_close(together, torch.stack(alone))


@pytest.mark.parametrize(("n", "edges", "k"), [(0, 0, 2), (3, 0, 2), (3, 2, 0)])
def test_nothing_to_multiply(n, edges, k):
    row = torch.zeros(edges, dtype=torch.long)
    pattern, _ = CSRPattern.from_coo(row, row, (n, n))
    s = torch.ones(n, k, dtype=torch.float64, requires_grad=True)
    y = spmm(pattern, None, s)
    y.sum().backward()
    assert y.shape == s.shape
    assert not y.any()
    assert not s.grad.any()
