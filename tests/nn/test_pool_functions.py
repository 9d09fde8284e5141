"""Pooling with an assignment matrix of one's own, and what a pooling layer returns."""

import pytest
import torch
from helpers.pool_samples import BATCH, PTR, features, sparse, weighted
from test_pool_api import GRAPHS, collate, make
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
from softcut.ops import Dense, Sum, mincut_loss, orthogonality_loss, ratio_trace_loss

SMALL = [GRAPHS[i] for i in (1, 2, 5, 6)]
K = 3


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
        (
            MinCutPool(3, 4, objective="dmon", cut_weight=0.3, ortho_weight=0.7),
            {"spectral": 0.3, "cluster": 0.7},
        ),
        (
            DMoNPool(3, 4, spectral_weight=0.3, cluster_weight=0.7, ortho_weight=0.2),
            {"spectral": 0.3, "cluster": 0.7, "ortho": 0.2},
        ),
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
    for temperature in (0.3, 4.0):
        torch.manual_seed(0)
        pool, op = make(3, 4, temperature=temperature).double(), sparse(weighted())
        wanted = torch.softmax(pool.logits(features(), op) / temperature, -1)
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
    pool = RandomPool(4, seed=5)
    torch.testing.assert_close(pool(x, op).s, torch.softmax(table, -1))
    first = torch.softmax(table[:9], -1)
    torch.testing.assert_close(pool(features(), sparse(weighted())).s, first)
    torch.testing.assert_close(RandomPool(4, seed=5)(features(), sparse(weighted())).s, first)
    batched = pool(features(), sparse(weighted(ptr=PTR), BATCH)).s
    torch.testing.assert_close(batched, torch.cat([first[:4], first[:1], first[:4]]))
    assert not torch.equal(RandomPool(4, seed=1)(features(), sparse(weighted())).s, first)
