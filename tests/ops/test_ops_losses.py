"""The losses and the pooled adjacency: formulas, gradients, batches, replicas, extreme graphs, precision."""

import itertools
import math

import pytest
import torch
from helpers.graph_strategies import (
    OPERATOR_KINDS,
    make_operator,
    make_sample,
    plain_cut,
    plain_evidence,
    plain_normalise,
    plain_orthogonality,
    plain_pool,
    presence,
    rows_for,
    samples,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap
from torch_geometric.nn import DMoNPooling

from softcut.ops import (
    CSR,
    OBJECTIVES,
    ClusterTables,
    Dense,
    Sum,
    as_operator,
    coarsen,
    cut_terms,
    dmon_loss,
    evidence_loss,
    get_objective,
    just_balance_loss,
    lift_adjacency,
    mincut_loss,
    orthogonality_loss,
    quadratic_form,
    ratio_trace_loss,
)
from softcut.ops.cut import self_gram, takes_fast_path

FUNCTIONS = (mincut_loss, ratio_trace_loss, orthogonality_loss, dmon_loss, just_balance_loss, evidence_loss)
LOSSES = {function.__name__.removesuffix("_loss"): function for function in FUNCTIONS}
# Kinds that save Y = A S for the backward pass.
FAST = ("binary", "ragged weighted", "sum", "dense symmetric")
TWO_EDGES = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def evaluate(name, s, adj, weight=None, *, words=None, **options):
    """A loss by its name; the evidence is that of edges and words."""
    return LOSSES[name](s, adj, weight, **({"words": words} if name == "evidence" else {}), **options)


def largest_orthogonality(k):
    """L_o where all nodes are in one of K clusters."""
    return math.sqrt(2 - 2 / math.sqrt(k))


# Formulas.


def plain_ratio_trace(adj, s, ridge=1e-3):
    adj, k = plain_normalise(adj), s.shape[1]
    volume = s.T @ torch.diag(adj.sum(-1)) @ s
    if volume.diagonal().mean() <= 0:
        return 0.0 * s.sum()
    volume = volume + ridge * volume.diagonal().mean() * torch.eye(k, dtype=s.dtype)
    return -torch.trace(torch.linalg.inv(volume) @ (s.T @ adj @ s)) / k


def plain_dmon(adj, s):
    d = adj.sum(1)
    n, k = s.shape
    collapse = math.sqrt(k) / n * s.sum(0).norm() - 1
    if d.sum() == 0:
        return collapse
    b = adj - torch.outer(d, d) / d.sum()
    return -torch.trace(s.T @ b @ s) / d.sum() + collapse


PLAIN = {
    "mincut": lambda adj, s, x: plain_cut(plain_normalise(adj), s),
    "ratio_trace": lambda adj, s, x: plain_ratio_trace(adj, s),
    "orthogonality": lambda adj, s, x: plain_orthogonality(s),
    "dmon": lambda adj, s, x: plain_dmon(adj, s),
    "just_balance": lambda adj, s, x: -s.square().sum(0).sqrt().sum() / math.sqrt(s.numel()),
    "evidence": lambda adj, s, x: torch.tensor(-plain_evidence(adj, s, x)),
}


@pytest.mark.parametrize("name", LOSSES)
@given(samples(graphs=(1, 1), nodes=(1, 9), connected=None), st.integers(1, 4), st.booleans())
def test_each_loss_is_its_plain_formula(name, sample, k, with_words):
    s, x = sample.assignments(k), presence(sample) if with_words else None
    got = evaluate(name, s, sample.edge_index, sample.edge_weight, words=x)
    expected = PLAIN[name](sample.block(), s, x).to(got.dtype)
    torch.testing.assert_close(got, expected, atol=1e-9, rtol=1e-9)


@given(samples(graphs=(1, 1), nodes=(1, 9), connected=None, directed=None), st.integers(1, 4))
def test_the_pooled_graph_is_that_of_the_paper(sample, k):
    s, x = sample.assignments(k), sample.rand(sample.n, 2, salt=1)
    adj = plain_normalise(sample.block())
    torch.testing.assert_close(mincut_loss(s, sample.edge_index, sample.edge_weight), plain_cut(adj, s))
    pooled = coarsen(s, x, sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(pooled.x[0], s.T @ x)
    torch.testing.assert_close(pooled.adj.to_dense()[0], plain_pool(adj, s))
    assert pooled.adj.normalised
    a_rec = lift_adjacency(s, pooled.adj.to_dense()[0])
    torch.testing.assert_close(a_rec, s @ plain_pool(adj, s) @ s.T)


@given(samples(graphs=(1, 1), nodes=(2, 9)), st.integers(2, 4))
def test_dmon_is_that_of_pytorch_geometric(sample, k):
    logits = sample.rand(sample.n, k)
    peer = DMoNPooling(k, k).double()
    peer.mlp = torch.nn.Identity()
    _, _, _, spectral, _, cluster = peer(logits.unsqueeze(0), sample.block().unsqueeze(0))
    got = dmon_loss(logits.softmax(-1), sample.edge_index, sample.edge_weight)
    torch.testing.assert_close(got, spectral + cluster)


def test_the_classic_objective_has_a_ridge_and_can_be_positive():
    sample = make_sample((6,), seed=2, weighted=True)
    s = sample.assignments(3)
    got = ratio_trace_loss(s, sample.edge_index, sample.edge_weight, ridge=0.03)
    torch.testing.assert_close(got, plain_ratio_trace(sample.block(), s, ridge=0.03))
    # Two separate edges, three clusters along their two sides: eigenvalues 1, -1, -1.
    side, other = torch.tensor([1.0, -1, 0, 0]), torch.tensor([0.0, 0, 1, -1])
    s = 1 / 3 + torch.stack([0.3 * side, 0.3 * other, -0.3 * (side + other)], 1).double()
    assert ratio_trace_loss(s, TWO_EDGES, ridge=0.0).item() == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_named_objective_is_the_sum_of_the_losses(kind, objective):
    op, sample = make_operator(kind)
    s = rows_for(op, sample, sample.assignments(3))
    chosen = get_objective(objective)
    losses = chosen.losses(ClusterTables(op.normalise() if chosen.normalised else op, s))
    assert len(losses) == len(chosen.names)
    expected = LOSSES[objective](s, op, reduction="none")
    if "ortho" in chosen.names:
        expected = expected + orthogonality_loss(s, op, reduction="none")
    torch.testing.assert_close(torch.stack(losses).sum(0), expected)


# Gradients.


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
@pytest.mark.parametrize("name", LOSSES)
def test_gradcheck(kind, name):
    op, sample = make_operator(kind)
    leaf, words = sample.assignments(2).requires_grad_(), rows_for(op, sample, presence(sample))

    def loss(s):
        return evaluate(name, rows_for(op, sample, s), op, words=words, reduction="none")

    assert gradcheck(loss, (leaf,))
    if kind in FAST:
        assert gradgradcheck(loss, (leaf,))


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_gradcheck_of_the_terms_and_of_pooling(kind):
    op, sample = make_operator(kind)
    normal = op.normalise()
    assert takes_fast_path(normal) == (kind not in ("asymmetric", "dense", "dense masked"))
    leaf = sample.assignments(2).requires_grad_()
    features = sample.rand(sample.n, 2, salt=1).requires_grad_()
    for function in (
        lambda s: cut_terms(op, s),
        lambda s: cut_terms(normal, s),
        lambda s: quadratic_form(normal, s),
        lambda s: self_gram(op.layout, s),
    ):
        assert gradcheck(lambda s, f=function: f(rows_for(op, sample, s)), (leaf,))
        if kind in FAST:
            assert gradgradcheck(lambda s, f=function: f(rows_for(op, sample, s)), (leaf,))

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

    for name in ("mincut", "ratio_trace", "dmon", "evidence"):
        assert gradcheck(lambda s, w, f=LOSSES[name]: f(s, edges, w, batch=batch), (s, weight))
    assert gradcheck(lambda s, w: coarsen(s, s, edges, w, batch=batch).adj.to_dense(), (s, weight))
    assert gradcheck(total, (s, weight))


def test_gradcheck_with_a_learned_dense_adjacency():
    sample = make_sample((4,), seed=1, weighted=True)
    s, adj = sample.assignments(2).requires_grad_(), sample.block().requires_grad_()
    assert gradcheck(mincut_loss, (s, adj))
    # "symmetric" promises a symmetric matrix, not a constant one
    assert gradcheck(lambda s, a: mincut_loss(s, Dense(a + a.T, symmetric=True)), (s, adj))
    assert gradcheck(lambda s, a: coarsen(s, s, a).adj.to_dense(), (s, adj))


def test_a_frozen_pooled_graph_remembers_that_it_is_asymmetric():
    sample = make_sample((6,), seed=3, directed=True, weighted=True)
    with torch.no_grad():
        pooled = coarsen(sample.assignments(4), sample.rand(6, 2), sample.edge_index, sample.edge_weight)
    s = sample.assignments(3)[:4].clone().requires_grad_()
    dense = pooled.adj.to_dense()[0]
    assert not torch.allclose(dense, dense.T)
    got, expected = mincut_loss(s, pooled.adj), plain_cut(dense, s)
    torch.testing.assert_close(torch.autograd.grad(got, s), torch.autograd.grad(expected, s))


def test_second_derivatives_under_torch_func():
    sample = make_sample((5,), seed=3)
    s, adj = sample.assignments(2), plain_normalise(sample.block())

    def curvature(loss):
        return grad(lambda s: grad(loss)(s).square().sum())(s)

    for ours, plain in (
        (
            lambda s: mincut_loss(s, sample.edge_index),
            lambda s: -(s * (adj @ s)).sum() / (s * s * adj.sum(1)[:, None]).sum(),
        ),
        (orthogonality_loss, plain_orthogonality),
    ):
        torch.testing.assert_close(curvature(ours), curvature(plain))


def test_torch_func_sees_learned_weights_and_pooled_graphs():
    sample = make_sample((6,), seed=3, weighted=True)
    s, weight = sample.assignments(3), sample.edge_weight

    def twice(s, weight):
        pooled = coarsen(s, s, sample.edge_index, weight)
        return mincut_loss(pooled.x[0].softmax(-1), pooled.adj)

    leaves = s.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = torch.autograd.grad(twice(*leaves), leaves)
    torch.testing.assert_close(grad(twice, argnums=(0, 1))(s, weight), expected)
    both = torch.stack([s.flip(1), s])
    many = vmap(grad(twice, argnums=(0, 1)), in_dims=(0, None))(both, weight)
    torch.testing.assert_close((many[0][1], many[1][1]), expected)
    # the other way round: a gradient of a vmap, whose pooled graphs differ between the replicas
    outside = grad(lambda s, w: vmap(twice, in_dims=(0, None))(s, w).sum(), argnums=(0, 1))
    torch.testing.assert_close(outside(both, weight)[0][1], expected[0])
    torch.testing.assert_close(outside(both[1:], weight)[1], expected[1])
    values = vmap(twice, in_dims=(0, None))(both, weight)
    torch.testing.assert_close(values, torch.stack([twice(each, weight) for each in both]))


# Degenerate graphs, and intervals.


def degenerate(dtype):
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    soft = torch.rand(3, 2, dtype=dtype, generator=torch.Generator().manual_seed(0)).softmax(-1)
    hard = torch.tensor([[1.0, 0], [1, 0], [1, 0]], dtype=dtype)
    nearly = torch.tensor([[1.0, 1e-36], [1, 1e-37], [1, 1e-36]], dtype=dtype)
    wide = torch.rand(3, 8, dtype=dtype, generator=torch.Generator().manual_seed(1)).softmax(-1)
    huge = torch.full((4,), 1e30 if dtype == torch.float32 else 1e150, dtype=dtype)
    return {
        "isolated nodes": (soft, PATH[:, :2], None),
        "no edges": (soft, no_edges, None),
        "one node": (soft[:1], no_edges, None),
        "one node with a loop": (soft[:1], torch.zeros(2, 1, dtype=torch.long), None),
        "no nodes": (soft[:0], no_edges, None),
        "a cluster nobody chose": (hard, PATH, None),
        "a cluster with next to nothing": (nearly, PATH, None),
        "one cluster": (soft[:, :1] * 0 + 1, PATH, None),
        "more clusters than nodes": (wide, PATH, None),
        "huge weights": (soft, PATH, huge),
        "tiny weights": (soft, PATH, 1 / huge),
        "zero weights": (soft, PATH, 0 * huge),
        "hard and balanced": (torch.eye(3, dtype=dtype), PATH, None),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", ["sparse", "dense"])
@pytest.mark.parametrize("case", list(degenerate(torch.float32)))
def test_degenerate_graphs_have_finite_losses_and_gradients(case, layout, dtype):
    s, adj, weight = degenerate(dtype)[case]
    if layout == "dense":
        values = torch.ones(adj.shape[1], dtype=dtype) if weight is None else weight
        adj = torch.zeros(s.shape[0], s.shape[0], dtype=dtype).index_put(tuple(adj), values, accumulate=True)
        weight = None
    s = s.clone().requires_grad_()
    k, rounding = s.shape[1], 16 * torch.finfo(dtype).eps
    extreme = case in ("huge weights", "tiny weights")  # A as it is goes beyond the range of squares there
    names = [name for name in LOSSES if not extreme or name not in ("dmon", "evidence")]
    losses = {name: evaluate(name, s, adj, weight, words=torch.ones(s.shape[0], 2)) for name in names}
    pooled = coarsen(s, s * 2, adj, weight)
    for output in (*losses.values(), pooled.x, pooled.adj.to_dense()):
        assert output.dtype == dtype
        assert output.isfinite().all()
        (gradient,) = torch.autograd.grad(output.sum(), s, retain_graph=True)
        assert gradient.isfinite().all()
    cut, ortho = losses["mincut"], losses["orthogonality"]
    assert -1 - rounding <= cut <= rounding
    assert -rounding <= ortho <= largest_orthogonality(k) + rounding
    if case in ("no edges", "one node", "no nodes", "zero weights"):
        assert cut == 0
    else:
        assert cut < -0.01 or case == "hard and balanced"
    if case == "a cluster nobody chose":
        assert ortho.item() == pytest.approx(largest_orthogonality(2))
    if extreme:
        torch.testing.assert_close(cut, mincut_loss(s, PATH))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    sample=samples(nodes=(1, 40), connected=None),
    k=st.integers(1, 9),
    sharpness=st.sampled_from([0.0, 1.0, 30.0, 300.0, 1e4]),  # from uniform to saturated
)
def test_the_losses_stay_in_their_intervals(dtype, sample, k, sharpness):
    s = (sharpness * sample.rand(sample.n, k, dtype=dtype)).softmax(-1).requires_grad_()
    weight = None if sample.edge_weight is None else sample.edge_weight.to(dtype)
    rounding = 32 * torch.finfo(dtype).eps
    intervals = {
        "mincut": (-1, 0),
        "orthogonality": (0, largest_orthogonality(k)),
        "just_balance": (-1, -1 / math.sqrt(k)),
    }
    for name, words in itertools.product(LOSSES, (torch.zeros(sample.n, 2), presence(sample))):
        low, high = intervals.get(name, (-math.inf, math.inf))
        each = evaluate(name, s, sample.edge_index, weight, words=words, batch=sample.batch, reduction="none")
        assert each.dtype == dtype
        assert (each >= low - rounding).all() and (each <= high + rounding).all(), name
        (gradient,) = torch.autograd.grad(each.sum(), s)
        assert each.isfinite().all() and gradient.isfinite().all()


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


def softmax_of(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).softmax(-1)


@pytest.mark.parametrize("name", [*LOSSES, "pooled"])
@pytest.mark.parametrize("case", list(replica_cases()))
def test_replicas_and_vmap_equal_a_loop(case, name):
    op, rows = replica_cases()[case]
    words = (torch.arange(rows[-1]).unsqueeze(1) % torch.tensor([2, 3]) == 0).double().expand(*rows, 2)

    def function(s):
        if name == "pooled":
            return (coarsen(s, s, op).adj.to_dense() * torch.arange(9.0).view(3, 3)).sum()
        return evaluate(name, s, op, words=words)

    s = softmax_of(4, *rows, 3)
    loop = torch.stack([grad(function)(each) for each in s])
    torch.testing.assert_close(vmap(grad(function))(s), loop)
    torch.testing.assert_close(vmap(function)(s), torch.stack([function(each) for each in s]))
    nested = vmap(vmap(grad(function)))(s.unflatten(0, (2, 2)))
    torch.testing.assert_close(nested.flatten(0, 1), loop)
    if name == "pooled":
        return
    s = s.movedim(0, -2).contiguous().requires_grad_()  # an axis of replicas before the last
    together, apart = function(s), torch.stack([function(s.select(-2, r)) for r in range(4)])
    assert together.shape == (4,)
    torch.testing.assert_close(together, apart)
    mixing = torch.arange(1.0, 5.0)
    gradients = [torch.autograd.grad((each * mixing).sum(), s) for each in (together, apart)]
    torch.testing.assert_close(*gradients)


# Precision and compilation.


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_float32_losses_and_autocast_changes_nothing(name, dtype):
    sample = make_sample((9, 5), seed=2, weighted=True)
    s, weight = sample.assignments(3).to(dtype).requires_grad_(), sample.edge_weight.float()
    options = {"words": presence(sample).float(), "batch": sample.batch}
    got = evaluate(name, s, sample.edge_index, weight, **options)
    assert got.dtype == torch.float32
    got.backward()
    exact = evaluate(name, s.detach().double(), sample.edge_index, sample.edge_weight, **options)
    torch.testing.assert_close(got.double(), exact, atol=1e-6, rtol=1e-6)
    assert s.grad.dtype == dtype
    assert s.grad.isfinite().all()
    given = (name, sample.assignments(3).float(), sample.edge_index, weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = evaluate(*given, **options)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, evaluate(*given, **options))


@pytest.mark.parametrize("name", ["mincut", "dmon", "just_balance", "evidence"])
def test_compiles_whole(name):
    sample = make_sample((5,), seed=3)
    op, s = as_operator(sample.edge_index, num_nodes=sample.n), sample.assignments(2).float()
    compiled = torch.compile(lambda s: LOSSES[name](s, op), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(s), LOSSES[name](s, op))
