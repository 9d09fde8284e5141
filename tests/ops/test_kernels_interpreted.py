"""The GPU kernels in Triton's interpreter: the same numbers as plain formulas, on any graph, in every precision."""

import importlib
import os
import subprocess
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.graph_strategies import make_sample
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from softcut.ops import CSR, CSRPattern, Segments, cut_terms, mincut_loss, spmm
from softcut.ops.batching import ragged_on_kernels
from softcut.ops.kernels import use
from softcut.ops.kernels.plan import RowPlan, Tiles, row_plan
from softcut.ops.spmm import sparse_product

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="with a GPU, tests/gpu runs the kernels themselves"
)

EPSILON = {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 2e-2}


def product_module():
    return importlib.import_module("softcut.ops.kernels.product")


def hub_graph(weighted, n=14):
    """Node 0 has all others as neighbours, node n - 1 has none."""
    dense = torch.zeros(n, n, dtype=torch.float64)
    dense[0, 1:-1] = dense[1:-1, 0] = 1.0
    for i, j in ((1, 2), (2, 3), (5, 9), (4, 4)):
        dense[i, j] = dense[j, i] = 1.0
    if weighted:
        values = torch.rand(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1
        dense = dense * (values + values.T)
    row, col = dense.nonzero().T
    pattern, _ = CSRPattern.from_coo(row, col, (n, n))
    return dense, pattern, dense[row, col] if weighted else None


def random(*shape, dtype=torch.float64, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize(
    ("dtype", "k", "weighted", "scaled", "piece", "along_rows", "gather_scale"),
    [
        (torch.float32, 5, False, True, 512, False, False),
        (torch.float32, 17, True, False, 3, False, False),  # three blocks of columns, the hub in pieces
        (torch.float32, 8, False, True, 3, True, True),
        (torch.float64, 1, True, True, 512, True, False),
        (torch.float64, 9, False, False, 5, True, False),
        (torch.bfloat16, 8, False, True, 3, False, True),
        (torch.bfloat16, 3, True, True, 512, False, False),
    ],
)
def test_product_sums_and_gradient(dtype, k, weighted, scaled, piece, along_rows, gather_scale):
    dense, pattern, val = hub_graph(weighted)
    n = dense.shape[0]
    kind = torch.promote_types(dtype, torch.float32)
    x, degree = random(n, k, dtype=dtype), random(n, seed=2)
    scale = random(n, seed=3) if scaled else None
    tiles = Tiles(4, 4, 8, 1, along_rows, ahead=along_rows, programs=2, gather_scale=gather_scale)
    matrix = dense if scale is None else scale[:, None] * dense * scale
    expected = matrix @ x.double()
    given = [None if t is None else t.to(kind) for t in (val, scale)]
    plan = row_plan(pattern.rowptr, piece)
    assert (plan.long is not None) == (piece < 12)
    module, epsilon = product_module(), EPSILON[dtype]

    y, _ = module.row_product(pattern.col, given[0], x, given[1], plan, tiles)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), expected, rtol=epsilon, atol=epsilon)

    arguments = (pattern.col, given[0], x, given[1], degree.to(kind))
    (num, den, y), again = (module.cut_sums(*arguments, plan=plan, tiles=tiles) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip((num, den, y), again, strict=True))
    assert num.dtype == den.dtype == kind
    for got, rows in ((num, x.double() * expected), (den, degree[:, None] * x.double() ** 2)):
        torch.testing.assert_close(got.double().item(), rows.sum().item(), rtol=epsilon, atol=0)

    g_num, g_den = torch.tensor([0.3], dtype=kind), torch.tensor([-0.7], dtype=kind)
    wanted = 0.6 * expected - 1.4 * degree[:, None] * x.double()
    for in_place in (False, True):
        gradient = module.cut_gradient(y, x, given[1], degree.to(kind), g_num, g_den, in_place=in_place)
        assert (gradient is y) == in_place
        torch.testing.assert_close(gradient.double(), wanted, rtol=epsilon, atol=3 * epsilon)


def in_both_modes(function):
    """What a function of no arguments returns with PyTorch's products and with the kernels, pair by pair."""
    results = []
    for mode in ("torch", "triton"):
        with use(mode):
            results.append(function())
    return list(zip(*results, strict=True))


