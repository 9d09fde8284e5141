"""GraphClassification: what it learns, what it accepts, what it refuses, model files."""

import resource
from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock

import networkx as nx
import numpy as np
import pytest
import torch
from helpers.made_graphs import made_graphs
from helpers.refusals import refuses, sentence_of
from sklearn.base import clone
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset

import softcut as sc
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph import Graph, from_graphs
from softcut.io import read_model, write_model
from softcut.learning import ClassifierSettings, with_structure
from softcut.learning.experiment import build_models


def rings_and_stars(count: int = 40, x: bool = False, seed: int = 0) -> tuple[list[Graph], list[str]]:
    rng = np.random.default_rng(seed)
    graphs, y = [], []
    for i in range(count):
        n = int(rng.integers(4, 10))
        nodes = np.arange(n)
        ends = np.stack([nodes, (nodes + 1) % n]) if i % 2 else np.stack([np.zeros(n - 1, int), nodes[1:]])
        features = rng.standard_normal((n, 2)) if x else None
        graphs.append(Graph.from_edges(ends, x=features, num_nodes=n))
        y.append("ring" if i % 2 else "star")
    return graphs, y


def fit(graphs: object, y: object = None, **options: object) -> sc.GraphClassification:
    """A small model, trained for a moment."""
    small = {"preset": "paper", "max_iter": 2, "hidden": 8, "device": "cpu"}
    return sc.GraphClassification(**{**small, **options}).fit(graphs, y)


@pytest.fixture(scope="module")
def fitted() -> sc.GraphClassification:
    return fit(*rings_and_stars(), max_iter=60, learning_rate=1e-2, hidden=16, n_init=2)


def test_it_learns_and_names_its_classes(fitted: sc.GraphClassification) -> None:
    graphs, y = rings_and_stars(20, seed=1)
    assert fitted.classes_.tolist() == ["ring", "star"]
    assert fitted.score(graphs, y) == 1.0
    assert set(fitted.predict(graphs).tolist()) == {"ring", "star"}
    assert np.allclose(fitted.predict_proba(graphs).sum(1), 1)
    for values in (fitted.best_epoch_, fitted.validation_loss_, fitted.validation_accuracy_):
        assert values.shape == (2,)
    assert (fitted.best_epoch_ <= fitted.n_iter_).all()


def test_what_is_said_of_the_best_epoch_is_true_of_the_network(tmp_path: object) -> None:
    graphs, y = rings_and_stars(24)
    seen: list[dict[str, np.ndarray]] = []
    options = {"max_iter": 9, "batch_size": 8, "learning_rate": 0.05, "validation": 0.5, "n_init": 2}
    model = sc.GraphClassification("paper", **options, callbacks=[lambda p: seen.append(p.validation)]).fit(
        graphs, y
    )
    losses, hits = (np.stack([each[name] for each in seen]) for name in ("loss", "accuracy"))
    assert model.n_iter_ == len(seen) == 9
    assert model.best_epoch_.tolist() == (losses.argmin(0) + 1).tolist()
    assert np.array_equal(model.validation_loss_, losses.min(0))
    assert np.array_equal(model.validation_accuracy_, hits[losses.argmin(0), [0, 1]])
    model.device = "abacus"  # of another machine
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/model"))
    assert again.device == "auto" and again._inputs == model._inputs
    for name in ("best_epoch_", "n_iter_", "validation_loss_", "validation_accuracy_"):
        assert np.array_equal(getattr(again, name), getattr(model, name))


def test_defaults_are_those_of_the_settings_and_networks_have_seeds_of_their_own() -> None:
    model = sc.GraphClassification("paper")
    assert model._arguments() == ("mincut", 1, ClassifierSettings())
    assert (model.validation, model.random_state) == (0.1, 0)
    graphs, y = rings_and_stars(24)
    options = {"max_iter": 1, "learning_rate": 1e-12, "hidden": 8, "n_init": 2, "random_state": 3}
    model = sc.GraphClassification("paper", pool="nopool", **options).fit(graphs, y)
    twins = build_models(model._columns[2], 2, "nopool", (1, 1), [3000, 3001], model._arguments().settings)
    heads = np.stack([twin.head.weight.detach().numpy() for twin in twins])
    assert np.allclose(model._net.head.weight.detach().numpy(), heads, atol=1e-9)
    stop = Mock(side_effect=KeyboardInterrupt)
    assert sc.GraphClassification("paper", **options, callbacks=[stop]).fit(graphs, y).interrupted_ is True


