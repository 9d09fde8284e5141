"""S'X, S'AS and S'S together against each by itself, and their derivatives."""

import pytest
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample, rows_for, samples
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from softcut.ops import CSR, Sum
from softcut.ops.coarsen import pooled_products


def mix(tensors):
    return sum(
        (t * torch.cos(1.0 + torch.arange(t.numel(), dtype=t.dtype)).view(t.shape)).sum() for t in tensors
    )


def apart(op, s, x):
    return op.layout.gram(s, x), op.layout.gram(s, op @ s), op.layout.gram(s, s)


def check_against_each_by_itself(op, s, x):
    s, x = s.requires_grad_(), x.requires_grad_()
    got, expected = pooled_products(op, s, x), apart(op, s, x)
    torch.testing.assert_close(tuple(got), expected)
    gradients = torch.autograd.grad(mix(got), (s, x), retain_graph=True)
    torch.testing.assert_close(gradients, torch.autograd.grad(mix(expected), (s, x), retain_graph=True))
    for used in range(3):  # one of the products only
        one, other = (
            torch.autograd.grad(
                mix([parts[used]]), (s, x), retain_graph=True, allow_unused=True, materialize_grads=True
            )
            for parts in (got, expected)
        )
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("normalised", [False, True])
def test_equal_to_each_by_itself_with_gradients(kind, normalised):
    op, sample = make_operator(kind)
    op = op.normalise() if normalised else op
    rows = (sample.assignments(3), sample.rand(sample.n, 2, salt=1))
    check_against_each_by_itself(op, *(rows_for(op, sample, each) for each in rows))


@given(samples(graphs=(2, 6), nodes=(1, 40), connected=None), st.integers(1, 40), st.integers(1, 5))
def test_batches_of_any_sizes(sample, k, f):
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n, batch=sample.batch)
    check_against_each_by_itself(op, sample.assignments(k), sample.rand(sample.n, f, salt=1))


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
