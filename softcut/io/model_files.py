"""Models on disk: tensors as safetensors, everything else as JSON. Reading never executes code.

The two files belong together: the tensors carry a digest of the JSON part, and the JSON file a digest of the
tensors, so a damaged file, or halves of two models, are refused before anything is used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softcut.errors import ModelFileError
from softcut.files import atomic_write

if TYPE_CHECKING:  # reading graphs need not load torch
    from torch import Tensor

_FORMAT = "softcut-model"
_VERSION = 8
_DIGEST = "tensors_sha256"
CLASSIFIER = "graph classification"  # the kind of those that classify graphs; others cluster nodes
MAX_JSON_BYTES = 1 << 26  # of the JSON part: 64 MiB; raise it where larger models are meant


def _files(path: str | Path) -> tuple[Path, Path, Path]:
    """The common part of the two names, the JSON file, the file of tensors."""
    path = Path(path)
    stem = path.with_suffix("") if path.suffix in (".safetensors", ".json") else path
    return stem, stem.parent / f"{stem.name}.json", stem.parent / f"{stem.name}.safetensors"


def _canonical(meta: dict[str, Any]) -> bytes:
    """The JSON part as bytes that do not depend on spaces or the order of keys, without the tensors' digest."""
    rest = {key: value for key, value in meta.items() if key != _DIGEST}
    return json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def write_model(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Path:
    """Write ``<path>.safetensors`` and ``<path>.json``; returns the path without an ending.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_model(folder + "/m", {"a": torch.ones(2)}, {"k": 2})
    ...     tensors, meta = read_model(path)
    >>> tensors["a"].tolist(), meta["k"]
    ([1.0, 1.0], 2)
    """
    from safetensors.torch import save

    stem, json_path, tensor_path = _files(path)
    meta = {"format": _FORMAT, "version": _VERSION, **meta}
    try:
        digest = hashlib.sha256(_canonical(meta)).hexdigest()
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the model cannot be saved: {error}.") from error
    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    data = save(plain, metadata={"json_sha256": digest})
    text = json.dumps({**meta, _DIGEST: hashlib.sha256(data).hexdigest()}, indent=1)
    atomic_write(tensor_path, data)
    atomic_write(json_path, text.encode())
    return stem


def read_model(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON part of a saved model; either file's name, or the common part."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    stem, json_path, tensor_path = _files(path)
    damaged = f"the model at {stem} is damaged: "
    try:
        if json_path.stat().st_size > MAX_JSON_BYTES:
            raise ModelFileError(
                f"{json_path} is larger than {MAX_JSON_BYTES:,} bytes: it is not a softcut model "
                "(or raise softcut.io.model_files.MAX_JSON_BYTES)."
            )
        text, data = json_path.read_text(encoding="utf-8"), tensor_path.read_bytes()
    except FileNotFoundError as error:
        if Path(path).is_dir():
            inside = sorted(file.stem for file in Path(path).glob("*.safetensors"))
            advice = f"{Path(path) / inside[0]}" if inside else "the file that was saved with --model-out"
            raise ModelFileError(f"{path} is a folder, not a model: name {advice}.") from error
        raise ModelFileError(
            f"no model at {stem}: {Path(error.filename).name} is missing (a model is a .safetensors and a .json file)."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"the model at {stem} cannot be read: {error}.") from error
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{damaged}its JSON part cannot be read ({error}).") from error
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise ModelFileError(f"{stem}.json is not a softcut model.")
    if meta.get("version") != _VERSION:
        raise ModelFileError(f"the model at {stem} was written by another version of softcut; fit it again.")
    other = "{} is not the file that was saved with {}."
    if meta.get(_DIGEST) != hashlib.sha256(data).hexdigest():
        raise ModelFileError(damaged + other.format(tensor_path.name, json_path.name))
    try:
        tensors: dict[str, Tensor] = load(data)
        same = _metadata(data).get("json_sha256") == hashlib.sha256(_canonical(meta)).hexdigest()
    except (ValueError, KeyError, SafetensorError, RecursionError) as error:
        raise ModelFileError(f"{damaged}{error}.") from error
    if not same:
        raise ModelFileError(damaged + other.format(json_path.name, tensor_path.name))
    return tensors, meta


def what_it_is(meta: dict[str, Any]) -> str:
    """What a model is and what it can be used for, in words.

    >>> what_it_is({"kind": CLASSIFIER}).partition(":")[0]
    'a classifier of graphs, not a clustering of nodes'
    """
    if meta.get("kind") == CLASSIFIER:
        use = "softcut classify --model or GraphClassification.load"
        return f"a classifier of graphs, not a clustering of nodes: use it with {use}."
    name = str(meta.get("class"))[:40]
    return f"a clustering of nodes ({name}), not a classifier of graphs: use it with softcut predict or {name}.load."


def _metadata(data: bytes) -> dict[str, str]:
    """The metadata in the header of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length])["__metadata__"]
