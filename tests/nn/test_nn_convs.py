"""GCNConv and GraphConv against PyTorch Geometric, in float64; whole graphs of operations for torch.compile."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.graph_strategies import make_sample, samples
from hypothesis import given
from torch_geometric.nn import GCNConv as PeerGCN
from torch_geometric.nn import GraphConv as PeerGraphConv

from softcut import Graph
from softcut.errors import GraphError, ParameterError
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
from softcut.nn.pool import POOLS
from softcut.ops import CSR, Dense, as_operator

PATH = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
NEGATIVE = torch.tensor([1.0, 1.0, -5.0, -5.0, 1.0, 1.0])
TIGHT = {"atol": 1e-13, "rtol": 1e-13}


def pair(kind, f_in, f_out):
    torch.manual_seed(0)
    if kind == "gcn":
        conv, peer = GCNConv(f_in, f_out).double(), PeerGCN(f_in, f_out, add_self_loops=False).double()
        torch.nn.init.normal_(peer.bias)
    else:
        conv, peer = GraphConv(f_in, f_out).double(), PeerGraphConv(f_in, f_out).double()
    conv.load_state_dict(peer.state_dict())  # the names of the parameters are not the same
    conv.load_state_dict(conv.state_dict())
    return conv, peer


def with_loops(kind, n, edge_index, weight=None):
    """A + I for the GCN: the peer's own way leaves the weights of loops that are there already."""
    weight = torch.ones(edge_index.shape[1], dtype=torch.double) if weight is None else weight
    if kind != "gcn":
        return edge_index, weight
    loops = torch.arange(n).expand(2, -1)
    return torch.cat([edge_index, loops], 1), torch.cat([weight, torch.ones(n, dtype=weight.dtype)])


@pytest.mark.parametrize("kind", ["gcn", "graphconv"])
@pytest.mark.parametrize("widths", [(2, 4), (4, 2)])
@given(sample=samples(nodes=(1, 7), connected=None))
def test_agree_in_float64_whatever_the_format(kind, widths, sample):
    conv, peer = pair(kind, *widths)
    x = sample.rand(sample.n, widths[0])
    expected = peer(x, *with_loops(kind, sample.n, sample.edge_index, sample.edge_weight))
    torch.testing.assert_close(
        conv(x, sample.edge_index, sample.edge_weight, sample.batch), expected, **TIGHT
    )
    dense = conv(sample.pad(x), sample.padded(), mask=sample.mask)
    torch.testing.assert_close(dense[sample.mask], expected, **TIGHT)
    assert not dense[~sample.mask].any()


@pytest.mark.parametrize("kind", ["gcn", "graphconv"])
def test_float64_where_the_graph_is_binary_or_float32(kind):
    sample = make_sample((30,), seed=1)
    weighted = make_sample((30,), seed=1, weighted=True)
    conv, peer = pair(kind, 3, 2)
    x, weight = sample.rand(30, 3), weighted.edge_weight.float()
    edges = sample.edge_index
    plain = peer(x, *with_loops(kind, 30, edges))
    heavy = peer(x, *with_loops(kind, 30, weighted.edge_index, weight.double()))
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


def test_half_precision_degrees_are_float32():
    sample = make_sample((40,), seed=1)
    conv = GCNConv(3, 2)
    x = sample.rand(40, 3).float()
    exact = conv(x, sample.edge_index)
    low = conv.bfloat16()(x.bfloat16(), sample.edge_index)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), exact, atol=0.05, rtol=0.05)


