"""SkipConv and its helpers against the plain formula and PyTorch Geometric."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from helpers.graph_strategies import make_sample, plain_normalise, samples
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn import DenseGraphConv, GraphConv

import softcut.nn
from softcut.errors import GraphError, ParameterError
from softcut.nn import MLP, SkipConv
from softcut.ops import CSR, as_operator

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def make_conv(f_in, f_out, **options):
    torch.manual_seed(0)
    conv = SkipConv(f_in, f_out, **options).double()
    if conv.itself.bias is not None:
        torch.nn.init.normal_(conv.itself.bias)
    return conv


@pytest.mark.parametrize("widths", [(5, 3), (3, 5)])  # one order of the products each
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("act", [None, "elu"])
def test_the_plain_formula(widths, directed, act):
    sample = make_sample((4, 6), seed=1, weighted=True, directed=directed)
    conv = make_conv(*widths, act=act)
    x = sample.rand(sample.n, widths[0]).requires_grad_()
    adj = plain_normalise(sample.block())
    plain = adj @ x @ conv.neighbours.weight.T + x @ conv.itself.weight.T + conv.itself.bias
    plain = plain if act is None else torch.nn.functional.elu(plain)
    leaves = (x, *conv.parameters())
    expected = torch.autograd.grad(plain.square().sum(), leaves)
    sparse = conv(x, sample.edge_index, sample.edge_weight, batch=sample.batch)
    dense = conv(sample.pad(x), sample.padded(), mask=sample.mask)
    assert not dense[~sample.mask].any()
    for got in (sparse, dense[sample.mask]):
        torch.testing.assert_close(got, plain)
        torch.testing.assert_close(torch.autograd.grad(got.square().sum(), leaves), expected)


@given(samples(nodes=(1, 7), connected=None), st.sampled_from([(2, 4), (4, 2)]))
def test_equals_graph_conv_of_pytorch_geometric_on_the_normalised_graph(sample, widths):
    conv, peer = make_conv(*widths), GraphConv(*widths).double()
    peer.lin_rel.weight.data = conv.neighbours.weight.data
    peer.lin_rel.bias.data = conv.itself.bias.data
    peer.lin_root.weight.data = conv.itself.weight.data
    x = sample.rand(sample.n, widths[0])
    op = CSR.from_edge_index(sample.edge_index, sample.edge_weight, sample.n).normalise()
    entries = plain_normalise(sample.block())[sample.edge_index[0], sample.edge_index[1]]
    torch.testing.assert_close(conv(x, op), peer(x, sample.edge_index, entries))
    dense = DenseGraphConv(*widths).double()
    dense.load_state_dict(peer.state_dict())
    padded = conv(sample.pad(x), sample.padded(), mask=sample.mask)
    torch.testing.assert_close(
        padded, dense(sample.pad(x), plain_normalise(sample.padded()), mask=sample.mask)
    )


def test_a_normalised_operator_is_not_normalised_again():
    sample = make_sample((6,), seed=1, weighted=True)
    conv, x = make_conv(3, 3), sample.rand(6, 3)
    op = as_operator(sample.edge_index, sample.edge_weight, num_nodes=6)
    torch.testing.assert_close(conv(x, op.normalise()), conv(x, op))


def test_a_two_dimensional_dense_graph_is_a_batch_of_one():
    sample = make_sample((6,), seed=1)
    conv, x = make_conv(3, 2), sample.rand(6, 3)
    torch.testing.assert_close(conv(x, sample.block())[0], conv(x, sample.edge_index))


@pytest.mark.parametrize(("f_in", "f_out", "columns"), [(7, 2, 2), (2, 7, 2)])
def test_the_narrower_product_is_computed(products, f_in, f_out, columns):
    conv, op = make_conv(f_in, f_out), as_operator(EDGES, num_nodes=3).normalise()
    conv(torch.rand(3, f_in, dtype=torch.float64), op)
    assert products == [(3, columns)]


def test_permuted_nodes_give_permuted_features():
    sample = make_sample((7,), seed=1, weighted=True)
    conv, x = make_conv(3, 4, act="tanh"), sample.rand(7, 3)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(3))
    moved = conv(x[order], order.argsort()[sample.edge_index], sample.edge_weight)
    torch.testing.assert_close(moved, conv(x, sample.edge_index, sample.edge_weight)[order])


def test_autocast_and_bfloat16_models():
    sample = make_sample((7,), seed=1, weighted=True)
    x, weight = sample.rand(7, 3).float(), sample.edge_weight.float()
    conv = make_conv(3, 4).float()
    exact = conv(x, sample.edge_index, weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = conv(x, sample.edge_index, weight)
    low = conv.bfloat16()(x.bfloat16(), sample.edge_index, weight)
    assert low.dtype == torch.bfloat16
    for got in (mixed, low):
        torch.testing.assert_close(got.float(), exact, atol=0.06, rtol=0.06)


def test_mlp():
    torch.manual_seed(0)
    mlp = MLP(3, [5, 4], 2, act="tanh")
    x = torch.rand(6, 3)
    first, second, third = mlp.layers
    torch.testing.assert_close(mlp(x), third(torch.tanh(second(torch.tanh(first(x))))))
    assert len(MLP(3, None, 2).layers) == 1
    assert len(MLP(3, 8, 2).layers) == 2
    straight = MLP(3, 4, 2, act=None)
    torch.testing.assert_close(straight(x), straight.layers[1](straight.layers[0](x)))


def test_reset_parameters_draws_again():
    for module in (SkipConv(4, 4), MLP(4, 4, 4)):
        before = [p.clone() for p in module.parameters()]
        module.reset_parameters()
        assert any(not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


BAD = [
    (ParameterError, "act must be one of", lambda: SkipConv(2, 2, act="swish")),
    (GraphError, "x must be a tensor", lambda: SkipConv(2, 2)([[1.0, 2.0]], EDGES)),
    (GraphError, "x must be a tensor", lambda: SkipConv(2, 2)(torch.rand(3), EDGES)),
    (GraphError, "x must hold floating-point", lambda: SkipConv(2, 2)(torch.ones(3, 2).long(), EDGES)),
    (GraphError, "x has 3 features", lambda: SkipConv(2, 2)(torch.rand(3, 3), EDGES)),
    (GraphError, "x has [4] nodes", lambda: SkipConv(2, 2)(torch.rand(4, 2), as_operator(EDGES))),
    (GraphError, "x has [1, 3] nodes", lambda: SkipConv(2, 2)(torch.rand(3, 2), torch.rand(2, 3, 3))),
    (GraphError, "edge_index names node 2", lambda: SkipConv(2, 2)(torch.rand(2, 2), EDGES)),
    (GraphError, "edge_weight must", lambda: SkipConv(2, 2)(torch.rand(3, 2), EDGES, torch.ones(3))),
]


@pytest.mark.parametrize(("error", "sentence", "call"), BAD, ids=[f"{i} {b[1]}" for i, b in enumerate(BAD)])
def test_bad_input_is_one_sentence_that_names_the_argument(error, sentence, call):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")


def test_every_public_name_of_nn_is_found_also_without_pytorch_geometric():
    code = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "from softcut.nn import *\n"
        "import softcut.nn\n"
        "assert all(name in globals() and name in dir(softcut.nn) for name in softcut.nn.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert softcut.nn.PreCoarsen.__name__ in dir(softcut.nn)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = softcut.nn.Nothing
