"""The evidence: information of tables of counts, the price of a table, words, and hand-made cases."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_strategies import (
    make_sample,
    plain_complexity,
    plain_evidence,
    plain_information,
    presence,
    samples,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap

from softcut import metrics
from softcut.ops import (
    Words,
    as_operator,
    entropy,
    evidence_loss,
    mutual_information,
)
from softcut.ops.information import multinomial_complexity, word_gain, word_gains, word_price
from softcut.ops.objectives import edge_count
from softcut.tables.kinds import WORD, kinds_of_columns


def exact_complexity(categories: int, n: int) -> float:
    """log C(K, n) from its definition: the largest likelihood of every way that n things can spread, summed."""

    def likelihood(h: int) -> float:
        return math.comb(n, h) * (h / n) ** h * ((n - h) / n) ** (n - h)

    one, two = 1.0, sum(likelihood(h) for h in range(n + 1))
    for k in range(1, categories):  # C(k + 2, n) = C(k + 1, n) + (n / k) C(k, n)
        one, two = two, two + n / k * one
    return math.log(one)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**20), st.sampled_from([0.0, 0.5]))
def test_mutual_information_is_the_sum_over_entries(rows, columns, seed, empty):
    generator = np.random.default_rng(seed)
    table = generator.random((rows, columns)) * (generator.random((rows, columns)) >= empty)
    got = mutual_information(torch.from_numpy(table))
    assert got.item() == pytest.approx(plain_information(table), abs=1e-12)
    assert 0 <= got + 1e-12 <= math.log(min(rows, columns)) + 2e-12


def test_gradients_of_information_and_entropy():
    table = torch.rand(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = (table + 0.1).requires_grad_()
    for function in (mutual_information, entropy):
        assert gradcheck(function, (table,))
        assert gradgradcheck(function, (table,))
    each = vmap(grad(mutual_information))(table.detach())
    (together,) = torch.autograd.grad(mutual_information(table).sum(), table)
    torch.testing.assert_close(each, together)


@given(samples(graphs=(1, 1), nodes=(3, 9)), st.integers(0, 99))
def test_on_hard_clusters_it_is_the_score_of_softcut_metrics(sample, seed):
    labels = np.random.default_rng(seed).integers(0, 3, sample.n)
    labels[:3] = [0, 1, 2]  # every cluster is used
    s, x, adj = torch.eye(3).double()[labels], presence(sample), sample.block()
    x = x[:, (x == 0).any(0)]  # the score leaves out what all nodes have
    kinds = kinds_of_columns(sp.csr_array(x.numpy()))
    for words in (None, x) if x.shape[1] and (kinds == WORD).all() else (None,):
        # The score divides by the entropy of the sizes, the objective by its root.
        loss = evidence_loss(s, sample.edge_index, sample.edge_weight, words=words)
        features = () if words is None else (sp.csr_array(x.numpy()),)
        judged = metrics.evidence(adj.numpy(), labels, *features)
        score = -loss / entropy(s.sum(0)).sqrt()
        assert score.item() == pytest.approx(judged, rel=1e-9, abs=1e-9)


# The price of a table.


@given(st.integers(1, 60), st.integers(1, 400))
def test_the_price_is_the_stochastic_complexity(categories, n):
    got = multinomial_complexity(categories, torch.tensor(float(n))).item()
    assert got == pytest.approx(exact_complexity(categories, n), abs=0.015)
    assert got == pytest.approx(plain_complexity(categories, n), rel=1e-12, abs=1e-12)


@given(
    st.integers(1, 5),
    st.integers(1, 7),
    st.sampled_from([0.05, 0.3, 1.0]),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_tables_and_prices_of_words(k, f, density, only_presence, seed):
    x = sp.random(9, f, density=density, random_state=seed, format="csr")
    used = (x.toarray() != 0).astype(float) if only_presence else x.toarray()
    s = torch.from_numpy(np.random.default_rng(seed).random((9, 2, k))).softmax(-1)
    plain_table, total = torch.einsum("nrk,nf->rkf", s, torch.from_numpy(used)), used.sum()
    # How often each word occurs, in units in which all of them occur as often as they are worth.
    count = total**2 / (used**2).sum() if total else 0.0
    each = count * used.sum(0) / total if total else np.zeros(f)
    price = sum(plain_complexity(k, n) for n in each)
    for given_x in (x, x.toarray(), sp.coo_array(x)):
        words = Words(given_x, presence=only_presence, dtype=torch.float64)
        torch.testing.assert_close(words.table(s), plain_table)
        torch.testing.assert_close(words.table(s[:, 0]), plain_table[0])
        np.testing.assert_allclose(words.counts.numpy(), each, rtol=1e-12, atol=1e-12)
        assert words.count == pytest.approx(count)
    assert words.price(k).item() == pytest.approx(price, rel=1e-12, abs=1e-12)
    assert word_price(k, words.counts).item() == pytest.approx(price, rel=1e-12, abs=1e-12)
    gains = word_gain(plain_table, words.count)  # the price is the same for every S
    torch.testing.assert_close(gains, word_gain(plain_table, words.count, words.price(k)))
    for r in range(2):
        gain = count * plain_information(plain_table[r].numpy()) - price if total else 0.0
        assert gains[r].item() == pytest.approx(gain, rel=1e-9, abs=1e-9)


@given(samples(graphs=(1, 1), nodes=(2, 9), connected=None), st.integers(1, 3))
def test_weighted_words_count_what_they_are_worth(sample, k):
    s, x = sample.assignments(k), sample.rand(sample.n, 3, salt=5).abs()
    got = evidence_loss(s, sample.edge_index, sample.edge_weight, words=x)
    assert got.item() == pytest.approx(-plain_evidence(sample.block(), s, x), rel=1e-9, abs=1e-9)
    words = Words(x.numpy(), presence=False, dtype=torch.float64)
    torch.testing.assert_close(evidence_loss(s, sample.edge_index, sample.edge_weight, words=words), got)
    torch.testing.assert_close(evidence_loss(s, sample.edge_index, sample.edge_weight, words=1e6 * x), got)


def test_weights_have_no_unit_and_equal_ones_count_edges():
    sample = make_sample((7,), seed=4, weighted=True)
    s = sample.assignments(3)
    edges = sample.edge_index
    first = evidence_loss(s, edges, sample.edge_weight)
    for scale in (1e-30, 1e3, 1e30):
        torch.testing.assert_close(evidence_loss(s, edges, scale * sample.edge_weight), first)
    equal = evidence_loss(s, edges, torch.full((edges.shape[1],), 3.0, dtype=torch.float64))
    torch.testing.assert_close(equal, evidence_loss(s, edges))
    assert edge_count(as_operator(edges, num_nodes=7)).item() == edges.shape[1] / 2


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("presence_only", [True, False])
def test_gradcheck_through_sparse_and_dense_words(density, presence_only):
    sample = make_sample((6,), seed=2)
    x = sp.random(6, 5, density=density, random_state=0, format="csr")
    words = Words(x, presence=presence_only, dtype=torch.float64)
    s = sample.assignments(2).requires_grad_()
    assert gradcheck(lambda s: evidence_loss(s, sample.edge_index, words=words), (s,))
    replicas = torch.stack([s.detach(), s.detach().flip(1).roll(1, 0)], 1).requires_grad_()
    assert gradcheck(words.table, (replicas,))


# Words.


def test_the_gains_of_single_words_add_up_to_the_information():
    table = torch.tensor([[5.0, 0.0, 2.0], [1.0, 4.0, 2.0]], dtype=torch.float64)
    gains = word_gains(table)
    shares = table.sum(1) / table.sum()
    plain = [
        sum(n * math.log(n / word.sum() / share) for n, share in zip(word, shares, strict=True) if n)
        for word in table.T
    ]
    torch.testing.assert_close(gains, torch.tensor(plain, dtype=torch.float64))
    torch.testing.assert_close(gains.sum(), table.sum() * mutual_information(table))


@pytest.mark.parametrize("matrix", ["zeros", "repeated"])
@pytest.mark.parametrize("presence_only", [True, False])
def test_stored_zeros_and_repeated_entries_are_what_they_add_up_to(matrix, presence_only):
    columns, values = ([0, 1, 1], [1, 0, 3]) if matrix == "zeros" else ([1, 1, 0], [1, 2, 1])
    given = sp.csr_array((np.array(values), np.array(columns), np.array([0, 2, 2, 3])), shape=(3, 2))
    before = given.data.copy()
    words, plain = (Words(x, presence=presence_only) for x in (given, given.toarray()))
    s = torch.rand(3, 2)
    torch.testing.assert_close(words.table(s), plain.table(s))
    assert (words.count, words.counts.tolist()) == (plain.count, plain.counts.tolist())
    assert np.array_equal(given.data, before)  # the caller's own


@pytest.mark.parametrize(
    ("entries", "value", "dense"),  # of 5 x 20; two operations for each one, four for each other number
    [(50, 1, False), (51, 1, True), (25, 2, False), (26, 2, True)],
)
def test_words_are_stored_in_the_form_that_takes_fewer_operations(entries, value, dense):
    x = np.zeros(100)
    x[:entries] = value
    words = Words(sp.csr_array(x.reshape(5, 20)), presence=False)
    assert any(isinstance(v, torch.Tensor) and v.shape == (5, 20) for v in vars(words).values()) == dense
    s = torch.rand(5, 3)
    torch.testing.assert_close(words.table(s), s.T @ torch.from_numpy(x.reshape(5, 20)).float())
