"""MinCutPool with the other objectives of the family: their losses, the graph they read, words."""

from __future__ import annotations

import pytest
import torch
from helpers.graph_strategies import make_sample
from torch.autograd import gradcheck

from softcut.errors import ParameterError
from softcut.nn import DMoNPool, JustBalancePool, MinCutPool, mincut_pool
from softcut.ops import dmon_loss, evidence_loss, just_balance_loss

LOSSES = {"dmon": dmon_loss, "just_balance": just_balance_loss, "evidence": evidence_loss}
NAMES = {"dmon": ["cluster", "spectral"], "just_balance": ["balance"], "evidence": ["evidence"]}


@pytest.fixture(scope="module")
def sample():
    return make_sample((4, 6, 1), seed=1, weighted=True)


def counts(sample):
    return (2 * sample.rand(sample.n, 3, salt=2)).abs().round()


def make(seed: int = 0, **options) -> MinCutPool:
    torch.manual_seed(seed)
    return MinCutPool(3, 2, 4, **options).double()


@pytest.mark.parametrize("objective", LOSSES)
@pytest.mark.parametrize("normalise", [True, False])
def test_the_losses_are_those_of_ops(sample, objective, normalise):
    out = make(objective=objective, normalise=normalise)(
        counts(sample), sample.edge_index, sample.edge_weight, sample.batch
    )
    expected = LOSSES[objective](out.s, sample.edge_index, sample.edge_weight, batch=sample.batch)
    assert sorted(out.losses) == NAMES[objective]
    torch.testing.assert_close(out.loss, expected)
    given = mincut_pool(
        counts(sample), sample.edge_index, out.s, edge_weight=sample.edge_weight, batch=sample.batch,
        objective=objective, normalise=normalise,
    )  # fmt: skip
    torch.testing.assert_close(given.loss, expected)
    torch.testing.assert_close(given.adj.to_dense(), out.adj.to_dense())


@pytest.mark.parametrize(("objective", "pool"), [("dmon", DMoNPool), ("just_balance", JustBalancePool)])
def test_the_poolers_of_their_own_share_the_losses(sample, objective, pool):
    torch.manual_seed(0)
    theirs = pool(3, 2, 4).double()
    ours = make(objective=objective, cut_weight=2.0, ortho_weight=5.0)
    a, b = (
        layer(counts(sample), sample.edge_index, sample.edge_weight, sample.batch) for layer in (ours, theirs)
    )
    torch.testing.assert_close(a.s, b.s)
    weights = {"spectral": 2.0, "balance": 2.0, "cluster": 5.0}
    for name, loss in b.graph_losses.items():
        torch.testing.assert_close(a.graph_losses[name], weights[name] * loss)
    if objective == "just_balance":
        torch.testing.assert_close(a.adj.to_dense(), b.adj.to_dense())


def test_words_count_where_they_are_asked_for(sample):
    x = counts(sample)
    arguments = (x, sample.edge_index, sample.edge_weight, sample.batch)
    edges, both = (
        make(objective="evidence")(*arguments),
        make(objective="evidence", count_words=True)(*arguments),
    )
    torch.testing.assert_close(edges.s, both.s)
    assert edges.losses["evidence"] != both.losses["evidence"]
    # The layer counts every word; presence is what ops.evidence_loss counts the same way.
    present = (x > 0).double()
    found = mincut_pool(
        present, sample.edge_index, both.s, edge_weight=sample.edge_weight, batch=sample.batch,
        objective="evidence", count_words=True,
    )  # fmt: skip
    expected = evidence_loss(both.s, sample.edge_index, sample.edge_weight, batch=sample.batch, words=present)
    torch.testing.assert_close(found.loss, expected)


def test_a_padded_batch_is_the_ragged_one(sample):
    for options in (
        {"objective": "dmon"},
        {"objective": "evidence"},
        {"objective": "evidence", "count_words": True},
    ):
        pool, x = make(**options), counts(sample)
        ragged = pool(x, sample.edge_index, sample.edge_weight, sample.batch)
        dense = pool(sample.pad(x), sample.padded(), mask=sample.mask)
        for name, loss in ragged.graph_losses.items():
            torch.testing.assert_close(dense.graph_losses[name], loss)
        torch.testing.assert_close(dense.x, ragged.x)


@pytest.mark.parametrize("objective", LOSSES)
def test_gradients_of_the_layer(sample, objective):
    pool, x = make(objective=objective, count_words=objective == "evidence"), counts(sample)
    names = [name for name, _ in pool.named_parameters()]
    values = tuple(p.detach().clone().requires_grad_() for p in pool.parameters())

    def loss(*values):
        return torch.func.functional_call(
            pool,
            dict(zip(names, values, strict=True)),
            (x, sample.edge_index, sample.edge_weight, sample.batch),
        ).loss

    assert gradcheck(loss, values)


@pytest.mark.parametrize("objective", LOSSES)
def test_a_second_level_reads_the_pooled_graph(sample, objective):
    torch.manual_seed(0)
    first, second = MinCutPool(3, 4, objective=objective), MinCutPool(3, 2, objective=objective)
    first, second = first.double(), second.double()
    below = first(counts(sample), sample.edge_index, sample.edge_weight, sample.batch)
    above = second(below.x, below.adj)
    torch.testing.assert_close(above.loss, LOSSES[objective](above.s, below.adj))
    (below.loss + above.loss).backward()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in first.parameters())


def test_options_that_make_no_sense(sample):
    with pytest.raises(ParameterError, match="count_words is an option of objective='evidence'"):
        MinCutPool(3, 2, count_words=True)
    with pytest.raises(ParameterError, match="objective must be one of"):
        MinCutPool(3, 2, objective="modularity")
    with pytest.raises(ParameterError, match="x must hold counts"):
        make(objective="evidence", count_words=True)(
            -counts(sample) - 1, sample.edge_index, batch=sample.batch
        )
    s = torch.full((sample.n, 2), 0.5).double()
    with pytest.raises(ParameterError, match="x must hold counts"):
        mincut_pool(-counts(sample) - 1, sample.edge_index, s, objective="evidence", count_words=True)
