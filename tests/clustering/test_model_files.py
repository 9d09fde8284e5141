"""Saved models: both halves belong together, every field is checked before it is used, nothing is lost."""

from __future__ import annotations

import json
import shutil
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import softcut as sc
from softcut.datasets import attributed_communities
from softcut.errors import ModelFileError
from softcut.io import read_model, write_model


@pytest.fixture(scope="module")
def graph():
    return attributed_communities(n_nodes=90, n_clusters=3, n_features=30, seed=0)


@pytest.fixture(scope="module")
def fitted(graph):
    return sc.MinCutClustering([2, 3], n_init=3, max_iter=20).fit(graph)


@pytest.fixture
def saved(fitted, tmp_path):
    return fitted.save(tmp_path / "model")


def rewrite(path, change=None, tensors=None):
    """Save again with a changed JSON part or changed tensors, and matching digests."""
    old_tensors, meta = read_model(path)
    meta = {k: v for k, v in meta.items() if k not in ("format", "version", "tensors_sha256")}
    if change is not None:
        change(meta)
    write_model(path, old_tensors if tensors is None else {**old_tensors, **tensors}, meta)


def test_everything_comes_back(fitted, saved, graph):
    again = sc.MinCutClustering.load(saved)
    for name in (
        "n_clusters_",
        "n_features_in_",
        "n_iter_",
        "agreement_",
        "converged_",
        "interrupted_",
        "notes_",
    ):
        assert getattr(again, name) == getattr(fitted, name), name
    assert again.candidates_ == fitted.candidates_
    assert again.replicas_ == fitted.replicas_
    for name in ("labels_", "soft_", "weights_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(fitted, name))
    for name in ("cut", "ortho"):
        np.testing.assert_array_equal(again.history_[name], fitted.history_[name])
    assert again.n_clusters == [2, 3]
    np.testing.assert_array_equal(again.predict(graph), fitted.labels_)


def test_graph_sizes_come_back(graph, tmp_path):
    est = sc.MinCutClustering(2, n_init=2, max_iter=5).fit([graph, graph.subgraph(range(40))])
    again = sc.MinCutClustering.load(est.save(tmp_path / "m"))
    assert [len(part) for part in again.graph_labels_] == [90, 40]


def test_numpy_numbers_can_be_saved(graph, tmp_path):
    est = sc.MinCutClustering(np.int64(2), n_init=np.int32(2), max_iter=5, fusion=np.float32(0.5)).fit(graph)
    again = sc.MinCutClustering.load(est.save(tmp_path / "m"))
    assert again.n_clusters == 2
    assert type(again.n_clusters) is int


def test_halves_of_two_models_are_refused(graph, saved, tmp_path):
    other = sc.MinCutClustering(2, n_init=2, max_iter=5).fit(graph).save(tmp_path / "other")
    shutil.copy(f"{other}.safetensors", f"{saved}.safetensors")
    with pytest.raises(ModelFileError, match=r"model\.safetensors is not the file that was saved with"):
        sc.MinCutClustering.load(saved)


def test_a_changed_json_is_refused(saved):
    path = saved.with_name("model.json")
    meta = json.loads(path.read_text())
    meta["model"]["temperature"] = 2.0
    path.write_text(json.dumps(meta))
    with pytest.raises(ModelFileError, match=r"model\.json is not the file that was saved with"):
        sc.MinCutClustering.load(saved)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda m: m["model"].update(temperature=0), "temperature"),
        (lambda m: m["model"].update(temperature="warm"), "temperature"),
        (lambda m: m["model"]["encoder"].update(hops=[10**9]), "hops"),
        (lambda m: m["model"]["encoder"].update(hops=[2, 1]), "scales"),
        (lambda m: m["model"]["encoder"].update(in_channels=10**12), "in_channels"),
        (lambda m: m["model"]["net"].update(k=10**9), "k is 1000000000"),
        (lambda m: m["model"]["net"].update(hidden=10**9), "hidden"),
        (lambda m: m["model"]["net"].update(scales=[0] * 5), "tensor"),
        (lambda m: m["model"]["net"].update(scales=[99, 100]), "scales"),
        (lambda m: m["model"].update(order=[0, 0, 1]), "order"),
        (lambda m: m["model"].update(signature="x"), "signature"),
        (lambda m: m["model"].update(silence="loud"), "silence"),
        (lambda m: m["model"].pop("net"), "net"),
        (lambda m: m["fitted"].update(n_iter_=-1), "n_iter_"),
        (lambda m: m["fitted"].update(n_clusters_="3"), "n_clusters_"),
        (lambda m: m["params"].update(evil=1), "params"),
        (lambda m: m["params"].update(hops={}), "params.hops"),
        (lambda m: m.update(replicas_=[]), "replicas_"),
        (lambda m: m.update(candidates_=[[2]]), "candidates_"),
        (lambda m: m.update(graph_sizes=[0, 5]), "graph_sizes"),
        (lambda m: m.update(feature_names_in_=["a"]), "feature_names_in_"),
    ],
)
def test_wrong_fields_are_one_sentence(saved, change, word):
    rewrite(saved, change)
    with pytest.raises(ModelFileError, match=word) as caught:
        sc.MinCutClustering.load(saved)
    assert "\n" not in str(caught.value)


