"""Replicas of classifiers: the same numbers as one model after another, written with plain PyTorch."""

from collections.abc import Sequence
from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.made_graphs import made_graphs
from helpers.refusals import refuses
from torch import Tensor, nn
from torch_geometric.nn import GATConv

from softcut.coarsening import Level
from softcut.errors import DataError, ParameterError
from softcut.graph import Graph, GraphCollection, Split, folds, from_graphs
from softcut.learning import ClassifierSettings, FoldResult, StructureFeatures, experiment, with_structure
from softcut.learning.fold_task import Batch, BatchOrder, FoldTask
from softcut.learning.hierarchy import HIERARCHIES, Hierarchy, HierarchyStore, coarsen_collection
from softcut.learning.replica_net import MaskedSquare, replica_net
from softcut.learning.store import BatchPlan, GraphStore
from softcut.learning.structure_features import clustering_coefficients
from softcut.nn import GraclusPool
from softcut.nn.models import GraphClassifier, ModelOutput
from softcut.ops import CSR, CSRPattern, Segments
from softcut.training import Loop, LoopSettings, Patience

METHODS = [method for method in experiment.METHODS if method not in ("dense", "default")]
LEAVING = {"ortho_weight": "auto", "standardise": True, "temperature": 0.5}
CPU = torch.device("cpu")


def models_of(graphs: GraphCollection, method: str, count: int, **pool_args: object) -> list[GraphClassifier]:
    models = []
    for seed in range(count):
        torch.manual_seed(seed)
        options = {"pool": method, "hidden": 8, "k": (6, 3), "pool_args": pool_args}
        models.append(GraphClassifier(graphs.num_features, len(graphs.classes), **options).double())
    return models


def fold_task(
    graphs: GraphCollection,
    models: Sequence[GraphClassifier],
    splits: Sequence[Split],
    seeds: Sequence[int],
    method: str,
    **rest: int,
) -> FoldTask:
    store = GraphStore(graphs, CPU, torch.float64)
    net = replica_net(models, store.one_hot, store.x.shape[1])
    levels = None
    if method in HIERARCHIES:
        levels = HierarchyStore(coarsen_collection(graphs, method), graphs, CPU, torch.float64)
    return FoldTask(net, store, splits, seeds, batch=5, hierarchy=levels, **rest)


def replica_state(net: GraphClassifier, replica: int) -> dict[str, Tensor]:
    """The parameters of one replica, by the names of a model of its own."""
    return {name.replace(".inner.", "."): value[replica].detach() for name, value in net.named_parameters()}


