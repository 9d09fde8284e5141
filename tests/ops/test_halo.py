"""The Halo operator: parts of a graph give what the whole graph gives, values and gradients."""

import numpy as np
import pytest
import torch
from helpers.graph_strategies import make_sample, plain_normalise, samples
from helpers.thread_group import ThreadGroup, in_parts, parts_of
from hypothesis import given, settings
from hypothesis import strategies as st

from softcut.clustering.distributed.part import part_operator
from softcut.errors import GraphError
from softcut.ops import CSR, mincut_loss, orthogonality_loss, quadratic_form
from softcut.ops.halo import Exchange, Halo
from softcut.ops.spmm import CSRPattern
from softcut.training import replica_losses

FLOAT = torch.float64
GRAPHS = samples(graphs=(1, 1), nodes=(3, 12), connected=None)


def divided(sample, parts):
    """The nodes of a graph in so many parts, at random."""
    owner = np.random.default_rng(sample.seed).permutation(np.arange(sample.n) % min(parts, sample.n))
    return parts_of(sample.block(), owner)


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

    values, gradients = zip(*in_parts(len(parts), run), strict=True)
    order = torch.from_numpy(np.argsort(nodes))
    together = [torch.cat(g)[order] if g[0] is not None else None for g in zip(*gradients, strict=True)]
    if values[0].dim():
        return torch.cat(values)[order], together
    # Every process has the same loss, to the bit.
    assert all(torch.equal(value, values[0]) for value in values)
    return values[0], together


def check(value, gradient, loss, at):
    """A loss of the whole graph and its gradient."""
    whole = at.clone().requires_grad_()
    expected = loss(whole)
    expected.backward()
    torch.testing.assert_close((value, gradient), (expected.detach(), whole.grad))


def summed(op, values):
    """The sum over the rows of all processes."""
    return op.layout.total(values.sum(-1)).sum()


@given(GRAPHS, st.integers(1, 4))
@settings(max_examples=10)
def test_products_and_degrees_are_those_of_the_whole_graph(sample, parts):
    parts = divided(sample, parts)
    s = sample.rand(sample.n, 3)
    for matrix, of in ((sample.block(), lambda op: op), (plain_normalise(sample.block()), Halo.normalise)):
        product, _ = compute(parts, lambda op, s, of=of: of(op) @ s, s)
        torch.testing.assert_close(product, matrix @ s)
        degree, _ = compute(parts, lambda op, s, of=of: of(op).degree_like(s), s)
        torch.testing.assert_close(degree, matrix.sum(1))


@given(GRAPHS, st.integers(1, 4))
@settings(max_examples=10)
def test_losses_and_their_gradients_are_those_of_the_whole_graph(sample, parts):
    parts = divided(sample, parts)
    logits = sample.rand(sample.n, 2, 3)  # two replicas

    def loss(op, logits):
        cut, ortho = replica_losses(op.normalise(), torch.softmax(logits, -1))
        smooth = (op.normalise() @ torch.softmax(logits, -1)).sin()
        first = torch.softmax(logits[:, 0], -1)
        public = mincut_loss(first, op) + orthogonality_loss(first, op) + op.layout.total(smooth).sum()
        return (cut * torch.tensor([1.0, 0.5], dtype=FLOAT)).sum() + 0.7 * ortho.sum() + public

    value, (gradient,) = compute(parts, loss, logits)
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n)
    check(value, gradient, lambda logits: loss(op, logits), logits)


@given(samples(graphs=(1, 1), nodes=(3, 12), connected=None, directed=True), st.integers(1, 4))
def test_an_asymmetric_matrix_sends_gradients_back(sample, parts):
    parts = divided(sample, parts)
    s, weight = sample.rand(sample.n, 2), sample.rand(sample.n, 2, salt=1)
    value, (gradient, _) = compute(
        parts, lambda op, s, w: summed(op, op @ s * w.detach()), s, weight, symmetric=False
    )
    torch.testing.assert_close(value, (sample.block() @ s * weight).sum())
    torch.testing.assert_close(gradient, sample.block().T @ weight)
    form, (gradient, *_) = compute(
        parts, lambda op, s: quadratic_form(op, s).square().sum(), s, symmetric=False
    )
    check(form, gradient, lambda s: (s.T @ sample.block() @ s).square().sum(), s)


def noting_exchanges(group):
    """The shapes of what a process sends from now on."""
    shapes, original = [], group.all_to_all
    group.all_to_all = lambda rows, *counts: shapes.append(tuple(rows.shape)) or original(rows, *counts)
    return shapes


def test_vmap_exchanges_once_for_all_replicas_and_training_once_a_step():
    sample = make_sample((8,), 2)
    parts = parts_of(sample.block(), np.arange(8) % 2)
    s = sample.rand(4, 8, 3)

    def run(group):
        part, exchanged = parts[group.rank], noting_exchanges(group)
        op = part_operator(part, group)
        own = s[:, torch.from_numpy(np.array(part.nodes))].requires_grad_()
        product = torch.func.vmap(lambda x: op @ x)(own)
        product.square().sum().backward()
        return product.detach(), own.grad, exchanged

    for part, (product, gradient, exchanged) in zip(parts, in_parts(2, run), strict=True):
        nodes = torch.from_numpy(np.array(part.nodes))
        torch.testing.assert_close(product, (sample.block() @ s)[:, nodes])
        torch.testing.assert_close(gradient, (2 * sample.block() @ (sample.block() @ s))[:, nodes])
        assert [columns for _, columns in exchanged] == [12, 12]  # 4 replicas x 3 columns; forward and back

    def train(group):
        op = part_operator(parts[group.rank], group, dtype=FLOAT).normalise()
        op.degree_like(torch.empty(0, dtype=FLOAT))  # constant; computed once
        exchanged = noting_exchanges(group)
        s = torch.softmax(sample.rand(4, 5), -1).requires_grad_()
        (mincut_loss(s, op) + orthogonality_loss(s, op)).backward()
        return exchanged

    for part, exchanged in zip(parts, in_parts(2, train), strict=True):
        assert exchanged == [(len(part.send), 5)]  # forward, and none backward


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
    pattern, _ = CSRPattern.from_coo(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))
    with pytest.raises(GraphError, match=r"2 rows and 3 columns.*got \[2, 2\]"):
        Halo(pattern, Exchange(group, 2, send, [0, 1], [0, 1]))
    with pytest.raises(GraphError, match="must not be negative"):
        Halo(pattern, Exchange(group, 2, send, [0, 1], [0, 0]), torch.tensor([-1.0, -1.0])).normalise()
