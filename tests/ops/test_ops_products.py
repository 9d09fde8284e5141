"""S'X, S'AS and S'S together against each by itself, and their derivatives."""

from __future__ import annotations

import pytest
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample, rows_for, samples
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from softcut.ops import CSR, Sum, quadratic_form
from softcut.ops.orthogonality import self_gram
from softcut.ops.products import pooled_products


def mix(tensors):
    return sum(
        (t * torch.cos(1.0 + torch.arange(t.numel(), dtype=t.dtype)).view(t.shape)).sum() for t in tensors
    )


def apart(op, s, x):
    return op.layout.gram(s, x), op.layout.gram(s, op @ s), op.layout.gram(s, s)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("normalised", [False, True])
def test_equal_to_each_by_itself_with_gradients(kind, normalised):
    op, sample = make_operator(kind)
    op = op.normalise() if normalised else op
    s = rows_for(op, sample, sample.assignments(3)).requires_grad_()
    x = rows_for(op, sample, sample.rand(sample.n, 2, salt=1)).requires_grad_()
    got, expected = pooled_products(op, s, x), apart(op, s, x)
    torch.testing.assert_close(tuple(got), expected)
    gradients = torch.autograd.grad(mix(got), (s, x))
    torch.testing.assert_close(gradients, torch.autograd.grad(mix(expected), (s, x)))


@given(samples(graphs=(2, 6), nodes=(1, 40), connected=None), st.integers(1, 40), st.integers(1, 5))
def test_batches_of_any_sizes(sample, k, f):
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n, batch=sample.batch)
    s, x = sample.assignments(k).requires_grad_(), sample.rand(sample.n, f, salt=1).requires_grad_()
    got, expected = pooled_products(op, s, x), apart(op, s, x)
    torch.testing.assert_close(tuple(got), expected)
    gradients = torch.autograd.grad(mix(got), (s, x))
    torch.testing.assert_close(gradients, torch.autograd.grad(mix(expected), (s, x)))


def two_unequal_graphs(kind):
    """A graph of two nodes and one of five, by itself or summed with a second block-diagonal part."""
    first, second = make_sample((2, 5), seed=3, weighted=kind != "binary"), make_sample((2, 5), seed=4)
    op = CSR.from_edge_index(first.edge_index, first.edge_weight, 7, batch=first.batch)
    if kind == "sum":
        op = Sum([op, CSR.from_edge_index(second.edge_index, None, 7, batch=second.batch)], [1.0, 0.6])
    return op, first


@pytest.mark.parametrize("kind", ["binary", "weighted", "sum"])
@pytest.mark.parametrize("normalised", [False, True])
def test_gradcheck_on_two_unequal_graphs(kind, normalised):
    op, sample = two_unequal_graphs(kind)
    op = op.normalise() if normalised else op
    s, x = sample.assignments(3).requires_grad_(), sample.rand(7, 2, salt=1).requires_grad_()
    assert gradcheck(lambda s, x: tuple(pooled_products(op, s, x)), (s, x))
    assert gradgradcheck(lambda s, x: tuple(pooled_products(op, s, x)), (s, x))
    assert gradcheck(lambda s: op @ s, (s,))
    assert gradcheck(lambda s, x: tuple(pooled_products(op, s, x)), (s, x), check_batched_grad=True)


def test_vmap_over_assignments():
    op, sample = two_unequal_graphs("sum")
    s, x = torch.stack([sample.assignments(3, salt=i) for i in range(4)]), sample.rand(7, 2, salt=9)
    together = torch.func.vmap(lambda s: tuple(pooled_products(op, s, x)))(s)
    loop = [pooled_products(op, each, x) for each in s]
    torch.testing.assert_close(together, tuple(torch.stack(t) for t in zip(*loop, strict=True)))


def test_learned_weights_get_their_gradient():
    sample = make_sample((2, 5), seed=3, weighted=True)
    s, x = sample.assignments(3), sample.rand(7, 2, salt=1)
    weight = sample.edge_weight.clone().requires_grad_()

    def together(weight):
        op = CSR.from_edge_index(sample.edge_index, weight, 7, batch=sample.batch, symmetric=True)
        return pooled_products(op.normalise(), s, x).quadratic

    assert gradcheck(together, (weight,))
    op = CSR.from_edge_index(sample.edge_index, weight, 7, batch=sample.batch)
    torch.testing.assert_close(pooled_products(op, s, x).quadratic, quadratic_form(op, s))
    torch.testing.assert_close(pooled_products(op, s, x).gram, self_gram(op.layout, s))


@pytest.mark.parametrize("used", [0, 1, 2])
def test_gradients_where_one_product_is_used(used):
    sample = make_sample((3, 5), seed=1)
    op = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n, batch=sample.batch)
    s, x = sample.assignments(2).requires_grad_(), sample.rand(sample.n, 4, salt=1).requires_grad_()
    got, expected = (
        torch.autograd.grad(mix([products[used]]), (s, x), allow_unused=True, materialize_grads=True)
        for products in (pooled_products(op, s, x), apart(op, s, x))
    )
    torch.testing.assert_close(got, expected)
