"""The family of objectives: plain formulas, PyTorch Geometric, gradients, extreme graphs, replicas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample, rows_for, samples
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap
from torch_geometric.nn import DMoNPooling

from softcut import metrics
from softcut.errors import GraphError, ParameterError
from softcut.metrics.features_as_words import looks_like_words
from softcut.ops import (
    CSR,
    OBJECTIVES,
    ClusterTables,
    CSRPattern,
    Dense,
    Words,
    as_operator,
    dmon_loss,
    entropy,
    evidence_loss,
    get_objective,
    just_balance_loss,
    mincut_loss,
    mutual_information,
    orthogonality_loss,
    ratio_trace_loss,
)
from softcut.ops.gains import cluster_evidence
from softcut.ops.information import multinomial_complexity
from softcut.ops.objectives import edge_count, edge_gain, word_gain, word_price, word_table

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


# Plain formulas, entry by entry.


def plain_information(table) -> float:
    p = np.asarray(table, dtype=float)
    p = p / p.sum() if p.sum() else p
    found = 0.0
    for i, row in enumerate(p):
        for j, share in enumerate(row):
            if share > 0:
                found += share * math.log(share / (p[i].sum() * p[:, j].sum()))
    return found


def plain_entropy(sizes) -> float:
    p = np.asarray(sizes, dtype=float) / np.sum(sizes)
    return -sum(share * math.log(share) for share in p if share > 0)


def plain_complexity(categories: int, n: float) -> float:
    """log C(K, n) by the uniform approximation, with alpha = K / n, less 1 / (6 K) of Stirling's series."""
    if categories < 2 or n == 0:
        return 0.0
    alpha = categories / n
    c = 0.5 + 0.5 * math.sqrt(1 + 4 / alpha)
    bulk = n * (math.log(alpha) + (alpha + 2) * math.log(c) - 1 / c)
    return bulk - 0.5 * math.log(c + 2 / alpha) - 1 / (6 * categories)


def exact_complexity(categories: int, n: int) -> float:
    """log C(K, n) from its definition: the largest likelihood of every way that n things can spread, summed."""

    def likelihood(h: int) -> float:
        return math.comb(n, h) * (h / n) ** h * ((n - h) / n) ** (n - h)

    one, two = 1.0, sum(likelihood(h) for h in range(n + 1))
    for k in range(1, categories):  # C(k + 2, n) = C(k + 1, n) + (n / k) C(k, n)
        one, two = two, two + n / k * one
    return math.log(one)


def plain_evidence(adj, s, x=None, power=0.5) -> float:
    adj, s = adj.detach().numpy(), s.detach().numpy()
    n, k = s.shape
    gain = 0.0
    if adj.sum() > 0:
        edges = adj.sum() ** 2 / (adj**2).sum() / 2
        gain += edges * plain_information(s.T @ adj @ s) - plain_complexity(k * (k + 1) // 2, edges)
    if x is not None and x.sum() > 0:
        x = x.numpy()
        words = x.sum() ** 2 / (x**2).sum()
        each = words * x.sum(0) / x.sum()
        gain += words * plain_information(s.T @ x) - sum(plain_complexity(k, count) for count in each)
    return gain / (n * max(plain_entropy(s.sum(0)), 1e-6) ** power)


def plain_dmon(adj, s):
    d = adj.sum(1)
    n, k = s.shape
    collapse = math.sqrt(k) / n * s.sum(0).norm() - 1
    if d.sum() == 0:
        return collapse
    b = adj - torch.outer(d, d) / d.sum()
    return -torch.trace(s.T @ b @ s) / d.sum() + collapse


def presence(sample, words: int = 4):
    return (sample.rand(sample.n, words, salt=5) > 0.3).double()


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**20), st.sampled_from([0.0, 0.5]))
def test_mutual_information_is_the_sum_over_entries(rows, columns, seed, empty):
    generator = np.random.default_rng(seed)
    table = generator.random((rows, columns)) * (generator.random((rows, columns)) >= empty)
    got = mutual_information(torch.from_numpy(table))
    assert got.item() == pytest.approx(plain_information(table), abs=1e-12)
    assert 0 <= got + 1e-12 <= math.log(min(rows, columns)) + 2e-12


