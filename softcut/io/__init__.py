"""Files to graphs and features, graphs to files, and models to files and back."""

from softcut.io.model_files import read_model, write_model
from softcut.io.readers import read_features, read_graph
from softcut.io.writers import write_graph

__all__ = ["read_features", "read_graph", "read_model", "write_graph", "write_model"]
