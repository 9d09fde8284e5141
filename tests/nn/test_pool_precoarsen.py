"""Coarsening ahead of training gives what the poolers would have computed."""

from __future__ import annotations

import pickle

import pytest
import torch

from softcut.errors import ParameterError
from softcut.nn import GraphClassifier, PreCoarsen, get_pool

pytest.importorskip("torch_geometric")
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import erdos_renyi_graph


def graphs(count: int = 6) -> list[Data]:
    torch.manual_seed(0)
    out = [Data(x=torch.rand(1, 3), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0]))]
    for i in range(count - 1):
        n = 5 + 7 * i
        out.append(Data(x=torch.rand(n, 3), edge_index=erdos_renyi_graph(n, 4 / n), y=torch.tensor([i % 2])))
    return out


@pytest.mark.parametrize("method", ["graclus", "ndp"])
def test_batches_equal_the_pooler(method: str) -> None:
    batch = Batch.from_data_list([PreCoarsen(method, levels=2)(g) for g in graphs()])
    pool = get_pool(method)
    x, adj, graph = batch.x, batch.edge_index, batch.batch
    direct = pool(x, adj, batch=graph)
    ahead = pool(x, adj, batch=graph, selection=batch.selection(0))
    deeper = pool(direct.x, direct.adj), pool(ahead.x, ahead.adj, selection=batch.selection(1))
    for plain, known in ((direct, ahead), deeper):
        torch.testing.assert_close(plain.x, known.x)
        torch.testing.assert_close(plain.adj.to_dense(), known.adj.to_dense())
        assert torch.equal(plain.batch, known.batch)
    with pytest.raises(ParameterError, match="level must be"):
        batch.selection(2)


@pytest.mark.parametrize("method", ["graclus", "ndp"])
def test_a_loader_and_a_model(method: str, tmp_path) -> None:
    transform = PreCoarsen(method, levels=2, cache=tmp_path)
    data = [pickle.loads(pickle.dumps(transform(g))) for g in graphs()]
    assert len(list(tmp_path.rglob("*.npz"))) >= 10
    torch.manual_seed(0)
    model = GraphClassifier(3, 2, pool=method)
    seen = 0
    for batch in DataLoader(data, batch_size=4):
        out = model(batch.x, batch.edge_index, batch=batch.batch, selections=batch.selections())
        plain = model(batch.x, batch.edge_index, batch=batch.batch)
        torch.testing.assert_close(out.y, plain.y)
        torch.nn.functional.cross_entropy(out.y, batch.y).backward()
        seen += batch.num_graphs
    assert seen == len(data)


def test_weights_and_options() -> None:
    g = graphs()[3]
    g.edge_attr = torch.ones(g.edge_index.shape[1], 1) * 2
    heavy = PreCoarsen("graclus", levels=1, reduction="sum")(g)
    assert heavy.weights_coarse_0.min() >= 2
    assert heavy.selection().reduction == "sum"
    with pytest.raises(ParameterError, match="graclus, ndp"):
        PreCoarsen("topk")
    with pytest.raises(ParameterError, match="does not take"):
        PreCoarsen("ndp", reduction="max")


def test_a_method_for_each_level() -> None:
    transform = PreCoarsen(["ndp", "graclus"], reduction="mean", delta=0.0)
    assert (transform.levels, repr(transform)) == (2, "PreCoarsen(ndp, graclus)")
    batch = Batch.from_data_list([transform(g) for g in graphs()])
    ndp, graclus = get_pool("ndp", delta=0.0), get_pool("graclus", reduction="mean")
    x, adj, graph = batch.x, batch.edge_index, batch.batch
    direct = ndp(x, adj, batch=graph)
    ahead = ndp(x, adj, batch=graph, selection=batch.selection(0))
    deeper = graclus(direct.x, direct.adj), graclus(ahead.x, ahead.adj, selection=batch.selection(1))
    for plain, known in ((direct, ahead), deeper):
        torch.testing.assert_close(plain.x, known.x)
        torch.testing.assert_close(plain.adj.to_dense(), known.adj.to_dense())
        assert torch.equal(plain.batch, known.batch)
    with pytest.raises(ParameterError, match="levels must be 2"):
        PreCoarsen(["ndp", "graclus"], levels=3)
    with pytest.raises(ParameterError, match="method must be one of graclus, ndp"):
        PreCoarsen(["ndp", "topk"])
    with pytest.raises(ParameterError, match="method must be one of graclus, ndp"):
        PreCoarsen([])
    with pytest.raises(ParameterError, match="does not take 'ratio'"):
        PreCoarsen(["ndp", "graclus"], ratio=0.5)
    with pytest.raises(ParameterError, match="levels must be a whole number"):
        PreCoarsen("ndp", levels=1.5)