@pytest.fixture
def launches(monkeypatch):
    """Names of the kernels that were launched."""
    programs = importlib.import_module("softcut.ops.kernels.programs")
    names = []
    for name in programs.__all__:
        noted, original = MagicMock(), getattr(programs, name)
        noted.__getitem__.side_effect = lambda grid, n=name, run=original: names.append(n) or run[grid]
        monkeypatch.setattr(programs, name, noted)
    return names


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_takes_one_pass_each_way(weighted, launches):
    sample = make_sample((7,), seed=3, weighted=weighted)
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, num_nodes=sample.n)

    def step():
        s = sample.assignments(3).requires_grad_()
        loss = mincut_loss(s, op)
        return loss, *torch.autograd.grad(loss, s)

    for a, b in in_both_modes(step):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    assert launches == ["sum_rows", "add_scaled"]
    half = sample.assignments(3).to(torch.bfloat16).requires_grad_()
    with use("triton"):
        loss = mincut_loss(half, op)
        (gradient,) = torch.autograd.grad(loss, half)
    assert (loss.dtype, gradient.dtype) == (torch.float32, torch.bfloat16)  # added up in float32
    assert abs(loss.item() - mincut_loss(half.detach().double(), op).item()) < 2e-3


class Sizes(TorchDispatchMode):
    """What operations of PyTorch make that is as large as S."""

    def __init__(self, size):
        super().__init__()
        self.size, self.made = size, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        name, kind = function.__name__.split(".")
        makers = ("empty", "zeros", "new_", "clone", "_to_copy", "mul", "add")
        if name.startswith(makers) and kind != "out" and out.numel() >= self.size:
            self.made.append(name)
        return out


def test_the_loss_makes_two_matrices_and_its_gradient_none():
    if torch.__version__.startswith("2.6."):
        pytest.skip("PyTorch 2.6 hands the gradient over in a copy")
    sample = make_sample((9,), seed=3)
    op = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n).normalise()
    s = sample.assignments(3, dtype=torch.float32).requires_grad_()
    with use("triton"):
        mincut_loss(s, op)  # degrees, plan
        with Sizes(s.numel()) as forward:
            loss = mincut_loss(s, op)
        with Sizes(s.numel()) as backward:
            torch.autograd.grad(loss, s)
    assert forward.made == ["empty", "empty_like"]  # Y and D^-1/2 S
    assert backward.made == []


@pytest.mark.parametrize("mode", ["torch", "triton"])
@pytest.mark.parametrize("used", [0, 1])
def test_the_gradient_of_one_term_only(used, mode):
    sample = make_sample((6,), seed=1)
    op = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n).normalise()
    s, matrix = sample.assignments(2), op.to_dense()
    leaf = s.clone().requires_grad_()
    with use(mode):
        (gradient,) = torch.autograd.grad(cut_terms(op, leaf)[used].sum(), leaf)
    torch.testing.assert_close(gradient, 2 * (matrix @ s if used == 0 else matrix.sum(1, keepdim=True) * s))


def test_one_replica_is_fused_and_several_are_columns(launches):
    sample = make_sample((7,), seed=3)
    op = CSR.from_edge_index(sample.edge_index, num_nodes=sample.n).normalise()
    s = torch.softmax(sample.rand(sample.n, 2, 3), -1)
    expected = cut_terms(op, s)
    with use("triton"):
        one = cut_terms(op, s[:, :1])
        assert launches == ["sum_rows"]
        both = cut_terms(op, s)
    for a, b, c in zip(expected, one, both, strict=True):
        torch.testing.assert_close(b, a[:, :1])
        torch.testing.assert_close(c, a)


@pytest.mark.parametrize("nodes_last", [False, True])
@pytest.mark.parametrize("k", [3, 17])
def test_products_per_replica(nodes_last, k, launches):
    n, replicas, f = 70, 2, 5
    tensors = (random(n, replicas, k), random(n, replicas, f, seed=1), random(1, replicas, k, f, seed=2))
    a, b, m = (t.float() for t in tensors)
    if nodes_last:
        a = a.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    layout = Segments(n)

    def products():
        given = [t.detach().requires_grad_() for t in (a, b, m)]
        gram, rows = layout.gram(*given[:2]), layout.matmul(given[0], given[2])
        return rows, gram, *torch.autograd.grad(gram.square().sum() + rows.square().sum(), given)

    pairs = in_both_modes(products)
    assert {"gram_rows", "multiply_rows"} <= set(launches)
    assert pairs[0][1].stride(0) == (1 if nodes_last else replicas * f)
    for x, y in pairs:
        torch.testing.assert_close(y, x, rtol=1e-5, atol=1e-4)


