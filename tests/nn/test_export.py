"""torch.export of models that pool on an edge_index: the same values for graphs of other sizes; dense outputs."""

import io

import pytest
import torch
from torch import nn
from torch.export import Dim, export
from torch_geometric.nn import DenseGCNConv

from softcut.nn import GCNConv, GraphClassifier, MinCutPool, SkipConv, TopKPool
from softcut.ops import CSR

F = 5


class Net(nn.Module):
    def __init__(self, objective="mincut"):
        super().__init__()
        self.first, self.second = SkipConv(F, 8, "relu"), GCNConv(8, 8, "relu")
        self.pool = MinCutPool(8, 3, hidden=4, objective=objective)
        self.last = SkipConv(8, 2)

    def forward(self, x, edge_index, edge_weight=None, batch=None):
        for conv in (self.first, self.second):
            x = conv(x, edge_index, edge_weight, batch=batch)
        out = self.pool(x, edge_index, edge_weight, batch=batch)
        return self.last(out.x, out.adj).mean(1), out.loss, self.pool.lift(out.x, out.selection)


def sample(nodes, seed, graphs=None, weighted=False):
    """x, edge_index, edge_weight and batch of random graphs with an isolated node at the end."""
    draw = torch.Generator().manual_seed(seed)
    batch = None if graphs is None else torch.arange(nodes) * graphs // nodes
    edges = torch.randint(0, nodes - 1, (2, 3 * nodes), generator=draw)
    if batch is not None:
        edges = edges[:, batch[edges[0]] == batch[edges[1]]]
    edges = torch.cat([edges, edges.flip(0)], 1)
    weight = torch.rand(edges.shape[1], generator=draw) if weighted else None
    return torch.rand(nodes, F, generator=draw), edges, weight, batch


def exported(model, args, strict=False):
    n, e = Dim("n"), Dim("e")
    shapes = [{0: n}, {1: e}, {0: e}, {0: n}]
    given = [None if arg is None else shape for arg, shape in zip(args, shapes, strict=True)]
    return export(model, args, dynamic_shapes=tuple(given), strict=strict)


CASES = [
    ("mincut", None, False, False),
    ("mincut", 3, True, False),
    ("evidence", None, True, False),
    ("dmon", 3, False, False),
    ("mincut", 3, False, True),
]


@pytest.mark.parametrize(("objective", "graphs", "weighted", "strict"), CASES)
def test_an_exported_model_gives_the_values_of_the_model(objective, graphs, weighted, strict):
    torch.manual_seed(0)
    model = Net(objective)
    program = exported(model, sample(20, 0, graphs, weighted), strict)
    # Another number of nodes, edges and, in a batch, graphs than it was exported with.
    args = sample(47, 1, None if graphs is None else 5, weighted)
    for got, want in zip(program.module()(*args), model(*args), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("strict", [False, True])
def test_where_torch_cannot_tell_export_from_compile(strict, monkeypatch):
    monkeypatch.setattr("softcut.ops.csr.is_exporting", torch.compiler.is_compiling)  # as before PyTorch 2.7
    torch.manual_seed(0)
    model, args = Net(), sample(47, 1, 5)
    want = model(*args)
    got = exported(model, sample(20, 0, 3), strict).module()(*args)
    torch.testing.assert_close(got, want)
    torch.compiler.reset()
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(*args), want)


def test_an_exported_model_can_be_saved_and_has_the_gradients_of_the_model():
    torch.manual_seed(0)
    model, file = Net(), io.BytesIO()
    program = exported(model, sample(20, 0, 2, weighted=True))
    if not torch.__version__.startswith("2.6."):  # which cannot write sizes that an autocast region reads
        torch.export.save(program, file)
        file.seek(0)
        program = torch.export.load(file)
    again, args = program.module(), sample(31, 1, 4, weighted=True)
    for net in (model, again):
        y, loss, lifted = net(*args)
        (y.square().sum() + loss + lifted.square().mean()).backward()
    grads = {name: p.grad for name, p in again.named_parameters()}
    for name, p in model.named_parameters():
        torch.testing.assert_close(grads[name], p.grad, msg=name)


def test_a_classifier_is_exported_by_a_module_that_returns_tensors():
    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = GraphClassifier(F, 2, k=(4, 2), hidden=8)

        def forward(self, x, edge_index, edge_weight=None, batch=None):
            return self.model(x, edge_index, edge_weight, batch=batch).y

    torch.manual_seed(0)
    model = Logits()
    program, args = exported(model, sample(20, 0, 2)), sample(33, 1, 3)
    torch.testing.assert_close(program.module()(*args), model(*args))


def test_a_model_that_was_exported_still_refuses_wrong_edges():
    model = Net()
    exported(model, sample(20, 0))
    with pytest.raises(ValueError, match="edge_index names node 7"):
        model(torch.rand(3, F), torch.tensor([[0, 7], [7, 0]]))
    assert CSR.from_edge_index(torch.tensor([[0, 1], [1, 0]]), num_nodes=2).symmetric


def test_a_dense_output_goes_into_a_dense_layer_of_pytorch_geometric():
    torch.manual_seed(0)
    x, edges, _, batch = sample(12, 0, 2)
    pool, layer = MinCutPool(F, 3), DenseGCNConv(F, 4)
    out, operator = pool(x, edges, batch=batch, dense=True), pool(x, edges, batch=batch)
    assert layer(out.x, out.adj).shape == (2, 3, 4)
    torch.testing.assert_close(out.adj, operator.adj.to_dense())
    assert repr(out).startswith("PoolOutput(x=[2, 3, 5], adj=[2, 3, 3]")
    _, adj, *_ = out
    assert adj.shape == (2, 3, 3)
    one, two = out.to_pyg(), operator.to_pyg()
    assert all(map(torch.equal, one, two))


def test_the_tuple_of_pytorch_geometric():
    torch.manual_seed(0)
    x, edges, _, batch = sample(12, 0, 2)
    out = MinCutPool(F, 3)(x, edges, batch=batch)
    got = out.to_pyg(dense=True)
    for tensor, want in zip(got, (out.x, out.adj.to_dense(), *out.losses.values()), strict=True):
        assert torch.equal(tensor, want)


@pytest.mark.parametrize("attn", [False, True])
def test_a_pooler_that_keeps_nodes_has_a_dense_output_too(attn):
    torch.manual_seed(0)
    x, edges, *_ = sample(12, 0)
    out = TopKPool(F, ratio=0.5)(x, edges, attn=x if attn else None, dense=True)
    assert out.adj.shape == (6, 6)
    assert DenseGCNConv(F, 4)(out.x, out.adj).shape == (1, 6, 4)
