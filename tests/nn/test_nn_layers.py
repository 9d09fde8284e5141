"""Message passing against the plain formula and PyTorch Geometric, in float64; torch.compile of the dense path."""

import math
import subprocess
import sys

import pytest
import torch
from helpers.graph_strategies import make_sample, plain_normalise, samples
from hypothesis import given
from torch_geometric.nn import GCNConv as PeerGCN
from torch_geometric.nn import GraphConv as PeerGraphConv

import softcut.nn
from softcut import Graph
from softcut.nn import (
    MLP,
    DiffPool,
    DMoNPool,
    GCNConv,
    GraphConv,
    JustBalancePool,
    MinCutPool,
    NoPool,
    RandomPool,
    SAGPool,
    SkipConv,
    TopKPool,
    get_pool,
)
from softcut.nn.layers import UnitLinear
from softcut.nn.pool import POOLS
from softcut.ops import CSR, OBJECTIVES, Dense, as_operator

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
TIGHT = {"atol": 1e-13, "rtol": 1e-13}


def pair(kind, f_in, f_out):
    """A layer and that of PyTorch Geometric with the same parameters; SkipConv is GraphConv of the normalised graph."""
    torch.manual_seed(0)
    if kind == "gcn":
        conv, peer = GCNConv(f_in, f_out).double(), PeerGCN(f_in, f_out, add_self_loops=False).double()
        torch.nn.init.normal_(peer.bias)
    else:
        conv = (GraphConv if kind == "graphconv" else SkipConv)(f_in, f_out).double()
        peer = PeerGraphConv(f_in, f_out).double()
    state = peer.state_dict()  # the names of the parameters are not the same
    if kind == "skip":
        names = {"lin_rel.weight": "neighbours.weight", "lin_root.weight": "itself.weight"}
        state = {names.get(name, "itself.bias"): value for name, value in state.items()}
    conv.load_state_dict(state)
    conv.load_state_dict(conv.state_dict())
    return conv, peer


def for_peer(kind, n, edge_index, weight=None):
    """A + I for the GCN (the peer's own way leaves the weights of loops that are there already), A~ for SkipConv."""
    weight = torch.ones(edge_index.shape[1], dtype=torch.double) if weight is None else weight
    if kind == "gcn":
        loops = torch.arange(n).expand(2, -1)
        return torch.cat([edge_index, loops], 1), torch.cat([weight, torch.ones(n, dtype=weight.dtype)])
    if kind == "skip":
        block = torch.zeros(n, n, dtype=torch.double).index_put(tuple(edge_index), weight, accumulate=True)
        weight = plain_normalise(block)[edge_index[0], edge_index[1]]
    return edge_index, weight


@pytest.mark.parametrize("kind", ["gcn", "graphconv", "skip"])
@pytest.mark.parametrize("widths", [(2, 4), (4, 2)])
@given(sample=samples(nodes=(1, 7), connected=None))
def test_agree_in_float64_whatever_the_format(kind, widths, sample):
    conv, peer = pair(kind, *widths)
    x = sample.rand(sample.n, widths[0]).requires_grad_()
    expected = peer(x, *for_peer(kind, sample.n, sample.edge_index, sample.edge_weight))
    gradient = torch.autograd.grad(expected.square().sum(), x)[0]
    real = sample.mask.unsqueeze(-1)  # whatever stands in the padding
    adj = torch.where(real & real.mT, sample.padded(), 7.0)
    dense = conv(torch.where(real, sample.pad(x), torch.nan), adj, mask=sample.mask)
    assert not dense[~sample.mask].any()
    for out in (conv(x, sample.edge_index, sample.edge_weight, sample.batch), dense[sample.mask]):
        torch.testing.assert_close(out, expected, **TIGHT)
        torch.testing.assert_close(torch.autograd.grad(out.square().sum(), x)[0], gradient)


@pytest.mark.parametrize("kind", ["gcn", "graphconv", "skip"])
def test_float64_where_the_graph_is_binary_or_float32(kind):
    sample = make_sample((30,), seed=1)
    weighted = make_sample((30,), seed=1, weighted=True)
    conv, peer = pair(kind, 3, 2)
    x, weight = sample.rand(30, 3), weighted.edge_weight.float()
    edges = sample.edge_index
    plain = peer(x, *for_peer(kind, 30, edges))
    heavy = peer(x, *for_peer(kind, 30, weighted.edge_index, weight.double()))
    cases = [
        (plain, (edges,)),
        (plain, (as_operator(edges, num_nodes=30),)),
        (plain, (Graph.from_edges(edges.T.numpy()),)),
        (plain, (as_operator(edges, num_nodes=30).to_dense(),)),
        (heavy, (weighted.edge_index, weight)),
        (heavy, (CSR.from_edge_index(weighted.edge_index, weight, 30),)),
        (heavy, (Dense(CSR.from_edge_index(weighted.edge_index, weight, 30).to_dense()),)),
    ]
    for expected, adj in cases:
        torch.testing.assert_close(conv(x, *adj).view(30, 2), expected, **TIGHT)


