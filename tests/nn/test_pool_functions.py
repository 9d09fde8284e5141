"""Pooling with an assignment matrix of one's own, and what a pooling layer returns."""

from __future__ import annotations

import pytest
import torch
from test_pool_api import GRAPHS, F, collate, make
from torch_geometric.nn.dense import dense_diff_pool, dense_mincut_pool
from torch_geometric.utils import to_dense_adj, to_dense_batch

from softcut.errors import GraphError, ParameterError
from softcut.nn import NoPool, diff_pool, mincut_pool
from softcut.ops import Sum, as_operator, mincut_loss, orthogonality_loss

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


def test_mincut_pool_is_that_of_pytorch_geometric():
    x, adj, scores, mask = padded()
    out = mincut_pool(x, adj, scores.softmax(-1), mask, normalise=False)
    pooled, graph, cut, ortho = dense_mincut_pool(x, adj, scores, mask)
    torch.testing.assert_close(out.x, pooled)
    torch.testing.assert_close(out.adj.to_dense(), graph, rtol=1e-6, atol=1e-8)  # it adds 1e-15 to degrees
    torch.testing.assert_close((out.losses["cut"], out.losses["ortho"]), (cut, ortho))


def test_diff_pool_is_that_of_pytorch_geometric():
    for x, edge_index, weight in SMALL:
        adj = to_dense_adj(edge_index, edge_attr=weight, max_num_nodes=len(x))
        scores = torch.randn(len(x), K, dtype=torch.double)
        for normalise, scale in ((False, "undivided"), (True, "divided")):
            out = diff_pool(x, edge_index, scores.softmax(-1), edge_weight=weight, link_scale=scale)
            pooled, graph, link, entropy = dense_diff_pool(x, adj, scores, normalize=normalise)
            torch.testing.assert_close((out.x, out.adj.to_dense()), (pooled, graph))
            torch.testing.assert_close((out.losses["link"], out.losses["entropy"]), (link, entropy))


@pytest.mark.parametrize("function", [mincut_pool, diff_pool])
def test_every_format_gives_the_same(function):
    x, edge_index, weight, batch, scores = ragged()
    s = scores.softmax(-1).requires_grad_()
    sparse = function(x, edge_index, s, edge_weight=weight, batch=batch)
    dense = padded()
    again = function(dense[0], dense[1], to_dense_batch(s, batch)[0], dense[3])
    torch.testing.assert_close(sparse.x, again.x)
    torch.testing.assert_close(sparse.adj.to_dense(), again.adj.to_dense())
    torch.testing.assert_close(sparse.graph_losses, again.graph_losses)
    torch.testing.assert_close(
        torch.autograd.grad(sparse.loss, s, retain_graph=True), torch.autograd.grad(again.loss, s)
    )


@pytest.mark.parametrize(("name", "function"), [("mincut", mincut_pool), ("diffpool", diff_pool)])
def test_the_layer_is_the_function_of_its_own_assignments(name, function):
    x, edge_index, weight, batch, _ = ragged()
    layer = make(name, {"k": K})(x, edge_index, weight, batch)
    out = function(x, edge_index, layer.s, edge_weight=weight, batch=batch)
    torch.testing.assert_close((out.x, out.loss), (layer.x, layer.loss))
    torch.testing.assert_close(out.adj.to_dense(), layer.adj.to_dense())


def test_one_matrix_for_several_graphs():
    x, edge_index, weight, batch, scores = ragged()
    s = scores.softmax(-1)
    other = mincut_pool(x, edge_index, s, batch=batch)  # without weights
    torch.testing.assert_close(other.losses["cut"], mincut_loss(s, edge_index, batch=batch))
    torch.testing.assert_close(other.losses["ortho"], orthogonality_loss(s, batch=batch))
    assert other.losses["cut"] != mincut_loss(s, edge_index, weight, batch=batch)


@pytest.mark.parametrize("function", [mincut_pool, diff_pool])
@pytest.mark.parametrize(
    ("error", "sentence", "change"),
    [
        (ParameterError, "s must hold assignments, which are not negative", lambda s: s - 0.5),
        (GraphError, "s must have the rows of adj", lambda s: s[1:]),
        (GraphError, "s must be a floating-point tensor", lambda s: s.tolist()),
        (GraphError, "s must be a dense tensor", lambda s: s.to_sparse()),
        (GraphError, "s must be a floating-point tensor", lambda s: s.long()),
    ],
)
def test_a_matrix_that_is_none_is_refused(function, error, sentence, change):
    x, edge_index, _, batch, scores = ragged()
    with pytest.raises(error) as caught:
        function(x, edge_index, change(scores.softmax(-1)), batch=batch)
    assert str(caught.value).startswith(sentence)
    assert str(caught.value).endswith(".")


def test_options_of_the_functions():
    x, edge_index, weight, batch, scores = ragged()
    s = scores.softmax(-1)
    with pytest.raises(ParameterError, match="link_scale must be"):
        diff_pool(x, edge_index, s, batch=batch, link_scale="half")
    with pytest.raises(ParameterError, match="objective must be"):
        mincut_pool(x, edge_index, s, batch=batch, objective="ratio")
    classic = mincut_pool(x, edge_index, s, edge_weight=weight, batch=batch, objective="ratio_trace")
    assert (
        classic.losses["cut"] != mincut_pool(x, edge_index, s, edge_weight=weight, batch=batch).losses["cut"]
    )


# What comes back.


def test_an_output_prints_and_unpacks():
    x, edge_index, weight, batch, _ = ragged()
    out = make("mincut", {"k": K})(x, edge_index, weight, batch)
    assert repr(out) == (
        f"PoolOutput(x=[4, 3, {F}], adj=Dense([4, 3, 3]), selection=DenseSelection, losses=[cut, ortho])"
    )
    pooled, adj, numbers, mask, selection, losses = out
    assert pooled is out.x
    assert adj is out.adj
    assert numbers is None
    assert mask is None
    assert selection is out.selection
    assert losses is out.losses
    kept = make("topk", {"ratio": 0.5})(x, edge_index, weight, batch)
    assert "adj=connected when it is read, batch=[" in repr(kept)  # printing connects nothing
    first, graph, *_ = kept
    assert first is kept.x
    assert graph is kept.adj
    assert "adj=CSR(" in repr(kept)


def test_to_pyg_of_a_sum_and_of_a_normalised_graph():
    x, edge_index, weight, batch, _ = ragged()
    op = as_operator(edge_index, weight, num_nodes=len(x), batch=batch)
    binary = as_operator(edge_index, num_nodes=len(x), batch=batch).normalise()
    for adj in (Sum([op, binary], [1.0, 0.5]), binary):
        rows, edges, values, graph = NoPool()(x.float(), adj).to_pyg()
        assert values.dtype == rows.dtype == torch.float32
        found = torch.zeros(len(x), len(x)).index_put(tuple(edges), values, accumulate=True)
        torch.testing.assert_close(found, adj.to_dense().float())
        assert torch.equal(graph, batch)
