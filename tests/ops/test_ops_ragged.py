"""Batches of graphs: a ragged batch, a padded one and one graph at a time say the same; S'X, S'AS and S'S together."""

import pytest
import torch
from helpers.graph_strategies import OPERATOR_KINDS, make_operator, make_sample, presence, rows_for, samples
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from softcut.ops import (
    CSR,
    Dense,
    Segments,
    coarsen,
    dmon_loss,
    evidence_loss,
    just_balance_loss,
    lift,
    mincut_loss,
    orthogonality_loss,
    ratio_trace_loss,
    reduce,
)
from softcut.ops.coarsen import pooled_products

LOSSES = (mincut_loss, ratio_trace_loss, orthogonality_loss, dmon_loss, just_balance_loss, evidence_loss)
SIZES = [(3, 1, 4), (2, 0, 5), (0, 3), (4,), (17, 40, 1), (0, 0)]  # 40: several chunks a graph


def segments(sizes):
    return Segments(sum(sizes), torch.tensor([0, *sizes]).cumsum(0))


def split(x, sizes):
    return torch.split(x, list(sizes))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("replicas", [(), (3,)])
def test_the_four_operations_graph_by_graph(sizes, replicas):
    sample, layout, n = make_sample(sizes), segments(sizes), sum(sizes)
    a, b = sample.rand(n, *replicas, 2, salt=1), sample.rand(n, *replicas, 3, salt=2)
    m, v = sample.rand(len(sizes), *replicas, 2, 3, salt=3), sample.rand(n, *replicas, salt=4)
    g = sample.rand(len(sizes), *replicas, salt=5)
    parts = list(zip(split(a, sizes), split(b, sizes), strict=True))
    torch.testing.assert_close(layout.total(v), torch.stack([each.sum(0) for each in split(v, sizes)]))
    gram = [torch.einsum("n...k,n...f->...kf", left, right) for left, right in parts]
    torch.testing.assert_close(layout.gram(a, b), torch.stack(gram))
    moved = [torch.einsum("n...k,...kf->n...f", left, m[i]) for i, (left, _) in enumerate(parts)]
    torch.testing.assert_close(layout.matmul(a, m), torch.cat(moved))
    spread = [g[i].expand(size, *replicas) for i, size in enumerate(sizes)]
    torch.testing.assert_close(layout.spread(g).expand(n, *replicas), torch.cat(spread))
    if 0 < n < 20:
        for function, *inputs in (
            (layout.total, v),
            (layout.spread, g),
            (layout.gram, a, b),
            (layout.matmul, a, m),
        ):
            inputs = [each.clone().requires_grad_() for each in inputs]
            assert gradcheck(function, inputs, fast_mode=True)
            assert gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("sizes", [(3, 1, 4), (2, 0, 5), (4,)])
def test_peaks_of_every_graph_and_equal_ones_share_the_gradient(sizes):
    v = torch.tensor([[i * i % 5, i % 2] for i in range(sum(sizes))], dtype=torch.float64).requires_grad_()
    peak = segments(sizes).peak(v)
    plain = torch.stack([part.amax(0) if len(part) else part.sum(0) for part in split(v, sizes)])
    torch.testing.assert_close(peak, plain)
    torch.testing.assert_close(gradients([peak], (v,)), gradients([plain], (v,)))
    assert gradients([peak], (v,))[0].any()


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5)])
def test_sums_and_maxima_are_those_of_segment_reduce_to_the_bit(shape, dtype):
    sizes = (17, 0, 40, 1, 300)
    layout = Segments(sum(sizes), torch.tensor([0, *sizes]).cumsum(0).to(dtype))
    v = torch.rand(sum(sizes), *shape, generator=torch.Generator().manual_seed(0))
    for ours, name in ((layout.total, "sum"), (layout.peak, "max")):
        reduced = torch.segment_reduce(v, name, offsets=layout.ptr.long(), axis=0, initial=0)
        torch.testing.assert_close(ours(v), reduced, rtol=0, atol=0)