def test_mutual_information_of_tables_that_one_knows():
    tables = torch.stack([torch.eye(3), torch.ones(3, 3), torch.zeros(3, 3)]).double().requires_grad_()
    got = mutual_information(tables)
    torch.testing.assert_close(got, torch.tensor([math.log(3), 0.0, 0.0]).double())
    got.sum().backward()
    assert tables.grad.isfinite().all()
    assert not tables.grad[2].any()


def test_gradients_of_information_and_entropy():
    table = torch.rand(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = (table + 0.1).requires_grad_()
    for function in (mutual_information, entropy):
        assert gradcheck(function, (table,))
        assert gradgradcheck(function, (table,))
    each = vmap(grad(mutual_information))(table.detach())
    (together,) = torch.autograd.grad(mutual_information(table).sum(), table)
    torch.testing.assert_close(each, together)


@given(samples(graphs=(1, 1), nodes=(1, 9), connected=None), st.integers(1, 4), st.booleans())
def test_evidence_is_the_plain_formula(sample, k, with_words):
    s, x = sample.assignments(k), presence(sample)
    adj, words = sample.block(), x if with_words else None
    got = evidence_loss(s, sample.edge_index, sample.edge_weight, words=words)
    assert got.item() == pytest.approx(-plain_evidence(adj, s, words), rel=1e-9, abs=1e-9)
    if with_words:
        sparse = evidence_loss(s, sample.edge_index, sample.edge_weight, words=Words(x.numpy()))
        torch.testing.assert_close(sparse, got)


@given(samples(graphs=(1, 1), nodes=(1, 9), connected=None), st.integers(1, 4))
def test_modularity_and_balance_are_the_plain_formulas(sample, k):
    s, adj = sample.assignments(k), sample.block()
    torch.testing.assert_close(dmon_loss(s, sample.edge_index, sample.edge_weight), plain_dmon(adj, s))
    lengths = s.square().sum(0).sqrt().sum()
    torch.testing.assert_close(just_balance_loss(s, sample.edge_index), -lengths / math.sqrt(len(s) * k))


@given(samples(graphs=(1, 1), nodes=(2, 9)), st.integers(2, 4))
def test_dmon_is_that_of_pytorch_geometric(sample, k):
    logits = sample.rand(sample.n, k)
    peer = DMoNPooling(k, k).double()
    peer.mlp = torch.nn.Identity()
    _, _, _, spectral, _, cluster = peer(logits.unsqueeze(0), sample.block().unsqueeze(0))
    got = dmon_loss(logits.softmax(-1), sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(got, spectral + cluster)


def test_hard_clusters_of_one_s_own_graph_score_as_counted_by_hand():
    # Two squares: 4 edges each; labels say which square, and one word each.
    ring = torch.arange(8)
    edges = torch.cat([torch.stack([ring, ring ^ 1]), torch.stack([ring, ring ^ 2])], 1)
    s = torch.eye(2).double()[ring // 4]
    op = as_operator(edges, num_nodes=8, dtype=torch.float64)
    table = s.T @ s
    edges = 8 * math.log(2) - exact_complexity(
        3, 8
    )  # three kinds of edges: inside either square, and between
    words = 8 * math.log(2) - 2 * exact_complexity(2, 4)  # two words, four times each
    near = {"abs": 0.03}  # the approximation of the price is within .015 for each table
    assert edge_gain(s.T @ op.to_dense().double() @ s, edge_count(op)).item() == pytest.approx(edges, **near)
    assert word_gain(table, 8.0).item() == pytest.approx(words, **near)
    score = cluster_evidence(
        s.T @ op.to_dense().double() @ s, s.sum(0), table, num_edges=8, num_words=8, power=1.0
    )
    assert score.item() == pytest.approx((edges + words) / (8 * math.log(2)), abs=0.01)


@given(samples(graphs=(1, 1), nodes=(3, 9)), st.integers(0, 99))
def test_on_hard_clusters_it_is_the_score_of_softcut_metrics(sample, seed):
    labels = np.random.default_rng(seed).integers(0, 3, sample.n)
    labels[:3] = [0, 1, 2]  # every cluster is used
    s, x, adj = torch.eye(3).double()[labels], presence(sample), sample.block()
    op = as_operator(sample.edge_index, sample.edge_weight, num_nodes=sample.n, dtype=torch.float64)
    words = Words(x.numpy(), dtype=torch.float64)
    score = cluster_evidence(
        s.T @ adj @ s,
        s.sum(0),
        words.table(s),
        num_edges=edge_count(op)[0],
        num_words=words.count,
        power=1.0,
    )
    judged = metrics.evidence(adj.numpy(), labels, sp.csr_array(x.numpy()))
    if looks_like_words(sp.csr_array(x.numpy())):
        assert score.item() == pytest.approx(judged, rel=1e-9, abs=1e-9)
    edges_only = cluster_evidence(s.T @ adj @ s, s.sum(0), num_edges=edge_count(op)[0], power=1.0)
    assert edges_only.item() == pytest.approx(metrics.evidence(adj.numpy(), labels), rel=1e-9, abs=1e-9)


# The price of a table.


@given(st.integers(1, 60), st.integers(1, 400))
def test_the_price_is_the_stochastic_complexity(categories, n):
    got = multinomial_complexity(categories, torch.tensor(float(n))).item()
    assert got == pytest.approx(exact_complexity(categories, n), abs=0.015)
    assert got == pytest.approx(plain_complexity(categories, n), rel=1e-12, abs=1e-12)


def test_the_price_of_counts_that_one_knows():
    got = multinomial_complexity(2, torch.tensor([0, 1, 2]))  # whole numbers are counts as well
    assert got.dtype == torch.float64
    # None; log 2; two things: both in one (twice 1), or one in each (2 * 1/4).
    torch.testing.assert_close(
        got, torch.tensor([0.0, math.log(2), math.log(2.5)]).double(), atol=0.015, rtol=0
    )
    assert not multinomial_complexity(1, torch.tensor([5.0, 0.0])).any()
    rising = multinomial_complexity(3, torch.logspace(-3, 12, 200, dtype=torch.float64))
    assert (rising.diff() > 0).all()


def test_the_price_has_a_gradient():
    counts = torch.tensor([0.3, 1.0, 7.5, 60.0], dtype=torch.float64, requires_grad=True)
    for categories in (2, 3, 55):
        assert gradcheck(lambda n, k=categories: multinomial_complexity(k, n), (counts,))
        assert gradgradcheck(lambda n, k=categories: multinomial_complexity(k, n), (counts,))
    none = torch.zeros(2, requires_grad=True)
    (gradient,) = torch.autograd.grad(multinomial_complexity(4, none).sum(), none)
    assert not gradient.any()


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**20), st.booleans())
def test_prices_of_words(k, f, seed, only_presence):
    generator = np.random.default_rng(seed)
    x = generator.random((9, f)) * (generator.random((9, f)) > 0.6)
    used = (x > 0).astype(float) if only_presence else x
    words = Words(x, presence=only_presence, dtype=torch.float64)
    total = used.sum()
    # How often each word occurs, in units in which all of them occur as often as they are worth.
    count = total**2 / (used**2).sum() if total else 0.0
    each = count * used.sum(0) / total if total else np.zeros(f)
    np.testing.assert_allclose(words.counts.numpy(), each, rtol=1e-12, atol=1e-12)
    assert float(words.counts.sum()) == pytest.approx(words.count)
    expected = sum(plain_complexity(k, n) for n in each)
    assert words.price(k).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert word_price(k, words.counts).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    logits = torch.from_numpy(generator.random((9, 2, k)))
    table = words.table(logits.softmax(-1))  # [R, K, F]; the price is the same for every S
    got = word_gain(table, words.count)
    torch.testing.assert_close(got, word_gain(table, words.count, words.price(k)))
    for r in range(2):
        gain = words.count * plain_information(table[r].numpy()) - expected if total else 0.0
        assert got[r].item() == pytest.approx(gain, rel=1e-9, abs=1e-9)


@given(samples(graphs=(1, 1), nodes=(2, 9), connected=None), st.integers(1, 3))
def test_weighted_words_count_what_they_are_worth(sample, k):
    s, x = sample.assignments(k), sample.rand(sample.n, 3, salt=5).abs()
    got = evidence_loss(s, sample.edge_index, sample.edge_weight, words=x)
    assert got.item() == pytest.approx(-plain_evidence(sample.block(), s, x), rel=1e-9, abs=1e-9)
    words = Words(x.numpy(), presence=False, dtype=torch.float64)
    torch.testing.assert_close(evidence_loss(s, sample.edge_index, sample.edge_weight, words=words), got)
    torch.testing.assert_close(evidence_loss(s, sample.edge_index, sample.edge_weight, words=1e6 * x), got)


def test_gradients_do_not_change_with_a_price_that_is_known():
    """Rows of S sum to one, so counts of words are the same for every S: a fixed price has the same gradient."""
    sample = make_sample((8,), seed=5, weighted=True)
    words = Words(presence(sample).numpy(), dtype=torch.float64)
    op = as_operator(sample.edge_index, sample.edge_weight, num_nodes=8, dtype=torch.float64)
    found = []
    for price in (None, words.price(3)):
        logits = sample.rand(8, 3).requires_grad_()
        s = logits.softmax(-1)
        table, count = word_table(op, s, words)
        tables = ClusterTables(op, s, words=table, num_words=count, words_price=price)
        (loss,) = get_objective("evidence").losses(tables)
        found.append((loss.detach(), *torch.autograd.grad(loss.sum(), logits)))
    torch.testing.assert_close(*found)


def test_sizes_to_hold_on_to_add_the_orthogonality_term():
    sample = make_sample((8,), seed=5)
    op = as_operator(sample.edge_index, num_nodes=8, dtype=torch.float64)
    s = torch.stack([sample.assignments(3, salt=r) for r in range(2)], 1)
    target = torch.tensor([[4.0, 3.0, 1.0], [2.0, 3.0, 3.0]]).double()
    losses = get_objective("evidence").losses(ClusterTables(op, s, target=target))
    torch.testing.assert_close(losses[0], evidence_loss(s, op).unsqueeze(0))
    for r in range(2):
        gram, held = s[:, r].T @ s[:, r], target[r] / target[r].norm()
        torch.testing.assert_close(losses[1][0, r], (gram / gram.norm() - torch.diag(held)).norm())


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


# The family by name.


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_named_objective_is_the_sum_of_the_losses(kind, objective):
    op, sample = make_operator(kind)
    s = rows_for(op, sample, sample.assignments(3))
    chosen = get_objective(objective)
    used = op.normalise() if chosen.normalised else op
    losses = chosen.losses(ClusterTables(used, s))
    assert len(losses) == len(chosen.names)
    expected = {
        "mincut": lambda: mincut_loss(s, op, reduction="none") + orthogonality_loss(s, op, reduction="none"),
        "ratio_trace": lambda: (
            ratio_trace_loss(s, op, reduction="none") + orthogonality_loss(s, op, reduction="none")
        ),
        "dmon": lambda: dmon_loss(s, op, reduction="none"),
        "just_balance": lambda: just_balance_loss(s, op, reduction="none"),
        "evidence": lambda: evidence_loss(s, op, reduction="none"),
    }[objective]()
    torch.testing.assert_close(torch.stack(losses).sum(0), expected)


def test_a_name_that_does_not_exist():
    with pytest.raises(ParameterError, match=r"objective must be one of mincut, .*evidence, got 'cut'"):
        get_objective("cut")


NEW = {"dmon": dmon_loss, "just_balance": just_balance_loss, "evidence": evidence_loss}


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("name", NEW)
def test_gradcheck(kind, name):
    op, sample = make_operator(kind)
    leaf = sample.assignments(2).requires_grad_()
    options = {"words": rows_for(op, sample, presence(sample))} if name == "evidence" else {}

    def loss(s):
        return NEW[name](rows_for(op, sample, s), op, reduction="none", **options)

    assert gradcheck(loss, (leaf,))
    if kind in ("binary", "ragged weighted", "dense symmetric"):
        assert gradgradcheck(loss, (leaf,))


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


def test_gradcheck_with_learned_edge_weights():
    sample = make_sample((4, 3), seed=1, weighted=True)
    s, weight = sample.assignments(2).requires_grad_(), sample.edge_weight.clone().requires_grad_()
    for loss in (dmon_loss, evidence_loss):
        assert gradcheck(lambda s, w, f=loss: f(s, sample.edge_index, w, batch=sample.batch), (s, weight))


@given(samples(graphs=(2, 4), nodes=(1, 6), connected=None), st.integers(1, 3))
def test_batches_are_their_graphs(sample, k):
    s, x = sample.assignments(k), presence(sample)
    for name, loss in NEW.items():
        rows = {"words": x} if name == "evidence" else {}
        padded = {"words": sample.pad(x)} if name == "evidence" else {}
        got = loss(s, sample.edge_index, sample.edge_weight, batch=sample.batch, reduction="none", **rows)
        dense = loss(sample.pad(s), sample.padded(), mask=sample.mask, reduction="none", **padded)
        torch.testing.assert_close(dense, got)
        for graph, start in enumerate(sample.ptr[:-1].tolist()):
            single, own = sample.single(graph), slice(start, start + sample.sizes[graph])
            rows = {"words": x[own]} if name == "evidence" else {}
            alone = loss(s[own], single.edge_index, single.edge_weight, **rows)
            torch.testing.assert_close(got[graph], alone)


@pytest.mark.parametrize("name", NEW)
def test_replicas_are_columns(name):
    sample = make_sample((8,), seed=5, weighted=True)
    s = torch.stack([sample.assignments(3, salt=r) for r in range(4)], 1)
    x = presence(sample)
    for words in (x, Words(x.numpy(), dtype=torch.float64)) if name == "evidence" else (None,):
        options = {} if words is None else {"words": words}
        got = NEW[name](s, sample.edge_index, sample.edge_weight, **options)
        alone = [NEW[name](s[:, r], sample.edge_index, sample.edge_weight, **options) for r in range(4)]
        torch.testing.assert_close(got, torch.stack(alone))


# Extremes: finite values and gradients.


def extreme_graphs():
    none = torch.zeros(2, 0, dtype=torch.long)
    yield "one node", none, 1
    yield "no edges", none, 4
    yield "isolated nodes", PATH, 5
    yield "a loop", torch.tensor([[0], [0]]), 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("edges", "n"), [(e, n) for _, e, n in extreme_graphs()])
