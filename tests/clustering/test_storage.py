"""Saved models: everything comes back, and every field is checked before it is used."""

import copy
import json
import math
from dataclasses import asdict

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers.fuzzed_files import damaged

import softcut as sc
from softcut.clustering import Recipe, estimator
from softcut.clustering.storage import pack
from softcut.datasets import attributed_communities
from softcut.errors import GraphError, ModelFileError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore:.*explain less", "ignore:restarts hardly agree")
GRAPH = attributed_communities(n_nodes=60, n_clusters=2, n_features=30, edge_signal=0.9, seed=0)
NAMED = sc.Graph.from_scipy(GRAPH.adjacency, node_names=[f"n{i}" for i in range(60)])
INSIDE = np.kron(np.full((3, 3), 0.01) + 0.14 * np.eye(3), np.ones((3, 3))) + 0.75 * np.eye(9)
MEASURED = NAMED.with_features(np.random.default_rng(0).normal(size=(60, 4)), ["a", "b", "c", "d"])
# Three blocks of three cliques, an isolated node last.
BLOCKS = sc.Graph.from_networkx(nx.stochastic_block_model([10] * 9, INSIDE.tolist(), seed=0))
BLOCKS = sc.Graph.from_scipy(
    sp.csr_array(sp.block_diag([BLOCKS.adjacency, [[0]]])), node_names=[f"n{i}" for i in range(91)]
)
CENTRES = 4.0 * np.array([[0, 0, 0], [0, 0, 1], [3, 0, 0], [3, 0, 1], [0, 3, 0], [0, 3, 1]])
POINTS = np.repeat(CENTRES, 20, axis=0) + 0.5 * np.random.default_rng(0).normal(size=(120, 3))
ROWS = sc.Graph.from_features(POINTS, n_neighbors=6)
WORDS = attributed_communities(240, 8, n_features=60, edge_signal=0.95, feature_signal=0.7, seed=0)
KINDS = {
    "default": ({"n_clusters": 3}, GRAPH),
    "auto": ({"n_clusters": [2, 3]}, GRAPH),
    "best": ({"n_clusters": 3, "recipe": Recipe(select="best", networks=2)}, GRAPH),
    "measured": ({"n_clusters": 3, "batch_size": 20}, MEASURED),
    "several": ({"n_clusters": 3}, [GRAPH, GRAPH]),
    "structural": ({"n_clusters": 2}, [GRAPH.with_features(None)] * 2),
    "placed": ({"n_clusters": 3}, NAMED),
    "paper": ({"n_clusters": 3, "class": sc.MinCutClustering}, GRAPH),
    "levels": ({"min_size": 2}, BLOCKS),
    "resolution": ({"scale": 1.5}, BLOCKS),
    "nearest": ({}, ROWS),
    "learned levels": ({"recipe": Recipe(auto=(2, 4, 8, 12), networks=3, iterations=4)}, WORDS),
}
LEVELS = ["levels", "nearest", "learned levels"]
MADE = {}


def packed(kind):
    """A fitted estimator, its data, and what a file of it holds."""
    if kind not in MADE:
        options, data = dict(KINDS[kind][0]), KINDS[kind][1]
        made = options.pop("class", sc.GraphClustering)(**{"n_init": 3, "max_iter": 4, **options}).fit(data)
        MADE[kind] = made, data, pack(made)
    made, data, (tensors, meta) = MADE[kind]
    return made, data, dict(tensors), copy.deepcopy(meta)


@pytest.fixture
def load(monkeypatch):
    """Load from tensors and JSON that were never on disk."""

    def loaded(tensors, meta, cls=sc.GraphClustering):
        monkeypatch.setattr(estimator, "read_model", lambda path: (dict(tensors), copy.deepcopy(meta)))
        return cls.load("model")

    return loaded


# ---------------------------------------------------------------------------------------- everything comes back


