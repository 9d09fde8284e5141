"""The Triton kernels on a GPU: right, the same every time, captured in CUDA graphs, and small in memory."""

import pytest
import torch
from test_gpu_operators import operator, random_adjacency, with_hubs

from softcut.ops import CSR, Segments, mincut_loss
from softcut.ops.kernels import takes, use

pytest.importorskip("triton")
EPSILON = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2e-2}


def graphs():
    return {
        "even": operator(random_adjacency(500, 6000)),
        "hubs": operator(with_hubs()),
        "weighted": operator(random_adjacency(500, 6000, seed=1, weighted=True), weighted=True),
    }


@pytest.mark.parametrize("kind", graphs())
@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("k", [1, 7, 16, 64, 224])
def test_product_and_loss(kind, dtype, k):
    op = graphs()[kind].normalise()
    s = torch.randn(op.num_rows, k, generator=torch.Generator().manual_seed(0)).softmax(-1).to(dtype)
    exact = op.to(dtype=torch.float64) @ s.double()
    there, here = op.to("cuda"), s.cuda().requires_grad_()
    runs = []
    with use("triton"):
        assert takes(here, 1)
        for _ in range(2):
            loss = mincut_loss(here, there)
            runs.append([there @ here.detach(), loss.detach(), *torch.autograd.grad(loss, here)])
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)
    y, loss, gradient = runs[0]
    epsilon = EPSILON[dtype]
    torch.testing.assert_close(y.cpu().double(), exact, rtol=epsilon, atol=epsilon * exact.max().item())
    reference = s.double().requires_grad_()
    plain = mincut_loss(reference, op)
    (expected,) = torch.autograd.grad(plain, reference)
    assert abs(loss.item() - plain.item()) <= 2 * epsilon
    # Both terms of the gradient may cancel (one cluster: the loss is constant): each has this size.
    size = 2 * exact.abs().max().item() / (op.degree.double() * s.double().square().sum(-1)).sum().item()
    torch.testing.assert_close(gradient.cpu().double(), expected, rtol=0, atol=5 * epsilon * size)


def test_large_products_take_the_kernels_by_themselves():
    n, k = 20_000, 16
    op = operator(random_adjacency(n, 300_000)).normalise().to("cuda")
    s = torch.rand(n, k, device="cuda")
    assert takes(s, op.pattern.nnz)
    assert not takes(s[:, :1], 1000)
    with use("torch"):
        expected = op @ s
    torch.testing.assert_close(op @ s, expected, rtol=1e-5, atol=1e-6)


def test_a_step_can_be_captured():
    op = operator(with_hubs()).normalise().to("cuda")
    s = torch.rand(op.num_rows, 8, device="cuda").softmax(-1).requires_grad_()

    def step():
        loss = mincut_loss(s, op)
        return loss.detach(), *torch.autograd.grad(loss, s)

    with use("triton"):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                expected = step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
        graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(expected, captured, strict=True))


def test_the_loss_needs_no_more_than_two_matrices_like_s():
    n, k = 100_000, 16
    row = torch.arange(n, device="cuda").repeat_interleave(16)
    col = torch.randint(0, n, row.shape, device="cuda")
    edges = torch.cat([torch.stack([row, col]), torch.stack([col, row])], 1)
    op = CSR.from_edge_index(edges, num_nodes=n).normalise()
    s = torch.rand(n, k, device="cuda").softmax(-1).requires_grad_()

    def step():
        torch.autograd.grad(mincut_loss(s, op), s)

    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    assert torch.cuda.max_memory_allocated() - before <= 2.05 * 4 * n * k


def check_products(layout, a, b):
    """S'Y and its gradient on kernels are PyTorch's, and the same every time."""

    def products():
        gram = layout.gram(a, b)
        return gram.detach(), *torch.autograd.grad(gram.square().mean(), (a, b))

    with use("torch"):
        expected = products()
    with use("triton"):
        first, again = products(), products()
    for x, y, z in zip(expected, first, again, strict=True):
        torch.testing.assert_close(y, x, rtol=1e-5, atol=1e-5)
        assert torch.equal(y, z)


@pytest.mark.parametrize("nodes_last", [False, True])
def test_products_per_replica(nodes_last):
    n, replicas, k, f = 5000, 6, 20, 7
    a, b = torch.rand(n, replicas, k, device="cuda"), torch.rand(n, replicas, f, device="cuda")
    if nodes_last:
        a = a.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    layout = Segments(n)
    a.requires_grad_()
    b.requires_grad_()
    check_products(layout, a, b)


def test_products_per_graph():
    sizes = torch.randint(0, 1500, (40,), generator=torch.Generator().manual_seed(0)).cuda()
    n = int(sizes.sum())
    layout = Segments(n, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
    a, b = (torch.rand(n, k, device="cuda", requires_grad=True) for k in (20, 70))
    check_products(layout, a, b)
