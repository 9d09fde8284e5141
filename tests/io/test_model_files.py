"""Model files: what is written comes back, every kind of damage is one sentence, and no other file is replaced."""

import json
import os
import sys
import time

import pytest
import torch
from helpers.refusals import refuses, sentence_of
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from softcut import files
from softcut.errors import ModelFileError
from softcut.io import model_files, read_model, write_model

TENSORS = {
    **{"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, -2]), "c": torch.tensor(True)},
    **{"half": torch.ones(3, dtype=torch.bfloat16), "empty": torch.zeros(0, 3), "none": torch.zeros(0, 0)},
}
META = {"k": 2, "name": "Zoë \ud800", "list": [1, None, True]}


@pytest.fixture
def file(tmp_path):
    return write_model(tmp_path / "model.v1", TENSORS, META)


def test_what_is_written_comes_back(tmp_path, file):
    assert file == tmp_path / "model.v1.safetensors"
    assert [p.name for p in tmp_path.iterdir()] == ["model.v1.safetensors"]
    for path in (tmp_path / "model.v1", str(file)):
        tensors, meta = read_model(path)
        assert set(tensors) == set(TENSORS)
        for name, tensor in TENSORS.items():
            assert torch.equal(tensors[name], tensor) and tensors[name].dtype == tensor.dtype
        assert {key: meta[key] for key in META} == META
        assert (meta["format"], meta["version"]) == ("softcut-model", 10)


def test_the_same_model_is_the_same_file(tmp_path, file):
    again = write_model(tmp_path / "again", dict(reversed(TENSORS.items())), META)
    assert again.read_bytes() == file.read_bytes()


def test_views_of_other_tensors_are_written_whole(tmp_path):
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    tensors, _ = read_model(write_model(tmp_path / "m", {"x": base.T, "y": base[0], "z": base}, {}))
    assert torch.equal(tensors["x"], base.detach().T)
    assert torch.equal(tensors["y"], base.detach()[0])


# ------------------------------------------------------------------------------------------------------- damage


def text_of(file):
    with safe_open(file, "pt") as opened:
        return opened.metadata()["softcut-model"]


def rewrite(file, text, tensors=None):
    save_file(load_file(file) if tensors is None else tensors, file, metadata={"softcut-model": text})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda meta: meta.update(format="other"), "is damaged"),
        (lambda meta: meta.pop("format"), "is damaged"),
        (lambda meta: meta.update(version=9), "written by another version"),
        (lambda meta: meta.update(version=11), "written by another version"),
        (lambda meta: meta.update(sha256="0" * 64), "not those that were saved together"),
        (lambda meta: meta.pop("sha256"), "not those that were saved together"),
        (lambda meta: meta.update(k=3), "not those that were saved together"),
        (lambda meta: meta.update(more=3), "not those that were saved together"),
        (lambda meta: meta.update(more=float("nan")), "is damaged"),
    ],
)
def test_a_changed_json_part(file, change, words):
    meta = json.loads(text_of(file))
    change(meta)
    rewrite(file, json.dumps(meta))
    assert words in sentence_of(ModelFileError, read_model, file)


@pytest.mark.parametrize("text", ["{oops", "[1]", "3", "", "[" * 100_000, "9" * 5000])
def test_a_json_part_that_is_none(file, text):
    rewrite(file, text)
    assert "is damaged" in sentence_of(ModelFileError, read_model, file)


@pytest.mark.parametrize(
    "change",
    [
        {"a": torch.zeros(2, 3)},
        {"a": TENSORS["a"].reshape(3, 2)},
        {"a": TENSORS["a"].view(torch.int32)},
        {"d": torch.zeros(1)},
    ],
    ids=["values", "shape", "type", "more"],
)
def test_changed_tensors(file, change):
    rewrite(file, text_of(file), {**TENSORS, **change})
    assert "not those that were saved together" in sentence_of(ModelFileError, read_model, file)


def test_what_is_no_model(tmp_path, file):
    whole = file.read_bytes()
    for data in (b"", b"nonsense", whole[:-1], whole + b"x", b"\xff" * 8 + whole[8:]):
        file.write_bytes(data)
        assert "is not a softcut model" in sentence_of(ModelFileError, read_model, file)
    assert "missing.safetensors is missing" in sentence_of(ModelFileError, read_model, tmp_path / "missing")
    assert "is one .safetensors file" in sentence_of(ModelFileError, read_model, tmp_path / "m.json")
    assert "is a folder, not a model" in sentence_of(ModelFileError, read_model, tmp_path)
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert "is not a softcut model" in sentence_of(ModelFileError, read_model, tmp_path / "pipe")


