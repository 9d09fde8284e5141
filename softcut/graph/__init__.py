"""The graph every part of softcut works on, checked once when it is made."""

from softcut.graph.graph import Graph, SelfLoops

__all__ = ["Graph", "SelfLoops"]