@pytest.mark.parametrize("kind", KINDS)
def test_everything_comes_back(kind, tmp_path):
    est, data, _, _ = packed(kind)
    path = est.save(tmp_path / "model")
    assert path == tmp_path / "model.safetensors"
    again = sc.GraphClustering.load(path)
    assert type(again) is type(est)
    for name, value in vars(est).items():
        if name.endswith("_"):
            np.testing.assert_equal(getattr(again, name), value, name)
    assert [(type(note), note.code) for note in again.notes_] == [(type(n), n.code) for n in est.notes_]
    for name, value in est.get_params().items():
        assert name in ("recipe", "callbacks") or getattr(again, name) == value
    assert [len(part) for part in again.graph_labels_] == [len(part) for part in est.graph_labels_]
    assert hasattr(again, "feature_names_in_") == (kind == "measured")
    assert again._task_recipe() == est._task_recipe(), "a loaded estimator is fitted again by the same recipe"
    np.testing.assert_allclose(again.fit(data).soft_, est.soft_, atol=1e-6)


def test_the_class_of_a_model(tmp_path, load):
    paper, default = packed("paper")[0].save(tmp_path / "p"), packed("default")[0].save(tmp_path / "d")
    assert type(sc.GraphClustering.load(paper)) is sc.MinCutClustering
    assert type(sc.MinCutClustering.load(paper)) is sc.MinCutClustering
    with pytest.raises(ModelFileError, match="the model is a GraphClustering, not a MinCutClustering"):
        sc.MinCutClustering.load(default)
    _, _, tensors, meta = packed("default")
    for name, said in (("GraphClassifier", "GraphClassifier"), (None, "None"), (["x"], r"\['x'\]")):
        with pytest.raises(ModelFileError, match=f"the model is a {said}, not a GraphClustering"):
            load(tensors, {**meta, "class": name})
    with pytest.raises(ModelFileError, match="unexpected keyword argument"):
        load(tensors, {**meta, "class": "MinCutClustering"})


def test_parameters_as_json_knows_them(load):
    est, _, _, _ = packed("default")
    for name, given, kept in (
        ("n_clusters", np.int64(3), 3),
        ("n_clusters", range(2, 4), [2, 3]),
        ("n_clusters", (2, 3), [2, 3]),
        ("n_clusters", "auto", "auto"),
        ("learning_rate", np.float32(0.5), 0.5),
        ("random_state", np.random.RandomState(0), None),
        ("random_state", np.random.default_rng(0), None),
        ("device", torch.device("cpu"), "cpu"),
    ):
        changed = copy.copy(est).set_params(**{name: given})
        tensors, meta = pack(changed)
        assert json.loads(json.dumps(meta))["params"][name] == kept
        assert getattr(load(tensors, meta), name) == kept
    assert "callbacks" not in meta["params"] and "recipe" not in meta["params"]
    assert meta["recipe"] == asdict(changed._task_recipe())
    undecided = copy.copy(est)
    undecided.agreement_ = math.nan
    tensors, meta = pack(undecided)
    assert meta["fitted"]["agreement_"] is None
    assert math.isnan(load(tensors, meta).agreement_)
    hops = [0, 1, 2, 4, 8, 1000]  # the largest values
    _, _, tensors, meta = packed("default")
    meta["model"]["encoder"]["hops"], meta["recipe"]["distances"], meta["recipe"]["steps"] = hops, hops, 1000
    assert load(tensors, meta)._model.encoder.recipe.distances[-1] == 1000


@pytest.mark.parametrize("device", ["cuda:99", "meta", "hpu", "abacus"])
def test_a_model_of_a_device_that_is_not_here(device, load):
    est, data, tensors, meta = packed("default")
    meta["params"]["device"] = device
    again = load(tensors, meta)
    assert again.device == "auto"
    said = f"the model was fitted on '{device}', which this machine does not have: device='auto' is used."
    assert again.notes_[-1] == said and again.notes_[-1].code == "device_not_here"
    np.testing.assert_array_equal(again.predict(data), est.labels_)


# ------------------------------------------------------------------------------------------- files, as bytes