def test_a_model_is_named_by_what_it_can_be_used_for(tmp_path, file):
    said = "a clustering of nodes (" + "N" * 40 + "): use it with softcut predict or " + "N" * 40 + ".load."
    assert model_files.what_it_is({"class": "N" * 50}) == said
    for kind, command, name in (
        (model_files.CLASSIFIER, "classify", "GraphClassification"),
        (model_files.REGRESSOR, "regress", "GraphRegression"),
    ):
        said = model_files.what_it_is({"kind": kind, "class": "other"})
        assert said.endswith(f"use it with softcut {command} --model or {name}.load.")
    write_model(tmp_path / "other", {}, {})
    assert f"name {tmp_path / 'model.v1'}." in sentence_of(ModelFileError, read_model, tmp_path)


def test_the_limit_of_the_json_part(tmp_path, file, monkeypatch):
    assert model_files.MAX_JSON_BYTES == 64 * 2**20
    size = len(text_of(file))
    monkeypatch.setattr(model_files, "MAX_JSON_BYTES", size)
    read_model(write_model(tmp_path / "m", TENSORS, META))
    monkeypatch.setattr(model_files, "MAX_JSON_BYTES", size - 1)
    refuses(ModelFileError, "is larger than", read_model, file)
    refuses(ModelFileError, "would be larger than", write_model, tmp_path / "m", TENSORS, META)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}])
def test_what_json_does_not_know_cannot_be_saved(tmp_path, value):
    refuses(ModelFileError, "cannot be saved", write_model, tmp_path / "m", TENSORS, {"value": value})
    assert list(tmp_path.iterdir()) == []


# ----------------------------------------------------------------------------------------------- other files


def test_no_other_file_is_replaced(tmp_path, file):
    old = tmp_path / "old.safetensors"  # of a version that had two files
    save_file(TENSORS, old, metadata={"json_sha256": "0"})
    assert "written by another version" in sentence_of(ModelFileError, read_model, old)
    for path in (file, old):
        write_model(path, TENSORS, {})
        assert "k" not in read_model(path)[1]
    other = tmp_path / "weights.safetensors"
    for metadata in (None, {"format": "pt"}):
        save_file(TENSORS, other, metadata=metadata)
        before = other.read_bytes()
        assert "is not replaced" in sentence_of(ModelFileError, write_model, other, TENSORS, META)
        assert other.read_bytes() == before
    (tmp_path / "folder.safetensors").mkdir()
    assert "is not replaced" in sentence_of(ModelFileError, write_model, tmp_path / "folder", TENSORS, META)
    for name in ("data.json", ""):
        assert "is one .safetensors file" in sentence_of(ModelFileError, write_model, name, TENSORS, META)
    inside = file / "inside"
    assert "cannot be written" in sentence_of(ModelFileError, write_model, inside, TENSORS, META)


def killed_at(moment, file, functions=("write_model", "atomic_write")):
    """Save in a copy of this process that ends, as by kill -9, before so many lines; whether it ended so."""
    child = os.fork()
    if child == 0:
        left = moment

        def trace(frame, event, arg):
            nonlocal left
            if frame.f_code.co_name not in functions:
                return None
            left -= event == "line"
            if left < 0:
                os._exit(9)
            return trace

        sys.settrace(trace)
        write_model(file, TENSORS, {"k": "new"})
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def test_killed_at_every_line_of_saving_it_is_the_old_or_the_new_model(tmp_path, file):
    found = []
    while killed_at(len(found), file):
        tensors, meta = read_model(file)
        assert torch.equal(tensors["a"], TENSORS["a"])
        found.append(meta["k"])
        for path in tmp_path.iterdir():
            if path != file:
                os.utime(path, (0, time.time() - files._ABANDONED - 1))
        write_model(file, TENSORS, META)
        assert list(tmp_path.iterdir()) == [file], "what killed processes leave is removed"
        assert len(found) < 100
    assert len(found) > 20 and set(found) == {2, "new"}


def test_what_another_process_is_writing_stays(tmp_path, file):
    fresh = tmp_path / f".{file.name}.x.part"
    fresh.write_text("half")
    write_model(file, TENSORS, META)
    assert fresh.exists()
