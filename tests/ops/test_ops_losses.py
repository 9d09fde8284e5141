"""The losses and the pooled adjacency: formulas, gradients, intervals, costs, replicas."""

from __future__ import annotations

import math
import weakref

import pytest
import torch
from helpers.graph_strategies import (
    OPERATOR_KINDS,
    make_operator,
    make_sample,
    plain_cut,
    plain_normalise,
    plain_orthogonality,
    plain_pool,
    rows_for,
    samples,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from softcut.ops import (
    CSR,
    Dense,
    Sum,
    as_operator,
    coarsen,
    cut_terms,
    lift_adjacency,
    mincut_loss,
    orthogonality_loss,
    pooled_adjacency,
    quadratic_form,
    ratio_trace_loss,
)
from softcut.ops.cut import takes_fast_path
from softcut.ops.orthogonality import self_gram

# Formulas.


def largest_orthogonality(k):
    """L_o where all nodes are in one of K clusters."""
    return math.sqrt(2 - 2 / math.sqrt(k))


@given(samples(graphs=(1, 1), nodes=(1, 9), connected=None, directed=None), st.integers(1, 4))
def test_the_paper_s_formulas(sample, k):
    s, x = sample.assignments(k), sample.rand(sample.n, 2, salt=1)
    adj = plain_normalise(sample.block())
    torch.testing.assert_close(mincut_loss(s, sample.edge_index, sample.edge_weight), plain_cut(adj, s))
    torch.testing.assert_close(orthogonality_loss(s), plain_orthogonality(s), atol=1e-9, rtol=1e-9)
    pooled = coarsen(s, x, sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(pooled.x[0], s.T @ x)
    torch.testing.assert_close(pooled.adj.to_dense()[0], plain_pool(adj, s))
    assert pooled.adj.normalised
    a_rec = lift_adjacency(s, pooled.adj.to_dense()[0])
    torch.testing.assert_close(a_rec, s @ plain_pool(adj, s) @ s.T)


@given(samples(graphs=(1, 1)), st.integers(1, 4))
def test_the_classic_objective(sample, k):
    s, adj, ridge = sample.assignments(k), plain_normalise(sample.block()), 0.03
    volume = s.T @ torch.diag(adj.sum(-1)) @ s
    volume = volume + ridge * volume.diagonal().mean() * torch.eye(k, dtype=s.dtype)
    expected = -torch.trace(torch.linalg.inv(volume) @ (s.T @ adj @ s)) / k
    got = ratio_trace_loss(s, sample.edge_index, sample.edge_weight, ridge=ridge)
    torch.testing.assert_close(got, expected)


def test_the_classic_objective_can_be_positive():
    # Two separate edges, three clusters along their two sides: eigenvalues 1, -1, -1.
    side, other = torch.tensor([1.0, -1, 0, 0]), torch.tensor([0.0, 0, 1, -1])
    s = 1 / 3 + torch.stack([0.3 * side, 0.3 * other, -0.3 * (side + other)], 1).double()
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    assert ratio_trace_loss(s, edges, ridge=0.0).item() == pytest.approx(1 / 3)


def test_values_one_can_check_by_hand():
    two_edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    apart = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    across = torch.tensor([[1.0, 0], [0, 1], [1, 0], [0, 1]])
    uniform = torch.full((4, 2), 0.5)
    for s, cut, ortho in [(apart, -1.0, 0.0), (across, 0.0, 0.0), (uniform, -1.0, largest_orthogonality(2))]:
        assert mincut_loss(s, two_edges).item() == pytest.approx(cut)
        assert orthogonality_loss(s).item() == pytest.approx(ortho)
    crossed = coarsen(across, apart, two_edges).adj.to_dense()
    torch.testing.assert_close(crossed, torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]))
    assert not coarsen(apart, apart, two_edges).adj.to_dense().any()


