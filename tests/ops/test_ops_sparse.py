"""Sparse products, entries, subgraphs, merged graphs, norms and small helpers, against dense formulas."""

import importlib

import pytest
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample, samples
from hypothesis import given
from torch.autograd import gradcheck, gradgradcheck

from softcut import Graph
from softcut.errors import ParameterError
from softcut.ops import CSR, CSRPattern, Dense, Sum, spmm
from softcut.ops.convert import cluster_graph, entries, frobenius_squared, submatrix, to_ragged
from softcut.ops.numerics import inverse_sqrt, safe_ratio, safe_sqrt

SPARSE = [kind for kind in OPERATOR_KINDS if not kind.startswith("dense")]


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
def test_gradcheck(directed, weighted, monkeypatch):
    sample = make_sample((5,), seed=2, directed=directed, weighted=weighted, loops=True)
    pattern, val = pattern_of(sample)
    s = sample.rand(sample.n, 3).requires_grad_()
    if val is None:
        assert gradcheck(lambda s: spmm(pattern, None, s), (s,))
        return
    val.requires_grad_()
    assert gradcheck(lambda v, s: spmm(pattern, v, s), (val, s))
    assert gradgradcheck(lambda v, s: spmm(pattern, v, s), (val, s))
    assert gradcheck(lambda v: spmm(pattern, v, s.detach()), (val,))
    grad = sample.rand(sample.n, 3, salt=1)
    (gradient,) = torch.autograd.grad(spmm(pattern, val, s[:, :0]).sum(), val)
    assert not gradient.any()
    for limit in (1 << 24, 15, 2):  # at once, in slices, or an entry at a time
        monkeypatch.setattr(importlib.import_module("softcut.ops.spmm"), "_GATHERED_AT_ONCE", limit)
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


@pytest.mark.parametrize("lengths", [[64, 3, 0, 64], [65, 0, 200, 128, 1]])
def test_long_rows_in_pieces_of_64_sum_to_the_product(lengths):
    """As a GPU adds them: pieces first, then the pieces of every row."""
    rows = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    s = torch.arange(1.0, 1.0 + len(rows)).unsqueeze(1)
    pattern, _ = CSRPattern.from_coo(rows, torch.arange(len(rows)), (len(lengths), len(rows)))
    if max(lengths) <= 64:
        assert pattern.pieces is None
        return
    first, order, second = pattern.pieces
    assert first.diff().max() == 64 and len(order) == sum(max(1, -(-n // 64)) for n in lengths)
    sums = torch.stack([part.sum(0) for part in s.split(first.diff().tolist())])[order.long()]
    whole = torch.stack([part.sum(0) for part in sums.split(second.diff().tolist())])
    torch.testing.assert_close(whole, spmm(pattern, None, s))


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


@pytest.mark.parametrize("kind", SPARSE)
def test_entries_subgraphs_and_norms_are_those_of_the_matrix(kind):
    op, _ = make_operator(kind)
    for each in (op, op.normalise()):
        matrix = each.to_dense().double()
        row, col, _ = triplets = entries(each)
        values = triplets.values(torch.float64).double()
        dense = torch.zeros_like(matrix).index_put((row, col), values, accumulate=True)
        torch.testing.assert_close(dense, matrix, atol=1e-6, rtol=1e-6)
        kept = torch.tensor([op.num_rows - 1, 0, 1])
        for connect, whole in (("adjacency", matrix), ("two_hop", matrix @ matrix)):
            made = submatrix(each, kept, None, connect).to_dense().double()
            torch.testing.assert_close(made, whole[kept][:, kept], atol=1e-6, rtol=1e-6)
        total = frobenius_squared(each).double()
        torch.testing.assert_close(total.sum(), matrix.square().sum(), atol=1e-5, rtol=1e-5)
        cluster = torch.arange(op.num_rows) % 3
        s = torch.eye(3, dtype=torch.float64)[cluster]
        merged = s.T @ matrix @ s
        made = cluster_graph(each, cluster, None, 3).to_dense().double()
        torch.testing.assert_close(made, merged - torch.diag(merged.diagonal()), atol=1e-6, rtol=1e-6)


def test_norms_of_every_graph_and_of_entries_at_one_place():
    sample = make_sample((3, 5), seed=1, weighted=True)
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n, batch=sample.batch)
    expected = sample.padded().square().sum((1, 2))
    torch.testing.assert_close(frobenius_squared(op), expected)
    torch.testing.assert_close(frobenius_squared(Dense(sample.padded())), expected)
    torch.testing.assert_close(frobenius_squared(Sum([op, op])), 4 * expected)  # (a + a)^2
    twice = torch.cat([sample.edge_index] * 2, 1)
    again = CSR.from_edge_index(twice, torch.cat([sample.edge_weight] * 2), sample.n, batch=sample.batch)
    torch.testing.assert_close(frobenius_squared(again), 4 * expected)
    with pytest.raises(ParameterError, match="needs a sparse operator, not Dense"):
        entries(Dense(sample.padded()))


def test_gradients_reach_the_weights_of_subgraphs():
    sample = make_sample((6,), seed=1, weighted=True)
    weight, cluster = sample.edge_weight.clone().requires_grad_(), torch.tensor([0, 1, 0, 2, 1, 2])

    def made(weight):
        op = CSR.from_edge_index(sample.edge_index, weight, 6)
        two = submatrix(op, torch.tensor([0, 3, 4]), None, "two_hop")
        return cluster_graph(op, cluster, None, 3).to_dense(), two.to_dense(), frobenius_squared(op)

    assert gradcheck(made, (weight,))


def test_a_padded_batch_as_a_sparse_one():
    sample = make_sample((3, 1, 4), seed=2, weighted=True)
    op = Dense(sample.padded(), sample.mask, symmetric=True)
    ragged, real = to_ragged(op.normalise())
    assert torch.equal(real, sample.mask)
    assert ragged.ptr.tolist() == [0, 3, 4, 8]
    assert ragged.normalised and ragged.symmetric
    block = torch.block_diag(*[m[:n, :n] for m, n in zip(op.normalise().data, (3, 1, 4), strict=True)])
    torch.testing.assert_close(ragged.to_dense(), block)


def test_divisions_and_roots_at_zero():
    x = torch.tensor([4.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)
    for function, values, slopes in (
        (safe_sqrt, [2.0, 0.0, 0.0], [0.25, 0.0, 0.0]),
        (inverse_sqrt, [0.5, 0.0, 0.0], [-0.0625, 0.0, 0.0]),
        (lambda den: safe_ratio(torch.full_like(den, 6.0), den), [1.5, 0.0, 0.0], [-0.375, 0.0, 0.0]),
    ):
        out = function(x)
        assert out.tolist() == values
        assert torch.autograd.grad(out.sum(), x)[0].tolist() == slopes


def test_weights_near_the_largest_number_are_divided():
    """Sums of weights stay in range; A-tilde does not change."""
    huge = Graph.from_edges([[0, 1], [1, 2]], edge_weight=[1e38, 2e38])
    op = CSR.from_graph(huge)
    assert op.to_dense().max() == 1
    small = CSR.from_graph(Graph.from_edges([[0, 1], [1, 2]], edge_weight=[1e25, 2e25]))
    assert small.to_dense().max() == pytest.approx(2e25)
    torch.testing.assert_close(op.normalise().to_dense(), small.normalise().to_dense())
