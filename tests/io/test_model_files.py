"""Model files: what is written comes back, and every kind of damage is one sentence."""

import hashlib
import json

import pytest
import torch
from helpers.refusals import refuses, sentence_of

from softcut.errors import ModelFileError
from softcut.io import model_files, read_model, write_model

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, -2])}
META = {"k": 2, "name": "Zoë", "list": [1, None, True]}


@pytest.fixture
def stem(tmp_path):
    return write_model(tmp_path / "model.v1", TENSORS, META)


def test_what_is_written_comes_back(tmp_path, stem):
    assert stem == tmp_path / "model.v1"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.v1.json", "model.v1.safetensors"]
    for path in (stem, f"{stem}.json", f"{stem}.safetensors"):
        tensors, meta = read_model(path)
        assert set(tensors) == {"a", "b"}
        assert torch.equal(tensors["a"], TENSORS["a"])
        assert torch.equal(tensors["b"], TENSORS["b"])
        assert {key: meta[key] for key in META} == META
        assert (meta["format"], meta["version"]) == ("softcut-model", 8)
    assert write_model(tmp_path / "other.json", TENSORS, META) == tmp_path / "other"


def test_views_of_other_tensors_are_written_whole(tmp_path):
    base = torch.arange(12.0).reshape(3, 4).requires_grad_()
    tensors, _ = read_model(write_model(tmp_path / "m", {"x": base.T, "y": base[0], "z": base}, {}))
    assert torch.equal(tensors["x"], base.detach().T)
    assert torch.equal(tensors["y"], base.detach()[0])


def rewrite(stem, change):
    path = stem.parent / "model.v1.json"
    meta = json.loads(path.read_text())
    change(meta)
    path.write_text(json.dumps(meta))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda meta: meta.update(format="other"), "is not a softcut model"),
        (lambda meta: meta.pop("format"), "is not a softcut model"),
        (lambda meta: meta.update(version=7), "written by another version"),
        (lambda meta: meta.update(version=9), "written by another version"),
        (lambda meta: meta.update(tensors_sha256="0" * 64), "model.v1.safetensors is not the file"),
        (lambda meta: meta.pop("tensors_sha256"), "model.v1.safetensors is not the file"),
        (lambda meta: meta.update(k=3), "model.v1.json is not the file"),
        (lambda meta: meta.update(more=3), "model.v1.json is not the file"),
    ],
)
def test_a_changed_json_part(stem, change, words):
    rewrite(stem, change)
    assert words in sentence_of(ModelFileError, read_model, stem)


def test_spaces_and_order_do_not_matter(stem):
    path = stem.parent / "model.v1.json"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(meta.items())), indent=7))
    assert read_model(stem)[1]["k"] == 2


@pytest.mark.parametrize("text", [b"{oops", b"[1]", b"3", b"[" * 100_000, b"\xff\xfe\x00"])
def test_a_json_part_that_is_none(stem, text):
    (stem.parent / "model.v1.json").write_bytes(text)
    refuses(ModelFileError, r"cannot be read|is not a softcut model", read_model, stem)


def test_tensors_that_are_none_or_of_another_model(tmp_path, stem):
    write_model(tmp_path / "two", {"a": torch.zeros(1)}, META)
    (stem.parent / "model.v1.safetensors").write_bytes((tmp_path / "two.safetensors").read_bytes())
    refuses(
        ModelFileError, r"v1.safetensors is not the file that was saved with model.v1.json", read_model, stem
    )
    data = b"nonsense that is no safetensors file"
    (stem.parent / "model.v1.safetensors").write_bytes(data)
    rewrite(stem, lambda meta: meta.update(tensors_sha256=hashlib.sha256(data).hexdigest()))
    refuses(ModelFileError, "is damaged", read_model, stem)


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_a_half_that_is_missing(stem, ending):
    (stem.parent / f"model.v1.{ending}").unlink()
    refuses(ModelFileError, rf"no model at .*model.v1.{ending} is missing", read_model, stem)


def test_the_limit_of_the_json_part(stem, monkeypatch):
    assert model_files.MAX_JSON_BYTES == 64 * 2**20
    size = (stem.parent / "model.v1.json").stat().st_size
    monkeypatch.setattr(model_files, "MAX_JSON_BYTES", size)
    read_model(stem)
    monkeypatch.setattr(model_files, "MAX_JSON_BYTES", size - 1)
    refuses(ModelFileError, "is larger than", read_model, stem)


@pytest.mark.parametrize("value", [float("nan"), {1, 2}])
def test_what_json_does_not_know_cannot_be_saved(tmp_path, value):
    refuses(ModelFileError, "cannot be saved", write_model, tmp_path / "m", TENSORS, {"value": value})
    assert list(tmp_path.iterdir()) == []
