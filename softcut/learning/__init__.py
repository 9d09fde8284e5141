"""Supervised learning on lists of graphs: replicas of models, folds, the estimator."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from softcut.learning.estimator import GraphClassification
    from softcut.learning.experiment import ClassifierSettings, FoldResult, train_folds
    from softcut.learning.regression import GraphRegression
    from softcut.learning.structure_features import StructureFeatures, with_structure

_WHERE = {
    "ClassifierSettings": "experiment",
    "FoldResult": "experiment",
    "GraphClassification": "estimator",
    "GraphRegression": "regression",
    "StructureFeatures": "structure_features",
    "train_folds": "experiment",
    "with_structure": "structure_features",
}

__all__ = [
    "ClassifierSettings",
    "FoldResult",
    "GraphClassification",
    "GraphRegression",
    "StructureFeatures",
    "train_folds",
    "with_structure",
]


def __getattr__(name: str) -> Any:
    """Loaded when first used: reading data needs no PyTorch."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
