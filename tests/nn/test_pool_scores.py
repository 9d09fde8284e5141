"""Top-K and SAGPool by threshold and on other features; any module as scorer, assigner or embedder."""

import numpy as np
import pytest
import torch
from helpers.pool_samples import BATCH, PTR, features, sparse, weighted
from test_pool_api import GRAPHS, F, collate
from torch import nn
from torch_geometric.nn import DenseGCNConv as PeerDenseGCN
from torch_geometric.nn import GATConv, SAGPooling, TopKPooling
from torch_geometric.nn import GCNConv as PeerGCN
from torch_geometric.nn import GraphConv as PeerGraphConv
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.errors import GraphError, ParameterError
from softcut.nn import DiffPool, GCNConv, GraphConv, SAGPool, SkipConv, TopKPool
from softcut.nn.foreign_modules import _how_to_call
from softcut.nn.pool.score_pools import above, top_k
from softcut.nn.pool.selection import KeepSelection
from softcut.ops import Dense, Segments
from softcut.ops.batching import Padded

SMALL = [GRAPHS[i] for i in (0, 1, 2, 5, 6)]
WIDTH = 4


def inputs():
    x, edge_index, weight, batch = collate(SMALL)
    attn = torch.randn(len(x), WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    return x, edge_index, weight, batch, attn


def padded(x, edge_index, weight, batch):
    dense, mask = to_dense_batch(x, batch)
    return dense, to_dense_adj(edge_index, batch, weight), mask


def same_as_peer(out, peer_out, x):
    """The same nodes with the same features and edges; they may stand in another order."""
    kept, edges, weight, batch, perm, _ = peer_out
    mine, theirs = out.selection.index.argsort(), perm.argsort()
    assert torch.equal(out.selection.index[mine], perm[theirs])
    torch.testing.assert_close(out.x[mine], kept[theirs])
    assert torch.equal(out.batch[mine], batch[theirs])
    adj = torch.zeros(len(x), len(x), dtype=weight.dtype)
    adj[perm[edges[0]], perm[edges[1]]] = weight
    index = out.selection.index
    torch.testing.assert_close(out.adj.to_dense(), adj[index][:, index])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ratio": 0.3},
        {"min_score": 0.2},
        {"min_score": 0.9},
        {"multiplier": 2.5},
        {"nonlinearity": "sigmoid"},
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_topk_agrees(options, own):
    x, edge_index, weight, batch, attn = inputs()
    torch.manual_seed(0)
    pool, peer = TopKPool(WIDTH, **options).double(), TopKPooling(WIDTH, **options).double()
    pool.load_state_dict(peer.state_dict())
    scored, given = (attn, None) if own else (x, attn)
    out = pool(scored, edge_index, weight, batch, attn=given)
    same_as_peer(out, peer(scored, edge_index, weight, batch, given), x)
    if "min_score" in options:
        assert (torch.bincount(out.batch, minlength=len(SMALL)) > 0).all()  # no graph is lost


@pytest.mark.parametrize("options", [{}, {"min_score": 0.2}, {"multiplier": 0.5}])
@pytest.mark.parametrize(
    ("gnn", "factor", "own"),  # the peer draws a factor of the score
    [("graphconv", -0.4, True), ("graphconv", 0.7, False), ("gcn", 0.7, True)],
)
def test_sagpool_agrees(options, gnn, factor, own):
    x, edge_index, weight, batch, attn = inputs()
    torch.manual_seed(0)
    pool = SAGPool(WIDTH, gnn=gnn, **options).double()
    peer = SAGPooling(WIDTH, GNN=PeerGraphConv if gnn == "graphconv" else PeerGCN, **options).double()
    peer.select.weight.data.fill_(factor)
    pool.load_state_dict(peer.state_dict())
    again = SAGPool(WIDTH, gnn=gnn, **options).double()
    again.load_state_dict(pool.state_dict())
    scored, given = (attn, None) if own else (x, attn)
    ones = torch.ones_like(weight)  # the peer scores without weights
    peer_out = peer(scored, edge_index, ones, batch, given)
    same_as_peer(again(scored, edge_index, ones, batch, attn=given), peer_out, x)


@pytest.mark.parametrize("make", [TopKPool, SAGPool])
@pytest.mark.parametrize("options", [{}, {"min_score": 0.2}])
def test_attn_and_min_score_in_a_padded_batch(make, options):
    x, edge_index, weight, batch, attn = inputs()
    torch.manual_seed(0)
    pool = make(WIDTH, **options).double()
    ragged = pool(x, edge_index, weight, batch, attn=attn)
    dense, adj, mask = padded(x, edge_index, weight, batch)
    out = pool(dense, adj, mask=mask, attn=to_dense_batch(attn, batch)[0])
    rows, _, values, numbers = out.to_pyg()
    assert torch.equal(torch.bincount(numbers), torch.bincount(ragged.batch))
    torch.testing.assert_close(rows.sum(0), ragged.x.sum(0))
    torch.testing.assert_close(values.sum(), ragged.adj.to_dense().sum())
    lifted = pool.lift(out.x, out.selection)[mask]
    torch.testing.assert_close(lifted, pool.lift(ragged.x, ragged.selection))


def test_attn_of_one_column_and_what_is_refused():
    x, edge_index, _, batch, attn = inputs()
    pool = TopKPool(1, k=1).double()
    with torch.no_grad():
        pool.direction.weight.fill_(1.0)
    out = pool(x, edge_index, batch=batch, attn=attn[:, 0])
    best = [int(attn[batch == g, 0].argmax()) for g in range(len(SMALL))]
    starts = [int((batch < g).sum()) for g in range(len(SMALL))]
    assert out.selection.index.tolist() == [a + b for a, b in zip(starts, best, strict=True)]
    for wrong, words in (
        (attn, "attn has 4 features, but the layer was made for in_channels=1"),
        (attn[0, 0], r"attn must be a tensor of node features, .* got shape \[\]"),
        (attn[:3, :1], r"attn has \[3\] nodes"),
    ):
        with pytest.raises(GraphError, match=words):
            pool(x, edge_index, batch=batch, attn=wrong)
    with pytest.raises(ParameterError, match="attn must be None"):
        pool(x, edge_index, batch=batch, attn=attn[:, 0], selection=out.selection)


def test_ratio_may_be_none_where_something_else_decides():
    x, edge_index, _, batch, _ = inputs()
    fixed = TopKPool(F, ratio=None, k=1).double()(x, edge_index, batch=batch)
    assert len(fixed.x) == len(SMALL)
    assert len(TopKPool(F, ratio=None, min_score=2.0).double()(x, edge_index, batch=batch).x) == len(SMALL)
    assert TopKPool(F, ratio=7, k=1).ratio == 1.0


def test_scores_as_good_as_the_best_stay_with_it():
    """Nodes within 1e-7 of the best of their graph, where none is above `min_score`."""
    score = torch.tensor([1.0, 1 - 5e-8, 1 - 2e-7, -7.0, 5.0, 6.0, 3.0], dtype=torch.double)
    zeros, batch = torch.zeros(7, 7), torch.tensor([0, 0, 0, 0, 1, 1, 1])
    for limit, kept in ((9.0, [0, 1, 5]), (1.0, [0, 1, 4, 5, 6]), (4.0, [0, 1, 4, 5]), (5.0, [0, 1, 5])):
        best = above(score, sparse(zeros, batch), limit)
        assert best.index.tolist() == kept and best.batch.tolist() == batch[kept].tolist()
        (rows, mask), adj = to_dense_batch(score, batch), torch.zeros(2, 4, 4)
        padded = above(rows, Dense(adj, mask), limit)
        assert (padded.index + torch.tensor([[0], [4]]))[padded.mask].sort().values.tolist() == kept
    assert above(score, sparse(zeros), 5.5).index.tolist() == [5]


# Any module.


def of(origin, forward):
    """How a module of somebody is called."""
    return _how_to_call(type("Made", (nn.Module,), {"forward": forward, "__module__": origin})())


def test_how_modules_are_called():
    """Read off the arguments: what PyTorch Geometric's second argument is, is told by its name."""
    for forward, own, peer in (
        (lambda self: 0, "features", "features"),
        (lambda self, x: 0, "features", "features"),
        (lambda self, *args: 0, "operator", "edge_index"),
        (lambda self, x, *args: 0, "features", "features"),
        (lambda self, x, *, edge_index: 0, "features", "features"),
        (lambda self, x, edge_index, more=None: 0, "edge_index", "edge_index"),
        (lambda self, x, adj: 0, "operator", "dense"),
        (lambda self, x, graph: 0, "operator", "features"),
        (lambda self, x, batch=None: 0, "features", "features"),
    ):
        assert (of("mine", forward), of("torch_geometric.nn", forward)) == (own, peer)


def test_a_score_may_come_without_a_column():
    x, edge_index, weight, batch, _ = inputs()
    flat = SAGPool(F, gnn=nn.Sequential(nn.Linear(F, 1), nn.Flatten(0))).double()
    column = SAGPool(F, gnn=flat.gnn[0]).double()
    torch.testing.assert_close(*(pool(x, edge_index, weight, batch).x for pool in (flat, column)))
    with pytest.raises(ParameterError, match=r"shape \[45, 2\], got \[45\]"):
        DiffPool(F, 2, assignment=flat.gnn).double()(x, edge_index)


class OnOperators(nn.Module):
    """Written for softcut: the second argument is an operator."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels)

    def forward(self, x, op):
        return op.product(self.lin(x))


def called(module, x, edge_index, weight):
    """The output of a module, called as its own authors would."""
    if isinstance(module, nn.Linear | nn.Sequential):
        return module(x)
    if isinstance(module, OnOperators):
        block = torch.zeros(len(x), len(x), dtype=torch.double)
        block[edge_index[0], edge_index[1]] = weight
        return block @ module.lin(x)
    return module(x, edge_index) if isinstance(module, GATConv) else module(x, edge_index, weight)


@pytest.mark.parametrize("given", [GraphConv, OnOperators, GATConv, PeerGraphConv, nn.Linear])
@pytest.mark.parametrize("made", [True, False])
def test_any_module_scores(given, made):
    x, edge_index, weight, batch, _ = inputs()
    torch.manual_seed(0)
    pool = SAGPool(F, k=2, gnn=given if made else given(F, 1)).double()
    score = called(pool.gnn, x, edge_index, weight)
    out = pool(x, edge_index, weight, batch)
    torch.testing.assert_close(out.selection.gate, torch.tanh(score.flatten())[out.selection.index])
    dense, adj, mask = padded(x, edge_index, weight, batch)
    rows = pool(dense, adj, mask=mask).to_pyg()[0]
    torch.testing.assert_close(rows, out.x)
    before = [p.clone() for p in pool.parameters()]
    pool.reset_parameters()
    assert any(not torch.equal(a, b) for a, b in zip(before, pool.parameters(), strict=True))


@pytest.mark.parametrize(
    "given", [GCNConv, SkipConv, GATConv, lambda a, b: nn.Sequential(nn.Linear(a, b), nn.Tanh())]
)
def test_any_module_assigns_and_embeds(given):
    x, edge_index, weight, batch, _ = inputs()
    torch.manual_seed(0)
    assigner, embedder = given(F, 3), given(F, 5)
    pool = DiffPool(F, 3, assignment=assigner, embed=embedder).double()
    scores, z = (called(module, x, edge_index, weight) for module in (assigner, embedder))
    out = pool(x, edge_index, weight, batch)
    torch.testing.assert_close(out.s, scores.softmax(-1))
    expected = torch.stack([out.s[batch == g].mT @ z[batch == g] for g in range(len(SMALL))])
    torch.testing.assert_close(out.x, expected)
    again = pool(*padded(x, edge_index, weight, batch)[:2], mask=to_dense_batch(x, batch)[1])
    torch.testing.assert_close((again.x, again.loss), (out.x, out.loss))
    made = DiffPool(F, 3, out_channels=5, assignment=given, embed=given).double()
    assert made(x, edge_index, weight, batch).x.shape == (len(SMALL), 3, 5)


def test_dense_layers_of_pytorch_geometric():
    x, adj, mask = padded(*inputs()[:4])
    torch.manual_seed(0)
    pool = DiffPool(F, 3, assignment=PeerDenseGCN, embed=PeerDenseGCN(F, 5)).double()
    out = pool(x, adj, mask=mask)
    torch.testing.assert_close(out.s[mask], pool.scores(x, adj, mask).softmax(-1)[mask])
    assert out.x.shape[-1] == 5
    with pytest.raises(ParameterError, match="DenseGCNConv needs a dense adjacency"):
        pool(*inputs()[:4])


@pytest.mark.parametrize(
    ("ratio", "k", "sizes"),
    [(0.5, None, [2, 1, 2]), (0.3, None, [2, 1, 2]), (1.0, None, [4, 1, 4]), (0.5, 2, [2, 1, 2])],
)
def test_the_best_nodes_of_every_graph(ratio, k, sizes):
    score = features(9, 1)[:, 0]
    best = top_k(score, sparse(weighted(ptr=PTR), BATCH), ratio, k)
    wanted = []
    for start, end, size in zip(PTR[:-1].tolist(), PTR[1:].tolist(), sizes, strict=True):
        wanted += sorted(range(start, end), key=lambda i: -float(score[i]))[:size]
    assert best.index.tolist() == wanted
    assert best.ptr.tolist() == np.cumsum([0, *sizes]).tolist()
    # The same three graphs, padded to four rows; padding scores highest, and is not chosen.
    mask = torch.tensor([[True] * 4, [True] + [False] * 3, [True] * 4])
    ranked = torch.full((3, 4), 9.0, dtype=torch.float64)
    ranked[mask] = score
    padded = top_k(ranked, Dense(torch.zeros(3, 4, 4), mask), ratio, k)
    assert (padded.index + PTR[:-1, None])[padded.mask].tolist() == wanted
    assert top_k(ranked, Dense(torch.zeros(3, 4, 4)), ratio, k).mask is None


def test_a_share_that_rounding_would_exceed():
    """0.1 * 30 is 3.0000000000000004: three nodes, not four."""
    score, zeros = torch.arange(30.0), torch.zeros(30, dtype=torch.long)
    for op in (sparse(weighted(30)), sparse(weighted(30), zeros)):
        assert top_k(score, op, 0.1, None).index.tolist() == [29, 28, 27]
    two = sparse(weighted(60, ptr=[0, 30, 60]), torch.arange(60) // 30)
    assert top_k(torch.arange(60.0), two, 0.1, None).ptr.tolist() == [0, 3, 6]
    mask = torch.ones(1, 30, dtype=torch.bool)
    assert int(top_k(score.unsqueeze(0), Dense(torch.zeros(1, 30, 30), mask), 0.1, None).mask.sum()) == 3


def test_kept_nodes_are_gated_and_put_back():
    x, gate = features(5), torch.tensor([0.5, 0.0, -2.0], dtype=torch.float64)
    selection = KeepSelection(torch.tensor([3, 0, 4]), Segments(5), gate)
    pooled = selection.reduce(x)
    torch.testing.assert_close(pooled, x[[3, 0, 4]] * gate[:, None])
    back = selection.lift(pooled)
    wanted = torch.zeros(5, 3, dtype=torch.float64)
    wanted[[3, 0, 4]] = pooled
    torch.testing.assert_close(back, wanted)
    wanted[[3, 0, 4]] = x[[3, 0, 4]]
    wanted[0] = 0  # a closed gate lets nothing back
    torch.testing.assert_close(selection.lift(pooled, pinv=True), wanted)
    learned = torch.autograd.functional.jacobian(lambda rows: selection.lift(rows, pinv=True).sum(), pooled)
    assert learned[:, 0].tolist() == [2.0, 0.0, -0.5]
    s = selection.s.to_dense()
    assert s.shape == (5, 3)
    torch.testing.assert_close(s.T @ x, pooled)
    with pytest.raises(ParameterError, match="num_rows must be given for a padded selection"):
        KeepSelection(torch.tensor([[0]]), Padded(1))
    with pytest.raises(ParameterError, match="graphs of 5 rows, but adj has 9"):
        KeepSelection(torch.tensor([0]), Segments(9), num_rows=5).check(sparse(weighted()))


@pytest.mark.parametrize("connect", ["adjacency", "two_hop"])
@pytest.mark.parametrize("make", [TopKPool, SAGPool])
def test_kept_nodes_are_joined_as_they_were(make, connect):
    torch.manual_seed(0)
    a, x = weighted(), features()
    pool = make(3, ratio=0.5, connect=connect).double()
    out = pool(x, sparse(a))
    square = a if connect == "adjacency" else a @ a
    kept = out.selection.index
    torch.testing.assert_close(out.adj.to_dense(), square[kept][:, kept])
    score = pool.score(x, sparse(a))
    torch.testing.assert_close(out.x, x[kept] * score[kept][:, None])
