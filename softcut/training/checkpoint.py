"""Checkpoints of a training: written whole or not at all, and refused when the settings differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from softcut.errors import FileFormatError, ParameterError
from softcut.files import atomic_write

__all__ = ["Checkpoint"]


@dataclass(frozen=True)
class Checkpoint:
    """Where a training is saved, how often, and which training it belongs to.

    Attributes
    ----------
    path : path
        The file; training resumes from it where it exists. The caller removes it once the result is stored.
    identity : mapping
        Whatever decides the result besides the loop's own settings: data set, method, seeds, settings of the task.
        A file with another identity is refused.
    every : float
        Seconds between two writings.
    """

    path: str | Path
    identity: Mapping[str, Any] = field(default_factory=dict)
    every: float = 60.0

    def write(self, state: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Write a state (tensors, numbers, text, lists and dictionaries of them), replacing the file at once."""
        described = {**state, "described": _describe(self.identity, settings)}
        atomic_write(self.path, lambda file: torch.save(described, file))

    def read(self, settings: Mapping[str, Any], device: torch.device) -> dict[str, Any] | None:
        """The state last written, or None where there is no file; an error where it belongs to other settings."""
        path = Path(self.path)
        if not path.exists():
            return None
        try:
            state = torch.load(path, map_location=device, weights_only=True)
            stored = json.loads(state["described"])
        except Exception as error:
            raise FileFormatError(f"{path} is not a checkpoint of softcut; move it away.") from error
        expected = json.loads(_describe(self.identity, settings))
        changed = [name for name in {**stored, **expected} if stored.get(name) != expected.get(name)]
        if changed:
            name = changed[0]
            raise ParameterError(
                f"checkpoint {path} was written with {name} = {stored.get(name)}, not {expected.get(name)}: "
                "train with the same settings, or move it away."
            )
        return state


def _describe(identity: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    return json.dumps({**settings, **identity}, sort_keys=True, default=str)
