"""The graph every part of softcut works on, checked once when it is made; lists of graphs, and their splits."""

from softcut.graph.collection import GraphCollection, Split, folds, from_graphs, hold_out
from softcut.graph.graph import Graph
from softcut.tables.choices import SelfLoops

__all__ = ["Graph", "GraphCollection", "SelfLoops", "Split", "folds", "from_graphs", "hold_out"]