def test_prediction_of_a_graph_does_not_depend_on_the_others(fitted: sc.GraphClassification) -> None:
    graphs, _ = rings_and_stars(9, seed=2)
    together = fitted.predict_proba(graphs)
    alone = np.concatenate([fitted.predict_proba([graph]) for graph in graphs])
    assert np.allclose(together, alone, atol=1e-6)
    assert np.array_equal(together, fitted.predict_proba(graphs))


@pytest.mark.parametrize("pool", ["graclus", "ndp", "topk", "nopool", "dense", "dmon"])
def test_every_kind_of_pooler_is_saved_and_loaded(pool: str, tmp_path: object) -> None:
    graphs, y = rings_and_stars(24)
    model = fit(graphs, y, pool=pool)
    model.metadata_["labels"] = [3, 1]
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/model"))
    assert again.metadata_ == {"labels": [3, 1]} and again.interrupted_ is False
    assert np.array_equal(again.predict_proba(graphs), model.predict_proba(graphs))
    assert again.get_params() == model.get_params()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.best_epoch_.tolist() == model.best_epoch_.tolist()


@pytest.mark.parametrize(("features", "width"), [("given", 2), ("auto", 2), ("structure", 10), ("both", 12)])
def test_features_are_those_asked_for_of_a_list_or_a_collection(features: str, width: int) -> None:
    graphs, y = rings_and_stars(24, x=True)
    model, other = (fit(given, y, max_iter=1, features=features) for given in (graphs, from_graphs(graphs)))
    assert model._columns[2] == width
    assert np.array_equal(model.predict_proba(graphs), other.predict_proba(from_graphs(graphs)))
    rng = np.random.default_rng(9)
    changed = [graph.with_features(rng.standard_normal((graph.num_nodes, 2))) for graph in graphs]
    same = np.array_equal(model.predict_proba(graphs), model.predict_proba(changed))
    assert same == (features == "structure")
    if features == "given":
        with pytest.raises(GraphError, match="no features x"):
            sc.GraphClassification("paper", max_iter=1, features="given").fit(*rings_and_stars(8))


def test_collections_and_their_own_classes() -> None:
    graphs = made_graphs(40)
    model = fit(graphs)
    assert model.classes_.tolist() == ["0", "1"]
    assert 0 <= model.score(graphs) <= 1
    assert model.predict_proba(graphs[:3]).shape == (3, 2)


@pytest.mark.parametrize(
    "y", [[3, 1] * 12, [True, False] * 12, [0.5, 2.5] * 12], ids=["int", "bool", "float"]
)
def test_classes_of_any_type_come_back(y: list[object], tmp_path: object) -> None:
    graphs, _ = rings_and_stars(24)
    model = fit(graphs, y, max_iter=1)
    assert set(model.predict(graphs).tolist()) <= set(y)
    assert sc.GraphClassification.load(model.save(f"{tmp_path}/m")).classes_.tolist() == sorted(set(y))
    assert 0 <= model.score(graphs, y) <= 1


def test_scikit_learn_contract() -> None:
    model = sc.GraphClassification("paper", pool="topk", max_iter=3, k=(4, 2))
    assert clone(model).get_params() == model.get_params()
    for call in (lambda: model.predict([]), lambda: model.save("nowhere")):
        with pytest.raises(NotFittedError):
            call()


def test_the_same_random_state_gives_the_same_model() -> None:
    graphs, y = rings_and_stars(24)
    seen: list[int] = []
    options = {"callbacks": [lambda p: seen.append(p.iteration)]}
    one, again, other = (fit(graphs, y, random_state=s, **options).predict_proba(graphs) for s in (1, 1, 2))
    assert np.array_equal(one, again) and not np.array_equal(one, other)
    assert seen == [1, 2] * 3, "callbacks are called once per epoch"