@pytest.mark.parametrize("start", ["soft", "uniform", "one cluster", "hard", "saturated"])
@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("k", [1, 3])
def test_extremes_are_finite(dtype, edges, n, start, name, k):
    logits = torch.randn(n, k, dtype=dtype, generator=torch.Generator().manual_seed(0))
    if start == "uniform":
        logits = torch.zeros(n, k, dtype=dtype)
    if start == "one cluster":
        logits = torch.zeros(n, k, dtype=dtype)
        logits[:, 0] = 1e4
    if start in ("hard", "saturated"):
        logits = logits * (1e4 if start == "hard" else 30)
    logits.requires_grad_()
    for words in (None, torch.zeros(n, 2), torch.eye(n)[:, :2]) if name == "evidence" else (None,):
        options = {} if name != "evidence" else {"words": words}
        loss = NEW[name](logits.softmax(-1), edges, **options)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_nothing_to_explain_is_no_evidence():
    s = torch.eye(3).softmax(-1)
    none = torch.zeros(2, 0, dtype=torch.long)
    assert evidence_loss(s, none).item() == 0
    assert evidence_loss(s, none, words=torch.zeros(3, 2)).item() == 0
    assert evidence_loss(torch.ones(3, 1), PATH, words=torch.eye(3)).abs().item() < 1e-6


