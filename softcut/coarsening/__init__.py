"""Coarsening of graphs ahead of training, without PyTorch: Graclus, node decimation, and their cache."""

from softcut.coarsening.graclus import Graclus, graclus_matching
from softcut.coarsening.kron import kron_reduction
from softcut.coarsening.levels import Coarsening, CoarseningCache, Level, hierarchy
from softcut.coarsening.matrices import clean
from softcut.coarsening.max_cut import max_cut_split
from softcut.coarsening.node_decimation import NodeDecimation

__all__ = [
    "Coarsening",
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
