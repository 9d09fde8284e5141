"""MinCutClustering, and the steps a fit is made of."""

from softcut.clustering.estimator import MinCutClustering
from softcut.clustering.replicas import Replica
from softcut.clustering.settings import PRESETS

__all__ = ["PRESETS", "MinCutClustering", "Replica"]