WRONG = {
    "preset": ["best", None, 5],
    "pool": ["maxpool", 5, ["mincut"], "default"],
    "features": ["all", 5],
    "n_init": [0, 1.5, True, "2"],
    "hidden": [0, 1.5, "x"],
    "levels": [0, 1.5, True],
    "k": [5, (5,), (5, 0), (5, "x"), (5, 2.5), "ab", {5: 2}],
    "batch_size": [0, 2.5, "auto"],
    "learning_rate": [0, -1.0, "x", float("nan"), float("inf"), True],
    "l2": [-1.0, "x", float("nan"), float("inf")],
    "max_iter": [0, 1.5, "x", True, 10**9],
    "patience": [0, 0.5],
    "validation": [0.0, 0.6, "x", None, float("nan"), True],
    "pool_args": [5, "x", {1: 1}, [("temperature", 1.0)]],
    "random_state": ["x", -1, 2**32, 1.5, True],
    "device": [None, 5, "abacus", "meta", "hpu", ""],
    "callbacks": [5, [5], print, "x"],
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_arguments_are_one_sentence_before_the_work(name: str) -> None:
    for value in WRONG[name]:
        work = Mock(side_effect=AssertionError("the graphs were read"))
        model = sc.GraphClassification(**{"preset": "paper", name: value})
        assert name in sentence_of(ParameterError, model.fit, Mock(__iter__=work), ["a", "b"]), value


def test_numbers_of_numpy_are_numbers(tmp_path: object) -> None:
    graphs, y = rings_and_stars(8)
    options = {
        "n_init": np.int64(2),
        "k": [np.int64(3), 2],
        "l2": np.float32(0),
        "device": torch.device("cpu"),
    }
    model = fit(graphs, y, max_iter=np.int32(1), **options, pool_args={"temperature": np.float64(2)})
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/m"))
    assert np.array_equal(again.predict_proba(graphs), model.predict_proba(graphs))


@pytest.mark.parametrize(
    "graphs",
    [
        Graph.from_edges([[0], [1]]),
        Graph.from_edges([[0], [1]]).adjacency,
        np.eye(3),
        nx.path_graph(3),
        Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2),
        *("abc", None, 5),
    ],
    ids=lambda graphs: type(graphs).__name__,
)
def test_one_graph_is_no_list(fitted: sc.GraphClassification, graphs: object) -> None:
    assert "graphs must be a list of graphs" in sentence_of(GraphError, fitted.predict, graphs)
    assert "graphs must be a list of graphs" in sentence_of(GraphError, from_graphs, graphs)


def test_lists_of_every_kind() -> None:
    graphs, y = rings_and_stars(8)
    boxed = np.empty(8, dtype=object)
    boxed[:] = graphs
    for given in (tuple(graphs), iter(graphs), boxed):
        assert len(from_graphs(given, y)) == 8
    assert len(from_graphs(FakeDataset(num_graphs=4))) == 4


@pytest.mark.parametrize(
    "y",
    [
        *(
            [None, "star"] * 4,
            [float("nan"), 1.0] * 4,
            [float("inf"), 1.0] * 4,
            5,
            [[1, 2], 1] * 4,
            [[1]] * 8,
        ),
        *(
            ["1", 1] * 4,
            [2**63 + 1, -1] * 4,
            [2**80, 1] * 4,
            [object(), 1] * 4,
            ["a\0", "a"] * 4,
            [b"a", b"b"] * 4,
        ),
        torch.zeros(8, 2),
    ],
)
def test_classes_that_cannot_be_kept_exactly_are_refused(y: object) -> None:
    graphs, _ = rings_and_stars(8)
    assert "y must" in sentence_of(GraphError, sc.GraphClassification("paper", max_iter=1).fit, graphs, y)


