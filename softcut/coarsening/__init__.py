"""Coarsening of graphs ahead of training, without PyTorch: Graclus, node decimation, and their cache."""

from softcut.coarsening.graclus import Graclus, graclus_matching
from softcut.coarsening.levels import CoarseningCache, Level, clean, hierarchy
from softcut.coarsening.node_decimation import NodeDecimation, kron_reduction, max_cut_split

__all__ = [
    "CoarseningCache",
    "Graclus",
    "Level",
    "NodeDecimation",
    "clean",
    "graclus_matching",
    "hierarchy",
    "kron_reduction",
    "max_cut_split",
]