def test_sixty_damaged_files(tmp_path):
    """Bytes changed, cut off or doubled: a ModelFileError, or the same model."""
    est = packed("default")[0]
    rng, whole, refused = np.random.default_rng(0), est.save(tmp_path / "good").read_bytes(), 0
    for _ in range(60):
        (tmp_path / "bad.safetensors").write_bytes(damaged(whole, rng))
        try:
            again = sc.GraphClustering.load(tmp_path / "bad")
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(again.labels_, est.labels_)
    assert refused >= 57


def test_loading_never_unpickles(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("unpickled")

    path = packed("default")[0].save(tmp_path / "m")
    for name in ("pickle.load", "pickle.loads", "torch.load"):
        monkeypatch.setattr(name, refuse)
    sc.GraphClustering.load(path)


# ------------------------------------------------------------------------------------------ fields, one by one


def paths(value, path=()):
    if path:
        yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from paths(child, (*path, key))


def changed(meta, path, value):
    meta = copy.deepcopy(meta)
    place = meta
    for key in path[:-1]:
        place = place[key]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return meta


def refusal(load, tensors, meta):
    """The sentence of the error; None where the model was accepted."""
    try:
        load(tensors, meta)
    except ModelFileError as error:
        return str(error)
    return None


# Fields that may be null or left out of a list, and that no check can tell from a right value.
NULLABLE = {
    *("objective", "n_init", "max_iter", "learning_rate", "batch_size", "random_state", "tolerance"),
    *("agreement_", "feature_names_in_", "graph_sizes", "names", "callbacks"),
    *("scale", "min_size", "max_size", "use", "scale_given"),
}


@pytest.mark.parametrize("kind", ["auto", "measured", "several", "placed", "paper", "resolution", "nearest"])
def test_every_field_that_is_missing_or_of_another_type_is_refused(kind, load):
    _, _, tensors, meta = packed(kind)
    load(tensors, meta)
    tried = 0
    for path in paths(meta):
        value, name = meta, path[-1]
        for key in path:
            value = value[key]
        wrong = [{"x": 1}] if not isinstance(value, str) or name == "n_clusters" else [{"x": 1}, 5, [5]]
        if isinstance(name, str):
            wrong.append(...)
        if name not in NULLABLE and "n_clusters" not in path:
            wrong.append(None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            wrong.append("5")
        if isinstance(value, bool) and name != "verbose":
            wrong += ["yes", 1]
        if isinstance(value, list | dict) and value and name not in ("notes_", "candidates_", "n_clusters"):
            wrong += ["x", 7]
            if name != "graph_sizes":
                wrong.append([])
        for each in wrong:
            if each is None and value is None:
                continue
            tried += 1
            said = refusal(load, tensors, changed(meta, path, each))
            assert said and "\n" not in said, f"{path} = {each!r}"
    assert tried > 250


def test_a_model_with_the_recipe_of_another_version_is_refused_in_one_sentence(load):
    _, _, tensors, meta = packed("default")
    meta["recipe"] |= {"width": 0.2, "vote_width": 0.05}
    del meta["recipe"]["levels"]
    said = "the model was saved by another version, whose recipe differs in levels, vote_width; fit it again."
    with pytest.raises(ModelFileError, match=said):
        load(tensors, meta)


# Values of the right type that do not fit the others, and what the sentence names where it is not the field itself.
WRONG = {
    ("default", "params.n_init"): [0],
    ("default", "params.batch_size"): [5],
    ("default", "params.extra"): [1],
    ("default", "recipe.width"): [0.0],
    ("default", "recipe.distances", "distances|centre"): [[2, 1], [0, 1, 2, 4, 8, 1001], [0, 1, 2]],
    ("default", "recipe.steps"): [1001],
    ("default", "recipe.many_columns", "directions"): [1000],
    ("default", "fitted.n_iter_", "history"): [0, 5],
    ("default", "fitted.n_clusters_"): [0, 2, 10_001],
    ("default", "fitted.n_features_in_"): [29],
    ("default", "fitted.verdict_"): ["certain", "none"],
    ("levels", "fitted.verdict_"): ["none", "weak", "unknown"],
    ("levels", "fitted.surplus_", "verdict_|surplus_"): [0.0, -1.0, math.nan],
    ("nearest", "fitted.deviations_", "verdict_|deviations_"): [0.0, -math.inf],
    ("default", "fitted.notes_"): [[["Note", "code", 5]]],
    ("default", "kind"): ["guessed"],
    ("default", "kind", "deviations_"): ["placed", "nearest"],
    ("placed", "kind", "deviations_|rows"): ["learned", "nearest"],
    ("default", "model.net.k"): [4],
    ("default", "model.net.hidden"): [-1, 10**12],
    ("default", "model.net.terms"): [2],
    ("default", "model.net.scales"): [[2, 3, 6], [3, 2, 4], [-1, 3, 4], []],
    ("default", "model.encoder.hops"): [[0, 1, 2, 4, 8, 15], list(range(65))],
    ("default", "model.encoder.in_channels"): [0],
    ("default", "model.encoder.words"): [False, None],
    ("paper", "model.encoder.words"): [True],
    ("paper", "model.net.in_channels"): [29, 31],
    ("default", "model.order"): [[0, 1, 1], [0, 1], [0, 1, 3], [0, 1, 2, 2]],
    ("default", "model.consensus"): [False],
    ("default", "model.refiner"): [False],
    ("best", "model.consensus", "mean"): [True],
    ("default", "model.silence"): ["loud"],
    ("placed", "model.names"): [["n0"], [1] * 60],
    ("placed", "model.extra", "model"): [1],
    ("default", "replicas_", "history"): [[]],
    ("placed", "replicas_", "seed|objective"): [[{"seed": 1}]],
    ("auto", "candidates_", "incomplete"): [[[2, 1]], [[2]], [[0, {}]]],
    ("measured", "named"): [False, 1],
    ("several", "graph_sizes"): [[0, 119, 119, 120], [1, 60, 120], [0, 60, 119], [0, 60, 121], []],
    ("levels", "fitted.level_", "level_|levels|above"): [0, -1, 99],
    ("paper", "fitted.level_"): [1],
    ("levels", "fitted.deviations_"): [None, math.nan],
    ("levels", "fitted.surplus_"): [None],
    ("default", "fitted.deviations_"): [5.0],
    ("default", "fitted.surplus_"): [0.5],
    ("resolution", "scale_given"): [-1, 10**6, 1.5, True],
    ("default", "scale_given"): [0],
    ("levels", "model.level", "level|above"): [0, 99, -1, 2.5],
    ("nearest", "model.level", "level|above"): [99, -1],
    ("nearest", "model.neighbors"): [0, -1, 2.5],
    ("default", "model.root"): ["no", 1],
    ("measured", "feature_names_in_"): [["a", "b", "c"], ["a", "b", "c", 4], "abcd"],
}


@pytest.mark.parametrize("case", WRONG, ids=lambda case: " ".join(case))
def test_values_that_cannot_be_right(case, load):
    kind, path, *named = case
    _, _, tensors, meta = packed(kind)
    for value in WRONG[case]:
        with pytest.raises(ModelFileError, match=named[0] if named else path.split(".")[-1]):
            load(tensors, changed(meta, path.split("."), value))


@pytest.mark.parametrize(
    "kind", ["default", "best", "measured", "structural", "placed", "paper", "resolution", *LEVELS]
)
def test_every_tensor_has_one_shape_and_finite_numbers(kind, load):
    est, _, tensors, meta = packed(kind)
    for name, tensor in tensors.items():
        wrong = {
            "longer": torch.cat([tensor, tensor]) if tensor.dim() else torch.zeros(1),
            "one dimension more": tensor.unsqueeze(-1),
            "another type": tensor.long() if tensor.is_floating_point() else tensor.float(),
            "half precision": tensor.half(),
            "another precision": tensor.float() if tensor.dtype == torch.float64 else tensor.double(),
        }
        if tensor.is_floating_point() and tensor.numel():
            wrong["not finite"] = tensor * math.nan
        if not est.replicas_ and name == "weights":  # there are no networks to weigh
            wrong.pop("longer")
        for what, value in wrong.items():
            if value.shape != tensor.shape or value.dtype != tensor.dtype or what == "not finite":
                assert refusal(load, {**tensors, name: value}, meta), f"{name}, {what}"
        # Words have weights only where they are binary: without them they are other words.
        if name != "encoder.weight" or not meta["model"]["encoder"]["words"]:
            assert refusal(load, {key: value for key, value in tensors.items() if key != name}, meta), name
    with pytest.raises(ModelFileError, match="tensor extra is not known"):
        load({**tensors, "extra": torch.zeros(1)}, meta)


def test_labels_and_soft_clusters_belong_together(load):
    _, _, tensors, meta = packed("default")
    soft, labels = tensors["soft"], tensors["labels"]
    negative = soft - torch.tensor([0.5, 0, -0.5]) * (soft[:, :1] < 0.5)
    for name, value in (("labels", (labels + 1) % 3), ("soft", soft * 1.01), ("soft", negative)):
        with pytest.raises(ModelFileError, match=f"{name} does not fit the rest"):
            load({**tensors, name: value}, meta)


def spoiled(tensor, place, value):
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("levels", lambda t: t.flip(0)),
        ("levels", lambda t: t[:1].expand(200, -1).contiguous()),
        ("levels", lambda t: spoiled(t, (0, 0), 10**12)),
        ("levels", lambda t: spoiled(t, (0, 0), -2)),
        ("levels", lambda t: spoiled(t, (0, 0), -1)),
        ("levels", lambda t: spoiled(t, (-1, 0), int(t[-1].max()))),
        ("levels", lambda t: spoiled(t, (-1, 0), int(t[-1].max()) + 1)),
        ("levels", lambda t: spoiled(t, (0, 0), 1 - int(t[0, 0]))),
        ("marks", lambda t: -t),
        ("inside", lambda t: t + 1.1),
        ("inside", lambda t: t - 1.1),
        ("above", lambda t: t.flip(1)),
        ("above", lambda t: spoiled(t, (0, 0), 10**12)),
        ("above", lambda t: spoiled(t, (-1, 0), -1)),
        ("above", lambda t: t[:-1]),
        ("above", lambda t: t[:, :-1]),
    ],
)
@pytest.mark.parametrize("kind", LEVELS)
def test_levels_that_do_not_fit_are_refused(kind, name, wrong, load):
    _, _, tensors, meta = packed(kind)
    assert len(tensors["levels"]) > 1
    said = refusal(load, {**tensors, name: wrong(tensors[name]).contiguous()}, meta)
    assert said and "\n" not in said and "is damaged" in said


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("finest.data", lambda t: -t),
        ("finest.data", lambda t: t * 0),
        ("finest.data", lambda t: t.flip(0)),
        ("finest.data", lambda t: t * 2),
        ("finest.indices", lambda t: t + 10**6),
        ("finest.indices", lambda t: t - 1),
        ("finest.indices", lambda t: t.flip(0)),
        ("finest.indptr", lambda t: t.flip(0)),
        ("finest.indptr", lambda t: t + 1),
        ("finest.indptr", lambda t: t[:-1]),
        ("finest.indptr", lambda t: spoiled(t, 1, 10**12)),
        ("finest.indptr", lambda t: spoiled(t, -1, 10**12)),
        ("scales.resolution", lambda t: -t),
        ("scales.resolution", lambda t: t.flip(0)),
        ("scales.resolution", lambda t: t[:-1]),
        ("scales.number", lambda t: t * 0),
        ("scales.agreement", lambda t: t + 2),
    ],
)
@pytest.mark.parametrize("kind", ["levels", "nearest"])
def test_clusters_of_nodes_and_scales_that_cannot_be_are_refused(kind, name, wrong, load):
    est, _, tensors, meta = packed(kind)
    if (
        name == "finest.data" and wrong(torch.ones(1)) == 2
    ):  # rows may sum to anything: shares are what counts
        np.testing.assert_allclose(
            load({**tensors, name: wrong(tensors[name])}, meta).soft_, est.soft_, atol=1e-6
        )
        return
    said = refusal(load, {**tensors, name: wrong(tensors[name]).contiguous()}, meta)
    assert said and "\n" not in said and "is damaged" in said


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rows", lambda t: t * 1e6),
        ("rows", lambda t: t[:, :-1]),
        ("rows", lambda t: t[:-1]),
        ("centre", lambda t: t[:-1]),
        ("factor", lambda t: -t),
    ],
)
def test_rows_that_cannot_be_are_refused(name, wrong, load):
    _, _, tensors, meta = packed("nearest")
    assert refusal(load, {**tensors, name: wrong(tensors[name]).contiguous()}, meta)


