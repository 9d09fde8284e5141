"""The adjacency operators: same matrix whatever the kind, caches that never go stale, clear errors."""

import gc
import weakref

import pytest
import torch
from helpers.graph_strategies import (
    OPERATOR_KINDS,
    make_operator,
    make_sample,
    plain_normalise,
    rows_for,
    samples,
)
from hypothesis import given
from torch.autograd import gradcheck

from softcut.errors import GraphError
from softcut.ops import CSR, Dense, Sum, as_operator, block_diagonal, mincut_loss
from softcut.ops.batching import Layout
from softcut.ops.operator import Operator

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def double(op):
    """The matrix in float64; a binary operator has no precision of its own."""
    return op.to_dense().double()


@pytest.mark.parametrize("kind", OPERATOR_KINDS)
def test_an_operator_is_its_matrix(kind):
    op, sample = make_operator(kind)
    s = rows_for(op, sample, sample.rand(sample.n, 3))
    for each in (op, op.normalise()):
        identity = torch.eye(op.num_rows, dtype=torch.float64)
        matrix = each @ (identity if op.layout.rows == 1 else identity.expand(op.num_graphs, -1, -1))
        torch.testing.assert_close(each @ s, matrix @ s)
        torch.testing.assert_close(each.degree_like(s), matrix.sum(-1))
        torch.testing.assert_close(double(each), matrix, atol=1e-6, rtol=1e-6)
        leaf = s.clone().requires_grad_()
        assert gradcheck(lambda s, each=each: each @ s, (leaf,))
    if "sum" not in kind:
        expected = sample.block() if op.layout.rows == 1 else sample.padded()
        torch.testing.assert_close(double(op), expected)
    normal = op.normalise()
    assert normal.normalised and not op.normalised
    assert normal.normalise() is normal
    torch.testing.assert_close(normal @ s, plain_normalise(double(op)) @ s)
    moved = normal.to(dtype=torch.float32)
    assert moved.normalised and moved.symmetric == op.symmetric and moved.mask is op.mask
    torch.testing.assert_close(double(moved), double(normal), atol=1e-6, rtol=1e-6)


@given(samples(directed=None, connected=None))
def test_symmetry_is_found_out(sample):
    block = sample.block()
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n)
    assert op.symmetric == torch.equal(block, block.T)
    uneven = CSR.from_edge_index(PATH, torch.tensor([1.0, 2.0, 1.0, 1.0]))  # a symmetric pattern alone
    assert not uneven.symmetric and not Sum([CSR.from_edge_index(PATH), uneven]).symmetric


@pytest.mark.parametrize("weighted", [False, True])
def test_a_low_precision_product_before_leaves_no_trace(weighted):
    sample = make_sample((9,), seed=1, density=0.7, weighted=weighted)
    s = sample.rand(sample.n, 4)
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n)
    expected = plain_normalise(sample.block()) @ s
    op.normalise() @ s.to(torch.bfloat16)
    # d^-1/2 kept in float32 would be wrong in the eighth digit here.
    torch.testing.assert_close(op.normalise() @ s, expected, atol=1e-14, rtol=1e-14)


def test_an_operator_without_edges_has_the_nodes_it_is_told():
    none = PATH[:, :0]
    assert (CSR.from_edge_index(none).num_rows, CSR.from_edge_index(none, num_nodes=2).num_rows) == (0, 2)


def test_weights_of_whole_numbers_and_of_half_precision():
    for dtype in (torch.int64, torch.float16, torch.bfloat16):
        op = CSR.from_edge_index(PATH, torch.tensor([2, 2, 3, 3], dtype=dtype))
        assert op.degree.dtype == torch.float32
        assert op.degree.tolist() == [2.0, 5.0, 3.0]


def test_gradcheck_of_normalisation_by_learned_weights():
    sample = make_sample((4,), seed=1, weighted=True)
    weight = sample.edge_weight.clone().requires_grad_()
    s = sample.rand(sample.n, 2)
    other = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n)

    def sparse(weight):
        op = CSR.from_edge_index(sample.edge_index, weight, sample.n)
        total = Sum(parts=[op, other], weights=[0.5, 2.0])
        return op.normalise() @ s, op.normalise().degree, total.normalise() @ s, total.normalise().degree

    def dense(weight):
        op = Dense(sample.block(weight))
        return op.normalise() @ s.unsqueeze(0), op.normalise().degree

    assert gradcheck(sparse, (weight,))
    assert gradcheck(dense, (weight,))


