"""The graph every part of softcut works on, checked once when it is made; lists of graphs, and their splits."""

from softcut.graph.checks import SelfLoops
from softcut.graph.collection import GraphCollection, from_graphs
from softcut.graph.graph import Graph
from softcut.graph.splits import Split, folds, hold_out

__all__ = ["Graph", "GraphCollection", "SelfLoops", "Split", "folds", "from_graphs", "hold_out"]
