"""GraphClustering, and the steps a fit is made of; MinCutClustering, the paper's model."""

from softcut.clustering.estimator import GraphClustering, MinCutClustering
from softcut.clustering.networks import Replica
from softcut.clustering.recipe import PAPER, Recipe

__all__ = ["PAPER", "GraphClustering", "MinCutClustering", "Recipe", "Replica"]