@pytest.mark.parametrize("kind", [Operator, Layout])
def test_a_kind_that_lacks_a_product_cannot_be_made(kind):
    needed, properties = {
        Operator: ({"matmul", "degree", "to_dense", "to", "num_rows"}, {"degree", "num_rows"}),
        Layout: ({"total", "peak", "occupied", "spread", "gram", "matmul"}, {"occupied"}),
    }[kind]
    assert {name for name in needed if isinstance(vars(kind)[name], property)} == properties
    for name in needed:
        own = type("Own", (kind,), dict.fromkeys(needed - {name}))
        with pytest.raises(TypeError, match=rf"abstract method '?{name}\b"):
            own()


def test_a_part_of_weight_0_says_nothing():
    one = CSR.from_edge_index(PATH)
    both = Sum([one, CSR.from_edge_index(torch.tensor([[0, 2], [2, 0]]))], [1.0, 0.0])
    torch.testing.assert_close(both.normalise().to_dense(), one.normalise().to_dense().double())


# Caches.


def test_operators_are_kept_as_long_as_their_tensors_live():
    sample = make_sample((3, 4), seed=5)
    edge_index, batch = sample.edge_index, sample.batch
    alone, batched = (CSR.from_edge_index(edge_index, num_nodes=7, batch=b) for b in (None, batch))
    assert CSR.from_edge_index(edge_index, num_nodes=7, batch=batch) is batched
    assert CSR.from_edge_index(edge_index, num_nodes=7, batch=batch.clone()) is not batched
    assert alone.pattern is batched.pattern  # sorted once
    assert CSR.from_edge_index(edge_index, num_nodes=9).degree.tolist() == [*alone.degree.tolist(), 0.0, 0.0]
    alone = CSR.from_edge_index(edge_index, num_nodes=7)
    kept = [weakref.ref(each) for each in (batched, batch, alone.pattern, edge_index)]
    batch[3] = 0  # a change in place is seen
    with pytest.raises(GraphError, match="must join nodes of one graph"):
        CSR.from_edge_index(edge_index, num_nodes=7, batch=batch)
    del batched, batch
    gc.collect()
    assert [each() is None for each in kept] == [True, True, False, False]
    del alone, edge_index, sample
    gc.collect()
    assert all(each() is None for each in kept)


def test_a_change_in_place_of_a_dense_adjacency_is_seen():
    adj = torch.ones(1, 3, 3) - torch.eye(3)
    op = Dense(adj)
    for weight in (1.0, 5.0):
        adj[0, 0, 1] = adj[0, 1, 0] = weight
        assert op.degree.tolist() == adj.sum(-1).tolist() and op.degree is op.degree
        torch.testing.assert_close(op.normalise().to_dense(), plain_normalise(adj))
    assert op.version == adj._version


@pytest.mark.parametrize("evaluation", [torch.no_grad, torch.inference_mode])
def test_what_an_evaluation_leaves_behind_can_be_trained_on(evaluation):
    sample = make_sample((3, 4), seed=5, weighted=True)
    edge_index, weight, batch = sample.edge_index, sample.edge_weight, sample.batch
    learned, s = weight.clone().requires_grad_(), sample.assignments(2)
    ops = [CSR.from_edge_index(edge_index, w, sample.n, batch=batch) for w in (None, learned)]

    def loss(weight):
        cuts = mincut_loss(s, edge_index, weight, batch=batch), *(mincut_loss(s, op) for op in ops)
        return sum(cuts) + (ops[0] @ s).sum()

    with evaluation():
        before = loss(weight)
    s, weight = s.requires_grad_(), weight.clone().requires_grad_()
    assert torch.equal(loss(weight), before)
    loss(weight).backward()
    assert s.grad.isfinite().all()
    assert weight.grad.abs().sum() > 0 and learned.grad.abs().sum() > 0


def test_an_edge_index_made_under_inference_mode():
    with torch.inference_mode():
        edge_index = PATH.clone()
        before = mincut_loss(torch.eye(3), edge_index)
        edge_index[:, 2:] = torch.tensor([[0, 1], [1, 0]])
        s = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        assert mincut_loss(s, edge_index).item() == pytest.approx(-1)
        assert before == 0