def plain_batch(graphs: GraphCollection, numbers: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features, edge_index, weights and batch vector of some graphs, by scipy and numpy alone."""
    part = graphs[numbers]
    adjacency = part.adjacency().tocoo()
    weight = torch.from_numpy(adjacency.data).double()
    batch = torch.from_numpy(np.repeat(np.arange(len(part)), part.sizes))
    edges = torch.from_numpy(np.stack(adjacency.coords).astype(np.int64))
    return torch.from_numpy(part.dense_features()).double(), edges, weight, batch


def plain_output(model: GraphClassifier, graphs: GraphCollection, numbers: np.ndarray) -> ModelOutput:
    x, edges, weight, batch = plain_batch(graphs, numbers)
    # Graclus adds up the edges of a binary graph in float32 unless they have weights.
    given = weight if graphs.weight is not None or isinstance(model.pools[0], GraclusPool) else None
    return model(x, edges, edge_weight=given, batch=batch)


def plain_loss(model: GraphClassifier, graphs: GraphCollection, numbers: np.ndarray) -> Tensor:
    out = plain_output(model, graphs, numbers)
    y = torch.from_numpy(graphs.y[numbers])
    return nn.functional.cross_entropy(out.y, y) + out.loss


def train_alone(
    model: GraphClassifier, graphs: GraphCollection, train: np.ndarray, seed: int, steps: int, l2: float
) -> list[float]:
    """One model, plain PyTorch: L2 as part of the loss, torch.optim.Adam."""
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    order = BatchOrder(train, 5, [seed])
    losses = []
    for t in range(steps):
        loss = plain_loss(model, graphs, order(t))
        total = loss + l2 * sum(kernel.square().sum() for kernel in model.kernels())
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("one_hot", "weighted"),
    [(True, False), (False, False), (False, True)],
    ids=["one-hot", "numbers", "weighted"],
)
@pytest.mark.parametrize("method", [*METHODS, "mincut auto"])
def test_folds_as_replicas_equal_folds_one_by_one(method: str, one_hot: bool, weighted: bool) -> None:
    method, _, leaving = method.partition(" ")
    # Nodes of a clique with equal edges have one GCN score, and rounding decides between them: weights differ here.
    graphs = made_graphs(40, weighted=weighted or method == "sagpool", one_hot=one_hot, smallest=2)
    models = models_of(graphs, method, 3, **(LEAVING if leaving else {}))
    splits, seeds = folds(graphs, 4)[:3], [7, 8, 9]
    task = fold_task(graphs, models, splits, seeds, method)
    steps = 35 if method == "nopool" else 20  # batches are planned 32 at a time
    settings = LoopSettings(iterations=steps, lr=5e-3, check_every=100, minimise={"loss": 1.0, "l2": 1e-3})
    task.validates = False
    result = Loop(task, settings).run()
    for r, model in enumerate(models):
        expected = train_alone(model, graphs, splits[r].train, seeds[r], steps, 1e-3)
        assert np.abs(result.history["loss"][:, r] - expected).max() < 1e-9
        state = replica_state(task.net, r)
        for name, value in model.named_parameters():
            assert (state[name] - value).abs().max() < 1e-9, name


@pytest.mark.parametrize("method", METHODS)
def test_validation_and_test_are_those_of_the_single_models(method: str) -> None:
    graphs = made_graphs(41, seed=1, smallest=2)
    models = models_of(graphs, method, 2)
    splits = folds(graphs, 3)[:2]
    task = fold_task(graphs, models, splits, [0, 1], method, evaluation_nodes=100)
    validated, tested = task.validate(), task.evaluate()
    nodes = sum(graphs.sizes[split.test].sum() for split in splits)
    assert len(task.batches([split.test for split in splits])) == -(-nodes // 100)
    for r, model in enumerate(models):
        expected = plain_loss(model, graphs, splits[r].validation)
        assert abs(validated["loss"][r] - expected) < 1e-9
        out, batch = plain_output(model, graphs, splits[r].test), plain_batch(graphs, splits[r].test)[3]
        hits = (out.y.argmax(1).numpy() == graphs.y[splits[r].test]).mean()
        assert abs(tested["accuracy"][r] - hits) < 1e-12
        for level, pooled in enumerate(out.pooled, start=1):
            for name, value in pooled.losses.items():
                assert abs(tested[f"{name}{level}"][r] - value) < 1e-9
            if method in ("mincut", "diffpool", "random", "dmon", "justbalance"):
                parts = [pooled.s[batch == i] for i in range(len(splits[r].test))] if level == 1 else pooled.s
                used = np.mean([len(set(s.argmax(1).tolist())) for s in parts])
                assert abs(tested[f"clusters{level}"][r] - used) < 1e-9


def test_evaluation_reads_losses_whatever_their_weights_and_leaves_the_network_as_it_is() -> None:
    graphs = made_graphs(41, seed=1, smallest=2)
    weights = {"cut_weight": 0.3, "ortho_weight": 0.0}
    split = folds(graphs, 3)[0]
    task = fold_task(graphs, models_of(graphs, "mincut", 1, **weights), [split], [0], "mincut")
    before, tested = task.validate()["loss"], task.evaluate()
    (plain,) = models_of(graphs, "mincut", 1)  # with weights of 1
    out = plain_output(plain, graphs, split.test)
    task_loss = nn.functional.cross_entropy(out.y, torch.from_numpy(graphs.y[split.test]))
    assert abs(tested["task"][0] - task_loss) < 1e-9
    for level, pooled in enumerate(out.pooled, start=1):
        for name, value in pooled.losses.items():
            assert abs(tested[f"{name}{level}"][0] - value) < 1e-9
    weighted = task_loss + 0.3 * sum(pooled.losses["cut"] for pooled in out.pooled)
    assert abs(tested["loss"][0] - weighted) < 1e-9
    assert torch.equal(task.validate()["loss"], before)
    assert [vars(pool)[name] for pool in task.net.pools for name in weights] == [0.3, 0.0] * 2


@pytest.mark.parametrize("method", ["mincut", "topk", "graclus"])
def test_a_fold_stops_where_it_would_alone_and_finished_ones_leave(method: str) -> None:
    graphs = made_graphs(40, seed=2, smallest=2)
    splits, seeds = folds(graphs, 4), [3, 4, 5, 6]
    stop = Patience(patience=2, watch="loss")
    minimise = {"loss": 1.0, "l2": 1e-3}
    settings = LoopSettings(120, 2e-2, minimise, check_every=6, stop=stop, drop_finished=True)

    def train(numbers: list[int]) -> tuple[Loop, FoldTask, list[int]]:
        chosen = ([of[i] for i in numbers] for of in (models_of(graphs, method, 4), splits, seeds))
        task, widths = fold_task(graphs, *chosen, method), []
        result = Loop(task, settings).run(lambda progress: widths.append(len(progress.active)))
        return result, task, widths

    together, task, widths = train([0, 1, 2, 3])
    assert widths[0] == 4
    assert widths[-1] < 4  # some stopped before others
    for i in range(4):
        alone, single, _ = train([i])
        assert together.best_iteration[i] == alone.best_iteration[0]
        assert abs(together.best_loss[i] - alone.best_loss[0]) < 1e-9
        for name, value in replica_state(single.net, 0).items():
            assert (replica_state(task.net, i)[name] - value).abs().max() < 1e-8


@pytest.mark.parametrize("method", HIERARCHIES)
def test_a_hierarchy_survives_its_file(method: str, tmp_path: object) -> None:
    graphs = made_graphs(15, seed=4, weighted=True)
    made = coarsen_collection(graphs, method)
    again = Hierarchy.read(made.write(f"{tmp_path}/h.npz"), graphs)
    for one, other in zip(made.levels, again.levels, strict=True):
        assert np.array_equal(one.index, other.index)
        assert np.array_equal(one.ptr, other.ptr)
        assert abs(one.adjacency - other.adjacency).max() == 0
    for others in (made_graphs(10, seed=5), made_graphs(25, seed=4)):
        with pytest.raises(DataError, match="hierarchy of made: it belongs to other graphs"):
            Hierarchy.read(f"{tmp_path}/h.npz", others)
    arrays = dict(np.load(f"{tmp_path}/h.npz"))
    for change, words in (
        ({"format": np.array(2)}, "format 2 is not known"),
        ({"index0": arrays["index0"].astype(object)}, "Object arrays cannot be loaded"),
    ):
        np.savez(f"{tmp_path}/h.npz", **{**arrays, **change})
        refuses(DataError, words, Hierarchy.read, f"{tmp_path}/h.npz", graphs)
    assert int(arrays["format"]) == 1  # files of earlier versions are read


def test_a_hierarchy_of_one_node_more_and_clusters_of_three_are_refused(tmp_path: object) -> None:
    alone, pair = (from_graphs([Graph.from_edges([[0], [1]], num_nodes=n)] * 2, name="made") for n in (3, 4))
    path = coarsen_collection(pair[np.array([0, 1])], "ndp", 1).write(f"{tmp_path}/h.npz")
    short = from_graphs([Graph.from_edges([[0], [1]], num_nodes=n) for n in (4, 3)], name="made")
    for others in (alone, short):
        refuses(DataError, "it belongs to other graphs", Hierarchy.read, path, others)
    for clusters in ([0, 0, 0, 1, 2, 2], [0, 0, 2, 2, 3, 3]):
        level = Level(np.array(clusters), sp.csr_array((4, 4)), np.array([0, 2, 4]))
        with pytest.raises(ParameterError, match="clusters must hold one or two nodes"):
            HierarchyStore(Hierarchy("graclus", (level,)), alone, CPU, torch.float64)


def test_orders_are_endless_and_fair() -> None:
    order = BatchOrder(np.arange(10, 17), 4, [1, 2])
    seen = np.concatenate([order(t) for t in range(7)])
    assert np.bincount(seen, minlength=17)[10:].tolist() == [4] * 7
    assert sorted(seen[:7].tolist()) == list(range(10, 17))
    again = BatchOrder(np.arange(10, 17), 4, [1, 2])
    assert np.array_equal(again(5), order(5))  # without the batches before it
    large = BatchOrder(np.arange(3), 8, [0])  # of more than two epochs
    assert np.bincount(np.concatenate([large(t) for t in range(3)])).tolist() == [8, 8, 8]


def test_parts_of_one_graph_or_none() -> None:
    graphs = made_graphs(12)
    parts = [np.arange(3, 3 + n) for n in (2, 1, 0)]
    splits = [Split(np.arange(5), part, part) for part in parts]
    task = fold_task(graphs, models_of(graphs, "mincut", 3), splits, [0, 1, 2], "mincut")
    tested = task.evaluate()
    for r, model in enumerate(models_of(graphs, "mincut", 2)):
        for measured in (task.validate(), tested):
            assert abs(measured["loss"][r] - plain_loss(model, graphs, parts[r])) < 1e-9
    assert {value[2].item() for value in tested.values()} == {0.0}


def test_what_has_no_form_for_replicas_is_named() -> None:
    graphs = made_graphs(12)
    for method, options, words in (
        ("topk", {"min_score": 0.1}, "min_score and multiplier must be left"),
        ("topk", {"multiplier": 2.0}, "min_score and multiplier must be left"),
        ("topk", {"multiplier": 0.5}, "min_score and multiplier must be left"),
        ("diffpool", {"assignment": "skip"}, "assignment must be 'gcn'"),
        ("sagpool", {"gnn": GATConv}, "GATConv holds weights of its own"),
    ):
        refuses(ParameterError, words, replica_net, models_of(graphs, method, 2, **options), one_hot=2)
    for kind in (ClassifierSettings, FoldResult, StructureFeatures, Hierarchy, BatchPlan, Batch):
        with pytest.raises(FrozenInstanceError):
            kind.__new__(kind).anything = 1


def test_clustering_coefficients_are_those_of_networkx() -> None:
    """Few edges and many, for which a dense product counts triangles."""
    sizes = ((40, 0.1), (40, 0.9), (2, 1.0), (9, 0.5), (12, 0.3), (40, 0.5), (1, 0.0), (30, 0.05))
    made = [nx.gnp_random_graph(n, p, seed=n) for n, p in sizes]
    graphs = from_graphs([Graph.from_networkx(g) for g in made])
    c = clustering_coefficients(graphs)
    np.testing.assert_allclose(c, [v for g in made for v in nx.clustering(g).values()], rtol=1e-6)
    features, degree = with_structure(graphs), [d for g in made for _, d in g.degree()]
    np.testing.assert_allclose(features.value[:, 0], (c - c.mean()) / c.std(), rtol=1e-4, atol=1e-6)
    assert features.index[:, 0].tolist() == degree and features.num_features == max(degree) + 2
    assert StructureFeatures.fit(from_graphs([Graph.from_edges([[0], [1]])])).std == 1.0


def test_common_neighbours_are_normalised_once() -> None:
    path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], edge_weight=[1.0, 2.0, 3.0])
    op = CSR.from_graph(path).to(dtype=torch.float64)
    plain = MaskedSquare(op, torch.ones(op.num_rows, dtype=torch.float64), op.layout)
    one = plain.normalise()
    square = op.to_dense().mm(op.to_dense())
    degree = square.sum(1).rsqrt()
    torch.testing.assert_close(one.to_dense(), degree[:, None] * square * degree)
    assert one.normalise() is one


@pytest.mark.parametrize("method", ["topk", "sagpool"])
@pytest.mark.parametrize("options", [{"connect": "two_hop"}, {"k": 3}, {"ratio": 0.55}])
def test_kept_nodes_joined_by_common_neighbours_or_fixed_in_number(method: str, options: dict) -> None:
    graphs = made_graphs(30, weighted=True, one_hot=False, smallest=2)
    models, splits = models_of(graphs, method, 2, **options), folds(graphs, 3)[:2]
    task = fold_task(graphs, models, splits, [0, 1], method)
    values = task.step()
    losses = values["loss"]
    (losses + 1e-3 * values["l2"]).sum().backward()
    for r, model in enumerate(models):
        expected = plain_loss(model, graphs, BatchOrder(splits[r].train, 5, [r])(0))
        assert abs(losses[r] - expected) < 1e-9
        (expected + 1e-3 * sum(kernel.square().sum() for kernel in model.kernels())).backward()
        for (name, one), other in zip(task.net.named_parameters(), model.parameters(), strict=True):
            assert (one.grad[r] - other.grad).abs().max() < 1e-9, name


def test_what_is_known_of_a_batch_agrees_with_what_the_device_would_say() -> None:
    rng = np.random.default_rng(0)
    sizes = (150, 3, 80)  # a star has a row of more than 64 entries
    hubs = [Graph.from_networkx(nx.star_graph(n - 1)).with_features(rng.random((n, 1))) for n in sizes]
    store = GraphStore(from_graphs(hubs), CPU, torch.float64)
    (plan,) = store.plan(np.array([[[0, 1], [2, -1]]]))
    op = store.gather(plan)[0].op
    pattern, layout = op.pattern, op.layout
    plain = CSRPattern(pattern.rowptr, pattern.col, pattern.shape)
    for mine, asked in zip(pattern.pieces, plain.pieces, strict=True):
        assert torch.equal(mine, asked)
    assert plain.symmetric
    usual = Segments(layout.num_rows, layout.ptr)
    assert torch.equal(layout.batch, usual.batch)
    assert [layout.chunk_size(k) for k in (1, 16, 17, 200, 300)] == [16, 16, 32, 256, 256]
    for size in (16, 64):
        known, expected = layout.chunks(size), usual.chunks(size)
        for name in ("owner", "place", "bounds"):
            assert torch.equal(getattr(known, name), getattr(expected, name))
