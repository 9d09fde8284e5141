"""A model as tensors and JSON: everything comes back, and each field has its bounds."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

import softcut as sc
from softcut.clustering.storage import pack, unpack
from softcut.datasets import attributed_communities
from softcut.errors import ModelFileError


def fitted(kind: str) -> sc.MinCutClustering:
    graph = attributed_communities(n_nodes=60, n_clusters=2, n_features=30, seed=0)
    options = {"n_clusters": 3, "n_init": 3, "max_iter": 4}
    if kind == "paper":
        options |= {"preset": "paper", "hidden": 4}
    if kind == "best":
        options |= {"select": "best"}
    if kind == "auto":
        options |= {"n_clusters": [2, 3]}
    data = {"several": [graph, graph], "structural": graph.with_features(None)}.get(kind, graph)
    if kind == "measured":
        data = graph.with_features(np.random.default_rng(0).normal(size=(60, 4)), ["a", "b", "c", "d"])
    return sc.MinCutClustering(**options).fit(data)


@pytest.fixture(scope="module")
def packed():
    made = {}

    def of(kind: str):
        if kind not in made:
            est = fitted(kind)
            made[kind] = est, pack(est, est._model, est._graph_sizes)
        est, (tensors, meta) = made[kind]
        return est, dict(tensors), copy.deepcopy(meta)

    return of


@pytest.mark.parametrize("kind", ["default", "paper", "best", "auto", "several", "structural", "measured"])
def test_everything_comes_back(packed, kind):
    est, tensors, meta = packed(kind)
    again = unpack(sc.MinCutClustering, tensors, meta)
    assert again.get_params() == est.get_params()
    for name in (
        "n_clusters_",
        "n_features_in_",
        "n_iter_",
        "converged_",
        "interrupted_",
        "fit_seconds_",
        "notes_",
    ):
        assert getattr(again, name) == getattr(est, name), name
    for name in ("labels_", "soft_", "weights_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(est, name))
    for name in ("cut", "ortho"):
        np.testing.assert_array_equal(again.history_[name], est.history_[name])
    assert again.agreement_ == est.agreement_
    assert again.candidates_ == est.candidates_
    assert again.replicas_ == est.replicas_
    assert [len(part) for part in again.graph_labels_] == [len(part) for part in est.graph_labels_]
    assert [len(part) for part in again.graph_labels_] == ([60, 60] if kind == "several" else [60])
    assert hasattr(again, "feature_names_in_") == hasattr(est, "feature_names_in_") == (kind == "measured")
    assert again._model.meta() == est._model.meta()
    assert set(again._model.tensors()) == set(est._model.tensors())
    if kind == "auto":
        assert set(again.candidates_) == {2, 3}


def at(meta, path):
    *parents, last = path.split(".")
    for name in parents:
        meta = meta[name]
    return meta, last


@pytest.mark.parametrize(
    ("kind", "path", "value", "words"),
    [
        ("default", "params.n_init", {"a": 1}, "params.n_init has a value of the wrong kind"),
        ("default", "params.extra", 1, "params names"),
        ("default", "fitted.n_iter_", 0, "n_iter_ is 0"),
        ("default", "fitted.n_iter_", True, "n_iter_ is True"),
        ("default", "fitted.n_iter_", 5, "has shape"),
        ("default", "fitted.n_clusters_", 2, "fitted does not fit"),
        ("default", "fitted.n_features_in_", 29, "fitted does not fit"),
        ("default", "fitted.converged_", 1, "converged_ is 1"),
        ("default", "fitted.notes_", "none", "notes_ is 'none'"),
        ("default", "model.net.k", 0, "k is 0"),
        ("default", "model.net.k", 10_001, "k is 10001"),
        ("default", "model.net.k", True, "k is True"),
        ("default", "model.net.hidden", -1, "hidden is -1"),
        ("default", "model.net.hidden", 10_001, "hidden is 10001"),
        ("default", "model.net.terms", 0, "terms is 0"),
        ("default", "model.net.terms", 2, "terms do not fit the kind of encoder"),
        ("default", "model.net.terms", 3, "terms is 3"),
        ("default", "model.net.in_channels", -1, "in_channels is -1"),
        ("default", "model.net.more", 1, "net has fields that are not known"),
        ("default", "model.net.scales", [], "scales is not a list"),
        ("default", "model.net.scales", [2, 3, 6], "scales do not fit the hops"),
        ("default", "model.net.scales", [3, 2, 4], "scales do not fit the hops"),
        ("default", "model.net.scales", [2, 3, 65], "scales is 65"),
        ("default", "model.net.scales", [-1, 3, 4], "scales is -1"),
        ("default", "model.encoder.hops", [0, 1, 2, 4, 8, 1001], "hops is 1001"),
        ("default", "model.encoder.hops", [0, 1, 1, 4, 8, 16], "scales do not fit the hops"),
        ("default", "model.encoder.hops", [0, 1, 4, 2, 8, 16], "scales do not fit the hops"),
        ("default", "model.encoder.hops", list(range(65)), "hops is not a list"),
        ("default", "model.encoder.in_channels", 0, "in_channels is 0"),
        ("default", "model.encoder.paper", None, "paper is not true or false"),
        ("default", "model.encoder.structural", 0, "structural is not true or false"),
        ("default", "model.encoder.directions", 1, "directions is not true or false"),
        ("default", "model.encoder.words", None, "words is not true or false"),
        ("paper", "model.encoder.words", True, "words does not fit the paper's encoder"),
        ("paper", "model.net.in_channels", 29, "terms do not fit the kind of encoder"),
        ("paper", "model.net.in_channels", 31, "terms do not fit the kind of encoder"),
        ("paper", "model.net.terms", 1, "terms do not fit the kind of encoder"),
        ("default", "model.temperature", 0, "temperature is 0, not a positive number"),
        ("default", "model.temperature", -1.0, "temperature is -1.0"),
        ("default", "model.temperature", math.inf, "temperature is inf"),
        ("default", "model.temperature", "1", "temperature is 1"),
        ("default", "model.order", [0, 1, 1], "order does not name each of the 3 clusters once"),
        ("default", "model.order", [0, 1], "order does not name each of the 3 clusters once"),
        ("default", "model.order", [0, 1, 3], "order is 3"),
        ("default", "model.order", [0, 1, 2, 2], "order is not a list"),
        ("default", "model.signature", "abc", "signature is not a digest"),
        ("default", "model.signature", 5, "signature is not a digest"),
        ("default", "model.consensus", False, "consensus is missing for several replicas"),
        ("default", "model.refiners", 0, "refiner0.bias is not known"),
        ("default", "model.refiners", 7, "refiners is 7, not between 0 and 2"),
        ("default", "model.refiners", True, "refiners is True"),
        ("default", "model.positional", True, "positions"),
        ("default", "model.silence", "loud", "silence is loud"),
        ("default", "model.encoder", None, "encoder is missing"),
        ("default", "model", None, "model is missing"),
        ("default", "params", None, "params is missing"),
        ("default", "fitted", None, "fitted is missing"),
        ("default", "replicas_", [], "replicas_ is missing"),
        ("default", "replicas_", [{"seed": 1}], "replicas_ does not describe replicas"),
        ("default", "candidates_", {}, "candidates_ is not a list of pairs"),
        ("auto", "candidates_", [[2, 1]], "candidates_ is not a list of pairs"),
        ("several", "graph_sizes", [0, 119, 119, 120], "graph_sizes do not rise from 0 to 120"),
        ("several", "graph_sizes", [1, 60, 120], "graph_sizes do not rise from 0 to 120"),
        ("several", "graph_sizes", [0, 60, 119], "graph_sizes do not rise from 0 to 120"),
        ("several", "graph_sizes", [0, 60, 121], "graph_sizes is 121"),
        ("measured", "feature_names_in_", ["a", "b", "c"], "feature_names_in_ does not name every feature"),
        ("measured", "feature_names_in_", "abcd", "feature_names_in_ does not name every feature"),
    ],
)
def test_fields_that_cannot_be_right(packed, kind, path, value, words):
    _, tensors, meta = packed(kind)
    place, name = at(meta, path)
    if value is None and path in ("model", "params", "fitted", "model.encoder"):
        del place[name]
    else:
        place[name] = value
    with pytest.raises(ModelFileError) as caught:
        unpack(sc.MinCutClustering, tensors, meta)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "tensor", "words"),
    [
        ("labels", torch.full((60,), 3), "labels are not between 0 and 2"),
        ("labels", torch.full((60,), -1), "labels are not between 0 and 2"),
        ("labels", torch.zeros(60), "labels are torch.float32"),
        ("labels", torch.zeros(59, dtype=torch.long), "has shape"),
        ("soft", torch.zeros(60, 2), "tensor soft has shape [60, 2] instead of [60, 3]"),
        ("soft", torch.full((60, 3), math.nan), "tensor soft holds values that are not finite"),
        ("soft", torch.zeros(60, 3, dtype=torch.long), "tensor soft holds values that are not finite"),
        ("weights", torch.zeros(2), "tensor weights has shape [2] instead of [3]"),
        ("history.cut", torch.zeros(4, 2), "tensor history.cut has shape"),
        ("net.bias", torch.full((3, 16), math.inf), "tensor net.bias holds values that are not finite"),
        ("extra", torch.zeros(1), "tensor extra is not known"),
        ("refiner0.weight", None, "tensor refiner0.weight is missing"),
    ],
)
def test_tensors_that_cannot_be_right(packed, name, tensor, words):
    _, tensors, meta = packed("default")
    if tensor is None:
        del tensors[name]
    else:
        tensors[name] = tensor
    with pytest.raises(ModelFileError) as caught:
        unpack(sc.MinCutClustering, tensors, meta)
    assert words in str(caught.value)


def test_every_tensor_has_one_shape(packed):
    for kind in ("default", "paper", "best", "structural", "measured"):
        _, tensors, meta = packed(kind)
        for name, tensor in tensors.items():
            wrong = dict(tensors)
            wrong[name] = torch.cat([tensor, tensor]) if tensor.dim() else torch.zeros(1)
            if name == "positions":
                wrong[name] = torch.cat([tensor, tensor], 1)
            with pytest.raises(ModelFileError, match=r"has shape|labels"):
                unpack(sc.MinCutClustering, wrong, copy.deepcopy(meta))


def test_parameters_as_json_knows_them(packed):
    est, _, _ = packed("default")
    for given, kept in (
        (np.int64(3), 3), (range(2, 4), [2, 3]), ((2, 3), [2, 3]), (np.random.RandomState(0), None), ("auto", "auto"),
    ):  # fmt: skip
        est.n_clusters, before = given, est.n_clusters
        try:
            _, meta = pack(est, est._model, None)
        finally:
            est.n_clusters = before
        assert meta["params"]["n_clusters"] == kept
    assert "callbacks" not in meta["params"]
    est.agreement_, before = math.nan, est.agreement_
    try:
        tensors, meta = pack(est, est._model, None)
    finally:
        est.agreement_ = before
    assert meta["fitted"]["agreement_"] is None
    assert math.isnan(unpack(sc.MinCutClustering, tensors, meta).agreement_)


def test_a_model_of_a_device_that_is_not_here(packed, tmp_path):
    est, _, _ = packed("default")
    est.device, before = "cuda:99", est.device
    try:
        path = est.save(tmp_path / "m")
    finally:
        est.device = before
    again = sc.MinCutClustering.load(path)
    assert again.device == "auto"
    assert "device='cuda:99', which is not here" in again.notes_[-1]
