"""What stands in the padding of a batch, or belongs to other graphs, never reaches a result."""

from __future__ import annotations

import pytest
import torch
from test_pool_api import GRAPHS, SETTINGS, VARIANTS, F, collate, make, name_of
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.errors import GraphError
from softcut.nn import GCNConv, GraphConv, SkipConv, get_pool
from softcut.nn.pool import POOLS
from softcut.ops import Dense, mincut_loss

SMALL = [GRAPHS[i] for i in (1, 2, 5)]


def padded_batch():
    x, edge_index, weight, batch = collate(SMALL)
    padded, mask = to_dense_batch(x, batch)
    return padded, to_dense_adj(edge_index, batch, weight), mask


def dirty(x, adj, mask):
    """The same batch with anything in its padding."""
    real = mask.unsqueeze(-1)
    both = real & mask.unsqueeze(1)
    return torch.where(real, x, torch.nan), torch.where(both, adj, 7.0)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=name_of)
def test_poolers(name, options):
    x, adj, mask = padded_batch()
    pool = make(name, options)
    expected, got = pool(x, adj, mask=mask), pool(*dirty(x, adj, mask), mask=mask)
    torch.testing.assert_close(got.x, expected.x)
    torch.testing.assert_close(got.adj.to_dense(), expected.adj.to_dense())
    torch.testing.assert_close(got.loss, expected.loss)


@pytest.mark.parametrize("conv", [SkipConv, GCNConv, GraphConv])
@pytest.mark.parametrize("out_channels", [2, 9])
def test_convolutions(conv, out_channels):
    torch.manual_seed(0)
    layer = conv(F, out_channels).double()
    x, adj, mask = padded_batch()
    out = layer(*dirty(x, adj, mask), mask=mask)
    assert not out[~mask].any()
    flat, edge_index, weight, batch = collate(SMALL)
    torch.testing.assert_close(out[mask], layer(flat, edge_index, weight, batch))  # any format is accepted


def test_losses():
    x, adj, mask = padded_batch()
    s = x.softmax(-1)
    torch.testing.assert_close(
        mincut_loss(s, dirty(x, adj, mask)[1], mask=mask), mincut_loss(s, adj, mask=mask)
    )


@pytest.mark.parametrize("name", POOLS)
def test_padding_does_not_become_nodes(name):
    x, adj, mask = padded_batch()
    options = {"k": 3} if name in ("mincut", "diffpool", "random", "dmon", "justbalance") else {}
    out = get_pool(name, F, **options).double()(x, adj, mask=mask)
    pooled, edge_index, weight, batch = out.to_pyg()
    counts = torch.bincount(batch, minlength=3)
    if name == "nopool":
        assert torch.equal(pooled, x[mask])
        assert counts.tolist() == mask.sum(1).tolist()
        torch.testing.assert_close(to_dense_adj(edge_index, batch, weight), adj)
    elif name in ("topk", "sagpool"):
        assert counts.tolist() == torch.ceil(mask.sum(1) / 2).long().tolist()
    else:
        assert len(pooled) == counts.sum()
    assert not edge_index.numel() or int(edge_index.max()) < len(pooled)


def test_a_dense_operator_sees_changes_in_place():
    adj = torch.ones(1, 3, 3) - torch.eye(3)
    op = Dense(adj)
    assert op.degree.tolist() == [[2.0, 2.0, 2.0]]
    op.normalise()
    adj[:, 0] = adj[:, :, 0] = 0
    assert op.degree.tolist() == [[0.0, 1.0, 1.0]]
    torch.testing.assert_close(op.normalise().to_dense(), Dense(adj.clone()).normalise().to_dense())


@pytest.mark.parametrize("name", ["graclus", "ndp"])
def test_negative_weights_are_not_coarsened(name):
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    with pytest.raises(GraphError, match="negative"):
        get_pool(name)(torch.rand(3, 2), edges, torch.tensor([1.0, 1.0, -5.0, -5.0]))


@pytest.mark.parametrize("name", POOLS)
def test_weights_that_are_not_finite_are_refused_by_every_pooler(name):
    edges, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4, dtype=torch.double)
    weight[2] = torch.nan
    with pytest.raises(GraphError, match="edge_weight must hold finite numbers, got nan at position 2"):
        make(name, SETTINGS[name])(torch.rand(3, F, dtype=torch.double), edges, weight)