def test_one_cluster_is_the_worst_and_the_true_ones_are_the_best():
    sample = make_sample((12,), seed=0, density=0.9)
    block = torch.block_diag(*[torch.ones(6, 6).double() - torch.eye(6).double()] * 2)
    true = torch.eye(2).double()[torch.arange(12) // 6]
    single = torch.tensor([[1.0, 0.0]]).double().expand(12, 2)
    losses = {
        "true": evidence_loss(true, block),
        "random": evidence_loss(sample.assignments(2), block),
        "one": evidence_loss(single, block),
    }
    assert losses["true"] < 0 < losses["random"] < losses["one"]


def test_autocast_leaves_the_losses_in_full_precision():
    sample = make_sample((8,), seed=3)
    s, x = sample.assignments(3).float(), presence(sample).float()
    for name, loss in NEW.items():
        options = {"words": x} if name == "evidence" else {}
        plain = loss(s, sample.edge_index, **options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = loss(s, sample.edge_index, **options)
        assert inside.dtype == torch.float32
        assert torch.equal(inside, plain)


@pytest.mark.parametrize("loss", [mincut_loss, *NEW.values()])
def test_compiles_whole(loss):
    sample = make_sample((5,), seed=3)
    op = as_operator(sample.edge_index, num_nodes=sample.n)
    s = sample.assignments(2).float()
    compiled = torch.compile(lambda s: loss(s, op), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(s), loss(s, op))


def test_under_torch_func():
    sample = make_sample((6,), seed=3)
    words = Words(presence(sample).numpy(), dtype=torch.float64)
    s = torch.stack([sample.assignments(2, salt=r) for r in range(3)])

    def loss(s):
        return evidence_loss(s, sample.edge_index, words=words)

    got = vmap(grad(loss))(s)
    for r in range(3):
        leaf = s[r].clone().requires_grad_()
        torch.testing.assert_close(got[r], torch.autograd.grad(loss(leaf), leaf)[0])


# Words.


@given(
    st.integers(1, 6), st.integers(1, 7), st.sampled_from([0.05, 0.3, 1.0]), st.booleans(), st.integers(0, 99)
)
def test_words_are_the_dense_product(n, f, density, only_presence, seed):
    x = sp.random(n, f, density=density, random_state=seed, format="csr")
    s = torch.rand(n, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    used = (x.toarray() != 0).astype(float) if only_presence else x.toarray()
    for given_x in (x, x.toarray(), sp.coo_array(x)):
        words = Words(given_x, presence=only_presence, dtype=torch.float64)
        expected = torch.einsum("nrk,nf->rkf", s, torch.from_numpy(used))
        torch.testing.assert_close(words.table(s), expected)
        torch.testing.assert_close(words.table(s[:, 0]), expected[0])
        squares = (used**2).sum()
        assert words.count == pytest.approx(used.sum() ** 2 / squares if squares else 0.0)


def test_words_keep_a_sparse_matrix_sparse():
    """A dense copy of a large vocabulary would not fit: neither the object nor a step makes one."""
    n, f = 3000, 500_000
    generator = np.random.default_rng(0)
    row, col = np.arange(15_000) // 5, generator.integers(0, f, 15_000)
    x = sp.csr_array((np.ones(15_000), (row, col)), shape=(n, f))
    words = Words(x)
    held = {name: v for name, v in vars(words).items() if isinstance(v, torch.Tensor | CSRPattern)}
    assert held.pop("counts").shape == (f,)  # a number for each word
    assert held
    assert all(isinstance(v, CSRPattern) for v in held.values())
    assert Words(np.ones((3, 2))).table(torch.eye(3)).shape == (3, 2)
    assert words.table(torch.ones(n, 1)).sum().item() == x.nnz


def test_words_that_are_none():
    for bad in (np.array([[1.0, -1.0]]), np.array([[np.nan, 1.0]])):
        with pytest.raises(GraphError, match="x must hold counts of words"):
            Words(bad)
    with pytest.raises(GraphError, match="x must be a matrix with a row per node"):
        Words(np.ones(3))
    words = Words(np.eye(3))
    with pytest.raises(GraphError, match="a row for each of the 3 nodes"):
        words.table(torch.eye(2))
    s = torch.full((3, 2), 0.5)
    with pytest.raises(GraphError, match="words must hold counts, which are not negative, got -1"):
        evidence_loss(s, PATH, words=-torch.eye(3))
    with pytest.raises(GraphError, match="words must have the rows of s"):
        evidence_loss(s, PATH, words=torch.eye(2))
    with pytest.raises(GraphError, match="not a Words object"):
        evidence_loss(s, PATH[:, :2], batch=torch.tensor([0, 0, 1]), words=words)


def test_negative_weights_are_refused():
    weight = torch.tensor([-1.0, -1.0, 1.0, 1.0])
    for loss in (dmon_loss, evidence_loss):
        with pytest.raises(GraphError, match="must not be negative"):
            loss(torch.full((3, 2), 0.5), PATH, weight)


def test_tables_of_a_dense_batch_with_words():
    op = Dense(torch.ones(2, 3, 3), torch.tensor([[True] * 3, [True, True, False]]))
    s = torch.softmax(torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0)), -1)
    s = s * op.mask.unsqueeze(-1)
    words = torch.ones(2, 3, 1)
    table, count = word_table(op, s, words)
    torch.testing.assert_close(table.squeeze(-1), s.sum(1))
    assert count.tolist() == [3.0, 2.0]  # the padded row holds no word
    assert isinstance(as_operator(PATH, num_nodes=3), CSR)
