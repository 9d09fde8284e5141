"""Entries, subgraphs, merged graphs, norms, and small helpers, against dense formulas."""

from __future__ import annotations

import pytest
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample
from torch.autograd import gradcheck

from softcut import Graph
from softcut.errors import ParameterError
from softcut.ops import CSR, Dense, Sum
from softcut.ops.batching import batch_to_ptr, counts_to_ptr
from softcut.ops.numerics import inverse_sqrt, safe_ratio, safe_sqrt
from softcut.ops.triplets import cluster_graph, entries, frobenius_squared, submatrix, to_ragged

SPARSE = [kind for kind in OPERATOR_KINDS if not kind.startswith("dense")]


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
            found = submatrix(each, kept, None, connect).to_dense().double()
            torch.testing.assert_close(found, whole[kept][:, kept], atol=1e-6, rtol=1e-6)
        total = frobenius_squared(each).double()
        torch.testing.assert_close(total.sum(), matrix.square().sum(), atol=1e-5, rtol=1e-5)
        cluster = torch.arange(op.num_rows) % 3
        s = torch.eye(3, dtype=torch.float64)[cluster]
        merged = s.T @ matrix @ s
        found = cluster_graph(each, cluster, None, 3).to_dense().double()
        torch.testing.assert_close(found, merged - torch.diag(merged.diagonal()), atol=1e-6, rtol=1e-6)


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


def test_pointers():
    assert counts_to_ptr(torch.tensor([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert batch_to_ptr(torch.tensor([0, 0, 2, 2, 2]), 5).tolist() == [0, 2, 2, 5]
    assert batch_to_ptr(torch.zeros(0, dtype=torch.long), 0).tolist() == [0, 0]


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