def test_what_a_transform_leaves_behind_can_be_used_outside_it():
    sample = make_sample((3, 4), seed=5)
    s = sample.assignments(2)
    edge_index = sample.edge_index.clone()  # seen by a transform first
    op = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n, batch=sample.batch)

    def loss(s):
        return mincut_loss(s, edge_index) + mincut_loss(s, op) + (op.normalise() @ s).sum()

    weight = torch.ones(edge_index.shape[1], dtype=s.dtype)
    # two levels, then one, then none
    torch.func.grad(lambda s: torch.func.grad(loss)(s).square().sum())(s)
    inside = torch.func.grad(loss)(s)
    learned = torch.func.grad(lambda w: mincut_loss(s, edge_index, w))(weight)
    leaf = s.clone().requires_grad_()
    loss(leaf).backward()
    torch.testing.assert_close(leaf.grad, inside)
    weight.requires_grad_()
    mincut_loss(s, edge_index, weight).backward()
    torch.testing.assert_close(weight.grad, learned)


# Arguments.


def test_an_operator_passes_through_with_its_batch_repeated():
    sample = make_sample((3, 4), seed=5)
    op = CSR.from_edge_index(sample.edge_index, num_nodes=7, batch=sample.batch)
    assert as_operator(op) is op
    assert as_operator(op, batch=sample.batch) is op
    dense = Dense(sample.padded(), sample.mask)
    assert as_operator(dense, mask=sample.mask) is dense
    assert as_operator(Dense(sample.padded()), mask=sample.mask).mask is not None


# Edges between two graphs of a batch, and batches put together.


def test_an_edge_between_two_graphs_is_refused_by_name():
    batch = torch.tensor([0, 0, 1])
    for make in (
        lambda: CSR.from_edge_index(PATH, num_nodes=3, ptr=torch.tensor([0, 2, 3])),
        lambda: as_operator(PATH, torch.ones(4), num_nodes=3, batch=batch),
        lambda: mincut_loss(torch.eye(3), PATH, batch=batch),
    ):
        with pytest.raises(GraphError, match="edge 2 goes from node 1 of graph 0 to node 2 of graph 1"):
            make()
    assert CSR.from_edge_index(PATH, num_nodes=3, batch=0 * batch).num_graphs == 1


@pytest.mark.parametrize("weighted", [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize("normalised", [False, True])
def test_block_diagonal_equals_the_batch(weighted, normalised):
    sample = [make_sample((3 + i,), seed=i, weighted=w) for i, w in enumerate(weighted)]
    ops = [CSR.from_edge_index(s.edge_index, s.edge_weight, s.n) for s in sample]
    ops = [op.normalise() for op in ops] if normalised else ops
    both = block_diagonal(ops)
    whole = torch.block_diag(*(op.to_dense().double() for op in ops))
    torch.testing.assert_close(both.to_dense().double(), whole)
    assert both.ptr.tolist() == [0, 3, 7]
    assert both.symmetric
    assert both.normalised == normalised
    x = sample[0].rand(7, 2)
    torch.testing.assert_close(both @ x, whole @ x)
    torch.testing.assert_close(both.normalise().degree_like(x), both.normalise().to_dense().double().sum(1))
    again = block_diagonal([both, *ops])  # batches stay batches
    assert again.ptr.tolist() == [0, 3, 7, 10, 14]


@pytest.mark.parametrize("share", [1e-12, 1e-24, 1e-36])
def test_a_learned_cluster_that_is_nearly_empty_has_a_finite_gradient(share):
    # S'AS of DiffPool with next to nothing in the last cluster: d^-3/2 of its degree overflows float32.
    logits = torch.tensor([[0.0, 0.0, float(torch.tensor(share).log())]]).requires_grad_()
    s = logits.softmax(-1).expand(4, 3)
    pooled = s.mT @ (torch.ones(4, 4) - torch.eye(4)) @ s
    normalised = Dense(pooled.unsqueeze(0), symmetric=True).normalise().to_dense()
    torch.testing.assert_close(normalised[0, :2, :2].detach(), torch.full((2, 2), 0.5))
    normalised.square().sum().backward()
    assert torch.isfinite(logits.grad).all()
    assert logits.grad.abs().max() < 10