def test_a_score_compares_classes_as_they_are(fitted: sc.GraphClassification) -> None:
    graphs, y = rings_and_stars(12)
    longer = [name + "fish" if name == "star" else name for name in y]
    said = sentence_of(GraphError, fitted.score, graphs, longer)
    assert said == "y holds 'starfish', but the classes of the fit are 'ring', 'star'."
    numbers = [int(name == "ring") for name in y]
    model = fit(graphs, numbers, max_iter=60, learning_rate=1e-2, hidden=16)
    right = model.score(graphs, numbers)
    assert right > 0.5
    for same in (
        np.asarray(numbers, float),
        [str(each) for each in numbers],
        [each == 1 for each in numbers],
    ):
        assert model.score(graphs, same) == right or isinstance(same[0], bool)
    assert model.score(from_graphs(graphs, numbers)) == right, "a collection knows its classes as words"
    for other in ([each + 0.9 for each in numbers], [f"{each}.9" for each in numbers], [2] * 12, ["x"] * 12):
        assert "y holds" in sentence_of(GraphError, model.score, graphs, other)
    assert fitted.score(graphs, ["star"] * 12) == 0.5


# ------------------------------------------------------------------------------------------- names of features


def named(names: list[str], count: int = 24, seed: int = 0) -> tuple[list[Graph], list[str]]:
    """Rings whose class is the sign of the feature "sign"; the other one is noise."""
    rng = np.random.default_rng(seed)
    graphs, y, nodes = [], [], np.arange(6)
    for i in range(count):
        values = {"sign": np.full(6, 2.0 * (i % 2) - 1), "noise": rng.choice([-1.0, 1.0], 6)}
        ring = Graph.from_edges(np.stack([nodes, (nodes + 1) % 6]))
        graphs.append(ring.with_features(np.stack([values.get(n, values["noise"]) for n in names], 1), names))
        y.append("plus" if i % 2 else "minus")
    return graphs, y


@pytest.mark.parametrize("features", ["auto", "both"])
def test_features_are_matched_by_name(features: str, tmp_path: object) -> None:
    (graphs, y), (turned, _) = named(["sign", "noise"]), named(["noise", "sign"])
    options = {"max_iter": 20, "learning_rate": 0.05, "features": features}
    model = fit(graphs, y, **options)
    assert model.feature_names_in_.tolist() == ["sign", "noise"]
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/m"))
    for each in (model, again):
        assert each.score(graphs, y) == each.score(turned, y) == each.score(from_graphs(turned, y)) == 1.0
        assert np.array_equal(each.predict_proba(turned), model.predict_proba(graphs))
        other = named(["sign", "height"])[0]
        assert "lacks 'noise' and has 'height'" in sentence_of(GraphError, each.predict, other)
    mixed = fit([*graphs[:12], *turned[12:]], y, **options)
    assert np.array_equal(mixed.predict_proba(turned), model.predict_proba(graphs)), "also within a fit"
    for bad in (other, [graph.with_features(graph.x) for graph in graphs]):
        said = sentence_of(GraphError, fit, [*graphs[:12], *bad[12:]], y)
        assert "graphs[12] does not have the features of the first graphs" in said


def test_features_without_names_are_taken_by_place() -> None:
    graphs, y = named(["sign", "noise"])
    plain = [graph.with_features(graph.x) for graph in graphs]
    with_names, without = fit(graphs, y), fit(plain, y)
    assert not hasattr(without, "feature_names_in_")
    for model, given, said in ((with_names, plain, "have no names"), (without, graphs, "had none")):
        with pytest.warns(UserWarning, match=said):
            assert np.array_equal(model.predict_proba(given), without.predict_proba(plain))
    assert not hasattr(with_names.fit(plain, y), "feature_names_in_"), "names of an earlier fit are forgotten"
    structural, (other, _) = fit(graphs, y, features="structure"), named(["weight", "height"])
    assert np.array_equal(structural.predict_proba(other), structural.predict_proba(graphs))


def test_one_hot_features_are_not_taken_for_numbers() -> None:
    graphs = made_graphs(20)
    if graphs.index.shape[1] == 0:
        graphs = with_structure(graphs)
    dense = replace(graphs, index=graphs.index[:, :0], value=graphs.dense_features())
    model = fit(graphs, features="given")
    model.predict(graphs)
    assert "other columns" in sentence_of(GraphError, model.predict, dense)


