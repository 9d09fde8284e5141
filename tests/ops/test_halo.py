"""The Halo operator: parts of a graph give what the whole graph gives, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.graph_strategies import make_sample, plain_normalise
from helpers.thread_group import ThreadGroup, in_parts, parts_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from softcut.clustering.distributed.part import part_operator
from softcut.errors import GraphError
from softcut.ops import CSR, mincut_loss, orthogonality_loss, quadratic_form
from softcut.ops.halo import Exchange, Halo
from softcut.ops.spmm import CSRPattern
from softcut.training import replica_losses

FLOAT = torch.float64


@st.composite
def divided(draw, **kinds):
    """A graph of one component or several, and the part of every node."""
    n = draw(st.integers(3, 12))
    sample = make_sample(
        (n,),
        draw(st.integers(0, 1000)),
        weighted=kinds.get("weighted", draw(st.booleans())),
        directed=kinds.get("directed", False),
        loops=draw(st.booleans()),
        connected=draw(st.booleans()),
        density=draw(st.sampled_from([0.1, 0.5])),
    )
    parts = draw(st.integers(1, min(4, n)))
    owner = np.random.default_rng(sample.seed).permutation(np.arange(n) % parts)
    return sample, owner


def compute(parts, work, *inputs, symmetric=True):
    """`work(op, *rows of the inputs)` in every part; results and gradients of the inputs put together again."""
    nodes = np.concatenate([part.nodes for part in parts])

    def run(group: ThreadGroup):
        part = parts[group.rank]
        op = part_operator(part, group, dtype=FLOAT)
        op = Halo(op.pattern, op.exchange, op.val, symmetric=symmetric)
        mine = [t[torch.from_numpy(np.array(part.nodes))].detach().clone().requires_grad_() for t in inputs]
        out = work(op, *mine)
        if out.requires_grad:
            (out if out.dim() == 0 else out.sum()).backward()
        return out.detach(), [t.grad for t in mine]

    found = in_parts(len(parts), run)
    order = torch.from_numpy(np.argsort(nodes))
    gradients = [
        torch.cat(g)[order] if g[0] is not None else None for g in zip(*(g for _, g in found), strict=True)
    ]
    values = [value for value, _ in found]
    whole = values[0] if values[0].dim() == 0 else torch.cat(values)[order]
    if values[0].dim() == 0:
        assert all(
            torch.equal(value, whole) for value in values
        )  # every process has the same loss, to the bit
    return whole, gradients


def summed(op, values):
    """The sum over the rows of all processes."""
    return op.layout.total(values.sum(-1)).sum()


@given(divided())
@settings(max_examples=10)
def test_products_and_degrees_are_those_of_the_whole_graph(drawn):
    sample, owner = drawn
    parts = parts_of(sample.block(), owner)
    s = sample.rand(sample.n, 3)
    for matrix, of in ((sample.block(), lambda op: op), (plain_normalise(sample.block()), Halo.normalise)):
        product, _ = compute(parts, lambda op, s, of=of: of(op) @ s, s)
        torch.testing.assert_close(product, matrix @ s)
        degree, _ = compute(parts, lambda op, s, of=of: of(op).degree_like(s), s)
        torch.testing.assert_close(degree, matrix.sum(1))


@given(divided())
@settings(max_examples=10)
def test_losses_and_their_gradients_are_those_of_the_whole_graph(drawn):
    sample, owner = drawn
    parts = parts_of(sample.block(), owner)
    logits = sample.rand(sample.n, 2, 3)  # two replicas

    def loss(op, logits):
        cut, ortho = replica_losses(op.normalise(), torch.softmax(logits, -1))
        return (cut * torch.tensor([1.0, 0.5], dtype=FLOAT)).sum() + 0.7 * ortho.sum()

    found, (gradient,) = compute(parts, loss, logits)
    whole = logits.clone().requires_grad_()
    expected = loss(CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n), whole)
    expected.backward()
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(gradient, whole.grad)


def test_public_losses_take_it():
    sample = make_sample((7,), 3)
    s = sample.assignments(3)
    loss = lambda op, s: mincut_loss(s, op) + orthogonality_loss(s, op)  # noqa: E731
    found, _ = compute(parts_of(sample.block(), np.arange(7) % 3), loss, s)
    torch.testing.assert_close(found, mincut_loss(s, sample.block()) + orthogonality_loss(s))


@given(divided(directed=True))
def test_an_asymmetric_matrix_sends_gradients_back(drawn):
    sample, owner = drawn
    parts = parts_of(sample.block(), owner)
    s, weight = sample.rand(sample.n, 2), sample.rand(sample.n, 2, salt=1)
    found, (gradient, _) = compute(
        parts, lambda op, s, w: summed(op, op @ s * w.detach()), s, weight, symmetric=False
    )
    torch.testing.assert_close(found, (sample.block() @ s * weight).sum())
    torch.testing.assert_close(gradient, sample.block().T @ weight)
    form, (gradient, *_) = compute(
        parts, lambda op, s: quadratic_form(op, s).square().sum(), s, symmetric=False
    )
    whole = s.clone().requires_grad_()
    expected = (whole.T @ sample.block() @ whole).square().sum()
    expected.backward()
    torch.testing.assert_close(form, expected.detach())
    torch.testing.assert_close(gradient, whole.grad)


class _Divided(torch.autograd.Function):
    """A loss of the whole S, computed in parts: forward and backward run in threads of their own."""

    @staticmethod
    def forward(ctx, s, parts, work):
        value, (gradient,) = compute(parts, work, s)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], None, None


@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_finite_differences(weighted):
    sample = make_sample((6,), 1, weighted=weighted)

    def loss(op, logits):
        s = torch.softmax(logits, -1)
        return mincut_loss(s, op) + orthogonality_loss(s, op) + summed(op, (op.normalise() @ s).sin())

    logits = sample.rand(6, 2).requires_grad_()
    parts = parts_of(sample.block(), np.array([0, 1, 2, 0, 1, 2]))
    assert gradcheck(lambda t: _Divided.apply(t, parts, loss), logits)


def test_vmap_exchanges_once_for_all_replicas():
    sample = make_sample((8,), 2)
    parts = parts_of(sample.block(), np.arange(8) % 2)
    s = sample.rand(4, 8, 3)

    def run(group):
        exchanged = []
        original = group.all_to_all
        group.all_to_all = lambda rows, *counts: exchanged.append(rows.shape[1]) or original(rows, *counts)
        part = parts[group.rank]
        op = part_operator(part, group)
        own = s[:, torch.from_numpy(np.array(part.nodes))].requires_grad_()
        found = torch.func.vmap(lambda x: op @ x)(own)
        found.square().sum().backward()
        return found.detach(), own.grad, exchanged

    for part, (found, gradient, exchanged) in zip(parts, in_parts(2, run), strict=True):
        nodes = torch.from_numpy(np.array(part.nodes))
        torch.testing.assert_close(found, (sample.block() @ s)[:, nodes])
        torch.testing.assert_close(gradient, (2 * sample.block() @ (sample.block() @ s))[:, nodes])
        assert exchanged == [12, 12]  # 4 replicas x 3 columns; forward and back


def test_training_needs_one_exchange_forward_and_none_backward():
    sample = make_sample((8,), 2)
    parts = parts_of(sample.block(), np.arange(8) % 2)

    def run(group):
        op = part_operator(parts[group.rank], group, dtype=FLOAT).normalise()
        op.degree_like(torch.empty(0, dtype=FLOAT))  # constant; computed once
        exchanged = []
        original = group.all_to_all
        group.all_to_all = lambda rows, *counts: (
            exchanged.append(tuple(rows.shape)) or original(rows, *counts)
        )
        s = torch.softmax(sample.rand(4, 5), -1).requires_grad_()
        (mincut_loss(s, op) + orthogonality_loss(s, op)).backward()
        return exchanged

    for part, exchanged in zip(parts, in_parts(2, run), strict=True):
        assert exchanged == [(len(part.send), 5)]


def test_moving_keeps_the_matrix():
    sample = make_sample((5,), 4, weighted=True)
    matrix = plain_normalise(sample.block())

    def run(group):
        op = part_operator(
            parts_of(sample.block(), np.zeros(5, dtype=int))[0], group, dtype=FLOAT
        ).normalise()
        return op.to("cpu", torch.float32).to_dense(), repr(op)

    ((dense, shown),) = in_parts(1, run)
    torch.testing.assert_close(dense, matrix.float())
    assert shown == f"Halo(5 rows, 0 halo rows, {sample.edge_index.shape[1]} entries, part 1 of 1)"


def test_plans_that_do_not_fit_are_refused():
    group = ThreadGroup(0, [None, None], None)
    send = torch.tensor([0])
    with pytest.raises(GraphError, match="one number for each of the 2 processes, got 1 and 2"):
        Exchange(group, 2, send, [1], [0, 0])
    with pytest.raises(GraphError, match="send has 1 rows, but send_counts add up to 2"):
        Exchange(group, 2, send, [0, 2], [0, 0])
    pattern, _ = CSRPattern.from_coo(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    with pytest.raises(GraphError, match=r"2 rows and 3 columns.*got \[2, 2\]"):
        Halo(pattern, Exchange(group, 2, send, [0, 1], [0, 1]))
    with pytest.raises(GraphError, match="must not be negative"):
        Halo(pattern, Exchange(group, 2, send, [0, 1], [0, 0]), torch.tensor([-1.0, -1.0])).normalise()
