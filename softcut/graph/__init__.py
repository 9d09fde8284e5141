"""The graph every part of softcut works on, checked once when it is made."""

from softcut.graph.checks import SelfLoops
from softcut.graph.graph import Graph

__all__ = ["Graph", "SelfLoops"]