@pytest.mark.parametrize("kind", ["levels", "resolution", "nearest"])
def test_sixty_damaged_files_of_levels(kind, tmp_path):
    """Bytes changed, cut off or doubled: a ModelFileError, or the same model."""
    est = packed(kind)[0]
    rng, whole = np.random.default_rng(1), est.save(tmp_path / "good").read_bytes()
    for _ in range(60):
        (tmp_path / "bad.safetensors").write_bytes(damaged(whole, rng))
        try:
            again = sc.GraphClustering.load(tmp_path / "bad")
        except ModelFileError:
            continue
        np.testing.assert_array_equal(again.labels_, est.labels_)


@pytest.mark.parametrize("kind", LEVELS)
def test_every_level_comes_back(kind, tmp_path):
    est, data, _, _ = packed(kind)
    again = sc.GraphClustering.load(est.save(tmp_path / "m"))
    assert again.tree_ == est.tree_ and again.scales_ == est.scales_ and again.level_ == est.level_
    assert (again.scales_ is None) == (kind == "learned levels")
    count = len(est.levels_.labels)
    assert count > 1
    for level in range(count):
        labels = est.labels_at(level)
        np.testing.assert_array_equal(again.labels_at(level), labels)
        np.testing.assert_array_equal(again.labels_at(level - count), labels)
        if kind != "learned levels" or level <= est.level_:
            for model in (est, again):
                np.testing.assert_array_equal(model.predict(data, level=level), labels)
                soft = model.predict_proba(data, level=level)
                np.testing.assert_allclose(soft.sum(1), 1, atol=1e-5)
                assert soft.shape[1] == labels.max() + 1
        else:
            with pytest.raises(ParameterError, match=f"level {level} is finer than the one that was learned"):
                again.predict(data, level=level)
    for wrong in (count, -count - 1, 1.0, True, "fine"):
        with pytest.raises(
            ParameterError, match=rf"level must be a whole number from 0 .coarse. to {count - 1}"
        ):
            again.labels_at(wrong)


def test_new_rows_get_the_clusters_of_their_nearest_rows(tmp_path):
    est, _, _, _ = packed("nearest")
    again = sc.GraphClustering.load(est.save(tmp_path / "m"))
    moved = POINTS[::3] + 1e-3
    for model in (est, again):
        np.testing.assert_array_equal(
            model.predict(sc.Graph.from_features(moved, n_neighbors=5)), est.labels_[::3]
        )
        with pytest.raises(GraphError, match="the graph has 2 features but the model was fitted with 3"):
            model.predict(sc.Graph.from_features(moved[:, :2], n_neighbors=5))
        with pytest.raises(GraphError, match="graph has no features but the model was fitted with some"):
            model.predict(NAMED)


def test_names_of_nodes_that_cannot_be_right(load):
    _, _, tensors, meta = packed("measured")
    for names in ('["n0"]', str(["n0"] * 60), "{}", str([1] * 60)):
        told = torch.frombuffer(bytearray(names.encode()), dtype=torch.uint8)
        assert refusal(load, {**tensors, "node_names": told}, meta), names