def test_kernels_take_numbers_of_one_kind_and_no_empty_tables():
    a = torch.ones(4, 3)
    with use("triton"):
        assert ragged_on_kernels(a, a)
        for x, y in ((a.double(), a.double()), (a, a.half()), (a[:0], a[:0]), (a, a[:, :0])):
            assert not ragged_on_kernels(x, y)


def test_a_clustering_network_on_kernels_is_the_same_network(launches):
    from softcut.training import DenseInput, ReplicaNet

    net, z = ReplicaNet(5, 3, seeds=[0, 1], hidden=4), DenseInput(random(40, 5).float())

    def step():
        s = net.soft(z)
        return s, *torch.autograd.grad(s.square().sum(), list(net.parameters()))

    for a, b in in_both_modes(step):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-5)
    assert {"gram_rows", "multiply_rows"} <= set(launches)


def test_long_rows_of_any_length_share_a_kernel():
    dense, pattern, _ = hub_graph(False)
    for k in (65, 70):
        x = random(dense.shape[0], k).float()
        with use("triton"):
            torch.testing.assert_close(sparse_product(pattern, None, x), dense.float() @ x)


@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives(weighted):
    sample = make_sample((4,), seed=2, weighted=weighted)
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, num_nodes=sample.n)
    s = sample.assignments(2).requires_grad_()
    with use("triton"):
        assert gradcheck(lambda s: mincut_loss(s, op), (s,), fast_mode=True)
        assert gradgradcheck(lambda s: mincut_loss(s, op), (s,), fast_mode=True)
        assert gradcheck(lambda s: op.normalise() @ s, (s,), fast_mode=True)
        both = torch.stack([s.detach(), s.detach().flip(1)])
        many = torch.func.vmap(torch.func.grad(lambda s: mincut_loss(s, op)))(both)
        torch.testing.assert_close(many[0], torch.autograd.grad(mincut_loss(s, op), s)[0])
        if weighted:
            val = op.val.clone().requires_grad_()
            scale = sample.rand(sample.n)
            assert gradcheck(lambda v, s: spmm(op.pattern, v, s, scale), (val, s), fast_mode=True)


