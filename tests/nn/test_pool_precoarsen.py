"""Coarsening ahead of training gives what the poolers would have computed."""

import pickle

import pytest
import torch
from helpers.refusals import refuses
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import erdos_renyi_graph

from softcut.errors import ParameterError
from softcut.nn import GraclusPool, GraphClassifier, PreCoarsen, get_pool


def graphs(count: int = 6) -> list[Data]:
    torch.manual_seed(0)
    out = [Data(x=torch.rand(1, 3), edge_index=torch.zeros(2, 0, dtype=torch.long), y=torch.tensor([0]))]
    for i in range(count - 1):
        n = 5 + 7 * i
        out.append(Data(x=torch.rand(n, 3), edge_index=erdos_renyi_graph(n, 4 / n), y=torch.tensor([i % 2])))
    return out


@pytest.mark.parametrize("methods", [("graclus", "graclus"), ("ndp",) * 3, ("ndp", "graclus", "ndp")])
def test_batches_equal_the_poolers(methods) -> None:
    options = {"graclus": {"reduction": "mean"}, "ndp": {"delta": 0.0}}
    given = {option: value for method in set(methods) for option, value in options[method].items()}
    transform = PreCoarsen(methods, **given)
    assert (transform.levels, repr(transform)) == (len(methods), f"PreCoarsen({', '.join(methods)})")
    batch = Batch.from_data_list([transform(g) for g in graphs()])
    assert batch.num_levels == len(batch.selections()) == len(methods)
    plain = known = get_pool("nopool")(batch.x, batch.edge_index, batch=batch.batch)
    for level, method in enumerate(methods):
        pool = get_pool(method, **options[method])
        plain, known = pool(plain.x, plain.adj), pool(known.x, known.adj, selection=batch.selection(level))
        torch.testing.assert_close(plain.x, known.x)
        torch.testing.assert_close(plain.adj.to_dense(), known.adj.to_dense())
        assert torch.equal(plain.batch, known.batch) and plain.adj.symmetric and known.adj.symmetric


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


RING = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 0], [1, 0, 2, 1, 3, 2, 0, 3]])


HEAVY = [torch.tensor([9.0, 9, 1, 1, 9, 9, 1, 1]), torch.tensor([1.0, 1, 9, 9, 1, 1, 9, 9])]


def ring(**options) -> Data:
    return Data(x=torch.arange(4.0).view(4, 1), edge_index=RING, **options)


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
@pytest.mark.parametrize("columns", [False, True])
def test_weights_count(name, columns):
    """Of the four edges of a ring the heavy ones are matched."""
    for heavy, partner in zip(HEAVY, (1, 3), strict=True):
        weight = heavy.unsqueeze(1) if columns else heavy
        made = PreCoarsen("graclus", levels=1)(ring(**{name: weight}))
        cluster = made.selection().cluster
        assert cluster[0] == cluster[partner] != cluster[2]
        direct = GraclusPool()(made.x, RING, heavy)
        assert torch.equal(cluster, direct.selection.cluster)
        for adj in (made.selection().adj, direct.adj):  # light edges between the pairs add up
            assert adj.to_dense().tolist() == [[0, 2], [2, 0]]


def test_attributes_of_several_columns_are_no_weights():
    plain = PreCoarsen("graclus", levels=1)(ring())
    other = PreCoarsen("graclus", levels=1)(ring(edge_attr=torch.rand(8, 2)))
    assert torch.equal(plain.cluster_coarse_0, other.cluster_coarse_0)
    assert torch.equal(plain.weights_coarse_0, other.weights_coarse_0)
    both = PreCoarsen("graclus", levels=1)(ring(edge_weight=HEAVY[1], edge_attr=HEAVY[0]))
    assert both.cluster_coarse_0[0] == both.cluster_coarse_0[3]  # edge_weight comes before edge_attr


def test_what_is_refused():
    made = PreCoarsen(levels=2)(ring())
    for bad in (-1, 2):
        refuses(ParameterError, f"level must be between 0 and 1, got {bad}", made.selection, bad)
    for sentence, arguments, options in (
        ("levels must be 2", (["ndp", "graclus"],), {"levels": 3}),
        ("levels must be a whole number", ("ndp",), {"levels": 1.5}),
        *(("method must be one of graclus, ndp", (bad,), {}) for bad in (["ndp", "topk"], [], "topk")),
        ("'graclus' does not take 'ratio'", (["ndp", "graclus"],), {"ratio": 0.5}),
        ("'ndp' does not take 'reduction'", ("ndp",), {"reduction": "max"}),
    ):
        refuses(ParameterError, sentence, PreCoarsen, *arguments, **options)
    refuses(ParameterError, "data must have edge_index and num_nodes", PreCoarsen(), Data(x=torch.rand(3, 1)))
    assert repr(PreCoarsen("ndp", 3)) == "PreCoarsen(ndp, ndp, ndp)"
    assert PreCoarsen().methods == ("graclus", "graclus")
    mean = Batch.from_data_list([PreCoarsen("graclus", 1, reduction="mean")(ring())] * 2)
    assert mean.selection().reduction == "mean"
    torch.testing.assert_close(mean.selection().reduce(mean.x), torch.tensor([[0.5], [2.5], [0.5], [2.5]]))