@given(samples(graphs=(1, 1), nodes=(2, 8)), st.randoms(use_true_random=False))
def test_the_numbering_of_nodes_does_not_matter(sample, random):
    order = torch.tensor(random.sample(range(sample.n), sample.n))
    place = order.argsort()  # node i now stands at place[i]
    s, x = sample.assignments(3), sample.rand(sample.n, 2)
    moved = place[sample.edge_index]
    for loss in (mincut_loss, ratio_trace_loss):
        torch.testing.assert_close(
            loss(s[order], moved, sample.edge_weight), loss(s, sample.edge_index, sample.edge_weight)
        )
    before, after = (
        coarsen(s, x, sample.edge_index, sample.edge_weight),
        coarsen(s[order], x[order], moved, sample.edge_weight),
    )
    torch.testing.assert_close(after.x, before.x)
    torch.testing.assert_close(after.adj.to_dense(), before.adj.to_dense())
    # and the numbering of clusters permutes the result
    turned = coarsen(s.flip(1), x, sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(turned.x, before.x.flip(1))
    torch.testing.assert_close(turned.adj.to_dense(), before.adj.to_dense().flip(1, 2))


# Gradients.


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_gradcheck(kind):
    op, sample = make_operator(kind)
    normal = op.normalise()
    assert takes_fast_path(normal) == (kind not in ("asymmetric", "dense", "dense masked"))
    leaf = sample.assignments(2).requires_grad_()
    features = sample.rand(sample.n, 2, salt=1).requires_grad_()

    def of(function):
        return lambda s: function(rows_for(op, sample, s))

    for function in (
        lambda s: cut_terms(op, s),
        lambda s: cut_terms(normal, s),
        lambda s: quadratic_form(normal, s),
        lambda s: self_gram(op.layout, s),
        lambda s: mincut_loss(s, op, reduction="none"),
        lambda s: ratio_trace_loss(s, op, reduction="none"),
        lambda s: orthogonality_loss(s, op, reduction="none"),
    ):
        assert gradcheck(of(function), (leaf,))

    def pooled(s, x):
        out = coarsen(rows_for(op, sample, s), rows_for(op, sample, x), op)
        return out.x, out.adj.to_dense()

    assert gradcheck(pooled, (leaf, features))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("sizes", [(4,), (3, 2)])
def test_gradcheck_with_learned_edge_weights(directed, sizes):
    sample = make_sample(sizes, seed=1, weighted=True, directed=directed)
    s, weight = sample.assignments(2).requires_grad_(), sample.edge_weight.clone().requires_grad_()
    edges, batch = sample.edge_index, sample.batch
    fixed = CSR.from_edge_index(edges, num_nodes=sample.n, batch=batch)

    def total(s, w):
        return mincut_loss(s, Sum([CSR.from_edge_index(edges, w, sample.n, batch=batch), fixed]))

    assert gradcheck(lambda s, w: mincut_loss(s, edges, w, batch=batch), (s, weight))
    assert gradcheck(lambda s, w: ratio_trace_loss(s, edges, w, batch=batch), (s, weight))
    assert gradcheck(lambda s, w: coarsen(s, s, edges, w, batch=batch).adj.to_dense(), (s, weight))
    assert gradcheck(total, (s, weight))


def test_gradcheck_with_a_learned_dense_adjacency():
    sample = make_sample((4,), seed=1, weighted=True)
    s, adj = sample.assignments(2).requires_grad_(), sample.block().requires_grad_()
    assert gradcheck(mincut_loss, (s, adj))
    # "symmetric" promises a symmetric matrix, not a constant one
    assert gradcheck(lambda s, a: mincut_loss(s, Dense(a + a.T, symmetric=True)), (s, adj))
    assert gradcheck(lambda s, a: coarsen(s, s, a).adj.to_dense(), (s, adj))


@given(samples(graphs=(1, 1), directed=True), st.integers(2, 4))
def test_an_asymmetric_graph_gets_the_gradient_of_the_dense_formula(sample, k):
    s = sample.assignments(k).requires_grad_()
    adj = plain_normalise(sample.block())
    mixing = sample.rand(k, k, salt=3)
    ours = (
        mincut_loss(s, sample.edge_index, sample.edge_weight)
        + (coarsen(s, s, sample.edge_index, sample.edge_weight).adj.to_dense()[0] * mixing).sum()
    )
    plain = plain_cut(adj, s) + (plain_pool(adj, s) * mixing).sum()
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(torch.autograd.grad(ours, s), torch.autograd.grad(plain, s))


@pytest.mark.parametrize("kind", ["binary", "ragged weighted", "sum", "dense symmetric"])
def test_second_derivatives_through_the_saved_product_are_right(kind):
    op, sample = make_operator(kind)
    normal = op.normalise()
    assert takes_fast_path(normal)
    leaf = sample.assignments(2).requires_grad_()

    def of(function):
        return lambda s: function(rows_for(op, sample, s))

    assert gradgradcheck(of(lambda s: cut_terms(normal, s)), (leaf,))
    assert gradgradcheck(of(lambda s: quadratic_form(normal, s)), (leaf,))
    assert gradgradcheck(of(lambda s: self_gram(op.layout, s)), (leaf,))
    assert gradgradcheck(of(lambda s: mincut_loss(s, normal)), (leaf,))


@pytest.mark.parametrize("kind", ["binary", "ragged weighted", "sum", "dense symmetric"])
def test_a_backward_pass_that_may_be_repeated_leaves_the_saved_product_alone(kind):
    op, sample = make_operator(kind)
    leaf = sample.assignments(2).requires_grad_()
    before = leaf.detach().clone()

    def loss():
        return mincut_loss(rows_for(op, sample, leaf), op)

    (last,) = torch.autograd.grad(loss(), leaf)  # may write over what it saved
    kept = loss()
    (first,) = torch.autograd.grad(kept, leaf, retain_graph=True)
    (again,) = torch.autograd.grad(kept, leaf, retain_graph=True)
    (end,) = torch.autograd.grad(kept, leaf)
    for gradient in (first, again, end):
        torch.testing.assert_close(gradient, last)
    assert torch.equal(leaf.detach(), before)
    with pytest.raises(RuntimeError, match="second time"):
        kept.backward()


def test_batches_of_gradients():
    sample = make_sample((5,), seed=3)
    s = sample.assignments(2).requires_grad_()
    loss = mincut_loss(s, sample.edge_index, reduction="none")
    v = torch.tensor([[1.0], [2.0]], dtype=loss.dtype)
    (got,) = torch.autograd.grad(loss, s, v, is_grads_batched=True)
    (one,) = torch.autograd.grad(mincut_loss(s, sample.edge_index), s)
    torch.testing.assert_close(got, torch.stack([one, 2 * one]))


def test_the_gradient_is_written_over_nothing_that_others_hold():
    sample = make_sample((5,), seed=3)
    s = sample.assignments(2).requires_grad_()
    (expected,) = torch.autograd.grad(mincut_loss(s, sample.edge_index), s)
    held = []

    def pack(t):
        held.append((t, t.clone()))
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = mincut_loss(s, sample.edge_index)
    (got,) = torch.autograd.grad(loss, s)
    torch.testing.assert_close(got, expected)
    assert held
    assert all(torch.equal(t, before) for t, before in held)

    class Identity(Dense):
        def matmul(self, s):
            return s

    eye = Identity(torch.eye(4, dtype=torch.float64).unsqueeze(0), symmetric=True, normalised=True)
    leaf = torch.rand(1, 4, 2, dtype=torch.float64).requires_grad_()
    before = leaf.detach().clone()
    num, _ = cut_terms(eye, leaf)
    num.sum().backward()
    assert torch.equal(leaf.detach(), before)
    torch.testing.assert_close(leaf.grad, 2 * before)


def test_second_derivatives_under_torch_func():
    sample = make_sample((5,), seed=3)
    s, adj = sample.assignments(2), plain_normalise(sample.block())

    def curvature(loss):
        return grad(lambda s: grad(loss)(s).square().sum())(s)

    got = curvature(lambda s: mincut_loss(s, sample.edge_index))
    torch.testing.assert_close(
        got, curvature(lambda s: -(s * (adj @ s)).sum() / (s * s * adj.sum(1)[:, None]).sum())
    )
    got = curvature(lambda s: orthogonality_loss(s))
    torch.testing.assert_close(got, curvature(plain_orthogonality))


def test_torch_func_sees_learned_weights_and_pooled_graphs():
    sample = make_sample((6,), seed=3, weighted=True)
    s, edges = sample.assignments(3), sample.edge_index

    def twice(s, weight):
        pooled = coarsen(s, s, edges, weight)
        return mincut_loss(pooled.x[0].softmax(-1), pooled.adj)

    weight = sample.edge_weight.clone().requires_grad_()
    leaf = s.clone().requires_grad_()
    expected = torch.autograd.grad(twice(leaf, weight), (leaf, weight))
    torch.testing.assert_close(grad(twice, argnums=(0, 1))(s, sample.edge_weight), expected)
    many = vmap(grad(twice, argnums=(0, 1)), in_dims=(0, None))(
        torch.stack([s.flip(1), s]), sample.edge_weight
    )
    torch.testing.assert_close((many[0][1], many[1][1]), expected)
    # the other way round: a gradient of a vmap, whose pooled graphs differ between the replicas
    both = torch.stack([s.flip(1), s])
    outside = grad(lambda s, w: vmap(twice, in_dims=(0, None))(s, w).sum(), argnums=(0, 1))
    torch.testing.assert_close(outside(both, sample.edge_weight)[0][1], expected[0])
    torch.testing.assert_close(outside(both[1:], sample.edge_weight)[1], expected[1])
    values = vmap(twice, in_dims=(0, None))(both, sample.edge_weight)
    torch.testing.assert_close(values, torch.stack([twice(each, sample.edge_weight) for each in both]))


def test_a_frozen_pooled_graph_remembers_that_it_is_asymmetric():
    sample = make_sample((6,), seed=3, directed=True, weighted=True)
    with torch.no_grad():
        pooled = coarsen(sample.assignments(4), sample.rand(6, 2), sample.edge_index, sample.edge_weight)
    s = sample.assignments(3)[:4].clone().requires_grad_()
    dense = pooled.adj.to_dense()[0]
    assert not torch.allclose(dense, dense.T)
    got, expected = mincut_loss(s, pooled.adj), plain_cut(dense, s)
    torch.testing.assert_close(torch.autograd.grad(got, s), torch.autograd.grad(expected, s))


# Degenerate graphs, and intervals.


def degenerate(dtype):
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    soft = torch.rand(3, 2, dtype=dtype, generator=torch.Generator().manual_seed(0)).softmax(-1)
    hard = torch.tensor([[1.0, 0], [1, 0], [1, 0]], dtype=dtype)
    nearly = torch.tensor([[1.0, 1e-36], [1, 1e-37], [1, 1e-36]], dtype=dtype)
    wide = torch.rand(3, 8, dtype=dtype, generator=torch.Generator().manual_seed(1)).softmax(-1)
    huge = torch.full((4,), 1e30 if dtype == torch.float32 else 1e150, dtype=dtype)
    return {
        "isolated nodes": (soft, path[:, :2], None),
        "no edges": (soft, no_edges, None),
        "one node": (soft[:1], no_edges, None),
        "one node with a loop": (soft[:1], torch.zeros(2, 1, dtype=torch.long), None),
        "no nodes": (soft[:0], no_edges, None),
        "a cluster nobody chose": (hard, path, None),
        "a cluster with next to nothing": (nearly, path, None),
        "one cluster": (soft[:, :1] * 0 + 1, path, None),
        "more clusters than nodes": (wide, path, None),
        "huge weights": (soft, path, huge),
        "tiny weights": (soft, path, 1 / huge),
        "zero weights": (soft, path, 0 * huge),
        "hard and balanced": (torch.eye(3, dtype=dtype), path, None),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["sparse", "dense"])
@pytest.mark.parametrize("name", list(degenerate(torch.float32)))
def test_degenerate_graphs_have_finite_losses_and_gradients(name, layout, dtype):
    s, adj, weight = degenerate(dtype)[name]
    if layout == "dense":
        values = torch.ones(adj.shape[1], dtype=dtype) if weight is None else weight
        adj = torch.zeros(s.shape[0], s.shape[0], dtype=dtype).index_put(tuple(adj), values, accumulate=True)
        weight = None
    s = s.clone().requires_grad_()
    k, rounding = s.shape[1], 16 * torch.finfo(dtype).eps
    pooled = coarsen(s, s * 2, adj, weight)
    cut, ortho = mincut_loss(s, adj, weight), orthogonality_loss(s)
    outputs = (cut, ratio_trace_loss(s, adj, weight), ortho, pooled.x, pooled.adj.to_dense())
    for output in outputs:
        assert output.dtype == dtype
        assert output.isfinite().all()
        (gradient,) = torch.autograd.grad(output.sum(), s, retain_graph=True)
        assert gradient.isfinite().all()
    assert -1 - rounding <= cut <= rounding
    assert -rounding <= ortho <= largest_orthogonality(k) + rounding
    if name in ("no edges", "one node", "no nodes", "zero weights"):
        assert cut == 0
    else:
        assert cut < -0.01 or name == "hard and balanced"
    if name == "a cluster nobody chose":
        assert ortho.item() == pytest.approx(largest_orthogonality(2))
    if name in ("huge weights", "tiny weights"):
        torch.testing.assert_close(cut, mincut_loss(s, torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    sample=samples(nodes=(1, 40), connected=None),
    k=st.integers(1, 9),
    sharpness=st.sampled_from([0.0, 1.0, 30.0, 300.0]),
)
def test_the_losses_stay_in_their_intervals(dtype, sample, k, sharpness):
    s = (sharpness * sample.rand(sample.n, k, dtype=dtype)).softmax(-1).requires_grad_()
    weight = None if sample.edge_weight is None else sample.edge_weight.to(dtype)
    rounding = 32 * torch.finfo(dtype).eps
    cut = mincut_loss(s, sample.edge_index, weight, batch=sample.batch, reduction="none")
    ortho = orthogonality_loss(s, batch=sample.batch, reduction="none")
    assert cut.dtype == ortho.dtype == dtype
    assert (cut >= -1 - rounding).all()
    assert (cut <= rounding).all()
    assert (ortho >= -rounding).all()
    assert (ortho <= largest_orthogonality(k) + rounding).all()
    (gradient,) = torch.autograd.grad((cut + ortho).sum(), s)
    assert gradient.isfinite().all()


def test_a_pooled_row_of_zeros_stays_zero():
    quadratic = torch.tensor([[[5.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], requires_grad=True)
    pooled = pooled_adjacency(quadratic, symmetric=True).to_dense()
    assert pooled[0, 2].tolist() == [0.0, 0.0, 0.0]
    assert pooled[0, 0, 1].item() == pytest.approx(1.0)
    pooled.sum().backward()
    assert quadratic.grad.isfinite().all()


# Costs.


class Recorder(TorchDispatchMode):
    """The largest tensor made, and the most bytes alive at once."""

    def __init__(self):
        super().__init__()
        self.largest, self.peak, self.alive, self._seen = 0, 0, 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        known = {id(t.untyped_storage()) for t in tree_iter((args, kwargs)) if self._has_storage(t)}
        for t in tree_iter(out):
            if self._has_storage(t) and id(t.untyped_storage()) not in known:
                self._count(t)
        return out

    @staticmethod
    def _has_storage(t):  # a sparse tensor has none of its own; its parts were counted when they were made
        return isinstance(t, torch.Tensor) and t.layout == torch.strided

    def _count(self, t):
        storage, size = t.untyped_storage(), t.untyped_storage().nbytes()
        key = id(storage)
        if key in self._seen:
            return
        self.largest = max(self.largest, t.numel())
        self.alive += size
        self.peak = max(self.peak, self.alive)

        def gone(_):
            self.alive -= size
            del self._seen[key]

        self._seen[key] = weakref.ref(storage, gone)


def big_graph(weighted):
    generator = torch.Generator().manual_seed(0)
    n, half, k = 2000, 20000, 16
    pairs = torch.randint(n, (2, half), generator=generator)
    edges = torch.cat([pairs, pairs.flip(0)], 1)
    weight = torch.rand(half, generator=generator).repeat(2) if weighted else None
    s = torch.randn(n, k, generator=generator).softmax(-1).requires_grad_()
    return n, 2 * half, k, edges, weight, s


@pytest.mark.parametrize("weighted", [False, True])
def test_no_tensor_of_the_size_of_edges_times_clusters(weighted):
    n, e, k, edges, weight, s = big_graph(weighted)
    with Recorder() as recorder:
        (mincut_loss(s, edges, weight) + coarsen(s, s, edges, weight).adj.to_dense().sum()).backward()
    assert recorder.largest <= max(n * k, e + n)
    with Recorder() as naive:  # the recorder sees what it should
        (s[edges[0]] * s[edges[1]]).sum().backward()
    assert naive.largest == e * k


@pytest.mark.parametrize("weighted", [False, True])
def test_peak_memory_of_the_cut_loss(weighted):
    n, e, k, edges, weight, s = big_graph(weighted)
    op = as_operator(edges, weight, num_nodes=n).normalise()
    op.degree_like(s)
    with Recorder() as recorder:
        mincut_loss(s, op).backward()
    floats = recorder.peak / 4
    assert floats >= n * k  # Y and the gradient exist
    assert floats <= 4 * n * k + 2 * e + 8 * n


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_one_product_a_step_and_none_in_backward(products, weighted, ragged):
    sample = make_sample((5, 4), seed=2, weighted=weighted)
    op = as_operator(
        sample.edge_index, sample.edge_weight, num_nodes=sample.n, batch=sample.batch if ragged else None
    )
    s = sample.assignments(3).requires_grad_()
    loss = mincut_loss(s, op)
    assert products == [(sample.n, 3)]
    loss.backward()
    assert products == [(sample.n, 3)]
    products.clear()
    coarsen(s, s, op).adj.to_dense().sum().backward()
    assert products == [(sample.n, 3)]


def test_an_edge_index_costs_one_product_the_first_time_too(products):
    sample = make_sample((5,), seed=2)
    s = sample.assignments(3).requires_grad_()
    for _ in range(2):  # the degrees are sums, not products
        products.clear()
        mincut_loss(s, sample.edge_index).backward()
        assert products == [(sample.n, 3)]
    sample.edge_index[:, 0] = 0  # a change in place is seen
    products.clear()
    changed = mincut_loss(s, sample.edge_index)
    assert len(products) == 1
    torch.testing.assert_close(changed, plain_cut(plain_normalise(sample.block()), s))


# Replicas.


def replica_cases():
    sample = make_sample((4, 6, 2), seed=8, weighted=True)
    single = make_sample((7,), seed=8)
    directed = make_sample((7,), seed=8, directed=True)
    ragged = as_operator(sample.edge_index, sample.edge_weight, num_nodes=sample.n, batch=sample.batch)
    return {
        "single graph": (as_operator(single.edge_index, num_nodes=7), (7,)),
        "asymmetric graph": (as_operator(directed.edge_index, num_nodes=7), (7,)),
        "ragged batch": (ragged, (sample.n,)),
        "sum": (Sum([ragged, ragged.normalise()]), (sample.n,)),
        "dense": (Dense(sample.padded(), sample.mask), (3, 6)),
        "dense symmetric": (Dense(sample.padded(), sample.mask, symmetric=True), (3, 6)),
    }


LOSSES = {
    "cut": mincut_loss,
    "classic": ratio_trace_loss,
    "ortho": lambda s, op: orthogonality_loss(s, op),
    "pooled": lambda s, op: (coarsen(s, s, op).adj.to_dense() * torch.arange(9.0).view(3, 3)).sum(),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("case", list(replica_cases()))
def test_vmap_of_the_gradient_equals_a_loop(case, loss):
    op, rows = replica_cases()[case]
    s = torch.randn(4, *rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)

    def function(s):
        return LOSSES[loss](s, op)

    loop = torch.stack([grad(function)(each) for each in s])
    torch.testing.assert_close(vmap(grad(function))(s), loop)
    torch.testing.assert_close(vmap(function)(s), torch.stack([function(each) for each in s]))
    nested = vmap(vmap(grad(function)))(s.unflatten(0, (2, 2)))
    torch.testing.assert_close(nested.flatten(0, 1), loop)


@pytest.mark.parametrize("loss", ["cut", "classic", "ortho"])
@pytest.mark.parametrize("case", list(replica_cases()))
def test_a_replica_axis_equals_a_loop(case, loss):
    op, rows = replica_cases()[case]
    s = torch.randn(*rows, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)
    s.requires_grad_()
    together = LOSSES[loss](s, op)
    loop = torch.stack([LOSSES[loss](s.select(-2, r), op) for r in range(4)])
    assert together.shape == (4,)
    torch.testing.assert_close(together, loop)
    mixing = torch.arange(1.0, 5.0)
    torch.testing.assert_close(
        torch.autograd.grad((together * mixing).sum(), s), torch.autograd.grad((loop * mixing).sum(), s)
    )


def test_replicas_share_one_product(products):
    op, rows = replica_cases()["single graph"]
    s = torch.rand(*rows, 4, 3, dtype=torch.float64).softmax(-1).requires_grad_()
    mincut_loss(s, op)
    products.clear()
    mincut_loss(s, op).sum().backward()
    vmap(grad(lambda s: mincut_loss(s, op)))(s.detach().movedim(1, 0))
    assert products == [(7, 12), (7, 12)]


# Precision and arguments.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_assignments_give_float32_losses(dtype):
    sample = make_sample((9, 5), seed=2, weighted=True)
    s = sample.assignments(3).to(dtype).requires_grad_()
    for loss in (
        mincut_loss(s, sample.edge_index, sample.edge_weight.float(), batch=sample.batch),
        orthogonality_loss(s, batch=sample.batch),
    ):
        assert loss.dtype == torch.float32
        loss.backward()
    exact = s.detach().double()
    expected = mincut_loss(exact, sample.edge_index, sample.edge_weight, batch=sample.batch)
    got = mincut_loss(s, sample.edge_index, sample.edge_weight.float(), batch=sample.batch)
    torch.testing.assert_close(got.double(), expected, atol=1e-6, rtol=1e-6)
    assert s.grad.dtype == dtype
    assert s.grad.isfinite().all()
