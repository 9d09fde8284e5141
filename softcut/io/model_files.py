"""Models on disk: tensors as safetensors, everything else as JSON. Reading never executes code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from softcut.errors import ModelFileError
from softcut.files import atomic_write

__all__ = ["read_model", "write_model"]

_FORMAT = "softcut-model"
_VERSION = 2


def _stem(path: str | Path) -> Path:
    path = Path(path)
    return path.with_suffix("") if path.suffix in (".safetensors", ".json") else path


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

    stem = _stem(path)
    data = save({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()})
    text = json.dumps({"format": _FORMAT, "version": _VERSION, **meta}, indent=1)
    atomic_write(stem.parent / (stem.name + ".safetensors"), data)
    atomic_write(stem.parent / (stem.name + ".json"), text.encode())
    return stem


def read_model(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the JSON part of a saved model; either file's name, or the common part."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    stem = _stem(path)
    try:
        text = (stem.parent / (stem.name + ".json")).read_text(encoding="utf-8")
        data = (stem.parent / (stem.name + ".safetensors")).read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(
            f"no model at {stem}: {Path(error.filename).name} is missing (a model is a .safetensors and a .json file)."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"the model at {stem} cannot be read: {error}.") from error
    try:
        meta = json.loads(text)
        tensors: dict[str, torch.Tensor] = load(data)
    except (ValueError, SafetensorError) as error:
        raise ModelFileError(f"the model at {stem} is damaged: {error}.") from error
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise ModelFileError(f"{stem}.json is not a softcut model.")
    if meta.get("version") != _VERSION:
        raise ModelFileError(f"the model at {stem} was written by another version of softcut; fit it again.")
    return tensors, meta