def test_a_batch_of_no_graphs():
    layout, rows = segments(()), torch.zeros(0, 2)
    assert (layout.num_graphs, layout.single) == (0, False)
    assert layout.total(rows).shape == (0, 2) and layout.gram(rows, rows).shape == (0, 2, 2)
    assert layout.matmul(rows, torch.zeros(0, 2, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("sizes", "k", "rows"),
    [
        ((5, 3), 9, 5),  # padded to the largest it is a quarter more
        ((1024, 1024), 9, 1024),
        ((0, 0), 9, 1),
        *(((6, 3), k, rows) for k, rows in ((1, 16), (16, 16), (17, 32), (129, 256), (600, 256))),
        ((1025, 1025), 64, 64),
    ],
)
def test_graphs_of_one_size_are_one_chunk_and_others_are_cut_by_the_number_of_columns(sizes, k, rows):
    assert segments(sizes).chunk_size(k) == rows


@pytest.mark.parametrize("sizes", [(3, 1, 4), (2, 0, 3), (4,)])
@pytest.mark.parametrize("which", ["both", "left", "right"])
def test_vmap_of_the_products_equals_a_loop(sizes, which):
    sample = make_sample(sizes)
    layout = segments(sizes)
    a, b = sample.rand(3, sample.n, 2, salt=1), sample.rand(3, sample.n, 4, salt=2)
    m = sample.rand(3, len(sizes), 2, 5, salt=3)
    dims = {"both": (0, 0), "left": (0, None), "right": (None, 0)}[which]
    for function, left, right in [(layout.gram, a, b), (layout.matmul, a, m)]:
        left, right = (t if d == 0 else t[0] for t, d in zip((left, right), dims, strict=True))
        loop = [
            function(left[i] if dims[0] == 0 else left, right[i] if dims[1] == 0 else right) for i in range(3)
        ]
        torch.testing.assert_close(torch.func.vmap(function, in_dims=dims)(left, right), torch.stack(loop))


def everything(s, x, words, adj, weight=None, **options):
    """All that the ops return for a batch."""
    pooled = coarsen(s, x, adj, weight, **options)
    losses = [loss(s, adj, weight, reduction="none", **options) for loss in LOSSES]
    own = {name: value for name, value in options.items() if name in ("batch", "mask")}
    return [
        *losses,
        evidence_loss(s, adj, weight, words=words, reduction="none", **options),
        orthogonality_loss(s, reduction="none", **own),
        pooled.x,
        pooled.adj.to_dense(),
    ]


def gradients(outputs, leaves):
    mixed = sum((out * torch.cos(torch.arange(out.numel()).view(out.shape) + 1.0)).sum() for out in outputs)
    return torch.autograd.grad(mixed, leaves, retain_graph=True, materialize_grads=True)


@given(samples(nodes=(1, 8), connected=None), st.integers(1, 5))
def test_ragged_equals_padded_equals_one_at_a_time(sample, k):
    logits, x = sample.rand(sample.n, k).requires_grad_(), sample.rand(sample.n, 3, salt=1).requires_grad_()
    s, words = logits.softmax(-1), presence(sample)
    ragged = everything(s, x, words, sample.edge_index, sample.edge_weight, batch=sample.batch)
    padded = everything(sample.pad(s), sample.pad(x), sample.pad(words), sample.padded(), mask=sample.mask)
    alone = []
    for i in range(len(sample.sizes)):
        one, rows = sample.single(i), sample.batch == i
        alone.append(everything(s[rows], x[rows], words[rows], one.edge_index, one.edge_weight))
    singles = [torch.cat(each) for each in zip(*alone, strict=True)]
    expected = gradients(singles, (logits, x))
    for other in (ragged, padded):
        torch.testing.assert_close(other, singles, atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(gradients(other, (logits, x)), expected, atol=1e-9, rtol=1e-9)


def test_a_graph_without_nodes_inside_a_batch():
    batch = torch.tensor([0, 0, 2, 2, 2])  # nobody in graph 1
    edge_index = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]])
    s = torch.rand(5, 2, dtype=torch.float64).softmax(-1).requires_grad_()
    values = everything(s, s * 2, torch.ones(5, 2), edge_index, batch=batch)
    assert all(v.shape[0] == 3 and not v[1].any() and v.isfinite().all() for v in values)
    (gradient,) = gradients(values, (s,))
    assert gradient.isfinite().all()
    assert gradient.any()


