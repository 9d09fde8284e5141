"""Pooling with an assignment matrix of one's own, and what a pooling layer returns."""

import pytest
import torch
from helpers.pool_samples import BATCH, PTR, features, sparse, weighted
from test_pool_api import GRAPHS, F, collate, make
from torch_geometric.nn import DMoNPooling, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.nn import (
    DiffPool,
    DMoNPool,
    JustBalancePool,
    MinCutPool,
    NoPool,
    RandomPool,
    diff_pool,
    mincut_pool,
)
from softcut.ops import (
    Dense,
    Sum,
    as_operator,
    mincut_loss,
    orthogonality_loss,
    ratio_trace_loss,
)

SMALL = [GRAPHS[i] for i in (1, 2, 5, 6)]
K = 3
BOTH = {"spectral": 0.3, "cluster": 0.7}


def ragged():
    x, edge_index, weight, batch = collate(SMALL)
    scores = torch.randn(len(x), K, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    return x, edge_index, weight, batch, scores


def padded():
    x, edge_index, weight, batch, scores = ragged()
    (dense, mask), adj = to_dense_batch(x, batch), to_dense_adj(edge_index, batch, weight)
    return dense, adj, to_dense_batch(scores, batch)[0], mask


@pytest.mark.parametrize(("name", "function"), [("mincut", mincut_pool), ("diffpool", diff_pool)])
def test_the_function_of_its_own_assignments_is_the_layer(name, function):
    x, edge_index, weight, batch, _ = ragged()
    dense, adj, _, mask = padded()
    layer = make(name, {"k": K})
    one, two = layer(x, edge_index, weight, batch), layer(dense, adj, mask=mask)
    given = function(x, edge_index, one.s, edge_weight=weight, batch=batch)
    for out, expected in ((given, one), (function(dense, adj, two.s, mask), two)):
        torch.testing.assert_close((out.x, out.graph_losses), (expected.x, expected.graph_losses))
        torch.testing.assert_close(out.adj.to_dense(), expected.adj.to_dense())


def test_one_matrix_for_several_graphs_and_objectives():
    x, edge_index, weight, batch, scores = ragged()
    s = scores.softmax(-1)
    other = mincut_pool(x, edge_index, s, batch=batch)  # without weights
    classic = mincut_pool(x, edge_index, s, edge_weight=weight, batch=batch, objective="ratio_trace")
    torch.testing.assert_close(other.losses["cut"], mincut_loss(s, edge_index, batch=batch))
    torch.testing.assert_close(classic.losses["cut"], ratio_trace_loss(s, edge_index, weight, batch=batch))
    for out in (other, classic):
        torch.testing.assert_close(out.losses["ortho"], orthogonality_loss(s, batch=batch))


# What comes back.


def test_an_output_prints_and_unpacks():
    x, edge_index, weight, batch, _ = ragged()
    out = make("mincut", {"k": K})(x, edge_index, weight, batch)
    expected = (out.x, out.adj, None, None, out.selection, out.losses)
    assert all(a is b for a, b in zip(out, expected, strict=True))
    kept = make("topk", {"ratio": 0.5})(x, edge_index, weight, batch)
    assert "adj=connected when it is read, batch=[" in repr(kept)  # printing connects nothing
    first, graph, *_ = kept
    assert first is kept.x
    assert graph is kept.adj
    assert "adj=CSR(" in repr(kept)


def test_to_pyg_of_every_kind():
    a, x = weighted(ptr=PTR), features()
    op, binary = sparse(a, BATCH), sparse((a > 0).double(), BATCH)
    both = Sum([op, binary.normalise()], [1.0, 0.5])
    for adj in (op, op.normalise(), binary, both, sparse(a), Dense(a[None])):
        for nodes in (x, x.float()):
            rows, edges, values, graph = NoPool()(nodes, adj).to_pyg()
            assert torch.equal(rows, nodes) and values.dtype == nodes.dtype
            dense = torch.zeros(9, 9, dtype=values.dtype).index_put(tuple(edges), values, accumulate=True)
            torch.testing.assert_close(dense, adj.to_dense().view(9, 9).to(values.dtype))
            assert torch.equal(graph, BATCH if adj.num_graphs == 3 else torch.zeros_like(BATCH))
    mask = torch.tensor([[True, False, True], [True, True, True]])
    two = NoPool()(torch.rand(2, 3, 1), torch.stack([a[:3, :3], a[5:8, 5:8]]).float(), mask=mask)
    rows, edges, values, graph = two.to_pyg()
    assert torch.equal(rows, two.x[mask]) and graph.tolist() == [0, 0, 1, 1, 1]
    keep = torch.tensor([0, 2, 5, 6, 7])
    torch.testing.assert_close(torch.zeros(5, 5).index_put(tuple(edges), values), a.float()[keep][:, keep])


@pytest.mark.parametrize(
    ("pool", "weights"),
    [
        (MinCutPool(3, 4, cut_weight=0.3, ortho_weight=0.7), {"cut": 0.3, "ortho": 0.7}),
        (MinCutPool(3, 4, objective="evidence", cut_weight=0.3), {"evidence": 0.3}),
        (MinCutPool(3, 4, objective="dmon", cut_weight=0.3, ortho_weight=0.7), BOTH),
        (DMoNPool(3, 4, spectral_weight=0.3, cluster_weight=0.7, ortho_weight=0.2), {**BOTH, "ortho": 0.2}),
        (JustBalancePool(3, 4, balance_weight=0.3), {"balance": 0.3}),
        (DiffPool(3, 4, link_weight=0.3, entropy_weight=0.0), {"link": 0.3, "entropy": 0.0}),
    ],
)
def test_losses_come_weighted(pool, weights):
    out = pool.double()(features(), sparse(weighted(ptr=PTR), BATCH))
    options = {MinCutPool: {"objective": getattr(pool, "objective", None)}, DMoNPool: {"ortho_weight": 1.0}}
    plain = type(pool)(3, 4, **options.get(type(pool), {}))
    plain.load_state_dict(pool.state_dict())
    unweighted = plain.double()(features(), sparse(weighted(ptr=PTR), BATCH)).graph_losses
    assert set(out.losses) == set(weights)
    for name, weight in weights.items():
        torch.testing.assert_close(out.losses[name], out.graph_losses[name].mean())
        torch.testing.assert_close(out.graph_losses[name], weight * unweighted[name])
    torch.testing.assert_close(out.loss, sum(out.losses.values()))


@pytest.mark.parametrize("make", [MinCutPool, DMoNPool, JustBalancePool, DiffPool])
def test_the_temperature_divides(make):
    for options in ({}, {"temperature": 0.3}, {"temperature": 4.0}):
        torch.manual_seed(0)
        pool, op = make(3, 4, **options).double(), sparse(weighted())
        wanted = torch.softmax(pool.logits(features(), op) / options.get("temperature", 1.0), -1)
        torch.testing.assert_close(pool(features(), op).s, wanted)


def test_assignments_of_diffpool():
    a, x = weighted(), features()
    for kind in ("gcn", "skip", "mlp"):
        pool = DiffPool(3, 4, assignment=kind).double()
        same = torch.equal(pool(x, sparse(a)).s, pool(x, sparse(torch.zeros_like(a))).s)
        assert same == (kind == "mlp")  # only this one does not look at the graph


def test_random_assignments():
    x, op = features(3000), sparse(torch.zeros(3000, 3000))
    draws = [
        torch.randn(1024, 4, generator=torch.Generator().manual_seed(5 * 1_000_003 + b)) for b in range(3)
    ]
    table = torch.cat(draws)[:3000].double()
    pool, first = RandomPool(4, seed=5), torch.softmax(table[:9], -1)
    torch.testing.assert_close(pool(x, op).s, torch.softmax(table, -1))
    for each in (pool, RandomPool(4, seed=5)):
        torch.testing.assert_close(each(features(), sparse(weighted())).s, first)
    batched = pool(features(), sparse(weighted(ptr=PTR), BATCH)).s
    torch.testing.assert_close(batched, torch.cat([first[:4], first[:1], first[:4]]))
    other, plain, zero = (RandomPool(4, **o)._rows(9) for o in ({"seed": 1}, {}, {"seed": 0}))
    assert torch.equal(plain, zero) and not torch.equal(plain, other)


# Against PyTorch Geometric's poolers, given the same weights.


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("graph", [0, 1, 2, 6])
def test_diffpool_agrees_on_single_graphs(graph: int, divided: bool) -> None:
    x, e, weight = GRAPHS[graph]
    x = x.clone().requires_grad_()
    pool = DiffPool(F, 4, link_scale="divided" if divided else "undivided").double()
    out = pool(x, e, weight)
    mine = torch.autograd.grad(out.loss + out.x.sum(), x)[0]
    adj = to_dense_adj(e, edge_attr=weight, max_num_nodes=len(x))
    logits = pool.logits(x, as_operator(e, weight, num_nodes=len(x)))
    want_x, want_a, link, entropy = dense_diff_pool(x, adj, logits, normalize=divided)
    theirs = torch.autograd.grad(link + entropy + want_x.sum(), x)[0]
    got = (out.x, out.adj.to_dense(), out.losses["link"], out.losses["entropy"], mine)
    torch.testing.assert_close(got, (want_x, want_a, link, entropy, theirs), rtol=1e-10, atol=1e-10)


def test_dmon_agrees() -> None:
    x, e, weight, batch, _ = ragged()
    x.requires_grad_()
    mine, peer = DMoNPool(F, 4, ortho_weight=1.0).double(), DMoNPooling(F, 4).double()
    with torch.no_grad():
        mine.mlp.layers[0].weight.copy_(peer.mlp.lins[0].weight)
        mine.mlp.layers[0].bias.copy_(peer.mlp.lins[0].bias)
    padded, mask = to_dense_batch(x, batch)
    dense = to_dense_adj(e, batch, weight)
    s, want_x, want_adj, *want_losses = peer(padded, dense, mask)
    # In a batch the peer divides the cluster loss of each graph by the nodes of every graph: one at a time.
    alone = [peer(padded[i : i + 1, :n], dense[i : i + 1, :n, :n])[-1] for i, n in enumerate(mask.sum(1))]
    want_losses[-1] = torch.stack(alone).mean()
    assert want_adj.isfinite().all()
    for out in (mine(x, e, weight, batch), mine(padded, dense, mask=mask)):
        torch.testing.assert_close(out.x, want_x)
        torch.testing.assert_close(out.adj.to_dense(), want_adj)
        losses = [out.losses[name] for name in ("spectral", "ortho", "cluster")]
        torch.testing.assert_close(losses, want_losses)
        for loss, theirs in zip(losses, want_losses, strict=True):
            got, want = (torch.autograd.grad(t, x, retain_graph=True)[0] for t in (loss, theirs))
            torch.testing.assert_close(got, want)
    torch.testing.assert_close(mine(x, e, weight, batch).s, s[mask])


def test_dmon_of_a_graph_without_edges_or_nodes() -> None:
    x = torch.rand(5, F).double().requires_grad_()
    graph = {"adj": torch.tensor([[0, 1], [1, 0]]), "batch": torch.tensor([0, 0, 1, 3, 3])}  # 2 has no nodes
    out = DMoNPool(F, 2).double()(x, **graph)
    assert out.graph_losses["spectral"][1:].tolist() == [0.0, 0.0, 0.0]
    assert out.graph_losses["cluster"][2] == 0
    assert DiffPool(F, 2).double()(x, **graph).graph_losses["entropy"][2] == 0
    out.loss.backward()
    assert x.grad.isfinite().all()