def test_bad_graphs_are_one_sentence(fitted: sc.GraphClassification) -> None:
    graphs, y = rings_and_stars(8)
    refuses(GraphError, "at least two classes", sc.GraphClassification().fit, graphs, ["a"] * 8)
    refuses(GraphError, "y must be given", sc.GraphClassification().fit, graphs)
    refuses(GraphError, "one class for each of the 8", sc.GraphClassification().fit, graphs, y[:5])
    with pytest.raises(GraphError, match="features, but the model was fitted with 0"):
        fitted.predict(rings_and_stars(4, x=True)[0])


def test_damaged_models_are_refused(fitted: sc.GraphClassification, tmp_path: object) -> None:
    two = Graph.from_edges([[0, 1, 2, 3, 4, 5, 2], [1, 2, 0, 4, 5, 3, 3]])
    cluster = sc.GraphClustering(2).fit(two)
    with pytest.raises(
        ModelFileError,
        match=r"other.safetensors is a clustering of nodes \(GraphClustering\).*softcut predict",
    ):
        sc.GraphClassification.load(cluster.save(f"{tmp_path}/other"))
    with pytest.raises(
        ModelFileError,
        match=r"again.safetensors is a classifier of graphs: use it with softcut classify",
    ):
        sc.GraphClustering.load(fitted.save(f"{tmp_path}/again"))


# ------------------------------------------------------------------------------------------ hostile model files


@pytest.fixture
def resigned(fitted: sc.GraphClassification, tmp_path: object) -> Callable[..., str]:
    """The sentence for a model with a right digest and a changed part; the model that it loads as, else."""

    def load(path: str = "", value: object = ..., tensors: dict[str, torch.Tensor] | None = None) -> object:
        stored, meta = read_model(fitted.save(f"{tmp_path}/good"))
        place, *names = meta, *path.split(".")
        for name in names[:-1]:
            place = place[name]
        if path and value is ...:
            del place[names[-1]]
        elif path:
            place[names[-1]] = value
        where = write_model(f"{tmp_path}/bad", {**stored, **(tensors or {})}, meta)
        return sentence_of(ModelFileError, sc.GraphClassification.load, where)

    return load


SIZES = {
    "parameters.hidden": [10**9, 17, 16.0, "16"],
    "parameters.levels": [10**9, 3],
    "parameters.n_init": [10**9, 9999, 3],
    "parameters.k": [[10**9, 10**9], 5],
    "parameters.pool": ["topk", "random", "nopool", "x"],
    "parameters.pool_args": [{"hidden": 10**9}, {"k": 10**9}, 5],
    "parameters.features": ["given"],
    "parameters.device": [None, 5],
    "parameters.batch": [0, "x"],
    "parameters.more": [1],
    "sizes": [[10**9, 10**9], [99, 99], [3], 5, [True, 1]],
    "columns": [[0, 10**9, 10**9], [10**9, 1, 11], [1, 1, 10**12], [-1, 1, 11], [1]],
    "structure": [[10**9, 0.0, 1.0], [8, 0.0, 0.0], [8], None],
    "given": [10**9, -1, 1.0],
    "classes": [[str(i) for i in range(10**5)], ["ring"], ["star", "ring"], ["ring", None], [[1], [2]], "ab"],
    "feature_names": [["a"], "x", [{}]],
    "best_epoch": [[1], [1, 2, 3], "x", [[1], [2]]],
    "n_epochs": [0, 1.5, None],
    "interrupted": [1, None],
    "metadata": [None, [], 5],
    "validation_loss": [[1.0], ["a", "b"]],
    "more": [1],
}