def test_padding_may_hold_anything():
    sample = make_sample((2, 5), seed=1)
    s, x, words = (sample.pad(t) for t in (sample.assignments(2), sample.rand(7, 3), presence(sample)))
    clean = everything(s, x, words, sample.padded(), mask=sample.mask)
    dirty = torch.where(sample.mask.unsqueeze(-1), s, torch.nan).requires_grad_()
    real = sample.mask.unsqueeze(-1) & sample.mask.unsqueeze(-2)
    adj = torch.where(real, sample.padded(), torch.nan)
    values = everything(dirty, x, words, adj, mask=sample.mask)
    torch.testing.assert_close(values, clean)
    (gradient,) = gradients(values, (dirty,))
    assert gradient[sample.mask].any()
    assert not gradient[~sample.mask].any()


def test_reduce_and_lift():
    sample = make_sample((3, 5, 2), seed=4, weighted=True)
    s, x = sample.assignments(3), sample.rand(sample.n, 2, salt=1)
    sparse = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n, batch=sample.batch)
    dense = Dense(sample.padded(), sample.mask)
    pooled = reduce(s, x, sparse)
    torch.testing.assert_close(pooled, sample.pad(s).mT @ sample.pad(x))
    torch.testing.assert_close(reduce(sample.pad(s), sample.pad(x), dense), pooled)
    lifted = lift(s, pooled, sparse)
    torch.testing.assert_close(sample.pad(lifted), sample.pad(s) @ pooled)
    torch.testing.assert_close(lift(sample.pad(s), pooled), sample.pad(lifted))
    torch.testing.assert_close(lift(s, pooled[0]), lift(s, pooled[:1]))  # one graph, [K, F] or [1, K, F]
    replicas = sample.rand(sample.n, 5, 3, salt=2)
    together = lift(replicas, torch.stack([pooled] * 5, 1), sparse)
    torch.testing.assert_close(together[:, 3], lift(replicas[:, 3], pooled, sparse))
    leaves = s.requires_grad_(), x.requires_grad_()
    small = pooled.detach().requires_grad_()
    assert gradcheck(lambda s, x: reduce(s, x, sparse), leaves)
    assert gradcheck(lambda s, x: lift(s, x, sparse), (s, small))
    assert gradcheck(lambda s, x: reduce(sample.pad(s), sample.pad(x), dense), leaves)
    assert gradcheck(lambda s, x: lift(sample.pad(s), x, dense), (s, small))


# The three products that a dense pooler needs, together.


def apart(op, s, x):
    return op.layout.gram(s, x), op.layout.gram(s, op @ s), op.layout.gram(s, s)


def check_against_each_by_itself(op, s, x):
    s, x = s.requires_grad_(), x.requires_grad_()
    got, expected = pooled_products(op, s, x), apart(op, s, x)
    torch.testing.assert_close(tuple(got), expected)
    for used in (slice(None), slice(0, 1), slice(1, 2), slice(2, 3)):  # all of the products, or one only
        torch.testing.assert_close(gradients(got[used], (s, x)), gradients(expected[used], (s, x)))


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


@pytest.mark.parametrize("kind", ["ragged", "ragged weighted", "ragged sum"])
@pytest.mark.parametrize("normalised", [False, True])
def test_gradcheck_on_unequal_graphs(kind, normalised):
    op, sample = make_operator(kind)
    op = op.normalise() if normalised else op
    s, x = sample.assignments(3).requires_grad_(), sample.rand(sample.n, 2, salt=1).requires_grad_()
    assert gradcheck(lambda s, x: tuple(pooled_products(op, s, x)), (s, x), check_batched_grad=True)
    assert gradgradcheck(lambda s, x: tuple(pooled_products(op, s, x)), (s, x))


def test_vmap_over_assignments():
    op, sample = make_operator("ragged sum")
    s, x = torch.stack([sample.assignments(3, salt=i) for i in range(4)]), sample.rand(sample.n, 2, salt=9)
    together = torch.func.vmap(lambda s: tuple(pooled_products(op, s, x)))(s)
    loop = [pooled_products(op, each, x) for each in s]
    torch.testing.assert_close(together, tuple(torch.stack(t) for t in zip(*loop, strict=True)))