@pytest.mark.parametrize("name", POOLS)
def test_poolers_are_as_exact_as_their_features(name):
    """A binary graph, whose coarse graphs have weights: two levels against the same with float64 weights."""
    sample = make_sample((12, 9), seed=1)
    ones = torch.ones(sample.edge_index.shape[1], dtype=torch.double)
    options = {"k": 3} if name in ("mincut", "diffpool", "random", "dmon", "justbalance") else {}
    torch.manual_seed(0)
    first, second = (get_pool(name, 4, **options).double() for _ in range(2))
    conv, x = SkipConv(4, 4).double(), sample.rand(sample.n, 4)

    def run(weight):
        one = first(x, sample.edge_index, weight, sample.batch)
        two = second(conv(one.x, one.adj), one.adj)
        return conv(two.x, two.adj), one.loss + two.loss

    torch.testing.assert_close(run(None), run(ones), **TIGHT)


COMPILED = {
    "GCNConv": lambda: GCNConv(3, 2, act="sigmoid"),
    "GraphConv": lambda: GraphConv(3, 4),
    **{make.__name__: lambda make=make: make(3, 2) for make in (DiffPool, DMoNPool, JustBalancePool)},
    "DiffPool that embeds": lambda: DiffPool(3, 2, out_channels=4, assignment="skip", link_scale="divided"),
    **{make.__name__: lambda make=make: make(3) for make in (SAGPool, TopKPool)},
    "SAGPool two_hop": lambda: SAGPool(3, k=2, gnn="graphconv", connect="two_hop"),
    "SAGPool min_score": lambda: SAGPool(3, min_score=0.2),
    **{f"MinCutPool {name}": lambda name=name: MinCutPool(3, 2, 4, objective=name) for name in OBJECTIVES},
    "NoPool": NoPool,
    "RandomPool": lambda: RandomPool(2),
}


@pytest.mark.parametrize("make", COMPILED.values(), ids=COMPILED)
def test_the_dense_path_compiles_into_one_graph(make):
    sample = make_sample((4, 6), seed=1, weighted=True)
    torch.manual_seed(0)
    layer = make().double()
    x, adj = sample.pad(sample.rand(10, 3)), sample.padded()
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")

    def parts(out):
        return (out,) if isinstance(out, torch.Tensor) else (out.x, out.adj.to_dense(), out.loss)

    expected, got = (parts(call(x, adj, mask=sample.mask)) for call in (layer, compiled))
    torch.testing.assert_close(got, expected)
    leaves = tuple(layer.parameters())
    if leaves:
        first, second = (sum(t.square().sum() for t in out) for out in (expected, got))
        torch.testing.assert_close(torch.autograd.grad(second, leaves), torch.autograd.grad(first, leaves))


def test_normalised_operators_and_a_single_dense_matrix():
    sample = make_sample((6,), seed=1, weighted=True)
    conv, x = SkipConv(3, 3, act="elu").double(), sample.rand(6, 3)
    op = as_operator(sample.edge_index, sample.edge_weight, num_nodes=6)
    adj = plain_normalise(sample.block())
    expected = torch.nn.functional.elu(adj @ conv.neighbours(x) + conv.itself(x))
    for out in (conv(x, op), conv(x, op.normalise()), conv(x, sample.block())[0]):
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("make", [SkipConv, GCNConv, GraphConv])
@pytest.mark.parametrize(("f_in", "f_out"), [(7, 2), (2, 7)])
def test_the_narrower_product_is_computed(products, make, f_in, f_out):
    op = as_operator(EDGES, torch.ones(4), num_nodes=3).normalise()
    _ = op.degree
    products.clear()
    make(f_in, f_out)(torch.rand(3, f_in), op)
    assert products == [(3, 2)]


@pytest.mark.parametrize("make", [SkipConv, GCNConv, GraphConv])
def test_autocast_and_bfloat16_models(make):
    sample = make_sample((7,), seed=1, weighted=True)
    torch.manual_seed(0)
    x, weight, conv = sample.rand(7, 3).float(), sample.edge_weight.float(), make(3, 4)
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
    assert len(MLP(3, 1, 2).layers) == 2
    straight = MLP(3, 4, 2, act=None)
    torch.testing.assert_close(straight(x), straight.layers[1](straight.layers[0](x)))


def test_parameters_are_drawn_again_within_their_bounds():
    """Glorot's where messages are normalised, those of torch.nn.Linear elsewhere."""
    torch.manual_seed(0)
    glorot, root = math.sqrt(6 / (64 + 999)), 1 / 8
    sizes = {SkipConv: [glorot, glorot, 0], GCNConv: [glorot, 0], GraphConv: [root] * 3}
    made = [(make(64, 999), bounds) for make, bounds in sizes.items()]
    for module, bounds in [*made, (MLP(64, None, 999), [glorot, 0]), (UnitLinear(64), [root])]:
        before = [p.clone() for p in module.parameters()]
        module.reset_parameters()
        for old, new, bound in zip(before, module.parameters(), bounds, strict=True):
            assert not bound or not torch.equal(old, new)
            for extreme in (-old.min(), old.max(), -new.min(), new.max()):
                assert 0.8 * bound <= extreme <= bound
    assert not UnitLinear.unit(torch.zeros(2, 3)).any()  # no direction stays none


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


def test_a_dense_operator_sees_changes_in_place():
    adj = torch.ones(1, 3, 3) - torch.eye(3)
    op = Dense(adj)
    assert op.degree.tolist() == [[2.0, 2.0, 2.0]]
    op.normalise()
    adj[:, 0] = adj[:, :, 0] = 0
    assert op.degree.tolist() == [[0.0, 1.0, 1.0]]
    torch.testing.assert_close(op.normalise().to_dense(), Dense(adj.clone()).normalise().to_dense())
