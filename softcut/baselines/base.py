"""What the baselines share."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from softcut.errors import ParameterError
from softcut.graph import Graph


class Baseline(Protocol):
    """A function that clusters the nodes of a graph: one integer label per node."""

    def __call__(self, graph: Graph, n_clusters: int, random_state: int = 0) -> NDArray[np.int64]: ...


def check_n_clusters(graph: Graph, n_clusters: int) -> int:
    """The number of clusters as an int, or an error that names the argument."""
    if n_clusters != int(n_clusters) or not 1 <= n_clusters <= graph.num_nodes:
        raise ParameterError(
            f"n_clusters must be a whole number from 1 to the number of nodes ({graph.num_nodes}), "
            f"not {n_clusters}."
        )
    return int(n_clusters)