COMPILED = {
    "GCNConv": lambda: GCNConv(3, 2, act="sigmoid"),
    "GraphConv": lambda: GraphConv(3, 4),
    "DiffPool": lambda: DiffPool(3, 2),
    "DiffPool that embeds": lambda: DiffPool(3, 2, out_channels=4, assignment="skip", link_scale="divided"),
    "SAGPool": lambda: SAGPool(3),
    "SAGPool two_hop": lambda: SAGPool(3, k=2, gnn="graphconv", connect="two_hop"),
    "SAGPool min_score": lambda: SAGPool(3, min_score=0.2),
    "TopKPool": lambda: TopKPool(3),
    "DMoNPool": lambda: DMoNPool(3, 2),
    "JustBalancePool": lambda: JustBalancePool(3, 2),
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


# Negative weights: refused where degrees divide, used as they are elsewhere.

REFUSED = {
    "SkipConv": lambda: SkipConv(3, 2),
    "GCNConv": lambda: GCNConv(3, 2),
    "DiffPool": lambda: DiffPool(3, 2),
    "SAGPool": lambda: SAGPool(3),
    "MinCutPool": lambda: MinCutPool(3, 2),
    "MinCutPool normalise=False": lambda: MinCutPool(3, 2, normalise=False),
    "DMoNPool": lambda: DMoNPool(3, 2),
    "JustBalancePool": lambda: JustBalancePool(3, 2),
    "random": lambda: get_pool("random", k=2),
    "graclus": lambda: get_pool("graclus"),
    "ndp": lambda: get_pool("ndp"),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_negative_weights_are_refused(make):
    layer, x = make(), torch.rand(4, 3)
    dense = as_operator(PATH, NEGATIVE, num_nodes=4).to_dense()
    for adj in ((PATH, NEGATIVE), (PATH, NEGATIVE.clone().requires_grad_()), (dense,)):
        with pytest.raises(GraphError, match=r"negative|add up to less than 0"):
            layer(x, *adj)


def test_negative_weights_are_used_where_nothing_is_divided_by_degrees():
    x = torch.rand(4, 3)
    matrix = as_operator(PATH, NEGATIVE, num_nodes=4).to_dense()
    conv = GraphConv(3, 2)
    torch.testing.assert_close(
        conv(x, PATH, NEGATIVE), matrix @ conv.lin_rel(x) + conv.bias.bias + conv.lin_root(x)
    )
    out = DiffPool(3, 2, assignment="mlp")(x, PATH, NEGATIVE)
    torch.testing.assert_close(out.adj.to_dense()[0], out.s.mT @ matrix @ out.s)
    torch.testing.assert_close(out.losses["link"], torch.linalg.matrix_norm(matrix - out.s @ out.s.mT))
    assert TopKPool(3, ratio=1.0)(x, PATH, NEGATIVE).adj.to_dense().min() == -5
    assert NoPool()(x, PATH, NEGATIVE).adj.to_dense().min() == -5


# Sizes.

SIZES = [
    *[
        (f"in_channels must be a whole number, got {bad!r}", lambda c=c, b=bad: c(b, 2))
        for c in (GCNConv, GraphConv, SkipConv, MinCutPool, DiffPool, DMoNPool, JustBalancePool)
        for bad in (2.5, None, "3")
    ],
    *[
        ("in_channels must be at least 1, got 0", lambda c=c: c(0, 2))
        for c in (GCNConv, MinCutPool, DiffPool)
    ],
    *[("in_channels must be at least 1, got 0", lambda c=c: c(0)) for c in (TopKPool, SAGPool)],
    *[("out_channels must be a whole number", lambda c=c: c(3, 2.5)) for c in (GCNConv, GraphConv, SkipConv)],
    *[
        ("k must be a whole number, got 2.5", lambda c=c: c(3, 2.5))
        for c in (MinCutPool, DiffPool, DMoNPool, JustBalancePool)
    ],
    ("out_channels must be a whole number", lambda: DiffPool(3, 2, out_channels=2.5)),
    ("hidden must hold sizes", lambda: MinCutPool(3, 2, hidden=2.5)),
    ("hidden must hold sizes", lambda: MinCutPool(3, 2, hidden=[4, 2.5])),
    ("out_channels must be at least 1", lambda: MLP(3, None, 0)),
    ("temperature must be positive and finite", lambda: MinCutPool(3, 2, temperature=None)),
    ("temperature must be positive and finite", lambda: DiffPool(3, 2, temperature="low")),
    ("temperature must be positive and finite", lambda: DMoNPool(3, 2, temperature=float("inf"))),
    ("cut_weight must be a finite number", lambda: MinCutPool(3, 2, cut_weight=None)),
    ("ortho_weight must be a finite number", lambda: MinCutPool(3, 2, ortho_weight=float("nan"))),
    ("link_weight must be a finite number", lambda: DiffPool(3, 2, link_weight="1")),
    ("balance_weight must be a finite number", lambda: JustBalancePool(3, 2, balance_weight=None)),
    ("normalise must be True or False", lambda: MinCutPool(3, 2, normalise="no")),
    ("levels must be a whole number, got 1.5", lambda: get_pool("graclus", levels=1.5)),
    ("seed must be a whole number", lambda: get_pool("graclus", seed="a")),
    ("seed must be at least 0", lambda: get_pool("random", k=2, seed=-1)),
    ("delta must be a finite number", lambda: get_pool("ndp", delta=None)),
]


@pytest.mark.parametrize(("sentence", "call"), SIZES, ids=[f"{i} {s[0]}" for i, s in enumerate(SIZES)])
def test_sizes_and_numbers_are_checked(sentence, call):
    with pytest.raises(ParameterError) as caught:
        call()
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")


def test_whole_numbers_of_numpy_are_accepted():
    pool = MinCutPool(np.int64(3), np.int64(2), hidden=np.int64(4))
    assert pool(torch.rand(4, 3), PATH).x.shape == (1, 2, 3)


@pytest.mark.parametrize("make", [GCNConv, GraphConv, SkipConv, MinCutPool])
def test_features_and_graphs_that_cannot_be_used(make):
    layer, x = make(3, 2), torch.rand(4, 3)
    for sentence, call in (
        ("x must be a tensor of node features", lambda: layer(x.tolist(), PATH)),
        ("x must be a tensor of node features", lambda: layer(x.numpy(), PATH)),
        ("x must be a dense tensor", lambda: layer(x.to_sparse(), PATH)),
        ("adj must be an operator", lambda: layer(x, PATH.tolist())),
        ("edge_index must hold whole numbers", lambda: layer(x, PATH.float())),
        ("edge_weight must be a tensor", lambda: layer(x, PATH, [1.0] * 6)),
        ("batch must be a tensor", lambda: layer(x, PATH, batch=[0] * 4)),
        ("mask must be a tensor", lambda: layer(x, torch.ones(4, 4), mask=[[True] * 4])),
    ):
        with pytest.raises(GraphError) as caught:
            call()
        assert str(caught.value).startswith(sentence)
    column = layer(x, PATH, torch.full((6, 1), 2.0))
    flat = layer(x, PATH, torch.full((6,), 2.0))
    for got, expected in zip(
        *([out] if torch.is_tensor(out) else [out.x] for out in (column, flat)), strict=True
    ):
        torch.testing.assert_close(got, expected)