@pytest.mark.parametrize("path", SIZES)
def test_sizes_are_compared_with_the_tensors_before_anything_is_made(path: str, resigned: Callable) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for value in SIZES[path]:
        assert "is damaged or incomplete" in resigned(path, value), value
    if path not in ("parameters.more", "more"):
        assert "is damaged or incomplete" in resigned(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**18, "256 MiB"


def test_a_random_pooler_of_a_file_is_not_large(tmp_path: object) -> None:
    graphs, y = rings_and_stars(8)
    tensors, meta = read_model(fit(graphs, y, pool="random").save(f"{tmp_path}/m"))
    for changed in (
        {"sizes": [10**9] * 2},
        {"parameters": {**meta["parameters"], "pool_args": {"k": 10**9}}},
    ):
        write_model(f"{tmp_path}/m", tensors, {**meta, **changed})
        assert "sizes" in sentence_of(ModelFileError, sc.GraphClassification.load, f"{tmp_path}/m")


def test_tensors_of_another_type_are_refused(fitted: sc.GraphClassification, resigned: Callable) -> None:
    for name, value in list(fitted._net.named_parameters())[::6]:
        for wrong in (value.half(), value.double(), value.int(), value * np.nan, value[:1]):
            assert "is damaged or incomplete" in resigned(tensors={name: wrong}), name
    assert "is damaged or incomplete" in resigned(tensors={"more": torch.zeros(2)})


def test_a_device_that_is_not_here(fitted: sc.GraphClassification, tmp_path: object) -> None:
    tensors, meta = read_model(fitted.save(f"{tmp_path}/m"))
    for device in ("meta", "hpu", "cuda:99", "abacus"):
        meta["parameters"]["device"] = device
        assert sc.GraphClassification.load(write_model(f"{tmp_path}/m", tensors, meta)).device == "auto"


def test_unseen_degrees_are_the_largest_known(fitted: sc.GraphClassification) -> None:
    star = Graph.from_edges([np.zeros(60, int), np.arange(1, 61)])
    assert fitted.predict([star]).tolist() == ["star"]
    assert from_graphs([star]).degree.max() > fitted._inputs.structure.max_degree


def test_model_files_keep_their_names_of_settings_and_take_every_random_state(tmp_path: object) -> None:
    graphs, y = rings_and_stars(24)
    options = {"max_iter": 1, "learning_rate": 2e-3, "batch_size": 8}
    first, again = (fit(graphs, y, **options, random_state=np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.predict_proba(graphs), again.predict_proba(graphs))
    path = first.save(f"{tmp_path}/m")
    stored = read_model(path)[1]["parameters"]
    assert (stored["epochs"], stored["lr"], stored["batch"]) == (1, 2e-3, 8)
    assert isinstance(stored["random_state"], int) and "callbacks" not in stored
    loaded = sc.GraphClassification.load(path)
    assert (loaded.max_iter, loaded.learning_rate, loaded.batch_size) == (1, 2e-3, 8)
    assert fit(graphs, y, max_iter=1, random_state=None).n_iter_ == 1


def test_a_page_of_predictions_says_what_score_says(tmp_path):
    graphs = [make(n) for n in range(4, 14) for make in (nx.cycle_graph, nx.star_graph)]
    y, numbers = np.array(["ring", "star"] * 10), np.array([len(graph) for graph in graphs], float)
    y[2] = "star"
    model = sc.GraphClassification(max_iter=2, n_init=1, random_state=0).fit(graphs[6:], y[6:])
    assert model.class_count_.tolist() == [7, 7]
    again = sc.GraphClassification.load(model.save(tmp_path / "model"))
    page = again.report(tmp_path / "classes.html", graphs[:6], y[:6]).read_text(encoding="utf-8")
    share = 100 * model.score(graphs[:6], y[:6])
    assert f"{share:.1f} % of 6 graphs are classified correctly" in page and "predictions.csv" not in page
    assert "is right for 33.3 %" in page  # the first of two equally frequent classes
    learner = sc.GraphRegression(max_iter=2, n_init=1, random_state=0).fit(graphs[6:], numbers[6:])
    assert learner.mean_.tolist() == [numbers[6:].mean()]
    page = learner.report(tmp_path / "numbers.html", graphs[:6], numbers[:6]).read_text(encoding="utf-8")
    error = np.abs(learner.predict(graphs[:6]) - numbers[:6]).mean()
    assert f"{error:.3g}" in page and "true" in page
    with pytest.raises(GraphError, match="y has 2 targets"):
        learner.report(tmp_path / "two.html", graphs[:6], np.ones((6, 2)))
    with pytest.raises(ParameterError, match="is a folder"):
        model.report(tmp_path, graphs[:6], y[:6])
