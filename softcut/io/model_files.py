"""Models on disk: one safetensors file with the tensors, and everything else as JSON in its header.

Reading never executes code. One file is replaced in one step, so that a model saved over another is always one of the
two; a digest of both parts refuses a damaged file before anything is used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from softcut.errors import ModelFileError
from softcut.files import atomic_write

if TYPE_CHECKING:  # reading graphs need not load torch
    from torch import Tensor

_FORMAT = "softcut-model"
_VERSION = 10
_DIGEST = "sha256"
FILE_FIELDS = ("format", "version", _DIGEST)  # of the JSON part that are of the file, not of the model
_OLD_DIGEST = (
    "json_sha256"  # in the header of models up to version 7, which had their JSON part in a second file
)
CLASSIFIER = "graph classification"  # the kinds of those of whole graphs; others cluster nodes
REGRESSOR = "graph regression"
MAX_JSON_BYTES = 1 << 26  # of the JSON part: 64 MiB; raise it where larger models are meant


def model_file(path: str | Path) -> Path:
    """The file of a model: the path, with .safetensors where it does not end so.

    >>> model_file("results/model.v1").as_posix()
    'results/model.v1.safetensors'
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        return path
    if path.suffix == ".json" or not path.name:
        raise ModelFileError(f"{str(path)!r} cannot name a model, which is one .safetensors file.")
    return path.with_name(f"{path.name}.safetensors")


def place_for_model(path: str | Path) -> Path:
    """The file that a model can be saved as; an error where it is there and is no model of softcut's.

    >>> place_for_model("nowhere/model").name
    'model.safetensors'
    """
    file = model_file(path)
    if file.exists() and _header(file) is None:
        raise ModelFileError(f"{file} is not a softcut model and is not replaced: choose another name.")
    return file


def write_model(path: str | Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> Path:
    """Write ``<path>.safetensors``, which is returned; it replaces an older model, but no other file.

    >>> import tempfile, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_model(folder + "/m", {"a": torch.ones(2)}, {"k": 2})
    ...     tensors, meta = read_model(path)
    >>> path.name, tensors["a"].tolist(), meta["k"]
    ('m.safetensors', [1.0, 1.0], 2)
    """
    from safetensors import SafetensorError
    from safetensors.torch import save

    file = place_for_model(path)
    meta = {"format": _FORMAT, "version": _VERSION, **meta}
    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    try:
        text = json.dumps({**meta, _DIGEST: _digest(plain, meta)})
        if len(text) > MAX_JSON_BYTES:
            raise ValueError(f"its JSON part would be larger than {MAX_JSON_BYTES:,} bytes")
        return atomic_write(file, save(plain, metadata={_FORMAT: text}))
    except (TypeError, ValueError, SafetensorError) as error:
        raise ModelFileError(f"the model cannot be saved: {error}.") from error
    except OSError as error:
        raise ModelFileError(f"{file} cannot be written: {error.strerror or error}.") from error


def read_model(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON part of a saved model, with or without .safetensors in its name."""
    from safetensors import SafetensorError, safe_open

    file = model_file(path)
    if not file.exists():
        if Path(path).is_dir():
            inside = sorted(each.stem for each in Path(path).glob("*.safetensors"))
            advice = f"{Path(path) / inside[0]}" if inside else "the file that was saved with --model-out"
            raise ModelFileError(f"{path} is a folder, not a model: name {advice}.")
        raise ModelFileError(f"no model at {path}: {file.name} is missing.")
    header = _header(file)
    if header is None:
        raise ModelFileError(f"{file} is not a softcut model.")
    if _FORMAT not in header:
        _refuse_version(file)
    text = header[_FORMAT]
    if len(text) > MAX_JSON_BYTES:
        raise ModelFileError(
            f"the JSON part of {file} is larger than {MAX_JSON_BYTES:,} bytes "
            "(softcut.io.model_files.MAX_JSON_BYTES)."
        )
    try:
        meta = json.loads(text)
        if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
            raise ValueError("its JSON part is none of a model")
        if meta.get("version") != _VERSION:
            _refuse_version(file)
        with safe_open(file, "pt") as opened:
            tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        if meta.get(_DIGEST) != _digest(tensors, meta):
            raise ValueError("its parts are not those that were saved together")
    except ModelFileError:
        raise
    except (
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        MemoryError,
        RecursionError,
        SafetensorError,
    ) as error:
        raise ModelFileError(f"the model at {file} is damaged: {error}.") from error
    return tensors, meta


def what_it_is(meta: dict[str, Any]) -> str:
    """What a model is and what it can be used for, in words.

    >>> what_it_is({"kind": CLASSIFIER}).partition(":")[0]
    'a classifier of graphs'
    """
    name = str(meta.get("class"))[:40]
    what, command, name = {
        CLASSIFIER: ("a classifier of graphs", "classify --model", "GraphClassification"),
        REGRESSOR: ("a model of numbers of graphs", "regress --model", "GraphRegression"),
    }.get(str(meta.get("kind")), (f"a clustering of nodes ({name})", "predict", name))
    return f"{what}: use it with softcut {command} or {name}.load."


def one_line(error: Exception) -> str:
    """What an error says, in one line: PyTorch's are several."""
    return " ".join(str(error).split())


def _refuse_version(file: Path) -> NoReturn:
    raise ModelFileError(f"the model at {file} was written by another version of softcut; fit it again.")


def _header(file: Path) -> dict[str, str] | None:
    """The words in the header of a model's file; None where the file is none."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():  # a folder, or a pipe that nobody writes to
        return None
    try:
        with safe_open(file, "np") as opened:
            header = opened.metadata() or {}
    except (OSError, ValueError, SafetensorError):
        return None
    return header if _FORMAT in header or _OLD_DIGEST in header else None


def _digest(tensors: dict[str, Tensor], meta: dict[str, Any]) -> str:
    """A digest of both parts that does not depend on the order of keys, without the digest itself."""
    import torch

    rest = {key: value for key, value in meta.items() if key != _DIGEST}
    whole = hashlib.sha256(json.dumps(rest, sort_keys=True, allow_nan=False).encode())
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        if tensor.numel():
            whole.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
