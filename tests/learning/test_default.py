"""The default of GraphClassification, GraphRegression, models of subtrees, what networks read of nodes."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from helpers.refusals import refuses, sentence_of
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score

import softcut as sc
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph import Graph, from_graphs
from softcut.graph.collection import folds, hold_out
from softcut.io import read_model, write_model
from softcut.learning.default_folds import default_settings, train_default_folds
from softcut.learning.graph_estimator import PRESETS, default_batch
from softcut.learning.replica_net import replica_net
from softcut.learning.structure_features import NodeInputs, clustering_coefficients
from softcut.learning.subtrees import (
    COLUMNS,
    HASHED,
    HEIGHT,
    SubtreeClassifier,
    best_share,
    describe_graphs,
    features_are_labels,
    node_labels,
)
from softcut.nn import ReadoutNet
from softcut.ops.batching import Padded, Segments

QUICK = {"max_iter": 3, "hidden": 8, "levels": 2, "n_init": 2, "device": "cpu"}


def cycles_and_stars(count: int = 24) -> tuple[list[nx.Graph], list[str]]:
    sizes = np.random.default_rng(0).integers(4, 12, count // 2).tolist()
    graphs = [make(n) for n in sizes for make in (nx.cycle_graph, nx.star_graph)]
    return graphs, ["ring", "star"] * (count // 2)


# ---------------------------------------------------------------- subtrees


def plain_patterns(graph: nx.Graph, height: int) -> list[dict[str, int]]:
    """Counts of subtree patterns by strings, height by height."""
    labels = {node: str(min(graph.degree(node), 64)) for node in graph}
    counts = []
    for level in range(height + 1):
        if level:
            around = {n: sorted(labels[m] for m in graph[n]) for n in graph}
            labels = {n: f"{labels[n]}({','.join(around[n])})" for n in graph}
        counts.append({label: list(labels.values()).count(label) for label in labels.values()})
    return counts


def test_columns_are_those_of_the_plain_algorithm() -> None:
    made = [nx.gnp_random_graph(9, 0.3, seed=seed) for seed in range(5)] + [nx.empty_graph(2)]
    columns = describe_graphs(from_graphs(made), by_features=False).toarray()
    told = [plain_patterns(graph, HEIGHT) for graph in made]
    names = sorted({(h, name) for each in told for h, level in enumerate(each) for name in level})
    table = np.array([[each[h].get(name, 0) for h, name in names] for each in told])
    assert columns.shape == (6, COLUMNS)
    for part, plain in ((columns[:, :HASHED], np.sqrt(table)), (columns[:, HASHED:-2], table)):
        scaled = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        assert np.allclose(part @ part.T, scaled @ scaled.T)
    sizes = [[graph.number_of_nodes(), 2 * graph.number_of_edges()] for graph in made]
    assert np.allclose(columns[:, -2:], 0.3 * np.log1p(sizes))


def test_labels_are_rows_of_features_where_few_are_distinct() -> None:
    graphs = from_graphs([Graph.from_edges([[0, 1], [1, 2]], x=[[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])])
    first, second, third = node_labels(graphs, by_features=True).tolist()
    assert first == second != third, "-0.0 is 0.0, and columns are told apart"
    assert node_labels(graphs, by_features=False).tolist()[0] == node_labels(graphs, by_features=False)[2]
    assert features_are_labels(graphs)
    numbers = np.random.default_rng(0).random((1200, 1))
    path = np.arange(1199)
    many = from_graphs([Graph.from_edges([path, path + 1], x=numbers)])
    assert not features_are_labels(many)
    assert not features_are_labels(from_graphs([nx.path_graph(3)]))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_linear_model_is_logistic_regression(classes: int) -> None:
    made = [nx.gnp_random_graph(10, 0.15 + 0.2 * (i % classes), seed=i) for i in range(36)]
    y = np.arange(36) % classes
    counts = describe_graphs(from_graphs(made), by_features=False)
    model = SubtreeClassifier.fit(counts, y, classes)
    theirs = LogisticRegression(C=10, max_iter=300).fit(counts, y)
    assert np.allclose(model.predict(counts), theirs.predict_proba(counts), atol=1e-3)
    missing = SubtreeClassifier.fit(counts, y, classes + 1).predict(counts)
    assert missing[:, -1].max() < 1e-8, "a class without graphs has no probability"
    alone = SubtreeClassifier.fit(counts[:3], np.zeros(3, np.int64), classes)
    assert np.allclose(alone.predict(counts), 1 / classes)


def test_the_share_is_that_of_the_lowest_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    good = softmax(np.eye(2)[y] * 2 + rng.normal(size=(200, 2)), axis=1)
    noise = softmax(rng.normal(size=(200, 2)), axis=1)
    assert best_share([good], [noise], [y]) == 0.0
    assert best_share([noise], [good], [y]) == 1.0
    other = softmax(np.eye(2)[y] * 2 + rng.normal(size=(200, 2)), axis=1)
    losses = [
        -np.log((1 - w) * good[range(200), y] + w * other[range(200), y]).mean() for w in np.arange(11) / 10
    ]
    halves = [[part[:90], part[90:]] for part in (good, other, y)]
    assert best_share(*halves) == pytest.approx(np.argmin(losses) / 10)


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_peaks_are_the_largest_values_of_each_graph(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    v = torch.rand(7, 3, dtype=dtype)
    v[1] = v[0]  # equal ones share the gradient
    v.requires_grad_()
    grad = torch.rand(3, 3, dtype=dtype)
    plain = torch.stack([v[:3].amax(0), torch.zeros(3, dtype=dtype), v[3:].amax(0)])
    peak = Segments(7, torch.tensor([0, 3, 3, 7])).peak(v)
    assert torch.equal(peak, plain)
    theirs, ours = (torch.autograd.grad(each, v, grad)[0] for each in (plain, peak))
    assert torch.allclose(theirs, ours)
    assert torch.equal(Segments(7).peak(v), v.amax(0, keepdim=True))
    assert torch.equal(Padded(1).peak(v.unsqueeze(0)), v.amax(0, keepdim=True))


def test_the_network_is_its_formula() -> None:
    torch.manual_seed(0)
    model = ReadoutNet(3, 2, hidden=4, layers=2).double()
    for norm in (*model.norms, model.read_norm):
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    x, edges = torch.rand(5, 3).double(), torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
    batch = torch.tensor([0, 0, 0, 1, 1])
    adjacency = torch.zeros(5, 5).double()
    adjacency[edges[0], edges[1]] = 1
    scale = adjacency.sum(1).rsqrt()
    normal = scale[:, None] * adjacency * scale
    h = model.norms[0](model.first(x)).relu()
    layers = [h]
    for conv, norm in zip(model.convs, model.norms[1:], strict=True):
        h = h + norm(normal @ h @ conv.neighbours.weight.T + conv.itself(h)).relu()
        layers.append(h)
    rows = []
    for graph in (0, 1):
        seen = torch.cat(layers, 1)[batch == graph]
        mean = seen.mean(0)
        rows.append(torch.cat([mean, mean * np.log1p(len(seen)), seen.amax(0)]))
    expected = model.head(model.inner(model.read_norm(torch.stack(rows))).relu())
    assert torch.allclose(model(x, edges, batch=batch).y, expected)
    dense = torch.zeros(2, 3, 3).double()
    dense[0], dense[1, :2, :2] = adjacency[:3, :3], adjacency[3:, 3:]
    padded = torch.zeros(2, 3, 3).double()
    padded[0], padded[1, :2] = x[:3], x[3:]
    mask = torch.tensor([[True, True, True], [True, True, False]])
    assert torch.allclose(model(padded, dense, mask=mask).y, expected), "padding changes nothing"


@pytest.mark.parametrize("one_hot", [0, 1])
def test_replicas_equal_single_networks(one_hot: int) -> None:
    torch.manual_seed(1)
    models = [ReadoutNet(4, 2, hidden=5, layers=2).double() for _ in range(3)]
    for model in models:
        for norm in model.norms:
            torch.nn.init.normal_(norm.weight)
    numbers, value = torch.tensor([0, 2, 1, 0, 2]), torch.rand(5, 1).double()
    written = torch.cat([torch.eye(3).double()[numbers], value], 1)
    stored = torch.cat([numbers.double().unsqueeze(1), value], 1) if one_hot else written
    edges, batch = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]), torch.tensor([0, 0, 0, 1, 1])
    alone = torch.cat([model(written, edges, batch=batch).y for model in models])
    net = replica_net(models, one_hot, 2)
    together = torch.cat([edges + 5 * i for i in range(3)], 1), torch.cat([batch + 2 * i for i in range(3)])
    y = net(torch.cat([stored] * 3), together[0], batch=together[1]).y
    assert torch.allclose(y, alone)
    assert sum(kernel[0].numel() for kernel in net.kernels()) == sum(k.numel() for k in models[0].kernels())


# ---------------------------------------------------------------- what networks read


def test_inputs_are_scaled_and_degrees_capped() -> None:
    graphs = from_graphs([nx.star_graph(80), nx.cycle_graph(5)])
    x = np.random.default_rng(0).normal(3.0, 5.0, (graphs.num_nodes, 2)).astype(np.float32)
    x[:, 1] = 7.0  # a constant column has no scale
    given = replace(graphs, value=x, num_features=2)
    inputs = NodeInputs.fit(given, given=True, structure=True, scaled=True, most=64)
    read = inputs.transform(given)
    assert read.index.max() == 64 and read.num_features == 65 + 1 + 2
    c = clustering_coefficients(graphs)
    z = np.column_stack([(c - c.mean()) / (c.std() or 1), (x[:, 0] - x[:, 0].mean()) / x[:, 0].std(), 0 * c])
    assert np.allclose(read.value, z, atol=1e-5)
    alone = NodeInputs.fit(given, given=False, structure=True, scaled=True).transform(given)
    assert alone.num_features == 82 and alone.value.shape[1] == 1
    same = NodeInputs.fit(given, given=True, structure=False, scaled=False).transform(given)
    assert same is given


def test_batches_grow_with_the_number_of_graphs() -> None:
    assert [default_batch(n) for n in (10, 100, 1000, 5000, 60_000, 10**6)] == [4, 6, 32, 32, 150, 256]


# ---------------------------------------------------------------- estimators


def test_the_default_averages_networks_and_subtrees(tmp_path: object) -> None:
    graphs, y = cycles_and_stars()
    model = sc.GraphClassification(**QUICK).fit(graphs, y)
    assert model.score(graphs, y) == 1.0
    assert 0 < model.subtree_share_ <= 1, "three epochs teach a network less than patterns tell"
    collection = from_graphs(graphs)
    counts = describe_graphs(collection, by_features=False)
    _, outputs = model._outputs(collection)
    share = model.subtree_share_
    said = np.mean([each.predict(counts) for each in model._subtrees], axis=0)
    chances = softmax(outputs.double().numpy(), axis=-1).mean(0)
    for model.subtree_share_ in (0.25, share):
        expected = (1 - model.subtree_share_) * chances + model.subtree_share_ * said
        assert np.allclose(model.predict_proba(graphs), expected, atol=1e-6)
    numbers = np.unique(y, return_inverse=True)[1]
    first = hold_out(numbers, 0.1, [0, 0]).train
    twin = SubtreeClassifier.fit(counts[first], numbers[first], 2)
    assert np.allclose(twin.weight, model._subtrees[0].weight, atol=1e-4), "a member's own training graphs"
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/m"))
    assert np.array_equal(again.predict_proba(graphs), model.predict_proba(graphs))
    assert again.subtree_share_ == share and clone(model).get_params() == model.get_params()


def test_members_stop_on_graphs_of_their_own() -> None:
    graphs, y = cycles_and_stars(40)
    model = sc.GraphClassification(**QUICK)
    numbers = np.unique(y, return_inverse=True)[1]
    collection = replace(from_graphs(graphs, y), y=numbers)
    splits, task = model._train(model._begin(), collection, numbers)
    assert not np.array_equal(splits[0].validation, splits[1].validation)
    assert task.splits == splits
    paper = sc.GraphClassification("paper", **{**QUICK, "levels": 1})
    splits, _ = paper._train(paper._begin(), collection, numbers)
    assert np.array_equal(splits[0].validation, splits[1].validation)


def test_options_of_the_paper_are_refused_by_the_default() -> None:
    for name, value in (("pool", "mincut"), ("k", [4, 2]), ("pool_args", {"temperature": 0.5})):
        told = sentence_of(ParameterError, sc.GraphClassification(**{name: value}).fit, [], [])
        assert name in told and "preset='paper'" in told
    chosen = sc.GraphClassification(hidden=5)._arguments(1000)
    preset = PRESETS["default"]
    assert chosen.settings.hidden == 5 and chosen.settings.levels == preset["levels"]
    assert chosen.n_init == preset["n_init"] and chosen.method == "default"


def test_damaged_parts_of_the_default_are_refused(tmp_path: object) -> None:
    graphs, y = cycles_and_stars()
    graphs = [Graph.from_edges(np.array(g.edges).T, x=[[g.degree(n)] for n in g]) for g in graphs]
    path = sc.GraphClassification(**QUICK).fit(graphs, y).save(f"{tmp_path}/m")
    tensors, meta = read_model(path)
    assert meta["subtree_share"] > 0 and meta["subtrees_by_features"]
    for name, value in (
        ("subtree_share", 2.0),
        ("subtree_share", -0.1),
        ("subtree_share", 0.0),
        ("scale", None),
        ("scale", [[0.0], [0.0]]),
        ("scale", [[0.0, 1.0], [1.0, 1.0]]),
    ):
        bad = {k: v for k, v in {**meta, name: value}.items() if k not in ("format", "version", "sha256")}
        where = write_model(f"{tmp_path}/bad", tensors, bad)
        assert "damaged or incomplete" in sentence_of(ModelFileError, sc.GraphClassification.load, where)


def test_folds_of_the_default_are_tested_on_what_they_did_not_see() -> None:
    made = [nx.gnp_random_graph(8, 0.2 + 0.4 * (i % 2), seed=i) for i in range(40)]
    graphs = from_graphs(made, [i % 2 for i in range(40)])
    settings = replace(default_settings(), epochs=2, hidden=8, levels=1)
    both, result = train_default_folds(graphs, [0, 3], settings=settings, members=2)
    assert [each.fold for each in both] == [0, 3] and result.iterations == 2
    alone, _ = train_default_folds(graphs, [3], settings=settings, members=2)
    assert alone[0].validation_loss == pytest.approx(both[1].validation_loss, abs=1e-5)
    assert alone[0].accuracy == both[1].accuracy
    test = folds(graphs, 10, 0)[3].test
    flipped = replace(graphs, y=np.where(np.isin(np.arange(40), test), 1 - graphs.y, graphs.y))
    # The folds are drawn from the classes: keep them as they were.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("softcut.learning.default_folds.folds", lambda *_: folds(graphs, 10, 0))
        other, _ = train_default_folds(flipped, [3], settings=settings, members=2)
    assert other[0].accuracy == pytest.approx(1 - alone[0].accuracy), (
        "test classes decide nothing but the score"
    )
    assert other[0].subtree_share == alone[0].subtree_share
    refuses(ParameterError, "classes", train_default_folds, from_graphs(made))


def test_regression_learns_standardised_targets(tmp_path: object) -> None:
    graphs = [nx.path_graph(n) for n in range(3, 33)]
    sizes = np.array([1000.0 + 50.0 * len(graph) for graph in graphs])
    model = sc.GraphRegression(**{**QUICK, "max_iter": 60, "learning_rate": 0.01}).fit(graphs, sizes)
    assert model.predict(graphs).shape == (30,) and model.score(graphs, sizes) > 0.8
    assert model.score(graphs, sizes) == pytest.approx(r2_score(sizes, model.predict(graphs)))
    again = sc.GraphRegression.load(model.save(f"{tmp_path}/m"))
    assert np.array_equal(again.predict(graphs), model.predict(graphs))
    y = pd.DataFrame({"size": sizes, "edges": sizes / 7})
    two = sc.GraphRegression(**QUICK).fit(graphs, y)
    assert two.predict(graphs).shape == (30, 2) and two.target_names_ == ["size", "edges"]
    again = sc.GraphRegression.load(two.save(f"{tmp_path}/two"))
    assert (
        np.array_equal(again.predict(graphs), two.predict(graphs))
        and again.target_names_ == two.target_names_
    )
    constant = sc.GraphRegression(**QUICK).fit(graphs, np.full(30, 4.0)).predict(graphs)
    assert np.isfinite(constant).all()
    paper = sc.GraphRegression("paper", max_iter=1, device="cpu").fit(graphs, sizes)
    assert paper.predict(graphs[:2]).shape == (2,)


def test_bad_targets_are_one_sentence(tmp_path: object) -> None:
    graphs = [nx.path_graph(3)] * 8
    for y in (["a"] * 8, [1.0] * 7, [[1.0], [2.0, 3.0]] * 4, [float("nan")] * 8, np.zeros((8, 0)), 5.0):
        assert "y must" in sentence_of(GraphError, sc.GraphRegression(max_iter=1).fit, graphs, y)
    refuses(NotFittedError, "GraphRegression is not fitted", sc.GraphRegression().predict, graphs)
    model = sc.GraphRegression(**{**QUICK, "max_iter": 1}).fit(graphs, np.arange(8.0))
    refuses(GraphError, "2 targets, but the model was fitted with 1", model.score, graphs, np.zeros((8, 2)))
    path = model.save(f"{tmp_path}/m")
    refuses(ModelFileError, "a model of numbers of graphs", sc.GraphClassification.load, path)
    tensors, meta = read_model(path)
    for name, value in (("deviation", [0.0]), ("mean", [1.0, 2.0]), ("targets", []), ("single", 1)):
        bad = {k: v for k, v in {**meta, name: value}.items() if k not in ("format", "version", "sha256")}
        where = write_model(f"{tmp_path}/bad", tensors, bad)
        assert "damaged or incomplete" in sentence_of(ModelFileError, sc.GraphRegression.load, where)
