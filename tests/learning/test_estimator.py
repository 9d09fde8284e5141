"""GraphClassification: what it learns, what it accepts, what it refuses, model files."""

from unittest.mock import Mock

import numpy as np
import pytest
from helpers.made_graphs import made_graphs
from helpers.refusals import refuses, sentence_of
from sklearn.base import clone

import softcut as sc
from softcut.errors import GraphError, ModelFileError, NotFittedError, ParameterError
from softcut.graph import Graph, from_graphs
from softcut.io import read_model
from softcut.learning import ClassifierSettings
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
    return sc.GraphClassification(**{"max_iter": 2, "hidden": 8, "device": "cpu", **options}).fit(graphs, y)


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
    model = sc.GraphClassification(**options, callbacks=[lambda p: seen.append(p.validation)]).fit(graphs, y)
    losses, hits = (np.stack([each[name] for each in seen]) for name in ("loss", "accuracy"))
    assert model.n_iter_ == len(seen) == 9
    assert model.best_epoch_.tolist() == (losses.argmin(0) + 1).tolist()
    assert np.array_equal(model.validation_loss_, losses.min(0))
    assert np.array_equal(model.validation_accuracy_, hits[losses.argmin(0), [0, 1]])
    model.device = "abacus"  # of another machine
    again = sc.GraphClassification.load(model.save(f"{tmp_path}/model"))
    assert again.device == "auto" and again._structure == model._structure
    for name in ("best_epoch_", "n_iter_", "validation_loss_", "validation_accuracy_"):
        assert np.array_equal(getattr(again, name), getattr(model, name))


def test_defaults_are_those_of_the_settings_and_networks_have_seeds_of_their_own() -> None:
    model = sc.GraphClassification()
    assert model._settings() == ClassifierSettings()
    assert (model.n_init, model.validation, model.random_state) == (1, 0.1, 0)
    graphs, y = rings_and_stars(24)
    options = {"max_iter": 1, "learning_rate": 1e-12, "hidden": 8, "n_init": 2, "random_state": 3}
    model = sc.GraphClassification("nopool", **options).fit(graphs, y)
    twins = build_models(model._columns[2], 2, "nopool", (1, 1), [3000, 3001], model._settings())
    heads = np.stack([twin.head.weight.detach().numpy() for twin in twins])
    assert np.allclose(model._net.head.weight.detach().numpy(), heads, atol=1e-9)
    stop = Mock(side_effect=KeyboardInterrupt)
    assert sc.GraphClassification(**options, callbacks=[stop]).fit(graphs, y).interrupted_ is True


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
            sc.GraphClassification(max_iter=1, features="given").fit(*rings_and_stars(8))


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
    model = sc.GraphClassification("topk", max_iter=3, k=(4, 2))
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pool": "maxpool"}, "pool must be one of mincut"),
        ({"features": "all"}, "features must be one of auto"),
        *(({"n_init": bad}, "n_init must be a whole number") for bad in (0, 1.5)),
        *(({"validation": bad}, "validation must be above 0") for bad in (0.0, 0.6)),
        ({"max_iter": 0}, "max_iter must be positive"),
        ({"device": "abacus"}, "device 'abacus' cannot be used"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_arguments_are_one_sentence(options: dict[str, object], message: str) -> None:
    graphs, y = rings_and_stars(8)
    assert message in sentence_of(ParameterError, sc.GraphClassification(**options).fit, graphs, y)


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
        match=r"again.safetensors is a classifier of graphs, not a clustering.*softcut classify",
    ):
        sc.GraphClustering.load(fitted.save(f"{tmp_path}/again"))


def test_unseen_degrees_are_the_largest_known(fitted: sc.GraphClassification) -> None:
    star = Graph.from_edges([np.zeros(60, int), np.arange(1, 61)])
    assert fitted.predict([star]).tolist() == ["star"]
    assert from_graphs([star]).degree.max() > fitted._structure.max_degree


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
