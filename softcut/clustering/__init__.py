"""MinCutClustering, and the steps a fit is made of."""

from softcut.clustering.estimator import PRESETS, MinCutClustering, Replica

__all__ = ["PRESETS", "MinCutClustering", "Replica"]
