"""Supervised learning on lists of graphs: collections, folds, replicas of models, the estimator."""

from softcut.classification.collection import GraphCollection, from_graphs
from softcut.classification.features import StructureFeatures, with_structure
from softcut.classification.splits import Split, folds

__all__ = ["GraphCollection", "Split", "StructureFeatures", "folds", "from_graphs", "with_structure"]
