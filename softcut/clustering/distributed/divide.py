"""A graph made ready for distributed training: features as the networks read them, and parts on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from softcut.clustering.node_features import FeatureMap, rows_that_sum_to_one, structural_features
from softcut.clustering.prepare import featureless
from softcut.clustering.recipe import Recipe
from softcut.errors import GraphError
from softcut.graph import Graph
from softcut.graph.partition import PartitionMethod, crossing_share, partition_nodes
from softcut.io.part_files import Manifest, write_parts
from softcut.metrics.features import looked_at, looks_like_words, presence, principal_axes


def partition(
    graph: Graph,
    parts: int,
    out: str | Path,
    *,
    method: PartitionMethod = "auto",
    paper: bool = False,
    n_components: int = 64,
    seed: int = 0,
) -> Manifest:
    """Divide a graph into parts for :mod:`softcut.clustering.distributed`, and write them into a folder.

    >>> import tempfile
    >>> from softcut.datasets import attributed_communities
    >>> graph = attributed_communities(n_nodes=100, n_clusters=2, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest = partition(graph, 2, Path(folder, "parts"), method="contiguous")
    >>> manifest.rows
    (50, 50)

    Parameters
    ----------
    graph : Graph
        A single graph.
    parts : int
        How many: one per process that will train.
    out : path
        A new folder.
    method : {"auto", "metis", "contiguous", "random"}
        How nodes are divided; see :func:`softcut.graph.partition.partition_nodes`.
    paper : bool
        Whose networks will read the features. False: features projected to `n_components` columns, as
        :class:`softcut.GraphClustering` does, or structural features where there are none. True: the network of the
        paper, which reads the features as they are, rows that sum to one.
    n_components : int
        Columns that features are reduced to.
    seed : int
        Of the division.
    """
    if graph.num_graphs > 1:
        raise GraphError(f"graph is a batch of {graph.num_graphs} graphs; divide each of them by itself.")
    owner, used = partition_nodes(graph.adjacency, parts, method, seed)
    structural = featureless(graph) is not None
    x, words, source = _features(graph, paper, structural, n_components)
    axes = None  # what clusterings of measurements are judged by
    if words is not None and graph.x is not None and not looks_like_words(graph.x):
        axes = looked_at(graph.num_nodes), principal_axes(graph.x)
    about = {
        "paper": paper,
        "structural": structural and not paper,
        "method": used,
        "features": source,
        "crossing_share": crossing_share(graph.adjacency, owner),
    }
    return write_parts(
        out, graph.adjacency, owner, x=x, words=words, axes=axes, names=graph.node_names, about=about
    )


def _features(
    graph: Graph, paper: bool, structural: bool, n_components: int
) -> tuple[np.ndarray, sp.csr_array | None, str]:
    """The columns that networks read, the words that clusterings are judged by, and where the columns come from."""
    if paper:
        rows = rows_that_sum_to_one(graph)
        dense = rows.toarray() if sp.issparse(rows) else rows
        return np.asarray(dense, dtype=np.float32), presence(graph.x), "rows that sum to one"
    if structural:
        return structural_features(graph), None, "leading eigenvectors of the normalised adjacency"
    columns = FeatureMap.fit(graph.x, Recipe(components=n_components)).transform(graph.x)
    source = f"{graph.num_features} features projected to {columns.shape[1]} columns"
    return columns, presence(graph.x), source
