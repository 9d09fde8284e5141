"""The learned poolers against PyTorch Geometric's, given the same weights."""

import pytest
import torch
from test_pool_api import GRAPHS, F, collate
from torch_geometric.nn import DMoNPooling, dense_diff_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.nn import DiffPool, DMoNPool, JustBalancePool
from softcut.ops import as_operator, just_balance_loss


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("graph", [1, 2, 6])
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
    x, e, weight, batch = collate([GRAPHS[i] for i in (1, 2, 5, 6)])
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
    edges = torch.tensor([[0, 1], [1, 0]])
    out = DMoNPool(F, 2).double()(x, edges, batch=torch.tensor([0, 0, 1, 3, 3]))  # graph 2 has no nodes
    assert out.graph_losses["spectral"][1:].tolist() == [0.0, 0.0, 0.0]
    assert out.graph_losses["cluster"][2] == 0
    out.loss.backward()
    assert x.grad.isfinite().all()


def test_just_balance_is_that_of_ops() -> None:
    x, e, weight, batch = collate(GRAPHS)
    out = JustBalancePool(F, 4, balance_weight=2.0).double()(x, e, weight, batch)
    torch.testing.assert_close(out.losses["balance"], 2 * just_balance_loss(out.s, e, weight, batch=batch))