def test_wrong_tensors_are_one_sentence(saved):
    bias = load_file(f"{saved}.safetensors")["net.bias"]
    for value in (bias * float("nan"), bias[:, :1], bias.long()):
        rewrite(saved, tensors={"net.bias": value.contiguous()})
        with pytest.raises(ModelFileError, match=r"tensor net\.bias"):
            sc.MinCutClustering.load(saved)
    rewrite(saved, tensors={"net.bias": bias, "extra": bias})
    with pytest.raises(ModelFileError, match="tensor extra is not known"):
        sc.MinCutClustering.load(saved)


def test_deep_json_is_one_sentence(saved):
    saved.with_name("model.json").write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ModelFileError):
        sc.MinCutClustering.load(saved)


def test_a_device_that_is_not_here(fitted, graph, tmp_path):
    path = fitted.save(tmp_path / "m")
    rewrite(path, lambda m: m["params"].update(device="cuda:63"))
    again = sc.MinCutClustering.load(path)
    assert again.device == "auto"
    assert any("cuda:63" in note for note in again.notes_)
    np.testing.assert_array_equal(again.predict(graph), fitted.labels_)


def test_a_hundred_mutated_files(fitted, tmp_path):
    """Bytes changed, cut off or doubled in either file: a ModelFileError in a moment, or the same model."""
    rng = np.random.default_rng(0)
    good = fitted.save(tmp_path / "good")
    refused = 0
    for number in range(100):
        path = tmp_path / f"m{number}"
        parts = {
            ending: bytearray(good.with_name(f"good{ending}").read_bytes())
            for ending in (".json", ".safetensors")
        }
        data = parts[(".json", ".safetensors")[number % 2]]
        kind = number // 2 % 4
        if kind == 0:
            for _ in range(int(rng.integers(1, 6))):
                data[int(rng.integers(len(data)))] = int(rng.integers(256))
        elif kind == 1:
            del data[int(rng.integers(len(data))) :]
        elif kind == 2:
            start = int(rng.integers(len(data)))
            del data[start : start + int(rng.integers(1, 50))]
        else:
            at = int(rng.integers(len(data)))
            data[at:at] = data[: int(rng.integers(1, 200))]
        for ending, content in parts.items():
            path.with_name(path.name + ending).write_bytes(bytes(content))
        before = {p.name for p in tmp_path.iterdir()}
        began = time.perf_counter()
        try:
            again = sc.MinCutClustering.load(path)
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(again.labels_, fitted.labels_)
        assert time.perf_counter() - began < 10
        assert {p.name for p in tmp_path.iterdir()} == before
    assert refused >= 95


def test_loading_never_unpickles(saved, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("unpickled")

    monkeypatch.setattr("pickle.load", refuse)
    monkeypatch.setattr("pickle.loads", refuse)
    monkeypatch.setattr(torch, "load", refuse)
    sc.MinCutClustering.load(saved)
