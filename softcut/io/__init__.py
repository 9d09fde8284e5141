"""Files to graphs and features, graphs to files, and models to files and back."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softcut.io.graph_files import read_graph
    from softcut.io.model_files import read_model, write_model
    from softcut.io.readers import read_features
    from softcut.io.writers import write_graph

__all__ = ["read_features", "read_graph", "read_model", "write_graph", "write_model"]

# Imported on first use: the command line declares its options before it loads numpy.
_MODULES = {
    "read_features": "readers",
    "read_graph": "graph_files",
    "read_model": "model_files",
    "write_graph": "writers",
    "write_model": "model_files",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"softcut.io.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'softcut.io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