@pytest.mark.parametrize("chunk", [512, 16])  # 16: the largest graph is three chunks, added up afterwards
def test_products_per_graph(chunk, monkeypatch, launches):
    monkeypatch.setattr(product_module(), "CHUNK", chunk)
    sizes = torch.tensor([3, 0, 40, 1])
    layout = Segments(44, torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
    a, b = (random(44, k, dtype=torch.float32, seed=k).requires_grad_() for k in (5, 18))

    def products():
        gram = layout.gram(a, b)
        return gram, *torch.autograd.grad(gram.square().sum(), (a, b))

    for x, y in in_both_modes(products):
        torch.testing.assert_close(y, x, rtol=2e-6, atol=2e-6)
    assert launches == ["gram_rows", "multiply_rows", "multiply_rows"]


def test_rows_beyond_2_to_31_numbers():
    """Row 2^27 of a matrix with 16 columns begins at number 2^31; only its page is ever touched."""
    try:
        x = torch.empty(2**27 + 2, 16, dtype=torch.bfloat16)
    except RuntimeError:
        pytest.skip("no address space for 4 GiB")
    x[2**27], x[2**27 + 1] = 1.0, 2.0
    rowptr = torch.tensor([0, 2, 3], dtype=torch.int32)
    col = torch.tensor([2**27, 2**27 + 1, 2**27 + 1], dtype=torch.int32)
    y, _ = product_module().row_product(col, None, x, None, row_plan(rowptr), Tiles(2, 2, 16, 1))
    assert y.float()[:, 0].tolist() == [3.0, 2.0]


def test_entries_beyond_2_to_31():
    try:
        col = torch.empty(2**31 + 4, dtype=torch.int32)
    except RuntimeError:
        pytest.skip("no address space for 8 GiB")
    first, last = torch.tensor([2**31 - 1, 2**31 + 1]), torch.tensor([2**31 + 1, 2**31 + 4])
    col[2**31 - 1 :] = torch.tensor([0, 1, 2, 2, 1])
    plan = RowPlan(first, last, None, None, 2.5)
    x = torch.tensor([[1.0], [10.0], [100.0]])
    y, _ = product_module().row_product(col, None, x, None, plan, Tiles(2, 2, 4, 1))
    assert y.flatten().tolist() == [11.0, 210.0]


@pytest.mark.parametrize("mode", ["torch", "triton"])
def test_index_types_around_the_end_of_int32(mode, monkeypatch):
    dense, reference, _ = hub_graph(False)
    x = random(14, 2)
    for end, rowptr_type in ((reference.nnz + 1, torch.int32), (reference.nnz, torch.int64)):
        monkeypatch.setattr(importlib.import_module("softcut.ops.numerics"), "_INT32_END", end)
        pattern, _ = CSRPattern.from_coo(*dense.nonzero().T, (14, 14))
        for wide in ((14, reference.nnz + 2), (reference.nnz + 2, 14)):  # the number of columns decides
            other, _ = CSRPattern.from_coo(*dense.nonzero().T, wide)
            matrix = sp.csr_array((np.ones(other.nnz), other.col.numpy(), other.rowptr.numpy()), shape=wide)
            for each in (other, other.transpose[0], CSRPattern.from_scipy(matrix)):
                assert each.rowptr.dtype == rowptr_type
                assert each.col.dtype == (torch.int32 if each.shape[1] < end else torch.int64)
        for each in (pattern, pattern.transpose[0]):
            assert (each.rowptr.dtype, each.col.dtype) == (rowptr_type, torch.int32)
        with use(mode):
            for dtype, epsilon in ((torch.float64, 1e-14), (torch.float32, 1e-6)):
                got = spmm(pattern, None, x.to(dtype)).double()
                torch.testing.assert_close(got, dense @ x, rtol=epsilon, atol=epsilon)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from softcut.ops.kernels import programs

def compiled(function, pointers, sizes, **constants):
    signature, fixed = {}, {}
    for i, name in enumerate(function.arg_names):
        if name in pointers or name in sizes:
            signature[name] = pointers.get(name, "i32")
        else:
            signature[name], fixed[i,] = "constexpr", constants.get(name)
    source = ASTSource(function, signature, fixed, {})
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    assert "ld.global" in code or "cp.async" in code

index = dict.fromkeys(("col", "first", "last", "dest"), "*i32")
sizes = ("sums_at", "sums_stride", "count", "repeat", "width")
strides = [f"{which}_{axis}" for which in "ab" for axis in ("row", "replica", "column")]
tiles = dict(K=16, ROWS=4, NEIGHBOURS=16, COLUMNS=16, STREAM=True, AHEAD=True, WIDE=False)
for kind in ("*fp32", "*bf16"):
    rows = {name: kind for name in ("out", "x", "s")}
    sums = {name: "*fp32" for name in ("outer", "inner", "val", "degree", "sums")}
    for along in (False, True):
        compiled(programs.sum_rows, {**rows, **index}, sizes, ALONG_ROWS=along, **tiles)
        compiled(programs.sum_rows, {**rows, **index, **sums}, sizes, ALONG_ROWS=along, **tiles)
    compiled(programs.sum_rows, {**rows, **index}, sizes, ALONG_ROWS=True, **tiles | {"K": 0})
    given = {**rows, "y": kind, "scale": "*fp32", "degree": "*fp32", "g_y": "*fp32", "g_s": "*fp32"}
    compiled(programs.add_scaled, given, ("rows",), K=7, ROWS=64, COLUMNS=8, WIDE=False)
    given = {name: kind for name in ("out", "a", "b", "m")} | dict.fromkeys(("owner", "bounds", "ptr"), "*i64")
    replicas = {name: kind for name in ("out", "a", "b", "m")} | {"out": "*fp32"}
    for given in (given, replicas):  # per graph of a batch, and per replica of one graph
        for function in (programs.gram_rows, programs.multiply_rows):
            compiled(function, given, ("rows", "K", "F", *strides), LENGTH=512, STEP=64, BLOCK_K=16, BLOCK_F=64)
"""


@pytest.mark.slow
def test_kernels_compile_for_a_gpu_that_is_not_there():
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_ALWAYS_COMPILE"] = "1"
    subprocess.run([sys.executable, "-c", COMPILE], check=True, env=environment)
