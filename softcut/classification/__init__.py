"""Supervised learning on lists of graphs: collections, folds, replicas of models, the estimator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softcut.classification.collection import GraphCollection, from_graphs
    from softcut.classification.estimator import GraphClassification
    from softcut.classification.experiment import ClassifierSettings, FoldResult, train_folds
    from softcut.classification.features import StructureFeatures, with_structure
    from softcut.classification.splits import Split, folds

_WHERE = {
    "FoldResult": "experiment",
    "GraphClassification": "estimator",
    "GraphCollection": "collection",
    "Split": "splits",
    "StructureFeatures": "features",
    "ClassifierSettings": "experiment",
    "folds": "splits",
    "from_graphs": "collection",
    "train_folds": "experiment",
    "with_structure": "features",
}

__all__ = [
    "ClassifierSettings",
    "FoldResult",
    "GraphClassification",
    "GraphCollection",
    "Split",
    "StructureFeatures",
    "folds",
    "from_graphs",
    "train_folds",
    "with_structure",
]


def __getattr__(name: str) -> Any:
    """Loaded when first used: reading data needs no PyTorch."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
