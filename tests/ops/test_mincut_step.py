"""The pooling step with its gradient by hand, against the plain formulas that autograd differentiates."""

import pytest
import torch

from softcut.ops import CSR, ClusterTables, Dense, Sum, get_objective, pooled_adjacency
from softcut.ops.coarsen import pooled_products
from softcut.ops.mincut_step import mincut_step, takes_hand_written


def ragged(n=23, seed=0):
    """Graphs of several sizes, one of them without nodes, one without edges, one node alone."""
    generator = torch.Generator().manual_seed(seed)
    ptr = torch.tensor([0, 9, 9, 12, 13, n])
    batch = torch.repeat_interleave(torch.arange(5), ptr[1:] - ptr[:-1])
    dense = (torch.rand(n, n, generator=generator) < 0.5).triu(1) & (batch[:, None] == batch)
    dense[9:12] = False
    row, col = (dense | dense.T).nonzero().T
    op = CSR.from_edge_index(torch.stack([row, col]), num_nodes=n, ptr=ptr).normalise()
    return op, torch.rand(n, 4, generator=generator, dtype=torch.float64)


def plain(op, s, x, keep_diagonal=False):
    products = pooled_products(op, s, x)
    losses = get_objective("mincut").losses(ClusterTables(op, s, products))
    adj = pooled_adjacency(products.quadratic, symmetric=True, keep_diagonal=keep_diagonal).data
    return products.x, adj, *losses


def dense_graphs(data):
    return Dense((data + data.mT) / 2, symmetric=True, normalised=True)


@pytest.mark.parametrize("keep_diagonal", [False, True])
@pytest.mark.parametrize("kind", ["ragged", "dense", "masked"])
def test_a_step_is_that_of_the_plain_formulas(kind, keep_diagonal):
    torch.manual_seed(1)
    data = torch.rand(3, 6, 6, dtype=torch.float64)
    data[1] = 0.0  # no edges
    op, x = ragged()
    if kind != "ragged":
        x = torch.rand(3, 6, 4, dtype=torch.float64)
    scores = torch.randn(*x.shape[:-1], 3, dtype=torch.float64)
    leaves = [t.requires_grad_() for t in (scores, x, data)]
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, 4:] = mask[2] = kind != "masked"
    results = []
    for function in (mincut_step, plain):
        s = scores.softmax(-1)
        if kind != "ragged":
            op = dense_graphs(data)
            if kind == "masked":
                op = Dense(op.data, mask, symmetric=True, normalised=True)
                s = s * mask.unsqueeze(-1)
        out = function(op, s, x, keep_diagonal)
        generator = torch.Generator().manual_seed(2)
        weights = [torch.rand(t.shape, generator=generator, dtype=t.dtype) for t in out]
        total = sum((w * t).sum() for w, t in zip(weights, out, strict=True))
        results.append((*out, *torch.autograd.grad(total, leaves if kind != "ragged" else leaves[:2])))
    assert type(results[0][2].grad_fn).__name__ == "_StepBackward"
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there, rtol=1e-12, atol=1e-14)


def test_derivatives_of_a_step_agree_with_differences():
    op, x = ragged()
    x.requires_grad_()
    scores = torch.randn(x.shape[0], 3, dtype=torch.float64, requires_grad=True)
    args = (lambda scores, x: tuple(mincut_step(op, scores.softmax(-1), x)), (scores, x))
    assert torch.autograd.gradcheck(*args, check_batched_grad=True)
    data = torch.rand(2, 4, 4, dtype=torch.float64, requires_grad=True)
    scores = torch.randn(2, 4, 2, dtype=torch.float64, requires_grad=True)
    x = torch.rand(2, 4, 3, dtype=torch.float64, requires_grad=True)

    def step(data, scores, x):
        return tuple(mincut_step(dense_graphs(data), scores.softmax(-1), x))

    assert torch.autograd.gradcheck(step, (data, scores, x), check_batched_grad=True)
    assert torch.autograd.gradgradcheck(step, (data, scores, x))


def test_clusters_with_next_to_nothing_have_the_floors_of_the_plain_formulas():
    # Three pairs of clusters, one joined strongly, one hardly, one by less than the floor.
    data = torch.block_diag(*(w * torch.ones(2, 2) for w in (1e8, 1e-8, 1e-26))).double().unsqueeze(0)
    x, results = torch.rand(1, 6, 2, dtype=torch.float64), []
    for function in (mincut_step, plain):
        leaf, s = data.clone().requires_grad_(), torch.eye(6, dtype=torch.float64).unsqueeze(0)
        adj = function(dense_graphs(leaf), s, x)[1]
        results.append((adj, *torch.autograd.grad((adj * torch.arange(36.0).view(6, 6)).sum(), leaf)))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-5)  # gradients are as large as 1e23
    floor = 1e8 * torch.finfo(torch.float64).eps ** 2
    expected = torch.tensor([1.0, 1.0, 1e-26 / floor], dtype=torch.float64)
    torch.testing.assert_close(results[0][0][0, [0, 2, 4], [1, 3, 5]].detach(), expected)


def test_where_the_gradient_by_hand_is_taken(monkeypatch):
    op, x = ragged()
    s = x[:, :3]
    assert takes_hand_written(op, s, x)
    single = CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    one_way = CSR.from_edge_index(torch.tensor([[0], [1]]), num_nodes=3, ptr=torch.tensor([0, 2, 3]))
    learned = CSR(
        op.pattern, torch.ones(op.pattern.nnz, requires_grad=True), layout=op.layout, symmetric=True
    )
    dense, rows = dense_graphs(torch.rand(2, 4, 4)), torch.rand(2, 4, 3)
    assert takes_hand_written(dense, rows, rows)
    for operator, left, right in (
        (op, s.to("meta"), x),
        (op, s, x.float()),
        (op, s.unsqueeze(1), x),
        (single, s[:2], x[:2]),
        (one_way, s[:3], x[:3]),
        (learned, s, x),
        (Sum([op, op]), s, x),
        (dense, rows.double(), rows.double()),
        (Dense(dense.data), rows, rows),
    ):
        assert not takes_hand_written(operator, left, right)

    def inside(function, *tensors):
        taken = []
        torch.func.vmap(lambda *t: taken.append(function(*t)) or t[0])(*(t.unsqueeze(0) for t in tensors))
        return taken

    assert inside(lambda s: takes_hand_written(op, s, x), s) == [False]
    assert inside(lambda x: takes_hand_written(op, s, x), x) == [False]
    assert inside(lambda a: takes_hand_written(dense_graphs(a), rows, rows), dense.data) == [False]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not takes_hand_written(op, s, x)


@pytest.mark.parametrize("which", range(4))
def test_the_gradient_of_one_result_alone(which):
    op, x = ragged()
    scores = torch.randn(x.shape[0], 3, dtype=torch.float64, requires_grad=True)
    grads = [
        torch.autograd.grad(function(op, scores.softmax(-1), x)[which].square().sum(), scores)[0]
        for function in (mincut_step, plain)
    ]
    torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)
    assert grads[0].abs().max() > 0
