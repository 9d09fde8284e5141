"""The learned poolers against PyTorch Geometric's, given the same weights."""

import pytest
import torch
from torch_geometric.nn import DMoNPooling, dense_diff_pool
from torch_geometric.utils import erdos_renyi_graph, to_dense_adj, to_dense_batch

from softcut.nn import DiffPool, DMoNPool, JustBalancePool
from softcut.ops import as_operator

F = 5


def graph(n: int, p: float = 0.3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.rand(n, F, dtype=torch.double), erdos_renyi_graph(n, p)


def batch_of(sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    xs, es, shift = [], [], 0
    for seed, n in enumerate(sizes):
        x, e = graph(n, seed=seed)
        xs.append(x)
        es.append(e + shift)
        shift += n
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return torch.cat(xs), torch.cat(es, 1), batch


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("n", [2, 10, 60])
def test_diffpool_agrees_on_single_graphs(n: int, divided: bool) -> None:
    x, e = graph(n)
    x.requires_grad_()
    pool = DiffPool(F, 4, link_scale="divided" if divided else "undivided").double()
    out = pool(x, e)
    mine = torch.autograd.grad(out.loss + out.x.sum(), x)[0]
    adj = to_dense_adj(e, max_num_nodes=n).double()
    logits = pool.logits(x, as_operator(e, num_nodes=n))
    want_x, want_a, link, entropy = dense_diff_pool(x, adj, logits, normalize=divided)
    theirs = torch.autograd.grad(link + entropy + want_x.sum(), x)[0]
    for got, want in (
        (out.x, want_x),
        (out.adj.to_dense(), want_a),
        (out.losses["link"], link),
        (out.losses["entropy"], entropy),
        (mine, theirs),
    ):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_dmon_agrees() -> None:
    x, e, batch = batch_of([9, 30, 12, 20])
    weight = torch.rand(e.shape[1]).double()
    weight = to_dense_adj(e, edge_attr=weight, max_num_nodes=len(x))[0]
    weight = (weight + weight.T)[e[0], e[1]]
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


def test_just_balance_is_the_written_out_formula() -> None:
    x, e, batch = batch_of([2, 3, 9, 30, 4])
    x.requires_grad_()
    pool = JustBalancePool(F, 4, balance_weight=2.0).double()
    out = pool(x, e, batch=batch)
    expected = []
    for graph in range(5):
        s = pool.mlp(x[batch == graph]).softmax(-1)
        expected.append(-2 * torch.trace((s.T @ s).sqrt()) / (len(s) * 4) ** 0.5)
    torch.testing.assert_close(out.graph_losses["balance"], torch.stack(expected))
    got, want = (torch.autograd.grad(t, x)[0] for t in (out.loss, torch.stack(expected).mean()))
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("rows", "value"), [([0, 0, 1, 1], -1.0), ([0, 0, 0, 0], -(0.5**0.5))])
def test_just_balance_limits(rows: list, value: float) -> None:
    pool, logits = JustBalancePool(2, 2).double(), 1e3 * torch.eye(2).double()[rows]
    with torch.no_grad():
        pool.mlp.layers[0].weight.copy_(torch.eye(2))
    logits.requires_grad_()
    out = pool(logits, torch.tensor([[0, 1], [1, 0]]))
    assert out.loss.item() == pytest.approx(value)
    out.loss.backward()
    assert logits.grad.isfinite().all()  # also where a cluster is empty
