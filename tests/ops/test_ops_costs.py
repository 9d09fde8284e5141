"""What a step costs: one product with A, memory, and a saved product that nobody else sees changed."""

import weakref

import pytest
import torch
from helpers.graph_strategies import make_operator, make_sample, plain_cut, plain_normalise, rows_for
from torch.func import grad, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from softcut.ops import Dense, as_operator, coarsen, cut_terms, mincut_loss


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
def test_memory_of_a_step(weighted):
    n, e, k, edges, weight, s = big_graph(weighted)
    with Recorder() as recorder:
        (mincut_loss(s, edges, weight) + coarsen(s, s, edges, weight).adj.to_dense().sum()).backward()
    assert recorder.largest <= max(n * k, e + n)  # nothing of the size of edges times clusters
    with Recorder() as naive:  # the recorder sees what it should
        (s[edges[0]] * s[edges[1]]).sum().backward()
    assert naive.largest == e * k
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
    for value in (lambda: mincut_loss(s, op), lambda: coarsen(s, s, op).adj.to_dense().sum()):
        products.clear()
        value().backward()
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


def test_replicas_share_one_product(products):
    sample = make_sample((7,), seed=8)
    op = as_operator(sample.edge_index, num_nodes=7)
    s = torch.rand(7, 4, 3, dtype=torch.float64).softmax(-1).requires_grad_()
    mincut_loss(s, op)
    products.clear()
    mincut_loss(s, op).sum().backward()
    vmap(grad(lambda s: mincut_loss(s, op)))(s.detach().movedim(1, 0))
    assert products == [(7, 12), (7, 12)]


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
    several = torch.tensor([[1.0], [2.0]], dtype=loss.dtype)  # a batch of gradients
    loss = mincut_loss(s, sample.edge_index, reduction="none")
    (got,) = torch.autograd.grad(loss, s, several, is_grads_batched=True)
    torch.testing.assert_close(got, torch.stack([expected, 2 * expected]))
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
